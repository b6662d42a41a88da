"""The condition names that the library can raise, collected from its source. Imports none of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "deltamerge"
_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z_]+)?")
_PART = "[A-Z_]+"

# What looks like a condition in the source and is none: variables of the environment, keys of metadata, parts of names,
# and conditions of Spark that are only recognised.
OTHER_NAMES = frozenset(
    {
        "AWS_SERVER_SIDE_ENCRYPTION",
        "CHAR_VARCHAR",
        "CURRENT_DEFAULT",
        "DATA_SCHEMA",
        "DELTAMERGE_TRACEBACK",
        "EXISTS_DEFAULT",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
        "INVALID_WHERE_CONDITION",
        "JAVA_HOME",
        "NOT_MATCHED_BY_TARGET",
        "SPARK_CONNECT_PROGRESS_BAR_ENABLED",
        "PYSPARK_DRIVER_PYTHON",
        "PYSPARK_PYTHON",
        "SCHEMA_CHANGE",
        "SPARK_LOCAL_IP",
        "SPARK_LOCAL_REMOTE",
        "SPARK_REMOTE",
        "SYSTEM_TIME",
        "SYSTEM_VERSION",
        "UNRESOLVED_COLUMN",
        "UNSUPPORTED_GENERATOR",
        "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
        "ZCUBE_ID",
        "ZCUBE_ZORDER_BY",
    }
)


def condition_patterns() -> dict[str, set[str]]:
    """Each condition in the source, as a pattern that its names match, with the error classes that are called with it."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for pattern in _texts(tree):
            found.setdefault(pattern, set())
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.endswith("Error") and call.args:
                for pattern in _texts(call.args[0]):
                    found[pattern].add(call.func.id)
    return {pattern: classes for pattern, classes in found.items() if pattern.replace(r"\.", ".") not in OTHER_NAMES}


def _texts(tree: ast.AST) -> Iterator[str]:
    """The texts in a tree that can be condition names, f-strings with a pattern for what is filled in."""
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in within and _is_name(node.value):
            yield re.escape(str(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
            said = any(map(str.isalpha, "".join(map(str, parts))))
            if "\0" in parts and said and _is_name("".join(map(str, parts)).replace("\0", "X")):
                yield "".join(_PART if part == "\0" else re.escape(str(part)) for part in parts)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
