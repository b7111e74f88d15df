"""The documentation site: its navigation, and that its check sees what is wrong.

`make docs-check` is the check of all pages, `make site` the build.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import documentation_site
from conftest import ROOT

TREE = """\
# Start

```{toctree}
page
```
"""


def test_the_index_has_every_page_once() -> None:
    text = (ROOT / "docs" / "index.md").read_text("utf-8")
    sections = documentation_site.navigation(text)
    named = [page for _, entries in sections for _, page in entries]
    pages = {
        str(page.relative_to(ROOT).with_suffix(""))
        for page in (ROOT / "docs").rglob("*")
        if page.suffix in {".md", ".ipynb"}
    } - {"docs/index"}
    assert {page for page in named if page.startswith("docs/")} == pages
    assert len(set(named)) == len(named)
    assert [heading for heading, _ in sections] == [
        "Tutorials",
        "How-to guides",
        "Reference",
        "Explanations",
        "Gallery",
        "Validation record",
        "Project",
    ]


def test_the_reference_has_every_command_and_export() -> None:
    commands = documentation_site.commands()
    for name in ("run", "sweep", "advise", "emulate exec", "sctp call"):
        assert f"# anabranch {name}\n" in commands, name
    assert "--replications" in commands
    api = documentation_site.python_api()
    for name in ("function:: anabranch.run", "class:: anabranch.Study", "anabranch.stats.paired"):
        assert name in api


def test_a_story_is_where_a_page_tells_to_play_it() -> None:
    titles = dict(documentation_site.STORY.findall((ROOT / "docs" / "lab.md").read_text("utf-8")))
    assert titles["bufferbloat"] == "Bufferbloat, and what CoDel does"
    found = {
        name
        for page in (ROOT / "docs").glob("*.md")
        for name in titles
        if f"index.html#{name}" in documentation_site.with_stories(page.read_text("utf-8"), titles)
    }
    assert found >= {"bufferbloat", "shared-bottleneck", "slow-second-path", "frozen-loss-clock"}
    assert len(found) >= 8


RIGHT = "# Page\n\n[start](index.md#start)\n"
WRONG = "# Page\n\n[file](gone.md), [anchor](index.md#nowhere)\n\n![image](lost.png)\n"


@pytest.mark.parametrize(
    ("page", "complaints"),
    [(RIGHT, []), (WRONG, ["gone.md", "nowhere", "lost.png"])],
    ids=["right", "wrong"],
)
def test_what_leads_nowhere_is_an_error(tmp_path: Path, page: str, complaints: list[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(TREE, "utf-8")
    (source / "page.md").write_text(page, "utf-8")
    code = (
        "import pathlib, sys, documentation_site;"
        "documentation_site.build(pathlib.Path(sys.argv[1]), 'dummy')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, source],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode != 0) == bool(complaints), result.stderr
    assert all(complaint in result.stderr for complaint in complaints)
