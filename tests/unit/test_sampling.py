from __future__ import annotations

import pytest

from tests.sampling import covering, half, others, single

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


def test_every_value_of_a_setting_comes_up_for_every_other_parameter(items: list[pytest.Item]) -> None:
    kept = [item.callspec.params for item in covering(items) if item.name.startswith("test_settings")]
    assert len(kept) == 6, "two of four settings for each of three seeds"
    for seed in range(3):
        assert {kind["strategy"] for kind in kept if kind["seed"] == seed} == {"auto", "join"}
        assert {kind["vectors"] for kind in kept if kind["seed"] == seed} == {False, True}


def test_tests_without_settings_all_stay_in_order(items: list[pytest.Item]) -> None:
    kept = covering(items)
    assert [item.name for item in kept if "settings" not in item.name] == ["test_others[a]", "test_others[b]", "test_plain"]
    assert kept == sorted(kept, key=items.index)


def test_one_variant_of_each_test_is_another_for_another_test(items: list[pytest.Item]) -> None:
    kept = single(items)
    assert [item.name.split("[")[0] for item in kept] == ["test_settings"] * 3 + ["test_others"] * 2 + ["test_plain"]
    assert {item.callspec.params["seed"] for item in kept if "settings" in item.name} == {0, 1, 2}
    assert single(kept) == kept


def test_two_runs_share_the_variants(items: list[pytest.Item]) -> None:
    one, other = single(items), others(items)
    assert set(one) | set(other) == set(covering(items))
    assert [item.name for item in one if item in other] == ["test_others[a]", "test_others[b]", "test_plain"]


def test_half_of_the_tests_are_whole_tests(pytester: pytest.Pytester) -> None:
    items = pytester.getitems("\n".join(f"def test_{number}(strategy, vectors): ..." for number in range(200)) + MODULE)
    kept = half(items)
    names = {item.name.split("[")[0] for item in kept}
    assert [item for item in items if item.name.split("[")[0] in names] == kept
    assert 80 < len(names) < 120


def test_a_test_marked_connect_is_in_the_half(pytester: pytest.Pytester) -> None:
    tests = "\n".join(f"@pytest.mark.connect\ndef test_{number}(): ..." for number in range(20))
    items = pytester.getitems(f"import pytest\n{tests}")
    assert half(items) == items


def test_what_is_asked_for_by_name_stays(items: list[pytest.Item]) -> None:
    assert all(covering([item]) == [item] for item in items)
