"""Where commands print: results on standard output, for people or as JSON; everything else on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console

from deltamerge.cli.render import rendered
from deltamerge.display.data import json_text
from deltamerge.display.views import Page, View
from deltamerge.errors import DeltaMergeError

# The status of a command that is done, and whose result nobody can read: a commit may have been made.
NOT_SHOWN = 5
# Columns of an output that goes to a file or a pipe, where nothing says how wide it may be.
_WIDE = 200


class NotShownError(DeltaMergeError):
    """A command is done, but its result can't be written."""


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - what rich has caught, and would end the program for


def console(stderr: bool = False) -> Console:
    """A terminal as wide as it is; a file has wide lines and no colours."""
    stream = sys.stderr if stderr else sys.stdout
    return _Screen(stderr=stderr, width=None if stream.isatty() or "COLUMNS" in os.environ else _WIDE, highlight=False)


def show(view: Callable[[], View | Page], data: Callable[[], Any], as_json: bool) -> None:
    """Print a result: `data` as JSON, or else `view`. Raises NotShownError; silently ends where nobody reads any more."""
    result = json_text(data()) if as_json else rendered(view())
    try:
        if isinstance(result, str):
            sys.stdout.write(f"{result}\n")
        else:
            console().print(result)
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())  # what is left would be written when Python ends
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(NOT_SHOWN) from error
        raise NotShownError(
            "DELTAMERGE_NOT_SHOWN",
            f"The command is done, but its result can't be written: {error.strerror}.",
            hint="`deltamerge history` shows what was committed.",
        ) from error


def say(text: str) -> None:
    """Tell what is no result."""
    console(stderr=True).print(text, markup=False, soft_wrap=True)
