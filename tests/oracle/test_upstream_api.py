"""Each call that works in an active session, run by delta-spark and without its JAR: what it gives, and what it leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.oracle.readers import by_delta_rs, by_delta_spark, by_duckdb
from tests.oracle.upstream_runs import EVERY, make_base, run_all
from tests.sampling import today

# All calls are run before the first one is compared.
pytestmark = pytest.mark.timeout(3600)
# What differs on purpose: a call's text, what of its answer, and why. Patterns hold for whole texts.
KNOWN: tuple[tuple[str, str, str], ...] = (
    (r".*\.clusterBy\(\"id\"\)\.save\(.*", r"/tables/t_new/.*", "clusterBy of a write by path has no effect there"),
    (r"spark\.readStream\.table\(f'delta.*|stream.*toTable\(f'delta.*", ".*", "delta-spark fails for a path in place of a name"),
    (
        r"CREATE OR REPLACE TABLE delta.*|.*createOrReplace\(spark\)\.location.*",
        ".*",
        "delta-spark replaces no path without AS SELECT",
    ),
    (r".*columnBuilder.*", ".*", "delta-spark's Python has no columnBuilder"),
    (r"MERGE .*|.*\.(merge|update)\(.*", r"/tables/t/detail/0/numFiles", "small files are put together here"),
    (r"MERGE .* BY SOURCE .*|.*BySource.*", r"/tables/t/history/2/actions", "a file without rows left is not written again here"),
    (r".*VACUUM .* RETAIN .*|.*vacuum\(200\)", r".*/specifiedRetentionMillis", "delta-spark ignores hours but 0"),
    (
        r"RESTORE .*|.*RESTORE TABLE .*|.*\.restoreTo.*",
        r"/tables/t/history/2/actions",
        "a protocol that stays is not written again here",
    ),
    (r".*DROP FEATURE.*|.*dropFeature.*", r".*/isBlindAppend", "here the traces that are looked for count as read"),
    (r".*minWriterVersion.*|.*upgradeTable.*", r"/tables/t/(detail/0/minWriterVersion|history/2/.*)", "features stay named here"),
    (r".*addFeatureSupport.*", r"/tables/t/history/2/.*", "delta-spark sets a property, here the protocol is upgraded"),
    (r"ALTER TABLE delta.`path` CLUSTER BY.*", r"/tables/t/history/2/actions", "delta-spark writes the same metadata again"),
    (r"DESCRIBE TABLE EXTENDED delta.*", r"/it/rows/.*", "features, Namespace and Type are not shown here"),
    (r".*F\.col.*", r"/tables/t/history/2/operationParameters/.*redicate.*", "conditions are printed as Column does"),
)
# A ninth of the calls each day: this third for three days, and of it one third a day.
CHOSEN = [text for text in EVERY if "DELTAMERGE_TEST_ALL" in os.environ or crc32(text.encode()) % 3 == today() // 3 % 3]
# Features of tables that a reader lacks: it is not asked.
LACKING = {
    "delta-rs": {"columnMapping", "typeWidening", "variantType"},
    "DuckDB": {"columnMapping", "typeWidening", "variantType", "deletionVectors"},
}


@dataclass(frozen=True)
class Answers:
    """What both engines say of each call."""

    theirs: dict[str, Any]
    ours: dict[str, Any]


@pytest.fixture(scope="module")
def answers(spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The calls that this run is about, by both engines at the same time, each in a process of its own."""
    from delta import tables

    calls = [
        item.callspec.params["text"] for item in request.session.items if item.path == request.path and hasattr(item, "callspec")
    ]
    base, folder = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("ours")
    make_base(spark, base)
    (folder / "calls.json").write_text(json.dumps(calls))
    command = [sys.executable, "-m", "tests.oracle.upstream_runs", str(base), str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(command, stdout=errors, stderr=errors, env=environment) as ours,
    ):
        theirs = run_all(spark, tables, base, tmp_path_factory.mktemp("theirs"), calls)
    assert ours.returncode == 0, (folder / "errors").read_text()
    # What this process has is JSON, too: tuples are lists.
    return Answers(json.loads(json.dumps(theirs)), json.loads((folder / "answers.json").read_text()))


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The single values within a value, each by its place."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner:
        yield name, value
    for key, part in inner:
        yield from flat(part, f"{name}/{key}")


def differences(answers: Answers, text: str) -> dict[str, tuple[Any, Any]]:
    """What delta-spark says and what is said here, by its place in the answer, where it is not the same."""
    theirs, ours = (dict(flat(answer[text])) for answer in (answers.theirs, answers.ours))
    places = sorted((theirs.keys() | ours.keys()) - {"/place", "/message"})
    return {place: (theirs.get(place), ours.get(place)) for place in places if theirs.get(place, "-") != ours.get(place, "-")}


@pytest.mark.parametrize("text", CHOSEN, ids=str)
def test_it_is_as_by_delta_spark(answers: Answers, spark: SparkSession, text: str) -> None:
    found = differences(answers, text)
    known = [about for call, about, _ in KNOWN if re.fullmatch(call, text)]
    assert found or ".*" not in known, "a difference that is gone"
    left = {place: both for place, both in found.items() if not any(re.fullmatch(about, place) for about in known)}
    assert not left, answers.ours[text].get("message")
    unread(answers.ours[text], spark)


def unread(answer: dict[str, Any], spark: SparkSession) -> None:
    """Hold what other readers find in the tables that were changed here to what was read here."""
    for name, table in answer["tables"].items():
        if "rows" not in table:
            continue
        path = Path(answer["place"]) / name
        expected = by_delta_spark(spark, path)
        assert sum(expected.values()) == len(table["rows"])
        features = set(table["detail"][0]["tableFeatures"])
        readers = {"delta-rs": by_delta_rs, "DuckDB": by_duckdb}
        for reader, read in readers.items():
            if not features & LACKING[reader]:
                assert read(path) == expected, (reader, name)
