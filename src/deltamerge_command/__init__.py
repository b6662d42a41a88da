"""Starts the `deltamerge` command. Stands outside the package, so that it can say what keeps the package from being imported."""

from __future__ import annotations

import importlib
import sys

_EXTRA = {"typer": "cli", "click": "cli", "rich": "cli", "deltalake": "demo", "duckdb": "demo"}


def main() -> None:
    """Run the command line. What is not installed ends it with status 1 and a message of a few lines, Ctrl-C at once with 130."""
    try:
        importlib.import_module("deltamerge.cli.main").main()
    except KeyboardInterrupt:  # before the command line is there, which knows more to say
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        extra = _EXTRA[error.name]
        sys.exit(f"This command needs the package {error.name}, which is not installed.\nHint: pip install 'deltamerge[{extra}]'")
    except ImportError as error:
        if getattr(error, "condition", None) is None:
            raise
        sys.exit(str(error))
