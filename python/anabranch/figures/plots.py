"""What all figures share. Figures of one run are in `run_plots.py`, of a study in `study_plot.py`.

Every function returns a figure; none shows or saves it.

Colours are Okabe and Ito's (Color Universal Design, 2008): they can be told apart with all common
kinds of colour vision. Lines are labelled at their ends, so readers need not match colours with a
legend.
"""

import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import polars as pl
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogFormatter
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from anabranch.errors import AnabranchError, suggestion
from anabranch.figures import pgf
from anabranch.support import wording
from anabranch.support.files import write_atomically
from anabranch.support.views import views

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""The colours of lines, in this order."""

ACCENT = "#D55E00"
QUIET = "#666666"
FAILED = "#EEEEEE"
"""The background during the time in which something is unavailable."""

ON_DARK, ON_LIGHT = "#FEFEFE", "#010101"
"""Colours of text on a coloured cell. They are not exactly white and black, so a page that swaps
these leaves them alone.
"""

SIZE, TITLE_SIZE = 9, 10
"""The size of all text and that of titles, in points. Figures use no other sizes: a page shows all
of them on one scale, so their text is equally large.
"""

NAME = 24
"""Characters of a link's, path's or flow's name in a figure at most."""

CHARACTER = 0.0075 * SIZE
"""Width of a character of that size in inches, slightly above the mean."""

_KEY = 0.55
"""Width of a legend's mark and the space around it, in inches."""

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": TITLE_SIZE,
    "axes.labelsize": SIZE,
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "figure.labelsize": SIZE,
    "figure.titlesize": TITLE_SIZE,
    "font.size": SIZE,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "legend.fontsize": SIZE,
    "lines.linewidth": 1.5,
    "pdf.fonttype": 42,  # text remains text
    "svg.fonttype": "none",
    "svg.hashsalt": "anabranch",
    "text.parse_math": False,  # `$` in a name is a character
    "text.usetex": False,
    "xtick.color": QUIET,
    "xtick.labelcolor": "black",
    "xtick.labelsize": SIZE,
    "ytick.color": QUIET,
    "ytick.labelcolor": "black",
    "ytick.labelsize": SIZE,
}

_RELATIVE = tuple(key for key in _STYLE if key.endswith("size") and key != "font.size")
"""The sizes of text, which follow `font.size` in a figure of the user's style."""

_NO_LOOKS = ("backend", "date.", "docstring.", "interactive", "keymap.", "timezone", "tk.", "tool")
"""Settings that say nothing of how a figure looks, and that need not be set again."""

_CYCLE = cycler(color=COLOURS) + cycler(marker=("o", "s", "^", "D", "v", "P", "X"))
"""Lines can be told apart on black and white paper, too."""


def style() -> AbstractContextManager[None]:
    """The style of all figures, as a context, so that nothing changes for the caller."""
    return mpl.rc_context(_STYLE)


def users_style(font: str | None = None, font_size: float | None = None) -> dict[str, Any]:
    """The style of a figure that a user will print: ours, where the user has set nothing.

    What differs from Matplotlib's own defaults is the user's: a style sheet, `matplotlib.rcParams`
    or a matplotlibrc.

    Parameters
    ----------
    font
        A family such as `serif`, or a font's name.
    font_size
        In points; ticks, labels and titles follow it.
    """
    own = _STYLE | dict.fromkeys(_RELATIVE, "medium") | {"axes.prop_cycle": _CYCLE}
    now, plain = mpl.rcParams, mpl.rcParamsDefault
    chosen = {key: value for key, value in own.items() if now[key] == plain[key]}
    if font is not None:
        chosen["font.family"] = font
    if font_size is not None:
        chosen |= {"font.size": font_size} | dict.fromkeys(_RELATIVE, "medium")
    if now["text.usetex"]:
        chosen.pop("text.parse_math", None)
    every = {key: now[key] for key in now if not key.startswith(_NO_LOOKS)}
    return every | chosen


@contextmanager
def sheets(names: Sequence[str]) -> Iterator[None]:
    """Matplotlib's style sheets of these names or files, later ones on top of earlier ones.

    Matplotlib itself warns of lines in them that it does not understand.

    Raises
    ------
    AnabranchError
        If there is no such style.
    """
    with mpl.rc_context():
        for name in names:
            try:
                mpl.style.use(name)
            except OSError:
                hint = suggestion(name, mpl.style.available)
                raise AnabranchError(
                    f"there is no style sheet `{name}`{hint}; it is a file or a name of"
                    " Matplotlib's, such as `grayscale`"
                ) from None
        yield


