"""Options that several commands have, and what their texts mean. A text that can't be ends the program with status 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

FLAG: Any = ""  # in place of a type in the help, where an option has no value

TablePath = Annotated[str, typer.Argument(metavar="TABLE", help="Path or URL of a Delta table.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        metavar="URL",
        envvar="SPARK_REMOTE",
        help="A Spark Connect server, sc://host:port; without it Spark runs here.",
    ),
]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="K=V", help="A setting of the Spark session. Can be repeated.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option("--storage-option", metavar="K=V", help="Credentials, endpoint of the object store. Can be repeated."),
]
Version = Annotated[
    int | None, typer.Option("--version", metavar="N", min=0, help="A version of the table, as history shows them.")
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp", metavar="TIME", help="The newest version at a time, 2026-03-01 or '2026-03-01 12:00:00', in UTC."
    ),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=0, help="The most rows that are shown.")]


def pairs_of(texts: Sequence[str] | None, option: str, as_it_is: bool = False) -> dict[str, str]:
    """Texts of the form `name=value` by their names; a value `as_it_is` may be empty, or a tab.

    Raises typer.BadParameter for another text, and for a name given twice.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not (as_it_is or value.strip()):
            raise typer.BadParameter(f"{text!r} is not of the form name=value.", param_hint=option)
        if name.strip() in found:
            raise typer.BadParameter(f"{name.strip()} is given twice.", param_hint=option)
        found[name.strip()] = value if as_it_is else value.strip()
    return found
