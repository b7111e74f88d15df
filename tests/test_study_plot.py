"""Figures of studies for publications: axes, units, text that never overlaps, files and numbers."""

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import anabranch as package
from anabranch import cli
from anabranch.errors import AnabranchError
from anabranch.figures import plots, study_plot, swept
from anabranch.stats import metrics
from anabranch.studies import where
from conftest import CALL, SWEEP, written

RTO = '{ set = "flows.call.transport.rto_max", values = ["50 ms", "0.1 s", "1 s", "10 s", "60 s"] }'
PMR = '{ set = "flows.call.transport.path_max_retrans", values = [0, 1, 5] }'
DELAY = '{ set = "links.first.delay", range = { from = "10 ms", to = "90 ms", step = "20 ms" } }'
LONG = '{ set = "links.second.delay", log_range = { from = "10 ms", to = "40 ms", count = 3 } }'
NAMES = (
    "failover with slow timers",
    "delay-centric",
    "no_policy_$x_$",
    "another & rather long name",
)
CASES = ", ".join(
    f'"{name}" = {{ "flows.call.transport.hb_interval" = "{i + 1} s" }}'
    for i, name in enumerate(NAMES)
)


def study_of(*axes: str, runs: int = 5, missing: int | None = None) -> Any:
    """A study whose numbers are made up: what is drawn does not depend on a simulation."""
    own = {
        "rto_max": RTO,
        "pmr": PMR,
        "delay": DELAY,
        "long": LONG,
        "setting": f"{{ cases = {{ {CASES} }} }}",
    }
    lines = "\n".join(f"{name} = {own[name]}" for name in axes)
    scenario = package.load(f"{CALL}\n[sweep]\nreplications = {runs}\n[sweep.axes]\n{lines}\n")
    count = scenario.cell_count
    keys = pl.DataFrame([scenario.cell_key(cell) for cell in range(count)])
    table = keys.insert_column(0, pl.Series("cell", range(count)))
    random = np.random.default_rng(1)
    cells = table.with_columns(
        mean=pl.Series(random.uniform(1, 4.5, count)),
        half_width=pl.Series(random.uniform(0.05, 0.5, count)),
        n=pl.lit(runs),
    )
    if missing is not None:
        cells = cells.filter(pl.col("cell") != missing)
    return SimpleNamespace(
        scenario=scenario, axes=list(axes), cell_table=table, cells=lambda _metric: cells
    )


def drawn(
    study: Any, *names: str, metric: str = "call.mos", conditions: Any = (), **looks: Any
) -> Figure:
    x, by, panels = (*names, None, None, None)[:3]
    picture = study_plot.chosen(study, metric, x, by, panels, conditions)
    return study_plot.drawn(picture, study_plot.Looks(**looks))


def shown(figure: Figure) -> list[Text]:
    """All text that a reader sees: not that of hidden panels and of ticks outside of an axis."""
    with plots.laid_out(figure):
        pass
    hidden: set[int] = set()
    for axes in figure.axes:
        if not axes.get_visible():
            hidden |= {id(text) for text in axes.findobj(Text)}
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    hidden |= {id(tick.label1), id(tick.label2)}
    return [
        text
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip()
        if id(text) not in hidden
    ]


def ticks(figure: Figure, panel: int = 0) -> list[str]:
    return [text.get_text() for text in figure.axes[panel].get_xticklabels() if text.get_text()]


def test_an_axis_that_was_swept_in_ratios_is_logarithmic_and_has_its_unit() -> None:
    figure = drawn(study_of("rto_max", "pmr"))
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert axes.get_xlabel() == "rto_max (s)"
    assert axes.get_ylabel() == "MOS of call"
    assert ticks(figure) == ["0.05", "0.1", "1", "10", "60"]
    figure = drawn(study_of("delay", "pmr"), metric="call.mean_delay_ms")
    (axes,) = figure.axes
    assert axes.get_xscale() == "linear"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("delay (ms)", "mean delay of call (ms)")
    assert ticks(figure) == ["10", "30", "50", "70", "90"]
    # The definition says so, however few values there are.
    assert drawn(study_of("long")).axes[0].get_xscale() == "log"


