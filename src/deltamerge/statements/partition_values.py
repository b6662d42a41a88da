"""`PARTITION (column = value, ..)` of INSERT: which values may stand there, and the rows that they name.

Source: Spark's grammar, `partitionVal`, and its PreprocessTableInsertion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructField, StructType
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.schema import spark_type
from deltamerge.spark.sql.lexer import Kind, Token
from deltamerge.spark.sql.text import tokens_of

_WORDS = ("null", "true", "false")
_TYPES = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz", "x")
# How a statement's arguments are written where Spark has no literal for them.
_ARGUMENT = re.compile(r"CAST\(X'[0-9a-f]*' AS STRING\)|double\('[a-z-]+'\)|timestamp_micros\(-?[0-9]+L\)")
_WHOLE = ("byte", "short", "integer", "long")


def is_literal(text: str) -> bool:
    """Whether a text is a literal, with a sign and in parentheses or not."""
    if _ARGUMENT.fullmatch(text):
        return True
    tokens = [token for token in tokens_of(text) or [] if token.text not in ("(", ")")]
    if tokens and tokens[0].text == "-":
        return [token.kind for token in tokens[1:]] == [Kind.NUMBER]
    if tokens and tokens[0].kind is Kind.WORD:
        word = tokens.pop(0).text.lower()
        return not tokens if word in _WORDS else word in _TYPES and len(tokens) == 1 and _are_strings(tokens)
    return [token.kind for token in tokens] == [Kind.NUMBER] or _are_strings(tokens)


def _are_strings(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and all(token.kind is Kind.STRING for token in tokens)


def check_partition(names: Sequence[str], partition_columns: Sequence[str]) -> None:
    """Raise AnalysisError for the name of a column that the table is not partitioned by."""
    known = {name.lower() for name in partition_columns}
    for name in names:
        if name.lower() not in known:
            raise AnalysisError(
                "NON_PARTITION_COLUMN",
                f"PARTITION clause cannot contain the non-partition column: {name}.",
                parameters={"columnName": name},
                hint="INSERT INTO .. REPLACE WHERE replaces the rows of any condition.",
            )


def rows_of_partition(schema: StructType, values: Mapping[str, str]) -> str:
    """The predicate of the rows whose partition columns have these values, as the columns' types have them."""
    fields = {field.name.lower(): field for field in schema}
    return " AND ".join(f"{quoted(name)} <=> {_typed(fields[name.lower()], text)}" for name, text in values.items())


def _typed(field: StructField, text: str) -> str:
    """The value in the column's type: Spark compares a text with a number as numbers, by which '01' is 1."""
    type = spark_type(field.type)
    kinds = [token.kind for token in tokens_of(text) or []]
    is_text = type.typeName() == "string" and kinds == [Kind.STRING]
    is_number = type.typeName() in _WHOLE and kinds == [Kind.NUMBER] and text.isdecimal()
    is_null = text.upper() == "NULL"
    return f"({text})" if is_text or is_number or is_null else f"CAST(({text}) AS {type.simpleString()})"
