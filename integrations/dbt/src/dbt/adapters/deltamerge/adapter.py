"""What dbt asks of the adapter itself is answered by dbt-spark."""

from __future__ import annotations

import threading
from typing import Any

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.deltamerge.connections import DeltaMergeConnectionManager
from dbt.adapters.spark.column import SparkColumn
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError


class DeltaMergeAdapter(SparkAdapter):
    """dbt-spark's adapter on connections of its own."""

    ConnectionManager = DeltaMergeConnectionManager

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._views: dict[str, str] = {}
        self._lock = threading.Lock()

    def parse_columns_from_information(self, relation: BaseRelation) -> list[SparkColumn]:
        """The columns of a Delta table are those of its log, not of the metastore: without any, dbt-spark asks DESCRIBE."""
        return [] if relation.is_delta else super().parse_columns_from_information(relation)

    @available
    def claim_view(self, name: str, schema: str) -> None:
        """Refuse a temporary view that a model of another schema has, too: of two threads, one would merge the other's rows."""
        with self._lock:
            other = self._views.setdefault(name.lower(), schema)
        if other != schema and self.config.threads > 1:
            raise DbtRuntimeError(
                f"The schemas {other} and {schema} both have a model that needs the temporary view {name}.\n"
                "Hint: give one of the models another alias, or run dbt with --threads 1."
            )
