"""The different values of an array."""

from __future__ import annotations

from typing import Any

import numpy as np


def distinct(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The different values, ascending; there must be no NaN.

    `np.unique` hashes them since NumPy 2.3, which takes many times as long where most of a million differ.
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]