def _looks(figure: Figure) -> AbstractContextManager[None]:
    """The style of a figure, as a context."""
    looks: Any = figure.looks if isinstance(figure, Drawing) else _STYLE
    return mpl.rc_context(looks)


@contextmanager
def laid_out(figure: Figure) -> Iterator[None]:
    """Computes the layout of the figure once, however often it is drawn within this context.

    Computing it takes longer than drawing, and each drawing would do it twice. It also gives all
    formats the same layout. A context within another one for the same figure does nothing.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    with _looks(figure), warnings.catch_warnings():
        # Where text leaves no room for the axes, matplotlib warns and leaves them as they are.
        warnings.filterwarnings("ignore", "constrained_layout not applied")
        figure.draw_without_rendering()
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


FORMATS = ("png", "svg", "pdf")
"""The formats that a page links to."""


def save(figure: Figure, path: str | Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Writes `path` with a suffix for each format; the same figure gives the same bytes."""
    no_date: dict[str, Any] = {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    with laid_out(figure), _looks(figure):
        for suffix in formats:
            target = path.with_name(f"{path.name}.{suffix}")
            content = io.BytesIO()
            if suffix == "pgf":
                pgf.write(figure, content)
            else:
                figure.savefig(content, format=suffix, metadata=no_date.get(suffix))
            write_atomically(target, content.getvalue())
            paths.append(target)
    return paths


def save_data(rows: pl.DataFrame, path: str | Path) -> list[Path]:
    """Writes the numbers of a figure beside it, as CSV and Parquet; NaN is an empty cell in CSV."""
    path = Path(path)
    csv, parquet = (path.with_name(f"{path.name}.{suffix}") for suffix in ("csv", "parquet"))
    floats = pl.col(pl.Float64, pl.Float32)
    write_atomically(csv, rows.with_columns(floats.fill_nan(None)).write_csv().encode())
    content = io.BytesIO()
    rows.write_parquet(content, compression="zstd")
    write_atomically(parquet, content.getvalue())
    return [csv, parquet]


_STRIP_INCHES = 0.09
"""Height of the strip that shows the primary path."""


def strip(
    axes: Axes,
    changes: Sequence[tuple[float, str]],
    first_s: float,
    last_s: float,
    colours: Mapping[str, str],
) -> list[Artist]:
    """Draws the primary path as a strip above the axes, in the colours of the paths.

    Parameters
    ----------
    axes
        Axes with time in seconds on the horizontal axis.
    changes
        Times in seconds, each with the name of the path that is primary from then on.
    first_s, last_s
        The time that is drawn.
    colours
        The colours of the paths, by name.

    Returns
    -------
    The entries of a legend: one for each path that was primary.
    """
    ends = [*(time for time, _ in changes[1:]), math.inf]
    pieces = [
        (max(time, first_s), min(end, last_s), name)
        for (time, name), end in zip(changes, ends, strict=False)
        if time < last_s and end > first_s
    ]
    # Coordinates: time horizontally, and inches above the top of the axes vertically.
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = figure.dpi_scale_trans + ScaledTranslation(0, 1, axes.transAxes)  # type: ignore[arg-type]
    place = blended_transform_factory(axes.transData, inches)
    for start, end, name in pieces:
        piece = Rectangle(
            (start, 0.03),
            end - start,
            _STRIP_INCHES,
            transform=place,
            color=colours[name],
            linewidth=0,
            clip_on=False,
            gid=f"primary-{name}",
        )
        axes.add_patch(piece)
    seen = dict.fromkeys(name for _, _, name in pieces)
    return [
        Patch(color=colours[name], label=f"strip: {shortened(name)} is the primary path")
        for name in seen
    ]


def heat_map(
    cells: pl.DataFrame,
    x: str,
    y: str,
    *,
    value: str = "mean",
    value_label: str = "",
    limits: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:
    """A value for each pair of two axes, as a colour and as a number.

    Parameters
    ----------
    cells
        As `Study.cells` gives them, one row for each pair.
    x, y
        Names of the axes; their values appear in the order of the rows.
    value
        The column with the values.
    value_label
        What the colour means.
    limits
        The limits of the colour scale, so that several maps can be compared.
    title
        The title above the figure.
    """
    columns = cells[x].unique(maintain_order=True).to_list()
    lines = cells[y].unique(maintain_order=True).to_list()
    grid = [[math.nan] * len(columns) for _ in lines]
    for row in cells.iter_rows(named=True):
        grid[lines.index(row[y])][columns.index(row[x])] = row[value]
    with style():
        figure, axes = panel(1.8 + 0.62 * len(columns), 1.5 + 0.5 * len(lines))
        image = heat(
            axes,
            grid,
            limits,
            *(wording.told_apart(values, write=_plain) for values in (columns, lines)),
        )
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        bar = figure.colorbar(image, ax=axes, label=value_label, fraction=0.05, pad=0.02)
        bar.outline.set_visible(False)
        titled(axes, title)
        return figure


def heat(
    axes: Axes,
    grid: Sequence[Sequence[float]],
    limits: tuple[float, float] | None,
    columns: Sequence[str],
    lines: Sequence[str],
    *,
    digits: int = 2,
    colours: str = "cividis",
) -> AxesImage:
    """Draws a heat map with the number in each cell, in white on dark colours.

    Parameters
    ----------
    axes
        Where to draw.
    grid
        Lines of values; a NaN cell stays empty.
    limits
        The limits of the colour scale; those of the values if not given.
    columns, lines
        The names below and beside them.
    digits
        Digits after the point.
    colours
        The colour map.
    """
    low, high = limits or (None, None)
    image = axes.imshow(grid, cmap=colours, vmin=low, vmax=high, aspect="auto")
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(lines)), lines)
    for j, line in enumerate(grid):
        for i, value in enumerate(line):
            if math.isnan(value):
                continue
            red, green, blue, _ = image.cmap(float(image.norm(value)))  # type: ignore[arg-type]
            # Perceived brightness (ITU-R BT.601).
            is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            axes.text(
                i,
                j,
                f"{round(value, digits) + 0.0:.{digits}f}",  # avoids -0
                ha="center",
                va="center",
                color=ON_DARK if is_dark else ON_LIGHT,
            )
    return image


