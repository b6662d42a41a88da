"""The guide's tables have every condition, table feature, setting and table property that the source has, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from deltamerge import errors, exceptions
from deltamerge.budgets import Budgets
from deltamerge.errors import DeltaMergeError
from deltamerge.exceptions import spark_form
from deltamerge.merge.plan.prune import FunnelStep
from deltamerge.merge.preview import SAMPLE_ROWS, ClausePreview, MergePreview, RowChange
from deltamerge.merge.report import MergeReport
from deltamerge.protocol.schema.types import PrimitiveType, arrow_type
from deltamerge.protocol.table.actions import Metadata
from deltamerge.protocol.table.features import FEATURES
from deltamerge.spark.session.delta_settings import DELTA, REFUSED, SAME, WARNED
from tests.docs.conditions import OTHER_NAMES, PACKAGE, condition_patterns
from tests.e2e.upstream_api import table

DOCS = Path(__file__).parents[2] / "docs"
_ROW = re.compile(r"^\| (`[^|]+) \| ([^|]+) \|", re.MULTILINE)
_NAMES = re.compile(r"`([^`]+)`")
PLAIN = Metadata("0", '{"type":"struct","fields":[]}', (), {})


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def source() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")))


def catalogue() -> dict[str, set[str]]:
    """The error page's conditions with the exception classes that it gives them."""
    found: dict[str, set[str]] = {}
    for section in re.split(r"^## ", page("errors.md"), flags=re.MULTILINE)[1:]:
        title = section.split("\n", 1)[0]
        for first, second in _ROW.findall(section):
            (name,) = _NAMES.findall(first)
            given = _NAMES.findall(second) if title == "DeltaConcurrentModificationException" else [title]
            found.setdefault(name, set()).update(given)
    return found


def test_the_catalogue_has_each_condition_that_can_be_raised() -> None:
    names = catalogue()
    missing = [pattern for pattern in condition_patterns() if not any(re.fullmatch(pattern, name) for name in names)]
    assert missing == []


def test_the_catalogue_has_no_condition_that_can_not() -> None:
    patterns = list(condition_patterns())
    assert [name for name in catalogue() if not any(re.fullmatch(pattern, name) for pattern in patterns)] == []


def test_the_catalogue_knows_the_classes() -> None:
    for pattern, classes in condition_patterns().items():
        for kind in classes & set(vars(errors)):
            form = type(spark_form(getattr(errors, kind)("X", "x"))).__name__
            for name, given in catalogue().items():
                assert not re.fullmatch(pattern, name) or form in given, (name, form, given)


def test_the_catalogue_has_each_exception() -> None:
    known = {name for name, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, DeltaMergeError)}
    assert known <= set().union(*catalogue().values(), {"DeltaConcurrentModificationException"})


def test_no_name_is_left_out_in_vain() -> None:
    assert [name for name in OTHER_NAMES if name not in source()] == []


_FEATURE = re.compile(r"^\| (`\S+`) \| (.+?) \| (.+?) \|", re.MULTILINE)


def test_each_table_feature_is_told_with_how_it_is_honoured() -> None:
    rows = {_NAMES.findall(row[0])[0]: row[1:] for row in _FEATURE.findall(page("features.md"))}
    found = {name: row for name, row in rows.items() if set(row) <= {"yes", "no", "unless used"}}
    told = {}
    for name, feature in FEATURES.items():
        unused = "no" if feature.active(PLAIN) else "unless used"
        told[name] = ("yes" if feature.reads else unused, "yes" if feature.writes else unused)
    assert found == told


def test_each_type_is_told() -> None:
    first = page("features.md").split("## Types")[1].split("Not supported:")[0]
    listed = {name for row in _ROW.findall(first) for name in _NAMES.findall(row[0])}
    simple = {name for name in listed if not re.search(r"[(<]", name)}
    assert {"decimal(p,s)", "struct<..>", "array<..>", "map<..>"} <= listed
    assert all(arrow_type(PrimitiveType(name)) for name in simple)
    assert len(simple) == 14


def test_each_setting_is_told() -> None:
    read = set(re.findall(r'"(spark\.(?:deltamerge|databricks)\.[\w.]+)"', source()))
    told = set(re.findall(r"`(spark\.(?:deltamerge|databricks)\.[\w.]+)`", page("settings.md")))
    assert read
    assert read | {DELTA + name for name in SAME} == told


