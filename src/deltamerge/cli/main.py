"""The command line: its commands, and how each of them ends. Errors are a few lines: condition, cause, hint."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import pyspark
import typer
from pyspark.errors import PySparkException
from typer.core import TyperCommand, TyperGroup

from deltamerge._version import __version__
from deltamerge.cli.demo import run_demo
from deltamerge.cli.merging import merge, preview, read, sql
from deltamerge.cli.options import FLAG
from deltamerge.cli.output import NOT_SHOWN, NotShownError, console, say
from deltamerge.cli.render import error_text
from deltamerge.cli.upkeep import convert, detail, history, optimize, restore, vacuum
from deltamerge.errors import CommitStateUnknownError, DeltaMergeError
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.jobs import read_failure

# The statuses with which the program ends, as docs/command-line.md lists them; 2 is typer's for options that can't be.
FAILED, CONFLICT, UNKNOWN, STOPPED = 1, 3, 4, 130  # and NOT_SHOWN
_TRACEBACK = "DELTAMERGE_TRACEBACK"


class _Command(TyperCommand):
    """A command whose help names no type of Python where an option has no value."""

    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an option with one value that is given twice, and an empty value, which a shell leaves of a variable not set."""
        left: list[str] = super().parse_args(ctx, list(args))
        if not ctx.resilient_parsing:
            values, _, order = self.make_parser(ctx).parse_args(args=list(args))
            given: list[Any] = order
            for option in given:
                if option.param_type_name == "option" and not option.is_flag:
                    _check_value(ctx, option, values[option.name], given.count(option))
        return left


def _check_value(ctx: Any, option: Any, value: Any, times: int) -> None:
    if times > 1 and not option.multiple:
        raise typer.BadParameter("It is given twice, and can have one value.", ctx=ctx, param_hint=option.opts[0])
    if any(not text.strip() for text in (value if option.multiple else [value])):
        raise typer.BadParameter("Its value is empty.", ctx=ctx, param_hint=option.opts[0])


class _Commands(TyperGroup):
    """Commands that say what became of the table when Ctrl-C stops them."""

    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            say(f"Stopped{str(error).removeprefix('stopped')}." if str(error) else "Stopped.")
            raise typer.Exit(STOPPED) from error


def _plain(options: Any) -> Any:
    """Options of a command, typer's own among them, as the help shows them."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = FLAG
    return options


_NAMES = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, context_settings=_NAMES)


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version, and that of PySpark.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """MERGE INTO for Delta Lake tables, without a JAR."""


for _command in (merge, preview, sql, read, history, detail, vacuum, optimize, restore, convert):
    app.command(cls=_Command, no_args_is_help=True)(_command)


@app.command(cls=_Command)
def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the demo's table is made.")] = Path("deltamerge-demo"),
) -> None:
    """Merge a change batch into the 336,776 flights of New York's 2013, and prove the result from outside."""
    run_demo(folder, console())


@app.command(cls=_Command)
def version() -> None:
    """Show the version, and that of PySpark."""
    console().print(f"deltamerge {__version__}, PySpark {pyspark.__version__}")


def main() -> None:
    """Run the command line; what goes wrong ends it with a status of its own, and without a traceback."""
    try:
        with quietly():
            app()
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        found = _told(error)
        console(stderr=True).print(error_text(found), soft_wrap=True)
        sys.exit(_status(found))


def _status(error: DeltaMergeError) -> int:
    if isinstance(error, CommitStateUnknownError):
        return UNKNOWN
    if isinstance(error, NotShownError):
        return NOT_SHOWN
    return CONFLICT if error.retryable else FAILED


def _told(error: Exception) -> DeltaMergeError:
    """Any error in this library's terms."""
    if isinstance(error, DeltaMergeError):
        return error  # which is a PySparkException, too, where the public interface raises it
    if isinstance(error, PySparkException) or "Py4J" in type(error).__name__:
        found = read_failure(error)  # statements that commit have errors of this library
        if isinstance(found, DeltaMergeError):
            return found
        error = found
    text = str(error).strip() or "no message"
    return DeltaMergeError(
        "DELTAMERGE_UNEXPECTED",
        f"{type(error).__name__}: {text}",
        hint=f"With {_TRACEBACK}=1 in the environment the whole traceback is shown.",
    )