def frame_cells(axes: Axes, cells: Iterable[tuple[int, int]]) -> None:
    """Frames cells of a heat map, given by column and line: those that may be the best."""
    for column, line in cells:
        axes.add_patch(
            Rectangle(
                (column - 0.46, line - 0.44),
                0.92,
                0.88,
                fill=False,
                edgecolor=ACCENT,
                linewidth=1.6,
                clip_on=False,
                gid="best",
            )
        )


class Drawing(Figure):
    """A figure that notebooks show by itself, in the colours of their theme.

    Its text is drawn as it stands: names, titles and values are free text of users, in which `$`
    begins no mathematics. That also holds for ticks, which come into being when a caller draws it.
    """

    looks: Mapping[str, Any] = _STYLE
    """The style that it is drawn in, whenever that is."""

    def draw(self, renderer: RendererBase) -> None:
        """Draws the figure, as matplotlib does, in its own style."""
        with _looks(self):
            super().draw(renderer)

    def _repr_html_(self) -> str:
        return views().of_figure(self)


def blank(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legend(figure: Figure, handles: Sequence[Artist], columns: int | None = None) -> None:
    """Puts a legend above everything, in as few lines as the figure's width allows."""
    if not handles:
        return
    labels = [str(handle.get_label()) for handle in handles]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=columns or legend_columns(labels, figure.get_size_inches()[0]),
        frameon=False,
        handletextpad=0.5,
        columnspacing=1.6,
    )


def legend_columns(labels: Sequence[str], room: float) -> int:
    """How many columns of a legend fit into this many inches."""
    widths = [_KEY + CHARACTER * max(map(len, label.split("\n"))) for label in labels]
    for columns in range(len(widths), 1, -1):
        # Entries go down the columns, and the first columns may be longer by one.
        few, longer = divmod(len(widths), columns)
        sizes = [few + (i < longer) for i in range(columns)]
        ends = list(accumulate(sizes))
        columns_of = (widths[end - size : end] for end, size in zip(ends, sizes, strict=True))
        if sum(map(max, columns_of)) <= room:
            return columns
    return 1


