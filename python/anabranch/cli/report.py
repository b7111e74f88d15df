"""`anabranch report`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.support import terminal
from anabranch.support.files import check_file

from .app import app


@app.command(
    help_epilogue="""\
Examples:
  anabranch report results/rto
  anabranch report results/rto --metric call.mos --metric call.loss_percent --out rto.html
  anabranch report results/paths --per loss --per delay"""
)
def report(
    folder: Path,
    /,
    *,
    out: Path | None = None,
    metric: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    per: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
) -> None:
    """Write a study folder's report: one HTML file that needs nothing else.

    It has a diagram of what was run, tables with intervals and the best cells,
    the effect of each axis alone and with others, how sensitive the result is,
    and where every number comes from.

    Parameters
    ----------
    folder
        A study folder, as `sweep --out` makes it.
    out
        The file; report.html in the study folder if not given.
    metric
        A scalar to report; may be given several times. Every flow's MOS or goodput if not given.
    per
        An axis that is given and not chosen, such as a loss: the best cells are found separately
        for each of its values. May be given several times.
    """
    target = folder / "report.html" if out is None else out
    if out is not None:
        check_file(target)
    from anabranch import report as reports  # noqa: PLC0415 - slow to import
    from anabranch import store  # noqa: PLC0415 - slow to import

    store.read_identity(folder)
    check_file(target)
    chosen = reports.write(folder, target, metric, per)
    terminal.console().print(f"wrote {target}: {', '.join(chosen)}")
