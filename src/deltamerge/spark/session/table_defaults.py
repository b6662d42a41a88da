"""The properties that a session's settings give to each new table. Source: delta-spark's DeltaConfigs."""

from __future__ import annotations

from deltamerge.protocol.table.known_properties import defaults_of
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import read_settings

_DEFAULTS = "spark.databricks.delta.properties.defaults"


def session_defaults(spark: Session) -> dict[str, str]:
    """The properties that the session's settings give to each new table. Raises InvalidArgumentError."""
    values = read_settings(spark, (), f"{_DEFAULTS}.")
    return defaults_of([(name, str(value)) for name, value in values.items() if value is not None], _DEFAULTS)
