"""`deltamerge merge` and `preview`, `sql` and `read`: what runs on Spark and is about rows."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pyarrow as pa
import typer

import deltamerge
from deltamerge.cli.options import (
    FLAG,
    AsJson,
    Conf,
    Limit,
    Remote,
    StorageOption,
    TablePath,
    Timestamp,
    Version,
    pairs_of,
)
from deltamerge.cli.output import say, show
from deltamerge.cli.render import rows_view
from deltamerge.cli.session import session
from deltamerge.cli.statement import Clauses, condition_of, source_files
from deltamerge.commands.table.create import CreateTable, Creation, create_table
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.display.shown import page_of
from deltamerge.display.views import Page
from deltamerge.errors import CommitStateUnknownError, DeltaMergeError
from deltamerge.log.replay.table import DeltaLog, open_log
from deltamerge.merge.report import MergeReport
from deltamerge.protocol.values.plain import plain_rows
from deltamerge.spark.pyspark.older import arrow_rows
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.session.jobs import read_failure
from deltamerge.spark.session.running import described, operation
from deltamerge.spark.session.schema import table_schema
from deltamerge.tables import DeltaTable

# What a shell leaves of delta.`path` within double quotes, and what to do about it.
_CUT = re.compile(r"\bdelta\.(?=\s|[;,)]|$)")
_QUOTES = (
    "Behind `delta.` there is no path. Put the statement in single quotes: within double ones a shell runs `path` as a command."
)
_MATCH, _CLAUSES, _MORE = "Source, target, match", "Clauses", "More"


def _option(name: str, help: str, panel: str, metavar: str = FLAG) -> Any:
    return typer.Option(name, help=help, rich_help_panel=panel, metavar=metavar)


def merge(
    source: Annotated[
        str,
        _option("--source", "The changes, named s: a Parquet, CSV, JSON or ORC file, or a Delta table.", _MATCH, metavar="FILE"),
    ],
    target: Annotated[str, _option("--target", "The Delta table, named t: a path or URL.", _MATCH, metavar="TABLE")],
    on: Annotated[
        str | None, _option("--on", "The condition by which rows match: 't.id = s.id'.", _MATCH, metavar="COND")
    ] = None,
    key: Annotated[
        list[str] | None, _option("--key", "In place of --on: a column that is equal. Can be repeated.", _MATCH, metavar="COL")
    ] = None,
    update_all: Annotated[bool, _option("--update-all", "Update all columns of matched rows.", _CLAUSES)] = False,
    update: Annotated[
        list[str] | None,
        _option("--update", "Update a column of matched rows: qty=t.qty+s.qty. Can be repeated.", _CLAUSES, metavar="COL=EXPR"),
    ] = None,
    update_when: Annotated[
        str | None, _option("--update-when", "Update only matched rows for which this is true.", _CLAUSES, metavar="COND")
    ] = None,
    delete_when: Annotated[
        str | None, _option("--delete-when", "Delete matched rows for which this is true: s.op = 'D'.", _CLAUSES, metavar="COND")
    ] = None,
    insert_all: Annotated[bool, _option("--insert-all", "Insert all columns of source rows without a match.", _CLAUSES)] = False,
    insert: Annotated[
        list[str] | None,
        _option("--insert", "A column of inserted rows: name=upper(s.name). Can be repeated.", _CLAUSES, metavar="COL=EXPR"),
    ] = None,
    insert_when: Annotated[
        str | None, _option("--insert-when", "Insert only source rows for which this is true.", _CLAUSES, metavar="COND")
    ] = None,
    delete_by_source: Annotated[
        bool, _option("--delete-by-source", "Delete target rows that no source row matches.", _CLAUSES)
    ] = False,
    delete_by_source_when: Annotated[
        str | None, _option("--delete-by-source-when", "Delete those of them for which this is true.", _CLAUSES, metavar="COND")
    ] = None,
    update_by_source: Annotated[
        list[str] | None,
        _option(
            "--update-by-source", "Update a column of target rows without a match. Can be repeated.", _CLAUSES, metavar="COL=EXPR"
        ),
    ] = None,
    update_by_source_when: Annotated[
        str | None, _option("--update-by-source-when", "Update those of them for which this is true.", _CLAUSES, metavar="COND")
    ] = None,
    schema_evolution: Annotated[bool, _option("--schema-evolution", "Add the source's new columns to the table.", _MORE)] = False,
    keep_latest: Annotated[
        list[str] | None,
        _option("--keep-latest", "Of source rows with equal keys, take the last one by this.", _MORE, metavar="EXPR"),
    ] = None,
    skip_unchanged: Annotated[bool, _option("--skip-unchanged", "Leave rows alone that would stay as they are.", _MORE)] = False,
    create: Annotated[bool, _option("--create", "Make the table, with the source's columns, if there is none.", _MORE)] = False,
    source_format: Annotated[
        str | None,
        _option("--source-format", "parquet, csv, json, orc or delta, where the name does not say it.", _MORE, metavar="FORMAT"),
    ] = None,
    source_option: Annotated[
        list[str] | None, _option("--source-option", "An option of Spark's reader: sep=;. Can be repeated.", _MORE, metavar="K=V")
    ] = None,
    verbose: Annotated[bool, _option("--verbose", "Show how rows were matched, and the time of each step.", _MORE)] = False,
    preview: Annotated[bool, _option("--preview", "Only show what would change.", _MORE)] = False,
    as_json: AsJson = False,
    remote: Remote = None,
    conf: Conf = None,
    storage_option: StorageOption = None,
) -> None:
    """Merge a file of changes into a Delta table.

    Source columns are s.name, target columns t.name in every condition and expression.

    Example: deltamerge merge --source changes.parquet --target customers --key id --update-all --insert-all
    """
    clauses = Clauses(
        update_all,
        pairs_of(update, "--update"),
        update_when,
        insert_all,
        pairs_of(insert, "--insert"),
        insert_when,
        delete_when,
        delete_by_source,
        delete_by_source_when,
        pairs_of(update_by_source, "--update-by-source"),
        update_by_source_when,
    )
    clauses.check()
    condition = condition_of(on, key or ())
    options, storage = pairs_of(source_option, "--source-option", as_it_is=True), pairs_of(storage_option, "--storage-option")
    settings = pairs_of(conf, "--conf")
    files = source_files(source, source_format, options, remote is not None)
    log = open_log(target, storage)
    if create and preview and not log.exists():
        raise typer.BadParameter(
            f"There is no table {target} yet, so there is nothing to preview. Leave out --preview, and it is made.",
            param_hint="--preview",
        )
    if not create or preview:
        log.snapshot()  # what can't be merged into is told before Spark starts
    with session(remote, settings) as spark:
        rows = files.frame(spark, storage)
        is_made = create and not log.exists()
        if is_made:
            _create(spark, log, rows)
        with _telling(target) if is_made else contextlib.nullcontext():
            builder = clauses.on(
                DeltaTable.forPath(spark, log.store.url, storage or None).alias("t").merge(rows.alias("s"), condition)
            )
            builder = builder.withSchemaEvolution() if schema_evolution else builder
            builder = builder.keepLatest(keep_latest, key) if keep_latest else builder
            builder = builder.skipUnchanged() if skip_unchanged else builder
            done = builder.preview() if preview else builder.run()
        show(
            lambda: Page("", done.line()) if isinstance(done, MergeReport) and not verbose else page_of(done),
            done.to_dict,
            as_json,
        )


def preview(**given: Any) -> None:
    """Show what a merge would change, with some of the rows, and change nothing. Its options are those of merge."""
    merge(**given, preview=True)


# Typer reads the options of a command from its signature.
_parameters = inspect.signature(merge, eval_str=True).parameters.values()
_kept = [parameter for parameter in _parameters if parameter.name not in ("preview", "create", "verbose")]
preview.__signature__ = inspect.Signature(_kept)  # type: ignore[attr-defined]
preview.__annotations__ = {parameter.name: parameter.annotation for parameter in _kept}


def sql(
    text: Annotated[
        str,
        typer.Argument(
            metavar="STATEMENT", help="MERGE, SELECT and others, of tables written delta.`path`; - reads standard input."
        ),
    ],
    limit: Limit = 20,
    as_json: AsJson = False,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Run a statement of SQL.

    Example: deltamerge sql 'SELECT count(*) FROM delta.`/data/customers`'
    """
    text = sys.stdin.read() if text == "-" else text
    with session(remote, pairs_of(conf, "--conf")) as spark:
        try:
            _show_rows(deltamerge.sql(spark, text), limit, as_json)
        except Exception as error:
            found = error if isinstance(error, DeltaMergeError) else read_failure(error)
            if not _CUT.search(text) or not isinstance(found, DeltaMergeError):
                raise
            found.hint = _QUOTES
            raise found from error


