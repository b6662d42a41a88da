"""A merge as the command line says it: its source, its match and its clauses, checked before Spark starts."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.spark.pyspark.plain import plain_reader
from deltamerge.spark.sql.text import alias_of, keyword_at, tokens_of
from deltamerge.tables import DeltaMergeBuilder

# How files are read whose names end so, and with which of Spark's options.
_FORMATS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    ".parquet": ("parquet", {}),
    ".pq": ("parquet", {}),
    ".orc": ("orc", {}),
    ".csv": ("csv", {}),
    ".tsv": ("csv", {"sep": "\t"}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
}
_DEFAULTS: Mapping[str, Mapping[str, str]] = {"csv": {"header": "true", "inferSchema": "true"}}
_PACKED = (".gz", ".bz2", ".zst")


@dataclass(frozen=True)
class SourceFiles:
    """The files of a source, and how Spark reads them."""

    path: str
    format: str
    options: Mapping[str, str]

    def frame(self, spark: Any, storage_options: Mapping[str, str]) -> Any:
        """The rows, lazily. Raises whatever Spark raises, and DeltaMergeError for a Delta table that can't be read."""
        if self.format == "delta":
            return deltamerge.read(spark, self.path, storage_options=storage_options or None)
        return (
            plain_reader(spark).format(self.format).options(**{**_DEFAULTS.get(self.format, {}), **self.options}).load(self.path)
        )


def source_files(path: str, format: str | None, options: Mapping[str, str], is_remote: bool) -> SourceFiles:
    """What a path names. Raises DeltaMergeError for one that is not there, typer.BadParameter for an unknown kind of file."""
    is_local = "://" not in path and not is_remote
    if is_local:
        path = os.path.abspath(os.path.expanduser(path))
        if not glob.glob(glob.escape(path) if os.path.exists(path) else path):
            raise DeltaMergeError(
                "DELTAMERGE_NO_SOURCE", f"There is no file or folder {path}.", hint="Check the path of --source."
            )
    if format is not None:
        return SourceFiles(path, format.lower(), options)
    if is_local and os.path.isdir(os.path.join(path, "_delta_log")):
        return SourceFiles(path, "delta", options)
    name = path.lower()
    for ending in _PACKED:
        name = name.removesuffix(ending)
    ending = os.path.splitext(name)[1]
    if ending in _FORMATS:
        found, own = _FORMATS[ending]
        return SourceFiles(path, found, {**own, **options})
    if is_local and os.path.isdir(path):
        return SourceFiles(path, "parquet", options)
    raise typer.BadParameter(
        f"The name of {path} does not say what it is. Say --source-format parquet, csv, json, orc or delta.",
        param_hint="--source",
    )


@dataclass(frozen=True)
class Clauses:
    """The clauses of a merge. Those of one kind with a condition come first, deletes before updates."""

    update_all: bool = False
    update: Mapping[str, str] | None = None
    update_when: str | None = None
    insert_all: bool = False
    insert: Mapping[str, str] | None = None
    insert_when: str | None = None
    delete_when: str | None = None
    delete_by_source: bool = False
    delete_by_source_when: str | None = None
    update_by_source: Mapping[str, str] | None = None
    update_by_source_when: str | None = None

    def check(self) -> None:
        """Raise typer.BadParameter for options that do not go together, and for none."""
        for both in (("update_all", "update"), ("insert_all", "insert"), ("delete_by_source", "delete_by_source_when")):
            if all(getattr(self, name) for name in both):
                raise typer.BadParameter("Only one of the two can be.", param_hint=" / ".join(map(_option, both)))
        needs = {
            "update_when": ("update_all", "update"),
            "insert_when": ("insert_all", "insert"),
            "update_by_source_when": ("update_by_source",),
        }
        for condition, actions in needs.items():
            if getattr(self, condition) and not any(getattr(self, name) for name in actions):
                raise typer.BadParameter(f"It needs {' or '.join(map(_option, actions))}.", param_hint=_option(condition))
        for name, given in vars(self).items():
            texts = given.values() if isinstance(given, Mapping) else [given] if isinstance(given, str) else []
            for text in texts:
                check_whole(text, _option(name))
        if not any(getattr(self, name) for name in vars(self)):
            raise typer.BadParameter(
                "Say what to do with matched or unmatched rows, for example --update-all --insert-all.", param_hint="clauses"
            )

    def on(self, builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
        """The builder with these clauses. Raises what its methods raise."""
        if self.delete_when:
            builder = builder.whenMatchedDelete(self.delete_when)
        if self.update_all:
            builder = builder.whenMatchedUpdateAll(self.update_when)
        elif self.update:
            builder = builder.whenMatchedUpdate(self.update_when, self.update)
        if self.insert_all:
            builder = builder.whenNotMatchedInsertAll(self.insert_when)
        elif self.insert:
            builder = builder.whenNotMatchedInsert(self.insert_when, self.insert)  # type: ignore[arg-type]
        if self.delete_by_source_when:
            builder = builder.whenNotMatchedBySourceDelete(self.delete_by_source_when)
        if self.update_by_source:
            builder = builder.whenNotMatchedBySourceUpdate(self.update_by_source_when, self.update_by_source)
        return builder.whenNotMatchedBySourceDelete() if self.delete_by_source else builder


def check_whole(text: str, option: str) -> None:
    """Raise typer.BadParameter for an expression that ends in AND, OR or NOT, or in a word for which Spark takes a name.

    A shell makes one of `.. AND $REST` with a variable that is not set, and Spark would leave the AND out.
    """
    tokens = tokens_of(text) or []
    last = keyword_at(tokens, len(tokens) - 1)
    if last in ("AND", "OR", "NOT"):
        raise typer.BadParameter(f"{text!r} ends with {last}.", param_hint=option)
    if name := alias_of(text):
        raise typer.BadParameter(f"{text!r} ends with a name, {name}: an operator is missing before it.", param_hint=option)


def condition_of(on: str | None, keys: Sequence[str]) -> str:
    """The search condition: as it is given, or equality of key columns. Raises typer.BadParameter unless it is one of the two."""
    if (on is None) == (not keys):
        raise typer.BadParameter("Say by which rows match, one of the two.", param_hint="--on / --key")
    if on is not None:
        check_whole(on, "--on")
        return on
    quoted = ["`" + key.replace("`", "``") + "`" for key in keys]
    return " AND ".join(f"t.{key} = s.{key}" for key in quoted)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
