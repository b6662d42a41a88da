"""Prefetching: the next item is made in a thread of its own while this one is used."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The items, each made while the one before it is used. Whoever stops early closes the generator, which waits for that."""
    made_in: list[int] = []
    pool = ThreadPoolExecutor(1, initializer=lambda: made_in.append(threading.get_ident()))
    try:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
    finally:
        # A generator that nobody holds may be collected in any thread, and this one can't wait for itself.
        pool.shutdown(wait=threading.get_ident() not in made_in)
