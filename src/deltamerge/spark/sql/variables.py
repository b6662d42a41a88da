"""Variables in SQL text: `${name}` stands for the session setting of that name, as it does in the text of `spark.sql`.

Source: Spark's VariableSubstitution and ConfigReader.
"""

from __future__ import annotations

import re

from deltamerge.errors import InvalidArgumentError
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting

# `${env:..}` and `${system:..}` are the JVM's: they stay, and Spark substitutes them where it parses the expressions.
_REFERENCE = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?((?!\w+:)\S+?)\}")
_ENABLED = "spark.sql.variable.substitute"


def with_variables(spark: Session, text: str) -> str:
    """Text with the session's settings in place of the variables that name them, empty where there is none.

    Raises InvalidArgumentError for variables that lead back to themselves.
    """
    if "${" not in text or setting(spark, _ENABLED, "true").strip().lower() != "true":
        return text
    return _substituted(spark, text, ())


def _substituted(spark: Session, text: str, within: tuple[str, ...]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in within:
            raise InvalidArgumentError(
                "DELTAMERGE_CIRCULAR_VARIABLE",
                f"The variable ${{{name}}} stands for itself: {' -> '.join((*within, name))}.",
                parameters={"name": name},
                hint=f"Set it to a text without variables, or switch {_ENABLED} off.",
            )
        return _substituted(spark, setting(spark, name, ""), (*within, name))

    return _REFERENCE.sub(value, text)
