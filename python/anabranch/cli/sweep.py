"""`anabranch sweep`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import anabranch
from anabranch.errors import AnabranchError
from anabranch.studies import array_jobs
from anabranch.studies.array_jobs import MOST_TASKS
from anabranch.support import progress, terminal, wording
from anabranch.support.files import check_folder

from .app import STUDY, Sets, Texts, Whole, app, pairs, refuse

if TYPE_CHECKING:
    import polars as pl

_MOST_CELLS = 100
"""The most cells that are printed; of more, nobody reads a table."""

_MOST_SCALARS = 10
"""The most scalars that are printed if none is named, each with a table of the cells."""


@app.command(
    group=STUDY,
    sort_key=1,
    help_epilogue="""\
Examples:
  anabranch sweep scenarios/rto-sweep.toml --out results/rto
  anabranch sweep scenarios/rto-sweep.toml --out results/rto --replications 100
  anabranch sweep scenarios/rto-sweep.toml --out results/rto \\
      --until call.mos=0.05
  anabranch sweep my-sweep.toml --out mine --jobs 2 --metric call.loss_percent
  anabranch sweep my-sweep.toml --out mine --dask tcp://10.0.0.1:8786
  anabranch sweep my-sweep.toml --out mine --array 20 > mine.sh; sbatch mine.sh
  anabranch sweep my-sweep.toml --out mine --merge machine-2/mine
