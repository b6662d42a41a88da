from __future__ import annotations

from pathlib import Path

import pytest

from tests.sampling import SLOW, due, half, place, quarter, single, today, todays
from tests.slow import slow

pytest_plugins = ["pytester"]

MODULE = """
import pytest

@pytest.fixture(params=["auto", "join"])
def strategy(request):
    return request.param

@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_settings(strategy, vectors, seed): ...

@pytest.mark.parametrize("name", ["a", "b"])
def test_others(name): ...

def test_plain(): ...
"""


@pytest.fixture
def items(pytester: pytest.Pytester) -> list[pytest.Item]:
    return pytester.getitems(MODULE)


def test_one_variant_of_each_test_is_kept_in_order(items: list[pytest.Item]) -> None:
    kept = single(items)
    assert [item.name.split("[")[0] for item in kept] == ["test_settings"] * 3 + ["test_others"] * 2 + ["test_plain"]
    assert {item.callspec.params["seed"] for item in kept if "settings" in item.name} == {0, 1, 2}
    assert single(kept) == kept == sorted(kept, key=items.index)


def test_every_variant_is_kept_for_some_test(pytester: pytest.Pytester) -> None:
    settings, _, _ = MODULE.partition('@pytest.mark.parametrize("name"')
    tests = "\n".join(settings.replace("test_settings", f"test_{number}") for number in range(20))
    kept = single(pytester.getitems(tests))
    assert len(kept) == 60
    assert {(item.callspec.params["strategy"], item.callspec.params["vectors"]) for item in kept} == {
        (strategy, vectors) for strategy in ("auto", "join") for vectors in (False, True)
    }


def test_a_quarter_of_the_tests_are_whole_tests(pytester: pytest.Pytester) -> None:
    items = pytester.getitems("\n".join(f"def test_{number}(strategy, vectors): ..." for number in range(200)) + MODULE)
    kept = quarter(items)
    names = {item.name.split("[")[0] for item in kept}
    assert [item for item in items if item.name.split("[")[0] in names] == kept
    assert 35 < len(names) < 65


def test_three_days_have_every_variant_and_each_has_every_test(items: list[pytest.Item]) -> None:
    found = [todays(items, day) for day in (739000, 739001, 739002)]
    assert set().union(*found) == set(items)
    assert [len(day) for day in found] == [12 / 3 + 2 + 1] * 3
    others = [item for item in items if "settings" not in item.name]
    assert [item for item in found[0] if item in found[1]] == others
    assert todays(items, 739003) == found[0] == sorted(found[0], key=items.index)


def test_slow_tests_run_on_one_day_in_six_and_all_do_in_turn(items: list[pytest.Item]) -> None:
    named = frozenset(place(item) for item in items if "plain" in item.name or "settings" in item.name)
    found = [todays(items, day, named) for day in range(739000, 739012)]
    assert set().union(*found) == set(items)
    assert [sum("plain" in item.name for item in day) for day in found].count(1) == 2
    assert [sum("settings" in item.name for item in day) for day in found] == [2] * 12
    assert all([item for item in day if "others" in item.name] == items[-3:-1] for day in found)
    six = [due(items, day, named) for day in range(6)]
    assert set().union(*six) == set(items)
    assert sum(map(len, six)) == 12 + 1 + 2 * 6


def test_two_days_have_both_halves(items: list[pytest.Item]) -> None:
    first, second = half(items, 1), half(items, 2)
    assert sorted([*first, *second], key=items.index) == items
    assert half(items, 3) == first


def test_all_cases_run_in_two_days(pytester: pytest.Pytester) -> None:
    (pytester.path / "cases").mkdir()
    (pytester.path / "cases" / "test_it.py").write_text(MODULE)
    cases, _ = pytester.inline_genitems("cases")
    found = [[item.name for item in due(cases, day, frozenset({"another"}))] for day in (1, 2)]
    assert [len(day) for day in found] == [12 / 2 + 3] * 2
    assert {*found[0], *found[1]} == {item.name for item in cases}
    assert due(cases, 1) == cases


def test_slow_tests_are_those_of_more_than_a_limit_in_the_mean() -> None:
    printed = """
1.90s call     tests/e2e/test_a.py::test_one[x-y]
0.30s setup    tests/e2e/test_a.py::test_one[x-y]
0.10s call     tests/e2e/test_a.py::test_one[z]
0.90s setup    tests/unit/log/test_b.py::TestB::test_two
0.20s call     tests/unit/log/test_b.py::TestB::test_two
9.90s call     tests/unit/test_docs.py::test_three
"""
    assert slow(printed.splitlines()) == ["e2e/test_a.py::test_one", "log/test_b.py::test_two"]


def test_the_slow_tests_are_there() -> None:
    tests = Path(__file__).parents[1]
    for name in SLOW:
        file, _, test = name.partition("::")
        assert any(f"def {test}(" in path.read_text(encoding="utf-8") for path in tests.glob(f"**/{file}")), name


def test_of_three_or_four_variants_two_days_have_all(pytester: pytest.Pytester) -> None:
    four = pytester.getitems("import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_few(n): ...")
    assert [len(todays(four, day)) for day in (1, 2)] == [2, 2]
    assert {*todays(four, 1), *todays(four, 2)} == set(four)


def test_the_day_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELTAMERGE_TEST_DAY", raising=False)
    assert today() > 739000
    monkeypatch.setenv("DELTAMERGE_TEST_DAY", "7")
    assert today() == 7


def test_what_is_asked_for_by_name_stays(items: list[pytest.Item]) -> None:
    assert all(single([item]) == todays([item], today()) == [item] for item in items)
