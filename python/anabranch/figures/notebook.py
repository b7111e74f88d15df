"""What notebooks show for scenarios, runs, studies and comparisons, and their figures.

The HTML brings its own colours for light and dark, as notebooks do not say what theirs are. It has
no script, and ids in it are made from its content, so that outputs of one page do not mix.
"""

import contextlib
import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from anabranch.errors import AnabranchError, suggestion
from anabranch.figures import pages, plots, run_plots, study_plot
from anabranch.figures.diagram import Diagram, varied
from anabranch.figures.table import Table
from anabranch.stats import comparison, labels, verdicts
from anabranch.studies import headline, watch
from anabranch.support import terminal, wording

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from anabranch._engine import Scenario
    from anabranch.stats.comparison import Comparison
    from anabranch.studies.result import Result
    from anabranch.studies.study import Study
    from anabranch.studies.where import Where

_MOST_ROWS = 24
"""Rows of a table that is not folded at most."""

_MOST_VALUES = 12
"""Values of an axis that are written out at most."""


@dataclass(frozen=True)
class _Folded:
    """A part that unfolds when its summary is clicked."""

    summary: str
    drawn: str = ""
    table: Table | None = None
    text: str = ""


def of_scenario(scenario: "Scenario") -> str:
    """Name, network and sweep, with the whole scenario in a part that unfolds."""
    over = ", ".join(axis["name"] for axis in scenario.axes)
    cells = wording.counted(scenario.cell_count, "cell") + (f" over {over}" if over else "")
    runs = wording.counted(scenario.replications, "replication")
    lines = [f"Scenario {scenario.name}: {cells}, {runs} each"]
    if scenario.description:
        lines.append(scenario.description)
    text = scenario.to_toml()
    axes = _axes(scenario, text)
    whole = _Folded("the scenario, with every default", text=text)
    return _shown(lines, drawn=_network(scenario), table=axes, hidden=[whole])


def of_result(result: "Result") -> str:
    """The lines of a run and its first figure, with all scalars in a part that unfolds."""
    rows = [(name, wording.number(value)) for name, value in result.summary.items()]
    scalars = Table("all scalars", ("scalar", "value"), rows)
    figures = run_plots.of_run(result)
    first = next(iter(figures), None)
    others = [f"plot({name!r})" for name in figures if name != first]
    return _shown(
        headline.lines(result),
        drawn="" if first is None else _drawn(figures[first]),
        note=f"more figures: {', '.join(others)}" if others else "",
        hidden=[
            _Folded(f"all {len(rows)} scalars", table=scalars),
            _Folded("the network", drawn=_network(result.scenario)),
        ],
    )


def of_study(study: "Study") -> str:
    """A description of the study, with the means of the usual scalar as a table and a figure."""
    network = _Folded("the network", drawn=_network(study.scenario))
    try:
        metric = watch.usual(study.frame().columns)
    except AnabranchError:  # no run is finished
        metric = None
    if metric is None:
        return _shown([repr(study)], table=_axes(study.scenario), hidden=[network])
    rows = study.frame(columns=[metric])
    shown = labels.written(rows, comparison.keys_of(rows), study.scenario.axes)
    cells, findings = comparison.judged(rows, metric, shown=shown)
    drawn = Markup()
    with contextlib.suppress(AnabranchError):  # its axes may not fit into one figure
        drawn = _drawn(figure_of_study(study, metric, None, None))
    more = cells.height - _MOST_ROWS
    folded = f"; {more:,} more cells are in `cells({metric!r})`" if more > 0 else ""
    star = "; * may be the best, = is equal to it" if "verdict" in cells.columns else ""
    return _shown(
        [repr(study), *findings],
        drawn=drawn,
        table=_means(cells.head(_MOST_ROWS), metric, shown),
        note=f"mean of each cell and half-width of its 95 % interval{star}{folded}",
        hidden=[network],
    )


def of_comparison(compared: "Comparison") -> str:
    """The comparison in words, with its figure."""
    words = repr(compared).replace("`", "")  # the marks of code on a terminal
    return _shown(words.splitlines(), drawn=_drawn(figure_of_comparison(compared)))


def of_figure(figure: "Figure") -> str:
    """A figure alone."""
    return _shown([], drawn=_drawn(figure))


def _shown(
    lines: Sequence[str],
    *,
    drawn: str = "",
    table: Table | None = None,
    note: str = "",
    hidden: Sequence[_Folded] = (),
) -> str:
    """The parts as HTML; text is escaped, drawings are not."""
    templates = dict.fromkeys(("notebook.html.j2", "macros.html.j2", "network.css"), pages.__name__)
    template = pages.environment(templates).get_template("notebook.html.j2")
    return template.render(lines=lines, drawn=drawn, table=table, note=note, hidden=hidden)


def _drawn(figure: "Figure") -> Markup:
    with plots.laid_out(figure):
        text = pages.inline(figure, _NAME)
    return _own(text)


def _network(scenario: "Scenario") -> Markup:
    return _own(Diagram(scenario, _NAME).svg())


_NAME = "anabranch-drawing"
"""What ids begin with, until it is replaced by a name of its own."""


def _own(svg: str) -> Markup:
    """The drawing with ids that begin with a digest of it."""
    digest = hashlib.sha256(svg.encode()).hexdigest()[:12]
    return Markup(svg.replace(_NAME, f"a{digest}"))


def _axes(scenario: "Scenario", text: str | None = None) -> Table | None:
    """What the sweep varies; None without one. `text` is `to_toml()` if it is there."""
    if not scenario.axes:
        return None
    keys = dict(varied(tomllib.loads(text or scenario.to_toml()).get("sweep", {})))
    rows = []
    for axis in scenario.axes:
        name, labels = axis["name"], axis["labels"]
        values = ", ".join(labels[:_MOST_VALUES])
        if (more := len(labels) - _MOST_VALUES) > 0:
            values += f" and {more:,} more"
        rows.append((name, values, ", ".join(keys.get(name, []))))
    return Table("what the sweep varies", ("axis", "values", "sets"), rows, keys=3)


def _means(cells: "pl.DataFrame", metric: str, shown: verdicts.Shown) -> Table:
    """The cells as a table: the axes, mean, half-width, number of runs, and which may be best.

    Between `cell` and `mean` the columns of `cells` are those that say which cell it is.
    """
    axes = cells.columns[1 : cells.columns.index("mean")]
    columns = [[shown(axis, value) for value in cells[axis]] for axis in axes]
    columns += [
        [wording.number(value, 4) for value in cells["mean"]],
        [wording.number(value, 2) for value in cells["half_width"]],
        [wording.number(value) for value in cells["n"]],
    ]
    heads = [*axes, metric, "± 95 %", "runs"]
    if "verdict" in cells.columns:
        heads.append("best")
        columns.append([terminal.MARKS[verdict] for verdict in cells["verdict"]])
    return Table("means", heads, list(zip(*columns, strict=True)), keys=len(axes))


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
            f"name: there is no figure `{name}`{suggestion(str(name), figures)}; {there}"
        )
    return figures[next(iter(figures)) if name is None else name]


def figure_of_study(
    study: "Study",
    metric: str,
    x: str | None,
    by: str | None,
    *,
    panels: str | None = None,
    where: "Where" = (),
    **looks: Any,
) -> "Figure":
    """The means of a scalar against an axis; `looks` are the fields of `study_plot.Looks`."""
    picture = study_plot.chosen(study, metric, x, by, panels, where)
    return study_plot.drawn(picture, study_plot.Looks(**looks))


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
