"""A plan in words: what the statement asks, and how it runs."""

from __future__ import annotations

from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.plan.physical import PhysicalPlan
from deltamerge.merge.plan.prune import FileFacts
from deltamerge.protocol.values.predicate import ALWAYS


def explain(logical: LogicalPlan, physical: PhysicalPlan, files: FileFacts) -> str:
    """The plan in words, a fact a line."""
    resolved = logical.resolved
    known = ", ".join(f"{step.files:,} {step.name}" for step in files.funnel[:2])
    lines = [
        f"MERGE INTO {resolved.snapshot.store.url}, version {resolved.snapshot.version}",
        f"  join:              source {logical.join.value} target ON {resolved.spec.condition.text}",
        f"  keys:              {_keys(logical)}",
        f"  target predicates: {logical.target_predicate if logical.target_predicate != ALWAYS else 'none'}",
        f"  file pruning:      {_pruning(logical)}",
        f"  files:             {known}{'; the source decides on the rest' if logical.pairs or logical.ranges else ''}",
        f"  target columns:    {', '.join(logical.target_columns) or 'none'}",
        f"  source columns:    {', '.join(logical.source_columns) or 'none'}",
        f"  touched files:     {_touched_files(logical)}",
    ]
    if logical.feed:
        lines.append("  change data:       written")
    for clause in resolved.clauses:
        condition = f" AND {clause.condition.text}" if clause.condition else ""
        lines.append(f"  WHEN {clause.kind.value}{condition} THEN {clause.action.name}")
    lines += [f"  note:              {note}" for note in logical.notes]
    lines += [f"  {'plan:' if not number else '':18} {line}" for number, line in enumerate(physical.lines())]
    return "\n".join(lines)


def _keys(logical: LogicalPlan) -> str:
    found = ", ".join(f"{pair.target} {'<=>' if pair.null_safe else '='} source.{pair.source}" for pair in logical.pairs)
    return f"{found}; rows without a match are looked at, too" if found and not logical.keys else found or "none"


def _pruning(logical: LogicalPlan) -> str:
    if logical.by_source == ALWAYS:
        return "none"
    found = [f"{pair.target} in source.{pair.source}" for pair in logical.pairs]
    pairs = {(pair.target, pair.source) for pair in logical.pairs}
    found += [f"{r.target} {r.op} source.{r.source}" for r in logical.ranges if (r.target, r.source) not in pairs]
    text = " and ".join(found) or "none by the source"
    return text if logical.by_source is None else f"{text}, or by source: {logical.by_source}"


def _touched_files(logical: LogicalPlan) -> str:
    if not logical.rewrite_share:
        return "rewritten"
    return f"marked by deletion vectors, rewritten when more than {logical.rewrite_share:.0%} of their rows are gone"
