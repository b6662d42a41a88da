"""Statements that change a table make the protocol, the metadata and the history that delta-spark makes."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.table.features import named_features
from tests.e2e.alterations import ALTERATIONS, NOT_REPLACED, REFUSED, REPLACED

_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def told(path: Path) -> list[tuple[Any, ...]]:
    """What each commit of a log says, without what differs by chance."""
    found = []
    for version, file in enumerate(sorted((path / "_delta_log").glob("*.json"))):
        actions: dict[str, Any] = {}
        for line in file.read_text().splitlines():
            actions |= json.loads(_RANDOM.sub("#", line))
        info = actions["commitInfo"]
        parameters = {key: _value(value) for key, value in info["operationParameters"].items()}
        metadata = actions.get("metaData")
        if metadata is not None:
            metadata = {**metadata, "createdTime": 0, "schemaString": json.loads(metadata["schemaString"])}
        protocol = open_log(str(path)).snapshot(version).protocol
        versions = protocol.min_reader_version, protocol.min_writer_version
        found.append((info["operation"], parameters, metadata, actions.get("domainMetadata"), versions, named_features(protocol)))
    return found


def _value(value: Any) -> Any:
    with contextlib.suppress(ValueError, TypeError):
        return json.loads(value)
    return value


@pytest.mark.parametrize("name", [name for name in ALTERATIONS if name != "refusals"])
def test_tables_are_changed_as_delta_spark_changes_them(spark: SparkSession, tmp_path: Path, name: str) -> None:
    for text in ALTERATIONS[name]:
        spark.sql(text.format(t=f"delta.`{tmp_path / 'there'}`"))
        deltamerge.sql(spark, text.format(t=f"delta.`{tmp_path / 'here'}`"))
    here, there = told(tmp_path / "here"), told(tmp_path / "there")
    for number, (ours, theirs) in enumerate(zip(here, there, strict=True)):
        assert ours == theirs, ALTERATIONS[name][number]


@pytest.mark.parametrize(("condition", "text"), REFUSED)
def test_what_is_refused_is_refused_there(spark: SparkSession, tmp_path: Path, condition: str, text: str) -> None:
    spark.sql(ALTERATIONS["refusals"][0].format(t=f"delta.`{tmp_path}`"))
    with pytest.raises((PySparkException, Py4JError)):
        spark.sql(text.format(t=f"delta.`{tmp_path}`"))


@pytest.mark.parametrize(("columns", "maps"), [case[1:] for case in NOT_REPLACED])
def test_columns_that_cannot_be_replaced_there_either(spark: SparkSession, tmp_path: Path, columns: str, maps: bool) -> None:
    spark.sql(REPLACED.format(t=f"delta.`{tmp_path}`"))
    if maps:
        spark.sql(f"ALTER TABLE delta.`{tmp_path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    with pytest.raises((PySparkException, Py4JError)):
        spark.sql(f"ALTER TABLE delta.`{tmp_path}` REPLACE COLUMNS ({columns})")
