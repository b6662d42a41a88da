"""The column `_metadata` of Delta tables: in SQL text, of DataFrames that do not show it, and as a column that is read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.exceptions import ConcurrentAppendException, DeltaCorruptTableException
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import deleted_rows, vector_reference
from deltamerge.protocol.table.row_tracking import ID_KEY, VERSION_KEY
from deltamerge.spark.read import hidden_frames
from deltamerge.spark.read.metadata import metadata_frame
from deltamerge.tables import DeltaTable
from tests.e2e.catalog import listed
from tests.e2e.feeds import VECTORS
from tests.e2e.hidden_columns import ASKS, REFUSED_ASKS, REFUSED_TEXTS, TEXTS, TRACKED_ASKS, TRACKED_TEXTS, in_order
from tests.e2e.tables import make, noted, parquet_at, version
from tests.e2e.test_row_tracking import TRACKING, tracked

SCHEMA = "id bigint, name string, p string"
ROWS = [(id, f"row {id}", "ab"[id % 2]) for id in range(10)]
ODD = "a b/é%"
KINDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "plain": ({}, ()),
    "partitions": ({}, ("p",)),
    "vectors": (VECTORS, ()),
    "tracked": (TRACKING, ()),
    "tracked vectors": ({**TRACKING, **VECTORS}, ("p",)),
    "mapped": ({**TRACKING, "delta.columnMapping.mode": "name"}, ("p",)),
    "by id": ({**TRACKING, "delta.columnMapping.mode": "id"}, ()),
}
FIELDS = ("file_path", "file_name", "file_size", "file_block_start", "file_block_length", "file_modification_time")
IDS = ("row_id", "base_row_id", "default_row_commit_version", "row_commit_version")


@pytest.fixture(autouse=True)
def no_view(spark: SparkSession) -> Iterator[None]:
    """The view `shown` is there for one test only."""
    yield
    spark.catalog.dropTempView("shown")


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Path:
    """A table of each kind, of which rows were changed and deleted, under a name that URLs write otherwise."""
    properties, partition_by = KINDS[request.param]
    return changed(spark, tmp_path / "odd é {x}" / "t %", properties, partition_by)


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Path:
    """A table that tracks its rows."""
    return changed(spark, tmp_path / "t", {**TRACKING, **VECTORS})


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a table that no test changes."""
    return changed(spark, tmp_path_factory.mktemp("shared") / "t", {**TRACKING, **VECTORS})


def changed(spark: SparkSession, path: Path, properties: dict[str, str], partition_by: tuple[str, ...] = ()) -> Path:
    table = make(spark, path, SCHEMA, ROWS, files=2, properties=properties, partition_by=partition_by)
    table.update("id IN (1, 7)", {"name": "'new'"})
    table.delete("id = 3")
    return path


def expected(path: Path) -> dict[int, dict[str, Any]]:
    """The fields of each row, by its column `id`, as files and the log have them."""
    snapshot = open_log(str(path)).snapshot()
    name_of = {field.physical_name: field.name for field in snapshot.schema}
    names = [snapshot.metadata.configuration.get(key) for key in (ID_KEY, VERSION_KEY)]
    found: dict[int, dict[str, Any]] = {}
    for file in snapshot.files.table().to_pylist():
        gone: set[int] = set()
        if file["deletionVector"]:
            vector = DeletionVector.from_json(file["deletionVector"])
            data = snapshot.store.read(vector_reference(vector, file["path"]) or "")
            gone = set(deleted_rows(vector, lambda at, size, data=data: data[at : at + size], "").positions().tolist())
        place = path / file["path"]
        shown = "".join(quote(c, safe="/:=-_.~") if c.isascii() else c for c in str(place))
        size = place.stat().st_size
        made = datetime.fromtimestamp(file["modificationTime"] / 1000, UTC)
        values = (shown if ":" in shown else f"file:{shown}", place.name, size, 0, size, made)
        for number, row in enumerate(parquet_at(place).read().to_pylist()):
            if number not in gone:
                id = {name_of.get(name): value for name, value in row.items()}["id"]
                kept = [row.get(name) for name in names if name]
                found[id] = dict(zip(FIELDS, values, strict=True))
                if kept or "deletionVectors" in (snapshot.protocol.reader_features or ()):
                    found[id] |= {"row_index": number}
                if kept:
                    base, since = file["baseRowId"], file["defaultRowCommitVersion"]
                    own = (base + number if kept[0] is None else kept[0], base, since, since if kept[1] is None else kept[1])
                    found[id] |= dict(zip(IDS, own, strict=True))
    return found


