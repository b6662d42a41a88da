"""Sending rows to the task that writes their file."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Frame
from deltamerge.worker.scan.scan import FILE, ROW

_TASK = "__deltamerge_task"


def to_writers(frame: Frame, writers: int, inserters: int, spread_by: Sequence[str]) -> Frame:
    """The rows in `writers + inserters` partitions, ordered by position: file n's rows in partition n modulo `writers`.

    Rows without a file are spread over the last `inserters` partitions by the columns `spread_by`; without such partitions
    they are in the first.
    """
    keys = partition_keys(writers + inserters)
    spread: Column = F.lit(writers if inserters else 0)
    if inserters > 1:
        spread = F.pmod(F.xxhash64(*[F.col(quoted(name)) for name in spread_by]), F.lit(inserters)) + writers
    place = F.when(F.col(FILE).isNull(), spread.cast("int")).otherwise(F.pmod(F.col(FILE), F.lit(writers)))
    task = F.element_at(F.array(*[F.lit(key) for key in keys]), place + 1)
    names = frame.columns
    placed = frame.select("*", task.alias(_TASK)).repartition(writers + inserters, _TASK)
    return placed.sortWithinPartitions(FILE, ROW).select(*[F.col(quoted(name)) for name in names])


def partition_keys(count: int) -> list[int]:
    """For each of `count` partitions a number that Spark's hash partitioning puts there."""
    keys: dict[int, int] = {}
    number = 0
    while len(keys) < count:
        keys.setdefault(murmur3(number) % count, number)
        number += 1
    return [keys[partition] for partition in range(count)]


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an int column: Murmur3 x86 32-bit over its four bytes, as a signed number."""
    mask = 0xFFFFFFFF
    k = (value & mask) * 0xCC9E2D51 & mask
    k = (k << 15 | k >> 17) & mask
    k = k * 0x1B873593 & mask
    h = seed ^ k
    h = (h << 13 | h >> 19) & mask
    h = (h * 5 + 0xE6546B64) & mask
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & mask
    h ^= h >> 13
    h = h * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h
