"""The time to read a text grows with its length, not faster: a table's log and a statement may be long."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable

import pytest

from deltamerge.errors import DeltaMergeError
from deltamerge.merge.statement.parse import parse_merge
from deltamerge.spark.sql.allowed.functions import OF_CHECKS, forbidden
from deltamerge.spark.sql.allowed.operands import Columns
from deltamerge.spark.sql.text import parse
from deltamerge.spark.sql.variables import references

MERGE = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND "
ROW = Columns(["a"])


def metadata(text: str) -> None:
    forbidden(text, OF_CHECKS, ROW)


def variables(text: str) -> None:
    for _ in references(text):
        pass


def merge(text: str) -> None:
    with contextlib.suppress(DeltaMergeError):
        parse_merge(MERGE + text)


TEXTS: list[tuple[Callable[[str], None], Callable[[int], str]]] = [
    *(
        (metadata, lambda n, unit=unit: unit * n)
        for unit in [
            "(",
            "a[",
            "a.",
            "a.upper(",
            "x -> ",
            "CAST(a AS ",
            "trim(both ",
            "INTERVAL 1 DAY 1 DAY ",
            "a::STRUCT<",
            "(x, y) -> ",
            "((x) -> ",
            "transform(x -> transform(x, ",
            "dateadd(day, ",
            "$",
            "/*",
            "`a ",
            "''",
        ]
    ),
    (metadata, lambda n: "${" * n),
    (metadata, lambda n: "a" + "[0]" * n),
    (variables, lambda n: "${" * n),
    (variables, lambda n: "${a" * n + " }"),
    (variables, lambda n: "${" * n + "}"),
    (variables, lambda n: "${a:b}" * n),
    (merge, lambda n: "(" * n),
    (merge, lambda n: "(" * n + "1" + ")" * n + " THEN DELETE"),
    (merge, lambda n: "CASE " * n),
    (merge, lambda n: "t.a = 1 THEN UPDATE SET a = 1 WHEN MATCHED AND " * (n // 10)),
    (merge, lambda n: "t.a IN (" + "1, " * n + "1) THEN DELETE"),
    (parse, lambda n: "f(" * n),
    (parse, lambda n: "a" + "::int" * n),
]


@pytest.mark.parametrize(("read", "text"), TEXTS, ids=lambda value: value(3)[-30:] if value.__name__ == "<lambda>" else None)
def test_twice_the_text_takes_twice_the_time(read: Callable[[str], None], text: Callable[[int], str]) -> None:
    def seconds(count: int) -> float:
        written = text(count)
        gc.disable()  # it looks through all that other tests have left, as often as a text is long
        try:
            begin = time.process_time()
            read(written)
            return time.process_time() - begin
        finally:
            gc.enable()

    for _ in range(3):  # once is enough: other work on the machine makes it slower, none makes it quicker
        ratio = (seconds(16_000) + 0.01) / (seconds(4_000) + 0.01)
        if ratio < 7:  # 4 for a time that grows with the length, 16 for one that grows with its square
            return
    pytest.fail(f"four times the text takes {ratio:.0f} times the time")