@pytest.mark.parametrize(
    ("values", "is_so"),
    [
        ((1, 10, 100), True),
        ((1, 2, 5, 10, 20, 50), True),
        ((1, 2, 3), False),
        ((10, 20, 30, 40, 50, 60, 70, 80, 90), False),
        ((0, 1, 10, 100), False),
        ((-1, 1, 10), False),
        ((1, 100), False),
        ((2, 4, 8), False),
        ((2, 4, 8, 16), True),
    ],
)
def test_values_tell_whether_they_were_swept_in_ratios(
    values: tuple[float, ...],
    is_so: bool,  # noqa: FBT001
) -> None:
    assert swept.is_geometric(values) == is_so


@pytest.mark.parametrize(
    ("metric", "title"),
    [
        ("call.mos", "MOS of call"),
        ("call.mean_delay_ms", "mean delay of call (ms)"),
        ("bulk.goodput_kbit_per_s", "goodput of bulk (kbit/s)"),
        ("call.loss_percent", "loss of call (%)"),
        ("call.sctp.a.path0.cwnd_bytes", "cwnd of call.sctp.a.path0 (B)"),
        ("call.sctp.a.timeouts", "timeouts of call.sctp.a"),
        ("run.s", "s of run"),
    ],
)
def test_a_scalar_has_a_title_with_its_unit(metric: str, title: str) -> None:
    assert metrics.titled(metric) == title


SMALL, LARGE = {"font": "serif", "font_size": 7.0}, {"font_size": 11.0}
LAYOUTS: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
    (("rto_max",), "60mm", {}),
    (("rto_max", "pmr"), "60mm", LARGE),
    (("rto_max", "pmr"), "84mm", SMALL),
    (("rto_max", "pmr"), "160mm", {}),
    (("pmr", "rto_max"), "84mm", {}),
    (("rto_max", "pmr", "delay"), "60mm", SMALL),
    (("rto_max", "pmr", "delay"), "84mm", {}),
    (("rto_max", "pmr", "delay"), "160mm", LARGE),
    (("setting", "pmr"), "60mm", SMALL),
    (("setting", "pmr"), "84mm", {}),
    (("setting", "pmr"), "160mm", LARGE),
    (("setting", "pmr", "delay"), "84mm", SMALL),
    (("setting", "pmr", "delay"), "160mm", {}),
    (("delay", "setting"), "84mm", {}),
    (("delay", "setting"), "160mm", LARGE),
]


@pytest.mark.parametrize(("axes", "width", "looks"), LAYOUTS, ids=str)
def test_no_text_covers_another(axes: tuple[str, ...], width: str, looks: dict[str, Any]) -> None:
    figure = drawn(study_of(*axes), *axes, metric="call.mean_delay_ms", width=width, **looks)
    texts = shown(figure)
    assert len(texts) >= 6
    assert study_plot.overlapping(texts) == []
    whole = figure.bbox
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= whole.x0 - 1, text
        assert box.x1 <= whole.x1 + 1, text
        assert box.y0 >= whole.y0 - 1, text
        assert box.y1 <= whole.y1 + 1, text
    assert figure.get_figwidth() == pytest.approx(float(width[:-2]) / 25.4)


def test_overlapping_text_is_found() -> None:
    figure = plots.blank(3, 3)
    one, other = (figure.text(0.5, 0.5, text) for text in ("one text", "another"))
    apart = figure.text(0.1, 0.1, "apart")
    assert study_plot.overlapping([one, other, apart]) == [("one text", "another")]


def test_a_third_axis_has_panels() -> None:
    figure = drawn(study_of("rto_max", "pmr", "delay"))
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert titles == [f"delay = {ms} ms" for ms in (10, 30, 50, 70, 90)]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["pmr = 0", "pmr = 1", "pmr = 5"]
    limits = {axes.get_ylim() for axes in figure.axes}
    assert len(limits) == 1, "panels have one scale"
    # Five panels on three columns: the one above the empty place shows its ticks.
    assert any(
        label.get_visible() and label.get_text() for label in figure.axes[2].get_xticklabels()
    )


def test_points_stand_where_they_belong() -> None:
    study = study_of("rto_max", "pmr")
    figure = drawn(study)
    table = study.cells("").sort("pmr", "rto_max")
    for line, pmr in zip(figure.axes[0].containers, (0, 1, 5), strict=True):
        own = table.filter(pl.col("pmr") == pmr)
        data, _, (bars,) = line.lines  # type: ignore[attr-defined]
        assert list(data.get_xdata()) == pytest.approx([0.05, 0.1, 1, 10, 60])
        assert list(data.get_ydata()) == pytest.approx(own["mean"].to_list())
        widths = [(segment[1][1] - segment[0][1]) / 2 for segment in bars.get_segments()]
        assert widths == pytest.approx(own["half_width"].to_list())


