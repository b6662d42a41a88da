"""The profile and the connections: one Spark session, on which deltamerge is active, for all threads of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.deltamerge.cursor import SessionHandle
from dbt.adapters.spark.connections import SparkConnectionManager, SparkConnectionMethod, SparkCredentials
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

ANSI = "spark.sql.ansi.enabled"


@dataclass
class DeltaMergeCredentials(SparkCredentials):
    """A profile needs `type: deltamerge` and a `schema`; `server_side_parameters` are settings of the session."""

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        # dbt-spark asks for both, though the only session that there is needs neither.
        return super().__pre_deserialize__({"method": "session", "host": "session", **data})

    def __post_init__(self) -> None:
        if self.method is not None and self.method != SparkConnectionMethod.SESSION:
            raise DbtRuntimeError(
                f"The adapter deltamerge has the method session only, found {self.method}.\n"
                "Hint: use type: spark for a Thrift server or Databricks."
            )
        asked = {str(name): str(value) for name, value in self.server_side_parameters.items()}
        super().__post_init__()
        # dbt-spark turns ANSI off without asking; who sets it in the profile means it.
        self.server_side_parameters = {**self.server_side_parameters, **asked}

    @property
    def type(self) -> str:
        return "deltamerge"


class DeltaMergeConnectionManager(SparkConnectionManager):
    """dbt-spark's, with a cursor that binds values as parameters."""

    TYPE = "deltamerge"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.state != ConnectionState.OPEN:
            connection.handle = SessionHandle(connection.credentials.server_side_parameters)
            connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        try:
            yield
        except DbtRuntimeError:
            raise
        except Exception as error:
            raise DbtDatabaseError(_told(error)) from error


def _told(error: Exception) -> str:
    """Spark's or deltamerge's message, with what to do in dbt where that is known."""
    message = str(error)
    if "DELTAMERGE_UNSUPPORTED_STATEMENT" in message and "VIEW" in message.upper():
        message += "\nHint: in dbt, materialize the model as table, incremental or ephemeral, not as view."
    return message
