from __future__ import annotations

import pytest

from tests.sampling import quarter, single, today, todays

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
