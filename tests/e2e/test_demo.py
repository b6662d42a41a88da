"""The demo runs from its first line to its last."""

from __future__ import annotations

import io
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from deltamerge.activation import deactivate
from deltamerge.cli import demo


@pytest.mark.local(reason="the demo writes into a folder")
def test_the_demo_proves_its_table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_session", lambda: nullcontext(spark))
    printed = io.StringIO()
    try:
        demo.run_demo(tmp_path, Console(file=printed, width=200))
    finally:
        deactivate(spark)
    assert "delays of December corrected" in printed.getvalue()
    assert "The table is at" in printed.getvalue()
