"""The SQL text of a Column: it says the same as the Column, or there is none."""

from __future__ import annotations

import pytest
from pyspark.sql.connect import functions as F
from pyspark.sql.connect.column import Column

from deltamerge.activation.conditions import condition_text
from deltamerge.activation.writer_v2 import _predicate
from deltamerge.errors import AnalysisError

DAY = F.col("day")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (((DAY == 1) | (DAY == 2)) & (F.col("land") == "de"), "((`day` = 1) OR (`day` = 2)) AND (`land` = 'de')"),
        (~((DAY == 1) & (DAY < -2)), "NOT ((`day` = 1) AND (`day` < (-2)))"),
        ((DAY == 1) == (F.col("s.a") != 2), "(`day` = 1) = (NOT (`s`.`a` = 2))"),
        (DAY.isin(1, 2) & DAY.isNotNull(), "(`day` IN (1, 2)) AND (`day` IS NOT NULL)"),
        (DAY.isNull() & F.lit(True), "(`day` IS NULL) AND true"),
        (DAY.eqNullSafe(2**40), "`day` <=> 1099511627776"),
        (F.expr("x = 1.5BD OR s = r'\\d'"), "x = 1.5BD OR s = r'\\d'"),
        (F.expr("a OR b") & F.expr("c OR d"), "(a OR b) AND (c OR d)"),
        (F.col("`a.b``c`") == 1, "`a.b``c` = 1"),
    ],
)
def test_the_text_says_what_the_column_says(column: Column, text: str) -> None:
    assert condition_text(column) == text


@pytest.mark.parametrize(
    "column",
    [
        DAY == "${x}",
        DAY == "a\\b",
        DAY == "it's",
        DAY == 1.5,
        DAY + 1 == 2,
        F.col("${x}") == 1,
        DAY.isin(),
        DAY.cast("int") == 1,
        F.expr("a = 1 -- or") & (DAY == 1),
        F.crc32(DAY) == 1,
    ],
)
def test_what_may_be_another_condition_as_text_is_refused(column: Column) -> None:
    with pytest.raises(AnalysisError, match="DELTAMERGE_UNSUPPORTED_PREDICATE"):
        _predicate(column)
