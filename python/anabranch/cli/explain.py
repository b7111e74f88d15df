"""`anabranch explain`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.support import progress, terminal
from anabranch.support.files import check_different, check_file, check_folder

from .app import Flag, Natural, Sets, app, pairs, write_json


@app.command(
    help_epilogue="""\
Examples:
  anabranch explain scenarios/load-sharing.toml
  anabranch explain scenarios/load-sharing.toml --cell 3 --plot figures
  anabranch explain my-transfer.toml --set flows.transfer.transport.receive_buffer='64 kB'"""
)
def explain(
    scenario: Path,
    /,
    *,
    set_: Sets = (),
    flow: str | None = None,
    seed: Natural | None = None,
    replication: Natural = 0,
    cell: Natural = 0,
    metric: str | None = None,
    no_alone: Annotated[bool, Flag] = False,
    plot: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Say where the time of a run went, path by path, and what to change.

    The scenario is run once, and once more over each path of the flow alone.

    Parameters
    ----------
    scenario
        A scenario file. With its seed and replication it determines a run completely, so the run
        need not have been kept.
    set_
        Change a value, PATH=VALUE; may be given several times.
    flow
        The flow to explain; the first one with several paths if not given.
    seed
        Replaces the scenario's seed.
    replication
        Which of the independent repetitions.
    cell
        Which cell, if the scenario has a sweep.
    metric
        The scalar to compare the paths by, without the flow's name; MOS or goodput if not given.
    no_alone
        Do not try each path alone.
    plot
        Draw what held each path back over time into this folder.
    json_file
        Write all numbers and sentences to this file.
    """
    from anabranch import explain as explaining  # noqa: PLC0415 - slow to import

    check_different(plot=plot, json=json_file)
    if plot is not None:
        check_folder(plot)
    check_file(json_file)
    explanation = explaining.explain(
        scenario,
        set=pairs(set_),
        flow=flow,
        seed=seed,
        replication=replication,
        cell=cell,
        metric=metric,
        alone=not no_alone,
        steps=lambda count: progress.steps("each path alone", count),
    )
    out = terminal.console()
    out.print(explanation.tables(out.width))
    if plot is not None:
        from anabranch.figures import plots  # noqa: PLC0415 - slow to import

        for path in plots.save(
            explanation.figure(), plot / f"{explanation.result.scenario.name}-explain", ["png"]
        ):
            out.print(f"wrote {path}")
    if json_file is not None:
        write_json(json_file, explanation.as_json())
        out.print(f"wrote {json_file}")
