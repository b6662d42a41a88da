"""A call of delta-spark's as the text that a job has, and what is true afterwards."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A call on the table at `path`, rows 1 to 3 in two versions, and what is true afterwards of its value `it`.

    A statement may come `behind` another one.
    """

    text: str
    check: str
    python: bool = True
    behind: str = ""

    @property
    def code(self) -> str:
        """The call as Python; a statement is run by `spark.sql`, with the table's place put in by `placed`."""
        return self.text if self.python else f"spark.sql(placed({self.text!r}))"


def placed(text: str, path: str) -> str:
    """A statement with the table's place in it."""
    return re.sub("(?<=[`'])path(?=[`'])", path, text)


def sql(text: str, check: str, behind: str = "") -> Call:
    """A statement about delta.`path`, or about a table that a statement before it makes."""
    return Call(text, check, python=False, behind=behind)


ROWS = "len(it.collect()) == {}"
COUNT = "spark.table(f'delta.`{{path}}`').count() == {}"
DETAIL = "DeltaTable.forPath(spark, path).detail().first()"
COLUMNS = "spark.table(f'delta.`{path}`').columns"
PROPERTY = f"{{!r}} in {DETAIL}.properties"
FEATURE = f"'deletionVectors' in {DETAIL}.tableFeatures"
EMPTY = "it.toDF().count() == 0"
PARTITIONED = "CREATE TABLE made_by_call (id INT, p INT) USING delta PARTITIONED BY (p)"
CHECKED = "ALTER TABLE delta.`path` SET TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')"
MADE = "spark.table('made_by_call')"
FED = "CREATE TABLE made_by_call (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
MAPPED = "CREATE TABLE made_by_call (id INT, n INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
