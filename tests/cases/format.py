"""Merge cases as text: what stands in a `.case` file, and what is wrong with one that can't be read. Runs nothing.

README.md in this folder describes the format.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.cases.values import split_cells

HERE = Path(__file__).parent
_TABLES = ("target", "source", "result", "feed")
_BLOCKS = (*_TABLES, "merge", "builder", "metrics", "metrics of vectors")
_LINES = (
    "partitioned by",
    "property",
    "deleted",
    "set",
    "counts",
    "error",
    "says",
    "differs",
    "fails",
    "only",
    "unconfirmed",
)
_KEYWORD = re.compile(r"(delta-spark )?(" + "|".join(sorted((*_BLOCKS, *_LINES), key=len, reverse=True)) + r")(?: +(.*))?$")
_CALL = re.compile(r"(\w+)\((.*?)\)(?:: (.+))?")
_COUNT = re.compile(r"(\d+) (updated|deleted|inserted)")
_COUNTS = ("updated", "deleted", "inserted")
_NEXT_FILE = "~~~"


class CaseError(ValueError):
    """A case file that can't be understood: file, line and what is wrong."""


@dataclass(frozen=True)
class Table:
    """A small table as text: the cells of the header, and the rows of each file."""

    header: tuple[str, ...]
    files: tuple[tuple[str, ...], ...]
    partitioned_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    deleted: str | None = None


@dataclass(frozen=True)
class Call:
    """A method of the merge builder: its condition, and what it assigns (None for methods that take no assignments)."""

    method: str
    condition: str | None
    assignments: tuple[tuple[str, str], ...] | None


@dataclass(frozen=True)
class Expected:
    """How a merge ends: the table, the counts and the change feed, or the condition name of an error."""

    error: str | None = None
    result: Table | None = None
    counts: tuple[int, int, int] | None = None
    feed: Table | None = None


@dataclass(frozen=True)
class Case:
    """One merge: from which tables it starts, what it says, and how it ends; `line` is where its title stands."""

    file: str
    line: int
    title: str
    target: Table
    source: Table | None = None
    settings: tuple[tuple[str, str], ...] = ()
    statement: str | None = None
    builder: tuple[Call, ...] = ()
    expected: Expected = field(default_factory=Expected)
    theirs: Expected | None = None
    says: tuple[str, ...] = ()
    metrics: tuple[tuple[str, int], ...] = ()
    vector_metrics: tuple[tuple[str, int], ...] = ()
    differs: str | None = None
    fails: str | None = None
    only: str | None = None
    unconfirmed: str | None = None

    @property
    def id(self) -> str:
        """File and title."""
        return f"{self.file}: {self.title}"

    @property
    def of_delta_spark(self) -> Expected:
        """How it ends in delta-spark."""
        return self.theirs or self.expected


@dataclass(frozen=True)
class Block:
    """A keyword at the beginning of a line, what follows on the line, and the indented lines below it."""

    line: int
    theirs: bool
    keyword: str
    value: str
    body: tuple[str, ...]


def case_files() -> list[Path]:
    """All case files."""
    return sorted(HERE.glob("*.case"))


def load_cases(file: Path) -> list[Case]:
    """The cases of a file. Raises CaseError."""
    return parse_cases(file.read_text(encoding="utf-8"), file.stem)


def parse_cases(text: str, file: str) -> list[Case]:
    """The cases of a text, in order. What stands before the first title holds for all of them. Raises CaseError."""
    sections = list(_sections(text))
    shared = blocks_of(sections[0][1], 1, file)
    found: list[Case] = []
    for (line, title), lines in ((head, body) for head, body in sections[1:]):
        own = blocks_of(lines, line + 1, file)
        keywords = {block.keyword for block in own}
        given = [block for block in shared if block.keyword not in keywords or block.keyword == "set"]
        if "target" in keywords:
            given = [block for block in given if block.keyword not in ("partitioned by", "property", "deleted")]
        found.append(_case(file, line, title, [*given, *own]))
    titles = [case.title for case in found]
    repeated = next((case for case in found if titles.count(case.title) > 1), None)
    if repeated is not None:
        raise CaseError(f"{file}.case:{repeated.line}: two cases have the title {repeated.title!r}")
    return found


def _sections(text: str) -> Iterator[tuple[tuple[int, str], list[str]]]:
    """Titles with their lines; the first has no title."""
    head, lines = (0, ""), []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            yield head, lines
            head, lines = (number, line[3:].strip()), []
        else:
            lines.append(line)
    yield head, lines