def read(frame: DataFrame) -> dict[int, dict[str, Any]]:
    """The fields of each row by its id."""
    rows = frame.select("id", "_metadata", F.unix_millis("_metadata.file_modification_time").alias("at")).collect()
    times = {row.id: datetime.fromtimestamp(row["at"] / 1000, UTC) for row in rows}
    return {row.id: {**row["_metadata"].asDict(), "file_modification_time": times[row.id]} for row in rows}


def test_the_fields_are_those_of_files_and_log(spark: SparkSession, path: Path) -> None:
    values = expected(path)
    assert len(values) == 9
    assert read(deltamerge.read(spark, str(path), metadata=True)) == values
    assert read(deltamerge.read(spark, str(path))) == values
    assert read(deltamerge.sql(spark, f"SELECT id, _metadata FROM delta.`{path}`")) == values
    assert read(DeltaTable.forPath(spark, str(path)).toDF()) == values
    assert deltamerge.read(spark, str(path)).columns == ["id", "name", "p"]


def test_the_fields_of_an_older_version(spark: SparkSession, kept: Path) -> None:
    frames = [
        deltamerge.read(spark, str(kept), version=1),
        deltamerge.read(spark, str(kept), version=1, metadata=True),
        deltamerge.sql(spark, f"SELECT * FROM (SELECT id, _metadata FROM delta.`{kept}` VERSION AS OF 1)"),
    ]
    for frame in frames:
        found = frame.select("id", "_metadata.row_id", "_metadata.row_commit_version").collect()
        assert sorted(map(tuple, found)) == [(id, id, id // 5) for id in range(10)]


@pytest.mark.parametrize("name", ["t", "a name {that} Spark reads otherwise"])
def test_a_table_without_rows(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make(spark, path, SCHEMA, [], properties=TRACKING)
    DeltaTable.forPath(spark, str(path)).delete()
    for frame in (deltamerge.read(spark, str(path)), deltamerge.read(spark, str(path), metadata=True)):
        assert frame.select("*", "_metadata.row_id").where("_metadata.row_id > 1").collect() == []
    names = deltamerge.sql(spark, f"SELECT _metadata.* FROM delta.`{path}`").columns
    assert names == [*FIELDS, "row_index", *IDS]


@pytest.mark.parametrize("text", [*TRACKED_TEXTS, *TEXTS])
def test_texts(spark: SparkSession, shared: Path, text: str) -> None:
    """What such a text gives is what it gives of a view that shows the column, as far as it has no star."""
    query = text.format(t=f"delta.`{shared}`", u=f"delta.`{shared}`")
    found = deltamerge.sql(spark, query)
    assert "_metadata" not in found.columns or "_metadata FROM" in text
    if "*" in text.replace("count(*)", "") or "VERSION" in text or "{t}._metadata" in text or "a(q" in text:
        assert found.collect()
        return
    deltamerge.read(spark, str(shared), metadata=True).createOrReplaceTempView("shown")
    assert in_order(found) == in_order(spark.sql(text.format(t="shown", u="shown")))


def test_stars_do_not_show_it(spark: SparkSession, shared: Path) -> None:
    for query in ("SELECT *, _metadata.row_id FROM {t}", "SELECT a.*, a._metadata.row_id FROM {t} a"):
        assert deltamerge.sql(spark, query.format(t=f"delta.`{shared}`")).columns == ["id", "name", "p", "row_id"]
    found = deltamerge.sql(
        spark, f"SELECT * FROM delta.`{shared}` a JOIN delta.`{shared}` b ON a._metadata.row_id = b._metadata.row_id"
    )
    assert (found.columns, found.count()) == (["id", "name", "p"] * 2, 9)
    assert deltamerge.sql(spark, f"SELECT count(*) AS n FROM delta.`{shared}` WHERE _metadata.row_id > 5").first().n == 4


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_texts_that_spark_refuses(spark: SparkSession, shared: Path, text: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        deltamerge.sql(spark, text.format(t=f"delta.`{shared}`", u=f"delta.`{shared}`")).collect()
    assert caught.value.getCondition() in ("FIELD_NOT_FOUND", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "AMBIGUOUS_REFERENCE")


@pytest.mark.parametrize(
    "text", ["SELECT * FROM {t} PIVOT (count(_metadata.row_id) FOR p IN ('a'))", "FROM {t} |> WHERE _metadata.row_id > 1"]
)
def test_texts_that_are_refused_by_name(spark: SparkSession, shared: Path, text: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        deltamerge.sql(spark, text.format(t=f"delta.`{shared}`"))
    assert caught.value.getCondition() == "DELTAMERGE_UNSUPPORTED_STATEMENT"
    assert "_metadata" in str(caught.value)


@pytest.mark.parametrize("name", [name for name in (*TRACKED_ASKS, *ASKS) if name != "metadataColumn"])
def test_frames(spark: SparkSession, shared: Path, name: str) -> None:
    """What is done to a frame that does not show the column gives what it gives of one that does, but for stars."""
    ask = {**TRACKED_ASKS, **ASKS}[name]
    found = ask(deltamerge.read(spark, str(shared)))
    whole = ask(deltamerge.read(spark, str(shared), metadata=True))
    shown = [column for column in whole.columns if column != "_metadata" or name in ("all", "its name", "another column")]
    assert found.columns == (["x", "s", "id", "name", "p", "row_id"] if name == "selectExpr" else shown)
    assert in_order(found.drop("s")) == in_order(whole.select(*[F.col(f"`{column}`") for column in found.drop("s").columns]))


@pytest.mark.parametrize("name", REFUSED_ASKS)
def test_frames_that_spark_refuses(spark: SparkSession, shared: Path, name: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        REFUSED_ASKS[name](deltamerge.read(spark, str(shared))).collect()
    assert caught.value.getCondition() in ("FIELD_NOT_FOUND", "UNRESOLVED_COLUMN.WITH_SUGGESTION")


def test_frames_of_which_nobody_asks_it_do_not_make_it(spark: SparkSession, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = noted(monkeypatch, hidden_frames, "metadata_frame")
    frame = deltamerge.read(spark, str(kept))
    other = frame.where("id > 2").select("id", frame["name"]).withColumn("x", F.lit(1)).groupBy("x").agg(F.max("id").alias("m"))
    assert other.join(spark.range(1), F.col("m") == 9, "left").count() == 1
    assert not made
    assert frame.where("_metadata.row_id = 2").select(frame["id"]).collect() == [(2,)]
    assert len(made) == 1
    assert frame.select("_metadata.row_id").count() == 9
    assert len(made) == 1


def test_two_tables_are_joined_by_it(spark: SparkSession, kept: Path, tmp_path: Path) -> None:
    other = changed(spark, tmp_path / "other", TRACKING)
    one, two = deltamerge.read(spark, str(kept)), deltamerge.read(spark, str(other))
    joined = one.join(two, one["_metadata"]["row_id"] == two["_metadata"]["row_id"])
    assert (joined.columns, joined.count()) == (["id", "name", "p"] * 2, 9)
    a, b = one.alias("a"), one.where("id < 3").alias("b")
    itself = a.join(b, F.col("a._metadata.row_id") == F.col("b._metadata.row_id"))
    assert itself.columns == ["id", "name", "p"] * 2
    assert in_order(itself.select("a.id", "b.name")) == [(0, "row 0"), (1, "new"), (2, "row 2")]
    semi = one.join(two.where("id < 3"), one["_metadata"]["row_id"] == two["_metadata"]["row_id"], "left_semi")
    assert sorted(row.id for row in semi.collect()) == [0, 1, 2]


def test_a_column_of_this_name(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = spark.range(2).selectExpr("id", "named_struct('row_id', id + 7) AS _metadata").coalesce(1)
    deltamerge.write(rows, str(path), properties=TRACKING)
    frame = deltamerge.read(spark, str(path))
    assert in_order(frame.select("_metadata.row_id", "__metadata.row_id")) == [(7, 0), (8, 1)]
    assert in_order(frame.select(frame.metadataColumn("_metadata")["row_id"])) == [(0,), (1,)]
    assert in_order(deltamerge.sql(spark, f"SELECT _metadata.row_id FROM delta.`{path}`")) == [(7,), (8,)]
    assert deltamerge.read(spark, str(path), metadata=True).columns == ["id", "_metadata", "__metadata"]


def test_rows_are_merged_by_it(spark: SparkSession, kept: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    table = make(spark, target, "id bigint, r bigint", [(1, None), (90, None)])
    source = f"SELECT id, _metadata.row_id AS r FROM delta.`{kept}`"
    deltamerge.sql(spark, f"MERGE INTO delta.`{target}` t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    assert in_order(table.toDF()) == [(1, 1), (90, None)]
    deltamerge.sql(spark, f"INSERT INTO delta.`{target}` {source} WHERE _metadata.row_id > 7")
    deltamerge.sql(spark, f"UPDATE delta.`{target}` SET r = (SELECT max(_metadata.row_id) FROM delta.`{kept}`) WHERE id = 90")
    assert in_order(table.toDF()) == [(1, 1), (8, 8), (9, 9), (90, 9)]


def test_rows_that_were_read_with_it_are_known_to_be_read(spark: SparkSession, kept: Path) -> None:
    frames = [
        deltamerge.read(spark, str(kept)).where("_metadata.row_id > 4"),
        deltamerge.read(spark, str(kept), metadata=True).where("_metadata.row_id > 4").drop("_metadata"),
    ]
    deltamerge.write(spark.createDataFrame([(90, "x", "a")], SCHEMA), str(kept), mode="append")
    before = version(kept)
    for frame in frames:
        with pytest.raises(ConcurrentAppendException):
            deltamerge.write(frame, str(kept), mode="append")
    assert version(kept) == before


@pytest.mark.local(reason="a commit is written by hand")
def test_a_file_without_ids(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS[:2], properties=TRACKING)
    first = path / "_delta_log" / f"{0:020d}.json"
    (path / "_delta_log" / f"{1:020d}.json").write_text(
        "".join(line.replace('"baseRowId":0,', "") for line in first.read_text().splitlines(True) if '"add"' in line)
    )
    frame = deltamerge.read(spark, str(path))
    assert frame.count() == 2
    with pytest.raises(DeltaCorruptTableException, match="DELTAMERGE_FILE_WITHOUT_ROW_IDS"):
        frame.select("_metadata.row_id")


def test_files_that_spark_names_otherwise_are_read_by_workers(
    spark: SparkSession, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltamerge.spark.read.metadata.input_files", lambda frame: ["file:/elsewhere/part-0.parquet"])
    assert read(deltamerge.read(spark, str(kept))) == expected(kept)


@pytest.fixture
def active(spark: SparkSession) -> Iterator[SparkSession]:
    deltamerge.activate(spark)
    yield spark
    deltamerge.deactivate(spark)


def test_an_active_session(active: SparkSession, kept: Path) -> None:
    values = expected(kept)
    assert read(active.read.format("delta").load(str(kept))) == values
    assert read(active.read.format("delta").option("metadata", True).load(str(kept))) == values
    assert read(active.table(f"delta.`{kept}`")) == values
    assert read(active.sql(f"SELECT id, _metadata FROM delta.`{kept}`")) == values
    shown = active.read.format("delta").option("metadata", "true").load(str(kept))
    assert shown.columns == ["id", "name", "p", "_metadata"]
    active.sql(f"CREATE OR REPLACE TEMP VIEW shown AS SELECT id, _metadata.row_id AS r FROM delta.`{kept}`")
    assert active.table("shown").where("r = 2").collect() == [(2, 2)]


@pytest.mark.local(reason="the table is in the catalog")
def test_a_table_of_the_catalog(active: SparkSession, kept: Path) -> None:
    with listed(active, {"shown_rows": kept}):
        for query in (
            "SELECT id, _metadata.row_id FROM shown_rows",
            "SELECT id, shown_rows._metadata.row_id FROM default.shown_rows WHERE _metadata.row_id >= 0",
        ):
            assert in_order(active.sql(query)) == sorted((id, row) for id, (row, _) in tracked(kept).items())
        assert active.table("shown_rows").where("_metadata.row_id = 2").select("id").collect() == [(2,)]


def test_the_frame_that_shows_it_reads_by_spark_what_spark_can_read(spark: SparkSession, tmp_path: Path) -> None:
    path = changed(spark, tmp_path / "t", TRACKING)
    snapshot = open_log(str(path)).snapshot()
    assert metadata_frame(spark, snapshot).where("id > 4").select("_metadata.row_id").count() == 5
