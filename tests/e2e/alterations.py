"""Statements that change a table, run here and by delta-spark. `{t}` is the table."""

from __future__ import annotations

_FEATURE = "'delta.feature.allowColumnDefaults' = 'supported'"

# Each a table's statements, one after the other; those with a bare feature make no difference in the rows.
ALTERATIONS: dict[str, list[str]] = {
    "properties": [
        "CREATE TABLE {t} (a INT, b STRING) USING delta",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'k' = 'v', 'delta.CheckpointInterval' = '5')",
        "ALTER TABLE {t} UNSET TBLPROPERTIES ('k', 'other')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.v2Checkpoint' = 'supported')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false', 'comment' = 'c')",
    ],
    "protocols": [
        "CREATE TABLE {t} (a INT) USING delta TBLPROPERTIES ('delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '2')",
        *(
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.minReaderVersion' = '{reader}', 'delta.minWriterVersion' = '{writer}')"
            for reader, writer in [(1, 3), (1, 2), (2, 3), (2, 5), (2, 2), (3, 7), (2, 6)]
        ),
    ],
    "columns": [
        "CREATE TABLE {t} (a INT NOT NULL, s STRUCT<x: INT, y: STRING>, p STRING) USING delta PARTITIONED BY (p)",
        "ALTER TABLE {t} ADD COLUMNS (b STRING COMMENT 'new' FIRST, c VARCHAR(3) AFTER a)",
        "ALTER TABLE {t} ADD COLUMN s.z ARRAY<INT>",
        "ALTER TABLE {t} ALTER COLUMN b COMMENT 'other'",
        "ALTER TABLE {t} CHANGE COLUMN a DROP NOT NULL",
        "ALTER TABLE {t} ALTER COLUMN s.y FIRST",
        "ALTER TABLE {t} ALTER COLUMN b AFTER p",
    ],
    "mapping": [
        "CREATE TABLE {t} (a INT, s STRUCT<x: INT, y: STRING>, p STRING) USING delta PARTITIONED BY (p)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} RENAME COLUMN a TO `a b`",
        "ALTER TABLE {t} RENAME COLUMN s.x TO xx",
        "ALTER TABLE {t} RENAME COLUMN p TO q",
        "ALTER TABLE {t} ADD COLUMN n INT",
        "ALTER TABLE {t} DROP COLUMNS (s.y, n)",
    ],
    "dropped if they exist": [
        "CREATE TABLE {t} (a INT, s STRUCT<x: INT, y: STRING>, b STRING) USING delta",
        "ALTER TABLE {t} DROP COLUMNS IF EXISTS (c, s.z, c.d)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} DROP COLUMN IF EXISTS z",
        "ALTER TABLE {t} DROP COLUMNS IF EXISTS (b, z, s.y)",
    ],
    "replaced columns": [
        "CREATE TABLE {t} (a INT NOT NULL COMMENT 'one', s STRUCT<x: INT, y: STRING>, p STRING) USING delta PARTITIONED BY (p)",
        "ALTER TABLE {t} REPLACE COLUMNS (p STRING COMMENT 'k', A INT, s STRUCT<z: DATE, y: STRING, x: INT>, n INT, o DATE)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} REPLACE COLUMNS (a BIGINT COMMENT '', s STRUCT<y: STRING, x: BIGINT>, p STRING)",
        "ALTER TABLE {t} REPLACE COLUMNS (p STRING, a BIGINT)",
        "ALTER TABLE {t} REPLACE COLUMNS (n STRING, p STRING, a BIGINT)",
    ],
    "types": [
        "CREATE TABLE {t} (a INT, d DECIMAL(5, 2)) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE {t} CHANGE COLUMN d d DECIMAL(10, 4)",
    ],
    "defaults": [
        f"CREATE TABLE {{t}} (a INT) USING delta TBLPROPERTIES ({_FEATURE})",
        "ALTER TABLE {t} ALTER COLUMN a SET DEFAULT 7",
        "ALTER TABLE {t} ALTER COLUMN a DROP DEFAULT",
    ],
    "constraints": [
        "CREATE TABLE {t} (a INT) USING delta",
        "ALTER TABLE {t} ADD CONSTRAINT Positive CHECK (a > 0)",
        "ALTER TABLE {t} DROP CONSTRAINT positive",
        "ALTER TABLE {t} DROP CONSTRAINT IF EXISTS positive",
        "ALTER TABLE {t} DROP FEATURE checkConstraints",
    ],
    "clustering": [
        "CREATE TABLE {t} (a INT, b STRING) USING delta CLUSTER BY (a)",
        "ALTER TABLE {t} CLUSTER BY (b, a)",
        "ALTER TABLE {t} CLUSTER BY NONE",
    ],
    "refusals": [
        """CREATE TABLE {t} (a INT, p STRING, g INT GENERATED ALWAYS AS (a + 1), i BIGINT GENERATED ALWAYS AS IDENTITY)
        USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.constraints.c' = 'a > 0')""",
    ],
}

