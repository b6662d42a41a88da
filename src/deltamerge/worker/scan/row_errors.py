"""A row that must not be written, or a file that can't be read: told to the driver through Spark's textual errors."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator


class Refused(Exception):
    """A row violates what the table requires, or a file is damaged. The message is a marked JSON, which the driver reads."""

    MARK = "deltamerge-refused:"

    def __init__(self, condition: str, message: str, *parameters: str) -> None:
        self.condition, self.message, self.parameters = condition, message, parameters
        value = {"condition": condition, "message": message, "parameters": list(parameters)}
        super().__init__(self.MARK + json.dumps(value))


@contextlib.contextmanager
def in_file(name: str) -> Iterator[None]:
    """What is refused within comes out with the name of the data file that it is about, as its first parameter."""
    try:
        yield
    except Refused as error:
        if name in error.parameters:
            raise
        raise Refused(error.condition, f"{error.message} It is {name}.", name, *error.parameters) from error
