"""Every example of README.md and of the guide runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.examples import examples_of, run_page, same_output

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "decisions" not in path.parts and list(examples_of(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("path", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_a_page_s_examples_run(path: Path, spark: SparkSession, tmp_path: Path) -> None:
    ran = 0
    for example, printed in run_page(path, spark, tmp_path):
        expected = example.output
        assert expected is None or same_output(expected, printed), (
            f"{path.name}:{example.line} prints otherwise\n--- the page\n{expected}\n--- printed\n{printed}"
        )
        ran += 1
    assert ran


PAGE = """
<!-- setup
n = 1
-->
```python
print(n)
```

```text
1
```
=== "SQL"

    ```sql
    SELECT 1
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
    found = [(example.language, example.text, example.line, example.output) for example in examples_of(PAGE)]
    assert found == [
        ("python", "n = 1\n", 3, None),
        ("python", "print(n)\n", 6, "1\n"),
        ("sql", "SELECT 1\n", 15, None),
    ]


def test_output_is_compared_but_for_what_is_left_out() -> None:
    assert same_output("+---+\n| 1 |\n...\n", "+---+\n|  1 |\nmuch more\n")
    assert not same_output("1\n", "2\n")
