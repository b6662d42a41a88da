"""The choice of how a merge runs: facts and budgets in, a physical plan out, with the reason for each thing that it does or not.

Pure: no Spark, no file, no callback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.merge.plan.exchange import (
    POSITION_BYTES,
    Layout,
    Layouts,
    field_type,
    is_ranged,
    spread_columns,
    updates_whole_rows,
)
from deltamerge.merge.plan.logical import LogicalPlan, Strategy, hashed_keys
from deltamerge.merge.plan.physical import (
    Attempt,
    Broadcast,
    EvaluateSource,
    Exchange,
    PhysicalPlan,
    Reader,
    RemoveFiles,
    RowFilter,
    SparkJoin,
    sized,
)
from deltamerge.merge.plan.prune import FileFacts
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.protocol.schema.char_varchar import char_varchars
from deltamerge.protocol.schema.types import arrow_schema, arrow_type
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.protocol.values.widths import row_width, unpacked_width
from deltamerge.spark.source.evaluate import Reading, ReadingStep, kept_files
from deltamerge.spark.source.facts import Evaluation, SourceFacts
from deltamerge.spark.source.inspect import is_overestimated
from deltamerge.spark.stages.target import null_free
from deltamerge.worker.join.clauses import asked_columns, needed_columns

_WHOLE_ROWS = "constraints and generated columns are evaluated over whole rows"
_OTHER_TYPE = "Arrow does not carry a type of the source"
_EXCHANGES = (Strategy.RANGE_EXCHANGE, Strategy.HASH_EXCHANGE)


@dataclass(frozen=True)
class Facts:
    """What is known when a choice is made: of the source, and of the files that may hold matches."""

    source: SourceFacts
    files: FileFacts


def choose(logical: LogicalPlan, facts: Facts, budgets: Budgets) -> PhysicalPlan:
    """How a merge runs, by what is known. Before the source is evaluated the plan says how it will be, and has an attempt for
    each way in which that may end.
    """
    source, files = facts.source, facts.files
    readings: tuple[ReadingStep, ...] = ()
    layouts = Layouts(logical, files, budgets)
    if source.evaluation is Evaluation.NONE:
        sent = _exchanges(logical, Facts(source.deferred(), files), budgets, layouts)[0] if source.files else ()
        # The partitions of a materialized source are known: fewer files are read, and concurrent merges into others do not fail.
        known = replace(source, bounds=None) if logical.resolved.snapshot.partition_columns else source
        in_driver = bool(sent) and _suits_driver(logical, facts, budgets)
        readings = choose_readings(known, budgets, large_source(files, budgets), logical.rereads, sent, in_driver)
        first = readings[0].reading
        kept = kept_files(source, budgets) if first is Reading.READ_FILES else ()
        source = source.deferred() if first is Reading.DEFER else replace(source, files=kept, bounds=None)
    exchanges, rejected = _exchanges(logical, Facts(source, files), budgets, layouts)
    broadcasts = _broadcasts(logical, Facts(source, files), budgets, bool(exchanges))
    attempts: tuple[Attempt, ...] = exchanges
    if isinstance(broadcasts, str):
        rejected = ((Strategy.BROADCAST, broadcasts), *rejected)
    else:
        attempts = (*broadcasts, *exchanges)
    if logical.removes_files and logical.strategy is Strategy.AUTO:
        attempts = (RemoveFiles("the condition is about partition columns: all rows of a file are deleted, or none"), *attempts)
    return PhysicalPlan(readings, (*attempts, _last(logical, Facts(source, files), budgets, attempts)), rejected)


def large_source(files: FileFacts, budgets: Budgets) -> int:
    """The bytes from which on a source is large beside the table: its keys spare no files."""
    return int(files.funnel[1].bytes * budgets.deferred_share)


def _suits_driver(logical: LogicalPlan, facts: Facts, budgets: Budgets) -> bool:
    """Whether the driver takes the source, all changed rows, and all files: the jobs of an exchange take longer."""
    source, files, by_source = facts.source.deferred(), facts.files, logical.program.of(ClauseKind.BY_SOURCE)
    rows, size = source.rows or 0, source.bytes or 0
    updated = files.rows if any(compiled.clause.action is Action.UPDATE for compiled in by_source) else 0
    changed = (rows + updated) * (row_width(arrow_schema(logical.resolved.schema)) + POSITION_BYTES)
    fits = size <= budgets.collected_bytes and rows <= budgets.driver_source_rows and files.bytes <= budgets.driver_write_bytes
    fits = fits and max(changed, size + rows * POSITION_BYTES) <= budgets.changed_bytes
    fits = fits and not (by_source and files.are_too_many(budgets))
    return fits and not isinstance(_broadcasts(logical, facts, budgets, exchanged=True), str)


def choose_readings(
    source: SourceFacts,
    budgets: Budgets,
    large: int = 0,
    rereads: str | None = None,
    sent: Sequence[Exchange] = (),
    in_driver: bool = False,
) -> tuple[ReadingStep, ...]:
    """The ways to evaluate a source, best first. One of a `large` number of bytes may be read while it is merged, unless its rows
    are looked at more than once, for a reason that `rereads` gives; `sent` are the exchanges that would then be possible, unless
    the merge is done sooner `in_driver`.
    """
    estimate, limit = source.estimate, budgets.collected_bytes
    if not source.fits_arrow:
        return (ReadingStep(Reading.CHECKPOINT_IN_SPARK, _OTHER_TYPE),)
    size = source.bytes or 0
    files = [ReadingStep(Reading.READ_FILES, f"they have {sized(size)}")]
    files = files if source.files and source.are_visible and size <= limit else []
    if estimate is not None and estimate <= budgets.trusted_estimate_bytes:
        collected = ReadingStep(Reading.COLLECT, f"Spark estimates it at {sized(estimate)}")
        return (*files, collected, ReadingStep(Reading.CHECKPOINT_AND_COUNT, "spark.driver.maxResultSize may not allow its rows"))
    is_large = estimate is not None and estimate >= large
    is_overestimate = estimate is not None and is_overestimated(estimate, budgets)
    if source.is_repeatable and source.files:
        if is_large and size > limit:
            return (ReadingStep(Reading.DEFER, f"it has {sized(size)}, more than is collected, and is large beside the table"),)
        if is_large and size > budgets.trusted_estimate_bytes and sent:
            defer = ReadingStep(Reading.DEFER, "it is large beside the table, and its rows are sent to where they are written")
            return (*files, defer) if in_driver else (defer,)
        if size > limit and source.bounds is not None and sent and sent[0].strategy is Strategy.RANGE_EXCHANGE:
            reason = "its footers tell the bounds of its keys, and its rows go straight to their files"
            return (ReadingStep(Reading.DEFER, reason),)
    is_countable = source.has_known_widths and not is_overestimate
    if source.is_repeatable and (is_large or is_countable):
        count = Reading.COUNT_OR_DEFER if is_large else Reading.COUNT
        files += [ReadingStep(count, f"Spark's estimate of {sized(estimate or 0)} may be too high")]
    if rereads:
        reason = rereads
    elif estimate is None:
        reason = "Spark does not know its size"
    elif is_overestimate and not is_large:
        reason = "it is small beside the table, whose files its keys may spare"
    else:
        reason = "a second reading may give other rows"
    kind = Reading.CHECKPOINT_AND_COUNT if is_overestimate and source.has_known_widths else Reading.CHECKPOINT
    return (*files, ReadingStep(kind, reason))


def _asked(logical: LogicalPlan) -> str:
    return f"spark.deltamerge.strategy asks for {logical.strategy.text}"


def _broadcasts(logical: LogicalPlan, facts: Facts, budgets: Budgets, exchanged: bool) -> tuple[Broadcast, ...] | str:
    """The broadcasts to try, or why there are none; `exchanged` says that exchanges are possible."""
    source, files = facts.source, facts.files
    if logical.strategy is Strategy.SPARK_JOIN or (exchanged and logical.strategy in _EXCHANGES):
        return _asked(logical)
    if logical.resolved.constraints:
        return _WHOLE_ROWS
    by_condition = logical.target_condition is not None and logical.by_source is None
    if by_condition and source.evaluation is Evaluation.COLLECTED and source.rows == 1:
        if files.bytes > budgets.condition_bytes:
            return f"the files have {sized(files.bytes)}, in which the condition may be true for more rows than the driver takes"
        return (Broadcast("Arrow evaluates the search condition, which is about the target alone, and the source has one row"),)
    if not logical.pairs:
        return "the search condition has no equality of a source column and a target column"
    if not source.fits_arrow:
        return _OTHER_TYPE
    if source.evaluation is Evaluation.DEFERRED:
        return "the source is read while it is merged"
    if source.evaluation is Evaluation.MATERIALIZED:
        if (source.bytes or 0) <= budgets.collected_bytes:
            return f"the source has {sized(source.bytes or 0)}, and spark.driver.maxResultSize does not allow its rows"
        return f"the source has {sized(source.bytes or 0)}, and at most {sized(budgets.collected_bytes)} are collected"
    if source.evaluation is Evaluation.COLLECTED and files.lookup is None:
        return "equal keys can't be told by numbers of 64 bits"
    reason = f"the source is collected if it has at most {sized(budgets.collected_bytes)}"
    if source.evaluation is Evaluation.COLLECTED:
        reason = f"the source is collected, {source.rows:,} rows"
    elif source.estimate is not None and source.estimate <= budgets.trusted_estimate_bytes:
        reason = "the source is collected"
    early = _early_columns(logical, facts, budgets)
    if isinstance(early, str):
        return (Broadcast(f"{reason}; what updates keep is read afterwards: {early}"),)
    if not early:
        return (Broadcast(reason),)
    return Broadcast(f"{reason}; what updates keep may fit", early), Broadcast("what updates keep may not fit")


def _early_columns(logical: LogicalPlan, facts: Facts, budgets: Budgets) -> tuple[str, ...] | str:
    """The columns that updates keep, to be read together with the keys of matched rows, or why they are not; () where none is
    read.

    They are not where files are written again anyway, not every matched row is updated, or a row is more than its columns as
    they are read.
    """
    resolved, matched = logical.resolved, logical.program.of(ClauseKind.MATCHED)
    names = resolved.schema.names
    updates = [compiled.program.values for compiled in matched if compiled.clause.action is Action.UPDATE]
    kept = tuple(name for name in names if any(name not in values for values in updates))
    if not kept or not logical.rewrite_share:
        return ()
    last = matched[-1].clause
    if last.condition is not None or last.action is not Action.UPDATE:
        return "not every matched row is updated"
    if not set(names) - matched[-1].program.values.keys():
        return "the last update sets all columns"
    if logical.feed:
        return "the change data feed takes whole rows"
    if logical.by_source is not None:
        return "rows without a match are looked at, too"
    if not logical.equi_only:
        return "the search condition is more than equalities of columns"
    snapshot = resolved.snapshot
    if resolved.metadata is not None:
        return "the schema changes"
    if tracking_columns(snapshot.protocol, snapshot.metadata) is not None:
        return "rows have ids"
    if any(text.padded for text in char_varchars(resolved.schema)) or any(null_free(resolved.schema)):
        return "a column is written otherwise than it is read"
    width = unpacked_width(facts.files.bytes // max(1, facts.files.rows), len(names))
    size = (facts.source.rows or 0) * width
    return kept if size <= budgets.early_bytes else f"it may take {sized(size)}"


def _exchanges(
    logical: LogicalPlan, facts: Facts, budgets: Budgets, layouts: Layouts
) -> tuple[tuple[Exchange, ...], tuple[tuple[Strategy, str], ...]]:
    """The exchanges to try, and why others are not."""
    blocker = _exchange_blocker(logical, budgets)
    blocker = blocker or (None if facts.files.count else "no file is left to be looked into")
    blocker = blocker or (None if facts.source.fits_arrow else _OTHER_TYPE)
    if blocker is not None:
        return (), tuple((strategy, blocker) for strategy in _EXCHANGES)
    by_range, by_hash = _exchange(layouts, facts.source, hashed=False), _exchange(layouts, facts.source, hashed=True)
    if logical.strategy in _EXCHANGES:
        asked, instead = (by_range, by_hash) if logical.strategy is Strategy.RANGE_EXCHANGE else (by_hash, by_range)
        return _with_fallbacks(asked, layouts, facts.source), ((instead.strategy, _asked(logical)),)
    has_ranges = layouts.best.overlap <= budgets.range_overlap
    candidate, other = (by_range, Strategy.HASH_EXCHANGE) if has_ranges else (by_hash, Strategy.RANGE_EXCHANGE)
    why = "files have ranges of keys of their own"
    if not has_ranges:
        why = f"a source row would go to {layouts.best.overlap:.1f} tasks on average"
    blocker = None if has_ranges else _no_hash(layouts, facts.source)
    blocker = blocker or _too_wide(logical, facts, layouts.best, candidate, budgets)
    if blocker is None:
        return _with_fallbacks(candidate, layouts, facts.source), ((other, why),)
    return (), tuple(sorted(((candidate.strategy, blocker), (other, why)), key=lambda pair: _EXCHANGES.index(pair[0])))


def may_be_exchanged(logical: LogicalPlan, budgets: Budgets) -> bool:
    """Whether rows of the source may be sent to tasks, whatever is known of source and files."""
    return _exchange_blocker(logical, budgets) is None


def _exchange_blocker(logical: LogicalPlan, budgets: Budgets) -> str | None:
    """Why rows of the source can't be sent, whatever the files are; None where they can."""
    resolved = logical.resolved
    if logical.strategy not in (Strategy.AUTO, *_EXCHANGES):
        return _asked(logical)
    if resolved.constraints:
        return _WHOLE_ROWS
    if resolved.identities:
        return "identity columns are numbered"
    if resolved.original_clauses is not None:
        return "skipUnchanged() compares whole rows"
    for compiled in logical.program.clauses:
        if compiled.left is not None:
            return f"Spark must evaluate {compiled.left}"
    if not logical.equi_only:
        return "the search condition is more than equalities of columns"
    if len(logical.pairs) > budgets.exchange_keys:
        return f"there are more than {budgets.exchange_keys} key columns"
    for pair in logical.pairs:
        target, source = (
            arrow_type(field_type(schema, name))
            for schema, name in ((resolved.scope.target, pair.target), (resolved.scope.source, pair.source))
        )
        are_whole = pa.types.is_integer(target) and pa.types.is_integer(source)
        if pair.null_safe:
            return "the search condition compares nulls (<=>)"
        if not (source.equals(target) or (are_whole and source.bit_width <= target.bit_width)):
            return f"{pair.target} and {pair.source} have different types"
    if not any(is_ranged(resolved.scope.target, pair) for pair in logical.pairs):
        return "no key is a whole number, a date or a timestamp"
    return None


