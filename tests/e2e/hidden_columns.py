"""How the column `_metadata` is asked for, of a table with the columns id, name and p: texts, and what is done to a DataFrame.

`tests/e2e/test_metadata_column.py` runs them here, `tests/oracle/test_metadata_column.py` also there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Ask = Callable[[DataFrame], DataFrame]

# `{t}` is the table, `{u}` another one of the same rows. Of tables that track their rows.
TRACKED_TEXTS = (
    "SELECT id, _metadata.row_id, _metadata.row_commit_version AS v FROM {t} WHERE _metadata.row_id > 3",
    "SELECT id, _METADATA.Row_Id FROM {t}",
    "SELECT *, _metadata.row_id FROM {t} ORDER BY _metadata.row_id DESC",
    "SELECT a._metadata.row_id, b.name FROM {t} a JOIN {u} b ON a._metadata.row_id = b._metadata.row_id",
    "SELECT a.*, b._metadata.row_id FROM {t} a JOIN {u} b ON a.id = b.id",
    "SELECT * FROM (SELECT id FROM {t}) WHERE _metadata.row_id > 3",
    "SELECT id, _metadata.row_id FROM (SELECT * FROM {t} WHERE id > 2) x",
    "SELECT id FROM {t} t WHERE EXISTS (SELECT 1 FROM range(3) r WHERE r.id = t._metadata.row_id)",
    "SELECT id FROM {t} WHERE EXISTS (SELECT * FROM range(3) r WHERE r.id = _metadata.row_id)",
    "SELECT _metadata.row_id FROM {t} UNION ALL SELECT id FROM range(2)",
    "WITH x AS (SELECT *, _metadata.row_id AS r FROM {t}) SELECT * FROM x WHERE r > 3",
    "SELECT t.p, max(t._metadata.row_id), count(*) FROM {t} t GROUP BY t.p",
    "SELECT {t}._metadata.row_id, {t}.* FROM {t}",
    "SELECT _metadata.default_row_commit_version, _metadata.base_row_id, _metadata.row_index FROM {t}",
    "SELECT struct(*) AS s, _metadata.row_id FROM {t}",
    "SELECT q, _metadata.row_id FROM {t} AS a(q, r, s)",
)
# Of all tables.
TEXTS = (
    "SELECT * FROM {t}",
    "SELECT _metadata FROM {t}",
    "SELECT id, _metadata.file_path, _metadata.file_name, _metadata.file_size, _metadata.file_modification_time FROM {t}",
    "SELECT id, _metadata.file_block_start, _metadata.file_block_length FROM {t}",
    "SELECT _metadata.file_name, count(*) AS n FROM {t} GROUP BY _metadata.file_name",
    "SELECT *, _metadata.file_name FROM {t} VERSION AS OF 1",
)
REFUSED_TEXTS = (
    "SELECT _metadata.nope FROM {t}",
    "SELECT _metadata.file_name FROM {t} a JOIN {u} b ON a.id = b.id",
    "WITH x AS (SELECT * FROM {t}) SELECT _metadata.file_name FROM x",
    "SELECT b._metadata.file_name FROM {t} a",
    "SELECT _metadata.file_name FROM (SELECT id FROM {t} UNION SELECT id FROM {u})",
)

TRACKED_ASKS: dict[str, Ask] = {
    "select": lambda d: d.select("id", "_metadata.row_id"),
    "a star": lambda d: d.select("*", "_metadata.row_id"),
    "a star as a column": lambda d: d.select(F.col("*"), F.col("_metadata.row_id").alias("r")),
    "columns of the frame": lambda d: d.select(d["id"], d["name"], d["_metadata"]["row_id"], d["_metadata.row_index"]),
    "selectExpr": lambda d: d.selectExpr("id AS x", "struct(*) AS s", "*", "_metadata.row_id"),
    "where": lambda d: d.where("_metadata.row_id = 2"),
    "filter": lambda d: d.filter((F.col("_metadata.row_id") > 2) & (d["id"] < 7)),
    "filter and select": lambda d: d.filter(d["_metadata"]["row_id"] > 2).select(d["id"], "name"),
    "brackets": lambda d: d[d["_metadata"]["row_id"] > 2][["id", "_metadata.row_id"]],
    "behind select": lambda d: d.select("id").where("_metadata.row_id = 2"),
    "behind where": lambda d: d.where("id > 3").where("_metadata.row_id < 7").select("id", "_metadata.row_id", d["name"]),
    "withColumn": lambda d: (
        d.withColumn("r", F.col("_metadata.row_id")).where("r > 4").select("r", d["id"], "_metadata.row_index")
    ),
    "withColumns": lambda d: d.withColumns({"r": F.col("_metadata.row_id"), "s": F.lit(1)}),
    "its name": lambda d: d.withColumn("_metadata", F.col("_metadata.row_id")),
    "groupBy": lambda d: d.groupBy(F.col("_metadata.row_id") % 2).agg(F.max("id").alias("m")),
    "agg of groups": lambda d: d.groupBy(d["p"]).agg(F.max("_metadata.row_id").alias("m")),
    "agg": lambda d: d.agg(F.max("_metadata.row_id").alias("m"), F.count("*").alias("n")),
    "orderBy": lambda d: d.orderBy(F.col("_metadata.row_id").desc()).select("id"),
    "alias": lambda d: d.alias("t").select("t._metadata.row_id", "t.id"),
    "drop": lambda d: d.drop("id").select("name", "_metadata.row_id"),
    "rename": lambda d: d.withColumnRenamed("id", "x").select("x", "_metadata.row_id"),
    "join": lambda d: d.join(d.sparkSession.range(3).toDF("k"), d["_metadata"]["row_id"] == F.col("k")).select(
        d["id"], "k", "name"
    ),
    "behind join": lambda d: d.join(d.sparkSession.range(3).toDF("k"), d["id"] == F.col("k")).select("k", "_metadata.row_id"),
    "itself": lambda d: (
        d.alias("a").join(d.alias("b"), F.col("a._metadata.row_id") == F.col("b._metadata.row_id")).select("a.id", "b.name")
    ),
    "metadataColumn": lambda d: d.select("id", d.metadataColumn("_metadata")["row_id"].alias("r")),
    "a text that says it": lambda d: d.where("name <> '_metadata.row_id'"),
}
ASKS: dict[str, Ask] = {
    "all": lambda d: d.select("_metadata"),
    "fields": lambda d: d.select("id", "_metadata.*"),
    "groups": lambda d: d.groupBy("_metadata.file_name").count(),
    "nothing": lambda d: d.select("*"),
    "another column": lambda d: d.withColumn("_metadata", F.lit(1)),
}
REFUSED_ASKS: dict[str, Ask] = {
    "no field": lambda d: d.select("_metadata.nope"),
    "union": lambda d: d.union(d).select("_metadata.file_name"),
    "groups": lambda d: d.groupBy("p").count().select("_metadata.file_name"),
}


def in_order(frame: DataFrame) -> list[Any]:
    """The rows of a frame in an order of their own."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)
