"""What statements other than MERGE say while they run: their name, their table and their steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.progress import Progress, reporting
from tests.e2e.tables import make

pytestmark = [pytest.mark.connect, pytest.mark.local(reason="the statements name their tables by paths of the disk")]

STATEMENTS = {
    "CLONE": ("CREATE TABLE delta.`{path}_other` SHALLOW CLONE delta.`{path}`", ["looking for the table", "naming the files"]),
    "ADD CONSTRAINT": ("ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (id > 0)", ["checking the rows"]),
    "DROP FEATURE": (
        "ALTER TABLE delta.`{path}` DROP FEATURE deletionVectors",
        ["cleaning the newest version", "choosing files", "writing files again", "closing off older versions"],
    ),
    "REORG": ("REORG TABLE delta.`{path}` APPLY (PURGE)", ["choosing files", "writing files again"]),
    "OPTIMIZE": ("OPTIMIZE delta.`{path}`", ["choosing files", "writing files again"]),
    "RESTORE": ("RESTORE TABLE delta.`{path}` TO VERSION AS OF 0", ["comparing the versions", "looking for the files"]),
    "VACUUM": ("VACUUM delta.`{path}`", ["listing files", "finding what no version needs", "deleting"]),
    "UPDATE": ("UPDATE delta.`{path}` SET id = id + 1", ["resolving names and types", "matching", "writing"]),
}
UNCOMMITTED = {"VACUUM"}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_tells_its_steps(spark: SparkSession, tmp_path: Path, name: str) -> None:
    text, steps = STATEMENTS[name]
    path = tmp_path / "t"
    make(spark, path, "id long", [(id,) for id in range(1, 9)], files=2, vectors=True).delete("id = 4")
    told: list[Progress] = []
    with reporting(told.append):
        deltamerge.sql(spark, text.format(path=path))
    assert {progress.operation for progress in told} == {name}
    assert {progress.table.removeprefix("file://").removesuffix("_other") for progress in told} == {str(path)}
    found = list(dict.fromkeys(progress.step for progress in told))
    assert [step for step in found if step in steps] == steps
    assert ("committing" in found) is (name not in UNCOMMITTED)
