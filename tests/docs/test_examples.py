"""Every example of README.md and of the guide runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.examples import Example, difference, examples_of, run_page, same_output

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    path
    for path in [README, *sorted((ROOT / "docs").rglob("*.md"))]
    if "decisions" not in path.parts and list(examples_of(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("path", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_a_page_s_examples_run(path: Path, spark: SparkSession, tmp_path: Path) -> None:
    """A page makes its session itself, and every table and view that it uses."""
    for view in spark.sql("SHOW VIEWS").where("isTemporary").collect():
        spark.catalog.dropTempView(view.viewName)
    ran = 0
    for example, printed in run_page(path, tmp_path):
        assert not difference(path, example, printed)
        ran += 1
    assert ran


PAGE = """
```python
n = 1
print(n)
```

```text
1
```
=== "Tab"

    ```python
    n = 2
    ```
<!-- not run: needs a cluster -->
```python
raise SystemExit
```
```text
nothing
```
```
no language
```
"""


def test_blocks_of_a_page_are_found() -> None:
    found = [(example.text, example.line, example.output) for example in examples_of(PAGE)]
    assert found == [
        ("n = 1\nprint(n)\n", 3, "1\n"),
        ("n = 2\n", 13, None),
    ]


def test_a_page_runs_where_the_test_has_its_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nplace = '/tmp/deltamerge/a'\nprint(place)\n```\n", encoding="utf-8")
    ((example, printed),) = run_page(page, tmp_path)
    assert printed == "/tmp/deltamerge/a\n"
    assert not difference(page, example, printed)
    shown = Example(example.text, example.line, "/tmp/deltamerge/b\n")
    assert "page.md:2 prints otherwise" in difference(page, shown, printed)


def test_output_is_compared() -> None:
    assert same_output("+---+\n| 1 |\n\n", "+---+  \n| 1 |\n")
    assert not same_output("| 1 |\n", "|  1 |\n")
    assert not same_output("+---+\n...\n", "+---+\n| 1 |\n")
