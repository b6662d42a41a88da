"""Schemas with fields added, dropped, changed and moved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.edits import FIRST, Path, added, changed, dropped, field_at
from deltamerge.protocol.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType

INT = PrimitiveType("integer")
INNER = StructType((StructField("x", INT), StructField("y", INT)))
SCHEMA = StructType((StructField("a", INT), StructField("s", INNER), StructField("l", ArrayType(MapType(INT, INNER)))))
DEEP: Path = ("l", "element", "value")


@pytest.mark.parametrize(
    ("parent", "place", "names"),
    [((), None, "a s l n"), ((), FIRST, "n a s l"), (("S",), ("X",), "x n y"), (DEEP, None, "x y n")],
)
def test_a_field_is_added_at_its_place(parent: Path, place: Path | None, names: str) -> None:
    schema = added(SCHEMA, parent, StructField("n", INT), place)
    field = field_at(schema, (*parent, "n"))
    assert field.type == INT
    level = schema if not parent else field_at(schema, ("s",)).type if parent == ("S",) else schema.fields[2].type.element.value  # type: ignore[union-attr]
    assert " ".join(level.names) == names  # type: ignore[union-attr]


def test_fields_are_dropped_changed_and_moved() -> None:
    assert dropped(SCHEMA, ("s", "x")).fields[1].type == StructType((StructField("y", INT),))
    moved = changed(SCHEMA, ("A",), lambda field: replace(field, name="b"), ("l",))
    assert moved.names == ["s", "l", "b"]
    assert changed(SCHEMA, ("s",), lambda field: field, FIRST).names == ["s", "a", "l"]


@pytest.mark.parametrize(
    ("condition", "path"),
    [
        ("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", ("z",)),
        ("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", ("a", "b")),
        ("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", ("l", "x")),
    ],
)
def test_what_is_not_there_is_named(condition: str, path: Path) -> None:
    with pytest.raises(AnalysisError, match=condition):
        field_at(SCHEMA, path)


def test_names_stay_distinct_and_structs_keep_a_field() -> None:
    with pytest.raises(AnalysisError, match="FIELD_ALREADY_EXISTS"):
        added(SCHEMA, (), StructField("S", INT))
    with pytest.raises(AnalysisError, match="FIELD_ALREADY_EXISTS"):
        changed(SCHEMA, ("a",), lambda field: replace(field, name="L"))
    with pytest.raises(AnalysisError, match="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"):
        dropped(StructType((StructField("a", INT),)), ("a",))
