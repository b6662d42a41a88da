"""The identity of data files: one spelling for every way in which a log may write the same path.

Source: PROTOCOL.md, "Add File and Remove File" (a path is a URI, relative to the table or absolute); delta-spark's
InMemoryLogReplay for absolute paths without a scheme. Must not know actions or stores.
"""

from __future__ import annotations

import re
from posixpath import normpath
from urllib.parse import quote, unquote, unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

_PLAIN = re.compile(r"[A-Za-z0-9._~/=-]+")
_ODD = r"^$|[^A-Za-z0-9._~/=-]|//|^/|(^|/)\.\.?(/|$)"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_SAME = {"s3a": "s3", "s3n": "s3"}


class PathEscapes(ValueError):
    """A relative path leads out of the table's folder."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the path {path!r} leads out of the table's folder")


def canonical_path(path: str) -> str:
    """The one spelling of a path in the log: percent-encoded, without dot segments, local files without a scheme.

    Raises PathEscapes for a path, relative or opaque, that leads out of the table, ValueError for one with a zero byte.
    """
    if _PLAIN.fullmatch(path) and "/." not in path and "//" not in path and path[0] not in "./":
        return path
    if "\0" in unquote(path):
        raise ValueError(f"the path {path!r} has a zero byte, which no file's name has")
    found = _URL.fullmatch(path)
    prefix, rest = "", path
    if found:
        scheme = found[1].lower()
        prefix = "" if scheme == "file" else f"{_SAME.get(scheme, scheme)}://{found[2] or ''}"
        rest = found[3]
        if not rest.startswith("/"):  # an opaque URI: only it itself
            if ".." in unquote(rest).split("/"):
                raise PathEscapes(path)
            return path
    rest = quote(unquote_to_bytes(rest), safe="/=~")
    rest = normpath(re.sub("/{2,}", "/", rest))
    if not found and (rest in ("..", ".") or rest.startswith("../")):
        raise PathEscapes(path)
    return prefix + rest


def canonical_paths(paths: pa.Array) -> pa.Array:
    """`canonical_path` of each path; cheap where nothing needs to be changed. Raises ValueError."""
    odd = pc.match_substring_regex(paths, _ODD)
    if not pc.any(odd).as_py():
        return paths
    changed = pa.array([canonical_path(path) for path in paths.filter(odd).to_pylist()], pa.string())
    return pc.replace_with_mask(paths, odd, changed)
