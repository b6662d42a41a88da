"""Leaves of statistics texts: as Python's JSON parser has them, whichever of the three readers takes the texts."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.log.stats import json_leaves as module
from deltamerge.log.stats.alike import alike_leaves
from deltamerge.log.stats.json_leaves import json_leaves

NAMES = ("id", "word", "price", "s", "a b", "é", "minValues", "x,y", "b{", ":")
TYPES = {"id": pa.int64(), "word": pa.string(), "price": pa.float64(), "cost": pa.decimal128(38, 10), "y": pa.int64()}
WANTED = {
    ("numRecords",): pa.int64(),
    ("tightBounds",): pa.bool_(),
    **{(kind, name): type for kind in ("minValues", "maxValues") for name, type in TYPES.items()},
    ("minValues", "s", "id"): pa.int64(),
    **{("nullCount", name): pa.int64() for name in TYPES},
}

_words = st.text(st.sampled_from('ab,:{}[]" \\é\n'), max_size=6) | st.sampled_from(["a,b", '","id":5,"', "}", "", "NaN"])
_leaves = st.integers(-3, 3) | _words | st.floats(-2, 2) | st.none() | st.booleans() | st.just({})
_objects = st.dictionaries(st.sampled_from(["id", "word", "price", "y", "s", ","]), _leaves, max_size=4)


def usual(number: int, **more: Any) -> dict[str, Any]:
    """Statistics as a writer gives them for file `number`."""
    low = {"id": number, "word": f"w{number}", "price": number / 4, "s": {"id": -number, "x": 1}}
    return {
        "numRecords": 10 * number,
        "minValues": low,
        "maxValues": low | more,
        "nullCount": {"id": 0, "word": number, "price": 0},
    }


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def expected(texts: list[str], path: tuple[str, ...]) -> list[Any]:
    """What Python's parser has at a path, null where it is of another kind than asked."""
    type = WANTED[path]
    found = []
    for text in texts:
        value = json.loads(text, parse_float=Decimal)
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        found.append(value if _is(value, type) else None)
    return found


def _is(value: Any, type: pa.DataType) -> bool:
    if pa.types.is_string(type) or pa.types.is_boolean(type):
        return isinstance(value, str if pa.types.is_string(type) else bool)
    if pa.types.is_integer(type):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def check(texts: list[str]) -> None:
    found = json_leaves(pa.array(texts, pa.string()), WANTED)
    for path, type in WANTED.items():
        wanted = expected(texts, path)
        if pa.types.is_floating(type):
            wanted = [None if value is None else float(value) for value in wanted]
        assert found[path].to_pylist() == wanted, path


@given(st.lists(st.integers(0, 5).map(usual) | st.builds(usual, st.integers(0, 3), word=_words), min_size=1, max_size=5))
def test_texts_of_one_writer(values: list[Any]) -> None:
    check([compact(value) for value in values])


@given(
    st.lists(
        st.fixed_dictionaries({"numRecords": _leaves, "minValues": _objects | _leaves, "maxValues": _objects})
        | st.integers(0, 2).map(usual)
        | st.dictionaries(st.sampled_from(["minValues", "maxValues", "numRecords", "tightBounds", "id"]), _objects | _leaves),
        min_size=1,
        max_size=5,
    )
)
def test_texts_of_any_shape(values: list[Any]) -> None:
    check([compact(value) for value in values])


def alike(texts: list[str], wanted: Any = WANTED) -> dict[Any, list[Any]] | None:
    found = alike_leaves(texts[0], len(texts), pa.py_buffer("\n".join(texts).encode()), wanted)
    return None if found is None else {path: values.to_pylist() for path, values in found.items()}


def test_texts_of_one_shape_are_not_parsed_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_parse", None)
    check([compact(usual(number)) for number in range(3)])


def test_a_leaf_that_no_text_names_is_null() -> None:
    assert alike([compact(usual(1)), compact(usual(2))]) == {
        path: expected([compact(usual(1)), compact(usual(2))], path) for path in WANTED
    }


def lines_of(value: Any) -> str:
    return compact({"numRecords": 1, "minValues": {"id": 1, "word": "a"}, "maxValues": {"id": 2, "word": "b"}} | value)


LIKE = lines_of({})
SOME = {("minValues", "id"): pa.int64(), ("maxValues", "word"): pa.string()}


@pytest.mark.parametrize(
    "text",
    [
        lines_of({"maxValues": {"id": 2, "word": 'a"b'}}),
        lines_of({"maxValues": {"id": 2, "word": "a,b"}}),
        lines_of({"maxValues": {"id": 2, "word": "}"}}),
        lines_of({"maxValues": {"id": 2, "word": 5}}),
        lines_of({"maxValues": {"word": "b", "id": 2}}),
        lines_of({"maxValues": {"id": 2}}),
        lines_of({"minValues": {"id": "1", "word": "a"}}),
        lines_of({"minValues": {"id": None, "word": "a"}}),
        lines_of({"minValues": {"id": 1.5, "word": "a"}}),
        lines_of({"minValues": {"id": 2**63, "word": "a"}}),
        lines_of({"minValues": {"s": {"id": 1}, "word": "a"}}),
        lines_of({"minValues": {"id": 1, "maxValues": {"word": "z"}}}),
        '{"numRecords":1,"minValues":{"id":1,"word":"a","maxValues":{"id":2,"word":"b"}}}',
        '{"numRecords":1,"minValues":{"id":1},"word":"a","maxValues":{"id":2,"word":"b"}}',
        '{"numRecords":1,"minValues":{"id":1,"maxValues":"a"},"maxValues":{"id":2,"word":","}}',
        LIKE.replace(",", ", "),
        LIKE.replace(":1,", ":1\n,", 1),
        LIKE[:-1],
        "{}",
        "",
    ],
)
def test_a_text_of_another_shape_is_not_taken_for_one_alike(text: str) -> None:
    assert alike([LIKE, LIKE], SOME) == {("minValues", "id"): [1, 1], ("maxValues", "word"): ["b", "b"]}
    assert alike([LIKE, text], SOME) is None
    assert alike([LIKE, text, LIKE], SOME) is None


@pytest.mark.parametrize("name", NAMES[4:])
def test_odd_names_of_columns(name: str) -> None:
    check([compact(usual(1, **{name: 1})), compact(usual(2, **{name: 2}))])


def test_many_texts_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE", 3)
    check([compact(usual(number, word="," * (number // 5))) for number in range(20)])
