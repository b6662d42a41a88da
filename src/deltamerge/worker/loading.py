"""Unpacking work where it runs: the library's code is loaded once a process, by the digest of its files.

This module alone is sent with every job as it stands; so it is small, and each function imports what it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def unpacking(root: str, code: bytes, work: bytes, name: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function that does packed `work`, with modules below `root` that it loads from `code` where they are not yet.

    Spark shows its `name`.
    """

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        return iter(unpacked(root, code, work)(batches))

    run.__name__ = name
    return run


def unpacked(root: str, code: bytes, packed: bytes) -> Any:
    """A value that was pickled by name, its names below `root` in place of `deltamerge`."""
    import io
    import pickle

    install(root, code)

    class Renaming(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            parts = module.split(".")
            return super().find_class(".".join([root, *parts[1:]]) if parts[0] == "deltamerge" else module, name)

    return Renaming(io.BytesIO(packed)).load()


def install(root: str, code: bytes) -> None:
    """Let modules below `root` be imported from marshalled code. Does nothing where they can be."""
    import importlib.abc
    import importlib.machinery
    import marshal
    import sys
    import zlib

    if any(getattr(finder, "root", None) == root for finder in sys.meta_path):
        return
    modules = marshal.loads(zlib.decompress(code))  # noqa: S302  # it comes from the driver, as all code of a job

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
            if name not in modules:
                return None
            return importlib.machinery.ModuleSpec(name, self, is_package=modules[name][0])

        def exec_module(self, module: Any) -> None:
            exec(modules[module.__name__][1], module.__dict__)  # noqa: S102

    finder = Finder()
    finder.root = root  # type: ignore[attr-defined]
    sys.meta_path.append(finder)
