"""Which version of a table the rows of a frame are read from.

A frame is fixed to the version that was the newest one when it was made. An alias within its plan names the table's place and
this version, so that it is found again below all that is made of the frame, views included. Rows that were materialized
(`localCheckpoint`, `toPandas`) have no such plan any more.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from deltamerge.log.commit.conflict import FrameRead
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.spark.plans.filters import comparisons_above
from deltamerge.spark.plans.whole_views import shown_alias
from deltamerge.spark.pyspark.adapter import aliases_within, analyzed_plan
from deltamerge.spark.read.partitions_read import may_have_read
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.settings import settings
from deltamerge.storage import Store

_MARK, _TRAVEL = "__deltamerge_read", "__deltamerge_at"
_UNABRIDGED = {"spark.sql.debug.maxToStringFields": "100000", "spark.sql.maxPlanStringLength": "2147483632"}
# The URLs of the tables of which this process has made frames, by what their aliases say.
_URLS: dict[str, str] = {}
_ABRIDGED = re.compile(r"(Truncated plan of|\.\.\.) \d+( more)? characters")


def mark_of(snapshot: Snapshot, travels: bool = False) -> str:
    """The alias of a frame that reads a table's newest version, or one that was asked for by its number or time."""
    place = _place(snapshot.store)
    _URLS[place] = snapshot.store.url
    return f"{_TRAVEL if travels else _MARK}_{place}_{snapshot.version}"


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table of which a view shows rows: its URL and the version, None where this is the newest one when the frame was made.

    Whether the view leaves rows out, and whether it has all columns in their order.
    """

    url: str
    version: int | None
    is_filtered: bool
    has_all_columns: bool


def shown_table(frame: Frame) -> ShownTable | None:
    """The one table that a view shows, of which it is the `frame`; None where that can't be told, or it shows more than that."""
    with settings(frame.sparkSession, _UNABRIDGED):
        text = analyzed_plan(frame)
    shown = shown_alias(text, rf"({_MARK}|{_TRAVEL})_([0-9a-f]+)_(\d+)")
    url = None if shown is None else _URLS.get(shown.alias[2])
    if shown is None or url is None:
        return None
    version = int(shown.alias[3]) if shown.alias[1] == _TRAVEL else None
    return ShownTable(url, version, shown.is_filtered, shown.has_all_columns)


def frame_read(frame: Frame, store: Store) -> FrameRead | None:
    """What a frame has read of the table at `store`, by the oldest version from which its rows come; None for nothing.

    What was asked for by its version or time counts as no reading.
    """
    alias = rf"{_MARK}_{_place(store)}_(\d+)"
    text = aliases_within(frame, _MARK)
    if _ABRIDGED.search(text):
        with settings(frame.sparkSession, _UNABRIDGED):
            text = aliases_within(frame, _MARK)
    versions = [int(version) for version in re.findall(rf"\b{alias}\b", text)]
    if not versions:
        return None

    def has_read(files: pa.Table, snapshot: Snapshot) -> bool:
        if not files.num_rows:
            return False
        with settings(frame.sparkSession, _UNABRIDGED):
            places = comparisons_above(analyzed_plan(frame), alias)
        return may_have_read(places, files, snapshot)

    return FrameRead(min(versions), has_read)


def all_read(reads: Iterable[FrameRead | None]) -> FrameRead | None:
    """What several frames have read together."""
    found = [read for read in reads if read is not None]
    if len(found) < 2:
        return found[0] if found else None

    def has_read(files: pa.Table, snapshot: Snapshot) -> bool:
        return any(read.has_read(files, snapshot) for read in found)

    return FrameRead(min(read.version for read in found), has_read)


def _place(store: Store) -> str:
    """What tells a table's place from others, however a user writes it."""
    scheme, is_url, rest = store.url.partition("://")
    place = rest.rstrip("/") if is_url else os.path.realpath(scheme)
    return hashlib.sha256(place.encode(errors="surrogatepass")).hexdigest()[:24]
