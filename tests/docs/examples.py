"""The examples of a Markdown page: its fenced blocks as things that can be run and compared. Knows nothing of what they do.

A block of `python` or `sql` runs; a block of `text` behind it is what it must have printed, `...` standing for anything.
`<!-- not run: reason -->` above a block keeps it from running; `<!-- setup` up to `-->` is Python that readers don't see.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import deltamerge

PLACE = "/data"
_BLOCK = re.compile(
    r"^(?P<indent>[ ]*)```(?P<language>\w+)?[^\n]*\n(?P<text>.*?)^(?P=indent)```[ ]*$|^<!-- setup\n(?P<setup>.*?)^-->[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_NOT_RUN = re.compile(r"<!-- not run: [^\n]+ -->\s*\Z")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True, slots=True)
class Example:
    """One thing to run: `language` is python or sql, `line` the page's line where its text begins, `output` what it prints."""

    language: str
    text: str
    line: int
    output: str | None = None


def examples_of(page: str) -> Iterator[Example]:
    """The examples of a page's text, in order, each with the output that the page shows."""
    waiting: Example | None = None
    for found in _BLOCK.finditer(page):
        line = page.count("\n", 0, found.start()) + 2
        if found["language"] == "text":
            if waiting is not None:
                yield Example(waiting.language, waiting.text, waiting.line, textwrap.dedent(found["text"]))
            waiting = None
            continue
        if waiting is not None:
            yield waiting
        waiting = None
        if found["setup"] is not None:
            yield Example("python", found["setup"], line)
        elif found["language"] in ("python", "sql") and not _NOT_RUN.search(page, 0, found.start()):
            waiting = Example(found["language"], textwrap.dedent(found["text"]), line)
    if waiting is not None:
        yield waiting


def run_page(path: Path, spark: SparkSession, folder: Path) -> Iterator[tuple[Example, str]]:
    """Run a page's examples in one namespace, the paths below /data being below `folder`; each with what it printed."""
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    for example in examples_of(path.read_text(encoding="utf-8")):
        text = example.text.replace(f"{PLACE}/", f"{folder}/")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            runner(example, path)(text, namespace)
        yield example, printed.getvalue().replace(f"{folder}/", f"{PLACE}/")


def runner(example: Example, path: Path) -> Callable[[str, dict[str, Any]], None]:
    """What runs an example's text in a namespace; tracebacks name the page and the line."""

    def python(text: str, namespace: dict[str, Any]) -> None:
        exec(compile("\n" * (example.line - 1) + text, str(path), "exec"), namespace)

    def sql(text: str, namespace: dict[str, Any]) -> None:
        frame: DataFrame = deltamerge.sql(namespace["spark"], text)
        frame.show()

    return python if example.language == "python" else sql


def same_output(expected: str, printed: str) -> bool:
    """Whether an example printed what the page shows; the amount of blanks and blank lines at the end do not count."""
    return doctest.OutputChecker().check_output(expected, printed, _FLAGS)
