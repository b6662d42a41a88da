"""Whether a table still has the schema for which a merge was made."""

from __future__ import annotations

from deltamerge.errors import AnalysisError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.type_widening import widens
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType


def check_schema(known: StructType | None, snapshot: Snapshot) -> None:
    """Raise AnalysisError when columns came or went since the schema was `known`, or changed their types incompatibly.

    None knows nothing, and so expects nothing.
    """
    if known is None or known == snapshot.schema:
        return
    changes = _changes(known, snapshot.schema)
    if changes:
        raise AnalysisError(
            "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
            f"The schema of {snapshot.store.url} has changed in an incompatible way since your DeltaTable object was created. "
            f"Changes:\n" + "\n".join(changes),
            parameters={"schemaDiff": changes},
            hint="Make the DeltaTable object anew, by DeltaTable.forPath or forName, and build the merge with it.",
        )


def _changes(known: StructType, latest: StructType) -> list[str]:
    before, after = ({field.name.lower(): field for field in schema} for schema in (known, latest))
    added = [field.name for name, field in after.items() if name not in before]
    gone = [field.name for name, field in before.items() if name not in after]
    found = [f"Latest schema has additional field(s): {', '.join(added)}"] if added else []
    found += [f"Latest schema is missing field(s): {', '.join(gone)}"] if gone else []
    for name in before.keys() & after.keys():
        old, new = before[name].type, after[name].type
        if not _holds(new, old):
            found.append(f"Latest schema has type {new} for {after[name].name}, which was {old}")
    return found


def _holds(type: DataType, old: DataType) -> bool:
    """Whether a type has a place for all that values of the old one hold."""
    if isinstance(type, StructType) and isinstance(old, StructType):
        fields = {field.name.lower(): field.type for field in type}
        return all(field.name.lower() in fields and _holds(fields[field.name.lower()], field.type) for field in old)
    if isinstance(type, ArrayType) and isinstance(old, ArrayType):
        return _holds(type.element, old.element)
    if isinstance(type, MapType) and isinstance(old, MapType):
        return _holds(type.key, old.key) and _holds(type.value, old.value)
    return isinstance(type, PrimitiveType) and isinstance(old, PrimitiveType) and widens(old, type)
