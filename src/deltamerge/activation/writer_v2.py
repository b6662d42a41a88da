"""The `DataFrameWriterV2` of an active session's DataFrames: it writes Delta tables by this library, all else as Spark's does.

Columns go by their names, as in Delta's catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from deltamerge.activation.conditions import condition_text
from deltamerge.activation.saving import create_by_name
from deltamerge.activation.writer import Telling, is_delta, written_by_name
from deltamerge.commands.rows.request import DYNAMIC
from deltamerge.commands.table.create import Creation
from deltamerge.errors import AnalysisError
from deltamerge.exceptions import catchable
from deltamerge.spark.expressions.expression import from_user
from deltamerge.spark.pyspark.adapter import named_by
from deltamerge.spark.read.catalog import is_path
from deltamerge.spark.session.frames import Column
from deltamerge.spark.sql.text import name_parts_of


class WritingV2(Telling):
    """What `df.writeTo(name)` does otherwise for Delta tables."""

    deltamerge_name: str
    deltamerge_format: str | None = None

    def using(self, provider: str) -> Any:
        self.deltamerge_format = provider
        return super().using(provider)  # type: ignore[misc]

    def tableProperty(self, property: str, value: str) -> Any:
        self._tell(table_properties={**self.deltamerge_told.table_properties, property: str(value)})
        return super().tableProperty(property, value)  # type: ignore[misc]

    def partitionedBy(self, col: Any, *cols: Any) -> Any:
        self._tell(partition_by=tuple(map(_partition, (col, *cols))))
        return super().partitionedBy(col, *cols)  # type: ignore[misc]

    def clusterBy(self, col: str, *cols: str) -> Any:
        self._tell(cluster_by=(col, *cols))
        return super().clusterBy(col, *cols)  # type: ignore[misc]

    def create(self) -> None:
        self._made(Creation.CREATE, super().create)  # type: ignore[misc]

    def replace(self) -> None:
        self._made(Creation.REPLACE, super().replace)  # type: ignore[misc]

    def createOrReplace(self) -> None:
        self._made(Creation.CREATE_OR_REPLACE, super().createOrReplace)  # type: ignore[misc]

    def append(self) -> None:
        self._into(super().append, "append")  # type: ignore[misc]

    def overwrite(self, condition: Any) -> None:
        plain = super().overwrite  # type: ignore[misc]
        self._into(lambda: plain(condition), "overwrite", condition=condition)

    def overwritePartitions(self) -> None:
        self._into(super().overwritePartitions, "overwrite", partition_overwrite=DYNAMIC)  # type: ignore[misc]

    def _made(self, creation: Creation, plain: Callable[[], None]) -> None:
        name = name_parts_of(self.deltamerge_name)
        chosen = is_delta(self.deltamerge_frame, self.deltamerge_format)
        if chosen or (self.deltamerge_format is None and is_path(name)):
            self._created(creation, name or (self.deltamerge_name,))
        else:
            plain()

    @catchable
    def _created(self, creation: Creation, name: tuple[str, ...]) -> None:
        told = self.deltamerge_told
        if None in told.partition_by:
            raise AnalysisError(
                "DELTA_OPERATION_NOT_ALLOWED",
                "Operation not allowed: partitioning by expressions is not supported for Delta tables.",
                parameters={"operation": "Partitioning by expressions"},
                hint="Partition by a column; a generated column may have the expression.",
            )
        create_by_name(self.deltamerge_frame, told, name, creation)

    @catchable
    def _into(self, plain: Callable[[], None], mode: str, condition: Any = None, **changes: Any) -> None:
        def write(location: str) -> None:
            predicate = None if condition is None else _predicate(condition)
            if condition is not None:
                _check_no_replace_where(self.deltamerge_told.options)
            chosen = changes if predicate is None else {**changes, "replace_where": predicate}
            self._into_table(location, self.deltamerge_told.request(mode=mode, **chosen))

        written_by_name(self.deltamerge_frame, self.deltamerge_name, plain, write, "WRITE")


def _check_no_replace_where(options: Mapping[str, str]) -> None:
    """Raise AnalysisError where the option says, too, what is overwritten."""
    found = next((value for name, value in options.items() if name.lower() == "replacewhere"), None)
    if found is not None:
        raise AnalysisError(
            "DELTA_REPLACE_WHERE_IN_OVERWRITE",
            "The option replaceWhere and the condition of overwrite(..) can't both say what is overwritten.",
            parameters={"replaceWhere": found},
            hint="Leave out one of the two.",
        )


def _partition(given: Any) -> str | None:
    """The name of a column to partition by; None for an expression."""
    if isinstance(given, str):
        return given
    parts = named_by(given)
    return None if parts is None else ".".join(parts)


def _predicate(condition: Column | str) -> str | None:
    """The SQL text of the rows that are overwritten; None for all. Raises AnalysisError for a Column that hides it."""
    found = from_user(condition)
    if isinstance(found.tree, exp.Boolean) and found.tree.this:
        return None
    text = condition if isinstance(condition, str) else condition_text(condition)
    if text is None:
        raise AnalysisError(
            "DELTAMERGE_UNSUPPORTED_PREDICATE",
            f"The rows to overwrite can't be told from the Column {found.text}.",
            parameters={"condition": found.text},
            hint='Give the condition as F.expr("..").',
        )
    return text
