"""Code and data packed for a process that may not have this library."""

from __future__ import annotations

import io
import threading
import zlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from pyspark import cloudpickle
from pyspark.cloudpickle import CloudPickler

import deltamerge.log
import deltamerge.spark.stages
import deltamerge.spark.stream
import deltamerge.storage
from deltamerge.spark.stream.planner import Planner, StreamSpec

# By value only while a planner is packed: what else is pickled names these packages, as users may expect.
_PACKAGES: Any = (deltamerge.log, deltamerge.storage, deltamerge.spark.stages, deltamerge.spark.stream)
_LOCK = threading.Lock()


class _Pickler(CloudPickler):
    """Pickles what cloudpickle does not: cached properties, which have a lock before Python 3.12."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, cached_property):
            return cached_property, (obj.func,), {"attrname": obj.attrname, "__doc__": obj.__doc__}
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def packed_planner(spec: StreamSpec) -> bytes:
    """A function without arguments that makes the planner, packed."""
    return _packed(partial(Planner, spec))


def by_value(make: Callable[[], Any]) -> Any:
    """What `make` returns, while Spark pickles this folder by value."""
    with _LOCK:
        for package in _PACKAGES:
            cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
        try:
            return make()
        finally:
            for package in _PACKAGES:
                cloudpickle.unregister_pickle_by_value(package)  # type: ignore[no-untyped-call]


def _packed(value: Any) -> bytes:
    def pack() -> bytes:
        file = io.BytesIO()
        _Pickler(file).dump(value)  # type: ignore[no-untyped-call]
        return zlib.compress(file.getvalue())

    found: bytes = by_value(pack)
    return found
