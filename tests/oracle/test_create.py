"""Tables that the builder makes and replaces have the protocol, the metadata and the history that delta-spark gives them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import delta.tables as upstream
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltamerge import tables
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.table.features import named_features
from tests.e2e.creations import CREATIONS, REFUSALS, Refusal, is_empty
from tests.e2e.tables import conf

_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DEFAULT = {"spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true"}


def told(path: Path) -> list[dict[str, Any]]:
    """What each commit of a log says, without what differs by chance."""
    return [_told(file) for file in sorted((path / "_delta_log").glob("*.json"))]


def _told(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in file.read_text().splitlines():
        ((kind, value),) = json.loads(_RANDOM.sub("#", line)).items()
        if kind == "commitInfo":
            parameters = dict(value["operationParameters"])
            parameters["properties"] = json.loads(parameters["properties"])
            found |= {key: value[key] for key in ("operation", "isolationLevel", "isBlindAppend")} | parameters
        elif kind == "metaData":
            value.pop("createdTime")
            found["metaData"] = {**value, "schemaString": json.loads(value["schemaString"])}
        elif kind == "domainMetadata":
            found[value["domain"]] = {**value, "configuration": json.loads(value["configuration"])}
    return found


@pytest.mark.parametrize("name", CREATIONS)
def test_tables_are_made_as_delta_spark_makes_them(spark: SparkSession, tmp_path: Path, name: str) -> None:
    with conf(spark, _DEFAULT if name == "by session" else {}):
        for module, folder in ((upstream, "there"), (tables, "here")):
            for build in CREATIONS[name]:
                build(module, spark, str(tmp_path / folder)).execute()
    assert told(tmp_path / "here") == told(tmp_path / "there")
    here, there = (open_log(str(tmp_path / folder)).snapshot().protocol for folder in ("here", "there"))
    assert (named_features(here), here.min_reader_version) == (named_features(there), there.min_reader_version)
    assert here.min_writer_version == there.min_writer_version


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal.condition))
def test_what_is_refused_is_refused_there(spark: SparkSession, tmp_path: Path, refusal: Refusal) -> None:
    with pytest.raises((PySparkException, Py4JError)) as caught:
        refusal.build(upstream, spark, str(tmp_path / "t")).execute()
    found = caught.value.getCondition() if isinstance(caught.value, PySparkException) else str(caught.value)
    assert (refusal.condition if refusal.there is None else refusal.there) in (found or "")
    assert is_empty(tmp_path / "t")
