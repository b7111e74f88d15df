"""What all pages share, such as colours that everyone can tell apart on light and dark paper."""

import io
import math
import re
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from anabranch.explain import figure as explain_figure
from anabranch.figures import pages, plots, run_plots
from anabranch.figures.pages import tables
from anabranch.figures.table import Cell, Table
from conftest import ROOT, Command

VISIONS = {
    "all colours": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
"""The matrices for linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)."""

XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
"""The matrix for linear sRGB under D65 (IEC 61966-2-1)."""

LEAST = 15.0
"""Between two colours of series in CIELAB: Okabe and Ito's are 16 apart where they are closest."""


def linear(colour: str) -> np.ndarray:
    shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str) -> np.ndarray:
    """CIE 1976 L*a*b* of a colour as seen with this kind of vision."""
    seen = np.clip(VISIONS[vision] @ linear(colour), 0, 1)
    share = XYZ @ seen / XYZ.sum(axis=1)
    f = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def themed(colours: dict[str, str], theme: str) -> dict[str, str]:
    """The colours of figures as a page has them in the light or in the dark."""
    return {
        name: pages.THEME[pages.INK[colour.lower()]][theme == "dark"]
        for name, colour in colours.items()
    }


SERIES = {str(i): colour for i, colour in enumerate(plots.COLOURS)} | {"quiet": plots.QUIET}
EXPLAINED = explain_figure.COLOURS
# What a capture calls under way is what a run calls limited by the window: no figure shows both.
SETS = {
    "series": SERIES,
    "explain": {name: colour for name, colour in EXPLAINED.items() if name != "under_way"},
    "explain-capture": {
        name: colour for name, colour in EXPLAINED.items() if name != "cwnd_limited"
    },
}


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", ["file", "light", "dark"])
@pytest.mark.parametrize("name", SETS)
def test_series_differ_for_everybody(name: str, theme: str, vision: str) -> None:
    colours = SETS[name] if theme == "file" else themed(SETS[name], theme)
    distances = {
        (one, other): float(np.linalg.norm(lab(a, vision) - lab(b, vision)))
        for (one, a), (other, b) in combinations(colours.items(), 2)
    }
    closest = min(distances, key=distances.__getitem__)
    assert distances[closest] >= LEAST, (closest, distances[closest])


def test_simulated_blindness_leaves_grey_as_it_is() -> None:
    for matrix in VISIONS.values():
        assert matrix.sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert lab("#ffffff", "all colours") == pytest.approx([100, 0, 0], abs=1e-3)
    # Red and green of one brightness: far apart, and nearly one for who does not see red.
    red, green = ("#c00000", "#4d6a00")
    apart = {vision: math.dist(lab(red, vision), lab(green, vision)) for vision in VISIONS}
    assert apart["all colours"] > 60
    assert apart["deuteranopia"] < 30


def test_every_colour_of_figures_has_a_twin_in_the_dark() -> None:
    used = {*plots.COLOURS, plots.ACCENT, plots.QUIET, plots.FAILED, *explain_figure.WAITING}
    used |= set(explain_figure.COLOURS.values())
    assert {colour.lower() for colour in used} <= set(pages.INK)
    assert set(pages.INK.values()) <= set(pages.THEME)
    assert all(light != dark for light, dark in pages.THEME.values())


PAGE = """\
{% extends "frame.html.j2" %}
{% block title %}Wide things{% endblock %}
{% block body %}<header><h1>Wide things</h1></header>
<p>Text.</p>
{% for columns in (3, 9, 14, 40) %}
<div class="scroll" tabindex="0"><table class="numbers" id="t{{ columns }}"><thead>
<tr><th>name</th>{% for i in range(columns) %}<th>quantity {{ i }} (ms)</th>{% endfor %}</tr>
</thead><tbody><tr><td>a long name of what the line is about, in many words</td>
{% for i in range(columns) %}<td>123.4 ± 5.6</td>{% endfor %}</tr></tbody></table></div>
{% endfor %}
{% for figure in figures %}
<figure><div class="scroll" tabindex="0">{{ figure|safe }}</div></figure>
{% endfor %}
{% endblock %}"""


def panels(columns: int) -> Figure:
    with plots.style():
        figure = plots.blank(10, 3)
        for axes in figure.subplots(1, columns, sharey=True, squeeze=False)[0]:
            axes.plot([1, 2], [1, 3], label="a line")
            axes.set_xlabel("time (s)")
        figure.axes[0].set_ylabel("delay (ms)")
        plots.legend(figure, figure.axes[0].get_legend_handles_labels()[0])
        return figure


