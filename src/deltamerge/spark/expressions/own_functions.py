"""Which functions that expressions call are surely Spark's own: a session may have one of its own by any name."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException
from sqlglot import exp

from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.plans.calls import called
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Session

_CLASSES = {"coalesce": "Coalesce", "ifnull": "Nvl", "nvl": "Nvl", "if": "If"}


def own_functions(spark: Session, expressions: Iterable[Expression]) -> frozenset[str]:
    """Those functions of COALESCE, IFNULL, NVL and IF that are called and are Spark's own, in lower case. No job runs."""
    trees = [expression.tree for expression in expressions if expression.tree is not None]
    names = {called(node.this) for tree in trees for node in tree.find_all(exp.Anonymous)}
    return frozenset(name for name in _CLASSES if name in names and _is_own(spark, name))


def _is_own(spark: Session, name: str) -> bool:
    wanted = f"Class: org.apache.spark.sql.catalyst.expressions.{_CLASSES[name]}"
    try:
        with quietly():
            return any(row[0] == wanted for row in plain_sql(spark, f"DESCRIBE FUNCTION `{name}`").collect())
    except AnalysisException:
        return False
