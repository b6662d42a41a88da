"""Small results as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from deltamerge.spark.session.frames import Frame, Session


def one_row(spark: Session, values: Mapping[str, int | str]) -> Frame:
    """A frame of one row of long and string columns."""
    return spark.createDataFrame(pa.table({name: pa.array([value]) for name, value in values.items()}))
