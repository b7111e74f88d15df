"""The lines of docs/into-tools.md read what its commands write, where the package is installed."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from anabranch import cli
from conftest import ROOT

PAGE = (ROOT / "docs" / "into-tools.md").read_text("utf-8")
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's commands have run."""
    made = tmp_path_factory.mktemp("tools")
    (made / "scenarios").symlink_to(ROOT / "scenarios")
    (commands,) = re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE)
    with contextlib.chdir(made), contextlib.redirect_stdout(io.StringIO()):
        for line in commands.splitlines():
            assert cli.main(shlex.split(line)[1:]) == 0, line
    return made


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_reads_them(folder: Path, block: str) -> None:
    first = block.partition("\n")[0]
    for name in first.removeprefix("# needs ").split(", ") if first.startswith("# needs") else ():
        pytest.importorskip(name)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, "into-tools.md", "exec"), {})


def test_the_files_that_the_page_names_are_there(folder: Path) -> None:
    named = set(re.findall(r"`([\w./*-]+\.(?:csv|parquet|arrow))`", PAGE))
    assert len(named) >= 7
    assert [name for name in named if not any(folder.glob(name))] == []
