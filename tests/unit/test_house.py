"""The rules of the house that no linter knows: small files, one door to the JVM, no output, docstrings, no registries."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deltamerge"
MODULES = sorted(PACKAGE.rglob("*.py"))
OTHERS = sorted(path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
PYSPARK = PACKAGE / "spark" / "pyspark"
ADAPTER = PYSPARK / "adapter.py"
BEHIND = {ADAPTER, PYSPARK / "nodes.py", PYSPARK / "older.py", PYSPARK / "java_rows.py"}
MOST_LINES = 400
MOST_LINES_OF_A_MERGE = 60
ASKED = ("sql", "table", "read", "write", "writeTo")
JVM_NAMES = {"_jvm", "_jdf", "_jsc", "_jc"}
REGISTRIES = [
    "pypi" + ".org",
    "pypi" + ".python",
    "pythonhosted" + ".org",
    "maven" + ".org",
    "maven.apache" + ".org",
    "npmjs" + ".com",
]
REGISTRIES += ["npmjs" + ".org", "yarnpkg" + ".com", "repo1." + "maven", "repository." + "apache", "maven-central" + "."]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


every_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


def test_there_is_a_package_to_look_at() -> None:
    assert len(MODULES) > 50
    assert ADAPTER in MODULES


@pytest.mark.parametrize("path", [*MODULES, *OTHERS], ids=name_of)
def test_no_file_has_grown_into_two_subjects(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_line_of_a_merge_is_read_from_top_to_bottom() -> None:
    tree = ast.parse((PACKAGE / "merge" / "line.py").read_text(encoding="utf-8"))
    line = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "merge")
    assert line.end_lineno is not None
    assert line.end_lineno - line.lineno < MOST_LINES_OF_A_MERGE


@every_module
def test_only_the_adapter_touches_jvm_objects(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert path in BEHIND or not found & JVM_NAMES


@every_module
def test_the_library_asks_spark_itself(path: Path) -> None:
    """While a session is active its methods are the library's: what it asks of Spark it asks by `spark/pyspark/plain.py`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    asked = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in ASKED]
    assert not {owner.id for owner in asked if isinstance(owner, ast.Name)} & {"spark", "frame", "df"}
    assert not {owner.attr for owner in asked if isinstance(owner, ast.Attribute)} & {"_spark", "sparkSession"}


@every_module
def test_frames_of_arrow_tables_are_made_where_older_sparks_can(path: Path) -> None:
    """PySpark 3.5 takes none in createDataFrame; in tests it is taught to."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "createDataFrame"]
    assert path in BEHIND or all(isinstance(call.args[0], ast.List) for call in made)


@every_module
def test_no_footer_is_asked_for_column_chunks_that_may_end_the_process(path: Path) -> None:
    """PyArrow's `row_group(..).column(..)` of somebody else's footer: `protocol/formats/parquet_file.py` says why."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    owners = [call.value for call in calls if call.attr == "column" and isinstance(call.value, ast.Call)]
    asked = [owner.lineno for owner in owners if isinstance(owner.func, ast.Attribute) and owner.func.attr == "row_group"]
    assert not asked or path == PACKAGE / "worker" / "write" / "stats.py"


@every_module
def test_the_library_prints_nothing(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    printed = [call.lineno for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert not printed or PACKAGE / "cli" in path.parents


@every_module
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [name for name, node in public(tree, path.stem) if not ast.get_docstring(node)] == []


def public(
    tree: ast.Module, name: str
) -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """A module, and its public classes and functions."""
    yield name, tree
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name, node


@every_module
def test_no_dataclass_with_slots_has_a_state_of_its_own(path: Path) -> None:
    """Python 3.11.0 to 3.11.3 put another `__getstate__` in its place: such a class is pickled by `__reduce__`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and any("slots=True" in ast.unparse(item) for item in node.decorator_list):
            assert not {"__getstate__", "__setstate__"} & {item.name for item in node.body if isinstance(item, ast.FunctionDef)}


def test_what_a_client_of_connect_runs_needs_no_jvm_to_be_imported() -> None:
    """`make client` collects tests/e2e where there is no py4j."""
    found = []
    for path in [*(ROOT / "tests" / "e2e").glob("*.py"), *(ROOT / "tests").glob("*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [(path.name, name) for name in names if name.partition(".")[0] == "py4j"]
    assert found == []


def test_no_tracked_file_names_a_package_registry() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        text = path.read_bytes().decode("utf-8", "ignore").lower() if path.is_file() else ""
        found += [(name, host) for host in REGISTRIES if host in text]
    assert found == []


IMPORT = """
import subprocess

def refuse(*args, **kwargs):
    raise RuntimeError(f"importing starts a process: {args}")

subprocess.Popen = refuse
import deltamerge
from pyspark import SparkContext
assert SparkContext._gateway is None
assert SparkContext._active_spark_context is None
"""


def test_importing_the_package_starts_no_jvm() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
