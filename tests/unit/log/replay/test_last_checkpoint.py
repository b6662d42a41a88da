"""The pointer to the newest checkpoint: its checksum, and what makes it worthless."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from deltamerge.log.replay.last_checkpoint import LAST_CHECKPOINT, pointer_checksum, read_pointer, write_pointer
from deltamerge.storage.local import LocalStore

SAMPLE = (
    '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], '
    '{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
)


def test_the_checksum_is_that_of_the_protocols_example() -> None:
    assert pointer_checksum(json.loads(SAMPLE)) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_literals_keep_their_form() -> None:
    assert pointer_checksum({"a": None, "b": True, "c": 1}) == pointer_checksum({"c": 1, "b": True, "a": None, "checksum": "x"})
    assert pointer_checksum({"a": None}) != pointer_checksum({"a": "null"})


def test_a_pointer_is_read_back(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    write_pointer(store, {"version": 7, "size": 3, "v2Checkpoint": {"path": "ä b.json", "sizeInBytes": 1}})
    assert json.loads(store.read(LAST_CHECKPOINT))["checksum"]
    assert read_pointer(store) == 7


def test_the_checksum_of_delta_spark_is_sorted_otherwise(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    value = {"version": 7, "list": list(range(12))}
    assert pointer_checksum(value) != pointer_checksum(value, by_path=False)
    store.put(LAST_CHECKPOINT, json.dumps({**value, "checksum": pointer_checksum(value, by_path=False)}).encode())
    assert read_pointer(store) == 7


@pytest.mark.parametrize(
    "text",
    [
        '{"version":7,"size":3,"checksum":"6a92d155a59bf2eecbd4b4ec7fd1f875"}',
        '{"version":7,"version":8}',
        '{"version":-1}',
        "[" * 100_000,
        "\xff",
    ],
    ids=["checksum", "twice", "negative", "deep", "bytes"],
)
def test_a_worthless_pointer_is_passed_over(tmp_path: Path, text: str) -> None:
    store = LocalStore(str(tmp_path))
    store.put(LAST_CHECKPOINT, text.encode("latin-1"))
    assert read_pointer(store) is None


def test_a_number_keeps_its_digits_in_the_checksum(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    checksum = hashlib.md5(b'"version"=7,"x"=1.50').hexdigest()
    store.put(LAST_CHECKPOINT, f'{{"version":7,"x":1.50,"checksum":"{checksum}"}}'.encode())
    assert read_pointer(store) == 7
