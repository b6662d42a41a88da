"""The calls of `tests/e2e/upstream_api.py` run by one engine, each on its own copy of a table, and what they leave.

As a module it runs them without delta-spark's JAR: `python -m tests.oracle.upstream_runs BASE FOLDER`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.e2e.commits import live_files
from tests.e2e.upstream_api import CALLS
from tests.e2e.upstream_call import Call, placed

EVERY = {call.text: call for calls in CALLS.values() for call in calls}
CHANGES = [(2, 21), (3, 31)]
# What is another one each time, by the frame in which it is.
_VOLATILE = {
    "history": {"timestamp", "userId", "userName", "engineInfo", "operationMetrics", "job", "notebook", "clusterId"},
    "detail": {"id", "createdAt", "lastModified", "sizeInBytes"},
    "feed": {"_commit_timestamp"},
}
_SIZES = re.compile(r"(size|bytes|time|ms|min|max|avg|duration|totalClusterParallelism)$", re.IGNORECASE)
# In delta-spark's history conditions are printed by Spark; here they are as they were written.
_SPELLING = re.compile(r"[()`]|\b\w+\.(?=\w)")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_FILE = re.compile(r"part-\d+-\S*?\.parquet")
# The folders of files of a table whose columns are mapped.
_RANDOM = re.compile("[0-9A-Za-z]{2}")
_EXPRESSION_ID = re.compile(r"#\d+L?")


def make_base(spark: SparkSession, folder: Path) -> None:
    """The folder that each call gets a copy of, by delta-spark: rows 1 to 3 in two versions, Parquet files, a stream's files."""
    from delta.tables import DeltaTable

    for rows in ([(1, 10)], [(2, 20), (3, 30)]):
        writer = spark.createDataFrame(rows, "id int, n int").coalesce(1).write.format("delta").mode("append")
        writer.option("delta.enableChangeDataFeed", "true").save(str(folder / "t"))
    for name, columns in (("t_raw", {"id": [1, 2]}), ("t_parts/p=1", {"id": [1]}), ("in", {"id": [4], "n": [40]})):
        (folder / name).mkdir(parents=True)
        narrow = pa.table({key: pa.array(values, pa.int32()) for key, values in columns.items()})
        pq.write_table(narrow, folder / name / "x.parquet")
    history = DeltaTable.forPath(spark, str(folder / "t")).history().selectExpr("string(timestamp)").collect()
    (folder / "times.json").write_text(json.dumps({"time": history[0][0], "begin": history[1][0]}))


def run_all(spark: SparkSession, tables: ModuleType, base: Path, folder: Path, texts: Iterable[str]) -> dict[str, Any]:
    """What each call gives and leaves, by its text; `tables` is the engine's module of that name."""
    changes = spark.createDataFrame(CHANGES, "id int, n int")
    changes.createOrReplaceTempView("changes")
    times = json.loads((base / "times.json").read_text())
    answers = {}
    for number, text in enumerate(texts):
        place = folder / str(number)
        shutil.copytree(base, place)
        rows = spark.readStream.schema("id int, n int").parquet(str(place / "in"))
        known = {"spark": spark, **vars(tables), "F": F, "changes": changes, "stream": rows, **times}
        answers[text] = _Run(spark, place, known).of(EVERY[text], f"call_{number}")
    spark.catalog.dropTempView("changes")
    return answers


