"""Which version of a table the rows of a frame are read from.

A frame is fixed to the version that was the newest one when it was made. An alias within its plan names the table's place and
this version, so that it is found again below all that is made of the frame, views included. Rows that were materialized
(`localCheckpoint`, `toPandas`) have no such plan any more.
"""

from __future__ import annotations

import hashlib
import os
import re

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.spark.session.adapter import aliases_within
from deltamerge.spark.session.frames import Frame
from deltamerge.storage import Store

_MARK = "__deltamerge_read"


def mark_of(snapshot: Snapshot) -> str:
    """The alias of a frame that reads a table's newest version."""
    return f"{_MARK}_{_place(snapshot.store)}_{snapshot.version}"


def version_read(frame: Frame, store: Store) -> int | None:
    """The oldest version of the table at `store` from which rows of a frame are read; None where none are.

    What was asked for by its version or time counts as no reading.
    """
    found = re.findall(rf"\b{_MARK}_{_place(store)}_(\d+)\b", aliases_within(frame, _MARK))
    return min(map(int, found), default=None)


def _place(store: Store) -> str:
    """What tells a table's place from others, however a user writes it."""
    scheme, is_url, rest = store.url.partition("://")
    place = rest.rstrip("/") if is_url else os.path.realpath(scheme)
    return hashlib.sha256(place.encode(errors="surrogatepass")).hexdigest()[:24]
