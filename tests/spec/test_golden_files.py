"""The footers of golden tables' files, by several writers, say what PyArrow says of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.spec.golden import golden_names, unpack
from tests.unit.protocol.formats.test_parquet_file import assert_alike

names = golden_names() or [pytest.param("", marks=pytest.mark.skip(reason="the folder ../shared/golden is absent"))]


@pytest.mark.parametrize("name", names)
def test_chunks_are_those_that_pyarrow_sees(name: str, tmp_path: Path) -> None:
    for path in unpack(name, tmp_path).rglob("*.parquet"):
        assert_alike(pa.OSFile(str(path)))
