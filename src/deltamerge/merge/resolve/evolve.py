"""Schema evolution of a merge: what the clauses add to the target's schema.

Source of the rules: delta-spark's ResolveDeltaMergeInto and ImplicitMetadataOperation.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from deltamerge.errors import AnalysisError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.resolve.assignments import Path
from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import PrimitiveType, StructType, parse_schema
from deltamerge.protocol.table.actions import Metadata
from deltamerge.protocol.table.constraints import constraints_of
from deltamerge.protocol.table.evolution import evolved_metadata, narrowed, retyped
from deltamerge.protocol.table.features import check_writable
from deltamerge.spark.read.feed import check_feed_columns
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.schema import shown_schema
from deltamerge.spark.session.settings import setting
from deltamerge.spark.sql.seen import seen
from deltamerge.spark.sql.text import name_parts, unseen_words, words_of

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"


def may_evolve(spark: Session, said: bool | None) -> bool:
    """Whether a merge or a write may add to the schema: what it says itself, else what the session says."""
    if said is not None:
        return said
    return setting(spark, AUTO_MERGE, "false").strip().lower() == "true"


def evolved(snapshot: Snapshot, scope: Scope, paths: Iterable[Path]) -> Metadata | None:
    """The table's metadata after a merge that assigns these paths from the source; None when it stays.

    Raises AnalysisError, UnsupportedTableError.
    """
    return evolved_by(snapshot, narrowed(shown_schema(scope.source), paths, scope.same))


def evolved_by(snapshot: Snapshot, data: StructType) -> Metadata | None:
    """The table's metadata with what `data` has in addition; None when it stays. Raises AnalysisError, UnsupportedTableError."""
    metadata = evolved_metadata(snapshot.protocol, snapshot.metadata, data)
    if metadata is snapshot.metadata:
        return None
    check_writable(snapshot.protocol, metadata, snapshot.store.url)
    schema = parse_schema(metadata.schema_string)
    check_feed_columns(schema, metadata)
    _check_dependents(snapshot, schema)
    return metadata


def _check_dependents(snapshot: Snapshot, schema: StructType) -> None:
    """Raise AnalysisError when the type of a column changes that a constraint or a generated column uses."""
    constraints = constraints_of(snapshot.schema, snapshot.metadata.configuration)
    for path, old, new in retyped(snapshot.schema, schema):
        for check in constraints.checks:
            if _uses(check.text, path):
                raise _dependent("DELTA_CONSTRAINT_DATA_TYPE_MISMATCH", path, old, new, f"{check.name} -> {check.text}")
        for name, text in constraints.generated:
            if _uses(text, path):
                raise _dependent("DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH", path, old, new, f"{name} -> {text}")


def _uses(text: str, path: Path) -> bool:
    """Whether an expression uses a column or field, something in it, or something that it is in; True when in doubt."""
    tree = seen(text)
    if tree is None or path[0].lower() in unseen_words(tree):
        words = words_of(text)
        return words is None or path[0].lower() in words
    names = [name_parts(node) for node in tree.find_all(exp.Column, exp.Dot)]
    return any(all(a.lower() == b.lower() for a, b in zip(name, path, strict=False)) for name in names if name)


def _dependent(condition: str, path: Path, old: PrimitiveType, new: PrimitiveType, what: str) -> AnalysisError:
    name = ".".join(path)
    return AnalysisError(
        condition,
        f"Column {name} has data type {old} and cannot be altered to data type {new}, because it is referenced by {what}.",
        parameters={"columnName": name, "columnType": str(old), "dataType": str(new)},
        hint="Cast the source's column to the table's type, or drop what depends on the column.",
    )
