"""What is asked of a write, checked for its shape. Must not know a session or a table.

`deltamerge.write`, the DataFrame writers and the INSERT statements make the same request. Source: delta-spark's DeltaOptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltamerge.commands.rows.option_names import check_unknown
from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.merge.statement.clauses import TxnId
from deltamerge.worker.write.file_options import UNSAID, FileOptions, codec_of, most_rows_of

OPTIONS = (
    "mergeSchema",
    "overwriteSchema",
    "replaceWhere",
    "partitionOverwriteMode",
    "optimizeWrite",
    "userMetadata",
    "txnAppId",
    "txnVersion",
    "maxRecordsPerFile",
    "compression",
    "dataChange",
    "useNullIntolerantEqualityWithDPO",
    "parquet.writer.version",
)
MODES = ("error", "errorifexists", "ignore", "append", "overwrite")
STATIC, DYNAMIC = "static", "dynamic"
# The names by which Parquet's writer knows the version of pages that data files have.
_PAGES = ("v1", "parquet_1_0")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A batch that a streaming query writes: the query's id, the batch's number, and the output mode as history names it."""

    query_id: str
    number: int
    output_mode: str


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """How rows are written into a table.

    `mode` is one of MODES. `partition_by`, `cluster_by` and `properties` are for a table that does not exist, the first two also
    for one whose schema is overwritten. `merge_schema` adds the data's columns to the table's, None leaves it to the session.
    `overwrite_schema` gives a table that is overwritten the data's columns and the partitioning that is asked for.
    `replace_where` is a predicate: an overwrite replaces the rows for which it is true, and all written rows must meet it.
    `partition_overwrite` is `dynamic` to overwrite only partitions that get rows, None leaves it to the session. If
    `null_partitions_stay`, such an overwrite leaves the rows of partitions with a null; None where nothing is said.
    A write whose `txn_id`, or a newer one of the same application, is in the table already is skipped.
    `by_position` takes the data's columns in the table's order, whatever their names.
    `managed` is known where `saveAsTable` writes a table of the catalog: whether its folder is the catalog's, as history says it.
    `batch` says that a streaming query writes. `optimize_write` puts rows together before they are written, None leaves it to
    session and table. `files` are asked for as to codec and rows. Without `data_change` the write only rearranges rows: readers
    of changes pass over it, and the table's metadata stays.
    """

    mode: str = "error"
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool | None = None
    overwrite_schema: bool = False
    replace_where: str | None = None
    partition_overwrite: str | None = None
    null_partitions_stay: bool | None = None
    user_metadata: str | None = None
    txn_id: TxnId | None = None
    by_position: bool = False
    managed: bool | None = None
    batch: MicroBatch | None = None
    optimize_write: bool | None = None
    files: FileOptions = UNSAID
    data_change: bool = True

    @property
    def overwrites(self) -> bool:
        """Whether rows of the table leave it."""
        return self.mode == "overwrite"

    @property
    def new_schema(self) -> bool:
        """Whether the table gets the schema of the data in place of its own."""
        return self.overwrites and self.overwrite_schema and self.replace_where is None


def checked(request: WriteRequest) -> WriteRequest:
    """The request itself, when its parts go together. Raises InvalidArgumentError, AnalysisError."""
    if request.mode not in MODES:
        raise InvalidArgumentError(
            "DELTAMERGE_INVALID_MODE",
            f"Unknown mode {request.mode!r}.",
            parameters={"mode": request.mode},
            hint=f"One of {', '.join(MODES)}.",
        )
    if request.partition_overwrite not in (None, STATIC, DYNAMIC):
        raise illegal_option("partitionOverwriteMode", request.partition_overwrite, "must be 'static' or 'dynamic'")
    if request.partition_by and request.cluster_by:
        raise AnalysisError(
            "SPECIFY_CLUSTER_BY_WITH_PARTITIONED_BY_IS_NOT_ALLOWED",
            "A table can't be clustered and partitioned.",
            parameters={"partitionBy": list(request.partition_by), "clusterBy": list(request.cluster_by)},
            hint="Leave out one of the two.",
        )
    if request.replace_where is not None and not request.overwrites:
        raise InvalidArgumentError(
            "DELTAMERGE_REPLACE_WHERE_WITHOUT_OVERWRITE",
            f"replaceWhere says which rows an overwrite replaces; the mode is {request.mode}.",
            parameters={"replaceWhere": request.replace_where, "mode": request.mode},
            hint="Use the mode overwrite, or leave replaceWhere out.",
        )
    if request.replace_where is not None and request.partition_overwrite == DYNAMIC:
        raise InvalidArgumentError(
            "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
            "A replaceWhere expression and partitionOverwriteMode='dynamic' can't both say what is overwritten.",
            parameters={"replaceWhere": request.replace_where},
            hint="Leave out one of the two.",
        )
    return request