def test_each_setting_of_delta_spark_without_effect_is_told() -> None:
    text = page("settings.md")
    refused, rest = text.split("### Refused with another value")[1].split("### Without effect, with a warning")
    warned = rest.split("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \| ([A-Z, ]+) \|$", refused, flags=re.MULTILINE)
    assert {name: (value, frozenset(names.split(", "))) for name, value, names in rows} == {
        name: (fixed.value, fixed.statements) for name, fixed in REFUSED.items()
    }
    assert dict(re.findall(r"^\| `([\w.]+)` \| (?:`([^`]+)`|as without it) \|$", warned, flags=re.MULTILINE)) == dict(WARNED)


def test_each_told_property_is_read() -> None:
    told = {name for row in _ROW.findall(page("settings.md")) for name in _NAMES.findall(row[0]) if name.startswith("delta.")}
    properties = (PACKAGE / "protocol" / "table" / "properties.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"(delta\.[\w.]+)"', properties)) <= told
    assert [name for name in told if name.partition("<")[0] not in source()] == []


def test_each_condition_is_looked_for_by_a_test() -> None:
    """A name that no test knows could be wrong, or never come."""
    tests = Path(__file__).parents[1]
    texts = "\n".join(path.read_text(encoding="utf-8") for kind in ("*.py", "*.case") for path in sorted(tests.rglob(kind)))
    known = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z_]+)?", texts.replace(r"\.", ".")))
    assert sorted(name for name in catalogue() if name not in known) == []


def test_each_call_that_is_tried_is_told() -> None:
    assert table() in page("activate.md"), "python -m tests.e2e.upstream_api prints the table"


COUNTS = dict.fromkeys(("numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsInserted"), 1)
FUNNEL = (FunnelStep("in the table", 2, 9),)
# What the words of the guide are in JSON.
KINDS = {"number": int, "object": dict, "list": list, "text": str, "true": bool}


def test_a_report_in_json_is_as_the_guide_says() -> None:
    """Each key, and what is behind it."""
    section = page("merge/results.md").split("## The report\n")[1].split("\n## ")[0].split("`report.to_json()` as text")[1]
    told = {name: words for names, words in _ROW.findall(section) for name in _NAMES.findall(names)}
    found = MergeReport(1, COUNTS, FUNNEL, others=("a",), plain_rewrites={"b": 1}).to_dict()
    assert set(told) == set(found)
    for name, words in told.items():
        (kind,) = {kind for word, kind in KINDS.items() if words.startswith(word)}
        assert type(found[name]) is kind, name
    assert set(_NAMES.findall(told["rows"])) == set(found["rows"])
    assert set(_NAMES.findall(told["funnel"])) == set(found["funnel"][0])


def test_a_preview_in_json_is_as_the_guide_says() -> None:
    section = page("merge/results.md").split("## preview\n")[1].split("\n## ")[0]
    told = {name: words for names, words in _ROW.findall(section) for name in _NAMES.findall(names)}
    rows = {"affected", "updated", "deleted", "inserted"}
    clause = ClausePreview("WHEN MATCHED THEN DELETE", "delete", 1, (RowChange({"id": 1}, None),))
    found = MergePreview("plan", 1, "broadcast", 1, (clause,), 1, 9, FUNNEL).to_dict()
    assert (set(told) - rows, set(found["rows"])) == (set(found) - {"rows"}, rows)
    assert set(_NAMES.findall(told["clauses"])) - {"before", "after"} == set(found["clauses"][0])
    assert set(found["clauses"][0]["sample"][0]) == {"before", "after"}


def test_the_limits_of_what_reaches_the_driver_are_told() -> None:
    limits = Budgets()
    written = limits.driver_write_bytes >> 20
    local = written * limits.local_write_times
    told = {
        "the rows of a collected source": f"{limits.collected_bytes >> 20} MB in Arrow",
        "rows of the table that may match": f"{limits.match_rows:,}, and {limits.match_bytes >> 20} MB",
        "changed rows, and what Spark evaluates of them": f"{limits.changed_bytes >> 20} MB",
        "columns of files that the driver reads itself to match their rows": f"{limits.driver_match_bytes >> 20} MB",
        "files that the driver reads itself to write them again": (
            f"{written} MB; with a local master {local} MB, and {local * limits.local_mark_times} MB where rows are only marked"
        ),
        "hashes of the keys of a large source": f"{limits.bloom_keys:,}, of 4 bytes each",
        "positions of source rows that a second job writes": f"of sources of {limits.position_rows / 1e6:.0f},000,000 rows",
        "rows that a preview shows": f"{SAMPLE_ROWS} of each clause",
    }
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|", page("reliability.md").split("## What reaches the driver")[1], re.MULTILINE))
    assert {name: text for name, text in told.items() if not rows[name].startswith(text)} == {}
