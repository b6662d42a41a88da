"""Statements and their Spark jobs: what the jobs are called, how far they are, how they are cancelled."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from deltamerge.errors import InvalidArgumentError
from deltamerge.progress.operation import Operation, Poll, current
from deltamerge.progress.operation import operation as any_operation
from deltamerge.progress.reporters import Reported
from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting

PROGRESS = "spark.deltamerge.progress"
_CONSOLE, _CONNECT_BAR = "spark.ui.showConsoleProgress", "SPARK_CONNECT_PROGRESS_BAR_ENABLED"
# Seconds before a request is interrupted: a server that is asked while it begins says that it has ended it, and goes on.
_BEGUN = 1.0
_DESCRIPTION, _GROUP = "spark.job.description", "spark.jobGroup.id"


@contextlib.contextmanager
def operation(spark: Session, name: str, table: str, told: Reported = None) -> Iterator[None]:
    """A statement about a table runs within; `told` is told how far it is, else a bar where the session allows it.

    Raises KeyboardInterrupt when it is stopped; its jobs are cancelled then.
    """

    def is_allowed(in_terminal: bool) -> bool:
        return shows_progress(spark) and not (in_terminal and _shows_own(spark))

    with any_operation(name, table, told, is_allowed):
        yield


def shows_progress(spark: Session) -> bool:
    """Whether the session has bars shown. Raises InvalidArgumentError for a value that is no truth."""
    value = setting(spark, PROGRESS, "true").lower()
    if value in ("true", "false"):
        return value == "true"
    message = f"The setting {PROGRESS} is {value!r}."
    raise InvalidArgumentError("DELTAMERGE_INVALID_PROGRESS", message, hint="true or false.")


def _shows_own(spark: Session) -> bool:
    """Whether Spark shows a bar of its own in terminals, on the same line."""
    if is_connect(spark):
        return os.environ.get(_CONNECT_BAR) == "1"
    return setting(spark, _CONSOLE, "false").lower() == "true"


@contextlib.contextmanager
def described(spark: Session, text: str) -> Iterator[None]:
    """Spark jobs started within carry `text` as their description (classic) or tag (Connect), and belong to the statement."""
    running = current()
    with _on_connect(spark, text, running) if is_connect(spark) else _on_classic(spark, text, running):
        yield


@contextlib.contextmanager
def _on_classic(spark: Session, text: str, running: Operation | None) -> Iterator[None]:
    context: Any = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(text)
    try:
        if running is None:
            yield
            return
        context.addJobTag(running.id)
        try:
            with _grouped(context, running) as poll, running.job(lambda: context.cancelJobsWithTag(running.id), poll):
                yield
        finally:
            context.removeJobTag(running.id)
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


@contextlib.contextmanager
def _grouped(context: Any, running: Operation) -> Iterator[Poll | None]:
    """What tells the tasks of the jobs within, which need a group for that: the user's, or else one of the statement."""
    if not running.is_watched:
        yield None
        return
    given = context.getLocalProperty(_GROUP)
    if given is not None:
        yield _tasks_of_group(context, given)
        return
    context.setLocalProperty(_GROUP, running.id)
    try:
        yield _tasks_of_group(context, running.id)
    finally:
        context.setLocalProperty(_GROUP, None)


def _tasks_of_group(context: Any, group: str) -> Poll:
    """What tells the tasks of the jobs of a group that are not there yet. What has ended is not asked for again."""
    tracker = context.statusTracker()
    others = set(tracker.getJobIdsForGroup(group))
    stages: dict[int, list[int]] = {}
    ended: dict[int, int] = {}

    def poll() -> tuple[int, int]:
        for job in tracker.getJobIdsForGroup(group):
            if job not in others and job not in stages and (info := tracker.getJobInfo(job)) is not None:
                stages[job] = list(info.stageIds)
        done = total = 0
        for stage in {stage for found in stages.values() for stage in found}:
            if stage in ended:
                done, total = done + ended[stage], total + ended[stage]
            elif (info := tracker.getStageInfo(stage)) is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
                if info.numCompletedTasks == info.numTasks:
                    ended[stage] = info.numTasks
        return done, total

    return poll


@contextlib.contextmanager
def _on_connect(spark: Session, text: str, running: Operation | None) -> Iterator[None]:
    session: Any = spark
    tags = ["".join(char for char in text if char != ","), *([] if running is None else [running.id])]
    for tag in tags:
        session.addTag(tag)
    began = time.monotonic()

    def cancel() -> None:
        if running is not None and time.monotonic() - began >= _BEGUN:
            session.interruptTag(running.id)

    try:
        if running is None:
            yield
        else:
            with _heard(session, running) as poll, running.job(cancel, poll):
                yield
    finally:
        for tag in tags:
            session.removeTag(tag)


@contextlib.contextmanager
def _heard(session: Any, running: Operation) -> Iterator[Poll | None]:
    """What tells the tasks of this thread's requests, by what the server says of them, every other second."""
    if not running.is_watched:
        yield None
        return
    thread, told = threading.get_ident(), [(0, 0)]

    def handler(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        if threading.get_ident() == thread and (found := list(stages or ())):
            told[0] = sum(stage.num_completed_tasks for stage in found), sum(stage.num_tasks for stage in found)

    remove: Callable[[Any], None] = session.removeProgressHandler
    session.registerProgressHandler(handler)
    try:
        yield lambda: told[0]
    finally:
        with contextlib.suppress(ValueError):  # the user has removed all
            remove(handler)