def blocks_of(lines: list[str], first: int, file: str) -> list[Block]:
    """The blocks of a case; lines that begin with `--` or `# ` are remarks. Raises CaseError."""
    found: list[Block] = []
    for number, line in enumerate(lines, first):
        if not line.strip() or line.startswith(("--", "# ")):
            continue
        if line.startswith("    "):
            if not found:
                raise CaseError(f"{file}.case:{number}: an indented line belongs to no block: {line.strip()}")
            found[-1] = replace(found[-1], body=(*found[-1].body, line[4:].rstrip()))
            continue
        match = _KEYWORD.fullmatch(line.rstrip())
        if match is None:
            raise CaseError(f"{file}.case:{number}: unknown keyword in {line.strip()!r}")
        found.append(Block(number, bool(match[1]), match[2], (match[3] or "").strip(), ()))
    return found


def _case(file: str, line: int, title: str, blocks: list[Block]) -> Case:
    def fail(block: Block, problem: str) -> CaseError:
        return CaseError(f"{file}.case:{block.line}: {title}: {problem}")

    for block in blocks:
        if block.keyword in _BLOCKS and not block.body:
            raise fail(block, f"{block.keyword} has no lines below it")
        if block.keyword in _LINES and (block.body or not block.value):
            raise fail(block, f"{block.keyword} is one line with a value")
    own = [block for block in blocks if not block.theirs]
    try:
        target, source = _table(own, "target"), _table(own, "source")
        expected, theirs = _expected(own), _expected([block for block in blocks if block.theirs])
        calls = tuple(_call(text) for block in own if block.keyword == "builder" for text in block.body)
    except ValueError as error:
        raise CaseError(f"{file}.case:{line}: {title}: {error}") from error
    statement = next((textwrap.dedent("\n".join(b.body)) for b in own if b.keyword == "merge"), None)
    if target is None:
        raise CaseError(f"{file}.case:{line}: {title}: there is no target")
    if (statement is None) == (not calls):
        raise CaseError(f"{file}.case:{line}: {title}: either merge or builder is needed")
    target = replace(
        target,
        partitioned_by=tuple(name for text in _values(own, "partitioned by") for name in text.split(", ")),
        properties=tuple(_pair(text) for text in _values(own, "property")),
        deleted=_value(own, "deleted"),
    )
    has_theirs = any(block.theirs for block in blocks)
    if has_theirs != (_value(own, "differs") is not None):
        raise CaseError(f"{file}.case:{line}: {title}: differs and what delta-spark does go together")
    return Case(
        file, line, title, target, source, tuple(_pair(text) for text in _values(own, "set")), statement, calls,
        expected, theirs if has_theirs else None, tuple(_values(own, "says")), _metrics(own, "metrics"),
        _metrics(own, "metrics of vectors"), _value(own, "differs"), _value(own, "fails"), _value(own, "only"),
        _value(own, "unconfirmed"),
    )  # fmt: skip


def _values(blocks: list[Block], keyword: str) -> list[str]:
    return [block.value for block in blocks if block.keyword == keyword]


def _value(blocks: list[Block], keyword: str) -> str | None:
    return next(iter(_values(blocks, keyword)), None)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CaseError(f"a name, = and a value are needed: {text}")
    return name.strip(), value.strip()


def _metrics(blocks: list[Block], keyword: str) -> tuple[tuple[str, int], ...]:
    pairs = [_pair(line) for block in blocks if block.keyword == keyword for line in block.body]
    return tuple((name, -1 if value == "?" else int(value)) for name, value in pairs)


def _table(blocks: list[Block], keyword: str) -> Table | None:
    block = next((b for b in blocks if b.keyword == keyword), None)
    if block is None:
        return None
    files: list[list[str]] = [[]]
    for line in block.body[1:]:
        if line.strip() == _NEXT_FILE:
            files.append([])
        else:
            files[-1].append(line.strip())
    header = tuple(split_cells(block.body[0]))
    return Table(() if header == ("no columns",) else header, tuple(map(tuple, files)))


def _expected(blocks: list[Block]) -> Expected:
    counts = _value(blocks, "counts")
    found = {word: int(number) for number, word in _COUNT.findall(counts or "")}
    return Expected(
        _value(blocks, "error"),
        _table(blocks, "result"),
        None if counts is None else (found.get("updated", 0), found.get("deleted", 0), found.get("inserted", 0)),
        _table(blocks, "feed"),
    )


def _call(text: str) -> Call:
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"no call of the builder: {text}")
    assignments = None if match[3] is None else tuple(_pair(part) for part in split_commas(match[3]) if part != "nothing")
    return Call(match[1], match[2] or None, assignments)


def split_commas(text: str) -> list[str]:
    """The parts that commas outside of brackets and quotes separate."""
    parts, depth, start, quote = [], 0, 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def counts_text(counts: tuple[int, int, int]) -> str:
    """Counts as a case has them."""
    said = [f"{count} {word}" for count, word in zip(counts, _COUNTS, strict=True) if count]
    return ", ".join(said) or "nothing"