def read(
    table: TablePath,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="LIST", help="Columns or expressions: 'id, upper(name)'.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", metavar="COND", help="Only rows for which this is true.")] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = 20,
    as_json: AsJson = False,
    remote: Remote = None,
    conf: Conf = None,
    storage_option: StorageOption = None,
) -> None:
    """Show rows of a Delta table."""
    if version is not None and timestamp is not None:
        raise typer.BadParameter("Only one of the two can be.", param_hint="--version / --timestamp")
    storage = pairs_of(storage_option, "--storage-option")
    log = open_log(table, storage)
    log.snapshot()
    with session(remote, pairs_of(conf, "--conf")) as spark:
        frame = deltamerge.read(spark, log.store.url, version, timestamp, storage or None)
        frame = frame if where is None else frame.where(where)
        _show_rows(frame if columns is None else _selected(spark, columns, frame), limit, as_json)


@contextlib.contextmanager
def _telling(target: str) -> Iterator[None]:
    """Tell that a table is there, although the merge for which it was made has failed."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except Exception:
        say(f"The table {target} was made, and has no rows: the merge failed.")
        raise


def _create(spark: Any, log: DeltaLog, rows: Any) -> None:
    definition = TableDefinition(table_schema(rows.schema))
    create_table(spark, log, CreateTable(definition, Creation.CREATE_IF_NOT_EXISTS, log.store.url), None)


def _selected(spark: Any, columns: str, frame: Any) -> Any:
    """Columns and expressions of a frame, as SQL has them."""
    text = columns.replace("{", "{{").replace("}", "}}")
    return plain_sql(spark, f"SELECT {text} FROM {{rows}}", rows=frame)  # noqa: S608 - the user's own text


def _show_rows(frame: Any, limit: int, as_json: bool) -> None:
    spark = frame.sparkSession
    with operation(spark, "query", ""), described(spark, "deltamerge: show rows"):
        found: pa.Table = arrow_rows(frame.limit(limit + 1))
    if not found.num_columns and not as_json:
        return  # a statement without a result, such as CREATE TABLE
    rows = found.slice(0, limit)
    show(lambda: rows_view("", rows), lambda: plain_rows(rows), as_json)
    if found.num_rows > limit:
        say(f"Only the first {limit:,} rows are shown; --limit shows more.")
