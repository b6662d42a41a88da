"""A dbt project from seed to documentation, run by the adapter: the rows are right after each run."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.deltamerge.adapter import DeltaMergeAdapter
from dbt.adapters.deltamerge.connections import DeltaMergeCredentials
from dbt.adapters.deltamerge.cursor import SessionHandle
from dbt.cli.main import dbtRunner
from dbt_common.exceptions import DbtRuntimeError

SECOND = """id,customer,amount,big,ordered_at,day,paid
2,O'Neill,25.0,2,2024-01-02 13:00:00,2024-01-01,false
3,Cyd,30.0,3,2024-01-02 12:00:00,2024-01-02,true
4,Dan,4.5,4,2024-01-03 09:00:00,2024-01-03,false
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The project of the folder beside this file, with a catalog of its own, after its first `dbt build`."""
    home = tmp_path_factory.mktemp("shop")
    shutil.copytree(Path(__file__).parent / "project", home / "project")
    before = {"SHOP_HOME": str(home), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "SPARK_LOCAL_IP": "127.0.0.1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in before.items():
            patch.setenv(name, value)
        patch.delenv("PYSPARK_PYTHON", raising=False)
        patch.chdir(home / "project")
        # In a process of its own: the next one finds its tables by the metastore.
        dbt = Path(sys.executable).parent / "dbt"
        done = subprocess.run([dbt, "build"], capture_output=True, text=True, check=False, env=os.environ)
        assert done.returncode == 0, done.stdout + done.stderr
        yield home / "project"


@pytest.fixture(scope="module")
def handle(project: Path) -> SessionHandle:
    """A connection with the settings of the project's profile."""
    home = os.environ["SHOP_HOME"]
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
        "spark.sql.warehouse.dir": f"{home}/warehouse",
        "spark.sql.ansi.enabled": "false",
    }
    return SessionHandle(settings)


def rows(handle: SessionHandle, sql: str) -> list[tuple[Any, ...]]:
    handle.cursor().execute(sql)
    return [tuple(row) for row in handle.fetchall()]


def dbt(*arguments: str) -> Any:
    done = dbtRunner().invoke([*arguments, "--no-use-colors"])
    assert done.success, done.exception or [result.message for result in done.result]
    return done.result


ORDERS = "SELECT id, customer, amount FROM shop.orders ORDER BY id"
TIMES = "SELECT id, amount, dbt_valid_to IS NULL FROM shop.order_times ORDER BY id, dbt_valid_from"
LOG = "SELECT id, amount FROM shop.log ORDER BY id, amount"
DAYS = "SELECT id, amount, cast(day AS STRING) FROM shop.days ORDER BY id"
HISTORY = "SELECT id, customer, amount, dbt_valid_to IS NULL FROM shop.order_history ORDER BY id, dbt_valid_from"


def test_a_project_is_built_twice(project: Path, handle: SessionHandle) -> None:
    seed = rows(handle, "SELECT * FROM shop.raw_orders ORDER BY id")
    first = dt.datetime(2024, 1, 1, 10), dt.date(2024, 1, 1), True
    assert seed[0] == (1, "Ada", 10.5, 9007199254740993, *first), "a number that no double has"
    assert [row[1] for row in seed] == ["Ada", "O'Neill", None]
    assert rows(handle, ORDERS) == [(1, "Ada", 10.5), (2, "O'Neill", 20.25), (3, None, 30.0)]
    assert rows(handle, HISTORY) == [(1, "Ada", 10.5, True), (2, "O'Neill", 20.25, True), (3, None, 30.0, True)]
    assert rows(handle, LOG) == [(1, 10.5), (2, 20.25), (3, 30.0)]
    assert rows(handle, TIMES) == [(1, 10.5, True), (2, 20.25, True), (3, 30.0, True)]
    assert sorted(rows(handle, "SELECT * FROM shop.totals"), key=str) == [("Ada", 10.5), (None, 30.0)]
    assert rows(handle, "DESCRIBE DETAIL shop.totals")[0][0] == "delta", "a model that does not say what it is becomes a table"

    (project / "seeds" / "raw_orders.csv").write_text(SECOND, encoding="utf-8")
    dbt("build")
    assert rows(handle, ORDERS) == [(1, "Ada", 10.5), (2, "O'Neill", 25.0), (3, "Cyd", 30.0), (4, "Dan", 4.5)]
    handle.cursor().execute("DESCRIBE HISTORY shop.orders")
    assert [commit.operation for commit in handle.fetchall()[:2]] == ["CHANGE COLUMN", "MERGE"], "dbt persists comments last"
    history = [
        (1, "Ada", 10.5, False),  # is gone from the seed
        (2, "O'Neill", 20.25, False),
        (2, "O'Neill", 25.0, True),
        (3, None, 30.0, False),
        (3, "Cyd", 30.0, True),
        (4, "Dan", 4.5, True),
    ]
    assert rows(handle, HISTORY) == history
    assert rows(handle, "SELECT * FROM shop.totals") == [("Cyd", 30.0)]
    assert rows(handle, LOG) == [(1, 10.5), (2, 20.25), (2, 25.0), (3, 30.0), (4, 4.5)]
    # The days from the last one on are written anew, without what the seed has lost of earlier ones.
    assert rows(handle, DAYS) == [
        (1, 10.5, "2024-01-01"),
        (2, 20.25, "2024-01-01"),
        (3, 30.0, "2024-01-02"),
        (4, 4.5, "2024-01-03"),
    ]
    times = [(1, 10.5, False), (2, 20.25, False), (2, 25.0, True), (3, 30.0, True), (4, 4.5, True)]
    assert rows(handle, TIMES) == times

    dbt("snapshot")
    assert rows(handle, HISTORY) == history, "nothing has changed since"
    assert rows(handle, TIMES) == times


