"""Breaks of how values are read that a log tells: each may be of any kind."""

from __future__ import annotations

from tests.mutants.base import Break

TOLD = (
    Break(
        "a text that nests too deep is no damage",
        "protocol/formats/json_text.py",
        "except RecursionError as error",
        "except ZeroDivisionError as error",
        "log/commit/test_clustering.py commands/table/test_describe.py",
    ),
    Break(
        "rows are laid out by whatever the domain names",
        "log/commit/clustering.py",
        "if not isinstance(type, PrimitiveType) or has_variant(type) or path[0] in snapshot.partition_columns:",
        "if False:",
        "log/commit/test_clustering.py commands/layout/test_optimize.py",
    ),
    Break(
        "each domain has a list of clustering columns",
        "log/commit/clustering.py",
        '        raise TypeError(f"{value} is no list")',
        "        return list(value)  # type: ignore[call-overload]",
        "log/commit/test_clustering.py",
    ),
    Break(
        "the last VACUUM's note is never damaged",
        "commands/layout/vacuum_sources.py",
        "except (ValueError, AttributeError, StorageError) as error",
        "except StorageError as error",
        "commands/layout/test_vacuum_sources.py",
    ),
    Break(
        "counts of a commit are numbers",
        "commands/table/describe.py",
        'int(text) if text and re.fullmatch(r"[0-9]{1,19}", text) else None',
        "int(text) if text else None",
        "commands/table/test_describe.py",
    ),
    Break(
        "texts of a commit have no halves of pairs",
        "commands/table/describe.py",
        'return text.encode("utf-8", "replace").decode()',
        "return text",
        "commands/table/test_describe.py",
    ),
    Break(
        "commits are of our time",
        "commands/table/describe.py",
        "except (ValueError, OverflowError, OSError)",
        "except ZeroDivisionError",
        "commands/table/test_describe.py",
    ),
    Break(
        "a path may have a zero byte",
        "log/replay/paths.py",
        'if "\\0" in unquote(path):',
        'if "\\0" in "":',
        "log/replay/test_paths.py",
    ),
    Break(
        "a vector's path may lead anywhere",
        "protocol/table/deletion_vector.py",
        'if not _WHOLE.match(where) or "\\0" in unquote(where):',
        "if False:",
        "protocol/table/test_deletion_vector.py",
    ),
    Break(
        "a size may have any number of digits",
        "protocol/table/properties.py",
        '_SIZE = re.compile(r"([0-9]{1,19})([kmgt]?)b?")',
        '_SIZE = re.compile(r"([0-9]+)([kmgt]?)b?")',
        "protocol/table/test_properties.py",
    ),
    Break(
        "an invariant is well written",
        "protocol/table/constraints.py",
        'json_value(text)["expression"]["expression"]',
        'json_value(text).get("expression", {}).get("expression", "true")',
        "protocol/table/test_constraints.py",
    ),
)
