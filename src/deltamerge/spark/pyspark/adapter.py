"""The one place that looks behind PySpark's public interface, each time with a fallback.

Classic Spark hides a Column's tree and a plan's size in JVM objects, Spark Connect in its own plan objects. Where
neither can be read the answer is None: nothing is known.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import os
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from deltamerge.errors import DeltaMergeError
from deltamerge.spark.plans.aliases import plan_aliases
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.plans.text import analyzed, explained_bytes, may_grow, optimized_plan, scans_files
from deltamerge.spark.plans.trees import Read
from deltamerge.spark.pyspark import nodes, older
from deltamerge.spark.pyspark.connect import (
    column_name,
    expression_text,
    expression_tree,
    local_bytes,
    mapped_expression,
    plan_name,
    plan_numbers,
    sql_text,
    star_counts,
    star_of,
)
from deltamerge.spark.pyspark.nodes import java_list

_nodes: Any = older if older.IS_OLDER else nodes  # of Columns
_PLAIN_ALIAS = re.compile(r"[A-Za-z_]\w*", re.ASCII)  # it is not quoted, and has no qualifier
Rename = Callable[[Any, Sequence[str]], str | None]
Reword = Callable[[str], str]


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a Spark Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_here(spark: SparkSession) -> bool:
    """Whether Spark's driver surely sees this machine's files: a classic session, or a Connect server that this process runs."""
    if not is_connect(spark):
        return True
    client: Any = spark
    try:
        return "SPARK_LOCAL_REMOTE" in os.environ and client.client.host in ("localhost", "127.0.0.1", "::1")
    except Exception:
        return False


def another_session(spark: SparkSession) -> SparkSession:
    """A session of its own with the same catalog, closed when the process ends.

    Private parts of PySpark are used of a Connect client before 4.3, which has no such method; raises AttributeError where it
    has other ones.
    """
    given: Any = spark
    if not is_connect(spark):
        return spark.newSession()
    if "newSession" in vars(type(spark)):
        other = given.newSession()
    else:
        builder = copy.copy(given.client._builder)
        builder._params = {name: value for name, value in builder._params.items() if name != "session_id"}
        other = type(given)(connection=builder)
    atexit.register(_close, weakref.ref(given.client), other.client)
    return other  # type: ignore[no-any-return]


def _close(first: Callable[[], Any], client: Any) -> None:
    """Close a Connect client before PySpark does, which would ask a server for minutes that has been stopped with the `first`."""
    origin = first()
    with contextlib.suppress(Exception):
        if origin is not None and not origin.is_closed:
            client.release_session()
    with contextlib.suppress(Exception):
        client.close()


def names_of_settings(spark: SparkSession) -> Iterable[str]:
    """The names of the settings that a classic session has."""
    try:
        hidden: Any = spark
        return str(hidden._jsparkSession.conf().getAll().keySet().mkString("\n")).splitlines()
    except Exception:
        return spark.conf.getAll  # a call for each setting


def hadoop_settings(spark: SparkSession, names: Iterable[str], pattern: str | None = None) -> dict[str, str]:
    """Hadoop's settings of these names, and of those that a pattern matches, as a classic session has them; {} where they can't
    be read.
    """
    try:
        hadoop: Any = spark._jsparkSession.sessionState().newHadoopConf()
        matching = [] if pattern is None else list(hadoop.getValByRegex(pattern).keySet())
        found = {name: hadoop.get(name) for name in (*names, *matching)}
    except Exception:
        return {}
    return {name: str(value) for name, value in found.items() if value}


def is_hadoop_default(spark: SparkSession, name: str) -> bool:
    """Whether a setting of Hadoop has the value that Hadoop comes with; False where that can't be read."""
    try:
        hadoop: Any = spark._jsparkSession.sessionState().newHadoopConf()
        return set(hadoop.getPropertySources(name) or ("",)) <= {"core-default.xml", "Set by Spark to default values"}
    except Exception:
        return False


# Kept, because to ask the JVM for a method by its name takes calls.
@lru_cache(maxsize=1)
def _join_of(jvm: Any) -> Any:
    return jvm.java.lang.String.join


@lru_cache(maxsize=1)
def _explain_of(jvm: Any) -> Any:
    return jvm.PythonSQLUtils.explainString


def input_files(frame: DataFrame) -> list[str]:
    """The files that a frame reads, as Spark names them."""
    hidden: Any = frame
    if not is_connect(frame.sparkSession):
        try:
            names = str(_join_of(hidden._sc._jvm)("\n", hidden._jdf.inputFiles()))  # one call in place of one a file
            return names.split("\n") if names else []
        except Exception:
            return list(frame.inputFiles())
    return list(frame.inputFiles())


