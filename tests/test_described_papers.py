"""Papers that are described in files: `python -m anabranch.papers new`, and what becomes of it."""

import json
import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from anabranch import papers
from anabranch.errors import AnabranchError
from anabranch.papers import __main__ as command
from anabranch.papers import new, plots
from anabranch.papers.described import DescribedOutcome, Runs, described, tables
from anabranch.papers.description import read, same
from anabranch.papers.intervals import Interval
from anabranch.papers.rows import ClaimRows, Row, part
from conftest import Command, one_error
from papers_checks import check_page

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A paper as `new` begins it."""
    return new.create("mathis-law", tmp_path)


def changed(folder: Path, name: str, old: str, to: str) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, to, 1), encoding="utf-8")


def test_what_new_writes_is_a_paper(folder: Path, tmp_path: Path, anabranch: Command) -> None:
    out = tmp_path / "out"
    done = anabranch("reproduce", folder, "--smoke", "--out", out, "--json", tmp_path / "j.json")
    assert done.returncode == 0, done.stderr
    assert "equation 3" in done.stdout
    found = json.loads((tmp_path / "j.json").read_text(encoding="utf-8"))
    assert (found["paper"], found["mode"], len(found["cells"])) == ("mathis-law", "smoke", 3)
    assert {one["verdict"] for one in (*found["cells"], *found["claims"])} == {"open"}
    check_page(out, 1)


def test_with_runs_enough_its_example_is_reproduced(folder: Path, tmp_path: Path) -> None:
    """Mathis et al. 1997: a law that other stacks keep too, so a check of the engine."""
    paper = papers.load(str(folder))
    found = paper.compute("quick", "quick", tmp_path / "out", 2)
    assert [cell.verdict for cell in found.cells] == ["reproduced"] * 3
    assert found.claims[1].verdict == "reproduced"
    record = paper.record(found)
    assert "## equation 3, Mbit/s" in record
    assert "| 0.1 % | 3.2 | 3.10 ± " in record
    assert "- **2** (as described): reproduced." in record


def test_readings_are_judged_each(folder: Path, tmp_path: Path) -> None:
    changed(
        folder,
        "paper.toml",
        "[readings.described]",
        '[readings.each]\ntitle = "every segment acknowledged"\n'
        'set = { "flows.load.transport.ack_every" = 1 }\n\n[readings.described]',
    )
    paper = papers.load(str(folder))
    found = paper.compute("smoke", "smoke", tmp_path / "out", 2)
    assert isinstance(found, DescribedOutcome)
    assert [claim.profile for claim in found.claims] == ["each", "each", "described", "described"]
    (table,) = tables(found)
    assert table.heads == ["reading", "loss", "paper", "ours"]
    assert [row[0] for row in table.rows[:3]] == ["every segment acknowledged"] * 3
    assert list(paper.figures(found)) == ["verdicts", "table1"]


def test_a_paper_in_the_package_has_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(new, "OWN", tmp_path)
    monkeypatch.setattr(command, "OWN", tmp_path)
    assert command.main(["new", "my-paper", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("Try: anabranch reproduce my-paper --smoke\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    import my_paper  # type: ignore[import-not-found]  # noqa: PLC0415

    assert my_paper.PAPER.name == "my-paper"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "My Paper"], "`My Paper` is not a name for a paper; use small letters, digits"),
        (["new", "there"], "there exists already"),
        (["new"], "usage: python -m anabranch.papers new NAME [FOLDER]"),
        (["old", "x"], "usage: python -m anabranch.papers new NAME [FOLDER]"),
    ],
)
def test_mistakes_of_new(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert command.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "old", "to", "message"),
    [
        ("paper.toml", 'title = "The', 'titel = "The', "paper.toml: `title` is missing"),
        ("paper.toml", "scale = 1e-3", "scal = 1e-3", "`values.goodput.scal` is not known"),
        ("paper.toml", "quick = 10", "quick = 0", "replications.quick = 0: input should be"),
        ("paper.toml", 'is = "about"', 'is = "like"', "claims.0.parts.0.is = like: input should"),
        ("paper.toml", "bound = 3.16", "", "claims.0.parts.0: bound = 0: about needs another"),
        ("paper.toml", "bound = 3.16", "bound = [1, 2]", "does not go with is = about"),
        (
            "paper.toml",
            'value = "goodput"',
            'value = "godput"',
            "claim 1, part 1: value = godput: it is none of goodput; did you mean `goodput`?",
        ),
        (
            "paper.toml",
            'over = { loss = "1 %" }',
            'over = { loss = "1 %" }\nalso = { goodpt = 1 }',
            "claim 1, part 1: also = goodpt: it is none of goodput; did you mean `goodput`?",
        ),
        (
            "paper.toml",
            'over = { loss = "1 %" }',
            'over = { loss = "1 %" }\nwords = ["best"]',
            "claim 1, part 1: words = best: only Python has words",
        ),
        ("paper.toml", 'id = "2"', 'id = "1"', "two claims have the id 1"),
        ("paper.toml", "runs =", "runs", "paper.toml: "),
        (
            "paper.toml",
            'over = { loss = "1 %" }',
            'over = { loss = "1 %" }\nminus = {}',
            "minus and over exclude each other",
        ),
        (
            "paper.toml",
            'over = { loss = "1 %" }',
            'over = { loss = "1 %" }\ntext = "{ours} of {los}"',
            "text = '{ours} of {los}': {los} is none of {n}, {other}, {ours}, {runs}",
        ),
        (
            "paper.toml",
            'over = { loss = "1 %" }',
            'over = { loss = "1 %" }\ntext = "{ours:d}"',
            "{ours:d} is none of",
        ),
        (
            "paper.toml",
            'over = { loss = "1 %" }',
            'over = { loss = "1 %" }\ntext = "{ours"',
            "text = '{ours': expected '}' before end of string",
        ),
        ("published.csv", "published\n", "number\n", "there is no column `published`"),
        ("published.csv", "3.20", "much", "row 1: published = much: it must be a finite number"),
        ("published.csv", "3.20", "inf", "row 1: published = inf: it must be a finite number"),
    ],
)
def test_mistakes_in_files(folder: Path, file: str, old: str, to: str, message: str) -> None:
    changed(folder, file, old, to)
    with pytest.raises(AnabranchError) as error:
        read(folder)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("published.csv", "table,loss", "table,los"),
            "row 1: `los` is not an axis of main, whose axes are loss; did you mean `loss`?",
        ),
        (
            ("published.csv", ",0.1 %,", ",0.2 %,"),
            "published.csv, row 1: loss = 0.2 %: its values are",
        ),
        (
            ("paper.toml", 'where = { loss = "0.1 %" }', 'where = { loss = ["0.1 %", "2 %"] }'),
            "claim 1, part 1: loss = 2 %: its values are",
        ),
        (("paper.toml", '"scenario.toml"', '"nowhere.toml"'), "cannot read"),
    ],
)
def test_mistakes_between_files(
    folder: Path, anabranch: Command, change: tuple[str, str, str], message: str
) -> None:
    changed(folder, *change)
    assert message in one_error(anabranch("reproduce", folder, "--smoke"))


def test_the_claim_in_the_documentation() -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    (claim,) = tomllib.loads(block)["claims"]
    assert ClaimRows.model_validate(claim).parts[0].bound == 1.1


def test_a_folder_without_a_paper(tmp_path: Path, anabranch: Command) -> None:
    assert "cannot read" in one_error(anabranch("reproduce", tmp_path, "--smoke"))
    message = one_error(anabranch("reproduce", "nowhere", "--smoke"))
    assert "there is no paper `nowhere`" in message
    assert "the path of a folder" in message


def runs_of(**series: list[float]) -> Runs:
    """Cells of one axis with a value in each replication."""
    rows = [
        {"control": name, "replication": replication, "goodput": value}
        for name, values in series.items()
        for replication, value in enumerate(values)
    ]
    return Runs(pl.DataFrame(rows), "described")


@pytest.mark.parametrize(
    ("row", "holds", "text"),
    [
        ({"is": "above", "bound": 5}, True, "goodput (control bic): 6.00 ± 0.13 Mbit/s"),
        ({"is": "below", "bound": 5}, False, "(claimed: < 5)"),
        ({"is": "above", "bound": 6}, None, "(claimed: > 6)"),
        ({"is": "within", "bound": 7}, True, "(claimed: within ± 7)"),
        ({"is": "about", "bound": 6.2}, True, "(paper: 6.2)"),
        ({"is": "about", "bound": 12}, False, "(paper: 12)"),
        ({"is": "above", "minus": {"control": "reno"}}, True, "minus that of control reno: +3.00"),
        ({"is": "about", "over": {"control": "reno"}, "bound": 2}, True, "over that of control"),
        ({"is": "above", "text": "it is fast"}, True, "it is fast: 6.00"),
        ({"is": "between", "bound": [5, 7]}, True, "(claimed: 5 to 7)"),
        ({"is": "between", "bound": [6, 7]}, None, "(claimed: 6 to 7)"),
        (
            {"is": "within", "over": {"control": "reno"}, "percent": True, "bound": 90},
            False,
            "over that of control reno: +100.00 ± 4.33 %",
        ),
        (
            {"is": "above", "minus": {"control": "reno"}, "text": "{this} not {other}: {ours}"},
            True,
            "6.00 ± 0.13 not 3.00 ± 0.00: +3.00 ± 0.13",
        ),
        ({"is": "about", "bound": 9, "margin": 3.5}, True, "(paper: 9)"),
        ({"is": "about", "bound": 9, "margin": 1}, False, "(paper: 9)"),
        ({"is": "above", "where": {}, "text": "{share}, {n} of {runs}"}, True, "450 %, 4 of 4"),
        (
            {"is": "above", "signed": True, "also": {"goodput": 0}, "text": "{ours}, {goodput}"},
            True,
            "+6.00 ± 0.13, 6 ± 0",
        ),
    ],
)
def test_rows_are_judged(row: dict[str, object], holds: object, text: str) -> None:
    runs = runs_of(bic=[5.9, 6.0, 6.1, 6.0], reno=[3.0, 3.0, 3.0, 3.0])
    asked = Row.model_validate({"value": "goodput", "where": {"control": "bic"}, **row})
    (row_,) = asked.parts()
    judged = part(row_, runs, title="goodput", unit="Mbit/s")
    assert judged.holds is holds
    assert text in judged.text


def test_a_row_for_each_of_several_cells() -> None:
    row = Row.model_validate(
        {
            "value": "goodput",
            "text": "{control} at {loss} %: {ours}",
            "where": {"delay": 1},
            "each": {"control": ["bic", "reno"], "loss": [1, 2]},
            "minus": {"control": "vegas"},
            "is": "above",
        }
    )
    rows = list(row.parts())
    assert [one.text for one in rows][:2] == ["bic at 1 %: {ours}", "bic at 2 %: {ours}"]
    assert rows[3].where == {"delay": 1, "control": "reno", "loss": 2}
    assert rows[3].others == {"delay": 1, "control": "vegas", "loss": 2}


@pytest.mark.parametrize(
    ("value", "other", "is_same"),
    [
        (0.1, "10 %", True),
        ("0.10", 0.1, True),
        ("5 ms", "5 ms", True),
        ("cubic", ["reno", "cubic"], True),
        (True, True, True),
        ("1 %", "1", False),
        ("cubic", ["reno"], False),
    ],
)
def test_values_of_axes_are_compared_however_they_are_spelled(
    value: str | float, other: str | float | list[str | float], is_same: object
) -> None:
    assert same(value, other) is is_same


@pytest.mark.parametrize("numbers", [("1 %", "2 %", "5 %"), ("cubic", "reno", "bic")])
def test_ours_beside_the_published(numbers: tuple[str, ...]) -> None:
    points = [
        plots.Point((name, series), Interval(mean, 0.1, 5), published)
        for series, published in (("a", 1.0), ("b", None))
        for mean, name in enumerate(numbers, start=1)
    ]
    figure = plots.beside_published(points, ["loss", "series"], "goodput")
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.get_xticklabels()]
    assert texts == list(numbers)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "paper"]
    diamonds = [line for line in axes.lines if line.get_marker() == "D"]
    assert len(diamonds) == 3


def test_a_paper_is_made_of_another_by_replacing_parts(folder: Path) -> None:
    own = replace(described("x", folder), headline=lambda _: "Its own words.")
    assert own.template == "described.html.j2"
