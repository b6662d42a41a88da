"""Write what delta-spark answers into case files: `python -m tests.oracle.fill [--all] [--titles WORD] FILE...`.

Cases without an expectation get one, with --all every case. What stands there must still be read with a critical eye. Prints
where delta-spark answers otherwise with deletion vectors.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from tests.cases.format import Case, blocks_of, counts_text, parse_cases
from tests.cases.running import Outcome, run_case
from tests.cases.tables import Rows, Tables
from tests.oracle.conftest import oracle_session
from tests.oracle.engines import DELTA_SPARK

_ANSWERS = ("result", "counts", "error", "feed", "metrics", "metrics of vectors")


def main() -> None:
    """Fill the files that are named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--all", action="store_true", help="answer cases that have an expectation, too")
    parser.add_argument("--titles", default="", help="only cases whose title has this word")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = oracle_session(Path(folder) / "warehouse")
        tables = Tables(spark, Path(folder))
        for file in arguments.files:
            fill(spark, tables, file, arguments.all, arguments.titles)
        spark.stop()


def fill(spark: SparkSession, tables: Tables, file: Path, everything: bool, titles: str) -> None:
    """Fill one file, from its end so that lines keep their numbers."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    cases = parse_cases(text, file.stem)
    ends = [case.line - 1 for case in cases[1:]] + [len(lines)]
    for case, end in reversed(list(zip(cases, ends, strict=True))):
        answered = case.expected.error or (case.expected.result and case.expected.result.header != ("?",))
        if case.differs or titles not in case.title or (answered and not everything):
            continue
        answer = ask(spark, case, tables)
        kept = _without_answers(lines[case.line : end], case)
        lines[case.line : end] = [*kept, *answer, *([""] if end < len(lines) else [])]
        file.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def ask(spark: SparkSession, case: Case, tables: Tables) -> list[str]:
    """delta-spark's answer as the lines of a case; prints where it depends on the mode."""
    rewritten, marked = (run_case(spark, case, tables, DELTA_SPARK, vectors) for vectors in (False, True))
    lines = said(rewritten)
    if lines != said(marked):
        print(f"{case.id}\n  with vectors {marked.message[:300]}:\n  " + "\n  ".join(said(marked)), flush=True)
    lines += _metrics("metrics", case.metrics, rewritten)
    return lines + _metrics("metrics of vectors", case.vector_metrics, marked)


def said(outcome: Outcome) -> list[str]:
    """An outcome as the lines of a case."""
    if outcome.error:
        return [f"error {outcome.error}"]
    assert outcome.counts is not None
    lines = [f"counts {counts_text(outcome.counts)}", "result", *table_lines(outcome.content)]
    return lines if outcome.feed is None else [*lines, "feed", *table_lines(outcome.feed)]


def _metrics(keyword: str, asked: tuple[tuple[str, int], ...], outcome: Outcome) -> list[str]:
    return [keyword, *(f"    {name} = {outcome.metrics.get(name, 0)}" for name, _ in asked)] if asked else []


def table_lines(table: Rows) -> list[str]:
    """A table as aligned lines of a case."""
    rows = [table.header or ("no columns",), *table.rows]
    widths = [min(24, max(len(row[at]) for row in rows)) for at in range(len(rows[0]))]
    return ["    " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _without_answers(lines: list[str], case: Case) -> list[str]:
    blocks = [block for block in blocks_of(lines, 0, case.file) if block.keyword in _ANSWERS]
    dropped = {number for block in blocks for number in range(block.line, block.line + 1 + len(block.body))}
    kept = [line for number, line in enumerate(lines) if number not in dropped]
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


if __name__ == "__main__":
    main()