def _exchange(layouts: Layouts, source: SourceFacts, hashed: bool) -> Exchange:
    """The exchange by the best layout, as it is if workers read the source, and few of its columns are sent if that is enough."""
    layout, logical, program = layouts.best, layouts.logical, layouts.logical.program
    matched, inserts = (
        [compiled.program for compiled in program.of(kind)] for kind in (ClauseKind.MATCHED, ClauseKind.NOT_MATCHED)
    )
    partitions = logical.resolved.snapshot.partition_columns
    spread_by = spread_columns(inserts, partitions)
    own = {pair.source for pair in logical.pairs}
    needed, asked = own | set(needed_columns(matched, "source")), own | set(asked_columns((*matched, *inserts), "source"))
    few = bool(inserts) and 2 * len(needed) <= len(needed_columns(inserts, "source"))
    # To send most columns for the sake of conditions, and to read all of them again, has not been shown to be faster.
    are_few = asked == own or 2 * len(asked) <= len(needed_columns((*matched, *inserts), "source"))
    as_delete_insert = hashed and bool(source.files) and are_few and updates_whole_rows(logical, matched, inserts)
    needed = asked if as_delete_insert else needed
    only = tuple(sorted(needed)) if as_delete_insert or few else ()
    if not hashed:
        by = "ranges" if layout.ranges.partitions is None else "partition and ranges"
        reason = f"a source row goes to {layout.overlap:.1f} tasks on average, by {by} of {layout.key}"
        return Exchange(reason, Reader.SPARK, layout.key, layout.ranges, key_only=only, spread_by=spread_by)
    keys = tuple((each.pair.target, each.pair.source) for each in layouts.hashed)
    reason = "files have no ranges of keys of their own" if logical.strategy is Strategy.AUTO else _asked(logical)
    tasks = layouts.hash_tasks(source, only)
    return Exchange(reason, Reader.SPARK, layout.key, layout.ranges, keys, tasks, only, as_delete_insert, spread_by)


