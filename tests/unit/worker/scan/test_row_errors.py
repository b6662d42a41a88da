"""A refused row tells its condition through any text that its message becomes part of."""

from __future__ import annotations

import json

from deltamerge.worker.scan.row_errors import Refused


def test_the_message_is_a_marked_json_that_survives_being_quoted() -> None:
    refused = Refused("DELTA_NOT_NULL", 'column "a" is\nnull', "a", "é")
    text = f"Traceback\n  Refused: {refused}\n and more"
    value, _ = json.JSONDecoder().raw_decode(text[text.index(Refused.MARK) + len(Refused.MARK) :])
    assert value == {"condition": "DELTA_NOT_NULL", "message": 'column "a" is\nnull', "parameters": ["a", "é"]}
    assert str(refused).isascii()
    assert "\n" not in str(refused)
