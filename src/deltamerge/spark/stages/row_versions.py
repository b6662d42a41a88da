"""Versions of rows: what changes of keys, and the versions that a table has of them, make of its history.

Columns go by their place: `key0`.., `value0`.., `since` in changes and versions, `until` and `current` in versions too.
Whoever calls says which columns of a table they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.spark.expressions.casts import assigned
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Frame, SparkType
from deltamerge.worker.scan.row_errors import Refused

SINCE, UNTIL, CURRENT, CLOSED = "since", "until", "current", "closed"
_OPEN, _OPENS, _WRONG, _ENDED, _LATE, _BEFORE, _KEPT = "open", "opens", "wrong", "ended", "late", "before", "kept"


@dataclass(frozen=True)
class Rules:
    """How versions are made: by which keys, named for messages, and how many values, the `tracked` first of which count."""

    keys: tuple[str, ...]
    values: int
    tracked: int
    ignores_late: bool = False

    @property
    def key_columns(self) -> list[str]:
        """The keys' columns in changes and versions."""
        return [f"key{n}" for n in range(len(self.keys))]

    @property
    def match_columns(self) -> list[str]:
        """The columns of staged rows that are compared with the table's keys: null in rows to insert."""
        return [f"match{n}" for n in range(len(self.keys))]

    @property
    def value_columns(self) -> list[str]:
        """The values' columns in changes and versions."""
        return [f"value{n}" for n in range(self.values)]


@dataclass(frozen=True)
class Cast:
    """A column of the source as one of the table: padded with blanks to `width` where that is the column's."""

    source: str
    given: SparkType
    wanted: SparkType
    name: str
    width: int = 0


def changes_frame(source: Frame, casts: Sequence[tuple[str, Cast]]) -> Frame:
    """The source's rows under the given names and with the table's types; nothing runs.

    Raises AnalysisError where no cast leads from one type to the other.
    """
    return source.select(*[_cast(cast).alias(name) for name, cast in casts])


def _cast(cast: Cast) -> Column:
    value = assigned(F.col(quoted(cast.source)), cast.given, cast.wanted, cast.name)
    return F.when(F.length(value) < cast.width, F.rpad(value, cast.width, " ")).otherwise(value) if cast.width else value


def renamed(rows: Frame, names: Sequence[tuple[str, str]]) -> Frame:
    """Columns of a frame under other names: pairs of an old one and the other."""
    return rows.select(*[F.col(quoted(old)).alias(name) for old, name in names])


def staged_frame(changes: Frame, versions: Frame, rules: Rules) -> Frame:
    """What a merge needs to write the changes' versions after those that the table has; nothing runs.

    Each key has one row by which it is matched, with the time at which its current version is closed, null if it stays
    (`closed`); and a row that matches nothing for each version to insert, with the time when the next one begins (`until`).
    Evaluation fails for a change without key or time, for two different ones at one time, for a late one (unless these are
    ignored), and for a key whose versions in the table contradict each other.
    """
    keys = [F.col(name) for name in rules.key_columns]
    known = _known(versions, rules)
    same_key = [key == F.col(name) for key, name in zip(keys, rules.match_columns, strict=True)]
    rows = changes.join(known, reduce(and_, same_key), "left").drop(*rules.match_columns)
    differs = _differs(rules.value_columns[: rules.tracked], _OPEN)
    since, started, late = F.col(SINCE), F.col(f"{_OPEN}.{SINCE}"), F.col(_LATE)
    before_known = (since < started) | ((since == started) & differs) | (since < F.col(_ENDED))
    rows = rows.withColumn(_LATE, F.coalesce(before_known, F.lit(False)))
    # Late changes come first, so that a change after them is compared with what the table has.
    ordered = Window.partitionBy(*keys).orderBy(since.asc(), late.desc())
    columns = [SINCE, _LATE, *rules.value_columns]
    rows = rows.withColumn(_BEFORE, F.lag(F.struct(*columns)).over(ordered))
    follows = F.col(_BEFORE).isNotNull() & ~F.col(f"{_BEFORE}.{_LATE}")
    differs_from_last = (
        F.when(follows, _differs(rules.value_columns[: rules.tracked], _BEFORE))
        .when(F.col(_OPEN).isNotNull(), differs)
        .otherwise(F.lit(True))
    )
    rows = rows.withColumn(_KEPT, ~late & differs_from_last)
    begins = F.when(F.col(_KEPT), since)
    last, first = Window.unboundedFollowing, Window.unboundedPreceding
    rows = rows.withColumns(
        {
            UNTIL: F.min(begins).over(ordered.rowsBetween(1, last)),
            CLOSED: F.min(begins).over(ordered.rowsBetween(first, last)),
            "place": F.row_number().over(ordered),
        }
    )
    tie = follows & (F.col(f"{_BEFORE}.{SINCE}") == since) & _differs(rules.value_columns, _BEFORE)
    return _exploded(rows, _problem(rules, late, tie), rules, changes.schema)


