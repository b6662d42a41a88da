"""A plan in words: what the statement asks, and how it runs."""

from __future__ import annotations

from deltamerge.display.shown import Explanation
from deltamerge.display.views import Node, Page, Pairs, Tree
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.plan.physical import PhysicalPlan
from deltamerge.merge.plan.prune import FileFacts
from deltamerge.protocol.values.predicate import ALWAYS

_VERBS = {"MERGE": "MERGE INTO", "DELETE": "DELETE FROM", "UPDATE": "UPDATE"}


def explain(logical: LogicalPlan, physical: PhysicalPlan, files: FileFacts) -> Explanation:
    """The plan in words, a fact a line."""
    resolved = logical.resolved
    about = f"{resolved.snapshot.store.url}, version {resolved.snapshot.version}"
    facts, notes = _facts(logical, files), [("note", note) for note in logical.notes]
    clauses = [
        f"WHEN {clause.kind.value}{f' AND {clause.condition.text}' if clause.condition else ''} THEN {clause.action.name}"
        for clause in resolved.clauses
    ]
    verb = _VERBS[resolved.spec.statement]
    lines = [f"{verb} {about}", *map(_line, facts), *(f"  {clause}" for clause in clauses), *map(_line, notes)]
    lines += [f"  {'plan:' if not number else '':18} {line}" for number, line in enumerate(physical.lines())]
    tree = Tree("Clauses", tuple(map(Node, clauses)))
    return Explanation("\n".join(lines), Page(verb, about, (Pairs("Facts", (*facts, *notes)), tree, plan_view(physical))))


def _facts(logical: LogicalPlan, files: FileFacts) -> list[tuple[str, str]]:
    known = ", ".join(f"{step.files:,} {step.name}" for step in files.funnel[:2])
    facts = [
        ("join", f"source {logical.join.value} target ON {logical.resolved.spec.condition.text}"),
        ("keys", _keys(logical)),
        ("target predicates", str(logical.target_predicate) if logical.target_predicate != ALWAYS else "none"),
        ("file pruning", _pruning(logical)),
        ("files", f"{known}{'; the source decides on the rest' if logical.pairs or logical.ranges else ''}"),
        ("target columns", ", ".join(logical.target_columns) or "none"),
        ("source columns", ", ".join(logical.source_columns) or "none"),
        ("touched files", _touched_files(logical)),
    ]
    if logical.program.projections:
        facts.append(("computed by Spark", ", ".join(projection.value.text for projection in logical.program.projections)))
    return [*facts, ("change data", "written")] if logical.feed else facts


def _line(fact: tuple[str, str]) -> str:
    return f"  {fact[0] + ':':18} {fact[1]}"


def plan_view(plan: PhysicalPlan) -> Tree:
    """A plan that has not run: how the source is read, the attempts in their order, and those that are not made."""
    readings = tuple(Node(step.reading.value, step.reason) for step in plan.readings)
    attempts = tuple(Node(attempt.text, attempt.reason) for attempt in plan.attempts)
    rejected = tuple(Node(strategy.text, reason, chosen=False) for strategy, reason in plan.rejected)
    nodes = (
        Node("The source, by the first way that is possible", below=readings),
        Node("The rows, by the first way that is possible", below=attempts),
        Node("Not possible", below=rejected),
    )
    return Tree("Plan", tuple(node for node in nodes if node.below))


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
