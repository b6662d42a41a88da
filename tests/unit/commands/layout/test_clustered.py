"""Which files of a clustered table are laid out again."""

from __future__ import annotations

import json

import pytest

from deltamerge.commands.layout.clustered import as_cube, clustered_files, clustering_metrics, cube_of
from deltamerge.protocol.table.actions import AddFile

GIGABYTE = 1 << 30


def file(name: str, cube: str | None = None, columns: str = "a", size: int = 1, provider: str | None = None) -> AddFile:
    tags = None if cube is None else {"ZCUBE_ID": cube, "ZCUBE_ZORDER_BY": json.dumps([columns])}
    return AddFile(name, {}, size, 0, tags=tags, clustering_provider=provider or (cube and "liquid"))


PLAIN, OTHER = file("plain"), file("other", "z", "b")
LARGE = [file("l1", "l", size=60 * GIGABYTE), file("l2", "l", size=60 * GIGABYTE)]
SMALL = [file("s1", "s"), file("s2", "s")]
FOREIGN = file("foreign", provider="another")


@pytest.mark.parametrize(
    ("files", "full", "chosen"),
    [
        ([PLAIN], False, ["plain"]),
        (SMALL, False, []),
        (SMALL, True, []),
        ([*SMALL, PLAIN], False, ["plain", "s1", "s2"]),
        ([*SMALL, file("t", "t")], False, ["s1", "s2", "t"]),
        ([*LARGE, PLAIN], False, ["plain"]),
        (LARGE, False, []),
        ([OTHER, FOREIGN], False, []),
        ([OTHER, *SMALL, FOREIGN], True, ["s1", "s2", "foreign", "other"]),
        ([file("damaged", "d")], False, []),
    ],
)
def test_files_that_are_not_laid_out_are_chosen(files: list[AddFile], full: bool, chosen: list[str]) -> None:
    assert [file.path for file in clustered_files(files, ["a"], full).chosen] == chosen


def test_a_bin_becomes_a_cube() -> None:
    written = as_cube([file("x"), file("y")], ["a", "b.c"])
    assert len({cube_of(one) for one in written}) == 1
    assert {one.clustering_provider for one in written} == {"liquid"}
    assert clustered_files(written, ["a", "b.c"], False).chosen == []
    broken = AddFile("f", {}, 1, 0, tags={"ZCUBE_ID": "x", "ZCUBE_ZORDER_BY": "no json"})
    assert clustered_files([broken], ["a"], False).chosen == []


def test_metrics_tell_files_in_cubes_from_others() -> None:
    found = clustered_files([*SMALL, PLAIN, OTHER], ["a"], False)
    metrics = clustering_metrics(found, ["a"], False, 1)
    assert (metrics["inputZCubeFiles"]["numFiles"], metrics["inputOtherFiles"]["numFiles"]) == (2, 2)
    assert (metrics["inputNumZCubes"], metrics["mergedFiles"]["numFiles"], metrics["numOutputZCubes"]) == (1, 3, 1)
