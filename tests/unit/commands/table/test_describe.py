"""History and details of logs whose commits say of themselves what they like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltamerge.commands.table.describe import detail_page, detail_table, history_table, history_view
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import PROTOCOL, add, commit, info, metadata


def history(root: Path, **more: Any) -> dict[str, Any]:
    """The newest commit of a table, as its history and the view of it have it."""
    commit(root, 0, PROTOCOL, metadata(), add("a"))
    commit(root, 1, info(**more), add("b"))
    found = history_table(DeltaLog(LocalStore(str(root))))
    assert len(history_view(found).rows) == 2
    row: dict[str, Any] = found.to_pylist()[0]
    return row


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("operation", 5, "5"),
        ("operation", ["a"], '["a"]'),
        ("userName", "a\ud83db", "a?b"),
        ("operationParameters", {"a": {"b": 1}, "c": None}, [("a", '{"b": 1}'), ("c", None)]),
        ("operationParameters", [], None),
        ("operationParameters", "x", None),
        ("operationMetrics", {"numOutputRows": "9" * 5_000}, [("numOutputRows", "9" * 5_000)]),
        ("operationMetrics", {"numOutputRows": None}, [("numOutputRows", None)]),
        ("readVersion", 1 << 63, None),
        ("readVersion", True, None),
        ("readVersion", 3, 3),
        ("isBlindAppend", "true", None),
        ("job", "x", None),
        ("job", {"jobId": 5}, {"jobId": "5", **dict.fromkeys(("jobName", "jobRunId", "runId", "jobOwnerId", "triggerType"))}),
        ("notebook", {"notebookId": "n"}, {"notebookId": "n"}),
    ],
)
def test_a_value_of_another_kind_is_its_text_or_left_out(tmp_path: Path, name: str, value: Any, shown: Any) -> None:
    assert history(tmp_path, **{name: value})[name] == shown


@pytest.mark.parametrize("at", [1 << 62, -(1 << 62), (1 << 63) - 1])
def test_a_time_that_no_calendar_has_is_none(tmp_path: Path, at: int) -> None:
    assert history(tmp_path, inCommitTimestamp=at)["timestamp"] is None
    snapshot = DeltaLog(LocalStore(str(tmp_path))).snapshot()
    assert detail_table(snapshot)["lastModified"].null_count in (0, 1)
    assert detail_page(snapshot).views
