"""IDENTIFIER(..) in SQL text: the name of a table or column that an expression makes.

Source: Spark's `identifierReference`.
"""

from __future__ import annotations

from deltamerge.errors import ParseError
from deltamerge.spark.expressions.queries import query_frame
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Session
from deltamerge.spark.sql.tables import partner
from deltamerge.spark.sql.text import makes_name, name_parts_of, replaced, tokens_of


def with_identifiers(spark: Session, text: str) -> str:
    """The text with each IDENTIFIER(..) replaced by the name that Spark makes of it. Raises ParseError, AnalysisError."""
    tokens = tokens_of(text) or []
    found = []
    for n, token in enumerate(tokens):
        if makes_name(tokens, n):
            last = tokens[min(partner(tokens, n + 1), len(tokens) - 1)]
            found.append((token.start, last.behind, _name(spark, text[tokens[n + 1].behind : last.start])))
    return replaced(text, found)


def _name(spark: Session, expression: str) -> str:
    ((found,),) = query_frame(spark, f"SELECT {expression}").collect()
    parts = name_parts_of(found) if isinstance(found, str) else ()
    if not parts:
        raise ParseError(
            "PARSE_SYNTAX_ERROR",
            f"IDENTIFIER({expression}) is no name: {found!r}.",
            parameters={"expression": expression},
            hint="Give a text such as 'db.table' or 'column'.",
        )
    return ".".join(map(quoted, parts))
