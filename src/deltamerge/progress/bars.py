"""Bars: in a terminal by rich, where it is installed; in a notebook as an element of HTML. Neither stays on the screen."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from html import escape
from typing import Any

from deltamerge.progress.value import Progress

_WIDTH = 24
_BOX = "font:12px/1.5 system-ui,sans-serif;display:flex;gap:.8em;align-items:center;flex-wrap:wrap"
_RAIL = "display:inline-block;width:160px;height:8px;border-radius:4px;background:rgba(128,128,128,.3);overflow:hidden"
_FILL = "display:block;height:8px;background:#4c8bf5"


def bar_here() -> Callable[[], Any] | None:
    """What makes a bar for this process; None in logs, scripts whose output is kept, and terminals without rich."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return NotebookBar
    stream = sys.stderr
    if stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return TerminalBar if importlib.util.find_spec("rich") is not None else None


class TerminalBar:
    """One line at the bottom of the terminal, on standard error."""

    def __init__(self) -> None:
        console = importlib.import_module("rich.console").Console(stderr=True)
        live = importlib.import_module("rich.live").Live
        self._text = importlib.import_module("rich.text").Text
        self._live = live(console=console, transient=True, redirect_stdout=False, redirect_stderr=False, auto_refresh=False)
        self._started = False

    def show(self, progress: Progress) -> None:
        if not self._started:
            self._live.start()
            self._started = True
        self._live.update(self._text(line_of(progress), overflow="ellipsis", no_wrap=True), refresh=True)

    def close(self) -> None:
        if self._started:
            self._live.update(self._text(""), refresh=True)
            self._live.stop()


class NotebookBar:
    """A line below the cell; gone when the statement has ended."""

    def __init__(self) -> None:
        module = importlib.import_module("IPython.display")
        self._display, self._html = module.display, module.HTML
        self._handle: Any = None

    def show(self, progress: Progress) -> None:
        found = self._html(html_of(progress))
        if self._handle is None:
            self._handle = self._display(found, display_id=True)
        else:
            self._handle.update(found)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update(self._html(""))


def line_of(progress: Progress) -> str:
    """A line of a terminal."""
    share = progress.share
    length = 0 if share is None else round(_WIDTH * share)
    rail = "" if share is None else f"{'█' * length}{'░' * (_WIDTH - length)} "
    return f"{progress.operation} {rail}{', '.join((progress.step, *progress.figures()))}"


def html_of(progress: Progress) -> str:
    """A line of a notebook."""
    share = progress.share
    fill = "" if share is None else f'<span style="{_RAIL}"><span style="{_FILL};width:{round(100 * share)}%"></span></span>'
    text = escape(", ".join((progress.step, *progress.figures())))
    return f'<div class="deltamerge-progress" style="{_BOX}"><b>{escape(progress.operation)}</b>{fill}<span>{text}</span></div>'