def _known(versions: Frame, rules: Rules) -> Frame:
    """What the table has of each key: its open version, how many there are, and until when the closed ones go."""
    is_open = F.col(UNTIL).isNull()
    wrong = ~F.col(CURRENT).eqNullSafe(is_open) if CURRENT in versions.columns else F.lit(False)
    version = F.struct(SINCE, *rules.value_columns)
    keys = [F.col(key).alias(name) for name, key in zip(rules.match_columns, rules.key_columns, strict=True)]
    return versions.groupBy(*keys).agg(
        F.first(F.when(is_open, version), ignorenulls=True).alias(_OPEN),
        F.count(F.when(is_open, True)).alias(_OPENS),
        F.count(F.when(wrong, True)).alias(_WRONG),
        F.max(UNTIL).alias(_ENDED),
    )


def _differs(columns: Sequence[str], other: str) -> Column:
    """Whether one of the columns has another value, or null, than in the struct `other`."""
    return ~reduce(and_, [F.col(name).eqNullSafe(F.col(f"{other}.{name}")) for name in columns])


def _exploded(rows: Frame, problem: Column, rules: Rules, schema: T.StructType) -> Frame:
    """The staged rows of each change: the first one of a key makes the row by which the key is matched."""
    types = {field.name: field.dataType for field in schema.fields}
    names = [*rules.key_columns, *rules.value_columns, SINCE]
    nothing = {name: F.lit(None).cast(types[name]) for name in names}
    matches = list(zip(rules.match_columns, rules.key_columns, strict=True))
    match = [
        *[F.col(key).alias(name) for name, key in matches],
        *[nothing[name].alias(name) for name in names],
        nothing[SINCE].alias(UNTIL),
        F.when(F.col(_OPEN).isNotNull(), F.col(CLOSED)).alias(CLOSED),
    ]
    insert = [
        *[nothing[key].alias(name) for name, key in matches],
        *[F.col(name) for name in names],
        F.col(UNTIL),
        nothing[SINCE].alias(CLOSED),
    ]
    made = F.array(F.when(F.col("place") == 1, F.struct(*match)), F.when(F.col(_KEPT), F.struct(*insert)))
    fields = [T.StructField(name, types[key]) for name, key in matches] + [T.StructField(name, types[name]) for name in names]
    type = T.StructType([*fields, T.StructField(UNTIL, types[SINCE]), T.StructField(CLOSED, types[SINCE])])
    refused = F.raise_error(problem).cast(T.ArrayType(type))
    made = F.when(problem.isNotNull(), refused).otherwise(F.filter(made, lambda row: row.isNotNull()))
    return rows.select(F.explode(made).alias("row")).select("row.*")


def _problem(rules: Rules, late: Column, tie: Column) -> Column:
    """The text by which the driver learns what is wrong with a change; null when nothing is."""
    key = F.to_json(
        F.struct(*[F.col(c).alias(n) for c, n in zip(rules.key_columns, rules.keys, strict=True)]), {"ignoreNullFields": "false"}
    )
    since = F.coalesce(F.col(SINCE).cast("string"), F.lit("NULL"))
    missing = reduce(or_, [F.col(name).isNull() for name in [*rules.key_columns, SINCE]])
    nulls = _said("A change has no key or no effective time: key ", key, ", effective ", since, ".")
    several = "there are several current ones, or one is marked as current and has an end, or neither."
    broken = _said("The table's versions of the key ", key, f" contradict each other: {several}")
    change = ("change of the key ", key, " is effective at ", since)
    tied = _said("More than one ", *change, "; keep one of them in the source.")
    advice = "mergeHistory(.., ignoreLate=True) leaves such changes out."
    stale = _said("A ", *change, f", which is not after the versions that the table has; {advice}")
    found = F.when(missing, _refusal("DELTAMERGE_HISTORY_NULL", nulls, key))
    found = found.when((F.col(_OPENS) > 1) | (F.col(_WRONG) > 0), _refusal("DELTAMERGE_HISTORY_CONTRADICTION", broken, key))
    found = found.when(~late & tie, _refusal("DELTAMERGE_HISTORY_TIE", tied, key))
    return found if rules.ignores_late else found.when(late, _refusal("DELTAMERGE_HISTORY_LATE", stale, key))


def _said(*parts: str | Column) -> Column:
    return F.concat(*[F.lit(part) if isinstance(part, str) else part for part in parts])


def _refusal(condition: str, message: Column, *parameters: Column) -> Column:
    """The text that a failing job brings to the driver, where it becomes an error of this condition."""
    body = F.struct(F.lit(condition).alias("condition"), message.alias("message"), F.array(*parameters).alias("parameters"))
    return F.concat(F.lit(Refused.MARK), F.to_json(body))


def closing_time(time: Expression, since: Column, type: SparkType) -> Column:
    """`time`, when a version that holds since `since` is closed then; evaluation fails for null or a time that is not later."""
    value = time.column.cast(type)
    told = [F.coalesce(column.cast("string"), F.lit("NULL")) for column in (value, since)]
    advice = "closeMissing must give a later time."
    message = _said("A version cannot be closed at ", told[0], " that is current since ", told[1], f"; {advice}")
    wrong = value.isNull() | (value <= since)
    return F.when(wrong, F.raise_error(_refusal("DELTAMERGE_HISTORY_LATE", message, told[1])).cast(type)).otherwise(value)
