"""A table's files as tasks: where their deletion vectors are, and how many rows they have."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.errors import CorruptTableError, StorageError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType
from deltamerge.spark.stages.target import file_tasks, null_free
from deltamerge.storage import open_store
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.store import DataStore
from tests.unit.merge.merges import snapshot_of, struct

UUID_TEXT = "^-aqEH.-t@S}K{vb[*k^"
UUID_NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def file(vector: dict[str, Any] | None, stats: str | None = None) -> dict[str, Any]:
    found = {"path": "a%20b.parquet", "partitionValues": {}, "size": 10, "modificationTime": 1, "stats": stats}
    return found if vector is None else {**found, "deletionVector": vector}


def vector(type: str, where: str, **more: Any) -> dict[str, Any]:
    return {"storageType": type, "pathOrInlineDv": where, "sizeInBytes": 40, "cardinality": 6, **more}


@pytest.mark.parametrize(
    ("descriptor", "root", "name"),
    [
        (vector("u", UUID_TEXT, offset=1), "/nowhere", UUID_NAME),
        (vector("u", f"ab{UUID_TEXT}", offset=1), "/nowhere", f"ab/{UUID_NAME}"),
        (vector("p", "file:/else%20where/x.bin", offset=1), "/", "else where/x.bin"),
    ],
)
def test_vectors_are_found_in_the_table_or_elsewhere(descriptor: dict[str, Any], root: str, name: str) -> None:
    snapshot = snapshot_of(struct(id="long"), [file(None), file(descriptor)])
    plain, marked = file_tasks(snapshot, snapshot.files.table())
    assert plain.vector is None
    assert marked.vector is not None
    assert marked.vector.store is not None
    assert (marked.vector.store.root, marked.vector.name) == (root, name)
    assert marked.vector.descriptor.offset == 1
    assert (marked.name, marked.rows) == ("a b.parquet", None)


def test_files_of_one_partition_share_its_values() -> None:
    texts = [
        {"p": "1", "q": "a"},
        {"p": "1", "q": None},
        {"p": "1", "q": "a"},
        {"q": "a"},
        {"p": None, "q": "a"},
        {"p": "01", "q": "a"},
    ]
    found = file_tasks(*partitioned(texts))
    assert [{name: value.as_py() for name, value in task.partition.items()} for task in found] == [
        {"p": 1, "q": "a"},
        {"p": 1, "q": None},
        {"p": 1, "q": "a"},
        {"p": None, "q": "a"},
        {"p": None, "q": "a"},
        {"p": 1, "q": "a"},
    ]
    assert found[0].partition is found[2].partition
    assert len({id(task.partition) for task in found}) == 4
    assert pickle.loads(pickle.dumps(found)) == found


def test_files_without_partitions_share_that_they_have_none() -> None:
    first, second = file_tasks(*partitioned([{}, {}], names=()))
    assert first.partition is second.partition
    assert not first.partition


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 12), ("Asia/Kolkata", 6)])
def test_a_timestamp_without_an_offset_is_of_the_zone(zone: str, hour: int) -> None:
    (task,) = file_tasks(*partitioned([{"p": "2024-01-01 12:00:00"}], ("p",), p="timestamp"), zone)
    assert task.partition["p"].cast(pa.timestamp("us", "UTC")).as_py().hour == hour


def partitioned(
    texts: list[dict[str, str | None]], names: tuple[str, ...] = ("p", "q"), p: str = "integer"
) -> tuple[Snapshot, pa.Table]:
    files = [{**file(None), "path": f"{number}.parquet", "partitionValues": values} for number, values in enumerate(texts)]
    snapshot = snapshot_of(struct(id="long", p=p, q="string"), files, names)
    return snapshot, snapshot.files.table()


@pytest.mark.parametrize(
    ("path", "root", "name"),
    [
        ("file:///else%20where/x.parquet", "/", "else where/x.parquet"),
        ("/elsewhere/x.parquet", "/", "elsewhere/x.parquet"),
        ("%2Felsewhere/x.parquet", None, "/elsewhere/x.parquet"),
        ("p=1/x%20y.parquet", None, "p=1/x y.parquet"),
    ],
)
def test_data_files_are_found_in_the_table_or_elsewhere(path: str, root: str | None, name: str) -> None:
    snapshot = snapshot_of(struct(id="long"), [{**file(None), "path": path}])
    (task,) = file_tasks(snapshot, snapshot.files.table())
    assert (task.store.root if task.store else None, task.name, task.size) == (root, name, 10)


EVIL = "abfss://box@acct.blob.attacker.example/x"
OWN = "abfss://clone@acct.dfs.core.windows.net/x"


@pytest.mark.parametrize("kind", ["data file", "vector"])
def test_a_log_leads_no_credentials_to_a_host_that_nobody_has_named(kind: str) -> None:
    def task(url: str) -> FileTask:
        named = {**file(None), "path": url} if kind == "data file" else file(vector("p", url))
        store = open_store("abfss://box@acct.dfs.core.windows.net/t", {"azure_storage_account_key": "SECRET"})
        snapshot = replace(snapshot_of(struct(id="long"), [named]), store=store)
        return file_tasks(snapshot, snapshot.files.table())[0]

    with pytest.raises(StorageError) as caught:
        task(EVIL)
    assert (caught.value.condition, caught.value.parameters["path"]) == ("DELTAMERGE_FILE_IN_OTHER_STORE", EVIL)
    assert "SECRET" not in str(caught.value)
    place = task(OWN).store if kind == "data file" else getattr(task(OWN).vector, "store", None)
    assert place == DataStore("azure", "clone", {"account_name": "acct", "account_key": "SECRET"})


def test_an_inline_vector_is_nowhere_else() -> None:
    snapshot = snapshot_of(struct(id="long"), [file(vector("i", "00000"))])
    (task,) = file_tasks(snapshot, snapshot.files.table())
    assert task.vector is not None
    assert (task.vector.store, task.vector.descriptor.path_or_inline) == (None, "00000")


def test_a_descriptor_that_can_not_be_is_refused() -> None:
    snapshot = snapshot_of(struct(id="long"), [file(vector("u", "short"))])
    with pytest.raises(CorruptTableError, match=r"a%20b\.parquet"):
        file_tasks(snapshot, snapshot.files.table())


def test_tasks_know_the_rows_of_their_files() -> None:
    snapshot = snapshot_of(struct(id="long"), [file(None, '{"numRecords":7}'), file(None), file(None, "{}")])
    assert [task.rows for task in file_tasks(snapshot, snapshot.files.table(), rows=pa.array([7, None, None]))] == [7, None, None]


def test_what_must_not_be_null_within_arrays_and_maps() -> None:
    number = PrimitiveType("integer")
    item = StructType((StructField("n", number, nullable=False), StructField("b", ArrayType(number, contains_null=False))))
    schema = StructType(
        (
            StructField("id", number, nullable=False),
            StructField("st", StructType((StructField("x", number, nullable=False), StructField("a", ArrayType(number))))),
            StructField("items", ArrayType(item)),
            StructField("m", MapType(item, MapType(number, number, value_contains_null=False), value_contains_null=False)),
        )
    )
    assert list(null_free(schema)) == [
        ("items", "element", "n"),
        ("items", "element", "b", "element"),
        ("m", "value"),
        ("m", "key", "n"),
        ("m", "key", "b", "element"),
        ("m", "value", "value"),
    ]
