"""The table of a comparison, for terminals and pages, and the page."""

import math
from functools import partial
from pathlib import Path

import polars as pl

from anabranch.figures.pages import drawing
from anabranch.figures.pages.tables import Page
from anabranch.figures.table import Cell, Shade, Table
from anabranch.support import wording

from .outcome import SideBySide
from .overlays import overlays

_SHADES: dict[str, Shade] = {
    "resolved": "not_reproduced",
    "same": "not_reproduced",
    "single": "partly",
    "open": "open",
    "small": "reproduced",
    "equal": "reproduced",
}
"""The shade of a row, by verdict."""

_MOST_EQUAL = 100
"""Rows shown at most where nothing differs."""

_MEANING = (
    "Red: the difference is told from chance, or the same in every run. Yellow: there is one run of"
    " each, so that nothing can be told from chance. Grey: not resolved. Green: too little to"
    " matter, or equal in every run."
)


def table(outcome: SideBySide, rows: pl.DataFrame) -> Table:
    """Rows of an outcome as people read them; differences as shares of B, too."""
    with_cells = any(cell.name for cell in outcome.cells)
    lines = []
    for row in rows.iter_rows(named=True):
        difference = _with_interval(row["difference"], row["half_width"])
        runs = dict.fromkeys((row["runs_a"], row["runs_b"]))
        lines.append(
            [
                *([row["cell"]] if with_cells else []),
                row["scalar"],
                _shown(row["a"], 4),
                _shown(row["b"], 4),
                difference,
                Cell(_percent(row), _SHADES[row["verdict"]]),
                " and ".join(map(str, runs)),
            ]
        )
    heads = ["scalar", "A", "B", "A - B", "of B", "runs"]
    return Table(
        title="What differs" if rows.height < outcome.rows.height else "All scalars",
        heads=["cell", *heads] if with_cells else heads,
        rows=lines,
        keys=2 if with_cells else 1,
    )


def _percent(row: dict[str, float]) -> str:
    """The difference as a share of B."""
    if row["b"] == 0:
        return "–" if row["difference"] else "0 %"
    width = 100 * row["half_width"] / abs(row["b"])
    return f"{_with_interval(100 * row['deviation'], width)} %"


def _with_interval(value: float, half_width: float) -> str:
    sign = "+" if value > 0 else ""
    text = f"{sign}{_shown(value, 3)}"
    return text if math.isnan(half_width) else f"{text} ± {_shown(half_width, 2)}"


def _shown(value: float, digits: int) -> str:
    """A number with this many digits, but with all those before the point."""
    return f"{value:.0f}" if abs(value) >= 10**digits else wording.number(value, digits)


def write(outcome: SideBySide, rows: pl.DataFrame, folder: Path) -> list[Path]:
    """Writes a page with a table of these rows and the overlaid traces into a folder.

    Gives the paths of the page and of its figures.
    """
    laid = overlays(outcome)
    makers = {name: partial(laid.figures.__getitem__, name) for name in laid.figures}
    drawn = drawing.draw(makers, folder)
    page = Page(
        title=f"{outcome.a.scenario or outcome.b.scenario or 'Two results'}: A beside B",
        headline=outcome.sentence.replace("`", ""),
        sentences=[*outcome.notes, laid.note],
        # Where nothing differs, the table shows what was compared.
        tables=[table(outcome, rows if rows.height else outcome.rows.head(_MOST_EQUAL))],
        notes=[_MEANING],
        captions=laid.captions,
        facts=" and ".join(
            f"{wording.counted(of.rows.height, 'run')} of {name}"
            for name, of in (("A", outcome.a), ("B", outcome.b))
        ),
    )
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.{suffix}" for name in drawn for suffix in ("png", "svg", "pdf")]
    return [page.write(folder, drawn, ""), *written]
