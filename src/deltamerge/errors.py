"""The errors of the whole library: one root, a class per kind of failure, a condition name per cause.

Knows nothing of Spark; `deltamerge.exceptions` gives each class its Spark-catchable form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class DeltaMergeError(Exception):
    """Root of every error raised by deltamerge.

    `condition` is the error's name (delta-spark's where it has one), `parameters` the values that caused it,
    `hint` what to do about it; `retryable` says whether running the same thing again can succeed, `runs_again` whether a merge
    may do so by itself, with the same source.
    """

    retryable: ClassVar[bool] = False
    runs_again: bool = False

    def __init__(
        self,
        condition: str,
        message: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        self.condition = condition
        self.detail = message
        self.parameters: dict[str, Any] = dict(parameters or {})
        self.hint = hint
        super().__init__(self.text)

    @property
    def text(self) -> str:
        """The whole message: condition, cause and hint."""
        hint = f"\nHint: {self.hint}" if self.hint else ""
        return f"[{self.condition}] {self.detail}{hint}"

    def __str__(self) -> str:
        return self.text


def restore_action(action: str) -> str:
    """The hint for a damaged action of the log, such as `metaData`."""
    return f"The {action} action in the transaction log is damaged; restore it from a backup."


class PySparkVersionError(DeltaMergeError, ImportError):
    """There is no PySpark, or one of a version that this library does not know."""


class AnalysisError(DeltaMergeError):
    """The statement or the call is wrong; found before any job runs."""


class ParseError(AnalysisError):
    """A text is no SQL; the message shows the place."""


class InvalidArgumentError(DeltaMergeError):
    """An argument has a value that the call does not accept."""


class TableNotFoundError(AnalysisError):
    """There is no Delta table at the given place."""


class UnsupportedTableError(DeltaMergeError):
    """The table has a feature that this library does not support, or forbids the operation."""


class CorruptTableError(DeltaMergeError):
    """The transaction log or a file that it names cannot be what a writer meant."""


class StorageError(DeltaMergeError):
    """The store refused or failed: no permission, no space, no answer."""


class CommitStateUnknownError(StorageError):
    """The store stopped answering while a commit was written: it may be there or not. What it names must stay."""


class ExecutionError(DeltaMergeError):
    """A job failed while it ran; the table is as it was."""


class ResultTooLargeError(ExecutionError):
    """A job has a larger result than Spark's driver is allowed to hold."""


class SourceLostError(ExecutionError):
    """Rows of the materialized source are gone with the executor that held them. Running again evaluates the source again."""

    retryable = True
    runs_again = True


class ConstraintError(ExecutionError):
    """A row violates what the table requires of it."""


class ArithmeticDataError(ExecutionError):
    """A value does not fit into the type of the column that it is written to."""


class InvalidNumberError(ExecutionError):
    """A text cannot be read as the number that its column wants."""


class InvalidDateTimeError(ExecutionError):
    """A text cannot be read as the date or timestamp that its column wants."""


class MultipleMatchError(ExecutionError):
    """Several source rows modify one target row; `collisions` shows up to five such target rows."""

    def __init__(self, *args: Any, collisions: list[dict[str, Any]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.collisions = collisions or []


class ConcurrentModificationError(DeltaMergeError):
    """Another transaction won, and this one can not be placed after it. Run it again.

    `followed` is the newest version up to which no row has changed that this one looks for, so that it may begin anew there by
    itself; None where rows have changed, or that is not known.
    """

    retryable = True
    runs_again = True
    followed: int | None = None


class ConcurrentWriteError(ConcurrentModificationError):
    """Another transaction wrote data after this one read the table."""


class MetadataChangedError(ConcurrentModificationError):
    """Another transaction changed schema, partitioning or properties."""

    runs_again = False


class ProtocolChangedError(ConcurrentModificationError):
    """Another transaction changed the table's protocol."""

    runs_again = False


class ConcurrentAppendError(ConcurrentModificationError):
    """Another transaction added files that this one would have read."""


class ConcurrentDeleteReadError(ConcurrentModificationError):
    """Another transaction removed files that this one read."""


class ConcurrentDeleteDeleteError(ConcurrentModificationError):
    """Another transaction removed files that this one removes too."""


class ConcurrentTransactionError(ConcurrentModificationError):
    """Another transaction with the same application id was committed."""
