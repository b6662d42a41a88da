"""`ALTER TABLE`, `SHOW TBLPROPERTIES` and `COMMENT ON TABLE` of Delta tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from deltamerge.commands.features.drop import drop_feature
from deltamerge.commands.table.columns import (
    AddColumn,
    ChangeColumn,
    add_columns,
    change_column,
    drop_columns,
    rename_column,
    sync_identity,
)
from deltamerge.commands.table.constraints import add_constraint, cluster_by, drop_constraint
from deltamerge.commands.table.properties import all_properties, set_properties, unset_properties
from deltamerge.commands.table.replace_columns import replace_columns
from deltamerge.errors import AnalysisError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.edits import FIRST, Path
from deltamerge.protocol.table.known_properties import spelled
from deltamerge.spark.pyspark.older import arrow_frame
from deltamerge.spark.read.catalog import NamedTable, delta_named
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import (
    any_name,
    column,
    column_of,
    columns_of,
    not_allowed,
    one_name,
    properties,
    property_key,
    text,
)
from deltamerge.statements.statement import Statement
from deltamerge.statements.table.drop import RenameTable

_PLACES = ("FIRST", "AFTER")
_NO_TYPE = ("NOT", "NULL", "DEFAULT", "GENERATED")
Action: TypeAlias = Callable[[Session, DeltaLog], Any]


@dataclass(frozen=True, slots=True)
class AlterTableStatement:
    """What is to be done with a table; `error` says why a Delta table can't have it done."""

    name: tuple[str, ...]
    action: Action | None
    error: AnalysisError | None = None

    def run(self, spark: Session) -> Frame | None:
        """Do it; None where the table is none of Delta's, or is not there, which Spark says."""
        log = _opened(spark, self.name)
        if log is None:
            return None
        if self.error is not None:
            raise self.error
        assert self.action is not None
        found = self.action(spark, log)
        return found if isinstance(found, Frame) else no_rows(spark)


def parse_alter_table(reader: Reader) -> Statement:
    """What follows `ALTER TABLE`. Raises ParseError."""
    name = any_name(reader)
    if reader.sees("RENAME") and reader.sees("TO", 1):
        return _renamed(name, reader)
    try:
        action = _action(reader)
        reader.end()
    except AnalysisError as error:  # another format may have it: the table says
        return AlterTableStatement(name, None, error)
    return AlterTableStatement(name, action)


def parse_show_properties(reader: Reader) -> Statement:
    """What follows `SHOW TBLPROPERTIES`. Raises ParseError."""
    name, key = any_name(reader), None
    if reader.take("("):
        key = property_key(reader)
        reader.expect(")")
    reader.end()
    return AlterTableStatement(name, lambda spark, log: _shown(spark, log, key))


def parse_comment(reader: Reader) -> Statement:
    """What follows `COMMENT ON TABLE`. Raises ParseError."""
    name = any_name(reader)
    reader.expect("IS")
    said = None if reader.take("NULL") else text(reader)
    reader.end()
    if said is None:
        return AlterTableStatement(name, lambda spark, log: unset_properties(spark, log, ["comment"]))
    return AlterTableStatement(name, lambda spark, log: set_properties(spark, log, {"comment": said}))


def _opened(spark: Session, name: tuple[str, ...]) -> DeltaLog | None:
    try:
        found = delta_named(spark, name)
    except AnalysisError:
        return None
    return open_table(spark, found.location) if isinstance(found, NamedTable) else None


def _action(reader: Reader) -> Action:
    for word, read in _ACTIONS.items():
        if reader.take(word):
            return read(reader)
    raise not_allowed("This ALTER TABLE", f"Known are {', '.join(_ACTIONS)}.")


def _set(reader: Reader) -> Action:
    if not reader.take("TBLPROPERTIES"):
        raise not_allowed("ALTER TABLE .. SET other than TBLPROPERTIES", "Copy the rows to the other place.")
    given = properties(reader)
    return lambda spark, log: set_properties(spark, log, given)


