"""Random MERGE statements with comments, hints and odd quoting: `python -m tests.oracle.odd_statements --seeds 0:300 --log FILE`.

A seed's text goes to delta-spark, so to Spark's own parser, and to deltamerge; both tables must hold the same rows. A comment may
hold clauses and conditions, a string may look like a comment: whoever reads one for the other changes other rows. A text that
one engine takes and the other refuses is a difference, too.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import deltamerge
from tests.e2e.tables import conf
from tests.oracle.engines import copy_table
from tests.oracle.odd_names import rows_of
from tests.oracle.seeds import run_cases

_BLANKS = (" ",) * 9 + ("\n", "\r\n", "\t", "  ", "\n\n  ", "\u3000", "\u00a0")
_COMMENTS = (
    "-- it's\n", "--\n", "-- \\\nDELETE\n", "-- a\\\n\n", "-- /* \n", "-- */ \n", "-- `\n", '-- "\r\n', "--- x\n", "/**/",
    "/* ' */", "/* -- */", "/* a /* b */ c */", "/* WHEN MATCHED THEN DELETE */", "-- WHEN MATCHED THEN DELETE\n",
    "/* AND 1 = 0 */", "-- AND 1 = 0\n", "/* ; */", "-- ;\n", "/* /* ' */ \" */", "/* */ /* */", "/*\n-- */ ",
    "-- ? :x {y} $1\n", "/* \\ */", "-- é 日\n", "/***/", "/*/ */",
)  # fmt: skip
_HINTS = (
    "/*+ BROADCAST(u) */",
    "/*+ REPARTITION(2) */",
    "/*+ COALESCE(1), BROADCAST(u) */",
    "/*+ MERGE(u) */",
    "/*+\nUNKNOWN(x) */",
    "/*+ BROADCAST(u) -- x\n*/",
)
# Texts by what stands between the quotes, in several notations; each is a string for Spark, whatever its settings say of escapes.
_STRINGS = (
    "'x'", "'it''s'", r"'a\'b'", r"'\\'", r"'a\\'", r"r'\'", r"R'a\nb'", r"'\u0041'", r"'\101'", r"'\n'", r"'\%'", "'-- x'",
    "'/* x */'", "'/*'", "'*/'", "'WHEN MATCHED THEN DELETE'", "';'", "'`'", "'\"'", "'a' 'b'", "'a'/* */'b'", "'a'-- '\n'b'",
    "''", "' '", "'{x}'", "'$1'", "'?'", "'a\nb'", "'é日'", r"'\U0001F600'", r"r'--'", "'(' ", "')'", "'THEN'", r"'\q\z'",
    "'a''''b'",
)  # fmt: skip
_DOUBLE = (
    '"x"', '"it\'s"', '"a""b"', r'"\""', '"-- x"', '"/*"', '"v"', '"`"',
)  # fmt: skip
_NUMBERS = (
    "1", "01", "1L", "2S", "3Y", "1BD", "1.0", ".5", "1.", "1e0", "1E+2", "1.5D", "2F", "-1", "- 1", "- -1", "+1", "--1\n1",
    "0x1",
)  # fmt: skip
_TESTS = (
    "true", "1 = 1", "s.v <> 'no'", "t.v IS NOT NULL", "s.`it's` <> 'b'", "t.`a``b` = 'p'", "t.`--` < 3",
    "s.v IN ('x', 'it''s')", "s.v LIKE 'a%'", r"s.v LIKE 'a!%' ESCAPE '!'", "NOT (s.v = '/*')", "s.v = '--'",
    "t.`--` = 1 -- OR true\n", "t.id BETWEEN 1 AND 2", "! (t.id = 3)", "t.id !> 2", "s.v == '-- x'",
    "s.v = 'a' OR s.v = '*/'", "CASE WHEN t.id = 1 THEN true ELSE false END", "t.id>=1", "t.id<>-1", "t.id- 1=0", "t.id%2=0",
    "s.v rlike r'^\\w'",
)  # fmt: skip
_SOURCE_ROWS = ((1, "x", "a"), (2, "-- x", "b"), (3, "it's", "/*"), (5, "*/", "c"), (6, "no", "\\"))
_TARGET_ROWS = ((1, "old1", "p", 1), (2, "old2", "q", 2), (3, "old3", "p", 3), (4, "old4", "--", 4))
_ENDS = ("",) * 8 + (";", " ; ", "-- x", " -- x\\", "/* x */", ";-- x\n") * 3 + (" /* x", "; SELECT 1", "/*+ x */")
_KINDS = {"MATCHED": 0.8, "NOT MATCHED": 0.6, "NOT MATCHED BY SOURCE": 0.25}
_SETTINGS = ("spark.sql.ansi.doubleQuotedIdentifiers", "spark.sql.parser.escapedStringLiterals")


class OddStatement:
    """The random merge of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"odd statements {seed}")
        self.settings = {name: "true" for name in _SETTINGS if rng.random() < 0.15}
        if _SETTINGS[0] in self.settings:
            self.settings["spark.sql.ansi.enabled"] = "true"
        self.density = rng.choice((0.1, 0.3, 0.6))
        self.vectors = rng.random() < 0.4
        words = self.words()
        self.text = self.spaced(words) + rng.choice(_ENDS)

    def words(self) -> list[str]:
        rng = self.rng
        words = ["MERGE", "INTO", "{table}", *rng.choice((["t"], ["AS", "t"], ["`t`"])), "USING", *self.source()]
        words += [*rng.choice((["s"], ["AS", "s"], ["`s`"])), "ON", *self.joined()]
        words += self.clause(["MATCHED"], last=False) if rng.random() < 0.4 else []
        chosen = [kind for kind, share in _KINDS.items() if rng.random() < share] or ["MATCHED"]
        return [*words, *(word for kind in chosen for word in self.clause(kind.split()))]

    def source(self) -> list[str]:
        rng = self.rng
        if rng.random() < 0.35:
            return ["changes"]
        hint = [rng.choice(_HINTS)] if rng.random() < 0.6 else []
        select = ["SELECT", *hint, "*", "FROM", "changes", "u"]
        if rng.random() < 0.3:
            select += ["WHERE", "u.v", "<>", self.string()]
        if rng.random() < 0.2:
            select = ["WITH", "w", "AS", "(", *select, ")", "SELECT", *hint, "*", "FROM", "w"]
        return ["(", *select, ")"]

    def joined(self) -> list[str]:
        rng = self.rng
        words = ["t.id", rng.choice(("=", "==", "<=>")), rng.choice(("s.id", "s . id", "`s`.`id`", "s.`id`"))]
        return words + (["AND", *self.test()] if rng.random() < 0.5 else [])

    def test(self) -> list[str]:
        rng = self.rng
        if rng.random() < 0.7:
            return ["(", rng.choice(_TESTS), ")"]
        return ["s.v", rng.choice(("=", "<>", "<", "||")), self.string()] if rng.random() < 0.8 else ["t.id", ">=", self.number()]

    def clause(self, kind: list[str], last: bool = True) -> list[str]:
        rng = self.rng
        new, alone = kind == ["NOT", "MATCHED"], kind[-1] == "SOURCE"
        words = ["WHEN", *kind]
        if not last or rng.random() < 0.5:
            test = self.test()
            side = "t." if new else "s." if alone else "?"
            words += ["AND", *test] if not any(side in word for word in test) else ["AND", "1 = 1"]
        words.append("THEN")
        if new:
            values = ["s.id", ",", self.string(), ",", "s.`it's`", ",", self.number()]
            return [*words, "INSERT", "(", "id", ",", "v", ",", "`a``b`", ",", "`--`", ")", "VALUES", "(", *values, ")"]
        if rng.random() < 0.2:
            return [*words, "DELETE"]
        text = (
            [self.string()]
            if alone
            else rng.choice(
                ([self.string()], ["s.v"], ["concat", "(", "s.`it's`", ",", self.string(), ")"], [self.string(), "||", "s.v"])
            )
        )
        words += ["UPDATE", "SET", rng.choice(("v", "t.v", "`v`", "t.`v`")), "=", *text]
        words += [",", rng.choice(("`--`", "t.`--`")), "=", self.number()] if rng.random() < 0.4 else []
        return words + ([",", "`a``b`", "=", self.string()] if rng.random() < 0.3 else [])

    def string(self) -> str:
        return self.rng.choice(_STRINGS) if self.rng.random() < 0.85 else self.rng.choice(_DOUBLE)

    def number(self) -> str:
        return f"cast({self.rng.choice(_NUMBERS)} AS int)"

    def spaced(self, words: list[str]) -> str:
        """The words with blanks between them, some of them with comments."""
        rng, found = self.rng, [words[0]]
        for word in words[1:]:
            gap = rng.choice(_BLANKS)
            if rng.random() < self.density:
                gap += rng.choice(_COMMENTS if rng.random() < 0.997 else _HINTS) + rng.choice(_BLANKS)
            elif word in "(),=" and rng.random() < 0.5:
                gap = ""
            found += [gap, word]
        return "".join(found)

    def __str__(self) -> str:
        return f"{self.settings}, vectors {self.vectors}\n{self.text!r}"