def heat_map(columns: int) -> Figure:
    with plots.style():
        figure = plots.blank(10, 3)
        axes = figure.subplots()
        grid = [[10.0 * line + column for column in range(columns)] for line in range(3)]
        names = [f"column number {column}" for column in range(columns)]
        plots.heat(axes, grid, None, names, ["one", "two", "three"])
        plots.frame_cells(axes, [(0, 0), (columns - 1, 1)])
        return figure


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with tables and figures of several widths."""
    environment = pages.environment({})
    figures = [pages.responsive(panels(columns), f"f{columns}") for columns in (1, 2, 12)]
    figures.append(pages.responsive(heat_map(8), "heat"))
    path = tmp_path_factory.mktemp("wide") / "index.html"
    path.write_text(environment.from_string(PAGE).render(figures=figures), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_at_any_width(browser: Any, wide: Path, width: int, scheme: str) -> None:
    view = {"width": width, "height": 900}
    page = browser.new_context(color_scheme=scheme, viewport=view).new_page()
    page.goto(wide.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for columns in (3, 9, 14, 40):
        table = page.locator(f"#t{columns}")
        box = table.evaluate_handle("table => table.parentElement")
        # All of it can be reached: in the box, or by scrolling the box, which shows that it can.
        assert box.evaluate("box => box.scrollLeft = 1e6 || 0") is not None
        last = table.locator("tbody td").last.bounding_box()
        assert last["x"] >= 0
        assert last["x"] + last["width"] <= width
        assert box.evaluate("box => getComputedStyle(box).overflowX") == "auto"
    # Wide tables use the window before they scroll.
    nine = page.locator("#t9").evaluate(
        "table => table.parentElement.getBoundingClientRect().width"
    )
    assert nine <= width
    for columns in (9, 14) if width >= 1280 else ():
        assert page.locator(f"#t{columns}").evaluate(
            "table => table.parentElement.scrollWidth <= table.parentElement.clientWidth"
        )
    # Panels stand side by side where there is room, and one below the other where there is none.
    shown = page.locator("svg.plot:visible")
    assert shown.count() == 4 + (width < 640), "a heat map is in two parts where it is narrow"
    assert page.locator("svg.narrow:visible").count() == 5 * (width < 640)
    for box in page.locator("figure .scroll").all():
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    two = page.locator("svg.narrow" if width < 640 else "svg.wide").nth(1).bounding_box()
    assert two["x"] + two["width"] <= width
    assert (two["height"] > two["width"] / 2) == (width < 640)


@pytest.mark.parametrize("scenario", ["failover", "bulk-transfer"])
def test_the_page_of_a_run_fits_a_phone(
    browser: Any, anabranch: Command, tmp_path: Path, scenario: str
) -> None:
    done = anabranch("run", ROOT / f"scenarios/{scenario}.toml", "--plot", "page")
    assert done.returncode == 0, done.stderr
    page = browser.new_context(viewport={"width": 360, "height": 800}).new_page()
    page.goto((tmp_path / "page" / f"{scenario}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_panels_are_stacked_with_their_labels() -> None:
    text, _, _ = pages.responsive(panels(2), "two").partition("<script")
    wide, narrow = text.split('class="plot narrow"')
    assert (wide.count("delay (ms)"), narrow.count("delay (ms)")) == (1, 2)
    assert "narrow" in pages.responsive(panels(1), "one"), "its text would be too small"


@pytest.mark.parametrize(
    ("name", "shape"), [("cubic", (6, 2)), ("a name that needs much room", (12, 1))]
)
def test_many_panels_stand_side_by_side_if_their_names_are_short(
    name: str, shape: tuple[int, int]
) -> None:
    with plots.style():
        figure = plots.blank(10, 6)
        for axes in figure.subplots(3, 4, sharey=True).flat:
            axes.barh([0, 1], [1, 2])
            axes.set_yticks([0, 1], [name, "reno"])
    specs = [axes.get_subplotspec() for axes in narrowed(figure).axes]
    assert {spec.get_geometry()[:2] for spec in specs if spec} == {shape}


def test_a_heat_map_is_cut_where_its_numbers_do_not_fit() -> None:
    wide, *parts = pages.responsive(heat_map(8), "map").split("<svg")[1:]
    assert len(parts) == 2
    numbers = [re.findall(r">(\d+\.00)<", text) for text in (wide, *parts)]
    assert sorted(numbers[1] + numbers[2]) == sorted(numbers[0])
    assert [len(found) for found in numbers] == [24, 12, 12]
    # The frames stand where their cells do.
    assert [part.count("best") for part in parts] == [1, 1]
    assert len(pages.responsive(heat_map(4), "map").split("<svg")[1:]) == 1 + 1


def test_a_figure_is_laid_out_once_for_each_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Figure] = []
    execute = ConstrainedLayoutEngine.execute

    def counted(self: ConstrainedLayoutEngine, figure: Figure) -> Any:
        calls.append(figure)
        return execute(self, figure)

    plain = io.BytesIO()
    with plots.style():
        panels(2).savefig(plain, format="png", metadata={"Software": None})
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", counted)
    figure = panels(2)
    with plots.laid_out(figure):
        plots.save(figure, tmp_path / "figure")
        pages.responsive(figure, "figure")
    assert len(calls) == 2, "the wide one and the narrow one"
    assert (tmp_path / "figure.png").read_bytes() == plain.getvalue(), "the picture is as before"
    assert isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine)


@pytest.mark.filterwarnings("error")
def test_long_names_leave_room_for_the_axes() -> None:
    names = [f"path-over-the-network-of-the-{word}-operator" + 40 * "-x" for word in ("a", "b")]
    trace = pl.DataFrame(
        {
            "time_s": [0.0, 0.0, 1.0, 1.0],
            "path": names * 2,
            "cwnd_bytes": [1, 2, 3, 4],
            "rto_ms": [1.0, 2.0, 3.0, 4.0],
            "is_primary": [True, False, False, True],
        }
    )
    figure = run_plots.paths(trace, title="a title " + 20 * "that goes on ")
    for shown in (figure, narrowed(figure)):
        figure.draw_without_rendering()
        width, height = shown.get_size_inches() * shown.dpi
        boxes = [axes.get_window_extent() for axes in shown.axes]
        assert all(box.width > width / 4 and box.height > 30 for box in boxes)
        for text in shown.findobj(Text):
            if "path-" in text.get_text() or "title" in text.get_text():
                box = text.get_window_extent()
                assert 0 <= box.x0 < box.x1 <= width + 1, text
                assert box.y1 <= height + 1, text


def test_shortened_names_keep_both_ends() -> None:
    assert plots.shortened("first") == "first"
    assert plots.shortened("abcdefghijklmnopqrstuvwxyz", 10) == "abcdef…xyz"


def test_svg_is_slim_and_the_same_picture() -> None:
    figure = panels(2)
    figure.axes[0].errorbar([1, 2], [1, 2], yerr=[0.1, 0.2], capsize=3, gid="own")
    with plots.style():
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg")
    text = pages.inline(figure, "figure")
    assert len(text) < 0.7 * len(buffer.getvalue())
    ids = set(re.findall(r' id="([^"]*)"', text))
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert used <= ids
    assert not {name for name in ids - used if re.search(r"_\d+$", name)}
    assert re.findall(r"<text[^>]*>([^<]*)", text) == re.findall(
        r"<text[^>]*>([^<]*)", buffer.getvalue()
    )
    classes = set(re.findall(r'class="(s[0-9a-f]+)"', text))
    assert classes == set(re.findall(r"\.(s[0-9a-f]+)\{", text))


def test_a_thinned_trace_keeps_what_a_line_shows() -> None:
    times = [i / 1000 for i in range(10_000)]
    rows = pl.DataFrame({"time_s": times, "value": [math.sin(700 * time) for time in times]})
    rows = rows.with_columns(
        pl.when(pl.col("time_s") == 5).then(9).otherwise("value").alias("value")
    )
    thin = plots.thinned(rows, "value", 10)
    assert thin.height <= 4 * plots.STEPS < rows.height
    step = pl.col("time_s") * plots.STEPS // 10
    for of in (pl.col("value").min(), pl.col("value").max(), pl.col("value").last()):
        each = [frame.group_by(step.alias("step")).agg(of).sort("step") for frame in (rows, thin)]
        assert each[0].equals(each[1])
    assert plots.thinned(thin, "value", 10).equals(thin)


def test_a_sentence_leaves_names_as_they_are() -> None:
    for text, said in (
        ("call, sctp from a to b", "Call, sctp from a to b"),
        ("load_1, tcp from a to b", "load_1, tcp from a to b"),
        ("link.access.mean, 3 ms", "link.access.mean, 3 ms"),
        ("bottlenecks: none.", "Bottlenecks: none."),
        ("", ""),
    ):
        assert pages.sentence(text) == said


def test_only_half_widths_stand_on_lines_of_their_own() -> None:
    template = pages.environment({}).from_string("<td>{{ a }}</td><p>{{ a }}</p><td>1 Mbit/s</td>")
    text = template.render(a="1.0 ± 0.5 ms")
    assert text == "<td>1.0<i> </i>± 0.5 ms</td><p>1.0 ± 0.5 ms</p><td>1 Mbit/s</td>"


def narrowed(figure: Figure) -> Figure:
    """The figure as a narrow screen has it."""
    assert 'class="plot narrow"' in pages.responsive(figure, "figure")
    figure.draw_without_rendering()
    return figure


def test_nothing_is_cut_in_a_narrow_figure() -> None:
    with plots.style():
        figure = plots.blank(9, 3)
        first, second, hidden, other = figure.subplots(2, 2).flat
        hidden.set_visible(False)
        for axes in (first, second, other):
            axes.barh([0, 1, 2], [1, 2, 3])
            axes.set_title("a title that is much longer than a narrow screen can show", loc="left")
            axes.set_xlabel("a quantity with a long name that goes on (Mbit/s)")
            names = ["short", "a name of many words that goes on and on", "another long name of it"]
            axes.set_yticks([0, 1, 2], names)
        figure.suptitle(
            "a title of all panels that is longer than a narrow screen", x=0.01, ha="left"
        )
        dots = [axes.plot(1, 1, "o", label="an entry of some length")[0] for axes in (first,) * 4]
        plots.legend(figure, dots)
    figure = narrowed(figure)
    width, height = figure.get_size_inches() * figure.dpi
    for text in figure.findobj(Text):
        # Numbers beyond the ends of an axis are not drawn.
        if not (text.get_text() == "" or text.get_text().isdigit()):
            box = text.get_window_extent()
            assert box.x0 >= -1, text
            assert box.x1 <= width + 1, text
            assert box.y1 <= height + 1, text
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= width
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(not one.overlaps(another) for one, another in combinations(boxes, 2))


@pytest.mark.parametrize("most", [0.0131, 1.7, 61, 123_456_789])
def test_numbers_below_a_narrow_figure_do_not_overlap(most: float) -> None:
    with plots.style():
        figure = plots.blank(9, 3)
        for axes in figure.subplots(1, 2):
            axes.plot([0, most], [0, 1])
            axes.ticklabel_format(style="plain")
    for axes in narrowed(figure).axes:
        low, high = axes.get_xlim()
        shown = [
            text.get_window_extent()
            for text in axes.get_xticklabels()
            if low <= text.get_position()[0] <= high
        ]
        assert len(shown) >= 2
        assert all(one.x1 < other.x0 for one, other in pairwise(shown))


def test_panels_that_are_stacked_keep_their_own_labels() -> None:
    with plots.style():
        figure = plots.blank(9, 3)
        for i, axes in enumerate(figure.subplots(2, 2).flat):
            axes.plot([1, 2], [1, 2])
            if i < 2:
                axes.set_title(f"column {i}")
            axes.set_ylabel(f"quantity {i}" if i != 3 else "")
    axes = narrowed(figure).axes
    assert [one.get_title(loc="left") for one in axes] == ["column 0", "column 1"] * 2
    assert [one.get_ylabel() for one in axes] == [f"quantity {i}" for i in (0, 1, 2, 2)]


def test_figures_of_a_page_have_one_scale() -> None:
    """Text has to be equally large in all of them."""
    for width in (4, 8, 10):
        with plots.style():
            figure = plots.blank(width, 3)
            figure.subplots()
        text = pages.inline(figure, "figure")
        assert f"max-width: {pages.INCH * width}px" in text


def test_marks_that_share_a_name_have_ids_of_their_own() -> None:
    with plots.style():
        figure = plots.blank(4, 3)
        axes = figure.subplots()
        plots.heat(axes, [[1, 2, 3], [4, 5, 6]], None, "abc", "de")
        plots.frame_cells(axes, [(0, 0), (1, 0), (2, 1)])
    ids = re.findall(r'\bid="([^"]*)"', pages.inline(figure, "map"))
    assert len(ids) == len(set(ids))
    assert {"map-best", "map-best-2", "map-best-3"} <= set(ids)


def table_page(**changes: Any) -> tables.Page:
    found = tables.Page(
        title="Ours beside theirs",
        headline="How near? 1 of 2 within 10 %.",
        sentences=["A sentence."],
        tables=[
            Table("one", ["case", "rtt, ms"], [["a <b>", Cell("1", "open")]]),
            Table("two", ["case", "rtt, ms"], [["a", "2"]]),
        ],
        notes=["Grey: open."],
        captions={"first": "What is drawn."},
        facts="3 runs",
    )
    return replace(found, **changes)


def test_a_page_of_tables(tmp_path: Path) -> None:
    drawn = {"first": pages.responsive(panels(2), "first")}
    path = table_page().write(tmp_path, drawn, "figures/")
    text = path.read_text(encoding="utf-8")
    assert path.name == "index.html"
    assert '<td class="open">1</td>' in text
    assert "a &lt;b&gt;" in text
    assert 'href="figures/first.png"' in text
    assert text.count("<figure>") == 1
    assert 'href="#table2">Two' in text
    for part in ("How near?", "A sentence.", "Grey: open.", "3 runs", "What is drawn."):
        assert part in text
    bare = table_page(captions={}, tables=table_page().tables[:1]).text({})
    assert "<figure>" not in bare
    assert 'href="#table1">Table' in bare
