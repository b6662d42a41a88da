"""How much a run of the tests does: a sample, or with `DELTAMERGE_TEST_ALL=1` everything."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

ALL = bool(os.environ.get("DELTAMERGE_TEST_ALL"))


def examples(count: int) -> settings:
    """So many examples of a property when everything is tested, a quarter of them otherwise."""
    return settings(max_examples=count if ALL else count // 4, deadline=None, suppress_health_check=list(HealthCheck))
