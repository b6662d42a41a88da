"""The choice of how a merge runs: a table of facts and plans, by which every line and every reason comes up."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from deltamerge.merge.plan import choose as module
from deltamerge.merge.plan.physical import Broadcast, Exchange, Reader, SparkJoin, following
from deltamerge.worker.join.partitioning import NO_RANGES
from deltamerge.worker.scan.outcomes import KeysRepeated, NotEvaluable, NotThisWay, SourceUnreadable, TooLarge
from tests.unit.merge.plan.choosing import Choice, choices, plan_of

CHOICES = [choice for file in sorted((Path(__file__).parent / "choices").glob("*.choice")) for choice in choices(file)]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.title)
def test_choice(choice: Choice) -> None:
    assert tuple(plan_of(choice).lines()) == choice.plan


def test_more_tasks_match_whole_rows_than_keys() -> None:
    source = "evaluation=deferred rows=1000 bytes=480MB files"
    given = {"source": source, "files": "k=0..999, k=0..999", "budgets": "range_task_bytes=1"}
    keys, *whole = [attempt for attempt in plan_of(Choice("", given, ())).attempts if isinstance(attempt, Exchange)]
    assert (keys.key_only, keys.hash_tasks) == (("k",), 4)
    assert [(attempt.key_only, attempt.hash_tasks) for attempt in whole] == [((), 10)] * 2


def test_there_are_enough_choices() -> None:
    assert len(CHOICES) >= 80
    assert len({choice.title for choice in CHOICES}) == len(CHOICES)


def test_every_reason_comes_up() -> None:
    """Each text of a reason, or what is constant in it, is in some plan."""
    shown = "\n".join(line for choice in CHOICES for line in choice.plan)
    tree = ast.parse(inspect.getsource(module))
    docs = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
    }
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)} - docs
    reasons = {text for text in texts if " " in text.strip()}
    assert len(reasons) > 50
    assert not {reason for reason in reasons if reason.strip() not in shown}


def test_every_line_is_taken() -> None:
    taken: set[int] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        taken.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for choice in CHOICES:
            plan_of(choice)
    finally:
        sys.settrace(before)
    source = inspect.getsource(module).splitlines()
    assert not [source[line - 1] for line in sorted(set(_lines(module)) - taken)]


def _lines(of: Any) -> Iterator[int]:
    """The lines of a module's functions that can be run."""
    waiting: list[CodeType] = [f.__code__ for f in vars(of).values() if inspect.isfunction(f) and f.__module__ == of.__name__]
    while waiting:
        code = waiting.pop()
        yield from (line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno)
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


BROADCAST, JOIN = Broadcast(""), SparkJoin("")
SENT = {reader: Exchange("", reader, "k", NO_RANGES) for reader in Reader}


@pytest.mark.parametrize(
    ("failed", "outcome", "left"),
    [
        (Broadcast("", ("v",)), TooLarge(""), [BROADCAST, SENT[Reader.WORKERS], SENT[Reader.SPARK], JOIN]),
        (BROADCAST, NotEvaluable(""), [BROADCAST, SENT[Reader.WORKERS], SENT[Reader.SPARK], JOIN]),
        (SENT[Reader.WORKERS], SourceUnreadable(""), [BROADCAST, SENT[Reader.SPARK], JOIN]),
        (SENT[Reader.WORKERS], KeysRepeated(""), [BROADCAST, SENT[Reader.WORKERS], SENT[Reader.SPARK], JOIN]),
        (SENT[Reader.WORKERS], TooLarge(""), [BROADCAST, JOIN]),
    ],
)
def test_an_attempt_is_followed_by_one_that_does_not_end_the_same_way(failed: Any, outcome: NotThisWay, left: list[Any]) -> None:
    assert list(following([BROADCAST, SENT[Reader.WORKERS], SENT[Reader.SPARK], JOIN], failed, outcome)) == left
