"""What notebooks show goes through nbconvert whole: the style, the tables, and no script."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path

from deltamerge.display.html import html_of
from deltamerge.display.views import Bar, Bars, Cell, Grid, Node, Page, Tree
from tests.install.test_install import pip

PAGE = Page(
    "Merge",
    "committed version 4: 3 updated",
    (
        Grid("Rows", ("id", "name"), ((Cell("1"), Cell("<script>alert(1)</script>", marked=True)),), frozenset({"id"})),
        Bars("Files", ("files",), (Bar("in the table", 1.0, ("16",)), Bar("after source keys", 0.1, ("2",)))),
        Tree("Plan", (Node("broadcast", "the source is small"),)),
    ),
)


def test_nbconvert_shows_a_page(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    pip(python, "install", "--no-compile", "-c", "constraints.txt", "nbconvert==7.17.2")
    shown = html_of(PAGE)
    data = {"text/html": shown, "text/plain": "a report"}
    output = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
    cell = {"cell_type": "code", "id": "a", "execution_count": 1, "metadata": {}, "source": "report", "outputs": [output]}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "merge.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    command = [str(python), "-m", "nbconvert", "--to", "html", str(tmp_path / "merge.ipynb")]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": ""})
    page = (tmp_path / "merge.html").read_text(encoding="utf-8")
    assert shown in page
    assert "<script>alert" not in page
    assert "a report" not in page