def _unset(reader: Reader) -> Action:
    reader.expect("TBLPROPERTIES")
    _if_exists(reader)  # delta-spark, too, takes no offence at a property that is not set
    keys = reader.listed(lambda: property_key(reader))
    return lambda spark, log: unset_properties(spark, log, keys)


def _add(reader: Reader) -> Action:
    if reader.take("CONSTRAINT"):
        name = one_name(reader)
        reader.expect("CHECK")
        condition = reader.enclosed()
        return lambda spark, log: add_constraint(spark, log, name, condition)
    if not (reader.take("COLUMNS") or reader.take("COLUMN")):
        raise not_allowed("This ALTER TABLE .. ADD", "Known are ADD COLUMNS and ADD CONSTRAINT.")
    enclosed = reader.take("(")
    found = [_added(reader)]
    while reader.take(","):
        found.append(_added(reader))
    if enclosed:
        reader.expect(")")
    return lambda spark, log: add_columns(spark, log, [one() for one in found])


def _added(reader: Reader) -> Callable[[], AddColumn]:
    path = any_name(reader)
    said = column(reader, _PLACES, path[-1])
    place = _place(reader)

    def made() -> AddColumn:
        (field,) = columns_of([said])
        return AddColumn(path[:-1], field, place)

    return made


def _drop(reader: Reader) -> Action:
    if reader.take("CONSTRAINT"):
        if_exists = _if_exists(reader)
        name = one_name(reader)
        return lambda spark, log: drop_constraint(spark, log, name, if_exists)
    if reader.take("FEATURE"):
        feature = reader.string() or one_name(reader)
        truncates = reader.take("TRUNCATE")
        if truncates:
            reader.expect("HISTORY")
        return lambda spark, log: drop_feature(spark, log, feature, truncates)
    if not (reader.take("COLUMNS") or reader.take("COLUMN")):
        raise not_allowed("This ALTER TABLE .. DROP", "Known are DROP COLUMNS, DROP CONSTRAINT and DROP FEATURE.")
    if_exists = _if_exists(reader)
    paths = reader.listed(lambda: any_name(reader)) if reader.sees("(") else _names(reader)
    return lambda spark, log: drop_columns(spark, log, paths, if_exists)


def _replace(reader: Reader) -> Action:
    reader.expect("COLUMNS")
    said = reader.listed(lambda: column(reader))
    return lambda spark, log: replace_columns(spark, log, columns_of(said))


def _names(reader: Reader) -> list[Path]:
    found = [any_name(reader)]
    while reader.take(","):
        found.append(any_name(reader))
    return found


def _renamed(name: tuple[str, ...], reader: Reader) -> RenameTable:
    reader.take("RENAME")
    reader.take("TO")
    other = any_name(reader)
    reader.end()
    return RenameTable(name, other)


def _rename(reader: Reader) -> Action:
    if not reader.take("COLUMN"):
        raise not_allowed("This ALTER TABLE .. RENAME", "Known are RENAME COLUMN .. TO .. and RENAME TO.")
    path = any_name(reader)
    reader.expect("TO")
    name = one_name(reader)
    return lambda spark, log: rename_column(spark, log, path, name)


def _alter(reader: Reader) -> Action:
    reader.take("COLUMN")
    return _altered(reader, any_name(reader))


