"""The numbers by which rows are sent to the task that owns their file."""

from __future__ import annotations

import pytest

from deltamerge.spark.stages.exchange.shuffle import murmur3, partition_keys


@pytest.mark.parametrize(
    ("value", "hash"),
    [
        (0, 933211791),
        (1, -559580957),
        (-1, -1604776387),
        (42, 29417773),
        (2147483647, 133916647),
        (-2147483648, 723455942),
    ],
)
def test_the_hash_is_sparks_hash_of_an_int(value: int, hash: int) -> None:
    assert murmur3(value) == hash


@pytest.mark.parametrize(
    ("value", "hash"),
    [(0, 593689054), (-42, -189366624), (42, -1134849565), (-2147483648, -1718298732), (2147483647, -1653689534)],
)
def test_the_hash_without_a_seed_is_that_of_sparks_own_tests(value: int, hash: int) -> None:
    assert murmur3(value, seed=0) == hash


@pytest.mark.parametrize("count", [1, 2, 7, 64, 513])
def test_every_partition_has_a_key_of_its_own_that_hashes_to_it(count: int) -> None:
    keys = partition_keys(count)
    assert [murmur3(key) % count for key in keys] == list(range(count))
    assert len(set(keys)) == count
    assert all(0 <= key < 2**31 for key in keys)
