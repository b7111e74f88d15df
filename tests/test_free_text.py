"""Names and titles of users stand in figures and pages as they were written."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.mathtext import MathTextParser

import anabranch as package
import captures
from anabranch import papers
from anabranch.bench_cc import figures as bench_figures
from anabranch.bench_cc import measures, scenarios
from anabranch.figures import notebook, plots, run_plots
from anabranch.papers import new
from anabranch.stats import Interval
from anabranch.studies.study import Study
from conftest import ROOT, Command

ODD = """n $x_$ "q" <b>'c' d$^$ id="z" fill; #000000 &amp; _"""
"""A name with what matplotlib, SVG and HTML could take for their own."""

NODE = """b$\\frac$<&" style="y" """

SCENARIO = f"""\
name = '''{ODD}'''
description = '''cost $x_$ <i> "q" \\alpha'''
run.duration = "4 s"
[links]
_l = {{ ends = ["$a_$", '''{NODE}'''], rate = "2 Mbit/s", delay = "10 ms" }}
_m = {{ ends = ["$a_$", '''{NODE}'''], rate = "2 Mbit/s", delay = "20 ms" }}
[paths]
_p_.via = ["_l"]
_q_.via = ["_m"]
[flows._f]
from = "$a_$"
to = '''{NODE}'''
paths = ["_p_", "_q_"]
transport = {{ kind = "sctp", load_sharing = {{}} }}
app = {{ kind = "bulk" }}
[flows._g_]
from = "$a_$"
to = '''{NODE}'''
paths = ["_p_", "_q_"]
transport = {{ kind = "sctp" }}
app = {{ kind = "voip", start = "0.5 s", duration = "2 s" }}
[sweep]
replications = 2
[sweep.axes]
_r = {{ set = "flows._g_.transport.path_max_retrans", values = [1, 2] }}
_s.cases = {{ '$s_$ "q" <b>' = {{ seed = 1 }}, '$\\q$' = {{ seed = 2 }} }}
"""

LOSSY = 'delay = "20 ms"\nloss = { kind = "bernoulli", probability = "5 %" }'


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All text that is drawn in SVG from here on. Mathematics is a failure, in any format."""
    texts: list[str] = []

    def parse(_: object, text: str, *__: object, **___: object) -> None:
        pytest.fail(f"drawn as mathematics: {text}")

    def draw_text(self: Any, gc: Any, x: Any, y: Any, s: str, *more: Any, **named: Any) -> None:
        assert "mathdefault" not in s  # a number as mathematics, not drawn as such
        texts.append(s)
        plain(self, gc, x, y, s, *more, **named)

    plain: Any = RendererSVG.draw_text
    monkeypatch.setattr(MathTextParser, "parse", parse)
    monkeypatch.setattr(RendererSVG, "draw_text", draw_text)
    return texts


def written(texts: Sequence[str]) -> str:
    return " ".join(" ".join(texts).split())


def check(page: Path | str) -> str:
    """A page has no element, attribute or id from a name; gives the text of its figures."""
    text = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    for tag in re.findall(r"<[a-zA-Z][^>]*>", text):
        assert not re.match(r"<[bi]\b", tag) or tag in {"<b>", "<i>"}
        bare = re.sub(r"""=\s*("[^"]*"|'[^']*')""", "", tag)
        assert not re.search(r"[$\"'&]", bare), tag
    return written(re.findall(r"<text\b[^>]*>([^<]*)<", text))


def test_commands_draw_names_as_they_are(
    anabranch: Command, tmp_path: Path, drawn: list[str]
) -> None:
    (tmp_path / "odd.toml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "other.toml").write_text(SCENARIO.replace("10 ms", "15 ms"), encoding="utf-8")
    folders = ["a$x_$", "b$^$ <b>"]
    for folder, scenario in zip(folders, ("odd.toml", "other.toml"), strict=True):
        commands = [
            ["run", scenario, "--plot", folder, "--formats", "png", "svg", "pdf"],
            ["run", scenario, "--trace", f"t{folder}", "--json", f"t{folder}/run.json"],
            ["explain", scenario, "--plot", folder, "--json", "odd.json"],
            ["sweep", scenario, "--out", f"s{folder}"],
            ["report", f"s{folder}", "--metric", "_g_.mos", "--metric", "_f.goodput_kbit_per_s"],
        ]
        for command in commands:
            done = anabranch(*command)
            assert done.returncode == 0, done.stderr
    for kind in ("s", "t"):
        ends = [f"{kind}{folder}" + ("/run.json" if kind == "t" else "") for folder in folders]
        done = anabranch("compare", *ends, "--plot", f"compared-{kind}")
        assert done.returncode == 0, done.stderr
    assert f"{ODD}: delay of each frame" in written(drawn)
    assert "$a_$" in written(drawn)
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) == 6
    shown = [check(page) for page in pages]
    as_text = ODD.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert any(as_text in text for text in shown)