def shortened(name: str, most: int = NAME) -> str:
    """A name in at most this many characters; it keeps both ends, as names may differ in either."""
    last = most // 3
    return name if len(name) <= most else f"{name[: most - 1 - last]}…{name[-last:]}"


def finite(value: float) -> float:
    """A half-width to draw: 0 where there is no interval."""
    return 0.0 if math.isnan(value) else value


def bar(
    mean: float, half_width: float, low: float = 0.0, high: float = math.inf
) -> list[list[float]]:
    """An interval to draw, cut to the possible values: Jain's index is never above 1."""
    width = finite(half_width)
    return [[max(0.0, min(width, mean - low))], [max(0.0, min(width, high - mean))]]


def percent(share: float) -> str:
    """A share as a percentage in words."""
    return f"{100 * share:g} %"


def panel(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches with one panel."""
    figure = blank(width, height)
    return figure, figure.add_subplot()


def titled(axes: Axes, title: str, pad: float = 12) -> None:
    """Gives a panel its title, in as many lines as it needs; an empty title gives none."""
    if title:
        figure = axes.get_figure(root=True)
        assert figure is not None
        axes.set_title(filled(title, figure), pad=pad)


def filled(title: str, figure: Figure) -> str:
    """The title in lines that fit into the figure, less the space left of its axes."""
    characters = (figure.get_size_inches()[0] - 1) / (CHARACTER * TITLE_SIZE / SIZE)
    return textwrap.fill(title, int(characters))


def label_ends(
    figure: Figure, axes: Axes, ends: Sequence[tuple[float, str, str]], size: float = 1.0
) -> None:
    """Puts labels right of the axes at each line's end, moved apart where they would overlap.

    Parameters
    ----------
    figure, axes
        Where to draw.
    ends
        Last value, text and colour of each line.
    size
        How large text is, beside `SIZE`.
    """
    known = sorted(end for end in ends if math.isfinite(end[0]))
    if not known:
        return
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    heights = [float(to_axes.transform((left, value))[1]) for value, _, _ in known]
    spec = axes.get_subplotspec()
    panels = spec.get_gridspec().nrows if spec else 1
    line = 0.2 * size / figure.get_size_inches()[1] * panels
    lines = [1 + text.count("\n") for _, text, _ in known]
    for i in range(1, len(heights)):
        apart = line * (lines[i - 1] + lines[i]) / 2
        heights[i] = max(heights[i], heights[i - 1] + apart)
    overflow = max(0.0, heights[-1] - 1)
    for height, (_, text, colour) in zip(heights, known, strict=True):
        axes.annotate(
            "\n".join(map(shortened, text.split("\n"))),
            (1, height - overflow),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )


STEPS = 400
"""Steps of a time axis, each narrower than a panel can show."""


def thinned(rows: pl.DataFrame, value: str, until_s: float) -> pl.DataFrame:
    """Thins a trace but keeps the first, least, largest and last row of each step.

    Parameters
    ----------
    rows
        Rows with `time_s`, in order of time.
    value
        The column that is drawn against time.
    until_s
        The end of the time axis, which begins at 0 and has STEPS steps.
    """
    if rows.height <= 4 * STEPS:
        return rows
    of_step, place = pl.col("time_s") * STEPS // until_s, pl.int_range(pl.len())
    extremes = [pl.col(value).arg_min(), pl.col(value).arg_max(), pl.lit(0), pl.len() - 1]
    is_kept = pl.any_horizontal(place == extreme for extreme in extremes).over(of_step)
    return rows.filter(is_kept)


def logarithmic(axis: Axis) -> None:
    """Makes an axis logarithmic, with numbers in plain form: 0.1, not 10 to the power of -1."""
    axes: Any = axis.axes
    if axis is axes.xaxis:
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    axis.set_major_formatter(lambda value, _: _plain(value))
    # Labels between the powers of ten appear only where there would be few numbers otherwise.
    axis.set_minor_formatter(_FewMinor(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))


class _FewMinor(LogFormatter):
    def __call__(self, x: float, pos: int | None = None) -> str:
        return _plain(x) if super().__call__(x, pos) else ""


def _plain(value: object, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
