"""HTML pages of one file: templates, light and dark, figures inside.

`frame.html.j2` has the head and the styles that all pages share; what makes a page extends it.
"""

import io
import re
from collections.abc import Mapping
from importlib.resources import files

import jinja2
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from anabranch import plots

THEME = {
    "paper": ("#ffffff", "#14171a"),
    "ink": ("#16191d", "#e8eaed"),
    "quiet": ("#626a73", "#9aa3ad"),
    "line": ("#e2e5e9", "#333a42"),
    "soft": ("#f5f6f8", "#1c2126"),
    "good": ("#d9f0e3", "#17402d"),
    "fair": ("#fbeec4", "#4a3d10"),
    "bad": ("#fbdcd2", "#55261a"),
    "blue": ("#0072b2", "#0289bc"),
    "orange": ("#c85500", "#db7e0f"),
    "green": ("#009e73", "#7ec87f"),
    "pink": ("#cc79a7", "#c790f3"),
    "sky": ("#56b4e9", "#77d4ef"),
    "amber": ("#e69f00", "#fbc631"),
    "mint": ("#9ad3bd", "#2f6b55"),
    "pale": ("#f1f2f4", "#23282d"),
    "grey-1": ("#bbbbbb", "#5f666d"),
    "grey-2": ("#444444", "#d3d7db"),
    "grey-3": ("#888888", "#8b9299"),
    "grey-4": ("#dddddd", "#3a4149"),
}
"""Variables of the pages' styles: their colours on light and on dark paper.

Those of series differ in both for all common kinds of colour vision (tests/test_pages.py).
"""

INK = {
    "#000000": "ink",
    "#ffffff": "paper",
    "#666666": "quiet",
    "#e4e4e4": "line",
    "#eeeeee": "soft",
    "#0072b2": "blue",
    "#d55e00": "orange",
    "#009e73": "green",
    "#cc79a7": "pink",
    "#56b4e9": "sky",
    "#e69f00": "amber",
    "#b7e0c8": "good",
    "#f6df9b": "fair",
    "#f3b8a6": "bad",
    "#9ad3bd": "mint",
    "#f2f2f2": "pale",
    "#bbbbbb": "grey-1",
    "#444444": "grey-2",
    "#888888": "grey-3",
    "#dddddd": "grey-4",
}
"""The variable for each colour of the figures, which so follow the theme of the page around them.

Only text on a heat map has others: it follows the colour beneath it, which does not change.
"""


def environment(templates: Mapping[str, str]) -> jinja2.Environment:
    """Templates by file name, each with the package that it lies in, and the frame of all pages."""
    sources = {"frame.html.j2": __package__, **templates}
    texts = {
        name: files(package).joinpath(name).read_text(encoding="utf-8")
        for name, package in sources.items()
    }
    made = jinja2.Environment(
        autoescape=True,
        loader=jinja2.DictLoader(texts),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["sentence"] = sentence
    made.globals["theme"] = THEME
    return made


def sentence(text: str) -> str:
    """The text with a capital at its beginning; `capitalize` makes all others small: TCP, Wi-Fi."""
    return text[:1].upper() + text[1:]


MOST_STACKED = 9
"""Panels that a narrow screen gets one below the other; figures with more scroll."""

_NARROW = 4.6
"""Width of a stacked figure in inches."""


def responsive(figure: Figure, name: str) -> str:
    """A figure as SVG for a wide page and, where it has panels side by side, one for a narrow one.

    The second has the panels one below the other; the figure stays so.
    """
    wide = inline(figure, name)
    if not _stack(figure):
        return wide
    narrow = inline(figure, f"{name}-narrow")
    return wide.replace('class="plot"', 'class="plot wide"', 1) + narrow.replace(
        'class="plot"', 'class="plot narrow"', 1
    )


def _stack(figure: Figure) -> bool:
    """Puts panels that stand side by side one below the other, if that can be done."""
    panels = [axes for axes in figure.axes if axes.get_visible()]
    grids = {id(spec.get_gridspec()) if (spec := axes.get_subplotspec()) else 0 for axes in panels}
    # A bar of colours beside them has a grid of its own, or none.
    if 0 in grids or len(grids) != 1 or not 1 < len(panels) <= MOST_STACKED:
        return False
    spec = panels[0].get_subplotspec()
    assert spec is not None
    lines, columns = spec.get_gridspec().get_geometry()
    if columns == 1:
        return False
    height = max(figure.get_size_inches()[1] / lines, 1.8)
    last = panels[-columns:]
    labels = [
        (
            panels[i // columns * columns].get_ylabel(),
            (axes.get_xlabel() or last[i % columns % len(last)].get_xlabel()),
        )
        for i, axes in enumerate(panels)
    ]
    grid = GridSpec(len(panels), 1, figure=figure)
    for i, (axes, (y_label, x_label)) in enumerate(zip(panels, labels, strict=True)):
        axes.set_subplotspec(grid[i])
        axes.tick_params(labelleft=True, labelbottom=True)
        axes.set_ylabel(y_label)
        axes.set_xlabel(x_label)
    for legend in figure.legends:
        longest = max(len(text.get_text()) for text in legend.get_texts())
        legend.set_ncols(2 if longest <= 18 else 1)
    figure.set_size_inches(_NARROW, height * len(panels))
    return True


def inline(figure: Figure, name: str, *, natural: bool = False) -> str:
    """A figure as SVG to stand in a page.

    Without background, its colours the page's, its ids its own; as wide as the page, or at most
    about as wide as it was made.
    """
    buffer = io.StringIO()
    with plots.style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Named by their content, which two of them may share; nothing refers to them.
    text = re.sub(r'(<image[^>]*?) id="[^"]*"', r"\1", text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    for colour, variable in INK.items():
        text = re.sub(
            rf"(fill|stroke): {colour}\b", rf"\1: var(--{variable})", text, flags=re.IGNORECASE
        )
    # Text without a colour is black to SVG.
    width = figure.get_size_inches()[0]
    size = f'style="max-width: {120 * width:.0f}px; min-width: min({80 * width:.0f}px, 34rem)" '
    return text.replace("<svg ", f'<svg role="img" class="plot" {size if natural else ""}', 1)
