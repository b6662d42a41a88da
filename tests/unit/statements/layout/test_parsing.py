"""RESTORE, VACUUM and OPTIMIZE, parsed."""

from __future__ import annotations

from typing import Any

import pytest

from deltamerge.commands.layout.optimize import Optimize, Reorg
from deltamerge.commands.layout.vacuum import VacuumRequest
from deltamerge.errors import ParseError
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import tokens_of
from deltamerge.statements.layout.optimize import OptimizeStatement, parse_optimize, parse_reorg
from deltamerge.statements.layout.restore import Restore, parse_restore
from deltamerge.statements.layout.vacuum import Vacuum, parse_vacuum
from deltamerge.statements.target import TableOrPath

PARSERS: dict[str, Any] = {"RESTORE": parse_restore, "VACUUM": parse_vacuum, "OPTIMIZE": parse_optimize, "REORG": parse_reorg}


def parsed(text: str) -> Any:
    reader = Reader(text, tokens_of(text) or ())
    reader.go_to(1)
    return PARSERS[text.split(maxsplit=1)[0]](reader)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("RESTORE TABLE a.b TO VERSION AS OF 3;", Restore(TableOrPath(("a", "b")), 3)),
        ("RESTORE to FOR SYSTEM_VERSION as of 0", Restore(TableOrPath(("to",)), 0)),
        (
            "RESTORE delta.`/x y` TIMESTAMP AS OF now() - interval 1 hour",
            Restore(TableOrPath(("delta", "/x y")), None, "now() - interval 1 hour"),
        ),
        ("VACUUM t", Vacuum(TableOrPath(("t",)))),
        ("VACUUM '/a b' retain 1.5 hours dry run", Vacuum(TableOrPath(("delta", "/a b")), VacuumRequest(1.5, True))),
        ("VACUUM t DRY RUN FULL RETAIN -168L HOURS;;", Vacuum(TableOrPath(("t",)), VacuumRequest(-168.0, True, False))),
        ("VACUUM t LITE USING INVENTORY a.b", Vacuum(TableOrPath(("t",)), VacuumRequest(lite=True), "TABLE a.b")),
        ("VACUUM t USING INVENTORY (SELECT (1)) DRY RUN", Vacuum(TableOrPath(("t",)), VacuumRequest(None, True), "SELECT (1)")),
        (
            "REORG t WHERE p = 1 APPLY (PURGE)",
            OptimizeStatement(TableOrPath(("t",)), Optimize(("p = 1",), reorg=Reorg.PURGE)),
        ),
        ("OPTIMIZE t", OptimizeStatement(TableOrPath(("t",)), Optimize())),
        (
            "OPTIMIZE t WHERE p = 'x' AND q IN (1, 2) ZORDER BY a, b.c",
            OptimizeStatement(TableOrPath(("t",)), Optimize(("p = 'x' AND q IN (1, 2)",), ("a", "b.c"))),
        ),
        ("OPTIMIZE '/p' full zorder by (`a b`)", OptimizeStatement(TableOrPath(("delta", "/p")), Optimize((), ("`a b`",), True))),
    ],
)
def test_what_a_text_says(text: str, statement: object) -> None:
    assert parsed(text) == statement


@pytest.mark.parametrize(
    "text",
    [
        "RESTORE",
        "RESTORE t",
        "RESTORE t TO VERSION AS OF",
        "RESTORE t TO VERSION AS OF 1.5",
        "RESTORE t TO TIMESTAMP AS OF",
        "VACUUM",
        "VACUUM t RETAIN inf HOURS",
        "VACUUM t RETAIN '1' HOURS",
        "VACUUM t DRY",
        "OPTIMIZE",
        "OPTIMIZE t WHERE",
        "OPTIMIZE t ZORDER BY ()",
        "OPTIMIZE t ZORDER BY (a",
        "OPTIMIZE t ZORDER BY a b",
    ],
)
def test_what_is_no_statement_is_shown(text: str) -> None:
    with pytest.raises(ParseError, match=r"PARSE_SYNTAX_ERROR.*line 1, position \d+"):
        parsed(text)
