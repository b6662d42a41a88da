"""The examples of a Markdown page: its fenced blocks as things that can be run and compared. Knows nothing of what they do.

A block of `python` runs; a block of `text` behind it is what it must have printed. `<!-- not run: reason -->` above a block
keeps it from running. Imports the standard library only, so that it runs where nothing but the wheel is installed.
"""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Where the examples' tables are, as readers see it.
PLACE = "/tmp/deltamerge"
_BLOCK = re.compile(
    r"^(?P<indent>[ ]*)```(?P<language>\w+)?[^\n]*\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_NOT_RUN = re.compile(r"<!-- not run: [^\n]+ -->\s*\Z")


@dataclass(frozen=True, slots=True)
class Example:
    """Python to run: `line` is the page's line where its text begins, `output` what it prints."""

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
                yield Example(waiting.text, waiting.line, textwrap.dedent(found["text"]))
            waiting = None
            continue
        if waiting is not None:
            yield waiting
        waiting = None
        if found["language"] == "python" and not _NOT_RUN.search(page, 0, found.start()):
            waiting = Example(textwrap.dedent(found["text"]), line)
    if waiting is not None:
        yield waiting


def commands_of(page: str) -> Iterator[tuple[str, str | None]]:
    """The commands of this library's program that a page has, in order, each with the output that the page shows behind it."""
    blocks = list(_BLOCK.finditer(page))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["language"] != "shell":
            continue
        parts = re.split(r"^deltamerge ", block["text"], flags=re.MULTILINE)[1:]
        if not parts:
            continue
        *first, last = [f"deltamerge {part.rstrip()}" for part in parts]
        yield from ((command, None) for command in first)
        yield last, following["text"] if following is not None and following["language"] == "text" else None


def run_page(path: Path, folder: Path) -> Iterator[tuple[Example, str]]:
    """Run a page's examples in one empty namespace; each with what it printed.

    The tables are below `folder` instead of where readers have them.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for example in examples_of(path.read_text(encoding="utf-8")):
        text = example.text.replace(f"{PLACE}/", f"{folder}/")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Tracebacks name the page and the line.
            exec(compile("\n" * (example.line - 1) + text, str(path), "exec"), namespace)
        yield example, printed.getvalue().replace(f"{folder}/", f"{PLACE}/")


def difference(path: Path, example: Example, printed: str) -> str:
    """How an example's output differs from what the page shows; '' when it does not, or the page shows none."""
    if example.output is None or same_output(example.output, printed):
        return ""
    return f"{path.name}:{example.line} prints otherwise\n--- the page\n{example.output}\n--- printed\n{printed}"


def same_output(expected: str, printed: str) -> bool:
    """Whether an example printed what the page shows, but for blanks at the ends of lines and blank lines at the end."""
    return _trimmed(expected) == _trimmed(printed)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n")
