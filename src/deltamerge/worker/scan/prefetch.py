"""Prefetching: the next item is made in a thread of its own while this one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The items, each made while the one before it is used. Whoever stops early closes the generator, which waits for that."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
