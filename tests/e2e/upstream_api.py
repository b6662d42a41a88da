"""Calls of delta-spark's that work in an active session, each as the text that a job has.

`tests/e2e/test_upstream_api.py` runs them, and docs/activate.md lists them: `python -m tests.e2e.upstream_api` prints its table.
"""

from __future__ import annotations

from tests.e2e.upstream_call import CHECKED, COLUMNS, COUNT, DETAIL, EMPTY, FEATURE, FED, MADE, MAPPED, ROWS, Call
from tests.e2e.upstream_statements import STATEMENTS

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
        Call('spark.read.format("delta").option("path", path).load()', ROWS.format(3)),
        Call('spark.read.load(path, format="delta", versionAsOf=0)', ROWS.format(1)),
        Call(
            'spark.read.format("delta").option("readChangeData", "true").option("startingTimestamp", begin)'
            '.option("endingTimestamp", time).load(path)',
            ROWS.format(3),
        ),
        Call(
            'spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).table("made_by_call")',
            ROWS.format(0),
            behind=FED,
        ),
        Call(
            'spark.read.table("made_by_call").select("_metadata.row_id", "_metadata.row_commit_version", "*")',
            ROWS.format(1),
            behind="CREATE TABLE made_by_call USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true') AS SELECT 1 AS id",
        ),
        Call('spark.catalog.tableExists("made_by_call")', "it is True", behind=MAPPED),
        Call('spark.catalog.listColumns("made_by_call")', "[column.name for column in it] == ['id', 'n']", behind=MAPPED),
        Call('spark.catalog.refreshTable("made_by_call")', "it is None", behind=MAPPED),
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
        Call('changes.write.save(path, format="delta", mode="append")', COUNT.format(5)),
        Call(
            'changes.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("id").save(path)',
            COUNT.format(2),
        ),
        Call(
            'spark.read.format("delta").load(path).repartition(1).write.option("dataChange", "false").format("delta")'
            '.mode("overwrite").save(path)',
            f"{DETAIL}.numFiles == 1",
        ),
        Call('changes.write.format("delta").mode("append").option("optimizeWrite", "true").save(path)', COUNT.format(5)),
        Call('changes.write.format("delta").mode("append").option("compression", "gzip").save(path)', COUNT.format(5)),
        Call('changes.write.format("delta").mode("append").option("parquet.writer.version", "v1").save(path)', COUNT.format(5)),
        Call(
            'changes.selectExpr("nullif(id, 2) AS id", "n").write.format("delta").mode("overwrite")'
            '.option("partitionOverwriteMode", "dynamic").option("useNullIntolerantEqualityWithDPO", "true")'
            '.saveAsTable("made_by_call")',
            f"{MADE}.where('id IS NULL').count() == 2 and {MADE}.where('id = 3').count() == 1",
            behind="CREATE TABLE made_by_call USING delta PARTITIONED BY (id) AS SELECT explode(array(NULL, 3)) AS id, 0 AS n",
        ),
        Call(
            'changes.write.format("delta").option("delta.appendOnly", "true").save(f"{path}_new")',
            "DeltaTable.forPath(spark, f'{path}_new').detail().first().properties['delta.appendOnly'] == 'true'",
        ),
        Call(
            'changes.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic")'
            '.saveAsTable("made_by_call")',
            f"{MADE}.count() == 3",
            behind="CREATE TABLE made_by_call USING delta PARTITIONED BY (id) AS SELECT explode(array(1, 2)) AS id, 0 AS n",
        ),
        Call(
            'changes.write.format("delta").mode("overwrite").saveAsTable("made_by_call")', f"{MADE}.count() == 2", behind=MAPPED
        ),
        Call('changes.write.format("delta").mode("append").saveAsTable("made_by_call")', f"{MADE}.count() == 2", behind=MAPPED),
        Call('changes.write.format("delta").option("path", f"{path}_new").saveAsTable("made_by_call")', f"{MADE}.count() == 2"),
        Call('changes.write.saveAsTable("made_by_call", format="delta", partitionBy="id")', f"{MADE}.count() == 2"),
        Call("changes.write.insertInto(f'delta.`{path}`', overwrite=True)", COUNT.format(2)),
        Call(
            'changes.writeTo("made_by_call").using("delta").partitionedBy("id").tableProperty("k", "v").create()',
            f"{MADE}.count() == 2",
        ),
        Call(
            "changes.withColumn('w', F.lit('x')).writeTo(f'delta.`{path}`').option('mergeSchema', 'true').append()",
            COUNT.format(5),
        ),
        Call(
            'changes.select("id").write.format("delta").mode("append").saveAsTable("made_by_call")',
            f"{MADE}.where('twice = 2 * id').count() == 2",
            behind="CREATE TABLE made_by_call (id INT, twice INT GENERATED ALWAYS AS (id * 2)) USING delta",
        ),
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
        Call('spark.readStream.format("delta").option("startingVersion", "latest").load(path)', "it.isStreaming"),
        Call('spark.readStream.format("delta").option("excludeRegex", "nothing").load(path)', "it.isStreaming"),
        Call(
            'stream.writeStream.format("delta").option("checkpointLocation", checkpoint).outputMode("append").partitionBy("id")'
            '.trigger(availableNow=True).start(f"{path}_new")',
            "it.awaitTermination() or spark.table(f'delta.`{path}_new`').count() == 1",
        ),
        Call(
            'stream.groupBy("id").count().writeStream.format("delta").option("checkpointLocation", checkpoint)'
            '.outputMode("complete").trigger(availableNow=True).start(f"{path}_new")',
            "it.awaitTermination() or spark.table(f'delta.`{path}_new`').count() == 1",
        ),
        Call(
            'stream.withColumn("w", F.lit("x")).writeStream.format("delta").option("checkpointLocation", checkpoint)'
            '.option("mergeSchema", "true").trigger(availableNow=True).start(path)',
            f"it.awaitTermination() or {COLUMNS} == ['id', 'n', 'w']",
        ),
        Call(
            'stream.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)'
            '.toTable("made_by_call")',
            f"it.awaitTermination() or {MADE}.count() == 1",
        ),
    ),
    "SQL": STATEMENTS,
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
        Call('DeltaTable.forPath(spark, path).dropFeatureSupport("vacuumProtocolCheck")', COUNT.format(3), behind=CHECKED),
        Call('DeltaTable.forPath(spark, path, {"fs.some.key": "value"})', "it.toDF().count() == 3"),
        Call("DeltaTable.forPath(spark, path).history()", ROWS.format(2)),
        Call("DeltaTable.forPath(spark, path).delete()", COUNT.format(0)),
        Call('DeltaTable.forPath(spark, path).delete(F.col("id") > 1)', COUNT.format(1)),
        Call(
            'DeltaTable.forPath(spark, path).update(F.col("id") > 1, {"n": F.col("n") + 1})',
            "spark.table(f'delta.`{path}`').where('n IN (21, 31)').count() == 2",
        ),
        Call(
            'DeltaTable.forPath(spark, path).update(set={"n": "n + 1"})',
            "spark.table(f'delta.`{path}`').where('n = 11').count() == 1",
        ),
        Call(
            'DeltaTable.forPath(spark, path).alias("t").merge(changes.alias("s"), F.expr("t.id = s.id"))'
            '.whenMatchedDelete("s.n > 30").whenMatchedUpdate(condition=F.col("s.n") > 0, set={"n": F.col("s.n")})'
            '.whenNotMatchedInsert(condition="s.id > 0", values={"id": "s.id"})'
            '.whenNotMatchedBySourceUpdate(condition="t.id < 2", set={"n": "0"}).execute()',
            COUNT.format(2),
        ),
        Call("DeltaTable.isDeltaTable(spark, f'{path}_raw')", "it is False"),
        Call(
            'DeltaTable.convertToDelta(spark, f"parquet.`{path}_parts`", "p INT")',
            "it.toDF().columns == ['id', 'p']",
        ),
        Call(
            'DeltaTable.create(spark).location(f"{path}_new").addColumns(changes.schema).partitionedBy(["id", "n"][:1])'
            '.property("delta.appendOnly", "true").comment("made").execute()',
            EMPTY,
        ),
        Call(
            'DeltaTable.createOrReplace(spark).tableName("made_by_call").addColumn("id", "INT").clusterBy("id").execute()',
            EMPTY,
            behind=MAPPED,
        ),
        Call(
            'DeltaTable.create(spark).location(f"{path}_new")'
            '.addColumn("id", "LONG", generatedAlwaysAs=IdentityGenerator(start=5, step=2))'
            '.addColumn("key", "LONG", generatedByDefaultAs=IdentityGenerator()).execute()',
            EMPTY,
        ),
        Call('DeltaTable.createIfNotExists(spark).location(path).addColumn("id", "INT").execute()', COUNT.format(3)),
        Call("DeltaTable.forPath(spark, path).optimize().executeZOrderBy(['id'])", f"{DETAIL}.numFiles == 1"),
        Call("DeltaTable.forPath(spark, path).vacuum()", "it.count() == 0"),
        Call(
            'DeltaTable.forName(spark, "made_by_call").dropFeatureSupport("typeWidening", True)',
            "it is None",
            behind="CREATE TABLE made_by_call (id INT) USING delta TBLPROPERTIES ('delta.feature.typeWidening' = 'supported')",
        ),
        Call("DeltaTable.forPath(spark, path).clone(f'{path}_new', True, True, {'k': 'v'})", "it.toDF().count() == 3"),
    ),
}


def table() -> str:
    """The table of the guide."""
    rows = [f"| {name} | `` {call.text} `` |" for name, calls in CALLS.items() for call in calls]
    return "\n".join(["| | works here |", "|---|---|", *rows])


if __name__ == "__main__":
    print(table())
