"""Changes inputs at random, and goes on from those by which lines of the code are run that none before has run."""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tests.fuzz.targets import Target

WORDS = [b"null", b"[]", b"{}", b'"', b"\n", b"-1", b"1e999", b"\\u0000", b"\\ud800", b"`", b"(", b")", b"'", b"${", b"../"]
WORDS += [bytes(4), b"\xff", b"\xff" * 4, b"\x7f\xff\xff\xff", b"9" * 25, b"[" * 200, b"(" * 200, b"CASE ", b"0x", b"{"]
# An input may take so much memory, and so long; a first run may load modules.
MOST_BYTES, PER_BYTE, MOST_SECONDS = 32 << 20, 500, 5.0


@dataclass
class Found:
    """How a target was tried: inputs, lines that were run, and what went wrong with which input."""

    inputs: int = 0
    lines: set[tuple[int, int]] = field(default_factory=set)
    corpus: list[bytes] = field(default_factory=list)
    wrong: list[tuple[str, bytes]] = field(default_factory=list)
    slowest: float = 0
    largest: int = 0


def fuzzed(target: Target, seconds: float, seed: int) -> Found:
    """Try a target for so long, at least its seeds."""
    chance, found = random.Random(seed), Found()
    for data in target.seeds:
        try:
            target.run(data)
        except Exception as error:
            found.wrong.append((f"a good input: {error!r}", data))
        _try(target, data, found)
    found.corpus += [data for data in target.seeds if data not in found.corpus]
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(found.wrong) < 5:
        _try(target, changed(chance.choice(found.corpus), chance, found.corpus), found)
    return found


def changed(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """The bytes after a few changes."""
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at, length = chance.randrange(len(data) + 1), chance.randrange(1, 40)
        kind = chance.randrange(7)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + data[at + length :]
        elif kind == 2:
            data = data[: at + length] + data[at:]
        elif kind == 3:
            data = data[:at] + chance.choice(WORDS) + data[at:]
        elif kind == 4:
            word = chance.choice(WORDS)
            data = data[:at] + word + data[at + len(word) :]
        elif kind == 5:
            other = chance.choice(others)
            data = data[:at] + other[chance.randrange(len(other) + 1) :]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    return data[: 1 << 16]


def _try(target: Target, data: bytes, found: Found) -> None:
    before, started = len(found.lines), time.perf_counter()
    tracemalloc.start()
    try:
        with _seen(found.lines):
            target.run(data)
    except target.expected:
        pass
    except Exception as error:
        found.wrong.append((repr(error), data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    took = time.perf_counter() - started
    found.inputs, found.slowest, found.largest = found.inputs + 1, max(found.slowest, took), max(found.largest, peak)
    if took > MOST_SECONDS:
        found.wrong.append((f"it took {took:.1f} s", data))
    if peak > MOST_BYTES + PER_BYTE * len(data):
        found.wrong.append((f"it took {peak} bytes of memory", data))
    if len(found.lines) > before:
        found.corpus.append(data)


@contextmanager
def _seen(lines: set[tuple[int, int]]) -> Iterator[None]:
    def within(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.add((id(frame.f_code), frame.f_lineno))
        return within

    def called(frame: FrameType, *_: Any) -> Any:
        return within if "/deltamerge/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
