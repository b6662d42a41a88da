"""The properties that a session's settings give to each new table. Source: delta-spark's DeltaConfigs."""

from __future__ import annotations

from deltamerge.protocol.table.known_properties import defaults_of
from deltamerge.spark.session.adapter import names_of_settings, read_settings
from deltamerge.spark.session.frames import Session

_DEFAULTS = "spark.databricks.delta.properties.defaults"


def session_defaults(spark: Session) -> dict[str, str]:
    """The properties that the session's settings give to each new table. Raises InvalidArgumentError."""
    names = names_of_settings(spark, f"{_DEFAULTS}.")
    values = read_settings(spark, names) if names else {}
    return defaults_of([(name, str(value)) for name, value in values.items() if value is not None], _DEFAULTS)