def test_a_cell_that_is_missing_leaves_a_gap() -> None:
    figure = drawn(study_of("rto_max", "pmr", missing=4))
    counts = [len(line.lines[0].get_xdata()) for line in figure.axes[0].containers]  # type: ignore[attr-defined]
    assert sorted(counts) == [4, 5, 5]


def test_the_users_style_holds() -> None:
    study = study_of("rto_max", "pmr")
    with mpl.rc_context({"lines.linewidth": 3.0, "font.size": 7.0, "axes.edgecolor": "red"}):
        figure = drawn(study)
        other = drawn(study, font_size=12.0)
    (axes,) = figure.axes
    assert axes.spines["left"].get_edgecolor() == mpl.colors.to_rgba("red")
    assert axes.xaxis.label.get_fontsize() == 7
    assert {line.lines[0].get_linewidth() for line in axes.containers} == {3.0}  # type: ignore[attr-defined]
    assert other.axes[0].xaxis.label.get_fontsize() == 12, "what the call says comes first"
    with mpl.style.context("ggplot"):
        grey = drawn(study)
    assert grey.axes[0].get_facecolor() == mpl.colors.to_rgba("#E5E5E5")
    plain = drawn(study)
    assert plain.axes[0].lines[0].get_color() == plots.COLOURS[0]
    assert not plain.axes[0].spines["top"].get_visible()
    assert mpl.rcParams["font.size"] == mpl.rcParamsDefault["font.size"], "nothing changes outside"


def test_labels_are_the_readers_words() -> None:
    labels = {"rto_max": "RTO.Max (s)", "call.mos": "MOS", "pmr": "PMR"}
    figure = drawn(study_of("rto_max", "pmr"), labels=labels)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("RTO.Max (s)", "MOS")
    assert sorted(text.get_text() for text in axes.texts) == ["PMR = 0", "PMR = 1", "PMR = 5"]
    with pytest.raises(AnabranchError, match="label: the figure has no `rto`; it has"):
        drawn(study_of("rto_max", "pmr"), labels={"rto": "x"})


@pytest.mark.parametrize(
    ("label", "said", "first"),
    [
        ("RTO.Max (ms)", "RTO.Max (ms)", "50"),
        ("RTO.Max (min)", "RTO.Max (min)", "0.0008333"),
        ("RTO.Max", "RTO.Max (s)", "0.05"),
        ("RTO.Max in s", "RTO.Max in s", "0.05"),
        ("RTO.Max (at both ends)", "RTO.Max (at both ends)", "0.05"),
        ("RTO.Max (Mbit/s)", "RTO.Max (Mbit/s)", "0.05"),
    ],
)
def test_the_unit_of_a_label_is_that_of_its_values(label: str, said: str, first: str) -> None:
    study = study_of("rto_max", "pmr")
    (axes,) = drawn(study, labels={"rto_max": label}).axes
    assert axes.get_xlabel() == said
    assert next(text.get_text() for text in axes.get_xticklabels()) == first
    places = axes.containers[0].lines[0].get_xdata()  # type: ignore[attr-defined]
    assert places[0] == pytest.approx(float(first), rel=1e-3)


def test_lines_have_the_unit_of_their_label_once() -> None:
    figure = drawn(study_of("pmr", "rto_max"), "pmr", labels={"rto_max": "RTO.Max (ms)"})
    names = sorted(text.get_text() for text in figure.axes[0].texts)
    names = names or [text.get_text() for text in figure.legends[0].get_texts()]
    assert "RTO.Max = 50 ms" in names
    figure = drawn(
        study_of("rto_max"), metric="call.mean_delay_ms", labels={"call.mean_delay_ms": "D"}
    )
    assert figure.axes[0].get_ylabel() == "D (ms)"


def test_the_axis_with_the_most_numbers_is_x() -> None:
    study = study_of("pmr", "rto_max")
    picture = study_plot.chosen(study, "call.mos")
    assert picture.by is not None
    assert (picture.x.name, picture.by.name) == ("rto_max", "pmr")