REFUSED: list[tuple[str, str]] = [
    ("DELTA_UNKNOWN_CONFIGURATION", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.foo' = '1')"),
    ("DELTAMERGE_INVALID_PROPERTY", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'maybe')"),
    ("DELTA_ADD_CONSTRAINTS", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.constraints.d' = 'a > 1')"),
    ("DELTA_OPERATION_NOT_ALLOWED", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.clustering' = 'supported')"),
    ("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"),
    ("DELTA_OPERATION_NOT_ALLOWED", "ALTER TABLE {t} ADD COLUMN n INT NOT NULL"),
    ("FIELD_ALREADY_EXISTS", "ALTER TABLE {t} ADD COLUMN A INT"),
    ("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", "ALTER TABLE {t} ADD COLUMN z.y INT"),
    ("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "ALTER TABLE {t} ADD COLUMN `a b` INT"),
    ("WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED", "ALTER TABLE {t} ADD COLUMN n INT DEFAULT 1"),
    ("WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED", "ALTER TABLE {t} ALTER COLUMN a SET DEFAULT 1"),
    ("DELTA_UNSUPPORTED_RENAME_COLUMN", "ALTER TABLE {t} RENAME COLUMN p TO q"),
    ("DELTA_UNSUPPORTED_DROP_COLUMN", "ALTER TABLE {t} DROP COLUMN p"),
    ("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT"),
    ("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", "ALTER TABLE {t} ALTER COLUMN p SET NOT NULL"),
    ("DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED", "ALTER TABLE {t} CLUSTER BY (a)"),
    ("DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", "ALTER TABLE {t} DROP FEATURE rowTracking"),
    ("DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE", "ALTER TABLE {t} DROP FEATURE generatedColumns"),
    ("DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY", "ALTER TABLE {t} DROP FEATURE 'delta.appendOnly'"),
    ("DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED", "ALTER TABLE {t} DROP FEATURE checkConstraints TRUNCATE HISTORY"),
    ("DELTA_OPERATION_NOT_ALLOWED", "ALTER TABLE {t} RENAME TO other"),
    ("DELTA_OPERATION_NOT_ALLOWED", "ALTER TABLE {t} SET LOCATION '/tmp/x'"),
    ("PARSE_SYNTAX_ERROR", "ALTER TABLE {t} DROP COLUMN"),
    ("DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED", "ALTER TABLE {t} REPLACE COLUMNS (a INT, p STRING, g INT, i BIGINT)"),
    ("PARSE_SYNTAX_ERROR", "ALTER TABLE {t} REPLACE COLUMNS"),
    ("PARSE_SYNTAX_ERROR", "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS a INT"),
]
REPLACED = "CREATE TABLE {t} (a INT, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>, p STRING) USING delta PARTITIONED BY (p)"
_REPLACE = "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"
# Columns that can't stand in the place of these, and whether the table maps the names of columns.
NOT_REPLACED: list[tuple[str, str, bool]] = [
    (_REPLACE, "a INT, p STRING", False),
    (_REPLACE, "a INT, s STRUCT<x: INT>, p STRING", False),
    (_REPLACE, "a BIGINT, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>, p STRING", True),
    (_REPLACE, "a INT, s STRING, p STRING", True),
    (_REPLACE, "a INT, s STRUCT<x: INT, y: ARRAY<STRUCT<zz: INT>>>, p STRING", True),
    (_REPLACE, "a INT, s STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: INT>>>, p STRING", True),
    (_REPLACE, "a INT, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>, w: INT NOT NULL>, p STRING", True),
    (_REPLACE, "b INT, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>, p STRING", True),
    ("DELTA_OPERATION_NOT_ALLOWED", "a INT NOT NULL, p STRING", True),
    ("DELTA_OPERATION_NOT_ALLOWED", "a INT DEFAULT 1, p STRING", True),
    ("COLUMN_ALREADY_EXISTS", "a INT, A INT, p STRING", True),
    ("DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", "a INT, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>", True),
]
MAPPED_REFUSED: list[tuple[str, str]] = [
    ("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "ALTER TABLE {t} RENAME COLUMN a TO b"),
    ("DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE", "ALTER TABLE {t} DROP COLUMN a"),
    ("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", "ALTER TABLE {t} DROP COLUMN IF EXISTS p.q"),
]
