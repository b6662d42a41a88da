"""The text of a statement with the values that stand in it between braces, as `spark.sql(text, **values)` takes them.

Source: PySpark's SQLStringFormatter.
"""

from __future__ import annotations

import string
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.adapter import named_by
from deltamerge.spark.sql.literals import literal_of


@dataclass(frozen=True)
class Formatted:
    """A text, and the frames that stand for tables in it, by names that are in it nowhere else."""

    text: str
    frames: Mapping[str, DataFrame] = field(default_factory=dict)

    def named(self, names: Mapping[str, str]) -> str:
        """The text with other names for the frames."""
        text = self.text
        for name, other in names.items():
            text = text.replace(name, other)
        return text


def formatted(text: str, values: Mapping[str, Any]) -> Formatted | None:
    """The text with values in place of what stands between braces; None where they can't be put there.

    Without values a text is no format: its braces are its own.
    """
    if not values:
        return Formatted(text)
    formatter = _Formatter()
    try:
        return Formatted(formatter.vformat(text, (), values), formatter.frames)
    except Exception:  # whatever a format can do
        return None


class _Formatter(string.Formatter):
    def __init__(self) -> None:
        self.frames: dict[str, DataFrame] = {}

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found, first = super().get_field(field_name, args, kwargs)
        return self._sql(found), first

    def _sql(self, value: Any) -> Any:
        if isinstance(value, DataFrame):
            known = next((name for name, frame in self.frames.items() if frame is value), None)
            name = known or f"__deltamerge_{uuid.uuid4().hex}"
            self.frames[name] = value
            return name
        if isinstance(value, Column):
            parts = named_by(value)
            if parts is None:
                raise ValueError("an expression, not a column")
            return ".".join(map(quoted, parts))
        return literal_of(value) if isinstance(value, str) else value
