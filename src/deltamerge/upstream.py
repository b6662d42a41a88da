"""The methods of delta-spark's `DeltaTable` that this library does not have, and what to use in their place.

Asking for one is an AttributeError with that text, so that `hasattr` says no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# What to use for each, besides delta-spark itself.
MISSING = {
    "convertToDelta": ", or delta-rs: deltalake.convert_to_deltalake(path)",
}


class SaysWhatIsMissing(type):
    """The type of a class whose missing class methods, and by `missing` those of its instances, say what to use instead."""

    if not TYPE_CHECKING:  # a type checker must go on to refuse names that are not there

        def __getattr__(cls, name: str) -> Any:
            raise missing(cls, name)


def missing(owner: type, name: str, instance: object | None = None) -> AttributeError:
    """The error for an attribute that a class, or an instance of it, does not have."""
    kind = f"type object {owner.__name__!r}" if instance is None else f"{owner.__name__!r} object"
    text = f"{kind} has no attribute {name!r}"
    if name in MISSING:
        text = f"deltamerge has no {owner.__name__}.{name} yet. Use delta-spark for it{MISSING[name]}."
    return AttributeError(text, name=name, obj=owner if instance is None else instance)
