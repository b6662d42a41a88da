"""Breaks of the log."""

from __future__ import annotations

from tests.mutants.base import Break

LOG = (
    Break(
        "clean-up takes the base's successors",
        "log/commit/cleanup.py",
        "(version < base or",
        "(version <= base or",
        "log/commit/test_cleanup.py",
    ),
    Break(
        "clean-up trusts a damaged checkpoint",
        "log/commit/cleanup.py",
        "or not expired or not _is_sound(store, base)",
        "or not expired",
        "log/commit/test_cleanup.py",
    ),
    Break(
        "clean-up takes sidecars in use",
        "log/commit/cleanup.py",
        "if info.name not in needed and",
        "if",
        "log/commit/test_cleanup.py",
    ),
    Break(
        "clean-up of a table that keeps its log",
        "log/commit/cleanup.py",
        "if protected or not snapshot",
        "if False and not snapshot",
        "log/commit/test_cleanup.py",
    ),
    Break(
        "all tombstones expire",
        "log/commit/upkeep.py",
        'pc.coalesce(removed["deletionTimestamp"], 0), expired',
        'pc.coalesce(removed["deletionTimestamp"], 0), 1 << 62',
        "log/commit/test_upkeep.py",
    ),
    Break(
        "a failed checkpoint fails the commit",
        "log/commit/upkeep.py",
        "    except Exception as error:  #",
        "    except ZeroDivisionError as error:  #",
        "log/commit/test_upkeep.py",
    ),
    Break(
        "a wrong checksum is no matter",
        "log/replay/load.py",
        "    if not differences:\n",
        "    if True:\n",
        "log/replay/test_checksum.py",
    ),
    Break(
        "writing onto a wrong state",
        "log/replay/load.py",
        "    if not snapshot.contradicted:\n",
        "    if True:\n",
        "log/replay/test_checksum.py",
    ),
    Break(
        "damage is never passed over",
        "log/replay/load.py",
        "            if not bad:\n",
        "            if True:\n",
        "log/test_checkpoint_kinds.py log/replay/test_checkpoint.py",
    ),
    Break(
        "an emptied commit is a commit",
        "log/replay/commit_file.py",
        "    if not has_actions:\n",
        "    if False:\n",
        "log/replay/test_commit_file.py",
    ),
    Break(
        "two protocols in a commit",
        "log/replay/commit_file.py",
        "isinstance(action, kind) for action in others) > 1",
        "isinstance(action, kind) for action in others) > 9",
        "../spec/test_log_fuzz.py",
    ),
    Break(
        "two actions on a line",
        "log/replay/commit_file.py",
        "            if len(known) > 1:\n",
        "            if False:\n",
        "../spec/test_log_fuzz.py",
    ),
    Break(
        "a compaction that was not reconciled",
        "log/replay/commit_file.py",
        "        if pc.count_distinct(keys).as_py() != len(keys):\n",
        "        if False:\n",
        "log/replay/test_snapshot.py",
    ),
    Break(
        "a log that vanishes is not listed again",
        "log/replay/commit_file.py",
        "            if not has_vanished(error):\n",
        "            if True:\n",
        "log/replay/test_clean_up.py",
    ),
    Break("removed domains live on", "log/replay/snapshot.py", "if not domain.removed}", "}", "log/replay/test_snapshot.py"),
    Break(
        "tombstones are forgotten",
        "log/replay/snapshot.py",
        "            tombstones=self.tombstones.after(commit.adds, commit.removes),\n",
        "",
        "log/commit/test_transaction.py log/replay/test_snapshot.py",
    ),
    Break(
        "the first metadata counts",
        "log/replay/snapshot.py",
        "    return found[-1]\n",
        "    return found[0]\n",
        "log/replay/test_snapshot.py log/replay",
    ),
    Break(
        "the log of a session's many merges takes ever more memory",
        "log/replay/tombstones.py",
        "later.table.combine_chunks()",
        "later.table",
        "log/replay/test_snapshot.py",
    ),
)