def _no_hash(layouts: Layouts, source: SourceFacts) -> str | None:
    if not source.files:
        return "Spark reads the source, and joins it as fast as it would send it twice"
    tasks, budgets = layouts.hash_tasks(source), layouts.budgets
    possible = budgets.hash_keys_per_task * tasks
    if len(layouts.hashed) < len(layouts.logical.pairs):
        possible = max(possible, budgets.hash_column_keys)
    if (span := layouts.hash_span) >= possible:
        return None
    if not span:
        return "nothing says how many different keys there are"
    return f"there are at most {span:,} different keys, too few for {tasks} tasks"


def _too_wide(logical: LogicalPlan, facts: Facts, layout: Layout, exchange: Exchange, budgets: Budgets) -> str | None:
    """Whether the rows that change a task's files may be too large, or more columns would be sent than a join moves."""
    source = facts.source
    if exchange.key_only and not source.files:
        return "few columns of the source are needed to match, and Spark would send them all"
    rows, size = source.rows or 0, source.bytes or 0
    sent = row_width(arrow_schema(logical.resolved.scope.source.select(list(logical.source_columns))))
    # Each source row changes one row, mostly; where it changes many, the task says that it buffers too much. Collected rows that
    # were not matched in the driver do change many.
    may_be_all = logical.program.of(ClauseKind.BY_SOURCE) or source.evaluation is Evaluation.COLLECTED or not rows
    most = layout.most_rows if may_be_all else min(layout.most_rows, rows)
    total = most * max(sent, size // max(1, rows))
    if total <= budgets.exchange_task_rows_bytes:
        return None
    return f"the rows that change in a task's files may take {sized(total)}"


def _with_fallbacks(exchange: Exchange, layouts: Layouts, source: SourceFacts) -> tuple[Exchange, ...]:
    """The exchange with few columns, with all that workers read, and with those that Spark reads, as far as it is possible.

    A second job writes the rows that it reads: of a partitioned table each of its tasks would leave a file in each partition.
    """
    tasks = layouts.hash_tasks(source) if exchange.hash_tasks else 0
    by_spark = replace(exchange, key_only=(), update_as_delete_insert=False, hash_tasks=tasks)
    if not source.files:
        return (by_spark,)
    attempts = []
    partitions = layouts.logical.resolved.snapshot.partition_columns
    fits = (source.rows or 0) <= layouts.budgets.position_rows and not partitions
    if exchange.key_only and fits:
        attempts = [replace(exchange, reader=Reader.WORKERS)]
    reason = "a source row may match several target rows" if exchange.update_as_delete_insert and attempts else exchange.reason
    if not attempts or exchange.update_as_delete_insert:
        attempts.append(replace(by_spark, reader=Reader.WORKERS, reason=reason))
    by_spark = replace(by_spark, reason="workers may not read a file of the source as Spark does")
    return tuple(attempts) if source.is_read_unevaluated else (*attempts, by_spark)


def _last(logical: LogicalPlan, facts: Facts, budgets: Budgets, before: Sequence[Attempt]) -> Attempt:
    """What is always possible."""
    source, files = facts.source, facts.files
    if source.is_read_unevaluated:
        return EvaluateSource("files of the table were pruned by what the footers of the source's files say")
    reason = "it is always possible, and spills to disk" if before else "nothing else is possible"
    if files.row_filter is not None:
        return SparkJoin(reason, RowFilter.KEYS)
    rows = source.rows or 0
    is_known = source.evaluation is Evaluation.MATERIALIZED and 0 < rows <= budgets.bloom_keys and any(hashed_keys(logical))
    is_worth_it = is_known and files.count and files.rows >= budgets.bloom_rows_per_key * rows
    return SparkJoin(reason, RowFilter.BLOOM if is_worth_it else RowFilter.NONE)