@pytest.mark.parametrize("width", ["60mm", "84mm", "160mm"])
@pytest.mark.parametrize("axes", [("pmr", "rto_max", "delay"), ("long", "delay"), ("rto_max",)])
def test_every_point_is_within_its_axes(axes: tuple[str, ...], width: str) -> None:
    figure = drawn(study_of(*axes), *axes, width=width)
    with plots.laid_out(figure):
        pass
    seen = 0
    for panel in figure.axes:
        for line in panel.containers:
            data = line.lines[0]  # type: ignore[attr-defined]
            places = data.get_transform().transform(np.column_stack(data.get_data()).astype(float))[
                :, 0
            ]
            half = data.get_markersize() / 2 / 72 * figure.dpi
            assert places.min() - half >= panel.bbox.x0
            assert places.max() + half <= panel.bbox.x1
            seen += len(places)
    assert seen >= 5


def test_what_cannot_be_drawn_is_a_sentence() -> None:
    four = study_of("rto_max", "pmr", "delay", "setting")
    with pytest.raises(AnabranchError, match=r"the study varies setting, too, .* setting=failover"):
        drawn(four)
    assert drawn(four, conditions={"setting": "delay-centric"}).axes
    with pytest.raises(AnabranchError, match="by: there is no axis `pmx`; did you mean `pmr`"):
        drawn(four, "rto_max", "pmx")
    with pytest.raises(AnabranchError, match="name each axis once"):
        drawn(four, "pmr", "pmr")
    with pytest.raises(AnabranchError, match="width: `84` is not a length such as `84mm`"):
        drawn(study_of("pmr"), width="84")
    with pytest.raises(AnabranchError, match="there is no font `Nothing Sans` on this machine"):
        drawn(study_of("pmr"), font="Nothing Sans")
    with pytest.raises(AnabranchError, match="x: `setting` has 4 names, which do not fit side by"):
        drawn(study_of("setting"), width="16mm")
    with pytest.raises(AnabranchError, match="no axis of several values to draw against"):
        drawn(study_of("pmr"), conditions={"pmr": 0})


def test_conditions_choose_cells() -> None:
    study = study_of("rto_max", "setting")

    def left(conditions: Any) -> set[tuple[Any, ...]]:
        rows = where.selected(study.cell_table, conditions, study.scenario)
        return set(rows.select("rto_max", "setting").rows())

    every = set(itertools.product((0.05, 0.1, 1, 10, 60), NAMES))
    assert left(()) == every
    assert left("rto_max<=100 ms") == {key for key in every if key[0] <= 0.1}
    assert left(["rto_max > 0.1 s", "setting=delay-centric"]) == {
        key for key in every if key[0] > 0.1 and key[1] == "delay-centric"
    }
    assert left(["rto_max=50ms", "rto_max=1 min"]) == {key for key in every if key[0] in (0.05, 60)}
    assert left({"rto_max": [0.1, "10 s"]}) == {key for key in every if key[0] in (0.1, 10)}
    assert left("setting!=delay-centric") == {key for key in every if key[1] != "delay-centric"}
    for wrong, sentence in {
        "rto": "`rto` is not AXIS=VALUE",
        "rto=1": "no axis `rto`; did you mean `rto_max`",
        "rto_max=2 s": "`rto_max` is never 2 s: it is 50 ms, 0.1 s, 1 s, 10 s, 60 s",
        "setting<1": "`setting` has no numbers to compare",
        "rto_max<fast": "compared with `fast`, which is not a number",
        "rto_max>60": "no cell of the study is as",
    }.items():
        with pytest.raises(AnabranchError, match=sentence):
            left(wrong)


