"""What PySpark 3.5 can't do is refused by name, and what it does otherwise is as it is in 4.0."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import ParseException

from deltamerge.errors import InvalidArgumentError, ParseError
from deltamerge.spark.pyspark import older
from deltamerge.spark.session import schema
from deltamerge.spark.session.storage import check_session
from deltamerge.spark.stream.frame import stream_frame


def test_what_needs_a_newer_pyspark_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "IS_OLDER", True)
    given: Any = None
    with pytest.raises(InvalidArgumentError, match=r"(?s)NEEDS_PYSPARK_4\] A Delta table as the source of a stream .*Hint:"):
        stream_frame(given, "nowhere", given)
    client: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "createDataFrame": 0, "conf": 0})()
    with pytest.raises(InvalidArgumentError, match=r"DELTAMERGE_NEEDS_PYSPARK_4.*Spark Connect"):
        check_session(client)


def test_frozen_values_reach_workers_whole() -> None:
    text = cloudpickle.dumps(_made())
    assert [field.name for field in dataclasses.fields(cloudpickle.loads(text))] == ["a", "b"]


def _made() -> Any:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Value:
        a: int
        b: int

    return Value(1, 2)


def test_the_condition_of_an_error_of_this_library() -> None:
    assert older.condition_of(SimpleNamespace(getCondition=lambda: "X")) == "X"  # type: ignore[arg-type]
    assert older.condition_of(ValueError("x")) is None


def test_a_column_of_type_variant_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text is no type to PySpark 3.5, whose message begins with an empty line."""

    def fails(_: str) -> None:
        raise ParseException('\n[UNSUPPORTED_DATATYPE] Unsupported data type "VARIANT".(line 1, pos 4)')

    monkeypatch.setattr(schema, "struct_of", fails)
    monkeypatch.setattr(older, "IS_OLDER", False)
    with pytest.raises(ParseError, match=r"'variant' is no data type: .*Unsupported data type"):
        schema.column_types({"v": "variant"})
    monkeypatch.setattr(older, "IS_OLDER", True)
    with pytest.raises(InvalidArgumentError, match="The type VARIANT needs PySpark 4"):
        schema.column_types({"v": "variant"})
