"""Where commands print: results on standard output, for people or as JSON; everything else on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

from deltamerge.cli.render import rendered
from deltamerge.display.data import json_text
from deltamerge.display.views import Page, View

# Columns of an output that goes to a file or a pipe, where nothing says how wide it may be.
_WIDE = 200


def console(stderr: bool = False) -> Console:
    """A terminal as wide as it is; a file has wide lines and no colours."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() or "COLUMNS" in os.environ else _WIDE, highlight=False)


def show(view: Callable[[], View | Page], data: Callable[[], Any], as_json: bool) -> None:
    """Print a result: `data` as JSON, or else `view`."""
    if as_json:
        sys.stdout.write(json_text(data()) + "\n")
    else:
        console().print(rendered(view()))


def say(text: str) -> None:
    """Tell what is no result."""
    console(stderr=True).print(text, markup=False, soft_wrap=True)