@pytest.mark.parametrize("suffix", ["pdf", "pgf", "png", "svg"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    study = study_of("rto_max", "pmr", "setting")
    contents = []
    for name in ("first", "second"):
        (path,) = plots.save(drawn(study), tmp_path / name, [suffix])
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert len(contents[0]) > 5000


def test_pgf_needs_no_tex_and_keeps_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    figure = drawn(
        study_of("rto_max", "setting"), font="serif", labels={"setting": "50 % of ~{x}^2"}
    )
    (path,) = plots.save(figure, tmp_path / "figure", ["pgf"])
    text = path.read_text("utf-8")
    assert r"no\_policy\_\$x\_\$" in text
    assert r"another \& rather long name" in text
    assert r"50 % of \textasciitilde{}\{x\}^2" in text, "% and ^ are made letters before"
    assert r"\rmfamily" in text
    assert text.count(r"\begin{pgfscope}") == text.count(r"\end{pgfscope}")
    assert text.count("{") == text.count("}")
    assert text.startswith("% A figure")
    assert text.endswith("\\endgroup\n")


def test_the_cells_of_a_heat_map_are_rectangles_in_pgf(tmp_path: Path) -> None:
    cells = pl.DataFrame({"x": [1.0, 2.0] * 2, "y": [1.0, 1.0, 2.0, 2.0], "mean": [1.0, 2, 3, 4]})
    figure = plots.heat_map(cells, "x", "y", value_label="MOS")
    (path,) = plots.save(figure, tmp_path / "heat", ["pgf"])
    colours = {
        ",".join(f"{part:.6f}" for part in mpl.colormaps["cividis"](value)[:3])
        for value in (0, 85, 170, 255)
    }
    lines = path.read_text("utf-8").splitlines()
    filled = {
        line.partition("{rgb}{")[2].rstrip("}%") for line in lines if "{currentfill}{rgb}" in line
    }
    assert len(filled & colours) == 4
    # The other formats have the picture as before.
    assert plots.save(figure, tmp_path / "heat", ["png"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plot")
    scenario = written(made / "sweep.toml", SWEEP)
    study = package.Study(scenario, made / "study", replications=3)
    study.run()
    return made / "study"


def test_the_command_writes_figure_and_numbers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "new" / "folder"
    out = made / "figure"
    words = ["plot", str(folder), "--formats", "svg,pgf", "--width", "84mm", "--out", str(out)]
    assert cli.main(words) == 0
    assert {path.name for path in made.iterdir()} == {
        f"figure.{kind}" for kind in ("svg", "pgf", "csv", "parquet")
    }
    printed = capsys.readouterr().out
    assert "Mean of MOS of call against rto_max" in " ".join(printed.split())
    assert "95 % confidence intervals over 3 replications." in " ".join(printed.split())
    cells = package.Study(folder).cells("call.mos")
    numbers = pl.read_parquet(made / "figure.parquet")
    assert numbers.height == cells.height
    for rows in (numbers, pl.read_csv(made / "figure.csv")):
        assert rows.sort("cell")["call.mos"].to_list() == cells["mean"].to_list()


def test_two_settings_are_compared_by_the_usual_scalar(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", str(folder), "--a", "pmr=0", "--b", "pmr=1"]
    assert cli.main(words) == 0
    alone = capsys.readouterr().out
    assert cli.main([*words, "--metric", "call.mos"]) == 0
    assert capsys.readouterr().out == alone
    assert alone.startswith("`call.mos` ")


def test_the_command_respects_style_sheets(folder: Path, tmp_path: Path) -> None:
    sheet = written(tmp_path / "mine.mplstyle", "figure.facecolor: abcdef\nsvg.fonttype: path\n")
    for style, is_there in (((), False), (("--style", str(sheet)), True)):
        words = ["plot", str(folder), "--formats", "svg", "--out", str(tmp_path / "f"), *style]
        assert cli.main(words) == 0
        assert ("#abcdef" in (tmp_path / "f.svg").read_text("utf-8")) == is_there
    assert mpl.rcParams["figure.facecolor"] == "white"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--formats", "gif"), "`gif` is not a format of figures; there are png, svg, pdf, pgf"),
        (("--style", "ggplo"), "there is no style sheet `ggplo`; did you mean `ggplot`?"),
        (("--label", "x"), "`--label x` is not NAME=TEXT"),
        (("--metric", "call.mox"), "there is no scalar `call.mox`; did you mean `call.mos`?"),
        (("--where", "pmr=77"), "where: `pmr` is never 77"),
        (("--out", "/dev/null/figure"), "/dev/null/figure"),
    ],
)
def test_a_mistake_is_one_sentence(  # noqa: PLR0917 - fixtures
    folder: Path,
    words: tuple[str, ...],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plot", str(folder), *words]) == 2
    told = capsys.readouterr().err
    assert sentence in " ".join(told.split())
    assert list(tmp_path.iterdir()) == []


def test_the_figures_of_a_report_are_files_with_their_numbers(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["report", str(folder), "--out", str(page), "--formats", "svg,pgf"]) == 0
    made = {path.name for path in (tmp_path / "page-figures").iterdir()}
    names = {name.partition(".")[0] for name in made}
    assert {"call-mos-effects", "call-mos-heat0", "call-mos-boxes"} <= names
    assert made == {f"{name}.{kind}" for name in names for kind in ("svg", "pgf", "csv", "parquet")}
    heat = pl.read_csv(tmp_path / "page-figures" / "call-mos-heat0.csv")
    means = package.Study(folder).cells("call.mos")["mean"].to_list()
    assert sorted(heat["value"]) == pytest.approx(sorted(means))
    assert page.is_file()
