"""Code for workers: all that is imported goes along, below a name of its own, and a process loads it once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from pyspark import cloudpickle

from deltamerge.budgets import DEFAULTS
from deltamerge.spark.session import shipping
from deltamerge.worker import loading
from deltamerge.worker.entry import count_map


@pytest.fixture
def code() -> shipping.Code:
    found = shipping.code_of_files()
    assert found is not None
    return found


def run_with(prologue: str, *functions: Any) -> list[str]:
    """What a process prints that runs the prologue, then each function on the batch."""
    text = f"""
import pickle, sys
{prologue}
import pyarrow as pa
batch = pa.record_batch({{"a": [1, 2], "number": pa.array([0, 0], pa.int64())}})
for function in pickle.load(sys.stdin.buffer):
    print(sum(result.num_rows for result in function([batch])))
finders = [finder.root for finder in sys.meta_path if hasattr(finder, "root")]
print(len(finders), sorted({{name.partition(".")[0] for name in sys.modules if "deltamerge" in name}}) == sorted(set(finders)))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", text], input=cloudpickle.dumps(functions), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


ABSENT = """
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("deltamerge", "tests"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
"""


def test_a_process_loads_the_code_once() -> None:
    work = shipping.shipped(count_map(DEFAULTS))
    assert run_with(ABSENT, work, work, shipping.shipped(count_map(replace(DEFAULTS, counted_bytes=1)))) == [
        "1",
        "1",
        "1",
        "1 True",
    ]


def test_another_version_that_is_installed_is_not_used(tmp_path: Path) -> None:
    for name in ("deltamerge", "deltamerge/worker"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong one')")
    found = run_with(f"sys.path.insert(0, {str(tmp_path)!r})", shipping.shipped(count_map(DEFAULTS)))
    assert found == ["1", "1 True"]


def test_two_versions_stand_side_by_side(code: shipping.Code, monkeypatch: pytest.MonkeyPatch) -> None:
    one = shipping.shipped(count_map(DEFAULTS))
    names = shipping._names
    monkeypatch.setattr(shipping, "_names", lambda: [*names(), "deltamerge.functions"])
    other = shipping.code_of_files.__wrapped__()
    assert other is not None
    assert other.root != code.root
    monkeypatch.setattr(shipping, "code_of_files", lambda: other)
    assert run_with(ABSENT, one, shipping.shipped(count_map(DEFAULTS)), one) == ["1", "1", "1", "2 True"]


def test_the_root_tells_what_the_code_is(code: shipping.Code) -> None:
    assert shipping.code_of_files.__wrapped__() == code


def test_no_code_imports_what_may_be_installed(code: shipping.Code) -> None:
    import marshal
    import zlib

    modules = marshal.loads(zlib.decompress(code.packed))
    assert {f"{code.root}.worker.entry", f"{code.root}.protocol.schema.types", f"{code.root}.errors"} <= set(modules)
    for _, each in modules.values():
        names = {name for part in _parts(each) for name in part.co_names}
        assert not [name for name in names if name.split(".")[0] == "deltamerge"]
        assert {name for name in names if name.startswith(code.root)} <= set(modules)


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _parts(each)


def test_work_goes_by_value_where_a_loader_gives_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping.importlib.util, "find_spec", lambda name: None)
    assert shipping.code_of_files.__wrapped__() is None
    monkeypatch.setattr(shipping, "code_of_files", lambda: None)
    work = shipping.shipped(count_map(DEFAULTS))
    assert work.__name__ == "count_map"
    assert run_with(ABSENT, work) == ["1", "0 True"]


def test_what_is_sent_needs_no_other_module_of_the_library() -> None:
    """`loading` is sent as it stands with each job: it may import nothing of the library."""
    text = Path(loading.__file__).read_text(encoding="utf-8")
    assert "import deltamerge" not in text
    assert "from deltamerge" not in text
