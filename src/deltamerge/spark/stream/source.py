"""The data source that Spark registers for a stream, and its reader, by PySpark's API for data sources in Python.

Both are shipped by value. The planner comes packed, so that executors, who only read, need not open it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from deltamerge.worker.entry import rows_of
from deltamerge.worker.scan.scan import ScanSpec


class StreamReader(DataSourceStreamReader):
    """Reads a table as PySpark 4.0 and 4.1 ask for it, who say no limit and not where a batch begins."""

    def __init__(self, planner: bytes, scan: ScanSpec, schema: pa.Schema) -> None:
        self._packed: bytes | None = planner
        self._planner: Any = None
        self._scan, self._schema = scan, schema

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None, "_planner": None}

    def planner(self) -> Any:
        """What plans the batches, made when it is first asked for something."""
        if self._planner is None:
            assert self._packed is not None
            self._planner = cloudpickle.loads(zlib.decompress(self._packed))()
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.planner().start())

    def latestOffset(self, *given: Any) -> dict[str, Any]:
        return cast("dict[str, Any]", self.planner().next_end())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(cloudpickle.dumps(tasks)) for tasks in self.planner().tasks(start, end)]  # type: ignore[no-untyped-call]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return rows_of(self._scan, cloudpickle.loads(partition.value), self._schema)


def reader_class() -> type[StreamReader]:
    """The reader that this PySpark can use to the full."""
    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
    except ImportError:
        return StreamReader

    class LimitedReader(StreamReader, SupportsTriggerAvailableNow):
        """Reads a table as PySpark 4.2 and later ask for it."""

        def getDefaultReadLimit(self) -> ReadMaxFiles:
            return ReadMaxFiles(1)  # which limit there is the planner knows

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            return cast("dict[str, Any]", self.planner().end(start, not isinstance(limit, ReadAllAvailable)))

        def prepareForTriggerAvailableNow(self) -> None:
            self.planner().bound()

    return LimitedReader


def source_class(name: str, columns: StructType, planner: bytes, scan: ScanSpec) -> type[DataSource]:
    """The data source of one stream, which Spark finds by its name."""

    class DeltaStream(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return columns

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            utc: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
            return reader_class()(planner, scan, to_arrow_schema(schema, **utc))

    return DeltaStream
