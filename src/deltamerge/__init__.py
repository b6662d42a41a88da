"""MERGE INTO for Delta Lake tables in pure Python, on PySpark: no JAR, classic Spark and Spark Connect alike.

What is imported is imported when it is first asked for: `import deltamerge` takes no longer than `import delta`.
"""

from __future__ import annotations

from deltamerge.spark.pyspark import version as _checked  # noqa: F401 - refuses a PySpark that nothing else can use

# isort: split

import importlib
from typing import TYPE_CHECKING, Any

from deltamerge._version import __version__

if TYPE_CHECKING:
    from deltamerge.activation import activate, deactivate
    from deltamerge.functions import read, read_changes, sql, write
    from deltamerge.tables import DeltaTable

__all__ = ["DeltaTable", "__version__", "activate", "deactivate", "read", "read_changes", "sql", "write"]

_PLACES = {
    "DeltaTable": "deltamerge.tables",
    "activate": "deltamerge.activation",
    "deactivate": "deltamerge.activation",
    "read": "deltamerge.functions",
    "read_changes": "deltamerge.functions",
    "sql": "deltamerge.functions",
    "write": "deltamerge.functions",
}
_MODULES = ("errors", "exceptions", "streaming", "tables")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"deltamerge.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'deltamerge' has no attribute {name!r}")
    found = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
