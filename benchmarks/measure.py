"""What a process tree and a folder cost, read from /proc and the file system. Must not know what is measured."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_IDLE_STEP, _IDLE_SHARE, _IDLE_LONGEST = 0.1, 0.1, 5.0
_PSS = re.compile(rb"^Pss:\s+(\d+)", re.MULTILINE)


def tree(root: int) -> list[int]:
    """The process and all that it has started, directly or not."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children[int(fields[1])].append(int(entry))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on, the name being left out; [] when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_seconds(root: int) -> float:
    """CPU seconds, user and system, of the whole tree so far, with those of children that ended."""
    return sum(int(ticks) for pid in tree(root) for ticks in _stat(pid)[11:15]) / _TICKS


def wait_until_idle(root: int) -> None:
    """Wait until the tree uses less than a tenth of a core, five seconds at most: what engines do afterwards ends first."""
    until = time.monotonic() + _IDLE_LONGEST
    before = cpu_seconds(root)
    while time.monotonic() < until:
        time.sleep(_IDLE_STEP)
        after = cpu_seconds(root)
        if after - before < _IDLE_STEP * _IDLE_SHARE + 0.5 / _TICKS:
            return
        before = after


def memory(root: int) -> float:
    """MB of memory of the tree: proportional set size, which counts shared pages once; resident size where there is none."""
    return sum(map(_proportional, tree(root))) / 2**20


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError):
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
        if found:
            return int(found[1]) * 1024
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


class PeakMemory:
    """The peak memory of a tree and of the largest Python worker in it, in MB, sampled every 20 ms while it is entered."""

    def __init__(self, root: int) -> None:
        self.peak = memory(root)
        self.worker = 0.0
        self._root = root
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._over.wait(0.02):
            sizes = {pid: _proportional(pid) / 2**20 for pid in tree(self._root)}
            self.peak = max(self.peak, sum(sizes.values()))
            workers = [size for pid, size in sizes.items() if pid != self._root and _command(pid) != "java"]
            self.worker = max(self.worker, *workers, 0.0)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """The inode and the bytes of each file below a folder."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            status = os.stat(os.path.join(parent, name))
            found[os.path.join(parent, name)] = (status.st_ino, status.st_size)
    return found


def bytes_written(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> int:
    """Bytes of the files that are new or other ones."""
    return sum(file[1] for name, file in after.items() if before.get(name) != file)
