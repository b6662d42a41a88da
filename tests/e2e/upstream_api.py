"""Calls of delta-spark's that work in an active session, each as the text that a job has.

`tests/e2e/test_upstream_api.py` runs them, and docs/activate.md lists them: `python -m tests.e2e.upstream_api` prints its table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A call on the table at `path`, rows 1 to 3 in two versions, and what is true afterwards of its value `it`."""

    text: str
    check: str
    python: bool = True

    @property
    def code(self) -> str:
        """The call as Python; a statement is run by `spark.sql`, with the table's place put in by `placed`."""
        return self.text if self.python else f"spark.sql(placed({self.text!r}))"


def sql(text: str, check: str) -> Call:
    """A statement about delta.`path`."""
    return Call(text, check, python=False)


ROWS = "len(it.collect()) == {}"
COUNT = "spark.table(f'delta.`{{path}}`').count() == {}"
CALLS: dict[str, tuple[Call, ...]] = {
    "Reading": (
        Call('spark.read.format("delta").load(path)', ROWS.format(3)),
        Call('spark.read.format("delta").option("versionAsOf", 0).load(path)', ROWS.format(1)),
        Call('spark.read.format("delta").option("timestampAsOf", time).load(path)', "1 in [row.id for row in it.collect()]"),
        Call('spark.read.format("delta").load(f"{path}@v0")', ROWS.format(1)),
        Call(
            'spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)',
            ROWS.format(3),
        ),
        Call("spark.read.table(f'delta.`{path}`')", ROWS.format(3)),
        Call("spark.table(f'delta.`{path}`')", ROWS.format(3)),
    ),
    "Writing": (
        Call('changes.write.format("delta").mode("append").save(path)', COUNT.format(5)),
        Call('changes.write.format("delta").mode("overwrite").save(path)', COUNT.format(2)),
        Call('changes.write.format("delta").mode("overwrite").option("replaceWhere", "id > 1").save(path)', COUNT.format(3)),
        Call('changes.write.format("delta").mode("append").option("mergeSchema", "true").save(path)', COUNT.format(5)),
        Call('changes.write.format("delta").partitionBy("id").save(f"{path}_new")', COUNT.format(3)),
        Call("changes.write.insertInto(f'delta.`{path}`')", COUNT.format(5)),
        Call("changes.writeTo(f'delta.`{path}`').append()", COUNT.format(5)),
        Call("changes.writeTo(f'delta.`{path}`').overwritePartitions()", COUNT.format(2)),
    ),
    "Streams": (
        Call('spark.readStream.format("delta").load(path)', 'it.isStreaming and it.columns == ["id", "n"]'),
        Call("spark.readStream.table(f'delta.`{path}`')", "it.isStreaming"),
        Call(
            'spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)',
            'it.isStreaming and "_change_type" in it.columns',
        ),
        Call(
            'stream.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(path)',
            "it.awaitTermination() or spark.table(f'delta.`{path}`').count() == 4",
        ),
        Call(
            'stream.writeStream.format("delta").option("checkpointLocation", checkpoint)'
            ".trigger(availableNow=True).toTable(f'delta.`{path}`')",
            "it.awaitTermination() or spark.table(f'delta.`{path}`').count() == 4",
        ),
    ),
    "SQL": (
        sql("SELECT * FROM delta.`path`", ROWS.format(3)),
        sql("SELECT * FROM delta.`path` VERSION AS OF 0", ROWS.format(1)),
        sql("SELECT * FROM table_changes_by_path('path', 0)", ROWS.format(3)),
        sql("MERGE INTO delta.`path` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", "it.first()[0] == 2"),
        sql("DELETE FROM delta.`path` WHERE id = 1", "it.first()[0] == 1"),
        sql("UPDATE delta.`path` SET n = 0 WHERE id > 1", "it.first()[0] == 2"),
        sql("DESCRIBE HISTORY delta.`path`", ROWS.format(2)),
        sql("DESCRIBE DETAIL delta.`path`", "it.first().numFiles == 2"),
        sql("GENERATE symlink_format_manifest FOR TABLE delta.`path`", "it.columns == []"),
        sql("CONVERT TO DELTA parquet.`path`", "it.columns == []"),
    ),
    "DeltaTable": (
        Call("DeltaTable.forPath(spark, path)", "it.toDF().count() == 3"),
        Call("DeltaTable.isDeltaTable(spark, path)", "it is True"),
        Call("DeltaTable.forPath(spark, path).toDF()", ROWS.format(3)),
        Call("DeltaTable.convertToDelta(spark, f'parquet.`{path}_raw`')", "it.toDF().count() == 2"),
        Call('DeltaTable.forPath(spark, path).alias("t")', "it.toDF().where('t.id = 1').count() == 1"),
        Call("DeltaTable.forPath(spark, path).history(1)", ROWS.format(1)),
        Call("DeltaTable.forPath(spark, path).detail()", ROWS.format(1)),
        Call('DeltaTable.forPath(spark, path).delete("id = 1")', "spark.table(f'delta.`{path}`').count() == 2"),
        Call(
            'DeltaTable.forPath(spark, path).update("id = 1", {"n": "0"})',
            "spark.table(f'delta.`{path}`').where('n = 0').count() == 1",
        ),
        Call(
            'DeltaTable.forPath(spark, path).alias("t").merge(changes.alias("s"), "t.id = s.id")'
            ".whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()",
            "it.first()[0] == 2",
        ),
        Call(
            'DeltaTable.forPath(spark, path).generate("symlink_format_manifest")',
            "it is None",
        ),
    ),
}


def table() -> str:
    """The table of the guide."""
    rows = [f"| {name} | `` {call.text} `` |" for name, calls in CALLS.items() for call in calls]
    return "\n".join(["| | works here |", "|---|---|", *rows])


if __name__ == "__main__":
    print(table())
