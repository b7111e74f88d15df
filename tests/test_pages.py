"""What all pages share: colours that everybody can tell apart, in the light and in the dark."""

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from anabranch import pages, plots
from anabranch.explain import figure as explain_figure

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
"""What each makes of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)."""

XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
"""Of linear sRGB under D65 (IEC 61966-2-1)."""

LEAST = 15.0
"""Between two colours of series in CIELAB: Okabe and Ito's are 16 apart where they are closest."""


def linear(colour: str) -> np.ndarray:
    shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str) -> np.ndarray:
    """CIE 1976 L*a*b* of a colour as somebody sees it."""
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
SETS = {"series": SERIES, "explain": explain_figure.COLOURS}


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
{% for columns in (3, 9, 40) %}
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


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with tables and figures of several widths."""
    environment = pages.environment({})
    figures = [pages.responsive(panels(columns), f"f{columns}") for columns in (1, 2, 12)]
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
    for columns in (3, 9, 40):
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
    if width >= 1280:
        assert page.locator("#t9").evaluate(
            "table => table.parentElement.scrollWidth <= table.parentElement.clientWidth"
        )
    # Panels stand side by side where there is room, and one below the other where there is none.
    shown = page.locator("svg.plot:visible")
    assert shown.count() == 3
    assert page.locator("svg.narrow:visible").count() == (width < 640)
    two = page.locator("svg.narrow" if width < 640 else "svg.wide").first.bounding_box()
    assert two["x"] + two["width"] <= width
    assert (two["height"] > two["width"] / 2) == (width < 640)


def test_panels_are_stacked_with_their_labels() -> None:
    text = pages.responsive(panels(2), "two")
    wide, narrow = text.split('class="plot narrow"')
    assert (wide.count("delay (ms)"), narrow.count("delay (ms)")) == (1, 2)
    assert "narrow" not in pages.responsive(panels(1), "one")
    assert "narrow" not in pages.responsive(panels(12), "twelve")
