"""`anabranch compare`."""

import importlib
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch import oracles
from anabranch.errors import AnabranchError, suggestion
from anabranch.support import cores, progress, terminal
from anabranch.support.files import check_different, check_file, check_folder, write_atomically

from .app import Whole, app, json_text

ORACLES = ("linux-aqm", "linux-mptcp", "linux-sctp", "linux-tcp", "ns3-shared-queue")


@app.command(
    help_epilogue="""\
Examples:
  anabranch compare results/before results/after
  anabranch compare simulated/run.json emulated.json --metric 'link.*' --all
  anabranch compare out/cubic out/bbr --plot page --csv differences.csv
  anabranch compare linux-sctp --plot figures
  anabranch compare linux-tcp --plot figures
  anabranch compare linux-sctp --replications 100 --json deviations.json"""
)
def compare(
    a: str,
    b: Path | None = None,
    /,
    *,
    metric: Annotated[
        tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=False)
    ] = (),
    all_: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    bound: float | None = None,
    level: float | None = None,
    matters: str | None = None,
    replications: Whole | None = None,
    jobs: Whole | None = None,
    csv_file: Annotated[Path | None, Parameter(name="--csv")] = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
    plot: Annotated[Path | None, Parameter(name="--plot")] = None,
) -> None:
    """Put two results side by side, or our numbers beside those of another implementation.

    With A and B: compares all scalars of two studies or runs of one scenario,
    whatever made them (`run`, `sweep`, `emulate`), and lays their traces over
    each other.

    `anabranch difference` compares two settings within one study, in one scalar
    and in more detail.

    With A alone, the name of another implementation: puts its numbers, row by
    row, beside those that we compute for the same settings.

    Parameters
    ----------
    a
        A study folder; a JSON file that `run` or `emulate` wrote; a folder of such files, with
        traces beside them (`run --trace DIR --json DIR/run.json`). Without B, one of linux-aqm
        (Linux 6.12's queue disciplines), linux-mptcp (its MPTCP), linux-sctp (its SCTP's failover),
        linux-tcp (its TCP's goodput, with ns-3's as well) and ns3-shared-queue (ns-3's flows that
        share a queue).
    b
        What A is compared with: differences are A - B, deviations shares of B.
    metric
        Scalars to compare, such as 'link.*'; may be given several times.
    all_
        List every scalar; by default, only those whose difference is resolved are listed.
    bound
        With a single run on each side there are no intervals: list what deviates by more than this
        percentage; 10 if not given.
    level
        Confidence level; 0.95 if not given. On average, 5 % of the differences that are then called
        resolved are due to chance, however many scalars there are.
    matters
        The smallest difference that matters, in a scalar's unit or as a share of B such as 5%. If
        not given, 0.1 for a MOS, 5% for what is known to be good or bad, nothing for counters.
    replications
        Runs of each row in a comparison with an implementation; if not given, 1000 for linux-sctp,
        200 for linux-aqm, 100 for linux-tcp and linux-mptcp, 30 for ns3-shared-queue.
    jobs
        Threads for these runs; all cores if not given. Never changes a result.
    csv_file
        Write all rows to this file.
    json_file
        Write every value with its deviation and verdict to this file.
    plot
        Write a page, index.html, and its figures into this folder. For A and B they show congestion
        windows, round-trip times, goodput and queues over each other. For an implementation they
        show our numbers over theirs: failover times with the closed form (linux-sctp), congestion
        windows (linux-tcp).
    """
    check_different(csv=csv_file, json=json_file, plot=plot)
    check_file(csv_file)
    check_file(json_file)
    if plot is not None:
        check_folder(plot)
    if b is None:
        _refuse("A and B", metric=metric, all=all_, bound=bound, level=level, matters=matters)
        _with_implementation(a, replications, jobs, csv=csv_file, json=json_file, plot=plot)
        return
    _refuse("an implementation", replications=replications, jobs=jobs)
    from . import compare_work  # noqa: PLC0415 - slow to import

    wanted = compare_work.Wanted(
        a=Path(a),
        b=b,
        metrics=metric,
        is_all=all_,
        bound_percent=10.0 if bound is None else bound,
        level=0.95 if level is None else level,
        matters=matters,
        csv=csv_file,
        json=json_file,
        plot=plot,
    )
    compare_work.side_by_side(wanted)


def _refuse(what: str, **options: object) -> None:
    """Raises if one of these options is given, as they belong to another form of the command."""
    for name, value in options.items():
        if value not in (None, False, ()):
            raise AnabranchError(f"--{name} is for a comparison with {what}")


def _with_implementation(
    oracle: str,
    replications: int | None,
    jobs: int | None,
    *,
    csv: Path | None,
    json: Path | None,
    plot: Path | None,
) -> None:
    if oracle not in ORACLES:
        raise AnabranchError(
            f"`{oracle}` alone is not compared: name a second result beside it, or one of"
            f" {', '.join(ORACLES)}{suggestion(oracle, ORACLES)}"
        )
    module = importlib.import_module(f"anabranch.oracles.{oracle.replace('-', '_')}")
    count = module.REPLICATIONS if replications is None else replications
    threads = cores.threads(jobs)
    if count < 1:
        raise AnabranchError(f"replications is {count}; it must be at least 1")
    kernel = module.kernel_rows()
    rows = []
    progress.announce("this computes for a minute or more, on all cores unless --jobs says less")
    with progress.steps(oracle, len(kernel), "rows") as step:
        for row in module.compare(kernel, count, threads):
            rows.append(row)
            step()
    out = terminal.console()
    for line in module.notes(rows) if hasattr(module, "notes") else ():
        out.print(line)
    for title, heads, part in oracles.tables(module, rows):
        lines = [module.cells(row) for row in part]
        shown = terminal.side_by_side(heads, lines, out.width, module.KEYS)
        out.print(*([title] if title else []), shown, sep="\n")
    for letter, text in module.CAUSES.items():
        out.print(f"{letter}: {text}")
    for line in module.summary(rows):
        out.print(line)
    contents = ((csv, module.as_csv(rows)), (json, json_text(module.as_json(rows))))
    for path, content in contents:
        if path is not None:
            write_atomically(path, (content.rstrip("\n") + "\n").encode())
            out.print(f"wrote {path}")
    if plot is not None:
        from anabranch.oracles import page  # noqa: PLC0415 - slow to import

        for path in page.write(module, rows, count, plot):
            out.print(f"wrote {path}")
