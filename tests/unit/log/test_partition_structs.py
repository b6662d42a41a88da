from __future__ import annotations

import pyarrow as pa
import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.log.commit.stats_columns import partition_structs
from deltamerge.log.replay.files import FILE_SCHEMA, FileChunk, table_of
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType

SCHEMA = StructType((StructField("at", PrimitiveType("timestamp")),))


def structs(*texts: str | None) -> list[object]:
    rows = [
        {"path": f"f{n}", "partitionValues": {"at": text}, "size": 1, "modificationTime": 1, "dataChange": True}
        for n, text in enumerate(texts)
    ]
    return [row["at"] for row in partition_structs(FileChunk(table_of(rows, FILE_SCHEMA)), SCHEMA).to_pylist()]


def test_null_moments_need_no_offset() -> None:
    assert structs(None, None) == [None, None]
    assert structs("", None) == [None, None]
    (found, null) = structs("2020-01-01T00:00:00.000000Z", "")
    assert null is None
    assert pa.scalar(found).as_py() == found


def test_a_moment_without_offset_is_none() -> None:
    with pytest.raises(CorruptTableError, match="no offset"):
        structs("2020-01-01T00:00:00.000000Z", "2020-01-01 00:00:00")
