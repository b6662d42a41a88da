"""What is asked of data files: their codec, and the most rows of one. Must not know a session or a table.

Source of the values: Spark's ParquetOptions, and delta-spark's DeltaFileFormatWriter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deltamerge.errors import InvalidArgumentError

# Spark knows brotli and lzo, too, but can read such files only with libraries that it lacks.
CODECS = ("gzip", "lz4", "lz4_raw", "none", "snappy", "uncompressed", "zstd")
_WHOLE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The name of a Parquet codec, and the most rows of a file, 0 for any number; None where nothing is said."""

    codec: str | None = None
    most_rows: int | None = None


UNSAID = FileOptions()


def codec_of(name: str, value: str | None) -> str | None:
    """The codec that an option or setting names. Raises InvalidArgumentError for one that Spark could not read."""
    if value is None or value.lower() in CODECS:
        return None if value is None else value.lower()
    raise InvalidArgumentError(
        "CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION",
        f"The codec {value} of {name} is not available.",
        parameters={"codecName": value, "name": name, "availableCodecs": list(CODECS)},
        hint=f"One of {', '.join(CODECS)}.",
    )


def most_rows_of(name: str, value: str | None) -> int | None:
    """The most rows of a file that an option or setting asks for; 0 for any number. Raises InvalidArgumentError."""
    if value is None:
        return None
    if _WHOLE.fullmatch(value) and abs(int(value)) < 1 << 63:
        return max(0, int(value))
    raise InvalidArgumentError(
        "DELTA_ILLEGAL_OPTION",
        f"Invalid value {value!r} for option '{name}', must be a whole number.",
        parameters={"name": name, "input": value},
        hint="Give the most rows of a file; 0 for any number.",
    )
