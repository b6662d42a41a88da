"""Tables that delta-spark made with each kind of mapping and type, read, appended to and merged, then read by others."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.spark.read.snapshot import arrow_frame
from deltamerge.tables import DeltaTable

MAPPED = """id INT, `a b` STRING, `c.d` LONG, `e``f,g` DOUBLE, s STRUCT<x: INT, `y z`: STRUCT<w: STRING>>,
    l ARRAY<STRUCT<q: INT>>, m MAP<STRING, STRUCT<v: DOUBLE>>, p STRING"""
MAPPED_ROWS = """SELECT CAST(id AS INT), concat('n', id), id * 10, id / 2,
    named_struct('x', CAST(id AS INT), 'y z', named_struct('w', concat('w', id))), array(named_struct('q', CAST(id AS INT))),
    map('k', named_struct('v', CAST(id AS DOUBLE))), concat('p ', id % 2) FROM range(10)"""
SWAPS = [
    "RENAME COLUMN id TO `the id`",
    "DROP COLUMN `c.d`",
    "ADD COLUMNS (`c.d` STRING)",
    "RENAME COLUMN s.x TO tmp",
    "ADD COLUMNS (s.x STRING)",
]


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def same_for_both(spark: SparkSession, path: Path) -> Counter[str]:
    """The rows of a table, which delta-spark and both readers here see alike, in columns of the same types."""
    theirs, ours = spark.read.format("delta").load(str(path)), deltamerge.read(spark, str(path))
    assert ours.schema == theirs.schema
    found = rows(theirs)
    assert rows(ours) == found
    assert rows(arrow_frame(spark, open_log(str(path)).snapshot())) == found
    return found


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("partition_by", ["", "PARTITIONED BY (p)"], ids=["flat", "partitioned"])
def test_column_mapping(spark: SparkSession, tmp_path: Path, mode: str, partition_by: str) -> None:
    made = tmp_path / "made"
    spark.sql(
        f"CREATE TABLE delta.`{made}` ({MAPPED}) USING delta {partition_by} TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
    )
    spark.sql(f"INSERT INTO delta.`{made}` {MAPPED_ROWS}")
    for change in SWAPS:
        spark.sql(f"ALTER TABLE delta.`{made}` {change}")
    same_for_both(spark, made)
    frame = deltamerge.read(spark, str(made))
    deltamerge.write(frame.where("`the id` = 9").withColumn("the id", frame["the id"] + 100), str(made), mode="append")
    same_for_both(spark, made)
    for strategy in ("auto", "join"):
        path = tmp_path / strategy
        shutil.copytree(made, path)
        spark.conf.set("spark.deltamerge.strategy", strategy)
        merge_mapped(spark, path)
        found = same_for_both(spark, path)
        assert len(found) == 11
    spark.conf.unset("spark.deltamerge.strategy")


def as_values(frame: DataFrame) -> DataFrame:
    """The rows as values: those of the table's older version can't be written after a change of it."""
    return frame.sparkSession.createDataFrame(frame.collect(), frame.schema)


def merge_mapped(spark: SparkSession, path: Path) -> None:
    frame = deltamerge.read(spark, str(path))
    kept = frame.where("`the id` < 3").withColumns({"a b": frame["p"], "c.d": frame["a b"]})
    added = frame.where("`the id` = 4").withColumns({"the id": frame["the id"] + 200, "p": F.lit("p,new")})
    source = as_values(kept.unionByName(added)).alias("s")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    table.merge(source, "t.`the id` = s.`the id`").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    merge = table.merge(source, "t.`the id` = s.`the id` AND t.`e``f,g` = s.`e``f,g`")
    merge = merge.whenMatchedUpdate("t.s.tmp < 2", {"`a b`": "concat(t.`a b`, s.`c.d`)", "`e``f,g`": "t.`e``f,g` + 1"})
    merge.whenMatchedDelete("t.`the id` = 2").execute()


def test_a_table_that_was_given_column_mapping_later(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (k INT, a INT, s STRUCT<a: INT, b: INT>, p INT) USING delta PARTITIONED BY (p)")
    insert = f"INSERT INTO delta.`{path}` SELECT id, id + 1, named_struct('a', id + 2, 'b', id + 3), id % 2 FROM range(6)"
    spark.sql(insert)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for old, new in (("s.a", "c"), ("s.b", "a"), ("s.c", "b"), ("p", "part")):
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN {old} TO {new}")
    spark.sql(insert.replace("range(6)", "range(6, 9)"))
    same_for_both(spark, path)
    source = spark.sql("SELECT 2 k, 7 a, named_struct('b', 1, 'a', 2) s, 5 part UNION ALL SELECT 9, 9, null, 0").alias("s")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    table.merge(source, "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert len(same_for_both(spark, path)) == 10


WIDENED = {
    "by": ("BYTE", "BIGINT"),
    "sh": ("SHORT", "DOUBLE"),
    "it": ("INT", "DECIMAL(12, 2)"),
    "lo": ("BIGINT", "DECIMAL(23, 3)"),
    "fl": ("FLOAT", "DOUBLE"),
    "de": ("DECIMAL(5, 2)", "DECIMAL(10, 4)"),
    "dt": ("DATE", "TIMESTAMP_NTZ"),
}


@pytest.mark.parametrize("strategy", ["auto", "join"])
def test_type_widening(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    path = tmp_path / "t"
    columns = ", ".join(f"{name} {old}" for name, (old, _) in WIDENED.items())
    properties = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')"
    spark.sql(f"CREATE TABLE delta.`{path}` (k INT, {columns}, l ARRAY<SHORT>, m MAP<STRING, FLOAT>) USING delta {properties}")
    values = "id, id, id, id, id, id / 10, id / 10, date_add(DATE'2020-01-01', CAST(id AS INT)), array(id), map('k', id / 10)"
    spark.sql(f"INSERT INTO delta.`{path}` SELECT {values} FROM range(4)")
    for name, (_, new) in {**WIDENED, "l.element": ("", "INT"), "m.value": ("", "DOUBLE")}.items():
        spark.sql(f"ALTER TABLE delta.`{path}` CHANGE COLUMN {name} TYPE {new}")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT {values} FROM range(4, 6)")
    same_for_both(spark, path)
    spark.conf.set("spark.deltamerge.strategy", strategy)
    frame = deltamerge.read(spark, str(path))
    source = frame.where("k in (1, 5)").withColumns({"by": frame["by"] + 2**40, "l": frame["l"]})
    source = as_values(source).alias("s")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    table.merge(source, "t.fl = s.fl AND t.dt = s.dt").whenMatchedUpdateAll().execute()
    spark.conf.unset("spark.deltamerge.strategy")
    found = same_for_both(spark, path)
    assert sum("1099511627" in row for row in found) == 2
    deltamerge.write(source, str(path), mode="append")
    assert sum(same_for_both(spark, path).values()) == 8


PARTITIONS = """SELECT id, CAST(id AS BYTE) b, CAST(id AS SHORT) sh, CAST(id / 3 AS FLOAT) f, id / 3 d, id % 2 = 0 t,
    CAST(id / 4 AS DECIMAL(7, 3)) de, date_add(DATE'1999-12-31', CAST(id AS INT)) da, timestamp_micros(id * 1000001) ts,
    CAST(timestamp_micros(id * 1000001) AS TIMESTAMP_NTZ) nt,
    element_at(array('', null, 'a b', 'x/y=%z', 'é:?', "q'\\"#"), id + 1) s
    FROM (SELECT CAST(id AS INT) id FROM range(6))
    UNION ALL SELECT 99, null, null, null, null, null, null, null, null, null, null"""


def test_partition_values_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(PARTITIONS)
    columns = frame.columns[1:]
    frame.write.format("delta").partitionBy(*columns).save(str(tmp_path / "theirs"))
    deltamerge.write(frame, str(tmp_path / "ours"), partition_by=columns)
    assert same_for_both(spark, tmp_path / "ours") == same_for_both(spark, tmp_path / "theirs")
    texts = [
        sorted(map(str, deltalake.DeltaTable(str(tmp_path / name)).to_pyarrow_table().to_pylist())) for name in ("ours", "theirs")
    ]
    assert texts[0] == texts[1]
    table = DeltaTable.forPath(spark, str(tmp_path / "theirs")).alias("t")
    condition = " AND ".join(f"t.{name} <=> s.{name}" for name in columns)
    table.merge(deltamerge.read(spark, str(tmp_path / "ours")).alias("s"), condition).whenMatchedUpdate(
        set={"id": "t.id + 1000"}
    ).execute()
    same_for_both(spark, tmp_path / "theirs")
    assert spark.read.format("delta").load(str(tmp_path / "theirs")).where("id >= 1000").count() == 7


REFUSALS = ("_CORRUPT_", "_TYPE_MISMATCH", "overflow")


def table_of_one_file(path: Path, schema: dict[str, Any], file: pa.Table, partition: dict[str, str]) -> None:
    """A table as nobody writes it: of a file, a schema and partition values that need not fit."""
    (path / "_delta_log").mkdir(parents=True)
    pq.write_table(file, path / "a.parquet", store_decimal_as_integer=True)
    fields = [{"name": name, "type": type, "nullable": True, "metadata": {}} for name, type in schema.items()]
    metadata = {
        "id": path.name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partition),
        "configuration": {},
    }
    size = (path / "a.parquet").stat().st_size
    add = {"path": "a.parquet", "partitionValues": partition, "size": size, "modificationTime": 0, "dataChange": True}
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}, {"add": add}]
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def found_by_both(spark: SparkSession, path: Path, column: str) -> list[str]:
    """The text of a column's value as delta-spark and as our workers read it, or that it is refused."""
    frames: list[Callable[[], DataFrame]] = [
        lambda: spark.read.format("delta").load(str(path)),
        lambda: arrow_frame(spark, open_log(str(path)).snapshot()),
    ]
    found = []
    for frame in frames:
        try:
            found += [str(row[0]) for row in frame().select(F.col(column).cast("string")).collect()]
        except Exception as error:
            # Each engine has its own errors, and Spark wraps those of workers.
            found.append("refused" if any(word in str(error) for word in REFUSALS) else str(error))
    return found


@pytest.mark.parametrize(
    ("stored", "type", "theirs", "ours"),
    [
        (pa.array([7], pa.int32()), "boolean", "refused", "refused"),
        (pa.array([7]), "integer", "refused", "refused"),
        (pa.array([0.125]), "decimal(9,2)", "refused", "refused"),
        (pa.array([1e300]), "float", "refused", "refused"),
        (pa.array(["31"]), "integer", "refused", "refused"),
        (pa.array([7]), "timestamp", "refused", "refused"),
        (pa.array([2**62]).cast(pa.timestamp("ms", "UTC")), "timestamp", "refused", "refused"),
        (pa.array([7], pa.int32()), "byte", "7", "7"),
        (pa.array([7], pa.int32()), "decimal(12,2)", "7.00", "7.00"),
        (pa.array([7], pa.int32()), "date", "1970-01-08", "1970-01-08"),
        (pa.array([7], pa.int32()).cast(pa.date32()), "integer", "7", "7"),
        (pa.array([7]).cast(pa.timestamp("ms", "UTC")), "long", "7", "7"),
        (pa.array([[7]], pa.list_view(pa.int64())), {"type": "array", "elementType": "long", "containsNull": True}, "[7]", "[7]"),
        (pa.array([Decimal("7.00")], pa.decimal128(9, 2)), "integer", "700", "refused"),
        (pa.array([Decimal(7)], pa.decimal128(9, 0)), "integer", "7", "7"),
        (pa.array([Decimal(7)], pa.decimal128(18, 0)), "long", "7", "7"),
        (pa.array([255], pa.uint8()), "byte", "-1", "refused"),
        (pa.array([7], pa.int32()).cast(pa.date32()), "double", "7.0", "refused"),
    ],
    ids=str,
)
def test_files_with_a_column_of_another_type(
    spark: SparkSession, tmp_path: Path, stored: pa.Array, type: Any, theirs: str, ours: str
) -> None:
    table_of_one_file(tmp_path / "t", {"x": type}, pa.table({"x": stored}), {})
    assert found_by_both(spark, tmp_path / "t", "x") == [theirs, ours]


@pytest.mark.parametrize(
    ("text", "type", "theirs", "ours"),
    [
        ("31", "integer", "31", "31"),
        ("0x1F", "integer", "None", "refused"),
        ("0xFF", "byte", "None", "refused"),
        ("5.9", "integer", "5", "refused"),
        ("12.345", "decimal(9,2)", "12.35", "refused"),
        ("yes", "boolean", "true", "refused"),
        ("nan(1)", "double", "None", "refused"),
        ("2020-W01-1", "timestamp", "None", "refused"),
        ("2020-01-01 10:00:00 Foo/Bar", "timestamp", "None", "refused"),
        ("2020-01-01 10:00:00 +01:00", "timestamp", "2020-01-01 09:00:00", "2020-01-01 09:00:00"),
    ],
)
def test_partition_values_of_another_type(
    spark: SparkSession, tmp_path: Path, text: str, type: str, theirs: str, ours: str
) -> None:
    table_of_one_file(tmp_path / "t", {"id": "long", "p": type}, pa.table({"id": [1]}), {"p": text})
    assert found_by_both(spark, tmp_path / "t", "p") == [theirs, ours]


def test_void_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id, null v, named_struct('w', null, 'x', id) s FROM range(3)")
    frame.write.format("delta").save(str(tmp_path / "t"))
    deltamerge.write(frame, str(tmp_path / "t"), mode="append")
    found = rows(deltamerge.read(spark, str(tmp_path / "t")))
    assert found == rows(arrow_frame(spark, open_log(str(tmp_path / "t")).snapshot()))
    assert found == rows(frame.union(frame))


@pytest.mark.parametrize("text", ["x", "abc", "ab    ", "      ", "abcd", "abc d  "])
@pytest.mark.parametrize("how", ["update", "merge"])
def test_what_is_written_to_char_and_varchar(spark: SparkSession, tmp_path: Path, how: str, text: str) -> None:
    from delta.tables import DeltaTable as DeltaSparkTable

    found = []
    for place, table in (("theirs", DeltaSparkTable), ("ours", DeltaTable)):
        path = str(tmp_path / place)
        spark.sql(f"CREATE TABLE delta.`{path}` (id INT, c CHAR(3), v VARCHAR(4), n STRUCT<c: CHAR(3)>) USING delta")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a', 'b', named_struct('c', 'old'))")
        target, source = table.forPath(spark, path), spark.sql(f"SELECT 1 AS id, '{text}' AS w")
        try:
            if how == "update":
                target.update(set=dict.fromkeys(("c", "v", "n.c"), F.lit(text)))
            else:
                merge = target.alias("t").merge(source.alias("s"), "t.id = s.id")
                merge.whenMatchedUpdate(set=dict.fromkeys(("c", "v", "n.c"), "s.w")).execute()
        except Exception:
            found.append("too long")
            continue
        found.append(str(deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()))
    assert found[0] == found[1]
    assert (found[0] == "too long") == (len(text if how == "merge" else text.rstrip()) > 3)