class _Run:
    """One call on the copy at `place` of the folder that was made for all."""

    def __init__(self, spark: SparkSession, place: Path, known: dict[str, Any]) -> None:
        path = str(place / "t")
        self.spark, self.place = spark, place
        self.known = known | {"path": path, "checkpoint": str(place / "checkpoint"), "placed": lambda text: placed(text, path)}

    def of(self, call: Call, database: str) -> dict[str, Any]:
        """What it gives, and the tables afterwards; tables of the catalog lie beside the one at `path`."""
        self.spark.sql(f"CREATE DATABASE {database} LOCATION '{self.place}'")
        self.spark.catalog.setCurrentDatabase(database)
        try:
            return {"place": str(self.place), **self._called(call), "tables": self._tables()}
        finally:
            self.spark.catalog.setCurrentDatabase("default")

    def _called(self, call: Call) -> dict[str, Any]:
        try:
            if call.behind:
                self.spark.sql(self.known["placed"](call.behind))
            it = eval(call.code, self.known)
            if type(it).__name__ == "JavaObject":  # what clones are in delta-spark
                it = self.known["DeltaTable"](self.spark, it)
            return {"it": self._value(it), "check": bool(eval(call.check, {**self.known, "it": it}))}
        except Exception as error:
            condition = getattr(error, "getCondition", str)()
            return {"error": condition or f"{type(error).__name__}: {error}", "message": str(error)[:500]}

    def _value(self, it: Any) -> Any:
        if hasattr(it, "awaitTermination"):
            it.awaitTermination()
            return "a query that ends"
        if hasattr(it, "toDF") and not hasattr(it, "columns"):
            return {"table": self._value(it.toDF())}
        if not hasattr(it, "columns"):
            return self._plain(it)
        return {"schema": it.schema.simpleString(), "rows": self._streamed(it) if it.isStreaming else self._rows(it)}

    def _streamed(self, frame: DataFrame) -> list[Any]:
        writer = frame.writeStream.format("memory").queryName("of_call").trigger(availableNow=True)
        writer.start().awaitTermination()
        return self._rows(self.spark.table("of_call"))

    def _rows(self, frame: DataFrame) -> list[Any]:
        kinds = {"operationMetrics": "history", "minReaderVersion": "detail", "_commit_timestamp": "feed"}
        left_out = next((_VOLATILE[kind] for column, kind in kinds.items() if column in frame.columns), set[str]())
        rows = [
            {name: self._plain(value) for name, value in row.asDict(True).items() if name not in left_out}
            for row in frame.collect()
        ]
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))

    def _plain(self, value: Any) -> Any:
        """A value without what is another one in each run: places, names of files, sizes and times."""
        if isinstance(value, dict):
            return {str(key): "?" if _SIZES.search(str(key)) else self._plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(inner) for inner in value]
        if isinstance(value, str):
            text = (
                value.replace(f"file:{self.place}", "PLACE")
                .replace(f"file://{self.place}", "PLACE")
                .replace(str(self.place), "PLACE")
            )
            return _EXPRESSION_ID.sub("", _UUID.sub("UUID", _FILE.sub("FILE", text)))
        return value if isinstance(value, bool | int | float | None) else str(value)

    def _tables(self) -> dict[str, Any]:
        found = sorted(log.parent for log in self.place.rglob("_delta_log"))
        return {str(path.relative_to(self.place)): self._table(path) for path in found}

    def _table(self, path: Path) -> dict[str, Any]:
        """What the log says, and for a table that was changed what the engine says of it."""
        actions = [
            [json.loads(line) for line in file.read_text().splitlines()] for file in sorted((path / "_delta_log").glob("*.json"))
        ]
        metadata = [action["metaData"] for commit in actions for action in commit if "metaData" in action][-1]
        logged = {
            "schema": self._parsed(json.loads(metadata["schemaString"])["fields"]),
            "partition columns": metadata["partitionColumns"],
            "folders": sorted({self._folder(file) for file in live_files(path)}),
            "history": [self._commit(commit) for commit in actions],
        }
        if path.name == "t" and len(actions) == 2:
            return logged
        table = self.known["DeltaTable"].forPath(self.spark, str(path))
        return {**logged, "rows": self._rows(table.toDF()), "detail": self._rows(table.detail())}

    def _folder(self, path: str) -> str:
        parent = str(Path(self._plain(path)).parent)
        return "XX" if _RANDOM.fullmatch(parent) else parent

    def _commit(self, actions: list[dict[str, Any]]) -> dict[str, Any]:
        info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        names = ("operation", "operationParameters", "readVersion", "isolationLevel", "isBlindAppend", "userMetadata")
        kinds = sorted({name for action in actions for name in action} - {"commitInfo"})
        return {"actions": " ".join(kinds), **{name: self._parsed(info.get(name)) for name in names}}

    def _parsed(self, value: Any, name: str = "") -> Any:
        """Values whose texts are JSON, so that no order of names counts; conditions in one spelling."""
        if isinstance(value, dict):
            return {key: self._parsed(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            found = [self._parsed(inner, name) for inner in value]
            return sorted(found) if name.endswith("Features") else found
        if isinstance(value, str) and value[:1] in ("{", "["):
            return self._parsed(json.loads(value), name)
        plain = self._plain(value)
        return _SPELLING.sub("", plain) if isinstance(plain, str) and "redicate" in name else plain


def main(base: Path, folder: Path) -> None:
    """Run the calls that the folder lists by an active session that has no JAR, and write into it what they give."""
    import deltamerge
    from deltamerge import tables
    from tests.oracle.conftest import plain_session

    spark = plain_session(folder / "warehouse")
    deltamerge.activate(spark)
    texts = json.loads((folder / "calls.json").read_text())
    (folder / "answers.json").write_text(json.dumps(run_all(spark, tables, base, folder, texts)))
    spark.stop()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
