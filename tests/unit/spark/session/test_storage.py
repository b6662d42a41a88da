"""Tables opened as the session says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltamerge.disk import SYNC
from deltamerge.errors import InvalidArgumentError
from deltamerge.merge.settings import check_names
from deltamerge.spark.pyspark import older
from deltamerge.spark.session.storage import open_table, store_settings
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


class Hadoop:
    """Hadoop's settings: of each its value, and where that comes from."""

    def __init__(self, **settings: tuple[str, str | None]) -> None:
        self._settings = {name.replace("_", "."): setting for name, setting in settings.items()}

    def get(self, name: str) -> str | None:
        return self._settings.get(name, (None, None))[0]

    def getPropertySources(self, name: str) -> list[str] | None:
        source = self._settings[name][1]
        return None if source is None else [source]


ENDPOINT, STYLE, REGION = "fs.s3a.endpoint", "fs.s3a.path.style.access", "fs.s3a.endpoint.region"


@pytest.mark.parametrize("source", ["core-default.xml", "Set by Spark to default values"])
def test_what_hadoop_comes_with_does_not_win_over_the_session(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """PySpark 3.5 gives an endpoint, and Hadoop a style of paths: `spark.conf.set("spark.hadoop..")` said otherwise."""
    monkeypatch.setattr(older, "IS_OLDER", False)
    hadoop = Hadoop(
        fs_s3a_endpoint=("s3.amazonaws.com", source),
        fs_s3a_path_style_access=("false", source),
        fs_s3a_endpoint_region=("r", source),
    )
    found = store_settings(_session(hadoop, {ENDPOINT: "http://store", STYLE: "true"}), [ENDPOINT, STYLE, REGION])
    assert found == {ENDPOINT: "http://store", STYLE: "true", REGION: "r"}


@pytest.mark.parametrize("source", ["core-site.xml", "programmatically", None])
def test_what_users_set_of_hadoop_wins_over_the_session(monkeypatch: pytest.MonkeyPatch, source: str | None) -> None:
    monkeypatch.setattr(older, "IS_OLDER", False)
    hadoop = Hadoop(fs_s3a_endpoint=("http://own", source))
    assert store_settings(_session(hadoop, {ENDPOINT: "http://store"}), [ENDPOINT]) == {ENDPOINT: "http://own"}


def _session(hadoop: Hadoop, settings: dict[str, str]) -> Any:
    state = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: hadoop))
    named = {f"spark.hadoop.{name}": value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(getAll=named), _jsparkSession=state)
