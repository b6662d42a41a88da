"""The wheel declares what its code imports, and says plainly what is missing at run time."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import deltamerge_command
from deltamerge.errors import PySparkVersionError
from deltamerge.spark.pyspark.version import NEWEST, OLDEST, check_pyspark, is_supported

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# PySpark imports pandas where it runs Arrow functions; what it needs for Connect it imports itself, too.
NOT_IMPORTED = {"pandas"}


def names(requirements: list[str]) -> set[str]:
    """The packages that requirements name, those of the extras that they name included."""
    found = set[str]()
    for requirement in requirements:
        inner = re.fullmatch(r"deltamerge\[(.+)\]", requirement)
        parts = [names(EXTRAS[extra]) for extra in inner[1].split(",")] if inner else [{re.split(r"[\[<>=]", requirement)[0]}]
        found |= set().union(*parts)
    return found


def imported(path: Path) -> set[str]:
    """The packages, besides the standard library and this one, that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"deltamerge", "deltamerge_command"}


def test_each_import_is_declared_and_nothing_else() -> None:
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for path in (ROOT / "src").rglob("*.py"):
        found["cli" in path.parts] |= imported(path)
    required = names(PROJECT["dependencies"])
    assert found[False] == required - NOT_IMPORTED | names(EXTRAS["pyspark"])
    assert found[True] <= required | names(EXTRAS["demo"])
    assert names(EXTRAS["cli"]) <= found[True]


def test_nothing_but_its_extra_brings_pyspark() -> None:
    assert "pyspark" not in names(PROJECT["dependencies"]) | names(EXTRAS["cli"]) | names(EXTRAS["connect"])
    assert EXTRAS["pyspark"] == [f"pyspark>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"]


def pins(path: Path) -> set[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    return {line.partition("==")[0].lower().replace("_", "-") for line in lines}


def test_constraints_of_the_dbt_adapter_pin_what_both_declare_and_name_no_place() -> None:
    adapter = ROOT / "integrations" / "dbt"
    project = tomllib.loads((adapter / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = names([*PROJECT["dependencies"], *project["dependencies"], "pytest"]) - {"deltamerge"}
    assert declared - pins(adapter / "constraints.txt") == set()
    assert project["version"] in (adapter / "src/dbt/adapters/deltamerge/__version__.py").read_text(encoding="utf-8")


def test_constraints_pin_what_is_declared_and_name_no_place() -> None:
    pinned = pins(ROOT / "constraints.txt")
    declared = names([*PROJECT["dependencies"], "deltamerge[dev]"]) - {"pyspark"}
    assert {name.lower() for name in declared} - pinned == set()


@pytest.mark.parametrize("version", ["3.5.0", "3.5.9", "4.0.0", "4.3.7", "4.1.0.dev3", "4.2.0+cluster.1"])
def test_a_known_pyspark(version: str) -> None:
    assert is_supported(version)


@pytest.mark.parametrize("version", ["3.4.4", "4.4.0", "5.0.0", "4.30.0", "17.3", "", "unknown"])
def test_an_unknown_pyspark(version: str) -> None:
    assert not is_supported(version)


@pytest.mark.parametrize("program", ["import deltamerge", "from deltamerge_command import main; main()"])
def test_an_old_pyspark_is_named(tmp_path: Path, program: str) -> None:
    """By an error before anything else of PySpark is imported, and by the command without a traceback."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '3.4.4'\n")
    start = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / 'src')!r}]; {program}"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "[DELTAMERGE_UNSUPPORTED_PYSPARK] deltamerge needs PySpark 3.5 to 4.3, found 3.4.4.\nHint: " in done.stderr
    assert ("Traceback" in done.stderr) == (program == "import deltamerge")


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(
        PySparkVersionError, match=r"(?s)DELTAMERGE_NO_PYSPARK\].*found none.*pip install 'pyspark>=3.5,<4.4'"
    ) as caught:
        check_pyspark()
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize(("package", "extra"), [("typer", "cli"), ("rich", "cli"), ("duckdb", "demo")])
def test_the_command_names_a_missing_extra(monkeypatch: pytest.MonkeyPatch, package: str, extra: str) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SystemExit) as caught:
        deltamerge_command.main()
    assert str(caught.value) == (
        f"This command needs the package {package}, which is not installed.\nHint: pip install 'deltamerge[{extra}]'"
    )


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'numpy'", name="numpy"), ImportError("broken")])
def test_the_command_hides_no_other_failure(monkeypatch: pytest.MonkeyPatch, error: ImportError) -> None:
    def broken(name: str) -> object:
        raise error

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ImportError) as caught:
        deltamerge_command.main()
    assert caught.value is error
