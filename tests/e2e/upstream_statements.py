"""Statements of delta-spark's that work in an active session."""

from __future__ import annotations

from tests.e2e.upstream_call import (
    CHECKED,
    COLUMNS,
    COUNT,
    DETAIL,
    FEATURE,
    FED,
    MADE,
    MAPPED,
    PARTITIONED,
    PROPERTY,
    ROWS,
    Call,
    sql,
)

STATEMENTS: tuple[Call, ...] = (
    sql("SELECT * FROM delta.`path`", ROWS.format(3)),
    sql("SELECT * FROM delta.`path` VERSION AS OF 0", ROWS.format(1)),
    Call("spark.sql(f\"SELECT * FROM delta.`{path}` TIMESTAMP AS OF '{begin}'\")", ROWS.format(1)),
    sql("SELECT * FROM table_changes_by_path('path', 0)", ROWS.format(3)),
    sql(
        "SELECT * FROM table_changes('made_by_call', 0)",
        "'_change_type' in it.columns and it.count() == 0",
        behind=FED,
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
    sql("CREATE OR REPLACE TEMP VIEW shown_by_call AS SELECT * FROM delta.`path`", "spark.table('shown_by_call').count() == 3"),
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
    sql("ALTER TABLE delta.`path` DROP FEATURE vacuumProtocolCheck", COUNT.format(3), behind=CHECKED),
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
    # Queries
    Call('spark.sql(f"SELECT * FROM delta.`{path}@v0`")', ROWS.format(1)),
    sql("SELECT * FROM table_changes_by_path('path', 0, 0)", ROWS.format(1)),
    Call("spark.sql(f\"SELECT * FROM table_changes_by_path('{path}', '{begin}', '{time}')\")", ROWS.format(3)),
    sql(
        "SELECT _metadata.row_id, _metadata.row_commit_version, * FROM made_by_call",
        ROWS.format(1),
        behind="CREATE TABLE made_by_call USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true') AS SELECT 1 AS id",
    ),
    # Rows
    sql(
        "MERGE WITH SCHEMA EVOLUTION INTO delta.`path` t USING (SELECT 3 AS id, 'x' AS w) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        f"{COLUMNS} == ['id', 'n', 'w']",
    ),
    sql(
        "MERGE INTO delta.`path` t USING changes s ON t.id = s.id WHEN MATCHED AND s.n > 30 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 0",
        COUNT.format(2),
    ),
    sql(
        "MERGE INTO delta.`path` t USING changes s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.n < 20 THEN DELETE",
        COUNT.format(2),
    ),
    sql("INSERT INTO delta.`path` SELECT * FROM changes", COUNT.format(5)),
    sql(
        "INSERT INTO made_by_call VALUES (1, DEFAULT)",
        f"{MADE}.where('n = 7').count() == 1",
        behind="CREATE TABLE made_by_call (id INT, n INT DEFAULT 7) USING delta"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    ),
    sql(
        "INSERT INTO made_by_call (id) VALUES (1)",
        f"{MADE}.where('twice = 2').count() == 1",
        behind="CREATE TABLE made_by_call (id INT, twice INT GENERATED ALWAYS AS (id * 2)) USING delta",
    ),
    sql(
        "INSERT INTO made_by_call (n) VALUES (1)",
        f"{MADE}.where('id = 5').count() == 1",
        behind="CREATE TABLE made_by_call (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5), n INT) USING delta",
    ),
    sql("INSERT OVERWRITE made_by_call PARTITION (p = 1) SELECT 1", ROWS.format(0), behind=PARTITIONED),
    # Tables made
    sql("CREATE TABLE IF NOT EXISTS delta.`path` (id INT) USING delta", COUNT.format(3)),
    sql("CREATE TABLE made_by_call USING delta LOCATION 'path'", f"{MADE}.count() == 3"),
    sql(
        "CREATE TABLE made_by_call (id INT NOT NULL COMMENT 'a key', p STRING) USING delta PARTITIONED BY (p)"
        " COMMENT 'a table' TBLPROPERTIES ('delta.appendOnly' = 'true', k = 'v')",
        f"{MADE}.columns == ['id', 'p']",
    ),
    sql("CREATE TABLE made_by_call (id INT, twice INT GENERATED ALWAYS AS (id * 2)) USING delta", f"{MADE}.count() == 0"),
    sql("CREATE TABLE made_by_call (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT) USING delta", f"{MADE}.count() == 0"),
    sql("CREATE TABLE made_by_call USING delta CLUSTER BY (id) AS SELECT * FROM changes", f"{MADE}.count() == 2"),
    sql("CREATE OR REPLACE TABLE made_by_call USING delta AS SELECT 1 AS one", f"{MADE}.columns == ['one']", behind=MAPPED),
    sql("REPLACE TABLE made_by_call USING delta PARTITIONED BY (id) AS SELECT * FROM changes", f"{MADE}.count() == 2", MAPPED),
    sql("CREATE TABLE made_by_call LIKE delta.`path`", f"{MADE}.columns == ['id', 'n']"),
    sql("CREATE TABLE made_by_call SHALLOW CLONE delta.`path` VERSION AS OF 0", f"{MADE}.count() == 1"),
    sql("CREATE OR REPLACE TABLE made_by_call SHALLOW CLONE delta.`path`", f"{MADE}.count() == 3", behind=PARTITIONED),
    sql("CREATE TABLE IF NOT EXISTS made_by_call SHALLOW CLONE delta.`path`", f"{MADE}.count() == 0", behind=MAPPED),
    sql("CREATE TABLE made_by_call SHALLOW CLONE delta.`path` TBLPROPERTIES ('k' = 'v')", f"{MADE}.count() == 3"),
    Call("spark.sql(f'CREATE TABLE made_by_call SHALLOW CLONE parquet.`{path}_raw`')", f"{MADE}.count() == 2"),
    # Tables changed
    sql("ALTER TABLE delta.`path` ADD COLUMN w STRING FIRST", f"{COLUMNS} == ['w', 'id', 'n']"),
    sql("ALTER TABLE delta.`path` ADD COLUMNS (w STRING AFTER id)", f"{COLUMNS} == ['id', 'w', 'n']"),
    sql("ALTER TABLE delta.`path` CHANGE COLUMN n n INT COMMENT 'a number' FIRST", f"{COLUMNS} == ['n', 'id']"),
    sql("ALTER TABLE delta.`path` ALTER COLUMN n FIRST", f"{COLUMNS} == ['n', 'id']"),
    sql("ALTER TABLE delta.`path` REPLACE COLUMNS (id INT, n INT COMMENT 'a number', w STRING)", f"{COLUMNS}[-1] == 'w'"),
    sql(
        "ALTER TABLE made_by_call ALTER COLUMN id DROP NOT NULL",
        f"{MADE}.schema['id'].nullable",
        behind="CREATE TABLE made_by_call (id INT NOT NULL) USING delta",
    ),
    sql(
        "ALTER TABLE made_by_call ALTER COLUMN n SET DEFAULT 7",
        f"{MADE}.count() == 0",
        behind="CREATE TABLE made_by_call (id INT, n INT) USING delta"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    ),
    sql("ALTER TABLE made_by_call DROP COLUMNS (n)", f"{MADE}.columns == ['id']", behind=MAPPED),
    sql("ALTER TABLE delta.`path` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", COUNT.format(3)),
    sql("ALTER TABLE delta.`path` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)", FEATURE),
    sql("ALTER TABLE delta.`path` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')", COUNT.format(3)),
    sql(
        "ALTER TABLE delta.`path` SET TBLPROPERTIES ('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '4')",
        COUNT.format(3),
    ),
    sql("ALTER TABLE delta.`path` UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')", COUNT.format(3)),
    sql(
        "ALTER TABLE delta.`path` CLUSTER BY (id)",
        "DeltaTable.forPath(spark, path).detail().first().clusteringColumns == ['id']",
    ),
    sql(
        "ALTER TABLE made_by_call CLUSTER BY NONE",
        "DeltaTable.forName(spark, 'made_by_call').detail().first().clusteringColumns == []",
        behind="CREATE TABLE made_by_call (id INT, n INT) USING delta CLUSTER BY (id)",
    ),
    sql(
        "ALTER TABLE made_by_call ALTER COLUMN id SYNC IDENTITY",
        f"{MADE}.count() == 0",
        behind="CREATE TABLE made_by_call (id BIGINT GENERATED BY DEFAULT AS IDENTITY, n INT) USING delta",
    ),
    sql("ALTER TABLE made_by_call RENAME TO renamed_by_call", "spark.table('renamed_by_call').count() == 0", behind=MAPPED),
    sql("COMMENT ON TABLE delta.`path` IS 'a table'", f"{DETAIL}.description == 'a table'"),
    # Tables told
    sql("DESCRIBE TABLE EXTENDED delta.`path`", "it.first().col_name == 'id'"),
    sql("DESCRIBE DETAIL 'path'", "it.first().numFiles == 2"),
    sql("DESCRIBE HISTORY 'path' LIMIT 1", ROWS.format(1)),
    sql("SHOW PARTITIONS made_by_call", ROWS.format(0), behind=PARTITIONED),
    # Upkeep
    sql("OPTIMIZE delta.`path`", f"{DETAIL}.numFiles == 1"),
    sql("OPTIMIZE 'path'", f"{DETAIL}.numFiles == 1"),
    sql(
        "OPTIMIZE made_by_call FULL",
        f"{MADE}.count() == 2",
        behind="CREATE TABLE made_by_call USING delta CLUSTER BY (id) AS TABLE changes",
    ),
    sql("VACUUM delta.`path`", COUNT.format(3)),
    sql("VACUUM 'path' FULL RETAIN 200 HOURS", COUNT.format(3)),
    sql("VACUUM delta.`path` LITE", COUNT.format(3)),
    Call(
        "spark.sql(f\"VACUUM delta.`{path}` USING INVENTORY (SELECT nullif('{path}/x', '') AS path, nullif(1L, 0) AS length,"
        ' nullif(false, true) AS isDir, nullif(1L, 0) AS modificationTime) RETAIN 200 HOURS")',
        COUNT.format(3),
    ),
    sql("RESTORE delta.`path` TO VERSION AS OF 0", COUNT.format(1)),
    sql("REORG TABLE made_by_call WHERE p = 1 APPLY (PURGE)", f"{MADE}.count() == 0", behind=PARTITIONED),
    Call("spark.sql(f'CONVERT TO DELTA parquet.`{path}_raw` NO STATISTICS')", "spark.table(f'delta.`{path}_raw`').count() == 2"),
    sql("REFRESH TABLE delta.`path`", COUNT.format(3)),
)
