"""`anabranch compare`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import anabranch
from anabranch.errors import AnabranchError
from anabranch.support import terminal
from anabranch.support.files import check_different, check_file, check_folder

from .app import STUDY, Texts, app, pairs, refuse


@app.command(
    group=STUDY,
    sort_key=4,
    help_epilogue="""\
Examples:
  anabranch compare results/before results/after
  anabranch compare simulated/run.json emulated.json --metric 'link.*' --all
  anabranch compare out/cubic out/bbr --plot page --csv differences.csv
  anabranch compare results/rto --a rto_max=0.1 --b rto_max=1 --metric call.mos
  anabranch compare results/rto --a rto_max=0.1 --a pmr=0 --b rto_max=1 \\
      --b pmr=5 --metric call.r
  anabranch compare results/rto --a pmr=0 --b pmr=1 --metric call.late \\
      --better lower""",
)
def compare(
    first: Path,
    second: Path | None = None,
    /,
    *,
    a: Texts = (),
    b: Texts = (),
    metric: Texts = (),
    better: Literal["higher", "lower"] | None = None,
    all_: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    bound: float | None = None,
    level: float = 0.95,
    matters: str | None = None,
    csv_file: Annotated[Path | None, Parameter(name="--csv")] = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
    plot: Annotated[Path | None, Parameter(name="--plot")] = None,
) -> None:
    """Put two results side by side, or two settings of one study.

    With two results: compares all scalars of two studies or runs of one
    scenario, whatever made them (`run`, `sweep`, `emulate`), and lays their
    traces over each other.

    With one study, --a and --b: compares one scalar of two parts of the study,
    in more detail. Cells with the same values on all other axes are compared
    with each other, within each replication, as both drew the same random
    numbers.

    Parameters
    ----------
    first
        A study folder; a JSON file that `run` or `emulate` wrote; a folder of such files, with
        traces beside them (`run --trace DIR --json DIR/run.json`).
    second
        What it is compared with: differences are FIRST - SECOND, deviations shares of SECOND.
    a
        Within one study, what is compared, as AXIS=VALUE with the value that tables show; several
        for several axes.
    b
        What it is compared with, in the same form.
    metric
        Scalars to compare, such as 'link.*'; may be given several times. Within one study, the one
        scalar; the first MOS or goodput if not given.
    better
        Within one study: which values are better, where this does not follow from the scalar's
        name.
    all_
        List every scalar; by default, only those whose difference is resolved are listed.
    bound
        With a single run on each side there are no intervals: list what deviates by more than this
        percentage; 10 if not given.
    level
        Confidence level. On average, 5 % of the differences that are called resolved at 0.95 are
        due to chance, however many scalars there are.
    matters
        The smallest difference that matters, in a scalar's unit or as a share such as 5%; less is
        called equal. If not given, 0.1 for a MOS, 5% for what is known to be good or bad, nothing
        for counters.
    csv_file
        Write all rows to this file.
    json_file
        Write every value with its deviation and verdict to this file.
    plot
        Write a page, index.html, and its figures into this folder: congestion windows, round-trip
        times, goodput and queues over each other.
    """
    if second is None:
        refuse("one study alone", all=all_, bound=bound, csv=csv_file, json=json_file, plot=plot)
        _within(first, (a, b), metric, better=better, level=level, matters=matters)
        return
    refuse("two results", a=a, b=b, better=better)
    check_different(csv=csv_file, json=json_file, plot=plot)
    check_file(csv_file)
    check_file(json_file)
    if plot is not None:
        check_folder(plot)
    from . import compare_work

    wanted = compare_work.Wanted(
        a=first,
        b=second,
        metrics=metric,
        is_all=all_,
        bound_percent=10.0 if bound is None else bound,
        level=level,
        matters=matters,
        csv=csv_file,
        json=json_file,
        plot=plot,
    )
    compare_work.side_by_side(wanted)


def _within(
    folder: Path,
    parts: tuple[tuple[str, ...], tuple[str, ...]],
    metric: tuple[str, ...],
    *,
    better: Literal["higher", "lower"] | None,
    level: float,
    matters: str | None,
) -> None:
    """Compares a scalar in two parts of a study."""
    a, b = parts
    if not a or not b:
        raise AnabranchError(
            f"{folder} alone: name a second result beside it, or two of its settings with --a"
            " AXIS=VALUE and --b AXIS=VALUE"
        )
    if len(metric) > 1:
        raise AnabranchError(f"--metric names {len(metric)} scalars; within one study it names one")
    from anabranch.stats import verdicts
    from anabranch.studies import watch

    comparison = anabranch.Study(folder).compare(
        pairs(a, "--a AXIS=VALUE"),
        pairs(b, "--b AXIS=VALUE"),
        metric[0] if metric else watch.usual_of(folder),
        maximise=None if better is None else better == "higher",
        level=level,
        matters=None if matters is None else verdicts.matters(matters),
    )
    out = terminal.console()
    out.print(comparison.sentence)
    if comparison.doubt:
        out.print(comparison.doubt)