def difference(spark: SparkSession, case: OddStatement, folder: Path, seen: Counter[str]) -> str | None:
    """What is different between the two engines on a text; None when nothing is. `seen` counts merges by how they ended."""
    place = Path(tempfile.mkdtemp(dir=folder))
    theirs, ours = place / "theirs", place / "ours"
    frame = spark.createDataFrame(list(_TARGET_ROWS), "id int, v string, `a``b` string, `--` int").coalesce(1)
    deltamerge.write(frame, str(theirs), properties={"delta.enableDeletionVectors": str(case.vectors).lower()})
    copy_table(theirs, ours)
    spark.createDataFrame(list(_SOURCE_ROWS), "id int, v string, `it's` string").createOrReplaceTempView("changes")
    try:
        with ExitStack() as stack:
            stack.enter_context(conf(spark, case.settings))
            expected = _error(lambda: spark.sql(case.text.replace("{table}", f"delta.`{theirs}`")).collect())
            found = _error(lambda: deltamerge.sql(spark, case.text.replace("{table}", f"delta.`{ours}`")).collect())
        if (found is None) != (expected is None):
            return f"{case}\nours: {found!r:.400}\ntheirs: {expected!r:.400}"
        seen["run" if found is None else "refused by both"] += 1
        wanted, got = rows_of(spark, theirs), rows_of(spark, ours)
        return None if wanted == got else f"{case}\nonly ours {got - wanted}, only theirs {wanted - got}"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _error(run: Any) -> Exception | None:
    try:
        run()
    except Exception as error:
        return error
    return None


if __name__ == "__main__":
    run_cases(__doc__, OddStatement, difference)
