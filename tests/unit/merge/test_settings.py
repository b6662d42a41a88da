"""The session's own settings: one that does not exist is refused with the one that may be meant."""

from __future__ import annotations

import pytest

from deltamerge.errors import InvalidArgumentError
from deltamerge.merge.settings import JOIN_VECTORS, PROGRESS, RETRIES, SHARE, SPLICE, STRATEGY, check_names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("spark.deltamerge.conflictRetrys", f"Did you mean {RETRIES}?"),
        ("spark.deltamerge.conflictretries", f"Did you mean {RETRIES}?"),
        ("spark.deltamerge.rewrite_share", f"Did you mean {SHARE}?"),
        ("spark.deltamerge.stratgy", f"Did you mean {STRATEGY}?"),
        (
            "spark.deltamerge.x",
            f"There are {STRATEGY}, {SHARE}, {RETRIES}, {SPLICE}, {JOIN_VECTORS}, {PROGRESS}, spark.deltamerge.sync.",
        ),
    ],
)
def test_a_setting_that_does_not_exist_is_named(name: str, hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"DELTAMERGE_UNKNOWN_SETTING") as caught:
        check_names(["spark.app.name", STRATEGY, name])
    assert caught.value.detail == f"There is no setting {name}."
    assert caught.value.hint == f'{hint} Remove the wrong one: spark.conf.unset("{name}").'


def test_settings_that_exist_and_those_of_others() -> None:
    check_names([STRATEGY, SHARE, RETRIES, "spark.deltamerged", "spark.databricks.delta.unheard"])
