"""Asking Spark's analyzer: do these expressions resolve, and what are their types? No job runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError, ParseError
from deltamerge.protocol.schema.types import StructType, arrow_schema
from deltamerge.spark.expressions.expression import Expression, is_qualified_name
from deltamerge.spark.expressions.refused.column_types import column_types
from deltamerge.spark.expressions.refused.suggestions import close_functions, close_tables
from deltamerge.spark.expressions.refused.unresolved import Sight, hint_of_hidden, unresolved
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.pyspark.older import condition_of
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Frame, Session, SparkType
from deltamerge.spark.session.jobs import local_frame
from deltamerge.spark.session.rows import bare_row
from deltamerge.spark.session.schema import to_spark
from deltamerge.spark.sql.text import has_subquery, name_parts

_AGGREGATE = "INVALID_WHERE_CONDITION"
_WINDOW = ("WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE", "_LEGACY_ERROR_TEMP_1034")  # the latter on Spark 4.0
_GENERATOR = "UNSUPPORTED_GENERATOR"
_STARRED = "INVALID_USAGE_OF_STAR_OR_REGEX"
_WORDS = re.compile(r"\w+(?:[ ./:-]+\w+)*")
_STAR = re.compile(r"\*|star", re.IGNORECASE)
_NON_DETERMINISTIC = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
_NO_FIELD = "INVALID_EXTRACT_BASE_FIELD_TYPE"
_AMBIGUOUS = "AMBIGUOUS_REFERENCE"
NAMES_WANTED = 'Give both an alias, as by .alias("t") and .alias("s"), or AS t and AS s in SQL.'
_REPEATED = "Source or target has several columns of this name: give each a name of its own."
# The names that stand for the sides of a merge to which the user gave none.
_OWN_NAMES = re.compile(r"`__deltamerge_(source|target)`")
_NAMES = ("UNRESOLVED", "FIELD_NOT_FOUND", "AMBIGUOUS")


@lru_cache(maxsize=128)
def empty_frame(spark: Session, schema: StructType) -> Frame:
    """A frame of a Delta schema without rows, to resolve names against."""
    return local_frame(spark, arrow_schema(schema).empty_table(), to_spark(schema))


@dataclass(frozen=True)
class Check:
    """An expression to be analysed, and how an error calls the place where it stands."""

    place: str
    expression: Expression

    @property
    def is_condition(self) -> bool:
        """Whether the place takes a truth value."""
        return self.place.endswith("condition")


def parsed(value: Any, read: Callable[[Any], Expression]) -> Expression:
    """An expression that a user gives, as `read` makes it. Raises ParseError, which PySpark does not log, for what is no SQL."""
    try:
        with quietly():
            found = read(value)
            if not is_qualified_name(found):
                found.column  # noqa: B018 - classic Spark parses it here, if `read` has not
            return found
    except ParseException as error:
        raise syntax_error(str(value), error) from error


def types_of(frame: Frame, conditions: Sequence[Check], values: Sequence[Check], sight: Sight) -> list[SparkType]:
    """The types of `values` over a frame on which `conditions` are conditions too.

    Raises AnalysisError that names the one expression which fails, and the columns in `sight` that it could have used.
    """
    with quietly():
        try:
            return _types(frame, conditions, values)
        except AnalysisException as error:
            found = [_failure(frame, check, [check], []) for check in conditions]
            found += [_failure(frame, check, [], [check]) for check in values]
            failures = [failure for failure in found if failure is not None]
            # Spark resolves every name before it looks at a type.
            named = [failure for failure in failures if (condition_of(failure[0]) or "").startswith(_NAMES)]
            first, check = (named or failures or [(error, (*conditions, *values)[0])])[0]
            raise _explained(frame, first, check, sight) from first


def _failure(frame: Frame, check: Check, conditions: list[Check], values: list[Check]) -> tuple[AnalysisException, Check] | None:
    try:
        _types(frame, conditions, values)
    except AnalysisException as error:
        return error, check
    return None


def _types(frame: Frame, conditions: Sequence[Check], values: Sequence[Check]) -> list[SparkType]:
    for check in conditions:
        if has_subquery(check.expression.tree, check.expression.text):
            raise _refused("DELTA_UNSUPPORTED_SUBQUERY", "Subqueries are", check, "Join what it asks into the source.")
        frame = frame.where(check.expression.column)
        # Unlike a filter, a join takes no condition that another evaluation could answer otherwise.
        frame = frame.join(bare_row(frame.sparkSession), check.expression.column, "left_semi")
    starred = [check.expression.column for check in values if _STAR.search(check.expression.text)]
    if starred:
        _refuse_stars(frame, starred)
    computed = [check.expression.column.isNull() for check in values if not name_parts(check.expression.tree)]
    if computed:
        frame = frame.where(F.array(*computed).isNotNull())  # no aggregate, window function or generator gets through
    # A classic session has analysed the conditions by now; a Connect client does so when it asks for a schema.
    if not values and not is_connect(frame.sparkSession):
        return []
    return column_types(frame, [check.expression.column for check in values])


def _refuse_stars(frame: Frame, values: Sequence[Column]) -> None:
    """Raise AnalysisException for a star in an expression: sorting takes none, as filters and projections do."""
    try:
        # A Connect client analyses only when asked, and takes sorted rows for rows of the schema that it knows.
        frame.orderBy(*values).select(F.lit(1)).schema  # noqa: B018
    except AnalysisException as error:
        if condition_of(error) == _STARRED:  # there is more that sorting does not take, and a value may have
            raise


def columns_by(frame: Frame, qualifier: Sequence[str]) -> list[str]:
    """The columns of a frame that can be named with this qualifier, an alias or several parts of a table's name."""
    try:
        with quietly():
            found = frame.select(F.col(".".join([*map(quoted, qualifier), "*"]))).columns
    except AnalysisException:
        return []
    types: list[SparkType] = [frame.schema]
    for part in qualifier:
        fields = [field for type in types for field in getattr(type, "fields", ())]
        types = [field.dataType for field in fields if field.name.lower() == part.lower()]
    return [] if any(found == getattr(struct, "names", None) for struct in types) else found


