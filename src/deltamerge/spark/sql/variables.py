"""Variables in SQL text: `${name}` stands for the session setting of that name, as it does in the text of `spark.sql`.

Source: Spark's VariableSubstitution and ConfigReader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.errors import AnalysisException

from deltamerge.errors import InvalidArgumentError
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting

_REFERENCE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}", re.ASCII)
_BLANK = re.compile(r"\s", re.ASCII)
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
    for match in references(found):
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

    parts, behind = [], 0
    for match in references(text):
        parts += [text[behind : match.start()], value(match)]
        behind = match.end()
    return "".join([*parts, text[behind:]])


def references(text: str) -> Iterator[re.Match[str]]:
    """The matches of `_REFERENCE`, in a time that grows with the text: by itself it would look for an end from each beginning."""
    begin, end, blank = text.find("${"), 0, -1
    while begin >= 0:
        if end < begin + 3:
            end = text.find("}", begin + 3)
        if end < 0:
            return
        if blank < begin:
            found = _BLANK.search(text, begin)
            blank = len(text) if found is None else found.start()
        match = _REFERENCE.match(text, begin) if end < blank else None
        if match is not None:
            yield match
        begin = text.find("${", begin + 2 if match is None else match.end())


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
