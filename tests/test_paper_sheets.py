"""What `sheet.toml` of a paper's package says: axes, values, and what is made of them."""

import math
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from string import Formatter
from typing import Any

import polars as pl
import pytest
from jinja2 import UndefinedError

from anabranch import papers
from anabranch.papers.facets import Facets, counts
from anabranch.papers.intervals import Interval
from anabranch.papers.runs import Runs
from anabranch.papers.sheet import VALUES, Sheet, together
from anabranch.papers.tables import listed, of_published, of_records
from anabranch.papers.texts import Texts, fill
from anabranch.papers.verdicts import PublishedNumber

PAPERS = sorted(file.parent.name for file in Path(papers.__file__).parent.glob("*/sheet.toml"))
SHEET = """
[axes.queue]
names = { fifo = "First in", codel = "CoDel" }
colours = ["quiet", 1]

[axes.word]
column = "queue"
file = "words.toml"
rows = "word"

[axes.loss]
kind = "number"
numbers = [0.1, 0.02]
text = "{percent}"

[axes.buffer_kb]
of = "buffer"
kind = "whole"
scale = 0.001
numbers = [1, 64]

[values.share]
of = '"flow.kbit" / 1000.0 / {rate}'
head = "share"
high = 1

[values.twice]
of = "2 * share"
digits = 1
is_less_better = true

[values.lost]
of = '"flow.lost"'

[tables.all]
title = "All"
study = "main"
keys = { queue = "queue", word = "in a word" }
columns = ["share"]
across = "loss"
head = "{column} at {place}"

[tables.by_place]
like = "all"
columns = { "{share:2}" = "share at {place}", "({twice:±1+})" = "twice" }
by_place = true

[records.found]
title = "Found"
columns = { "{name}" = "", "{value:±1}" = "value", "{plain:2+}" = "sign" }

[numbers.text]
title = "Text"
keys = { queue = "queue", loss = "loss" }
paper = "{queue} {queue_word}: {published:g}"

[figures.lines]
kind = "lines"
study = "main"
size = [6, 3]
values = { share = "share", twice = "twice" }
across = "values"
title = "{label}"
along = "loss"
series = "queue"
spread = 0.2
is_cut = true
logarithmic = ["twice"]

[figures.bars]
kind = "bars"
study = "main"
size = [6, 3]
values = { share = "share" }
along = "loss"
series = "queue"
limits = [0, inf]
is_published = true

[figures.heat]
kind = "heat"
study = "main"
size = [6, 3]
values = { twice = "twice" }
labels = "none"
along = "loss"
series = "queue"
is_framed = true

[figures.levels]
kind = "levels"
study = "main"
size = [6, 3]
values = { share = "share" }
labels = "x"
along = "queue"
series = "loss"
spread = 0.4

[counts.own]
study = "main"
each = "queue"
text = "Runs: {}"

[counts.one]
text = "One run"
"""
WORDS = '[[word]]\nname = "fifo"\ntitle = "plain"\n[[word]]\nname = "codel"\ntitle = "clever"\n'


