"""Tables for commands that change no row, and the little that these ask of a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.types import PrimitiveType, StructField
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import Json, commit, metadata


class _Settings:
    def get(self, name: str, default: str | None = None) -> str | None:
        return default

    @property
    def getAll(self) -> dict[str, str]:
        return {}


class NoSpark:
    """A session without settings, and without anything else."""

    version = "4.1.0"
    conf = _Settings()
    createDataFrame = None  # noqa: N815 - Spark's name


SPARK: Any = NoSpark()


def column(name: str, type: Any = "long", **metadata: Any) -> Json:
    """A column as a log has it."""
    return {"name": name, "type": type, "nullable": True, "metadata": metadata}


def mapped(number: int, name: str) -> Json:
    """What a column's metadata say of column mapping."""
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}


def schema(*columns: Json) -> str:
    """A `schemaString`."""
    return json.dumps({"type": "struct", "fields": list(columns)})


def protocol(*writers: str, readers: tuple[str, ...] = ()) -> Json:
    """A `protocol` action with features."""
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(readers),
            "writerFeatures": [*readers, *writers],
        }
    }


def legacy(reader: int, writer: int) -> Json:
    """A `protocol` action of versions."""
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}}


def table(root: Path, protocol: Json, *actions: Json, **more: Any) -> DeltaLog:
    """A table whose version 0 has this protocol, `metadata(**more)` and `actions`."""
    commit(root, 0, {"commitInfo": {"timestamp": 1, "operation": "CREATE TABLE"}}, protocol, metadata(**more), *actions)
    return DeltaLog(LocalStore(str(root)))


def added_field(name: str, type: str = "long", **metadata: Any) -> StructField:
    """A column that is to be added."""
    return StructField(name, PrimitiveType(type), True, metadata)
