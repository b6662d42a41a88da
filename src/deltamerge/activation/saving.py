"""What DataFrame writers make under a name: `saveAsTable`, and `create`, `replace` and `createOrReplace` of `writeTo`.

Source: delta-spark's DeltaCatalog, CreateDeltaTableCommand and WriteIntoDelta.
"""

from __future__ import annotations

from deltamerge.activation.writing import Told
from deltamerge.commands.rows.request import WriteRequest
from deltamerge.commands.rows.write import write_into
from deltamerge.commands.rows.written import SAVED_ANEW, metadata_kept
from deltamerge.commands.table.create import Creation, already_exists, existing
from deltamerge.commands.table.create_named import CreateNamed, check_listed, check_path, create_named, made_by_name
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.log.replay.table import DeltaLog
from deltamerge.spark.plans.attributes import attribute_parts
from deltamerge.spark.read.catalog import is_path, sql_name, target_named
from deltamerge.spark.read.register import is_listed, whole_name
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.schema import from_spark
from deltamerge.spark.session.storage import open_table


def save_as_table(frame: Frame, told: Told, name: tuple[str, ...]) -> None:
    """Write a frame into the table of a name, which is made where there is none: `saveAsTable`.

    An overwrite keeps the table's columns, layout and properties unless `overwriteSchema` is asked for. Raises AnalysisError,
    InvalidArgumentError, ConcurrentModificationError.
    """
    spark, request = frame.sparkSession, told.request(managed=False)
    if is_path(name):
        check_path(name[1], told.path)
        log, is_managed = open_table(spark, name[1], told.stores), False
        is_there, place = existing(log) is not None, None
    else:
        name = whole_name(spark, name)
        is_there, place = is_listed(spark, name), told.path
    if is_there and request.mode not in ("append", "overwrite"):
        if request.mode == "ignore":
            return
        raise already_exists(sql_name(name))
    if is_there and not is_path(name):
        found = target_named(spark, ("spark_catalog", *name), "WRITE")
        if request.overwrites:
            check_listed(name, found.location, place)
        log, is_managed = open_table(spark, found.location, told.stores), found.is_managed
    if is_there:
        write_into(frame, log, told.request(managed=is_managed))
    elif place is not None and request.overwrites and open_table(spark, place, told.stores).exists():
        made_by_name(spark, name, place, from_spark(frame.schema), lambda log, is_managed: write_into(frame, log, request))
    else:
        creation = Creation.CREATE_OR_REPLACE if request.overwrites else Creation.CREATE
        _create(frame, told, request, name, creation)


def create_by_name(frame: Frame, told: Told, name: tuple[str, ...], creation: Creation) -> DeltaLog:
    """Make or replace the table of a name with the rows of a frame: `create`, `replace` and `createOrReplace`.

    Raises AnalysisError, InvalidArgumentError, ConcurrentModificationError.
    """
    return _create(frame, told, told.request(), name, creation)


def _create(frame: Frame, told: Told, request: WriteRequest, name: tuple[str, ...], creation: Creation) -> DeltaLog:
    if not request.data_change:
        raise metadata_kept("Create a Delta table")
    clusters = tuple(tuple(attribute_parts(column)) for column in request.cluster_by) or None
    properties = {**request.properties, **told.properties}
    definition = TableDefinition(
        partition_by=request.partition_by, cluster_by=clusters, properties=properties, comment=told.comment
    )
    saves = request.managed is not None and request.overwrites
    return create_named(
        frame.sparkSession,
        CreateNamed(
            name,
            creation,
            definition,
            told.path,
            lambda: frame,
            SAVED_ANEW if saves else {},
            request.user_metadata,
            request.txn_id,
            request.files,
        ),
    )
