"""`anabranch array`."""

import sys
from pathlib import Path

import anabranch
from anabranch.errors import AnabranchError
from anabranch.studies import array_jobs
from anabranch.support import progress

from .app import Sets, Whole, app, pairs
from .sweep import Texts, finding_runs, sweep_sets


@app.command(
    help_epilogue="""\
Examples:
  anabranch array scenarios/rto-sweep.toml --out results/rto --tasks 20 > rto.sh
  sbatch rto.sh
  bash rto.sh
The last one, after the tasks, prints the results and computes what is missing."""
)
def array(
    scenario: Path,
    /,
    *,
    out: Path,
    tasks: Whole,
    set_: Sets = (),
    replications: Whole | None = None,
    until: str | None = None,
    trace: Texts = (),
) -> None:
    """Print a script for `sbatch` that computes a sweep as an array of jobs.

    Each task computes its share (`anabranch sweep --shard`) into the same
    folder.

    Parameters
    ----------
    scenario
        A scenario file with a [sweep].
    out
        The study folder; all nodes must be able to reach it.
    tasks
        The number of tasks in the array; each computes one share.
    set_
        Change a value, PATH=VALUE; may be given several times.
    replications
        Runs of each cell, instead of what the sweep asks for.
    until
        METRIC=HALF_WIDTH; as for sweep.
    trace
        Keep this table of every run; as for sweep.
    """
    if not 1 <= tasks <= array_jobs.MOST_TASKS:
        raise AnabranchError(f"tasks is {tasks}; it must be from 1 to {array_jobs.MOST_TASKS:,}")
    loaded = anabranch.load(scenario, {**pairs(set_), **sweep_sets(until, trace)})
    with progress.waiting(finding_runs(loaded)):
        study = anabranch.Study(loaded, replications=replications)
    options = [word for value in set_ for word in ("--set", value)]
    if replications is not None:
        options += ["--replications", str(replications)]
    if until is not None:
        options += ["--until", until]
    options += [word for table in trace for word in ("--trace", table)]
    sys.stdout.write(array_jobs.script(scenario, out, tasks, options, study.scenario.name))
