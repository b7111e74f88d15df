"""`anabranch reproduce PAPER --smoke`: every step of a paper, in seconds, marked everywhere."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from anabranch import papers
from anabranch.papers.reproduction import SMOKE
from papers_checks import check_page


def test_a_smoke_run_ends_and_is_marked_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The paper with fewest runs; `make validate` has those of the others."""
    name = "sctp-handover"
    paper = papers.load(name)
    console = Console(width=100)
    assert paper.reproduce("smoke", 2, tmp_path, None, console) == 0

    found = json.loads((tmp_path / f"{name}.json").read_text())
    assert found["mode"] == "smoke"
    assert {one["verdict"] for one in (*found["cells"], *found["claims"])} == {"open"}

    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith(SMOKE)
    for sentence in re.findall(r" - (.{40})", shown)[:2]:
        assert sentence.startswith(SMOKE)
    assert f"{SMOKE}: The paper's claims" in shown

    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    check_page(tmp_path, page.count("<figure>"))
    assert f'<main><p class="smoke" role="note">{SMOKE}.</p>' in page
    places = '<title>|<figcaption>|class="(?:finding|evidence)">|<table[^>]*>'
    unmarked = rf'(?:{places})(?!{SMOKE}|<caption class="smoke">{SMOKE})'
    assert not re.search(unmarked, page)
    assert "smoke run" in (tmp_path / "figures" / next(iter(drawn(tmp_path)))).read_text()
    assert not re.search(r'class="(?:tag )?(?:not_reproduced|partly|reproduced)"', page)


def drawn(folder: Path) -> list[str]:
    """The page's figures as SVG."""
    return sorted(path.name for path in (folder / "figures").glob("*.svg"))
