"""A row that must not be written, or a file that can't be read: told to the driver through Spark's textual errors."""

from __future__ import annotations

import json


class Refused(Exception):
    """A row violates what the table demands, or a file is damaged. The message is a marked JSON, which the driver reads."""

    MARK = "deltamerge-refused:"

    def __init__(self, condition: str, message: str, *parameters: str) -> None:
        self.condition, self.message, self.parameters = condition, message, parameters
        value = {"condition": condition, "message": message, "parameters": list(parameters)}
        super().__init__(self.MARK + json.dumps(value))
