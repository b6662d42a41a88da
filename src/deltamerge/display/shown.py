"""What makes an object show its page: as HTML in notebooks, as text where it is printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from deltamerge.display.html import html_of
from deltamerge.display.text import text_of
from deltamerge.display.views import Page

_Given = TypeVar("_Given")


class Shown:
    """An object with a page."""

    def _page(self) -> Page:
        """What is shown."""
        raise NotImplementedError

    def __str__(self) -> str:
        return text_of(self._page())

    def _repr_html_(self) -> str:
        return html_of(self._page())


class Explanation(str):
    """A plan in words: a text, which notebooks show as a page."""

    _shown: Page

    def __new__(cls, text: str, page: Page) -> Self:
        """The text, and the page for it."""
        found = super().__new__(cls, text)
        found._shown = page
        return found

    def __getnewargs__(self) -> tuple[str, Page]:  # type: ignore[override]
        return str(self), self._shown  # of what copies are made

    def _repr_html_(self) -> str:
        return html_of(self._shown)


def page_of(shown: Shown) -> Page:
    """The page of an object."""
    return shown._page()


def shown_as(given: _Given, page: Callable[[], Page]) -> _Given:
    """An object of another library, which notebooks show as a page from now on; what is made of it they show as before."""
    hidden: Any = given
    hidden._repr_html_ = lambda: html_of(page())
    return given
