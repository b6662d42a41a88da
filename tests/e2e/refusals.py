"""What every refusal has in common: a catchable class, a condition, the words that matter, and a table as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from deltamerge.errors import DeltaMergeError


@contextlib.contextmanager
def refused(
    path: Path, kind: type[Exception], condition: str, *words: str, hint: str | None = None
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block raises a `kind` of this condition that says all `words` and the `hint`, and no file below `path` changes."""
    before = files_below(path)
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert isinstance(error, DeltaMergeError)
    assert isinstance(error, PySparkException)
    assert error.getCondition() == condition
    assert [word for word in words if word not in str(error)] == []
    assert (hint or "") in (error.hint or "")
    assert files_below(path) == before


def files_below(path: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
