from __future__ import annotations

import json

import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType
from deltamerge.protocol.table.constraints import Check, constraints_of, default_of

LONG = PrimitiveType("long")


def invariant(text: str) -> dict[str, str]:
    return {"delta.invariants": json.dumps({"expression": {"expression": text}})}


def test_constraints_invariants_and_generated_columns() -> None:
    inner = StructType((StructField("a", LONG, metadata=invariant("st.a > 3")),))
    schema = StructType(
        (
            StructField("st", inner),
            StructField("twice", LONG, metadata={"delta.generationExpression": "st.a * 2"}),
            StructField("n", LONG, metadata=invariant("n > 1")),
        )
    )
    found = constraints_of(schema, {"delta.constraints.Positive": "n > 0", "delta.appendOnly": "true"})
    assert found.checks == (
        Check("Positive", "n > 0"),
        Check("EXPRESSION(st.a > 3)", "st.a > 3"),
        Check("EXPRESSION(n > 1)", "n > 1"),
    )
    assert found.generated == (("twice", "st.a * 2"),)
    assert found.texts == ["n > 0", "st.a > 3", "n > 1", "st.a * 2"]


def test_a_plain_table_has_no_constraints() -> None:
    assert not constraints_of(StructType((StructField("n", LONG),)), {"delta.checkpointInterval": "5"})


def test_defaults() -> None:
    assert default_of(StructField("n", LONG, metadata={"CURRENT_DEFAULT": "1 + 2", "EXISTS_DEFAULT": "3"})) == "1 + 2"
    assert default_of(StructField("n", LONG)) is None


@pytest.mark.parametrize("text", ["", "{}", '{"expression":"n > 1"}', "[]", "[" * 100_000])
def test_a_damaged_invariant_is_named(text: str) -> None:
    with pytest.raises(CorruptTableError, match=r"DELTAMERGE_CORRUPT_INVARIANT.*column n"):
        constraints_of(StructType((StructField("n", LONG, metadata={"delta.invariants": text}),)), {})
