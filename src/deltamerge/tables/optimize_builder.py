"""`DeltaTable.optimize()`: small files put together, rows laid out by columns."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from deltamerge.commands.layout.optimize import Optimize, optimize_table
from deltamerge.exceptions import catchable
from deltamerge.log.replay.table import DeltaLog


class DeltaOptimizeBuilder:
    """An OPTIMIZE: limited by `where`, run by `executeCompaction` or `executeZOrderBy`.

    Both return one row: the table's path, and delta-spark's metrics, of which sizes are in bytes.
    """

    def __init__(self, spark: SparkSession, log: DeltaLog, request: Optimize) -> None:
        self._spark = spark
        self._log = log
        self._request = request

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only files of the partitions for which a predicate about partition columns is true."""
        if not isinstance(partitionFilter, str):
            raise TypeError(f"'partitionFilter' in where must be a string, found to be of type {type(partitionFilter)!s}")
        request = replace(self._request, predicates=(*self._request.predicates, partitionFilter))
        return DeltaOptimizeBuilder(self._spark, self._log, request)

    @catchable
    def executeCompaction(self) -> DataFrame:
        """Put small files together, and those of which many rows are deleted.

        Raises an AnalysisException for a predicate about other columns, a ConcurrentDeleteReadException when another
        transaction has changed one of the files meanwhile.
        """
        return optimize_table(self._spark, self._log, self._request)

    @catchable
    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Write all files again, rows with values near each other in all of the columns `cols` near each other."""
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"Z-order column must be str. Found {name!s} with type {type(name)!s}")
        return optimize_table(self._spark, self._log, replace(self._request, z_order=tuple(map(str, names))))
