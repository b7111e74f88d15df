"""The notebooks of the documentation: each runs in a kernel, and shows what its text speaks of.

They are committed without outputs; the site's build executes them, too.
"""

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from conftest import HANGS_S, ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

SHOWN = {
    "first-run": ("Network of failing-path", "frames not played", "all 147 scalars"),
    "study": ("what the sweep varies", "270 of 270 runs finished", "± 95 %", "paired t"),
}


def read(path: Path) -> Any:
    return nbformat.reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path, folder: Path) -> Any:
    notebook = read(path)
    client = NotebookClient(
        notebook,
        timeout=HANGS_S,
        startup_timeout=HANGS_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    # By itself it would leave an event loop behind.
    asyncio.run(client.async_execute())
    return notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_results(path: Path, tmp_path: Path) -> None:
    notebook = executed(path, tmp_path)
    outputs = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    assert {output.output_type for output in outputs} <= {"execute_result", "display_data"}
    pages = "".join(output.data.get("text/html", "") for output in outputs)
    assert all(text in pages for text in SHOWN[path.stem])
    assert pages.count("<svg") >= 3
    if path.stem == "study":
        assert '<progress value="270" max="270">' in pages


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
    assert set(SHOWN) == {path.stem for path in NOTEBOOKS}
