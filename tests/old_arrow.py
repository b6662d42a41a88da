"""What the tests do with PyArrow that one of the oldest versions of pyproject.toml has not: `make minimal` leaves it out.

The library itself must not need it. So a TypeError from one of its own calls is none of these.
"""

from __future__ import annotations

from traceback import walk_tb

import pyarrow as pa

# What the tests are written for.
NEWEST = 26
IS_OLD = int(pa.__version__.split(".")[0]) < NEWEST
# Arguments with which tests write files, or look at what was read.
_ARGUMENTS = ("max_rows_per_page", "bloom_filter_options", "maps_as_pydicts")
# Tests, by name.
LACKING = {
    "test_row_groups_are_read_where_they_are_moved_to": "the test reads a file without row groups as a whole",
    "test_timestamps_written_in_utc_are_moved[True]": "the test's writer of INT96 loses times before 1677",
    "test_the_old_parquet_type_is_cut_alike": "the test's writer of INT96 loses the sign of times on the day before 1970",
    "test_a_file_is_made_without_folders_and_read_back": "a small file is sent in three requests",
    "test_how_an_azure_account_is_opened": "it takes no SAS token and no client secret (DELTAMERGE_OLD_PYARROW)",
    "test_rows_that_arrow_does_not_find_are_missed": "it reads the test's pages",
    "test_rows_feed_and_statistics_are_those_of_the_plain_rewrite": "infinity alone has bounds by one way of writing only",
    "test_float_bounds_hold_with_nan_as_the_largest_value": "infinity alone has no bounds, as older statistics of it are wrong",
}


def lacking(name: str) -> str | None:
    """Why a test can't run with this PyArrow, if so."""
    return next((reason for test, reason in LACKING.items() if name.startswith(test)), None) if IS_OLD else None


def is_lacking(error: TypeError) -> bool:
    """Whether a test itself has called PyArrow with an argument that this one lacks."""
    asked = any(f"unexpected keyword argument '{argument}'" in str(error) for argument in _ARGUMENTS)
    frames = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    return IS_OLD and asked and not any("/src/deltamerge/" in name for name in frames)
