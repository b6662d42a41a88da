"""A column of tables that queries see only where they name it, as Spark's `_metadata`: which tables of a text show it,
and where `*` leaves it out.

A query sees it of the tables in its FROM, and through queries in FROM that only choose rows and columns, as in Spark, whose own
rule needs a plan. Source: Spark's grammar, `querySpecification` and `exceptClause`; its analyzer's AddMetadataColumns. Must not
know tables or sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from deltamerge.errors import AnalysisError
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.older import refuse_older
from deltamerge.spark.sql.hidden.queries import Query, queries_of
from deltamerge.spark.sql.lexer import Token, is_name
from deltamerge.spark.sql.tables import TableName, alias_at, opens_query, partner
from deltamerge.spark.sql.text import keyword_at, replaced, tokens_of

Edit = tuple[int, int, str]
"""What stands in the place [first, behind) of a text."""

_WHOLE = ("PIVOT", "UNPIVOT", "|>")


@dataclass(frozen=True, slots=True)
class Relation:
    """What stands in a query's FROM: a table or a query, and the name that qualifies its columns, in lower case, () for none.

    `listed` is the place in the text where the names end that it gives its columns, None where it gives them none. Of one that
    only `filters` the rows of others no star shows columns.
    """

    query: Query
    name: tuple[str, ...]
    listed: int | None = None
    table: TableName | None = None
    inner: Query | None = None
    filters: bool = False

    def goes_by(self, qualifiers: tuple[str, ...]) -> bool:
        """Whether a column's qualifiers are this relation's name, or the end of it."""
        return not qualifiers or self.name[-len(qualifiers) :] == qualifiers

    @property
    def qualifier(self) -> str:
        """What goes before its columns, as SQL text."""
        return f"{quoted(self.name[-1])}." if self.name else ""


@dataclass(slots=True)
class Shown:
    """The tables that have to show the column, and the changes of the text that hide it elsewhere."""

    tables: list[TableName] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)


class HiddenColumn:
    """The places of a text that name the column, and the relations that they may mean."""

    def __init__(self, text: str, name: str, tables: Sequence[TableName]) -> None:
        self._name = name
        self._tokens = tokens_of(text) or []
        self._queries = queries_of(self._tokens)
        self._relations = list(self._found(tables))
        self._showing: dict[int, list[Relation]] = {}
        self._edits: dict[int, str] = {}

    def shown(self, has_hidden: Callable[[TableName], bool], has_own: Callable[[TableName], bool]) -> Shown:
        """What to do so that the text means the column of tables that have it hidden, unless it means one that they have.

        Raises AnalysisError for a query in which it can't be hidden again, InvalidArgumentError for a Spark that is too old.
        """
        self._has_hidden, self._has_own = has_hidden, has_own
        for n in range(len(self._tokens)):
            qualifiers = self._named_at(n)
            if qualifiers is not None:
                self._show(self._queries.owner(n), qualifiers)
        edits = [(place, place, text) for place, text in self._edits.items()]
        for relations in self._showing.values():
            edits += self._stars(relations)
        return Shown([r.table for found in self._showing.values() for r in found if r.table is not None], edits)

    def _found(self, tables: Sequence[TableName]) -> Iterator[Relation]:
        places = {token.start: n for n, token in enumerate(self._tokens)}
        behind = {token.behind: n + 1 for n, token in enumerate(self._tokens)}
        for table in tables:
            query = self._queries.owner(places[table.first])
            if query is not None:
                alias, listed = self._alias_at(behind[table.behind])
                name = alias or tuple(part.lower() for part in table.parts)
                yield Relation(query, name, listed, table=table, filters=self._filters(places[table.first]))
        for inner in self._queries.of_from:
            query = self._queries.owner(inner.opened)
            if query is not None:
                yield Relation(query, *self._alias_at(inner.closed + 1), inner=inner, filters=self._filters(inner.opened))

    def _filters(self, n: int) -> bool:
        """Whether what begins at a place is joined for the rows of the other side alone."""
        return keyword_at(self._tokens, n - 1) == "JOIN" and keyword_at(self._tokens, n - 2) in ("ANTI", "SEMI")

    def _alias_at(self, n: int) -> tuple[tuple[str, ...], int | None]:
        """The alias of what ends before a place, and where the names end that it gives the columns."""
        at = alias_at(self._tokens, n)
        if at is None:
            return (), None
        ends = partner(self._tokens, at + 1) if keyword_at(self._tokens, at + 1) == "(" else len(self._tokens)
        return (self._tokens[at].name.lower(),), self._tokens[ends].start if ends < len(self._tokens) else None

    def _named_at(self, n: int) -> tuple[str, ...] | None:
        """The qualifiers of the column where it is named at a place."""
        tokens = self._tokens
        if not is_name(tokens[n]) or tokens[n].name.lower() != self._name:
            return None
        if keyword_at(tokens, n - 1) == "AS" or (n + 1 < len(tokens) and tokens[n + 1].text == "("):
            return None
        return _qualifiers(tokens, n)

    def _show(self, query: Query | None, qualifiers: tuple[str, ...]) -> None:
        """Have the relations show the column that a place in a query means: its own ones, else those of the query around."""
        while query is not None:
            meant = [r for r in self._relations if r.query is query and r.goes_by(qualifiers)]
            if any(self._shows_own(relation) for relation in meant):
                return
            found = [r for r in meant if r.table is not None and self._has_hidden(r.table)]
            found = found or [r for r in meant if r.inner is not None and self._shows_through(r.inner)]
            if found:
                for relation in found:
                    self._add(query, relation)
                return
            query = query.around if query.sees_around else None

    def _add(self, query: Query, relation: Relation) -> None:
        showing = self._showing.setdefault(query.begin, [])
        if relation in showing:
            return
        showing.append(relation)
        if relation.listed is not None:
            self._edits[relation.listed] = f", {quoted(self._name)}"
        words = {keyword_at(self._tokens, n) for n in self._queries.places(query)}
        unable = next((word for word in _WHOLE if word in words), "NATURAL JOIN" if "NATURAL" in words and showing[1:] else None)
        if unable is not None:
            raise AnalysisError(
                "DELTAMERGE_UNSUPPORTED_STATEMENT",
                f"The column {self._name} of a Delta table is not supported beside {unable}.",
                parameters={"statement": unable},
                hint="Name its fields in a query of their own that reads the table, in parentheses behind FROM.",
            )

    def _shows_own(self, relation: Relation) -> bool:
        """Whether a relation has a column of this name that anybody sees."""
        if relation.table is not None:
            return self._has_own(relation.table)
        assert relation.inner is not None
        return self._chooses(relation.inner)

    def _chooses(self, query: Query) -> bool:
        """Whether a query's list of columns has one that is or is called as the hidden one."""
        for n in self._queries.places(query):
            ends = keyword_at(self._tokens, n + 1) in (",", "FROM", ")", "") and (
                n + 1 >= len(self._tokens) or _ends(self._tokens, n)
            )
            if n < query.source and is_name(self._tokens[n]) and self._tokens[n].name.lower() == self._name and ends:
                return True
        return False

    def _shows_through(self, query: Query) -> bool:
        """Have a query in FROM show the column of its one relation that has it, if it only chooses rows and columns."""
        if not query.only_chooses:
            return False
        inside = [r for r in self._relations if r.query is query]
        found = [r for r in inside if (r.table is not None and self._has_hidden(r.table))]
        found = found or [r for r in inside if r.inner is not None and self._shows_through(r.inner)]
        if len(found) != 1 or any(self._shows_own(relation) for relation in inside):
            return False
        (relation,) = found
        self._add(query, relation)
        self._edits[self._tokens[query.source].start] = f", {relation.qualifier}{quoted(self._name)} "
        return True

    def _stars(self, relations: Sequence[Relation]) -> Iterator[Edit]:
        """The changes of a query's stars by which they leave the column of some relations out."""
        query, seen = relations[0].query, [r for r in relations if not r.filters]
        named = [r for r in self._relations if r.query is query and r.name == (self._name,)]
        for n in self._queries.places(query):
            if not _is_star(self._tokens, n):
                continue
            qualifiers = _qualifiers(self._tokens, n)
            if qualifiers[-1:] == (self._name,) and not any(r.goes_by(qualifiers) for r in named):
                continue
            left_out = [r for r in seen if r.goes_by(qualifiers)]
            names = [quoted(self._name) if len(seen) == 1 else f"{r.qualifier}{quoted(self._name)}" for r in left_out]
            if names:
                yield without(self._tokens, n, names)


