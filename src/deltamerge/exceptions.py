"""Errors as users of Spark catch them: names and bases of `delta.exceptions` and `pyspark.errors`.

Every error is a `DeltaMergeError` too, with condition, parameters and hint.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
    UnsupportedOperationException,
)

from deltamerge import errors
from deltamerge.errors import DeltaMergeError

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _SparkForm:
    """What Spark's exceptions offer, from a DeltaMergeError's fields."""

    condition: str
    parameters: dict[str, Any]

    def getCondition(self) -> str:
        """The condition name."""
        return self.condition

    def getErrorClass(self) -> str:
        """The condition name, as older code asks for it."""
        return self.condition

    def getMessageParameters(self) -> dict[str, str]:
        """The values that caused the error, as strings."""
        return {name: str(value) for name, value in self.parameters.items()}

    def getSqlState(self) -> None:
        """Not kept."""
        return


class DeltaAnalysisException(_SparkForm, errors.AnalysisError, AnalysisException):
    """The statement or the call is wrong; found before any job ran."""


class DeltaParseException(_SparkForm, errors.ParseError, ParseException):
    """A text is no SQL."""


class DeltaTableNotFoundException(_SparkForm, errors.TableNotFoundError, AnalysisException):
    """There is no Delta table at the given place."""


class DeltaIllegalArgumentException(_SparkForm, errors.InvalidArgumentError, IllegalArgumentException):
    """An argument has a value that the call does not accept."""


class DeltaUnsupportedTableFeatureException(_SparkForm, errors.UnsupportedTableError, UnsupportedOperationException):
    """The table has a feature that is not supported, or forbids the operation."""


class DeltaCorruptTableException(_SparkForm, errors.CorruptTableError, SparkRuntimeException):
    """The transaction log or a file that it names is damaged."""


class DeltaStorageException(_SparkForm, errors.StorageError, SparkRuntimeException):
    """The store refused or failed."""


class DeltaCommitStateUnknownException(DeltaStorageException, errors.CommitStateUnknownError):
    """The store stopped answering while a commit was written: it may be there or not."""


class DeltaExecutionException(_SparkForm, errors.ExecutionError, SparkRuntimeException):
    """A job failed while it ran."""


class DeltaInvariantViolationException(_SparkForm, errors.ConstraintError, SparkRuntimeException):
    """A row violates what the table requires of it."""


class DeltaArithmeticException(_SparkForm, errors.ArithmeticDataError, ArithmeticException):
    """A value does not fit into its column."""


class DeltaNumberFormatException(_SparkForm, errors.InvalidNumberError, NumberFormatException):
    """A text is no value of its column's type."""


class DeltaDateTimeException(_SparkForm, errors.InvalidDateTimeError, DateTimeException):
    """A text is no date or timestamp."""


class DeltaMultipleMatchException(_SparkForm, errors.MultipleMatchError, UnsupportedOperationException):
    """Several source rows modify one target row; `collisions` shows up to five such target rows."""


class DeltaConcurrentModificationException(_SparkForm, errors.ConcurrentModificationError, PySparkException):
    """Base of all commit conflicts."""


class ConcurrentWriteException(DeltaConcurrentModificationException, errors.ConcurrentWriteError):
    """A concurrent transaction has written data after this one read the table."""


class MetadataChangedException(DeltaConcurrentModificationException, errors.MetadataChangedError):
    """A concurrent transaction changed the table's metadata."""


class ProtocolChangedException(DeltaConcurrentModificationException, errors.ProtocolChangedError):
    """A concurrent transaction changed the table's protocol."""


class ConcurrentAppendException(DeltaConcurrentModificationException, errors.ConcurrentAppendError):
    """A concurrent transaction added files that this one would have read."""


class ConcurrentDeleteReadException(DeltaConcurrentModificationException, errors.ConcurrentDeleteReadError):
    """A concurrent transaction deleted files that this one read."""


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException, errors.ConcurrentDeleteDeleteError):
    """A concurrent transaction deleted files that this one deletes too."""


class ConcurrentTransactionException(DeltaConcurrentModificationException, errors.ConcurrentTransactionError):
    """A concurrent transaction of the same application id was committed."""


_FORMS: dict[type[DeltaMergeError], type[DeltaMergeError]] = {
    errors.ParseError: DeltaParseException,
    errors.TableNotFoundError: DeltaTableNotFoundException,
    errors.AnalysisError: DeltaAnalysisException,
    errors.InvalidArgumentError: DeltaIllegalArgumentException,
    errors.UnsupportedTableError: DeltaUnsupportedTableFeatureException,
    errors.CorruptTableError: DeltaCorruptTableException,
    errors.CommitStateUnknownError: DeltaCommitStateUnknownException,
    errors.StorageError: DeltaStorageException,
    errors.ConstraintError: DeltaInvariantViolationException,
    errors.ArithmeticDataError: DeltaArithmeticException,
    errors.InvalidNumberError: DeltaNumberFormatException,
    errors.InvalidDateTimeError: DeltaDateTimeException,
    errors.MultipleMatchError: DeltaMultipleMatchException,
    errors.ExecutionError: DeltaExecutionException,
    errors.ConcurrentWriteError: ConcurrentWriteException,
    errors.MetadataChangedError: MetadataChangedException,
    errors.ProtocolChangedError: ProtocolChangedException,
    errors.ConcurrentAppendError: ConcurrentAppendException,
    errors.ConcurrentDeleteReadError: ConcurrentDeleteReadException,
    errors.ConcurrentDeleteDeleteError: ConcurrentDeleteDeleteException,
    errors.ConcurrentTransactionError: ConcurrentTransactionException,
    errors.ConcurrentModificationError: DeltaConcurrentModificationException,
}


def spark_form(error: DeltaMergeError) -> DeltaMergeError:
    """The same error, as an instance of the Spark exception class that stands for it."""
    if isinstance(error, _SparkForm):
        return error
    form = next((_FORMS[kind] for kind in type(error).__mro__ if kind in _FORMS), None)
    if form is None:
        return error
    found = form.__new__(form)
    Exception.__init__(found, error.text)
    found.__dict__.update(_SPARK_FIELDS, **error.__dict__)
    return found


_SPARK_FIELDS: dict[str, Any] = {"_message": None, "_errorClass": None, "_messageParameters": {}, "_contexts": []}


def catchable(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A public function whose errors can be caught as Spark's are."""

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except DeltaMergeError as error:
            raise spark_form(error) from (error.__cause__ or None)

    return wrapper
