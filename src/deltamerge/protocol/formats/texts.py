"""Arrow types that hold texts or bytes."""

from __future__ import annotations

import pyarrow as pa

_LAYOUTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


def holds_text(type: pa.DataType) -> bool:
    """Whether a type is of texts or bytes of any length, in any of Arrow's layouts of them."""
    return str(type) in _LAYOUTS
