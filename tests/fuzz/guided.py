"""Changes inputs at random, and goes on from those that take a step in the code which none before has taken.

A step is two lines that are run one after the other, as in AFL: by it a loop that goes on and one that ends differ.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tests.fuzz.targets import Target

WORDS = [b"null", b"[]", b"{}", b'"', b"\n", b"-1", b"1e999", b"\\u0000", b"\\ud800", b"`", b"(", b")", b"'", b"${", b"../"]
WORDS += [bytes(4), b"\xff", b"\xff" * 4, b"\x7f\xff\xff\xff", b"9" * 25, b"[" * 200, b"(" * 200, b"CASE ", b"0x", b"{"]
# An input may take so much memory, and so many seconds of the CPU, or of waiting; a first run may load modules.
MOST_BYTES, PER_BYTE, MOST_SECONDS, MOST_WAIT = 32 << 20, 500, 5.0, 60.0

Step = tuple[int, int, int, int]


@dataclass
class Found:
    """How a target was tried: inputs, the steps that were taken, which input took new ones, and what went wrong with which."""

    inputs: int = 0
    steps: set[Step] = field(default_factory=set)
    corpus: list[bytes] = field(default_factory=list)
    wrong: list[tuple[str, bytes]] = field(default_factory=list)
    slowest: float = 0
    largest: int = 0


@contextmanager
def _traced() -> Iterator[None]:
    """Python's memory is traced. To start and to stop that for each input would take ever more of it."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@_traced()
def fuzzed(target: Target, seconds: float, seed: int, kept: Sequence[bytes] = ()) -> Found:
    """Try a target for so many seconds of this process's CPU, at least its seeds and what earlier runs have `kept`."""
    chance, found = random.Random(seed), Found()
    for data in target.seeds:
        try:
            target.run(data)
        except Exception as error:
            found.wrong.append((f"a good input: {error!r}", data))
        _try(target, data, found)
    found.corpus += [data for data in target.seeds if data not in found.corpus]
    for data in kept:
        _try(target, data, found)
    end = time.process_time() + seconds
    while time.process_time() < end and len(found.wrong) < 5:
        _try(target, changed(chance.choice(found.corpus), chance, found.corpus), found)
    return found


@_traced()
def smallest(target: Target, corpus: Sequence[bytes]) -> list[bytes]:
    """The inputs that are worth keeping: short ones first, those that take a step which no shorter one takes."""
    found = Found()
    for data in (*target.seeds, *sorted(corpus, key=lambda data: (len(data), data))):
        _try(target, data, found)
    return [data for data in found.corpus if data not in target.seeds]


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
    before, started, clock = len(found.steps), time.process_time(), time.monotonic()
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    try:
        with _seen(found.steps):
            target.run(data)
    except target.expected:
        pass
    except Exception as error:
        found.wrong.append((repr(error), data))
    peak = tracemalloc.get_traced_memory()[1] - held
    took = time.process_time() - started
    found.inputs, found.slowest, found.largest = found.inputs + 1, max(found.slowest, took), max(found.largest, peak)
    if took > MOST_SECONDS:
        found.wrong.append((f"it took {took:.1f} s", data))
    elif (waited := time.monotonic() - clock) > MOST_WAIT:
        found.wrong.append((f"it waited {waited:.0f} s", data))
    if peak > MOST_BYTES + PER_BYTE * len(data):
        found.wrong.append((f"it took {peak} bytes of memory", data))
    if len(found.steps) > before:
        found.corpus.append(data)


@contextmanager
def _seen(steps: set[Step]) -> Iterator[None]:
    code, line = 0, 0

    def within(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal code, line
        if event == "line":
            last_code, last_line = code, line
            code, line = id(frame.f_code), frame.f_lineno
            steps.add((last_code, last_line, code, line))
        return within

    def called(frame: FrameType, *_: Any) -> Any:
        return within if "/deltamerge/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
