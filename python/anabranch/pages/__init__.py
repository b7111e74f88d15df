"""HTML pages of one file: templates, light and dark, figures inside.

`frame.html.j2` has the head and the styles that all pages share; what makes a page extends it.
"""

import io
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files

import jinja2
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

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

INCH = 95
"""Pixels of a figure's inch on a page that is wide enough: text is as large in all figures."""

_NARROW = 3.7
"""Width of a figure for a narrow screen in inches."""

_LINE = 42
"""Characters that fit into a title there."""

_NAME = 18
"""And beside the axes."""

_LINE_INCHES = 0.17
"""Height of a line of text."""


def responsive(figure: Figure, name: str) -> str:
    """A figure as SVG for a wide page and, where it can be had, one for a narrow one.

    The second has panels one below the other and its text broken into more lines; the figure stays
    so.
    """
    wide = inline(figure, name)
    with plots.style():
        is_narrow = _narrow(figure)
    if not is_narrow:
        return wide
    narrow = inline(figure, f"{name}-narrow")
    return wide.replace('class="plot"', 'class="plot wide"', 1) + narrow.replace(
        'class="plot"', 'class="plot narrow"', 1
    )


def _narrow(figure: Figure) -> bool:
    """Makes a figure narrow, its panels one below the other, if that can be done.

    Not with numbers in cells that need their width, nor with very many panels.
    """
    shown = [axes for axes in figure.axes if axes.get_visible()]
    panels = [axes for axes in shown if axes.get_label() != "<colorbar>"]
    grids = [spec.get_gridspec() if (spec := axes.get_subplotspec()) else None for axes in panels]
    if not panels or len(panels) > MOST_STACKED or {id(grid) for grid in grids} != {id(grids[0])}:
        return False
    if grids[0] is None or figure.get_size_inches()[0] <= _NARROW:
        return False
    if any(len(axes.texts) > _NAME for axes in panels):
        return False
    lines, columns = grids[0].get_geometry()
    height = figure.get_size_inches()[1] / lines
    if columns > 1:
        _stack(figure, panels, columns)
        height = max(height, 1.8)
    height = max(height, *map(_break_lines, panels))
    figure.set_size_inches(_NARROW, height * len(panels))
    # Made anew: a legend keeps the columns that it was made with.
    for legend in list(figure.legends):
        handles = list(legend.legend_handles)
        for handle, text in zip(handles, legend.get_texts(), strict=True):
            assert handle is not None
            handle.set_label(textwrap.fill(text.get_text(), _LINE))
        legend.remove()
        plots.legend(figure, [handle for handle in handles if handle is not None])
    return True


def _stack(figure: Figure, panels: Sequence[Axes], columns: int) -> None:
    """Puts panels that stand side by side one below the other, each with its labels."""
    last = panels[-columns:]
    labels = [
        (
            axes.get_title(loc="left") or panels[i % columns].get_title(loc="left"),
            axes.get_ylabel() or panels[i // columns * columns].get_ylabel(),
            axes.get_xlabel() or last[i % columns % len(last)].get_xlabel(),
        )
        for i, axes in enumerate(panels)
    ]
    for axes in [axes for axes in figure.axes if not axes.get_visible()]:
        axes.remove()  # it would still have a place in the layout
    grid = GridSpec(len(panels), 1, figure=figure)
    for i, (axes, (title, y_label, x_label)) in enumerate(zip(panels, labels, strict=True)):
        axes.set_subplotspec(grid[i])
        axes.tick_params(labelleft=True, labelbottom=True)
        if not axes.get_title(loc="left"):
            axes.set_title(title, loc="left")
        axes.set_ylabel(y_label)
        axes.set_xlabel(x_label)


def _break_lines(axes: Axes) -> float:
    """Breaks the lines of a title and of names that are too long for a narrow figure.

    Gives the height in inches that the names need then.
    """
    room, lines = _LINE, 0
    if isinstance(axes.yaxis.get_major_locator(), FixedLocator):
        names = [textwrap.fill(text.get_text(), _NAME) for text in axes.get_yticklabels()]
        if any("\n" in name for name in names):
            axes.set_yticks(axes.get_yticks(), names)
        room -= max((len(line) for name in names for line in name.split("\n")), default=0)
        # They stand at equal distances, whichever has the most lines.
        lines = len(names) * max((1 + name.count("\n") for name in names), default=0)
    around = 0
    for text in axes.findobj(Text):
        if text.get_text() and text.get_text() in (axes.get_title(), axes.get_title(loc="left")):
            text.set_text(textwrap.fill(" ".join(text.get_text().split()), room))
            around += 1 + text.get_text().count("\n")
    axes.set_xlabel(textwrap.fill(axes.get_xlabel(), room))
    around += 1 + axes.get_xlabel().count("\n")
    return 0.7 + _LINE_INCHES * (1.2 * lines + around)


def inline(figure: Figure, name: str) -> str:
    """A figure as SVG to stand in a page.

    Without background, its colours the page's, its ids its own; as wide as it was made, or as the
    page if that is less.
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
    seen: Counter[str] = Counter()

    def own(found: re.Match[str]) -> str:
        """The id with the figure's name; marks that share one get numbers."""
        seen[found[1]] += 1
        return f'id="{name}-{found[1]}' + (f'-{seen[found[1]]}"' if seen[found[1]] > 1 else '"')

    text = re.sub(r'\bid="([^"]*)"', own, text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    for colour, variable in INK.items():
        text = re.sub(
            rf"(fill|stroke): {colour}\b", rf"\1: var(--{variable})", text, flags=re.IGNORECASE
        )
    # Text without a colour is black to SVG.
    width = INCH * figure.get_size_inches()[0]
    size = f"max-width: {width:.0f}px; min-width: min({0.7 * width:.0f}px, 34rem)"
    return text.replace("<svg ", f'<svg role="img" class="plot" style="{size}" ', 1)