def _altered(reader: Reader, path: tuple[str, ...]) -> Action:
    """What is to become of a column."""
    asked = ChangeColumn(path)
    if reader.take("SYNC"):
        reader.expect("IDENTITY")
        return lambda spark, log: sync_identity(spark, log, path)
    if reader.take("TYPE"):
        type = reader.type_text("COMMENT", *_NO_TYPE, *_PLACES)
        if any(reader.sees(word) for word in _NO_TYPE):
            raise _one_thing("ALTER COLUMN .. TYPE")
        return _typed(asked, type)
    if reader.take("COMMENT"):
        asked = replace(asked, comment=text(reader))
    elif any(reader.sees(word) for word in _PLACES):
        asked = replace(asked, place=_place(reader))
    elif reader.take("SET"):
        asked = _with_set(reader, asked)
    elif reader.take("DROP"):
        if reader.take("DEFAULT"):
            asked = replace(asked, default="")
        else:
            reader.expect("NOT")
            reader.expect("NULL")
            asked = replace(asked, nullable=True)
    else:
        raise not_allowed(
            "This ALTER COLUMN", "Known are TYPE, COMMENT, FIRST, AFTER, SET and DROP NOT NULL or DEFAULT, SYNC IDENTITY."
        )
    return lambda spark, log: change_column(spark, log, asked)


def _with_set(reader: Reader, asked: ChangeColumn) -> ChangeColumn:
    if reader.take("DEFAULT"):
        return replace(asked, default=reader.expression())
    reader.expect("NOT")
    reader.expect("NULL")
    return replace(asked, nullable=False)


def _typed(asked: ChangeColumn, type: str) -> Action:
    def run(spark: Session, log: DeltaLog) -> int:
        return change_column(spark, log, replace(asked, type=column_of(asked.path[-1], type)))

    return run


# What ALTER COLUMN begins with behind the column's name.
_CHANGES = ("TYPE", "COMMENT", "SET", "DROP", *_PLACES)


def _change(reader: Reader) -> Action:
    """`CHANGE COLUMN name name type [COMMENT text] [FIRST | AFTER name]`, or as ALTER COLUMN."""
    reader.take("COLUMN")
    path = any_name(reader)
    if any(reader.sees(word) for word in _CHANGES) and not reader.sees(path[-1].upper()):
        return _altered(reader, path)
    if one_name(reader).lower() != path[-1].lower():
        raise not_allowed("A rename by CHANGE COLUMN", "ALTER TABLE .. RENAME COLUMN .. TO ..")
    said = column(reader, _PLACES, path[-1])
    if not said.nullable or set(said.metadata) - {"comment"}:
        raise _one_thing("CHANGE COLUMN")
    asked = ChangeColumn(path, comment=said.metadata.get("comment"), place=_place(reader))
    return _typed(asked, said.type)


def _one_thing(statement: str) -> AnalysisError:
    return not_allowed(
        f"{statement} with NOT NULL, DEFAULT or GENERATED", "ALTER TABLE .. ALTER COLUMN changes one thing: SET or DROP it there."
    )


def _cluster(reader: Reader) -> Action:
    reader.expect("BY")
    names = [] if reader.take("NONE") else reader.listed(lambda: any_name(reader))
    return lambda spark, log: cluster_by(spark, log, names)


def _place(reader: Reader) -> Path | None:
    if reader.take("FIRST"):
        return FIRST
    return (one_name(reader),) if reader.take("AFTER") else None


def _if_exists(reader: Reader) -> bool:
    found = reader.take("IF")
    if found:
        reader.expect("EXISTS")
    return found


def _shown(spark: Session, log: DeltaLog, key: str | None) -> Frame:
    """The properties as rows of key and value, in order."""
    found = all_properties(log.snapshot())
    if key is not None:
        name = spelled(key)
        found = {key: found.get(name, f"Table {log.store.url} does not have property: {key}")}
    keys = sorted(found)
    return arrow_frame(spark, pa.table({"key": pa.array(keys), "value": pa.array([found[name] for name in keys])}))


_ACTIONS: dict[str, Callable[[Reader], Action]] = {
    "SET": _set,
    "UNSET": _unset,
    "ADD": _add,
    "DROP": _drop,
    "REPLACE": _replace,
    "RENAME": _rename,
    "ALTER": _alter,
    "CHANGE": _change,
    "CLUSTER": _cluster,
}
