"""How many threads match: what the first files show."""

from __future__ import annotations

import time

from deltamerge.merge.execute.match import tried


def test_a_disk_that_is_waited_for_is_told_from_work() -> None:
    def works(item: int) -> int:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return item

    def waits(item: int) -> int:
        time.sleep(0.02)
        return -item

    assert tried(waits, [1, 2]) == ([-1, -2], True)
    assert tried(lambda item: waits(works(item)) and waits(item), [3]) == ([-3], True)
    # Other work on the machine may hold it up.
    assert any(tried(works, [1, 2]) == ([1, 2], False) for _ in range(20))
    assert tried(waits, [])[0] == []
