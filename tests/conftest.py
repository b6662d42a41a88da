"""Spark sessions for tests: classic, or with `--connect` a local Spark Connect server, one for the whole run."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest
from hypothesis import settings as properties
from pyspark.sql import SparkSession

from deltamerge.budgets import using
from deltamerge.errors import DeltaMergeError
from tests.java import QUICK_JAVA, SMALL
from tests.old_arrow import IS_OLD, is_lacking, lacking
from tests.older import IS_OLDER, NEWER, UNREADABLE, install
from tests.sampling import ORACLE_SETTINGS, SLOW, SLOW_DAYS, due, half, place, quarter, single, today, todays

pytest_plugins = ["tests.stores.fixtures"]

properties.register_profile("unhurried", deadline=None)  # examples take longer on a busy machine
properties.load_profile("unhurried")

install()
collect_ignore = list(UNREADABLE)

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
}


# What of tests/e2e runs on an object store unless all is asked for: each way in which tables are read and changed, once.
ON_STORES = ("test_merge", "test_dml", "test_vectors", "test_sql")
REPEATED = ("rewritten", "mixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="run the tests that need Spark on a local Spark Connect server")
    parser.addoption("--cluster", action="store_true", help="run the test of a cluster on workers in processes of their own")
    parser.addoption("--seed", type=int, help="the random merge to compare with delta-spark, instead of fresh ones")
    parser.addoption("--store", choices=["local", "s3"], default="local", help="where the tables of tests/e2e are")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """What a test is given may come to what is refused, too."""
    with _ending():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    with _ending():
        yield


@contextmanager
def _ending() -> Iterator[None]:
    """A test ends where it comes to what is refused on an older PySpark, or to what it can't do itself with an older PyArrow."""
    try:
        yield
    except TypeError as error:
        if is_lacking(error):
            pytest.skip(f"PyArrow {pa.__version__}: {error}")
        raise
    except DeltaMergeError as error:
        if error.condition == "DELTAMERGE_NEEDS_PYSPARK_4":
            pytest.skip(error.detail)
        raise


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "local: needs tables on a local disk, as it says why")
    # Row groups and sources of tests are small. The statistics of the former are looked at nevertheless, keys become numbers,
    # and numbers travel as narrow ones.
    looks = ExitStack()
    looks.enter_context(using(rows_per_chunk=0, numbered_rows=2, narrow_rows=0))
    config.add_cleanup(looks.close)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = items[:]
    for item in items if IS_OLDER else ():
        names = (item.path.stem, getattr(item, "originalname", item.name), item.name)
        if reason := next((NEWER[name] for name in names if name in NEWER), None):
            item.add_marker(pytest.mark.skip(reason=f"PySpark 3.5: {reason}"))
    for item in items if IS_OLD else ():
        if reason := lacking(item.name):
            item.add_marker(pytest.mark.skip(reason=f"PyArrow {pa.__version__}: {reason}"))
    if config.getoption("--connect"):
        kept = list(filter(_runs_on_connect, kept))
    if config.getoption("--store") != "local":
        kept = [item for item in kept if _runs_on_stores(item)]
    if "DELTAMERGE_TEST_ALL" not in os.environ:
        dropped = {item for item in kept if item.path.parent.name == "e2e"} - set(_sample(config, kept))
        oracle = [item for item in kept if item.path.parent.name == "oracle"]
        dropped |= set(oracle) - set(todays(single(oracle, ORACLE_SETTINGS), today()))
        others = [item for item in kept if item.path.parent.name not in {"e2e", "oracle"}]
        dropped |= set(others) - set(due(others, today(), _slow(config)))
        if config.getoption("--connect"):
            dropped |= {item for item in kept if item.path.parent.name == "docs" and zlib.crc32(item.name.encode()) % 3}
        kept = [item for item in kept if item not in dropped]
    if os.environ.get("DELTAMERGE_TEST_SLOW") == "never":
        kept = [item for item in kept if place(item) not in SLOW]
    if left_out := [item for item in items if item not in kept]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _sample(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """One variant of each end-to-end test: a quarter on Connect, the others on classic Spark, those marked `connect` on both."""
    items = [item for item in items if item.path.parent.name == "e2e"]
    if config.getoption("--store") == "local":
        on_connect = set() if IS_OLDER else set(quarter([item for item in items if _runs_on_connect(item)]))
        asked = bool(config.getoption("--connect"))
        items = [item for item in items if (item in on_connect) is asked or item.get_closest_marker("connect")]
        return todays(single(items), today(), _slow(config))
    items = due(single(items), today(), _slow(config))
    return half(items, today() // SLOW_DAYS) if _slow(config) else items


def _slow(config: pytest.Config) -> frozenset[str]:
    """The tests that run on some days only: none where tests are asked for by a file or a name, or all slow ones."""
    named = bool(config.getoption("keyword")) or any(".py" in arg for arg in config.args)
    return frozenset() if named or "DELTAMERGE_TEST_SLOW" in os.environ else SLOW


def _runs_on_connect(item: pytest.Item) -> bool:
    return "spark" in _fixtures(item) and not item.get_closest_marker("classic")


def _runs_on_stores(item: pytest.Item) -> bool:
    if item.path.parent.name != "e2e" or not {"spark", "tmp_path"} <= _fixtures(item) or item.get_closest_marker("local"):
        return False
    repeated = item.path.stem == "test_merge" and any(name in item.name for name in REPEATED)
    return "DELTAMERGE_TEST_ALL" in os.environ or (item.path.stem in ON_STORES and not repeated)


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


@pytest.fixture
def limit() -> Iterator[Callable[..., None]]:
    """Gives merges other budgets from now on, by the names that `Budgets` has."""
    with ExitStack() as stack:
        yield lambda **limits: stack.enter_context(using(**limits))


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that tests share; a test that changes its settings puts them back."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder
    # A server elsewhere has settings of its own, and the client takes those of the session.
    remote = os.environ.get("SPARK_REMOTE", "local[2]")
    builder = builder.remote(remote) if request.config.getoption("--connect") else builder.master("local[2]")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    if remote.startswith("sc:"):
        settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "4"}
    else:
        settings |= SMALL
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not request.config.getoption("--connect"):
        session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
