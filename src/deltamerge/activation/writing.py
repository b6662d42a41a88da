"""What a `DataFrameWriter` was told, as the request of a write. Source: delta-spark's DeltaOptions and DeltaDataSource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltamerge.commands.rows.request import WriteRequest, request_of
from deltamerge.errors import InvalidArgumentError

_STORES = ("fs.", "dfs.")
_LOCATION, _COMMENT = "location", "comment"


@dataclass(frozen=True, slots=True)
class Told:
    """What a writer was told; options by their names as they were written."""

    mode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    buckets: bool = False
    table_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str | None:
        """The option `path`, or the property `location`."""
        given = next((value for name, value in self.options.items() if name.lower() == "path"), None)
        return self.table_properties.get(_LOCATION) if given is None else given

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of a table that is made."""
        return {name: value for name, value in self.table_properties.items() if name not in (_LOCATION, _COMMENT)}

    @property
    def comment(self) -> str | None:
        """What a table that is made is said to hold."""
        return self.table_properties.get(_COMMENT)

    @property
    def stores(self) -> Mapping[str, str] | None:
        """The options that open an object store."""
        return {name: value for name, value in self.options.items() if name.lower().startswith(_STORES)} or None

    def request(self, **more: Any) -> WriteRequest:
        """The request of the write, `more` its other fields. Raises InvalidArgumentError that names what is not supported."""
        if self.buckets:
            raise InvalidArgumentError(
                "DELTAMERGE_NO_BUCKETS",
                "A Delta table has no buckets.",
                hint="Leave bucketBy out; partition or cluster the table.",
            )
        stores = self.stores or {}
        options = {name: value for name, value in self.options.items() if name not in stores and name.lower() != "path"}
        mode = more.pop("mode", None) or self.mode or "error"
        return request_of(mode, options, partition_by=self.partition_by, cluster_by=self.cluster_by, **more)
