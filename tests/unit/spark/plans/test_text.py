"""What the text of a plan says."""

from __future__ import annotations

import pytest

from deltamerge.spark.plans.text import may_be_parquet

RELATION = "Relation [k#1L,v#2] parquet"
FILES = [
    RELATION,
    f"Project [k#1L]\n+- {RELATION}\n",
    f"Project [k#1L], Statistics(sizeInBytes=16.0 B)\n+- {RELATION}, Statistics(sizeInBytes=1.2 KiB)\n",
    "Relation [k#1L,v#2,... 30 more fields] parquet",
]
OTHERS = [
    "",
    "LocalRelation [k#1L]",
    f"Filter isnotnull(k#1L)\n+- {RELATION}",
    f"Join Inner\n:- {RELATION}\n+- {RELATION}",
    f"Union false, false\n:- {RELATION}\n+- {RELATION}",
    "Relation [k#1L] orc",
    "Relation [parquet#1L] csv",
]


@pytest.mark.parametrize("text", FILES)
def test_columns_of_parquet_files(text: str) -> None:
    assert may_be_parquet(text)


@pytest.mark.parametrize("text", OTHERS)
def test_what_surely_is_more_or_something_else(text: str) -> None:
    assert not may_be_parquet(text)
