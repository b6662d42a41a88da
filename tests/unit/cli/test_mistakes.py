"""What a slip of the hand leads to: options given twice or empty, results that nobody can read, a Java that does not start."""

from __future__ import annotations

import importlib

import pytest

import deltamerge_command


def test_ctrl_c_before_the_command_line_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Imports take most of a second, in which a hand that has slipped is quick."""

    def stopped(name: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", stopped)
    with pytest.raises(SystemExit) as caught:
        deltamerge_command.main()
    assert (caught.value.code, capsys.readouterr().err) == (130, "Stopped.\n")
