"""The dbt adapter `deltamerge`: dbt-spark's session method, with deltamerge answering for Delta tables."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.deltamerge.adapter import DeltaMergeAdapter
from dbt.adapters.deltamerge.connections import DeltaMergeConnectionManager, DeltaMergeCredentials
from dbt.include import deltamerge

__all__ = ["DeltaMergeAdapter", "DeltaMergeConnectionManager", "DeltaMergeCredentials", "Plugin"]

Plugin = AdapterPlugin(
    adapter=DeltaMergeAdapter,  # type: ignore[arg-type]
    credentials=DeltaMergeCredentials,
    include_path=deltamerge.PACKAGE_PATH,
    dependencies=["spark"],
)
