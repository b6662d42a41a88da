"""Work for Spark's workers, which need not have this library: its modules' code goes along, and a process loads it once.

Pickled by value, the code was packed anew for each job and unpacked for each task (`docs/decisions/0030-code-once-a-process.md`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import pickle
import pkgutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, ModuleType

import pyarrow as pa
from pyspark import cloudpickle

import deltamerge.budgets
import deltamerge.disk
import deltamerge.errors
import deltamerge.protocol
import deltamerge.worker
from deltamerge.worker.entry import ArrowMap, Batches, Work
from deltamerge.worker.loading import unpacking

_SHIPPED: tuple[ModuleType, ...] = (
    deltamerge.worker,
    deltamerge.protocol,
    deltamerge.errors,
    deltamerge.budgets,
    deltamerge.disk,
)
for _module in _SHIPPED:  # for what is not shipped by its files: data sources, streams
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Code:
    """The marshalled code of modules, packed, that are to be imported below `root`."""

    root: str
    packed: bytes


def shipped(work: Work) -> ArrowMap:
    """The work as a function for `mapInArrow`, whose process need not have this library.

    By value where the code of its modules is not to be had.
    """
    code = code_of_files()
    if code is None:
        return _by_value(work)
    return unpacking(code.root, code.packed, pickle.dumps(work, pickle.HIGHEST_PROTOCOL), work.name)


def _by_value(work: Work) -> ArrowMap:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        return work(batches)

    run.__name__ = work.name
    return run


@cache
def code_of_files() -> Code | None:
    """The code of all modules that workers import; None where a loader gives none."""
    found = {}
    for name in _names():
        spec = importlib.util.find_spec(name)
        code = getattr(spec.loader, "get_code", lambda _: None)(name) if spec is not None else None
        if not isinstance(code, CodeType):
            return None
        found[name] = (spec is not None and spec.submodule_search_locations is not None, code)
    digest = hashlib.sha256(b"".join(marshal.dumps((name, *value)) for name, value in sorted(found.items())))
    root = f"_deltamerge_{digest.hexdigest()[:16]}"
    modules = {root: (True, compile("", root, "exec"))}
    modules |= {_renamed(name, root): (is_package, _importing_from(code, root)) for name, (is_package, code) in found.items()}
    return Code(root, zlib.compress(marshal.dumps(modules), 1))


def _names() -> list[str]:
    found = []
    for module in _SHIPPED:
        found.append(module.__name__)
        if hasattr(module, "__path__"):
            found += [each.name for each in pkgutil.walk_packages(module.__path__, f"{module.__name__}.")]
    return found


def _renamed(name: str, root: str) -> str:
    return root + name[len("deltamerge") :] if name.split(".", maxsplit=1)[0] == "deltamerge" else name


def _importing_from(code: CodeType, root: str) -> CodeType:
    """The code with imports from below `root`: in code, names with dots are those of modules alone."""
    return code.replace(
        co_names=tuple(_renamed(name, root) if name.startswith("deltamerge.") else name for name in code.co_names),
        co_consts=tuple(_importing_from(each, root) if isinstance(each, CodeType) else each for each in code.co_consts),
    )
