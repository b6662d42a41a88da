"""Breaks of what a transaction makes of the commits before its own: how it follows them, and joins their deletion vectors."""

from __future__ import annotations

from tests.mutants.base import Break

JOIN_TESTS = "log/commit/test_join.py log/commit/test_join_histories.py log/commit/test_begin_anew.py"

NUMBER_TESTS = "worker/skipping/test_numbers.py worker/skipping/test_keys.py"
HASH_TESTS = "worker/join/test_hash_join.py"
CHOICE_TESTS = "merge/plan/test_choose.py"

JOINS = (
    Break(
        "rows that an insert's condition leaves out are reported to the second job",
        "worker/join/hash_join.py",
        "yield from self._reported(source, own)",
        "yield from self._reported(source, alone)",
        HASH_TESTS,
    ),
    Break(
        "rows that an update's condition leaves out take the place of rows that stay",
        "worker/join/hash_join.py",
        "moved.append(own)",
        "moved.append(np.unique(matches.source))",
        HASH_TESTS,
    ),
    Break(
        "rows of an earlier piece of matches are reported",
        "worker/join/changes.py",
        "positions[at[own]]), chosen[own]",
        "positions[at[own]]), matches.source[own]",
        HASH_TESTS,
    ),
    Break(
        "conditions are asked of an earlier piece's target rows",
        "worker/join/changes.py",
        "_pairs(asked_target, asked_source, at, chosen)",
        "_pairs(asked_target, asked_source, matches.target[: len(at)], chosen)",
        HASH_TESTS,
    ),
    Break(
        "values come from source rows of an earlier piece of matches",
        "worker/join/changes.py",
        "_pairs(*needed, at[own], chosen[own])",
        "_pairs(*needed, at[own], matches.source[own])",
        HASH_TESTS,
    ),
    Break(
        "inserted rows have the values of rows that a condition leaves out",
        "worker/join/changes.py",
        'source.select(program.needed("source")).take(pa.array(alone[own]))',
        'source.select(program.needed("source")).take(pa.array(alone[: len(own)]))',
        HASH_TESTS,
    ),
    Break(
        "files in an object store are opened at no cost",
        "merge/execute/exchange.py",
        "_REQUESTS * budgets.request_bytes if is_remote else budgets.open_bytes",
        "budgets.open_bytes",
        "merge/execute/test_key_bins.py",
    ),
    Break(
        "whole rows come to as few tasks as keys alone",
        "merge/plan/choose.py",
        "update_as_delete_insert=False, hash_tasks=tasks)",
        "update_as_delete_insert=False)",
        CHOICE_TESTS,
    ),
    Break(
        "keys alone come to as many tasks as whole rows",
        "merge/plan/exchange.py",
        "size = min(size, source.rows",
        "size = max(size, source.rows",
        "merge/plan/test_exchange.py",
    ),
    Break(
        "a null is a number of keys, too",
        "worker/skipping/numbers.py",
        "within &= known & (above",
        "within &= (above",
        NUMBER_TESTS,
    ),
    Break(
        "the greatest value of a key column has no number",
        "worker/skipping/numbers.py",
        "<= np.uint64(high - low))",
        "< np.uint64(high - low))",
        NUMBER_TESTS,
    ),
    Break(
        "different keys have one number",
        "worker/skipping/numbers.py",
        "total * np.int64(high - low + 1) + above",
        "total * np.int64(high - low) + above",
        NUMBER_TESTS,
    ),
    Break(
        "keys that the source lacks have the id of the next one",
        "worker/skipping/keys.py",
        "ids[rows[found]] = places[found]",
        "ids[rows] = places",
        NUMBER_TESTS,
    ),
    Break(
        "matches of different keys are not in the order of target rows",
        "worker/join/target_keys.py",
        "by_target = np.argsort(target)",
        "by_target = np.arange(len(target))",
        "worker/join/test_target_keys.py",
    ),
    Break(
        "different keys have any number of pairs",
        "worker/join/target_keys.py",
        "if most_pairs is not None and np.count_nonzero(chosen) > most_pairs:",
        "if most_pairs is not None and np.count_nonzero(chosen) > 1 << 40:",
        "worker/join/test_target_keys.py",
    ),
    Break(
        "source rows without a key are matched",
        "worker/join/matching.py",
        "    marks[-1] = False\n",
        "",
        "worker/join/test_matching.py",
    ),
    Break(
        "columns of conditions are not sent with the keys",
        "merge/plan/choose.py",
        "needed = asked if as_delete_insert else needed",
        "needed = own if as_delete_insert else needed",
        CHOICE_TESTS,
    ),
    Break(
        "columns of an insert's condition are not sent with the keys",
        "merge/plan/choose.py",
        'own | set(asked_columns((*matched, *inserts), "source"))',
        'own | set(asked_columns(matched, "source"))',
        CHOICE_TESTS,
    ),
    Break(
        "columns that Spark computes of the source are the target's, too",
        "merge/plan/projection.py",
        'scope.side_of(expression.tree) != "source"',
        'scope.side_of(expression.tree) == "target"',
        "merge/plan/test_projection.py",
    ),
    Break(
        "chance and user functions become columns of the source",
        "merge/plan/projection.py",
        "return forbidden(expression.text, OF_ROWS) is None",
        "return True",
        "merge/plan/test_projection.py",
    ),
    Break(
        "a computed column that fails is the merge's failure",
        "merge/tries.py",
        "if projected and isinstance(error, ExecutionError)",
        "if False and isinstance(error, ExecutionError)",
        "merge/test_tries.py",
    ),
    Break(
        "several commits together have removed nothing",
        "log/replay/net.py",
        "                removed[key] = row\n",
        "                continue\n",
        "log/commit/test_join_histories.py log/replay/test_net.py",
    ),
    Break(
        "what a later commit has removed is still new",
        "log/replay/net.py",
        "            if added.pop(key, None) is None:",
        "            if key not in added:",
        "log/replay/test_net.py",
    ),
    Break(
        "a kept version is taken for one of another table that was at its path",
        "log/turns.py",
        "if found is not commit or not _is_same(before, current):",
        "if found is not commit or before.store is not current.store:",
        "log/test_turns.py",
    ),
    Break(
        "a kept commit is taken for another one of its version",
        "log/turns.py",
        "found.file.etag and found.file == info",
        "found.file.etag",
        "log/test_turns.py",
    ),
    Break(
        "rows that both have deleted are joined",
        "log/commit/join.py",
        "    if _within(own, after).any():\n",
        "    if False:\n",
        JOIN_TESTS,
    ),
    Break(
        "rows that come back are not seen", "log/commit/join.py", "if not _within(gone, after).all():", "if False:", JOIN_TESTS
    ),
    Break(
        "the winner's vector is lost",
        "log/commit/join.py",
        "encode(np.sort(np.concatenate((after, own))))",
        "encode(all_rows)",
        JOIN_TESTS,
    ),
    Break(
        "a vector of another file is joined",
        "log/commit/join.py",
        "if len(own) + len(gone) != len(all_rows) or (len(after) and after[-1] >= mark.rows):",
        "if False:",
        JOIN_TESTS,
    ),
    Break(
        "rows that were found and left may vanish",
        "log/commit/join.py",
        "if known.would_find(replace(file, deletion_vector=vector), new):",
        "if False:",
        JOIN_TESTS,
    ),
    Break(
        "a commit that calls itself blind is joined with",
        "log/commit/join.py",
        " or winner.is_blind_append:",
        ":",
        JOIN_TESTS,
    ),
    Break(
        "a file that is written again loses rows",
        "log/commit/join.py",
        "_marked_again(winner, known.keys - rewritten)",
        "_marked_again(winner, known.keys)",
        JOIN_TESTS,
    ),
    Break(
        "a replaced vector is not counted", "log/commit/join.py", "count + others * (name in", "count + 0 * (name in", JOIN_TESTS
    ),
    Break(
        "the next winner meets the files of before",
        "log/commit/join.py",
        "(known.keys - keys.keys()) | frozenset(keys.values())",
        "known.keys - keys.keys()",
        JOIN_TESTS,
    ),
    Break(
        "files that a winner does not name lose their ids",
        "log/commit/row_ids.py",
        "return action if ids is None else replace(action, base_row_id=ids[0], default_row_commit_version=ids[1])",
        "return replace(action, base_row_id=ids and ids[0], default_row_commit_version=ids and ids[1])",
        JOIN_TESTS,
    ),
)