def _explained(frame: Frame, error: AnalysisException, check: Check, sight: Sight) -> AnalysisError:
    """What Spark's analyzer says of an expression, as this library's error."""
    condition = condition_of(error) or "DELTAMERGE_ANALYSIS_FAILED"
    text = check.expression.text
    if isinstance(error, ParseException):
        return syntax_error(text, error)
    given = dict(error.getMessageParameters() or {})
    if condition.startswith("UNRESOLVED") and condition != "UNRESOLVED_ROUTINE":
        return unresolved(given.get("objectName") or text, check.place, sight, text)
    if condition == _STARRED:
        return AnalysisError(
            condition,
            f"Invalid usage of '*' in the {check.place}: {text}",
            parameters={"elem": "'*'", "prettyName": check.place},
            hint="Name the columns.",
        )
    if condition == _NON_DETERMINISTIC:
        name = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
        return _refused(name, "Non-deterministic functions are", check, "Compute it in the source, which is evaluated once.")
    if condition == _AGGREGATE and check.is_condition:
        return _refused("DELTA_AGGREGATION_NOT_SUPPORTED", "Aggregate functions are", check, "Compute it in the source.")
    if condition.startswith((_AGGREGATE, *_WINDOW, _GENERATOR)):
        return AnalysisError(
            "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT" if condition.startswith(_GENERATOR) else "UNSUPPORTED_EXPR_FOR_OPERATOR",
            f"The {check.place} has an aggregate, window function or generator, which is not one value for a row: {text}",
            parameters={"invalidExprSqls": text, "clause": check.place},
            hint="Compute it in the source.",
        )
    if condition == _AMBIGUOUS:
        named = {key: _OWN_NAMES.sub(r"\1", value) for key, value in given.items()}
        message = _OWN_NAMES.sub(r"\1", plain_message(str(error)))
        columns = set(given.get("referenceNames", "").strip("[]").split(", "))
        names = _REPEATED if len(columns) == 1 and columns != {""} else NAMES_WANTED
        return placed(AnalysisError(condition, message, parameters=named, hint=names), check)
    if condition == _NO_FIELD and (hint := hint_of_hidden(check.expression.names, sight)) is not None:
        return placed(AnalysisError(condition, plain_message(str(error)), parameters=given, hint=hint), check)
    look_up, name = _NOT_THERE.get(condition, (None, ""))
    hint = look_up(frame.sparkSession, given[name]) if look_up is not None and name in given else None
    return placed(AnalysisError(condition, plain_message(str(error)), parameters=given, hint=hint), check)


# What finds names that are close to one that is not there, and the error's parameter that has this one.
_NOT_THERE: dict[str, tuple[Callable[[Session, str], str | None], str]] = {
    "UNRESOLVED_ROUTINE": (close_functions, "routineName"),
    "TABLE_OR_VIEW_NOT_FOUND": (close_tables, "relationName"),
}


def placed(error: AnalysisError, check: Check) -> AnalysisError:
    """The error of an expression, which also says where that stands."""
    return AnalysisError(
        error.condition,
        f"{error.detail} (in {check.place}: {check.expression.text})",
        parameters={"sqlExpr": check.expression.text, "clause": check.place, **error.parameters},
        hint=error.hint,
    )


def _refused(condition: str, what: str, check: Check, hint: str) -> AnalysisError:
    text = check.expression.text
    return AnalysisError(
        condition,
        f"{what} not supported in the {check.place} (condition = {text}).",
        parameters={"operation": check.place, "expression": text},
        hint=hint,
    )


def syntax_error(text: str, error: ParseException) -> ParseError:
    """An SQL text that Spark can't parse, with the place that it points to."""
    pointed = [line for line in str(error).splitlines() if line.strip() and "JVM" not in line]
    return ParseError(
        condition_of(error) or "PARSE_SYNTAX_ERROR",
        f"{text!r} is no SQL expression: {plain_message(str(error))}\n" + "\n".join(pointed[1:4]),
        parameters={"sqlExpr": text},
        hint=f"A text stands in quotes of its own: '{text}'." if _WORDS.fullmatch(text) else None,
    )


def plain_message(message: str) -> str:
    """The first line of one of Spark's messages, without its condition name and SQL state."""
    lines = [line for line in message.splitlines() if line.strip()]
    text = lines[0] if lines else message
    if text.startswith("["):
        text = text.partition("] ")[2]
    return text.partition(" SQLSTATE")[0]
