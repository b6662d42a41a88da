"""`WITH name AS (query), ..` before DELETE, INSERT or UPDATE. Source: Spark's grammar, `dmlStatementNoWith` behind `ctes`."""

from __future__ import annotations

from deltamerge.errors import ParseError
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.rows.delete import parse_delete
from deltamerge.statements.rows.insert import parse_insert
from deltamerge.statements.rows.update import parse_update
from deltamerge.statements.statement import Statement


def changes_rows(reader: Reader) -> bool:
    """Whether DELETE, INSERT or UPDATE stands behind WITH and its queries. The reader is before WITH."""
    try:
        reader.ctes()
    except ParseError:  # Spark says what is wrong with it
        return False
    return reader.sees("UPDATE") or reader.sees("INSERT") or (reader.sees("DELETE") and reader.sees("FROM", 1))


def parse_with(reader: Reader) -> Statement | None:
    """What follows WITH. Raises ParseError."""
    reader.go_to(reader.behind - 1)
    ctes = reader.ctes()
    if reader.take("INSERT"):
        return parse_insert(reader, ctes)
    if reader.take("UPDATE"):
        return parse_update(reader, ctes)
    reader.expect("DELETE")
    reader.expect("FROM")
    return parse_delete(reader, ctes)