def transaction_of(application: str | None, version: int | str | None) -> TxnId | None:
    """The transaction id that the options txnAppId and txnVersion name; None without both. Raises InvalidArgumentError."""
    if application is None and version is None:
        return None
    if application is None or version is None:
        raise InvalidArgumentError(
            "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
            "Invalid options for idempotent writes: both txnAppId and txnVersion must be given, or neither.",
            parameters={"txnAppId": application, "txnVersion": version},
            hint="Give both.",
        )
    text = str(version)
    if isinstance(version, bool) or not text.isdecimal() or int(text) >= 1 << 63:
        raise illegal_option("txnVersion", version, "must be a non-negative integer")
    return TxnId(application, int(text))


def illegal_option(name: str, value: object, explanation: str) -> InvalidArgumentError:
    """The error for an option with a value that it can't have."""
    return InvalidArgumentError(
        "DELTA_ILLEGAL_OPTION",
        f"Invalid value {value!r} for option '{name}', {explanation}.",
        parameters={"name": name, "input": value, "explain": explanation},
    )


_TRUTHS = {"true": True, "false": False}


def files_asked(codec: str | None, most_rows: int | str | None) -> FileOptions:
    """What a writer's options ask of the files. Raises InvalidArgumentError for values that can't be."""
    most = None if most_rows is None else str(most_rows)
    return FileOptions(codec_of("the option compression", codec), most_rows_of("maxRecordsPerFile", most))


def request_of(mode: str, options: Mapping[str, str], **more: Any) -> WriteRequest:
    """The request that a DataFrame writer's mode and options make, names without regard to case; `more` are other fields.

    Options that begin with `delta.` are table properties. Raises InvalidArgumentError for an option that has a value that it
    can't have, and as `check_unknown` does.
    """
    given = {name.lower(): (name, value) for name, value in options.items()}

    def text(name: str) -> str | None:
        return given.pop(name.lower(), (name, None))[1]

    def truth(name: str) -> bool | None:
        value = text(name)
        if value is not None and str(value).lower() not in _TRUTHS:
            raise illegal_option(name, value, "must be 'true' or 'false'")
        return None if value is None else _TRUTHS[str(value).lower()]

    overwrite, pages = text("partitionOverwriteMode"), text("parquet.writer.version")
    if pages is not None and pages.lower() not in _PAGES:
        raise illegal_option("parquet.writer.version", pages, "must be 'v1': data files have pages of this version")
    properties = {name: str(value) for key, (name, value) in given.items() if key.startswith("delta.")}
    request = WriteRequest(
        mode.lower(),
        properties=properties,
        merge_schema=truth("mergeSchema"),
        overwrite_schema=truth("overwriteSchema") or False,
        replace_where=text("replaceWhere"),
        optimize_write=truth("optimizeWrite"),
        partition_overwrite=None if overwrite is None else overwrite.lower(),
        null_partitions_stay=truth("useNullIntolerantEqualityWithDPO"),
        user_metadata=text("userMetadata"),
        txn_id=transaction_of(text("txnAppId"), text("txnVersion")),
        files=files_asked(text("compression"), text("maxRecordsPerFile")),
        data_change=truth("dataChange") is not False,
    )
    check_unknown([name for key, (name, _) in given.items() if not key.startswith("delta.")], OPTIONS, "a write")
    return checked(replace(request, **more))
