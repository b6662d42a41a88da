"""Calls of delta-spark's that work in an active session, each as the text that a job has.

`tests/e2e/test_upstream_api.py` runs them, and docs/activate.md lists them: `python -m tests.e2e.upstream_api` prints its table.
"""

from __future__ import annotations

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
MADE = "spark.table('made_by_call')"
MAPPED = "CREATE TABLE made_by_call (id INT, n INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
CALLS: dict[str, tuple[Call, ...]] = {
    "Reading": (
        Call('spark.read.format("delta").load(path)', ROWS.format(3)),
        Call('spark.read.format("delta").option("versionAsOf", 0).load(path)', ROWS.format(1)),
        Call('spark.read.format("delta").option("timestampAsOf", begin).load(path)', ROWS.format(1)),
        Call('spark.read.format("delta").load(f"{path}@v0")', ROWS.format(1)),
        Call(
            'spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)',
            ROWS.format(3),
        ),
        Call(
            'spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).option("endingVersion", 0)'
            ".load(path)",
            ROWS.format(1),
        ),
        Call(
            'spark.read.format("delta").option("readChangeFeed", "true").option("startingTimestamp", time).load(path)',
            "{row.id for row in it.collect()} >= {2, 3}",
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
        Call('changes.write.format("delta").clusterBy("id").save(f"{path}_new")', COUNT.format(3)),
        Call('changes.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)', COUNT.format(2)),
        Call(
            'changes.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)',
            COUNT.format(2),
        ),
        Call(
            'changes.write.format("delta").mode("append").option("txnAppId", "a").option("txnVersion", 1).save(path)',
            COUNT.format(5),
        ),
        Call(
            'changes.write.format("delta").mode("append").option("userMetadata", "by hand").save(path)',
            "DeltaTable.forPath(spark, path).history(1).first().userMetadata == 'by hand'",
        ),
        Call('changes.write.format("delta").mode("error").save(f"{path}_new")', COUNT.format(3)),
        Call('changes.write.format("delta").mode("ignore").save(path)', COUNT.format(3)),
        Call('changes.write.format("delta").mode("append").option("maxRecordsPerFile", 1).save(path)', f"{DETAIL}.numFiles == 4"),
        Call('changes.write.format("delta").saveAsTable("made_by_call")', "spark.table('made_by_call').count() == 2"),
        Call("changes.write.insertInto(f'delta.`{path}`')", COUNT.format(5)),
        Call("changes.writeTo(f'delta.`{path}`').append()", COUNT.format(5)),
        Call("changes.writeTo(f'delta.`{path}`').overwritePartitions()", COUNT.format(2)),
        Call("changes.writeTo(f'delta.`{path}`').overwrite(F.col('id') > 1)", COUNT.format(3)),
        Call(
            'changes.writeTo("made_by_call").using("delta").replace()',
            "spark.table('made_by_call').columns == ['id', 'n']",
            behind="CREATE TABLE made_by_call (w STRING) USING delta",
        ),
        Call('changes.writeTo("made_by_call").using("delta").create()', "spark.table('made_by_call').count() == 2"),
        Call('changes.writeTo("made_by_call").using("delta").createOrReplace()', "spark.table('made_by_call').count() == 2"),
    ),
    "Streams": (
        Call('spark.readStream.format("delta").load(path)', 'it.isStreaming and it.columns == ["id", "n"]'),
        Call("spark.readStream.table(f'delta.`{path}`')", "it.isStreaming"),
        Call(
            'spark.readStream.format("delta").option("startingVersion", 1).option("maxFilesPerTrigger", 1)'
            '.option("maxBytesPerTrigger", "1g").load(path)',
            "it.isStreaming",
        ),
        Call(
            'spark.readStream.format("delta").option("startingTimestamp", time).option("ignoreDeletes", "true").load(path)',
            "it.isStreaming",
        ),
        Call('spark.readStream.format("delta").option("ignoreChanges", "true").load(path)', "it.isStreaming"),
        Call('spark.readStream.format("delta").option("skipChangeCommits", "true").load(path)', "it.isStreaming"),
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
        Call("spark.sql(f\"SELECT * FROM delta.`{path}` TIMESTAMP AS OF '{begin}'\")", ROWS.format(1)),
        sql("SELECT * FROM table_changes_by_path('path', 0)", ROWS.format(3)),
        sql(
            "SELECT * FROM table_changes('made_by_call', 0)",
            "'_change_type' in it.columns and it.count() == 0",
            behind="CREATE TABLE made_by_call (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        ),
        sql("MERGE INTO delta.`path` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", "it.first()[0] == 2"),
        sql("DELETE FROM delta.`path` WHERE id = 1", "it.first()[0] == 1"),
        sql("UPDATE delta.`path` SET n = 0 WHERE id > 1", "it.first()[0] == 2"),
        sql("INSERT INTO delta.`path` VALUES (4, 40)", COUNT.format(4)),
        sql(
            "INSERT INTO delta.`path` (n, id) VALUES (40, 4)",
            "spark.table(f'delta.`{path}`').where('id = 4 AND n = 40').count() == 1",
        ),
        sql("INSERT INTO delta.`path` BY NAME SELECT 40 AS n, 4 AS id", COUNT.format(4)),
        sql("INSERT OVERWRITE delta.`path` SELECT * FROM changes", COUNT.format(2)),
        sql("INSERT INTO delta.`path` REPLACE WHERE id > 1 SELECT * FROM changes", COUNT.format(3)),
        sql("CREATE TABLE made_by_call (id INT, n INT) USING delta", "spark.table('made_by_call').count() == 0"),
        sql("CREATE TABLE made_by_call USING delta AS SELECT * FROM changes", "spark.table('made_by_call').count() == 2"),
        sql("CREATE OR REPLACE TABLE delta.`path` (id INT) USING delta CLUSTER BY (id)", COUNT.format(0)),
        sql("CREATE TABLE made_by_call SHALLOW CLONE delta.`path`", "spark.table('made_by_call').count() == 3"),
        sql(
            "CREATE OR REPLACE TEMP VIEW shown_by_call AS SELECT * FROM delta.`path`", "spark.table('shown_by_call').count() == 3"
        ),
        sql("ALTER TABLE delta.`path` ADD COLUMNS (w STRING COMMENT 'a text')", f"{COLUMNS} == ['id', 'n', 'w']"),
        sql("ALTER TABLE delta.`path` ALTER COLUMN n COMMENT 'a number'", f"{COLUMNS} == ['id', 'n']"),
        sql("ALTER TABLE made_by_call RENAME COLUMN n TO m", f"{MADE}.columns == ['id', 'm']", behind=MAPPED),
        sql("ALTER TABLE made_by_call DROP COLUMN n", f"{MADE}.columns == ['id']", behind=MAPPED),
        sql(
            "ALTER TABLE made_by_call ALTER COLUMN n TYPE BIGINT",
            f"dict({MADE}.dtypes)['n'] == 'bigint'",
            behind="CREATE TABLE made_by_call (id INT, n INT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        ),
        sql(
            "ALTER TABLE delta.`path` DROP CONSTRAINT IF EXISTS positive",
            f"not ({PROPERTY.format('delta.constraints.positive')})",
            behind="ALTER TABLE delta.`path` ADD CONSTRAINT positive CHECK (id > 0)",
        ),
        sql("ALTER TABLE delta.`path` ADD CONSTRAINT positive CHECK (id > 0)", PROPERTY.format("delta.constraints.positive")),
        sql("ALTER TABLE delta.`path` SET TBLPROPERTIES ('k' = 'v')", PROPERTY.format("k")),
        sql("ALTER TABLE delta.`path` UNSET TBLPROPERTIES IF EXISTS ('k')", COUNT.format(3)),
        sql("ALTER TABLE delta.`path` DROP FEATURE vacuumProtocolCheck", COUNT.format(3)),
        sql(
            "ALTER TABLE made_by_call CLUSTER BY (n)",
            "DeltaTable.forName(spark, 'made_by_call').detail().first().clusteringColumns == ['n']",
            behind="CREATE TABLE made_by_call (id INT, n INT) USING delta CLUSTER BY (id)",
        ),
        sql("SHOW TBLPROPERTIES delta.`path`", "'delta.enableChangeDataFeed' in [row.key for row in it.collect()]"),
        sql("SHOW COLUMNS IN delta.`path`", ROWS.format(2)),
        sql("DESCRIBE TABLE delta.`path`", "it.first().col_name == 'id'"),
        sql("OPTIMIZE delta.`path` WHERE true", f"{DETAIL}.numFiles == 1"),
        sql("OPTIMIZE delta.`path` ZORDER BY (id)", f"{DETAIL}.numFiles == 1"),
        sql("VACUUM delta.`path` RETAIN 200 HOURS", COUNT.format(3)),
        sql("VACUUM delta.`path` DRY RUN", ROWS.format(0)),
        sql("RESTORE TABLE delta.`path` TO VERSION AS OF 0", COUNT.format(1)),
        Call("spark.sql(f\"RESTORE TABLE delta.`{path}` TO TIMESTAMP AS OF '{begin}'\")", COUNT.format(1)),
        sql("REORG TABLE delta.`path` APPLY (PURGE)", COUNT.format(3)),
        sql("TRUNCATE TABLE delta.`path`", COUNT.format(0)),
        sql("DROP TABLE made_by_call", "not spark.catalog.tableExists('made_by_call')", behind=MAPPED),
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
            'DeltaTable.forPath(spark, path).alias("t").merge(changes.alias("s"), "t.id = s.id").withSchemaEvolution()'
            '.whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedBySourceDelete().execute()',
            COUNT.format(2),
        ),
        Call('DeltaTable.forPath(spark, path).generate("symlink_format_manifest")', "it is None"),
        Call("DeltaTable.forName(spark, f'delta.`{path}`')", "it.toDF().count() == 3"),
        Call('DeltaTable.create(spark).tableName("made_by_call").addColumn("id", "INT").execute()', EMPTY),
        Call('DeltaTable.createIfNotExists(spark).location(f"{path}_new").addColumns(changes.schema).execute()', EMPTY),
        Call('DeltaTable.replace(spark).location(path).addColumns(changes.schema).partitionedBy("id").execute()', EMPTY),
        Call('DeltaTable.createOrReplace(spark).location(path).addColumn("id", "INT").clusterBy("id").execute()', EMPTY),
        Call(
            'DeltaTable.createOrReplace(spark).location(path).addColumns([DeltaTable.columnBuilder(spark, "id").dataType("LONG")'
            '.generatedAlwaysAsIdentity().build()]).property("k", "v").comment("made").execute()',
            EMPTY,
        ),
        Call(
            'DeltaTable.create(spark).location(f"{path}_new").addColumn("id", "INT", nullable=False, comment="a key")'
            '.addColumn("twice", "BIGINT", generatedAlwaysAs="CAST(id * 2 AS BIGINT)").execute()',
            EMPTY,
        ),
        Call("DeltaTable.forPath(spark, path).optimize().executeCompaction()", f"{DETAIL}.numFiles == 1"),
        Call('DeltaTable.forPath(spark, path).optimize().where("true").executeZOrderBy("id")', f"{DETAIL}.numFiles == 1"),
        Call("DeltaTable.forPath(spark, path).vacuum(200)", "it.count() == 0"),
        Call("DeltaTable.forPath(spark, path).restoreToVersion(0)", COUNT.format(1)),
        Call("DeltaTable.forPath(spark, path).restoreToTimestamp(begin)", COUNT.format(1)),
        Call('DeltaTable.forPath(spark, path).clone(f"{path}_new", isShallow=True)', "it.toDF().count() == 3"),
        Call('DeltaTable.forPath(spark, path).cloneAtVersion(0, f"{path}_new", isShallow=True)', "it.toDF().count() == 1"),
        Call(
            'DeltaTable.forPath(spark, path).cloneAtTimestamp(begin, f"{path}_new", isShallow=True)',
            "it.toDF().count() == 1",
        ),
        Call("DeltaTable.forPath(spark, path).upgradeTableProtocol(1, 4)", f"{DETAIL}.minWriterVersion >= 4"),
        Call('DeltaTable.forPath(spark, path).addFeatureSupport("deletionVectors")', FEATURE),
        Call('DeltaTable.forPath(spark, path).dropFeatureSupport("vacuumProtocolCheck")', COUNT.format(3)),
    ),
}


def table() -> str:
    """The table of the guide."""
    rows = [f"| {name} | `` {call.text} `` |" for name, calls in CALLS.items() for call in calls]
    return "\n".join(["| | works here |", "|---|---|", *rows])


if __name__ == "__main__":
    print(table())