def test_the_documentation_has_the_columns(project: Path, handle: SessionHandle) -> None:
    dbt("docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text(encoding="utf-8"))
    columns = catalog["nodes"]["model.shop.orders"]["columns"]
    assert {name: column["type"] for name, column in columns.items()} == {
        "id": "bigint",
        "customer": "string",
        "amount": "double",
        "ordered_at": "timestamp",
    }
    assert not catalog["errors"]


def test_descriptions_and_constraints_are_those_of_the_tables(project: Path, handle: SessionHandle) -> None:
    (key,) = (row for row in rows(handle, "DESCRIBE TABLE shop.orders") if row[0] == "id")
    assert key[2] == "The key."
    assert rows(handle, "DESCRIBE DETAIL shop.orders")[0][3] == "The newest state of each order."
    properties = dict(rows(handle, "SHOW TBLPROPERTIES shop.totals"))
    assert {name: value for name, value in properties.items() if "constraints" in name} == {
        "delta.constraints.dear": "amount > 0"
    }


def test_a_view_of_a_delta_table_is_refused_with_a_way_out(project: Path, handle: SessionHandle) -> None:
    model = project / "models" / "shown.sql"
    model.write_text("{{ config(materialized='view') }}\nselect * from {{ ref('orders') }}\n", encoding="utf-8")
    done = dbtRunner().invoke(["run", "--select", "shown"])
    model.unlink()
    assert not done.success
    (result,) = done.result
    assert "DELTAMERGE_UNSUPPORTED_STATEMENT" in result.message
    assert "Hint: in dbt, materialize the model as table, incremental or ephemeral, not as view." in result.message


def test_two_schemas_with_one_temporary_view_are_refused() -> None:
    """The Spark session is one for all threads: one model would merge the rows of the other."""
    adapter = object.__new__(DeltaMergeAdapter)
    adapter._views, adapter._lock, adapter.config = {}, threading.Lock(), SimpleNamespace(threads=2)
    adapter.claim_view("orders__dbt_tmp", "a")
    adapter.claim_view("orders__dbt_tmp", "a")
    adapter.claim_view("others__dbt_tmp", "b")
    with pytest.raises(DbtRuntimeError, match="schemas a and b both have a model that needs the temporary view Orders__dbt_tmp"):
        adapter.claim_view("Orders__dbt_tmp", "b")
    adapter.config.threads = 1
    adapter.claim_view("orders__dbt_tmp", "b")


def test_a_failing_test_fails(project: Path, handle: SessionHandle) -> None:
    test = project / "tests" / "none_is_dear.sql"
    test.parent.mkdir()
    test.write_text("select * from {{ ref('orders') }} where amount > 26\n", encoding="utf-8")
    done = dbtRunner().invoke(["test", "--select", "none_is_dear"])
    assert not done.success
    assert [(result.status, result.failures) for result in done.result] == [("fail", 1)]


@pytest.mark.parametrize("value", ["a 'quoted' \\ text", '100 % of "it"', "?", "'; DROP TABLE x --", "", None, 2**53 + 1])
def test_a_value_is_bound_as_it_is(handle: SessionHandle, value: object) -> None:
    handle.cursor().execute("SELECT ?", [value])
    assert handle.fetchone() == (value,)


def test_a_time_is_one_of_the_session_s_zone(handle: SessionHandle) -> None:
    handle.cursor().execute("SELECT CAST(CAST(? AS TIMESTAMP) AS STRING)", [dt.datetime(2024, 7, 1, 10, 0, 0, 123456)])
    assert handle.fetchone() == ("2024-07-01 10:00:00.123456",)


def test_the_page_shows_the_project_s_model() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "dbt.md").read_text(encoding="utf-8")
    assert (Path(__file__).parent / "project" / "models" / "orders.sql").read_text(encoding="utf-8") in page


def test_other_methods_are_refused() -> None:
    with pytest.raises(DbtRuntimeError, match="method session only, found thrift"):
        DeltaMergeCredentials(host="h", schema="s", method="thrift")


def test_a_profile_needs_no_more_than_a_schema() -> None:
    made = DeltaMergeCredentials.from_dict({"schema": "s"})
    assert (made.type, made.method, made.server_side_parameters) == ("deltamerge", "session", {"spark.sql.ansi.enabled": "false"})


def test_ansi_is_as_the_profile_says() -> None:
    asked = {"schema": "s", "server_side_parameters": {"spark.sql.ansi.enabled": "true"}}
    assert DeltaMergeCredentials.from_dict(asked).server_side_parameters == asked["server_side_parameters"]