def estimated_bytes(frame: DataFrame) -> int | None:
    """Spark's own estimate of a frame's size in bytes; None when it can't be had, or can't be trusted.

    What Spark knows nothing of it takes to be larger than anything.
    """
    return estimated(frame)[0]


def estimated(frame: DataFrame) -> tuple[int | None, str]:
    """`estimated_bytes`, and the optimized plan, perhaps abridged, that was looked at for it; "" where there was none."""
    try:
        found, plan = _estimated(frame)
    except Exception:
        return None, ""
    return None if found is None or found >= 1 << 50 else found, plan


def _estimated(frame: DataFrame) -> tuple[int | None, str]:
    hidden: Any = frame
    if is_connect(frame.sparkSession):
        known = local_bytes(hidden._plan)
        return explained_bytes(hidden._explain_string(mode="cost")) if known is None else (known, "")
    plan = hidden._jdf.queryExecution().optimizedPlan()
    text = str(plan.toString())
    return None if may_grow(text) else int(str(plan.stats().sizeInBytes())), text


def is_file_scan(frame: DataFrame) -> bool:
    """Whether a frame is surely nothing but columns and rows of Parquet or ORC files: each reading gives the same values.

    Anything in its optimized plan that isn't known to be harmless says no.
    """
    hidden: Any = frame
    try:
        if is_connect(frame.sparkSession):
            return scans_files(optimized_plan(hidden._explain_string(mode="extended")))
        plan = hidden._jdf.queryExecution().optimizedPlan()
        return bool(plan.deterministic()) and scans_files(str(plan.toString()))
    except Exception:
        return False


def is_deterministic(frame: DataFrame) -> bool:
    """Whether nothing in a frame's plan surely gives another value each time; a Connect server does not tell."""
    hidden: Any = frame
    try:
        return not is_connect(frame.sparkSession) and bool(hidden._jdf.queryExecution().optimizedPlan().deterministic())
    except Exception:
        return False


def extended_plan(frame: DataFrame) -> str:
    """All of a frame's plans as Spark explains them; nothing where that can't be had."""
    hidden: Any = frame
    try:
        if is_connect(frame.sparkSession):
            return str(hidden._explain_string(mode="extended"))
        return str(_explain_of(hidden._sc._jvm)(hidden._jdf.queryExecution(), "extended"))
    except Exception:
        return ""


def analyzed_plan(frame: DataFrame) -> str:
    """A frame's plan as Spark has analyzed it, its views included; "" where that can't be had."""
    hidden: Any = frame
    try:
        if is_connect(frame.sparkSession):
            return analyzed(hidden._explain_string(mode="extended"))
        return str(hidden._jdf.queryExecution().analyzed().toString())
    except Exception:
        return ""


def aliases_within(frame: DataFrame, prefix: str) -> str:
    """Text in which those aliases within a frame's plan stand that begin with `prefix`; "" where that can't be had.

    A Connect server is asked only where the client's plan names tables or views, or has SQL text.
    """
    try:
        aliases, is_whole = plan_aliases(frame._plan) if is_connect(frame.sparkSession) else ([], False)
    except Exception:
        aliases, is_whole = [], False
    return "\n".join(alias for alias in aliases if alias.startswith(prefix)) if is_whole else analyzed_plan(frame)


def name_of(frame: DataFrame) -> tuple[tuple[str, ...], bool]:
    """The alias that was given to a frame last, or the parts of the table's name that it reads, and whether those are all.

    () when it has none, or is no longer only that. On Connect a table's name may lack its catalog and database.
    """
    try:
        if is_connect(frame.sparkSession):
            return plan_name(frame._plan)
        plan = frame._jdf.queryExecution().analyzed()
        if plan.nodeName() != "SubqueryAlias":
            return (), True
        name = str(plan.simpleString(1)).partition(" ")[2]
        if _PLAIN_ALIAS.fullmatch(name):
            return (name,), True
        return (*map(str, java_list(plan.identifier().qualifier())), str(plan.alias())), True
    except Exception:
        return (), True


def tree_of(column: Column, seen: Read) -> exp.Expression | None:
    """A Column's tree in sqlglot's terms; parts that can't be read are `exp.Placeholder`, None when nothing can.

    `seen` reads the SQL texts in it.
    """
    try:
        if _is_of_connect(column):
            return expression_tree(column, seen)
        return _nodes.part_tree(_nodes.parts_of(column), seen)
    except Exception:
        return None


def named_by(column: Column) -> list[str] | None:
    """The parts of the name of the column that a Column is, in a frame or in any; None for another expression."""
    try:
        found = column_name(_parts(column)) if _is_of_connect(column) else _nodes.part_name(_parts(column))
    except Exception:
        return None
    return None if found is None else list(found[1])


