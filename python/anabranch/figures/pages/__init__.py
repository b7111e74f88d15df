"""HTML pages in one file each: templates, a light and a dark theme, and figures within the page.

`frame.html.j2` has the head and the styles that all pages share; the template of each page extends
it.
"""

import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Any

import jinja2
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.text import Annotation, Text
from matplotlib.ticker import AutoLocator, FixedLocator

from anabranch.figures import marks, plots
from anabranch.figures.marks import Placed
from anabranch.support import wording

from . import interactive
from .svg import slim

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
"""The variables of the pages' styles, with their colours on light and on dark paper.

The colours of series can be told apart on both for all common kinds of colour vision
(tests/test_pages.py).
"""

INK = {
    "#000000": "ink",
    "#ffffff": "paper",
    "#666666": "quiet",
    "#e4e4e4": "line",
    "#eeeeee": "grey-4",
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
"""The variable for each colour of the figures, so that figures follow the theme of their page.

Only text on a heat map keeps its colour: it has to contrast with the cell, which does not change.
"""


class _Page(jinja2.Template):
    """A template whose tables of numbers can shrink to the width of the screen."""

    def render(self, *arguments: Any, **values: Any) -> str:
        text = super().render(*arguments, **values)
        text = re.sub(r"(<td[^>]*>)([^<]*(?:±| to )[^<]*)(?=</td>)", _breakable, text)
        return interactive.finished(text)


def _breakable(cell: re.Match[str]) -> str:
    """A cell that may wrap before `±` and before and within a range, and nowhere else."""
    return cell[1] + re.sub(
        r" (?=± |\([^()]* to |to )|(?<=,) (?=in )|(?<=\)) ", "<i> </i>", cell[2]
    )


def environment(templates: Mapping[str, str]) -> jinja2.Environment:
    """An environment with the frame of all pages and these templates: file name -> package."""
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
    made.template_class = _Page
    made.filters["sentence"] = sentence
    made.filters["unbroken"] = wording.unbroken
    made.globals["theme"] = THEME
    return made


def sentence(text: str) -> str:
    """The text with a capital first letter, unless it begins with a name such as `load_1`.

    `capitalize` would make the others small, as in TCP or Wi-Fi.
    """
    is_name = re.match(r"[\w.-]*[\d_.][\w.-]*\w", text)
    return text if is_name else text[:1].upper() + text[1:]


MOST_STACKED = 9
"""With more panels than this, a narrow screen shows them side by side where they fit; otherwise one
below the other.
"""

INCH = 95
"""Pixels of a figure's inch on a wide page; it is the same for all, so that text has one size."""

_NARROW = 3.7
"""Width of a figure for a narrow screen, in inches."""

_LINE = 42
"""Characters of a title that fit into that width."""

_NAME = 18
"""Characters that fit beside the axes there."""

_LINE_INCHES = 0.17
"""Height of a line of text, in inches."""


def responsive(figure: Figure, name: str, section: str = "") -> str:
    """A figure as SVG for a wide page and, where it can be had, for a narrow one; with its data.

    The second has panels one below the other and its text broken into more lines, and heat maps in
    parts whose numbers fit; the figure stays so. `section` is that of `interactive.of_marks`.
    """
    found = marks.of(figure)
    with plots.laid_out(figure):
        wide = inline(figure, name, found)
    own = [(each.quantity, each.mark) for each in found]
    content = interactive.of_marks(own, section, name) if found else ""
    with plots.style():
        parts = _narrow(figure)
        if not parts:
            return wide + content
        # Its layout may be one that is kept: that of the wide figure.
        figure.set_layout_engine("constrained")
    narrow = []
    for i, part in enumerate(parts):
        for axes, limits in part.items():
            _show(axes, *limits)
        with plots.laid_out(figure):
            narrow.append(inline(figure, f"{name}-narrow{i or ''}", found))
    return _classed(wide, "wide") + "".join(_classed(text, "narrow") for text in narrow) + content


def _classed(svg: str, name: str) -> str:
    return svg.replace('class="plot"', f'class="plot {name}"', 1)


Part = dict[Axes, tuple[float, float]]
"""Axes, each with the first and the last position of its columns that are drawn."""


def _narrow(figure: Figure) -> list[Part]:
    """Makes a figure narrow, with its panels one below the other, if that is possible.

    Gives the parts to draw it in: one part, unless cells with numbers need more width.
    """
    shown = [axes for axes in figure.axes if axes.get_visible()]
    panels = [axes for axes in shown if axes.get_label() != "<colorbar>"]
    grids = [spec.get_gridspec() if (spec := axes.get_subplotspec()) else None for axes in panels]
    if not panels or {id(grid) for grid in grids} != {id(grids[0])}:
        return []
    if grids[0] is None or figure.get_size_inches()[0] <= _NARROW:
        return []
    lines, columns = grids[0].get_geometry()
    height = figure.get_size_inches()[1] / lines
    side_by_side = 1
    if columns > 1:
        if len(panels) > MOST_STACKED and max(map(_beside, panels)) <= _SHORT:
            side_by_side = 2
        _stack(figure, panels, columns, side_by_side)
        height = max(height, 1.8)
    parts = _parts(panels)
    height = max(height, *(_break_lines(axes, side_by_side) for axes in panels))
    figure.set_size_inches(_NARROW, height * math.ceil(len(panels) / side_by_side))
    for axes in panels:
        _thin(axes, (_NARROW / side_by_side - 1) / plots.CHARACTER)
    for text in figure.texts:
        text.set_text(wording.filled(text.get_text(), _LINE))
    # Legends are made anew, as a legend keeps the number of columns it was made with.
    for legend in list(figure.legends):
        handles = list(legend.legend_handles)
        for handle, text in zip(handles, legend.get_texts(), strict=True):
            assert handle is not None
            handle.set_label(wording.filled(text.get_text(), _LINE))
        legend.remove()
        plots.legend(figure, [handle for handle in handles if handle is not None])
    return parts


def _thin(axes: Axes, room: float) -> None:
    """Shows fewer numbers below axes whose numbers would overlap in so many characters."""
    locator = axes.xaxis.get_major_locator()
    if not isinstance(locator, AutoLocator):
        return
    low, high = sorted(axes.get_xlim())
    places = [place for place in axes.get_xticks() if low <= place <= high]
    longest = max(map(len, axes.xaxis.get_major_formatter().format_ticks(places)), default=0)
    if len(places) * (longest + 1) > room:
        locator.set_params(nbins=max(1, int(room / (longest + 1)) - 1))


_SHORT = 9
"""The longest names, in characters, with which two axes fit side by side."""


def _beside(axes: Axes) -> int:
    """Characters of the longest name beside the axes; for numbers, which are short, 0."""
    if not isinstance(axes.yaxis.get_major_locator(), FixedLocator):
        return 0
    return max((len(text.get_text()) for text in axes.get_yticklabels()), default=0)


def _parts(panels: Sequence[Axes]) -> list[Part]:
    """The parts in which cells with numbers are drawn, with all columns wide enough.

    Column names that are wider than a column stand upright. All other figures are one part.
    """
    columns = {axes: own_columns for axes in panels if (own_columns := _columns(axes))}
    count = 1
    for axes, places in columns.items():
        names = [name.get_text() for name in axes.get_yticklabels()]
        beside = plots.CHARACTER * max(
            len(line) for name in names for line in wording.filled(name, _NAME).split("\n")
        )
        cell = plots.CHARACTER * (1 + max(len(text.get_text()) for text in axes.texts))
        room = max(1, int((_NARROW - 0.3 - beside) / cell))
        count = max(count, math.ceil(len(places) / room))
    parts: list[Part] = [{} for _ in range(count)]
    for axes, places in columns.items():
        size = math.ceil(len(places) / count)
        edges = axes.get_xlim()
        inner = [(places[i - 1] + places[i]) / 2 for i in range(size, len(places), size)]
        bounds = [edges[0], *inner, edges[1]]
        for part, limits in zip(parts, pairwise(bounds), strict=False):
            part[axes] = limits
        names = [text.get_text() for text in axes.get_xticklabels()]
        widest = max(len(line) for name in names for line in name.split("\n"))
        if plots.CHARACTER * widest > (_NARROW - 1.5) / size:
            axes.tick_params(axis="x", labelrotation=90)
    return [part for part in parts if part or count == 1]


def _show(axes: Axes, left: float, right: float) -> None:
    """Shows only these columns of axes with cells."""
    axes.set_xlim(left, right)
    for text in axes.texts:
        text.set_visible(left < text.get_position()[0] < right)
    for patch in axes.patches:
        box = patch.get_path().get_extents(patch.get_patch_transform())
        patch.set_visible(bool(left < (box.x0 + box.x1) / 2 < right))


def _columns(axes: Axes) -> list[float]:
    """The positions of the columns of axes whose cells contain text; empty for other axes."""
    places = [float(place) for place in axes.get_xticks()]
    has_cells = len(axes.texts) > (0 if axes.images else _NAME)
    return places if has_cells and isinstance(axes.xaxis.get_major_locator(), FixedLocator) else []


def _stack(figure: Figure, panels: Sequence[Axes], columns: int, side_by_side: int) -> None:
    """Puts panels that stand side by side one below the other, each with its labels.

    `side_by_side` of them may remain beside each other.
    """
    last = panels[-columns:]
    labels = [
        (
            axes.get_title(loc="left") or panels[i % columns].get_title(loc="left"),
            axes.get_ylabel() or panels[i // columns * columns].get_ylabel(),
            axes.get_xlabel() or last[i % columns % len(last)].get_xlabel(),
        )
        for i, axes in enumerate(panels)
    ]
    grid = GridSpec(math.ceil(len(panels) / side_by_side), side_by_side, figure=figure)
    for axes in [axes for axes in figure.axes if not axes.get_visible()]:
        # Removed axes keep their place in the layout, and a colour bar still refers to them.
        axes.set_subplotspec(grid[0])
        axes.remove()
    for i, (axes, (title, y_label, x_label)) in enumerate(zip(panels, labels, strict=True)):
        axes.set_subplotspec(grid[i // side_by_side, i % side_by_side])
        axes.tick_params(labelleft=True, labelbottom=True)
        if not axes.get_title(loc="left"):
            axes.set_title(title, loc="left")
        axes.set_ylabel(y_label)
        axes.set_xlabel(x_label)


def _break_lines(axes: Axes, side_by_side: int) -> float:
    """Breaks the lines of a title and of names that are too long for a narrow figure.

    Gives the height in inches that the names then need.
    """
    room, lines = _LINE // side_by_side, 0
    if isinstance(axes.yaxis.get_major_locator(), FixedLocator):
        names = [wording.filled(text.get_text(), _NAME) for text in axes.get_yticklabels()]
        if any("\n" in name for name in names):
            axes.set_yticks(axes.get_yticks(), names)
        room -= max((len(line) for name in names for line in name.split("\n")), default=0)
        # Names stand at equal distances, so the one with the most lines decides.
        lines = len(names) * max((1 + name.count("\n") for name in names), default=0)
    else:
        room -= 6  # the space of a label and its numbers
    around = 0
    for text in axes.findobj(Text):
        if text.get_text() and text.get_text() in (axes.get_title(), axes.get_title(loc="left")):
            text.set_text(wording.filled(" ".join(text.get_text().split()), room))
            around += 1 + text.get_text().count("\n")
    axes.set_xlabel(wording.filled(axes.get_xlabel(), room))
    around += 1 + axes.get_xlabel().count("\n")
    for text in axes.texts:
        if isinstance(text, Annotation) and text.xycoords == "axes fraction":
            # A label has to stay beside its line: with more lines, it would overlap the next one.
            text.set_text("\n".join(plots.shortened(line, _NAME) for line in _lines(text)))
    upright = [text for text in axes.get_xticklabels() if text.get_rotation()]
    longest = max((len(line) for text in upright for line in _lines(text)), default=0)
    around += math.ceil(longest * plots.CHARACTER / _LINE_INCHES)
    return 0.7 + _LINE_INCHES * (1.2 * lines + around)


def _lines(text: Text) -> list[str]:
    return text.get_text().split("\n")


def inline(figure: Figure, name: str, found: Sequence[Placed] = ()) -> str:
    """A figure as SVG to stand in a page, with the places of the marks that were found in it.

    It has no background, uses the page's colours, and has ids of its own. It is as wide as it was
    made, or as the page if that is narrower.
    """
    buffer = io.StringIO()
    with plots.style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text, words = _without_words(buffer.getvalue())
    text = text[text.index("<svg") :]
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Images are named by their content, so two of them may share an id; nothing refers to these
    # ids.
    text = re.sub(r'(<image[^>]*?) id="[^"]*"', r"\1", text)
    seen: Counter[str] = Counter()

    def own(match: re.Match[str]) -> str:
        """The id, preceded by the figure's name; marks that share an id get numbers."""
        seen[match[1]] += 1
        return f'id="{name}-{match[1]}' + (f'-{seen[match[1]]}"' if seen[match[1]] > 1 else '"')

    text = re.sub(r'\bid="([^"]*)"', own, text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    for colour, variable in INK.items():
        text = re.sub(
            rf"(fill|stroke): {colour}\b", rf"\1: var(--{variable})", text, flags=re.IGNORECASE
        )
    text = slim(text, name)
    width = INCH * figure.get_size_inches()[0]
    size = f"max-width: {width:.0f}px; min-width: min({0.7 * width:.0f}px, 34rem)"
    at = interactive.places(found, figure)
    text = text.replace("<svg ", f'<svg role="img" class="plot" style="{size}"{at} ', 1)
    return re.sub("\ue000(\\d+)\ue000", lambda match: words[int(match[1])], text)


def _without_words(svg: str) -> tuple[str, list[str]]:
    """A figure with numbers for what is written in it, and that: names may look like attributes."""
    words: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        words.append(match[2])
        return f"{match[1]}\ue000{len(words) - 1}\ue000<"

    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    return re.sub(r"(<text\b[^>]*>)([^<]*)<", numbered, svg), words
