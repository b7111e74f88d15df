"""`anabranch report`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.support import terminal, wording
from anabranch.support.files import check_different, check_file

from .app import STUDY, Formats, app


@app.command(
    group=STUDY,
    sort_key=2,
    help_epilogue="""\
Examples:
  anabranch report results/rto
  anabranch report results/rto --metric call.mos --metric call.loss_percent \\
      --out rto.html
  anabranch report results/paths --per loss --per delay
  anabranch report results/rto --formats pdf,svg
  anabranch report results/rto --lab https://example.org/lab/""",
)
def report(
    folder: Path,
    /,
    *,
    out: Path | None = None,
    metric: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    per: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    matters: str | None = None,
    lab: str | None = None,
    formats: Formats = (),
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
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
        An axis that nobody chooses, such as a loss: the best cells are found for each of its values
        by itself. May be given several times.
    matters
        The smallest difference that matters, in the scalar's unit or as a share such as 5%; less
        is called equal. 0.1 for a MOS, 5% for others, if not given.
    lab
        The address of the lab that the cells' links lead to, such as that of a site that
        `anabranch lab --out` made; http://127.0.0.1:8417/, where `anabranch lab` serves it, if not
        given.
    formats
        Also write each figure as a file of its own: png, svg, pdf or pgf, or several, pdf,svg; with
        its numbers as CSV and Parquet, into a folder beside the page.
    json_file
        Write the verdicts to this file.
    """
    target = folder / "report.html" if out is None else out
    check_different(out=out, json=json_file)
    if out is not None:
        check_file(target)
    check_file(json_file)
    from anabranch import report as reports
    from anabranch import store
    from anabranch.figures.pages import cells
    from anabranch.stats import verdicts

    store.read_identity(folder)
    check_file(target)
    address = cells.LAB if lab is None else cells.address(lab)
    what = None if matters is None else verdicts.matters(matters)
    said = reports.write(
        folder, target, metric, per, address, matters=what, json_file=json_file, formats=formats
    )
    terminal.say(f"wrote {target}: {', '.join(said.metrics)}")
    if formats:
        drawn = reports.figures_of(target)
        terminal.say(f"wrote {wording.counted(len(set(drawn.glob('*.csv'))), 'figure')} to {drawn}")
    if json_file is not None:
        terminal.say(f"wrote {json_file}")
    for finding in said.findings[:1]:
        terminal.say(finding)
