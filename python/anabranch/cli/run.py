"""`anabranch run`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import anabranch
from anabranch import _engine, terminal
from anabranch.files import check_file, check_folder

from .app import Flag, Natural, Sets, app, pairs, write_json


@app.command(
    help_epilogue="""\
Examples:
  anabranch run scenarios/two-path-call.toml
  anabranch run my-call.toml --set flows.call.transport.rto_max='1 s' --seed 7
  anabranch run my-call.toml --trace traces --plot
  anabranch run scenarios/rto-sweep.toml --cell 3 --json result.json"""
)
def run(
    scenario: Path,
    /,
    *,
    set_: Sets = (),
    seed: Natural | None = None,
    replication: Natural = 0,
    cell: Natural = 0,
    trace: Path | None = None,
    plot: Annotated[bool, Flag] = False,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> None:
    """Run a scenario once and print every scalar.

    Parameters
    ----------
    scenario
        A scenario file.
    set_
        Change a value, PATH=VALUE; may be given several times.
    seed
        Instead of the scenario's seed.
    replication
        Which of the independent repetitions.
    cell
        Which cell, if the scenario has a sweep.
    trace
        Write packet, frame, path, queue and event traces into this folder, as Parquet.
    plot
        Draw frame delay, MOS and path state over time, into the trace folder or the current one.
    json_file
        Write the scalars to this file.
    """
    loaded = anabranch.load(scenario, pairs(set_))
    folder = trace or Path()
    if plot or trace is not None:
        check_folder(folder)
    check_file(json_file, made=trace)
    result = anabranch.run(
        loaded, seed=seed, replication=replication, cell=cell, trace=plot or trace is not None
    )
    out = terminal.console()
    if loaded.cell_count > 1:
        out.print(f"cell {cell} of {loaded.cell_count}: {terminal.key_text(loaded.cell_key(cell))}")
    out.print(terminal.summary(result.summary))
    written = []
    if trace is not None:
        from anabranch.store import write_tables  # noqa: PLC0415 - slow to import

        written += write_tables(trace, result.traces)
    if plot:
        from anabranch import plots  # noqa: PLC0415 - slow to import

        for name, figure in plots.of_run(result).items():
            written += plots.save(figure, folder / f"{loaded.name}-{name}")
    if json_file is not None:
        content = {
            "scenario": loaded.name,
            "scenario_hash": loaded.hash,
            "version": _engine.__version__,
            "seed": result.seed,
            "cell": cell,
            "replication": replication,
            "summary": result.summary,
        }
        write_json(json_file, content)
        written.append(json_file)
    for path in written:
        out.print(f"wrote {path}")
