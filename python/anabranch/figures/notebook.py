"""What notebooks show for runs, studies and comparisons, and the figures of their `plot`."""

import html
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError, suggestion
from anabranch.figures import plots, run_plots
from anabranch.studies import headline, watch
from anabranch.support import wording

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anabranch.stats.comparison import Comparison
    from anabranch.studies.result import Result
    from anabranch.studies.study import Study

_MOST_LINES = 7
"""Lines in one figure at most."""


def of_result(result: "Result") -> str:
    """The lines of a run, with all scalars in a part that unfolds."""
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in headline.lines(result))
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{wording.number(value)}</td></tr>"
        for name, value in result.summary.items()
    )
    summary = f"all {len(result.summary)} scalars"
    return f"{lines}<details><summary>{summary}</summary><table>{rows}</table></details>"


def figure(result: "Result", name: str | None = None) -> "Figure":
    """One of a run's figures; the first one if no name is given."""
    if not result.traces:
        raise AnabranchError("the run kept no traces to draw: run it with `trace=True`")
    figures = run_plots.of_run(result)
    if not figures:
        raise AnabranchError("the run has nothing to draw: no frames, no ratings and no paths")
    if name is not None and name not in figures:
        there = f"there are {', '.join(figures)}"
        raise AnabranchError(
            f"name: there is no figure `{name}`{suggestion(name, figures)}; {there}"
        )
    return figures[next(iter(figures)) if name is None else name]


def of_study(study: "Study") -> str:
    """A description of the study, with the means of the usual scalar."""
    text = f"<p>{html.escape(repr(study))}</p>"
    try:
        metric = watch.usual(study.frame().columns)
    except AnabranchError:  # no run is finished
        return text
    if metric is None:
        return text
    cells = study.cells(metric)
    return f"{text}<p>{html.escape(metric)}</p>{cells._repr_html_()}"


def figure_of_study(study: "Study", metric: str, x: str | None, by: str | None) -> "Figure":
    """The means of a scalar against an axis."""
    cells = study.cells(metric)
    for argument, axis in (("x", x), ("by", by)):
        if axis is not None and axis not in study.axes:
            there = ", ".join(study.axes) or "none"
            raise AnabranchError(f"{argument}: there is no axis `{axis}`; there are {there}")
    wide = [axis for axis in study.axes if cells[axis].n_unique() > 1]
    if x is None:
        numbers = [axis for axis in wide if cells[axis].dtype.is_numeric() and axis != by]
        if not numbers:
            raise AnabranchError("x: the study has no axis of several numbers to draw against")
        x = numbers[0]
    if by is None:
        others = [axis for axis in wide if axis != x]
        by = others[0] if others else None
    more = [axis for axis in wide if axis not in (x, by)]
    if more:
        raise AnabranchError(
            f"the study varies {', '.join(more)}, too: a figure against `x` shows one more axis,"
            " `by`; a report draws all of them"
        )
    if by is not None and cells[by].n_unique() > _MOST_LINES:
        raise AnabranchError(
            f"by: `{by}` has {cells[by].n_unique()} values; a figure shows at most {_MOST_LINES}"
            " lines"
        )
    return plots.metric_against_axis(cells, x, by=by, y_label=metric, title=study.scenario.name)


def figure_of_comparison(compared: "Comparison") -> "Figure":
    """Both means and their difference."""
    level = f"{100 * compared.level:g} % intervals"
    with plots.style():
        drawn = plots.blank(6.4, 2.6)
        left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
        for i, mean in enumerate(compared.means):
            width = plots.finite(mean.half_width)
            left.errorbar(mean.mean, 1 - i, xerr=width, fmt="o", color=plots.COLOURS[i], capsize=3)
        left.set_yticks([1, 0], compared.names)
        left.set_ylim(-0.5, 1.5)
        left.set_xlabel(f"{compared.metric} ({level})")
        width = plots.finite(compared.difference.half_width)
        right.errorbar(compared.difference.mean, 0, xerr=width, fmt="o", color="black", capsize=3)
        right.axvline(0, color=plots.QUIET, linewidth=1, linestyle=(0, (4, 3)))
        right.set_yticks([])
        right.set_ylim(-0.5, 0.5)
        right.set_xlabel("first minus second")
        return drawn
