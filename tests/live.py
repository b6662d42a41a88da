"""Workers that run the library's code as a test has changed it."""

from __future__ import annotations

import pytest

from deltamerge.spark.session import shipping


def ship_live_code(patch: pytest.MonkeyPatch | None = None) -> None:
    """Ship code by value, as it is in memory, not as its files have it: until `patch` is undone, or the process ends."""
    (patch or pytest.MonkeyPatch()).setattr(shipping, "code_of_files", lambda: None)
