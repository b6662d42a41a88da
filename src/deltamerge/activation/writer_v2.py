"""The `DataFrameWriterV2` of an active session's DataFrames: it writes Delta tables by this library, all else as Spark's does.

Columns go by their names, as in Delta's catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from deltamerge.activation.conditions import condition_text
from deltamerge.activation.writer import Telling, written_by_name
from deltamerge.commands.rows.request import DYNAMIC
from deltamerge.errors import AnalysisError
from deltamerge.exceptions import catchable
from deltamerge.spark.expressions.expression import from_user
from deltamerge.spark.session.frames import Column


class WritingV2(Telling):
    """What `df.writeTo(name)` does otherwise for Delta tables."""

    deltamerge_name: str

    def append(self) -> None:
        self._into(super().append, "append")  # type: ignore[misc]

    def overwrite(self, condition: Any) -> None:
        plain = super().overwrite  # type: ignore[misc]
        self._into(lambda: plain(condition), "overwrite", condition=condition)

    def overwritePartitions(self) -> None:
        self._into(super().overwritePartitions, "overwrite", partition_overwrite=DYNAMIC)  # type: ignore[misc]

    @catchable
    def _into(self, plain: Callable[[], None], mode: str, condition: Any = None, **changes: Any) -> None:
        def write(location: str) -> None:
            predicate = None if condition is None else _predicate(condition)
            chosen = changes if predicate is None else {**changes, "replace_where": predicate}
            self._into_table(location, self.deltamerge_told.request(mode=mode, **chosen))

        written_by_name(self.deltamerge_frame, self.deltamerge_name, plain, write, "WRITE")


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
