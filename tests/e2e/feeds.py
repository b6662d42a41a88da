"""Tables with a change data feed, and what it says of a version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.tables import make
from tests.e2e.vectors import actions_of

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}

Change = tuple[Any, ...]


def feed_table(
    spark: SparkSession,
    path: Path,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
    partition_by: Sequence[str] = (),
    files: int = 1,
    **properties: str,
) -> DeltaTable:
    """A new table with a feed and alias t, its rows spread over `files` files in order, an append each."""
    return make(spark, path, schema, rows, partition_by=partition_by, files=files, properties={**FEED, **properties})


def changes(spark: SparkSession, path: Path, start: int, end: int | None = None) -> list[Change]:
    """The changes of some versions, of one if no end is given: each row's values, then its kind; sorted by kind."""
    frame = deltamerge.read_changes(spark, str(path), start, ending_version=start if end is None else end)
    rows = [tuple(row) for row in frame.drop("_commit_version", "_commit_timestamp").collect()]
    return sorted(rows, key=lambda row: (row[-1], *map(repr, row)))


def change_files(path: Path, version: int) -> list[str]:
    """The paths of a version's change data files."""
    return sorted(action["path"] for action in actions_of(path, version, "cdc"))
