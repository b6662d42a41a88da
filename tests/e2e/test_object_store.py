"""Tables on an object store, through the public interface, on an S3 server on loopback."""

from __future__ import annotations

import json
import logging
import multiprocessing
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import deltalake
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.errors import CommitStateUnknownError, StorageError
from deltamerge.exceptions import DeltaCommitStateUnknownException, DeltaStorageException
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.table import open_log
from deltamerge.spark.pyspark.adapter import extended_plan
from deltamerge.spark.session.jobs import in_process
from deltamerge.spark.session.storage import store_settings
from deltamerge.storage import ObjectInfo, open_store
from deltamerge.storage.elsewhere import NAMING
from deltamerge.storage.object_store import ObjectStore
from deltamerge.tables import DeltaTable
from deltamerge.worker.scan.row_errors import Refused
from tests.stores.committing import append
from tests.stores.server import KEY_ID, SECRET, TOKEN, S3Server, answered, cut_off, served_but_answer_is, served_but_cut_off
from tests.unit.log.building import PROTOCOL, metadata

SCHEMA = "id int, name string, p string"
ROWS = [(1, "a", "x"), (2, "b", "x"), (3, "c", "y z/%"), (4, "d", None)]


@pytest.fixture
def place(
    request: pytest.FixtureRequest, spark: SparkSession, server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Where a table may be made; the session's settings open it, over Connect, which hides secrets, the environment."""
    connect = request.config.getoption("--connect")
    for name, value in server.options.items() if connect else ():
        monkeypatch.setenv(name.upper(), value)
    for name, value in server.settings.items() if not connect else ():
        spark.conf.set(name, value)
    yield f"s3a://{bucket}/some tables/t"
    for name in server.settings:
        spark.conf.unset(name)


def frame(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def content(table: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.collect())


def as_deltalake_sees_it(server: S3Server, place: str) -> list[tuple[Any, ...]]:
    options = {**server.options, "aws_allow_http": "true"}
    table = deltalake.DeltaTable(place, storage_options=options).to_pyarrow_table().select(["id", "name", "p"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_write_read_merge_and_history(
    spark: SparkSession, server: S3Server, place: str, strategy: str, partition_by: list[str]
) -> None:
    assert deltamerge.write(frame(spark, ROWS[:2]), place, partition_by=partition_by) == 0
    assert deltamerge.write(frame(spark, ROWS[2:]), place, mode="append") == 1
    assert content(deltamerge.read(spark, place)) == ROWS
    assert content(deltamerge.read(spark, place, 0)) == ROWS[:2]
    table = DeltaTable.forPath(spark, place).alias("t")
    changes = frame(spark, [(2, "B", "x"), (3, "C", "moved"), (9, "z", "y z/%")]).alias("s")
    report = table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().run()
    assert (report.updated, report.inserted) == (2, 1)
    table.merge(frame(spark, [(1, "", "")]).alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    expected = [(2, "B", "x"), (3, "C", "moved"), (4, "d", None), (9, "z", "y z/%")]
    assert content(table.toDF()) == as_deltalake_sees_it(server, place) == expected
    assert [row.operation for row in table.history().collect()] == ["MERGE", "MERGE", "WRITE", "WRITE"]
    assert table.detail().collect()[0].location == place
    assert DeltaTable.isDeltaTable(spark, place)
    assert not DeltaTable.isDeltaTable(spark, f"{place}/nothing")
    check_sizes(server, place)


def check_sizes(server: S3Server, place: str) -> None:
    """Every file that the log adds has the size that the log says, and nothing lies there that the log does not name."""
    bucket, _, folder = place.removeprefix("s3a://").partition("/")
    commits = [server.object(bucket, key) for key in server.keys(bucket, f"{folder}/_delta_log/")]
    actions = [json.loads(line) for commit in commits for line in commit.splitlines()]
    sizes = {action["add"]["path"]: action["add"]["size"] for action in actions if "add" in action}
    stored = {key: len(server.object(bucket, key)) for key in server.keys(bucket, folder) if "/_delta_log/" not in key}
    assert sorted(sizes.values()) == sorted(stored.values())


def test_the_same_on_azure(spark: SparkSession, emulator: dict[str, str], container: str, strategy: str) -> None:
    place = f"abfss://{container}@devstoreaccount1.dfs.core.windows.net/some tables/t"
    deltamerge.write(frame(spark, ROWS), place, partition_by=["p"], storage_options=emulator)
    table = DeltaTable.forPath(spark, place, emulator).alias("t")
    changes = frame(spark, [(2, "B", "x"), (9, "z", "y z/%")]).alias("s")
    report = table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().run()
    assert (report.updated, report.inserted) == (1, 1)
    expected = [(1, "a", "x"), (2, "B", "x"), (3, "c", "y z/%"), (4, "d", None), (9, "z", "y z/%")]
    assert content(deltamerge.read(spark, place, storage_options=emulator)) == expected
    options = {**emulator, "azure_allow_http": "true"}
    found = deltalake.DeltaTable(place, storage_options=options).to_pyarrow_table().select(["id", "name", "p"])
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == expected


def test_options_are_given_in_the_call(spark: SparkSession, server: S3Server, bucket: str) -> None:
    place = f"s3://{bucket}/t"
    deltamerge.write(frame(spark, ROWS), place, storage_options=server.options)
    assert content(deltamerge.read(spark, place, storage_options=server.options)) == ROWS
    hadoop = {name.removeprefix("spark.hadoop."): value for name, value in server.settings.items()}
    table = DeltaTable.forPath(spark, place, hadoop).alias("t")
    merge = table.merge(frame(spark, ROWS[:1]).alias("s"), "t.id = s.id").whenMatchedUpdate(set={"name": "'new'"})
    assert merge.run().updated == 1
    assert (1, "new", "x") in content(table.toDF())


def test_a_clone_reads_the_bucket_of_its_original_where_that_is_configured(
    spark: SparkSession, server: S3Server, bucket: str
) -> None:
    other = f"clone-{bucket}"[:63]
    server.client.create_bucket(Bucket=other)
    deltamerge.write(frame(spark, ROWS), f"s3a://{bucket}/t", storage_options=server.options)
    first = server.object(bucket, f"t/{commit_name(0)}").decode()
    whole = first.replace('"path":"', f'"path":"s3a://{bucket}/t/')
    server.client.put_object(Bucket=other, Key=f"t/{commit_name(0)}", Body=whole.encode())
    before = server.keys(bucket)

    def merge(options: dict[str, str]) -> int:
        clone = DeltaTable.forPath(spark, f"s3a://{other}/t", options).alias("t")
        changes = frame(spark, [(2, "B", "x"), (9, "z", "x")]).alias("s")
        return clone.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().run().updated

    with pytest.raises(DeltaStorageException, match=rf"\[DELTAMERGE_FILE_IN_OTHER_STORE\].*s3a://{bucket}/t/"):
        merge(server.options)
    assert server.keys(other) == [f"t/{commit_name(0)}"]
    named = {name.replace(".s3a.", f".s3a.bucket.{bucket}."): value for name, value in server.settings.items()}
    assert merge({**server.options, **named}) == 1
    expected = [(1, "a", "x"), (2, "B", "x"), *ROWS[2:], (9, "z", "x")]
    assert content(deltamerge.read(spark, f"s3a://{other}/t", storage_options={**server.options, **named})) == expected
    assert server.keys(bucket) == before


@pytest.mark.classic
def test_settings_come_from_hadoop_and_from_the_session(spark: SparkSession) -> None:
    names = ["fs.s3a.bucket.b.access.key", "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.endpoint"]
    others = {f"fs.s3a.bucket.{bucket}.secret.key": f"of {bucket}" for bucket in ("one", "two")}
    hadoop: Any = spark._jsc.hadoopConfiguration()  # as users of delta-spark set them
    hadoop.set("fs.s3a.secret.key", "hadoop's")
    hadoop.set("fs.s3a.endpoint", "hadoop's")
    hadoop.set("fs.s3a.bucket.one.secret.key", "of one")
    spark.conf.set("spark.hadoop.fs.s3a.bucket.two.secret.key", "of two")
    spark.conf.set("fs.s3a.endpoint", "the session's")
    spark.conf.set("spark.hadoop.fs.s3a.access.key", "the session's")
    try:
        found, more = store_settings(spark, names), store_settings(spark, names, NAMING["s3"])
    finally:
        hadoop.unset("fs.s3a.secret.key")
        hadoop.unset("fs.s3a.bucket.one.secret.key")
        spark.conf.unset("spark.hadoop.fs.s3a.bucket.two.secret.key")
        hadoop.unset("fs.s3a.endpoint")
        spark.conf.unset("fs.s3a.endpoint")
        spark.conf.unset("spark.hadoop.fs.s3a.access.key")
    assert found == {
        "fs.s3a.access.key": "the session's",
        "fs.s3a.secret.key": "hadoop's",
        "fs.s3a.endpoint": "the session's",
    }
    assert more == {**found, **others}
    assert store_settings(spark, names, NAMING["s3"]) == {}


def test_a_merge_asks_the_store_for_little(spark: SparkSession, server: S3Server, place: str) -> None:
    deltamerge.write(frame(spark, ROWS[:2]).coalesce(1), place)
    deltamerge.write(frame(spark, ROWS[2:]).coalesce(1), place, mode="append")
    merge = DeltaTable.forPath(spark, place).alias("t").merge(frame(spark, [(2, "B", "x")]).alias("s"), "t.id = s.id")
    with server.counting() as opened:
        DeltaTable.forPath(spark, place)
    with server.counting() as requests:
        merge.whenMatchedUpdateAll().execute()
    assert opened == {"LIST": 1}
    # The log is listed once, asked whether it is still the same table's, and its next version created; the one file that can
    # match is opened twice, to find the rows and to rewrite it, with a request for its size and one for its bytes; the new file
    # is one put.
    assert requests == {"LIST": 1, "CREATE": 2, "HEAD": 3, "GET": 2, "PUT": 1}


def test_a_failed_merge_leaves_the_table_and_no_file(spark: SparkSession, server: S3Server, bucket: str, place: str) -> None:
    deltamerge.write(frame(spark, ROWS), place)
    before = server.keys(bucket)
    merge = DeltaTable.forPath(spark, place).alias("t").merge(frame(spark, [(2, "B", "x")]).alias("s"), "t.id = s.id")
    server.faults.append(answered("403 Forbidden", "AccessDenied"))
    with pytest.raises(DeltaStorageException, match="permission"):
        merge.whenMatchedUpdateAll().execute()
    assert server.keys(bucket) == before
    assert content(deltamerge.read(spark, place)) == ROWS


def test_a_commit_whose_answer_got_lost_counts_once(spark: SparkSession, server: S3Server, place: str) -> None:
    deltamerge.write(frame(spark, ROWS), place)
    merge = DeltaTable.forPath(spark, place).alias("t").merge(frame(spark, [(9, "z", "x")]).alias("s"), "t.id = s.id")
    server.faults.append(served_but_cut_off)
    assert merge.whenNotMatchedInsertAll().run().version == 1
    assert content(deltamerge.read(spark, place)) == [*ROWS, (9, "z", "x")]
    assert open_log(place, server.options).snapshot().version == 1


def test_racing_merges_all_land(spark: SparkSession, server: S3Server, place: str) -> None:
    deltamerge.write(frame(spark, ROWS), place)

    def insert(number: int) -> int | None:
        table = DeltaTable.forPath(spark, place).alias("t")
        rows = frame(spark, [(100 + number, "new", f"p{number}")]).alias("s")
        return table.merge(rows, f"t.id = s.id and t.p = 'p{number}'").whenNotMatchedInsertAll().run().version

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(insert, range(12)))
    assert sorted(v for v in versions if v) == list(range(1, 13))
    assert [row[0] for row in as_deltalake_sees_it(server, place)][4:] == list(range(100, 112))


def test_of_two_hundred_racing_commits_none_is_lost(server: S3Server, bucket: str) -> None:
    place = f"s3://{bucket}/t"
    first = "".join(json.dumps(action) + "\n" for action in (PROTOCOL, metadata()))
    open_store(place, server.options).put_if_absent(commit_name(0), first.encode())
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append, args=(place, server.options, number, 100)) for number in range(2)]
    failing = served_but_answer_is("500 Internal Server Error")
    server.faults += [served_but_cut_off, failing, cut_off, served_but_cut_off, failing]  # no more than one writer survives
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(300)
    assert [writer.exitcode for writer in writers] == [0, 0]
    log = open_log(place, server.options)
    expected = [f"{writer}-{number}" for writer in range(2) for number in range(100)]
    assert sorted(log.snapshot().files.column("path").to_pylist()) == sorted(expected)
    commits = log.commits()
    assert [commit.version for commit in commits] == list(range(200, -1, -1))
    assert len({commit.info["txnId"] for commit in commits[:-1]}) == 200


def test_a_commit_that_may_have_happened_keeps_its_files(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltamerge.write(frame(spark, ROWS[:1]), place)
    real = ObjectStore.put_if_absent

    def landed_unseen(store: ObjectStore, name: str, data: bytes) -> ObjectInfo:
        real(store, name, data)
        raise CommitStateUnknownError("DELTAMERGE_COMMIT_STATE_UNKNOWN", "It is not known.")

    def silent(store: ObjectStore, name: str) -> bytes:
        raise StorageError("DELTAMERGE_STORAGE_REFUSED", "No answer.")

    merge = DeltaTable.forPath(spark, place).alias("t").merge(frame(spark, ROWS[2:]).alias("s"), "t.id = s.id")
    with monkeypatch.context() as failing:
        failing.setattr(ObjectStore, "put_if_absent", landed_unseen)
        deltamerge.write(frame(spark, ROWS[1:2]), place, mode="append")  # reading the commit back settles it
        failing.setattr(ObjectStore, "read", silent)
        with pytest.raises(DeltaCommitStateUnknownException, match=r"\[DELTAMERGE_COMMIT_STATE_UNKNOWN\]"):
            merge.whenNotMatchedInsertAll().execute()
    assert content(deltamerge.read(spark, place)) == ROWS


def test_checkpoints_on_an_object_store(spark: SparkSession, server: S3Server, bucket: str, place: str) -> None:
    deltamerge.write(frame(spark, ROWS[:1]), place, properties={"delta.checkpointInterval": "2"})
    for row in ROWS[1:]:
        deltamerge.write(frame(spark, [row]), place, mode="append")
    assert f"some tables/t/_delta_log/{2:020d}.checkpoint.parquet" in server.keys(bucket)
    fresh = open_log(f"{place}/", {**server.options, "aws_region": "eu-west-1"}).snapshot()
    assert (fresh.version, fresh.checkpoint_version) == (3, 2)
    assert as_deltalake_sees_it(server, place) == ROWS


def test_secrets_show_nowhere(
    spark: SparkSession, server: S3Server, bucket: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "deltamerge")
    deltamerge.write(frame(spark, ROWS), place)
    table = DeltaTable.forPath(spark, place).alias("t")
    merge = table.merge(frame(spark, [(2, "B", "x")]).alias("s"), "t.id = s.id").whenMatchedUpdateAll()
    shown = [merge.explain(), str(merge.run()), repr(open_log(place, server.options).snapshot()), repr(table)]
    shown += [str(table.history().collect()), str(table.detail().collect()), table.toDF()._show_string()]
    for fault in (answered("403 Forbidden", f"{SECRET} {KEY_ID} {TOKEN}"),):
        server.faults.append(fault)
        with pytest.raises(DeltaStorageException) as caught:
            merge.execute()
        shown.append("".join(traceback.format_exception(caught.value)))
    shown.append(caplog.text)
    shown += [server.object(bucket, key).decode("latin-1") for key in server.keys(bucket)]
    assert not [text for text in shown for secret in (KEY_ID, SECRET, TOKEN) if secret in text]


@pytest.mark.parametrize("condition", ["DELTAMERGE_WORKER_WITHOUT_STORE", "DELTAMERGE_FILE_IN_OTHER_STORE"])
def test_what_a_worker_can_not_reach_is_a_storage_error(condition: str) -> None:
    with pytest.raises(StorageError) as caught, in_process():
        raise Refused(condition, "It can't be reached.", "s3")
    assert (caught.value.condition, caught.value.parameters) == (condition, {"place": "s3"})


def test_a_missing_data_file_is_named(spark: SparkSession, server: S3Server, bucket: str, place: str) -> None:
    deltamerge.write(frame(spark, ROWS).coalesce(1), place)
    name = next(key for key in server.keys(bucket) if key.endswith(".parquet"))
    server.client.delete_object(Bucket=bucket, Key=name)
    merge = DeltaTable.forPath(spark, place).alias("t").merge(frame(spark, ROWS).alias("s"), "t.id = s.id")
    with pytest.raises(DeltaStorageException, match=name.rpartition("/")[2]):
        merge.whenMatchedUpdateAll().execute()


@pytest.mark.connect
def test_a_table_is_read_as_a_stream(
    spark: SparkSession, server: S3Server, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """By credentials that only the reader is given. No plan and no checkpoint has them, nor the source's name."""
    place, checkpoint = f"s3a://{bucket}/some tables/t", tmp_path_factory.mktemp("checkpoint")
    given = {name.removeprefix("spark.hadoop."): value for name, value in server.settings.items()}
    for rows in (ROWS[:2], ROWS[2:]):
        deltamerge.write(frame(spark, rows), place, mode="append", partition_by=["p"], storage_options=server.options)
    deltamerge.activate(spark)
    try:
        rows = spark.readStream.format("delta").options(**given).load(place)
    finally:
        deltamerge.deactivate(spark)
    query = rows.writeStream.format("memory").queryName("streamed").option("checkpointLocation", str(checkpoint))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    assert content(spark.table("streamed")) == ROWS
    spark.catalog.dropTempView("streamed")
    told = [extended_plan(rows), str(query.recentProgress), str(query.lastProgress)]
    told += [file.read_text("utf-8", "replace") for file in checkpoint.rglob("*") if file.is_file()]
    assert "reservoirVersion" in "".join(told)
    assert not [text for text in told if SECRET in text or KEY_ID in text or TOKEN in text]