@pytest.mark.usefixtures("drawn")
def test_profiles_draw_names_as_they_are(anabranch: Command, tmp_path: Path) -> None:
    file = "p $x_$ <b>.csv"
    captures.ping_csv(tmp_path / file, captures.round_trips(LOSSY, 8, 2000))
    done = anabranch("profile", file, "--plot", "p$^$", "--out", "$o_$.toml")
    assert done.returncode == 0, done.stderr
    figures = list((tmp_path / "p$^$").iterdir())
    assert {each.stem.rpartition("-")[2] for each in figures} >= {"delays", "bursts"}


def test_notebooks_draw_names_as_they_are(drawn: list[str]) -> None:
    study = Study(SCENARIO)
    study.run()
    result = package.run(study.scenario, trace=True)
    compared = study.compare({"_r": 1}, {"_r": 2}, "_g_.mos")
    object.__setattr__(compared, "names", (ODD, "$\\q$"))
    figures = [
        result.plot(),
        study.plot("_g_.mos", x="_r", by="_s"),
        notebook.figure_of_comparison(compared),
    ]
    for figure in figures:
        check(str(figure._repr_html_()))
        # As a user may save it: outside of our style, and with text of its own.
        figure.savefig(io.BytesIO(), format="svg")
    for shown in (study, study.scenario, result, compared):
        check(str(shown._repr_html_()))
    assert ODD in written(drawn)


def test_figures_of_studies_draw_names_as_they_are(tmp_path: Path, drawn: list[str]) -> None:
    cells = pl.DataFrame(
        {"x": [1.0, 2.0], "$y_$": [ODD, NODE], "mean": [1.0, 2.0], "half_width": [0.1, 0.1]}
    )
    trace = pl.DataFrame(
        {"time_s": [0.0, 1.0], "path": [ODD, NODE], "cwnd_bytes": [1, 2], "rto_ms": [900.0, 1e3]}
    )
    figures = [
        plots.heat_map(cells, "x", "$y_$", value_label=ODD, title=ODD),
        run_plots.paths(trace, title=ODD, rto_limits_ms=(1000.0, 60_000.0)),
        *(make() for make in bench_figures.of(_cells()).values()),
    ]
    for figure in figures:
        plots.save(figure, tmp_path / "figure", ["svg"])
    assert written(drawn).count(ODD) >= 5


def _cells() -> list[measures.Cell]:
    """Two controls of users in a case of theirs."""
    about = scenarios.load(("lossy",), "linux_6")[0]
    names = [metric.name for metric in measures.METRICS]
    values = dict.fromkeys(names, Interval(1.0, 0.1, 3))
    runs = dict.fromkeys(names, (0.9, 1.0, 1.1))
    return [measures.Cell(about, ODD, control, values, runs) for control in ("my:$A_$", NODE)]


def test_papers_draw_titles_as_they_are(tmp_path: Path, drawn: list[str]) -> None:
    folder = new.create("mine", tmp_path)
    file = folder / "paper.toml"
    text = file.read_text(encoding="utf-8")
    text = text.replace('title = "goodput"', f"title = '''{ODD}'''")
    text = text.replace('title = "as described"', f"title = '''{ODD}'''")
    text = text.replace('unit = "Mbit/s"', "unit = '$M_$ <b>'")
    file.write_text(text, encoding="utf-8")
    paper = papers.load(str(folder))
    found = paper.compute("smoke", "smoke", tmp_path / "out", 1)
    for make in paper.figures(found).values():
        make().savefig(io.BytesIO(), format="svg")
    assert "$M_$ <b>" in written(drawn)


def test_every_figure_is_one_whose_text_is_drawn_as_it_stands() -> None:
    """What `plots.blank` makes; numbers on logarithmic axes are no mathematics either."""
    for folder in ("python", "tools"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            assert "pyplot" not in text, file
            if file.name != "plots.py" or file.parent.name != "figures":
                assert not re.search(r"\b(Figure|Drawing)\(|set_[xy]scale\(.log", text), file
