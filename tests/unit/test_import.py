"""What `import deltamerge` has, and what it does not import yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

import deltamerge


def test_each_name_is_there() -> None:
    for name in deltamerge.__all__:
        assert getattr(deltamerge, name)
    assert set(deltamerge.__all__) <= set(dir(deltamerge))
    with pytest.raises(AttributeError, match="'deltamerge' has no attribute 'raed'"):
        deltamerge.raed  # noqa: B018


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    text = (
        "import sys, deltamerge; early = {'pyarrow', 'sqlglot', 'deltamerge.tables'} & set(sys.modules)\n"
        "deltamerge.exceptions.DeltaAnalysisException; assert not early and deltamerge.read is deltamerge.read, early"
    )
    subprocess.run([sys.executable, "-c", text], check=True)
