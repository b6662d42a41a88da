"""Breaks of workers."""

from __future__ import annotations

from tests.mutants.base import Break

WORKERS = (
    Break(
        "changed files are not synced",
        "worker/write/apply.py",
        '        spec.write.store.sync(row["name"] for row in rows)\n',
        "",
        "test_power_loss.py",
    ),
    Break(
        "compacted files are not synced",
        "worker/layout/compact.py",
        "spec.write.store.sync(file.name for file in written)",
        "pass",
        "test_power_loss.py",
    ),
    Break(
        "written files are not synced",
        "worker/entry.py",
        '        spec.store.sync(row["name"] for row in written)\n',
        "",
        "test_power_loss.py",
    ),
    Break(
        "files of a failed task stay", "worker/write/apply.py", "        inserts.discard()\n", "", "worker/write/test_apply.py"
    ),
    Break(
        "finished files of a failed task stay",
        "worker/write/apply.py",
        "                spec.write.store.delete(written.name)",
        "                pass",
        "worker/write/test_apply.py",
    ),
    Break(
        "rows that were deleted come back when others are",
        "worker/write/mark.py",
        "np.concatenate([before, *self._marked])",
        "np.concatenate(self._marked)",
        "worker/write/test_mark.py",
    ),
    Break(
        "statistics that counted too few lose rows",
        "worker/write/mark.py",
        "        rows = self._old.rows\n        self._old.close()\n        if",
        "        self._old.close()\n        if",
        "worker/write/test_mark.py",
    ),
    Break(
        "a file is never written again for its vector",
        "worker/write/mark.py",
        "gone < rows and gone <= self._spec.rewrite_share * rows",
        "gone < rows",
        "worker/write/test_apply.py",
    ),
    Break(
        "deleted rows are shown",
        "worker/scan/vectors.py",
        "    found = ~deleted.mask(first, count)\n",
        "    found = deleted.mask(first, count) | True\n",
        "worker/scan/test_scan.py worker/scan/test_vectors.py",
    ),
    Break(
        "a vector of another file is taken",
        "worker/scan/vectors.py",
        "        check_rows(found, rows, of)\n",
        "",
        "worker/scan/test_vectors.py worker/scan/test_damage.py",
    ),
    Break(
        "changed rows are kept as they were",
        "worker/write/rewrite.py",
        "        stays[changed.column(ROW).to_numpy() - start] = False\n",
        "",
        "worker/write/test_rewrite.py worker/write/test_apply.py",
    ),
    Break(
        "deleted rows are written again",
        "worker/write/rewrite.py",
        "kept = batch if stays is None else",
        "kept = batch if True else",
        "worker/write/test_rewrite.py worker/write/test_apply.py",
    ),
    Break(
        "updated rows stay in their partition",
        "worker/write/rewrite.py",
        "(self._writer if partition_key(partition) == here else self._others)",
        "(self._writer)",
        "worker/write/test_mark.py",
    ),
    Break(
        "the feed calls deletes updates",
        "worker/write/rewrite.py",
        "np.where(updates, PREIMAGE, DELETE)",
        "np.where(updates, PREIMAGE, PREIMAGE)",
        "worker/write/test_apply.py worker/write/test_rewrite.py",
    ),
    Break(
        "an update sets all columns that any clause sets",
        "worker/write/rewrite.py",
        "        whole = len(setters) == len(present)\n",
        "        whole = True\n",
        "worker/write/test_rewrite.py worker/write/test_apply.py",
    ),
    Break(
        "two matches are no collision",
        "worker/write/changes.py",
        "            self.collisions += int((repeated > self._last_collision).sum())\n",
        "",
        "worker/write/test_apply.py worker/write/test_rewrite.py",
    ),
    Break(
        "a row matches across batches twice",
        "worker/write/changes.py",
        "        first[0] = rows[0] != self._last_row\n",
        "        first[0] = True\n",
        "worker/write/test_apply.py worker/write/test_rewrite.py",
    ),
    Break(
        "each target row has one match",
        "worker/join/matching.py",
        "    repeats = counts[ids] if",
        "    repeats = np.minimum(counts[ids], 1) if",
        "worker/join/test_matching.py",
    ),
    Break(
        "null keys match",
        "worker/join/matching.py",
        "    target = np.flatnonzero(ids >= 0)\n",
        "    target = np.flatnonzero(ids >= -1)\n",
        "worker/join/test_matching.py worker/join/test_hash_join.py",
    ),
    Break(
        "unmatched rows are lost",
        "worker/join/matching.py",
        "    alone[used] = False\n",
        "    alone[:] = False\n",
        "worker/join/test_matching.py worker/join/test_hash_join.py worker/test_entry.py",
    ),
)
