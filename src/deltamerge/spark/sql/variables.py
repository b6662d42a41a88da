"""Variables in SQL text: `${name}` stands for the session setting of that name, as it does in the text of `spark.sql`.

Source: Spark's VariableSubstitution and ConfigReader.
"""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException

from deltamerge.errors import InvalidArgumentError
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting

_REFERENCE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}", re.ASCII)
_SETTINGS = ("spark", "sparkconf", "hivevar", "hiveconf")
_OUTSIDE = ("env", "system")
_ENABLED = "spark.sql.variable.substitute"


def with_variables(spark: Session, text: str) -> str:
    """Text with the session's settings in place of the variables that name them, empty where there is none.

    Raises InvalidArgumentError for variables that lead back to themselves, and for those that Spark would put in once more when
    it is given a part of the text.
    """
    if "${" not in text or setting(spark, _ENABLED, "true").strip().lower() != "true":
        return text
    found = _substituted(spark, text, ())
    for match in _REFERENCE.finditer(found):
        if _substituted(spark, match[0], ()) != match[0]:
            raise _unclear(match[0])
    return found


def _substituted(spark: Session, text: str, within: tuple[str, ...]) -> str:
    def value(match: re.Match[str]) -> str:
        prefix, name = match.groups()
        if prefix in _OUTSIDE:
            return _outside(spark, match[0])
        if prefix is not None and prefix not in _SETTINGS:
            return match[0]
        if name in within:
            raise InvalidArgumentError(
                "DELTAMERGE_CIRCULAR_VARIABLE",
                f"The variable ${{{name}}} stands for itself: {' -> '.join((*within, name))}.",
                parameters={"name": name},
                hint=f"Set it to a text without variables, or switch {_ENABLED} off.",
            )
        return _substituted(spark, setting(spark, name, ""), (*within, name))

    return _REFERENCE.sub(value, text)


def _outside(spark: Session, reference: str) -> str:
    """What Spark's driver knows by `${env:..}` or `${system:..}`: it makes a column's name of it."""
    try:
        columns = [] if "`" in reference else plain_sql(spark, f"SELECT 1 AS `_{reference}`").columns
    except AnalysisException:
        columns = []
    if len(columns) != 1 or "`" in columns[0]:
        raise _unclear(reference)
    return str(columns[0][1:])


def _unclear(reference: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTAMERGE_UNCLEAR_VARIABLE",
        f"What {reference} stands for would be read otherwise in a part of the statement than in the whole.",
        parameters={"name": reference},
        hint="Write its value, or give it as an argument of the statement.",
    )
