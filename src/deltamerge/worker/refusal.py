"""A row that must not be written: told to the driver with its condition, through Spark's textual errors."""

from __future__ import annotations

import json


class Refused(Exception):
    """A row violates what the table demands. The message is a marked JSON, which the driver turns into an error of its own."""

    MARK = "deltamerge-refused:"

    def __init__(self, condition: str, message: str, *parameters: str) -> None:
        self.condition, self.message, self.parameters = condition, message, parameters
        value = {"condition": condition, "message": message, "parameters": list(parameters)}
        super().__init__(self.MARK + json.dumps(value))
