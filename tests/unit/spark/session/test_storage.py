"""Tables on local disks, opened as the session says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltamerge.disk import SYNC
from deltamerge.errors import InvalidArgumentError
from deltamerge.merge.settings import check_names
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.stages.target import data_store


def session(**settings: str) -> Any:
    known = {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=known.get), createDataFrame=None)


@pytest.mark.parametrize(("value", "options"), [(None, {}), ("true", {}), ("False", {SYNC: "false"})])
def test_what_is_written_is_synced_unless_the_session_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, options: dict[str, str]
) -> None:
    spark = session() if value is None else session(spark_deltamerge_sync=value)
    store = open_table(spark, f"file:{tmp_path}").store
    assert store.spec.options == data_store(store).options == options
    synced: list[list[str]] = []
    monkeypatch.setattr("deltamerge.worker.scan.store.sync_files", lambda paths: synced.append(list(paths)))
    data_store(store).sync(["a", "p=1/b"])
    assert synced == ([] if options else [[f"{tmp_path}/a", f"{tmp_path}/p=1/b"]])


def test_another_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'maybe'") as caught:
        open_table(session(spark_deltamerge_sync="maybe"), str(tmp_path))
    assert caught.value.condition == "DELTAMERGE_INVALID_SYNC"


def test_the_setting_is_one_of_those_that_are_known() -> None:
    check_names([SYNC])