@pytest.fixture
def sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sheet:
    package = tmp_path / "sheeted"
    package.mkdir()
    for name, text in {"__init__.py": "", "sheet.toml": SHEET, "words.toml": WORDS}.items():
        (package / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sheeted", raising=False)
    return Sheet("sheeted")


@pytest.fixture
def runs(sheet: Sheet) -> Runs:
    rows = [
        {
            "cell": 0,
            "replication": float(replication),
            "queue": queue,
            "loss": loss,
            "buffer": 64_000.0,
            "flow.kbit": 1e3 * (1 + (queue == "codel") + replication / 10),
        }
        for queue in ("fifo", "codel")
        for loss in ("2 %", "10%")
        for replication in range(3)
    ]
    return Runs(sheet.tidy(pl.DataFrame(rows), rate=4.0), "")


def test_rows_become_factors_and_values(sheet: Sheet, runs: Runs) -> None:
    found = runs.frame
    assert found.columns == ["replication", "queue", "loss", "buffer_kb", "share", "twice"]
    assert found["loss"].unique().sort().to_list() == [0.02, 0.1]
    assert found["buffer_kb"].unique().to_list() == [64]
    first = found.row(0, named=True)
    assert (first["share"], first["twice"]) == (0.25, 0.5)
    assert sheet.scalars == ("flow.kbit", "flow.lost")
    assert [place.title for place in sheet.places("loss")] == ["10 %", "2 %"]
    assert [place.value for place in sheet.places("queue", runs.where(queue="codel"))] == ["codel"]


def test_a_table_has_a_row_for_each_combination(sheet: Sheet, runs: Runs) -> None:
    table = listed(sheet, "all", {"main": runs})
    assert table.heads == ["queue", "in a word", "share at 10 %", "share at 2 %"]
    assert [row[:2] for row in table.rows] == [["First in", "plain"], ["CoDel", "clever"]]
    mean = runs.where(queue="fifo", loss=0.1).mean("share")
    assert table.rows[0][2] == mean.text(2)
    sided = listed(sheet, "by_place", {"main": runs}, title="Other")
    assert sided.title == "Other"
    assert sided.heads[2:] == ["share at 10 %", "twice", "share at 2 %", "twice"]
    assert re.fullmatch(r"\(\+0\.\d ± 0\.\d\)", str(sided.rows[0][3]))


def test_records_and_published_numbers_are_tables(sheet: Sheet) -> None:
    found = of_records(
        sheet, "found", [{"name": "a", "value": Interval(1.23, 0.1, 9), "plain": 2.0}]
    )
    assert found.rows == [["a", "1.2 ± 0.1", "+2.00"]]
    number = PublishedNumber("1", {"queue": "codel", "loss": 0.5}, 3.0, 3.1, 0.1, "reproduced", "")
    (row,) = of_published(sheet, "text", [number]).rows
    # A value that is no place of its axis stands as it is.
    assert row[:3] == ["CoDel", "0.5", "CoDel codel: 3"]


def drawn(sheet: Sheet, runs: Runs, name: str, **further: Any) -> Any:
    return Facets(sheet, sheet.figures[name], runs, **further).draw()


def test_lines_are_apart_and_stand_at_their_means(sheet: Sheet, runs: Runs) -> None:
    first, second = drawn(sheet, runs, "lines").axes
    assert (first.get_title(loc="left"), second.get_yscale()) == ("share", "log")
    fifo, codel = (one for one in first.lines if one.get_marker() == "o")
    assert fifo.get_xdata() == pytest.approx([-0.1, 0.9])
    assert codel.get_xdata() == pytest.approx([0.1, 1.1])
    assert fifo.get_ydata() == pytest.approx([runs.where(queue="fifo").mean("share").mean] * 2)


def test_bars_have_published_numbers_only_if_they_say_so(sheet: Sheet, runs: Runs) -> None:
    asked = []

    def published(value: str, cells: Any) -> list[float]:
        asked.append((value, cells))
        return [0.5]

    (axes,) = drawn(sheet, runs, "bars", published=published).axes
    assert len(axes.patches) == 4
    assert ("share", {"loss": 0.1, "queue": "codel"}) in asked
    assert len(asked) == 4
    plain = sheet.figures["bars"].model_copy(update={"is_published": False})
    asked.clear()
    Facets(sheet, plain, runs, published=published).draw()
    assert not asked


def test_heat_maps_frame_what_may_be_best_and_levels_are_lines(sheet: Sheet, runs: Runs) -> None:
    (axes,) = drawn(sheet, runs, "heat").axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["First in", "CoDel"]
    assert sum(patch.get_gid() == "best" for patch in axes.patches) == 4
    (axes,) = drawn(sheet, runs, "levels").axes
    levels = sorted(float(one.get_ydata()[0]) for one in axes.lines if one.get_marker() == "o")
    assert levels == pytest.approx([-0.2, 0.2, 0.8, 1.2])


def test_the_page_counts_runs(sheet: Sheet, runs: Runs) -> None:
    said = counts(sheet, {"main": runs})
    assert said["bars"] == "Means of 3 runs"
    assert said["own"] == "Runs: 3 (First in), 3 (CoDel)"
    assert said["one"] == "One run"
    both = together({"a": runs, "b": runs}, "profile")
    assert both.where(profile="b").frame.height == runs.frame.height


def test_a_text_shows_means_and_what_they_belong_to() -> None:
    mean = Interval(2.345, 0.5, 3)
    link = PublishedNumber("t", {"queue": "codel"}, 2.0, mean.mean, 0.5, "open", "ms")
    said = {
        "mean": mean,
        "link": link,
        "by": {"a": mean},
        "share": 0.25,
        "none": Interval(math.nan, math.nan, 0),
    }
    assert fill("{mean:±1} {mean:2} {mean:±1+} {mean:1+}", said) == "2.3 ± 0.5 2.35 +2.3 ± 0.5 +2.3"
    assert fill("{mean:0/4}|{none:1}", said) == "   2|–"
    assert fill("{by[a]:1} {link.published:.1f} {share:.0%}", said) == "2.3 2.0 25%"


STORY = """
{% macro one() %}
{{ mean | text("±1") }}
of {{ named[key] }}{% if doubt %}, which is open{% endif %}.
{% endmacro %}

{% macro all() %}
{% if doubt %}
- Not told: {{ one() }}
{% endif %}
{% for key, value in by.items() %}
- {{ named[key] }} has {{ value | text }}
  - and no more.
{% endfor %}
{% endmacro %}
"""


def test_a_story_has_sentences_with_their_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "a_story"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "story.j2").write_text(STORY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    said = Texts("a_story", named={"a": "Alpha"})
    mean = Interval(2.345, 0.5, 3)
    assert said("one", mean=mean, key="a", doubt=False) == "2.3 ± 0.5 of Alpha."
    told = {"mean": mean, "key": "a", "by": {"a": mean}}
    listed = "Alpha has 2.35 ± 0.50 - and no more."
    assert said.several("all", doubt=False, **told) == [listed]
    assert said.several("all", doubt=True, **told) == [
        "Not told: 2.3 ± 0.5 of Alpha, which is open.",
        listed,
    ]
    with pytest.raises(UndefinedError, match="'key' is undefined"):
        said("one", mean=mean, doubt=False)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_sheet_names_what_there_is(paper: str) -> None:
    package = f"anabranch.papers.{paper}"
    sheet: Sheet = import_module(f"{package}.factors").SHEET
    for name, figure in sheet.figures.items():
        for axis in (figure.along, figure.series, figure.down, figure.across):
            assert axis in {"", VALUES, *sheet.axes}, (name, axis)
        assert set(figure.values) | set(figure.logarithmic) <= set(sheet.values), name
        assert set(figure.logarithmic) <= set(figure.values), name
    known = {*sheet.values, "to_worse"}  # which sctp-handover counts itself
    for name, table in sheet.tables.items():
        assert {*table.keys, table.across} - {""} <= set(sheet.axes), name
        for text in table.columns:
            names = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
            assert set(names or [text]) <= known, name
    for axis in sheet.axes:
        assert sheet.column(axis) in sheet.axes or sheet.column(axis) == "loss", axis
        assert len({place.value for place in sheet.places(axis)}) == len(sheet.places(axis))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_described_table_and_figure_is_shown(paper: str) -> None:
    folder = Path(papers.__file__).parent / paper
    described = tomllib.loads((folder / "sheet.toml").read_text(encoding="utf-8"))
    python = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    page = (folder / "page.html.j2").read_text(encoding="utf-8")
    for kind in ("tables", "records", "numbers"):
        for name in described.get(kind, {}):
            assert f'"{name}"' in python, (kind, name)
    for name in described.get("figures", {}):
        assert f'"{name}"' in page + python, name