Read the rows in Python with anabranch.read("results/rto").""",
)
def sweep(
    scenario: Path,
    /,
    *,
    out: Path,
    jobs: Whole | None = None,
    set_: Sets = (),
    replications: Whole | None = None,
    until: str | None = None,
    metric: Texts = (),
    trace: Texts = (),
    dask: str | None = None,
    shard: str | None = None,
    array: Whole | None = None,
    merge: Annotated[
        tuple[Path, ...], Parameter(negative="", show_default=False, consume_multiple=False)
    ] = (),
    matters: str | None = None,
) -> None:
    """Run every cell of a scenario's sweep, in parallel, into a study folder.

    Finished runs in the folder are never computed again: after Ctrl-C or a
    crash the same command continues, and more replications may be asked for
    later.

    Parameters
    ----------
    scenario
        A scenario file with a [sweep].
    out
        The study folder.
    jobs
        Threads; all cores if not given. Never changes a result.
    set_
        Change a value, PATH=VALUE; may be given several times.
    replications
        Runs of each cell, instead of what the sweep asks for.
    until
        METRIC=HALF_WIDTH: continue in each cell until the 95 % interval of the metric's mean is
        this narrow; the same as sweep.until in the file.
    metric
        Print mean and 95 % interval of this scalar; every flow's MOS if not given. The progress
        line shows the interval of the first metric.
    trace
        Keep this table of every run, such as packets; the same as sweep.traces in the file.
    dask
        Compute on the workers of a Dask scheduler, tcp://HOST:PORT, or of a
        cluster of --jobs processes on this machine: local.
    shard
        I/N: compute only the I-th of N shares; others compute the rest. See --array.
    array
        Compute nothing: print a script for `sbatch` in which so many tasks compute a share each
        into the same folder, which all nodes must be able to reach. With `bash`, after the tasks,
        it prints the results and computes what is missing.
    merge
        First copy the runs that this study folder has, such as one of another machine; may be given
        several times. It stays unchanged, and a run that several folders have counts once.
    matters
        The smallest difference that matters, in the metric's unit or as a share such as 5%; less
        is called equal. 0.1 for a MOS, 5% for others, if not given.
    """
    if until is not None and replications is not None:
        raise AnabranchError("--until and --replications exclude each other: give one of them")
    sets = {**pairs(set_), **sweep_sets(until, trace)}
    if array is not None:
        refuse(
            "--array",
            jobs=jobs,
            metric=metric,
            dask=dask,
            shard=shard,
            merge=merge,
            matters=matters,
        )
        options = {
            "--set": set_,
            "--replications": () if replications is None else (str(replications),),
            "--until": () if until is None else (until,),
            "--trace": trace,
        }
        sys.stdout.write(_script(scenario, out, array, sets, options))
        return
    from anabranch.stats import comparison, labels, verdicts

    what = None if matters is None else verdicts.matters(matters)
    share = None if shard is None else share_of(shard)
    loaded = anabranch.load(scenario, sets)
    with progress.waiting(finding_runs(loaded)):
        study = anabranch.Study(loaded, out, replications=replications, jobs=jobs)
    check_folder(out)
    if merge:
        _merge(out, merge)
    with progress.shown(study.scenario.name, kept=True) as shown:
        study.run(shown, cluster=dask, shard=share, metrics=metric)
    output = terminal.console()
    if share is not None:
        output.print(f"share {shard} is finished; its runs are in {out / 'rows'}")
        return
    rows = study.frame(columns=metric or ["*.mos"])
    found = [name for name in rows.columns if name.endswith(".mos")]
    axes = comparison.keys_of(rows)
    written = labels.written(rows, axes, study.scenario.axes)
    for name in metric or found[:_MOST_SCALARS]:
        table, findings = comparison.judged(rows, name, matters=what, shown=written)
        printed, which = _readable(table, name)
        output.print(terminal.cells(printed, axes, name, output.width, written))
        if which:
            output.print(
                f"these are the {which} {printed.height} of {table.height:,} cells;"
                f" `anabranch query {shlex.quote(str(out))}` reads all"
            )
        for sentence in findings:
            output.print(sentence)
    if not metric and len(found) > _MOST_SCALARS:
        output.print(
            f"these are {_MOST_SCALARS} of {len(found):,} scalars; --metric NAME prints another,"
            f" and `anabranch query {shlex.quote(str(out))} 'SELECT ... FROM members'` reads those"
            " of flows with a `count`"
        )
    output.print(f"{wording.counted(rows.height, 'run')} in {out / 'rows'}")


def _readable(table: "pl.DataFrame", metric: str) -> tuple["pl.DataFrame", str]:
    """The cells that are printed, and in a word which ones, if they are not all.

    Of many these are the best ones, or the first if it is not known what is good.
    """
    from anabranch.stats.metrics import more_is_better

    if table.height <= _MOST_CELLS:
        return table, ""
    is_more = more_is_better(metric)
    if is_more is None:
        return table.head(_MOST_CELLS), "first"
    means = table["mean"].fill_nan(None)
    order = means.arg_sort(descending=is_more, nulls_last=True)
    return table[order.head(_MOST_CELLS)], "best"


def _merge(out: Path, others: tuple[Path, ...]) -> None:
    """Copies the runs of other study folders."""
    from anabranch import store

    runs = store.merge(out, others)
    terminal.console().print(f"{wording.counted(runs, 'run')} new in {out}")


def _script(
    scenario: Path,
    out: Path,
    tasks: int,
    sets: dict[str, str],
    options: dict[str, tuple[str, ...]],
) -> str:
    """The script for `--array`; `sets` change the scenario, `options` are those of each task."""
    if not 1 <= tasks <= MOST_TASKS:
        raise AnabranchError(f"--array is {tasks}; it must be from 1 to {MOST_TASKS:,}")
    replications = options["--replications"]
    loaded = anabranch.load(scenario, sets)
    with progress.waiting(finding_runs(loaded)):
        study = anabranch.Study(loaded, replications=int(replications[0]) if replications else None)
    words = [word for name, values in options.items() for value in values for word in (name, value)]
    return array_jobs.script(scenario, out, tasks, words, study.scenario.name)


def finding_runs(scenario: anabranch.Scenario) -> str:
    """A message for the time in which the cells' hashes tell which runs a study has."""
    return f"{scenario.name}: finding the runs of {wording.counted(scenario.cell_count, 'cell')}"


def sweep_sets(until: str | None, traces: tuple[str, ...]) -> dict[str, str]:
    """The settings of the scenario that `--until` and `--trace` stand for."""
    sets = {}
    if until is not None:
        name, equals, width = until.partition("=")
        if not equals or not name:
            raise AnabranchError(f"`--until {until}` is not METRIC=HALF_WIDTH")
        sets = {"sweep.until.metric": name.strip(), "sweep.until.half_width": width.strip()}
    if traces:
        sets["sweep.traces"] = f"[{', '.join(map(repr, traces))}]"
    return sets


def share_of(shard: str) -> tuple[int, int]:
    """Parses a share such as `2/5`; gives both numbers."""
    number, _, count = shard.partition("/")
    numbers = number.isdecimal() and count.isdecimal()
    if not (numbers and 1 <= int(number) <= int(count) <= MOST_TASKS):
        allowed = f"I/N with I from 1 to N, and N up to {MOST_TASKS:,}"
        raise AnabranchError(f"`--shard {shard}` is not {allowed}")
    return int(number), int(count)
