"""Type widening: which changes of a column's type are ones that data files of older types can be read through.

Source: PROTOCOL.md, "Type Widening".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltamerge.errors import CorruptTableError, UnsupportedTableError, restore_action
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, fields_of

WIDENING = "delta.enableTypeWidening"
CHANGES = "delta.typeChanges"
_INTEGERS = ("byte", "short", "integer", "long")


def type_changes(field: StructField) -> Iterator[Mapping[str, Any]]:
    """The changes that a field's type, or the type of its elements, keys or values, went through. Raises CorruptTableError."""
    changes = field.metadata.get(CHANGES) or []
    if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_TYPE_CHANGES",
            f"The changes of the type of {field.name} can't be read: {str(changes)[:200]}.",
            parameters={"fieldName": field.name},
            hint=restore_action("metaData"),
        )
    yield from changes


def check_type_changes(schema: StructType) -> None:
    """Raise UnsupportedTableError naming the first column with a type change that files can't be read through.

    Raises CorruptTableError for changes that are none.
    """
    for field in fields_of(schema):
        for change in type_changes(field):
            old, new = (str(change.get(key)) for key in ("fromType", "toType"))
            if not widens(PrimitiveType(old), PrimitiveType(new)):
                place = ".".join([field.name, *map(str, filter(None, [change.get("fieldPath")]))])
                raise UnsupportedTableError(
                    "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA",
                    f"The type of {place} was changed from {old} to {new}, which is not supported.",
                    parameters={"fieldName": place, "fromType": old, "toType": new},
                    hint="Rewrite the table with the tool that changed the type, so that no data file has the older type.",
                )


def widens(old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether every value of the old type is one of the new type, by the protocol's list of type changes."""
    if old == new:
        return True
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) <= _INTEGERS.index(new.name)
    if (old.name, new.name) in (("float", "double"), ("date", "timestamp_ntz")):
        return True
    if old.name in _INTEGERS[:3] and new.name == "double":
        return True
    digits = {"byte": (10, 0), "short": (10, 0), "integer": (10, 0), "long": (20, 0)}.get(old.name) or old.decimal
    if digits is None or new.decimal is None:
        return _is_text(old) and _is_text(new)
    more_scale = new.decimal[1] - digits[1]
    return 0 <= more_scale <= new.decimal[0] - digits[0]


def _is_text(type: PrimitiveType) -> bool:
    return type.name == "string" or type.name.startswith(("char(", "varchar(", "string collate"))