def expression_without(text: str, name: str) -> str:
    """An expression whose stars leave a column out. Raises InvalidArgumentError for a Spark that is too old for it."""
    tokens = tokens_of(text) or []
    stars = [n for n in range(len(tokens)) if _is_star(tokens, n) and _qualifiers(tokens, n)[-1:] != (name.lower(),)]
    return replaced(text, [without(tokens, n, [quoted(name)]) for n in stars])


def without(tokens: Sequence[Token], n: int, names: Sequence[str]) -> Edit:
    """The change by which the star at a place leaves columns out, given as SQL text."""
    refuse_older("A star beside the column _metadata", "Name the columns in its place, or use PySpark 4.0 or later.")
    listed = ", ".join(names)
    if keyword_at(tokens, n + 1) == "EXCEPT" and keyword_at(tokens, n + 2) == "(" and not opens_query(tokens, n + 2):
        return tokens[n + 2].behind, tokens[n + 2].behind, f"{listed}, "
    return tokens[n].behind, tokens[n].behind, f" EXCEPT ({listed})"


def _qualifiers(tokens: Sequence[Token], n: int) -> tuple[str, ...]:
    """The names before a dotted name's part, in lower case."""
    found: list[str] = []
    while n > 1 and tokens[n - 1].text == "." and is_name(tokens[n - 2]):
        found.insert(0, tokens[n - 2].name.lower())
        n -= 2
    return tuple(found)


def _is_star(tokens: Sequence[Token], n: int) -> bool:
    """Whether all columns are meant at a place: no multiplication, and no count of rows."""
    if tokens[n].text != "*":
        return False
    before = keyword_at(tokens, n - 1)
    if before == "." and n > 1 and is_name(tokens[n - 2]):
        return True
    counts = before == "(" and keyword_at(tokens, n - 2) == "COUNT" and keyword_at(tokens, n + 1) == ")"
    return (n == 0 or before in ("SELECT", "DISTINCT", "ALL", ",", "(", "*/")) and not counts


def _ends(tokens: Sequence[Token], n: int) -> bool:
    return n + 1 >= len(tokens) or tokens[n + 1].text != "."
