"""Small multiples: a panel for each case, a line for each control."""

import math
import textwrap
from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.figure import Figure

from anabranch.bench_cc.measures import Cell, best
from anabranch.figures import plots

COLUMNS = 4

_LABEL = 26
"""Characters of the label below that fit under each column."""

MOST = {"utilisation_percent": 100.0, "retransmitted_percent": 100.0, "jain": 1.0}
"""The largest possible value of a metric; no interval is drawn beyond it."""


def of(cells: Sequence[Cell]) -> dict[str, Callable[[], Figure]]:
    """The figures of the metrics that have values, as functions that draw them."""
    return {
        name: partial(small_multiples, cells, metric, label)
        for name, (metric, label) in cells[0].bench.drawn.items()
        if not all(math.isnan(cell.values[metric].mean) for cell in cells)
    }


def small_multiples(cells: Sequence[Cell], metric: str, label: str) -> Figure:
    """A metric's mean and interval for each control, case by case; the best have another colour."""
    known = [cell for cell in cells if not math.isnan(cell.values[metric].mean)]
    cases = list(dict.fromkeys(cell.case for cell in known))
    controls = list(dict.fromkeys(cell.control for cell in known))
    top = best(known)
    columns = min(COLUMNS, len(cases))
    lines = math.ceil(len(cases) / columns)
    with plots.style():
        size = (0.8 + 2.3 * columns, 0.6 + lines * (0.75 + 0.19 * len(controls)))
        figure = plots.blank(*size)
        grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
        for axes, case in zip(grid.flat, cases, strict=False):
            for cell in (cell for cell in known if cell.case == case):
                value = cell.values[metric]
                is_best = cell.control in top.get((case, metric), ())
                axes.errorbar(
                    value.mean,
                    controls.index(cell.control),
                    xerr=plots.bar(*value[:2], high=MOST.get(metric, math.inf)),
                    color=plots.ACCENT if is_best else plots.COLOURS[0],
                    marker="o",
                    markersize=4,
                    capsize=2,
                    elinewidth=1,
                )
            axes.set_title(case)
            axes.set_yticks(range(len(controls)), controls)
            axes.set_ylim(len(controls) - 0.5, -0.5)
            # Leaves room for the marks at both ends.
            whole = {"utilisation_percent", "jain"}
            right = MOST[metric] if metric in whole else axes.get_xlim()[1]
            axes.set_xlim(-0.03 * right, 1.03 * right)
            axes.grid(visible=True, axis="x")
        for axes in grid.flat[len(cases) :]:
            axes.set_visible(False)
        said = f"{label}; orange: may be the best"
        figure.supxlabel(textwrap.fill(said, _LABEL * columns))
        return figure
