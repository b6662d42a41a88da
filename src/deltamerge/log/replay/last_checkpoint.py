"""The pointer to the newest checkpoint, `_last_checkpoint`: a hint that is never trusted with more than where to look.

Source: PROTOCOL.md, "Last Checkpoint File Schema" and "JSON checksum".
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from deltamerge.storage import NotFound, Store

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"

# What is in it costs some twenty times its bytes. delta-spark lists at most 30 actions and 30 sidecars in it.
_MOST_BYTES = 4 << 20

log = logging.getLogger("deltamerge.log")


def read_pointer(store: Store) -> int | None:
    """The version that `_last_checkpoint` points to; a missing or damaged pointer only costs a longer listing."""
    try:
        value = json.loads(store.read(LAST_CHECKPOINT, _MOST_BYTES).decode(), parse_float=_Text, object_pairs_hook=_unique)
        version = int(value["version"])
        stored = value.get("checksum")
        if stored is not None and stored not in (pointer_checksum(value), pointer_checksum(value, by_path=False)):
            raise ValueError("its checksum does not fit its content")
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        log.warning("%s of %s is passed over: %s", LAST_CHECKPOINT, store.url, error)
        return None
    return version if 0 <= version < 10**19 else None


def write_pointer(store: Store, value: Mapping[str, Any]) -> None:
    """Write `_last_checkpoint` with its checksum. Raises StorageError."""
    whole = {**value, "checksum": pointer_checksum(value)}
    store.put(LAST_CHECKPOINT, json.dumps(whole, separators=(",", ":")).encode())


def pointer_checksum(value: Mapping[str, Any], by_path: bool = True) -> str:
    """The MD5 of the canonical form of a JSON object, its key `checksum` left out.

    The protocol sorts by path; delta-spark sorts the texts of path and value, which differs in lists of more than ten.
    """
    pairs = _leaves({name: item for name, item in value.items() if name != "checksum"}, ())
    texts = [f"{path}={leaf}" for path, leaf in sorted(pairs)]
    text = ",".join(texts if by_path else sorted(texts))
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


class _Text(str):
    """A JSON number as it was written, which the checksum is made of."""

    __slots__ = ()


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, (*path, _quoted(name)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, str(number)))
    else:
        yield "+".join(path), _leaf(value)


def _leaf(value: Any) -> str:
    if isinstance(value, _Text):
        return str(value)
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it names a key twice")
    return found
