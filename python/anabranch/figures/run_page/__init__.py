"""The page of one run: its lines, its figures, every scalar, and the scenario."""

from typing import TYPE_CHECKING

from anabranch import _engine
from anabranch.figures import pages, run_plots
from anabranch.studies import headline
from anabranch.support import wording

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anabranch.studies.result import Result


def page(result: "Result", figures: "dict[str, Figure] | None" = None) -> str:
    """The page as HTML in one file, for a run that was traced.

    Parameters
    ----------
    result
        The run.
    figures
        Its figures, if they exist already; `run_plots.of_run` makes them.
    """
    figures = run_plots.of_run(result) if figures is None else figures
    first, *others = headline.lines(result)
    template = pages.environment({"run.html.j2": __package__}).get_template("run.html.j2")
    return template.render(
        name=result.scenario.name,
        description=result.scenario.description,
        first=first,
        lines=others,
        figures={name: pages.responsive(figure, name) for name, figure in figures.items()},
        scalars=[(name, wording.number(value)) for name, value in result.summary.items()],
        scenario=result.scenario.cell_toml(result.cell),
        scenario_hash=result.scenario.hash,
        engine=_engine.ENGINE_VERSION,
    )
