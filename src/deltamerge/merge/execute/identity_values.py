"""Values for the identity columns of inserted rows that are at hand in the driver."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.merge.resolve.resolve import ResolvedMerge
from deltamerge.worker.scan.scan import FILE
from deltamerge.worker.write.rewrite import CLAUSE


def with_identity_values(changes: pa.Table, resolved: ResolvedMerge) -> pa.Table:
    """Changed rows with the next values in the identity columns that their clauses leave out. Raises ArithmeticDataError."""
    for identity in resolved.identities:
        clauses = pa.array([clause.number for clause in resolved.clauses if identity.name in clause.numbered], pa.int32())
        chosen = pc.and_(pc.is_null(changes[FILE]), pc.is_in(changes[CLAUSE], value_set=clauses))
        rows = np.flatnonzero(chosen.to_numpy())
        numbers = identity.numbers(len(rows))
        values = np.zeros(changes.num_rows, np.int64)
        if len(rows):
            values[rows] = np.int64(numbers.start) + np.arange(len(rows), dtype=np.int64) * np.int64(numbers.step)
        at = changes.schema.get_field_index(identity.name)
        column = pc.if_else(chosen, pa.array(values), changes.column(at))
        changes = changes.set_column(at, changes.schema.field(at), column)
    return changes