def _is_of_connect(column: Column) -> bool:
    return type(column).__module__.startswith("pyspark.sql.connect")


def bound_columns(frame: DataFrame) -> dict[Any, frozenset[str] | None]:
    """What marks a column as one of this frame's: attribute identities on classic Spark, plan numbers on Connect.

    With the aliases, in lower case, that may stand before the column in its name; None where that is not known.
    """
    if is_connect(frame.sparkSession):
        return dict(plan_numbers(frame._plan))
    output = frame._jdf.queryExecution().analyzed().output()
    return {attribute.exprId().toString(): frozenset() for attribute in java_list(output)}


def with_names(column: Column, frame: DataFrame, rename: Rename, reword: Reword) -> Column | None:
    """The Column with other names: `rename` is given the parts of each, and its mark where it is bound; None keeps it.

    `reword` is given SQL texts. None when the Column can't be taken apart. Raises what they raise of this library's errors.
    """
    connect = is_connect(frame.sparkSession)

    def visit(part: Any) -> Any:
        found = column_name(part) if connect else _nodes.part_name(part)
        if found is not None:
            name = rename(*found)
            return None if name is None else _parts(F.col(name))
        return _reworded(sql_text(part) if connect else _nodes.part_sql(part), reword)

    return _mapped(column, frame.sparkSession, visit)


def rebound(column: Column, frames: Sequence[tuple[DataFrame, DataFrame]]) -> Column:
    """The Column with each column that is bound to the first of two frames bound to the second one's of this name.

    It stays as it is where it can't be taken apart.
    """
    if not frames:
        return column
    spark = frames[0][0].sparkSession
    connect = is_connect(spark)
    others: dict[Any, DataFrame] = {}
    for frame, other in frames:
        others |= {mark: other for mark in bound_columns(frame) if mark not in others}

    def visit(part: Any) -> Any:
        found = column_name(part) if connect else _nodes.part_name(part)
        if found is None:
            return None if connect else _nodes.mapped_call(part, visit, spark._jvm)
        if found[0] not in others:
            return None
        return _parts(others[found[0]][".".join(map(quoted, found[1]))])

    found = _mapped(column, spark, visit)
    return column if found is None else found


def with_stars(column: Column, spark: SparkSession, name: str, without: Callable[[str, str], str]) -> Column:
    """The Column whose stars leave the column of a name out, but for those that count rows; `without` does so for SQL texts.

    It stays as it is where it can't be taken apart.
    """
    connect = is_connect(spark)

    def visit(part: Any) -> Any:
        if star_counts(part) if connect else _nodes.star_counts(part):
            return part
        star = star_of(part) if connect else _nodes.star_of(part)
        text = star or (sql_text(part) if connect else _nodes.part_sql(part))
        if text is None and not connect:
            return _nodes.mapped_call(part, visit, spark._jvm)
        return _reworded(text, lambda text: without(text, name))

    text = str(column).lower()
    found = _mapped(column, spark, visit) if "*" in text or "star" in text else column
    return column if found is None else found


def with_texts(column: Column, spark: SparkSession, changed: Reword) -> Column | None:
    """The Column with its SQL texts as `changed` makes them; None when it can't be taken apart.

    A name of one word is such a text, too, and so is a function of no argument or of a whole number.
    """

    def visit(part: Any) -> Any:
        return _reworded(expression_text(part) if is_connect(spark) else _nodes.part_text(part), changed)

    return _mapped(column, spark, visit)


def _reworded(text: str | None, reword: Reword) -> Any:
    """What an SQL text as `reword` makes it is made of; None where it stays as it is."""
    found = text if text is None else reword(text)
    return None if found is None or found == text else _parts(F.expr(found))


def _parts(column: Any) -> Any:
    """What a Column is made of."""
    return column._expr if _is_of_connect(column) else _nodes.parts_of(column)


def _mapped(column: Column, spark: SparkSession, visit: Callable[[Any], Any]) -> Column | None:
    """The Column with those of its parts replaced for which `visit` gives another one; what it gives None for is looked into.

    None when the Column can't be taken apart. Raises what `visit` raises of this library's errors.
    """
    copied: Any = copy.copy(column)
    try:
        if is_connect(spark):
            copied._expr = mapped_expression(copied._expr, visit)
        else:
            jvm: Any = spark._jvm
            copied._jc = _nodes.made_of(_nodes.mapped_part(_parts(column), visit, jvm), jvm)
    except DeltaMergeError:
        raise
    except Exception:
        return None
    return copied  # type: ignore[no-any-return]
