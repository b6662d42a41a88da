"""What a misspelt statement was meant to be."""

from __future__ import annotations

import pytest

from deltamerge.statements.misspelt import meant_start
from deltamerge.statements.run import STARTS


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("UPDAT t SET id = 1", "UPDATE"),
        ("/* all */ delet from t", "DELETE FROM"),
        ("DELETE FORM t", "DELETE FROM"),
        ("DELTE FORM t", "DELETE FROM"),
        ("MERG INTO t USING s ON true", "MERGE INTO"),
        ("MERGE INOT t USING s ON true", "MERGE INTO"),
        ("OPTIMISE delta.`/t`", "OPTIMIZE"),
        ("VACUM t", "VACUUM"),
        ("DESCRIBE HISTROY t", "DESCRIBE HISTORY"),
        ("DESC DETIAL t", "DESC DETAIL"),
        ("DISCRIBE DETAIL t", "DESCRIBE DETAIL"),
        ("RESTOR t TO VERSION AS OF 0", "RESTORE"),
        ("INSRT INTO t VALUES (1)", "INSERT"),
        ("CREAT TABLE t (id INT)", "CREATE TABLE"),
        ("CREATE OR REPLCE TABLE t (id INT)", "CREATE OR REPLACE TABLE"),
        ("ALTR TABLE t SET TBLPROPERTIES ('a' = 'b')", "ALTER TABLE"),
        ("SELCT 1", "SELECT"),
    ],
)
def test_the_start_that_is_meant_is_found(text: str, meant: str) -> None:
    assert meant_start(text, STARTS) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 + ",
        "'UPDAT' t",
        "UPDATE t SET id 1",
        "UPDATE t SET",
        "MERGE INTO t USING",
        "DELETE FROM t WHER id = 1",
        "DESCRIBE t id",
        "DESCRIBE TABLE t",
        "DESCRIBE DATABASE d",
        "SHOW TABLES IN d",
        "SHOW CREATE TABLE t",
        "EXPLAIN SELECT 1",
        "SELECT FORM t",
        "GRANT ALL ON t",
        "SET x = 1",
        "USE d",
        "`UPDAT` t SET id = 1",
    ],
)
def test_no_start_is_made_up(text: str) -> None:
    assert meant_start(text, STARTS) is None
