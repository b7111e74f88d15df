"""`anabranch reproduce`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch import papers, terminal
from anabranch.errors import AnabranchError

from .app import Flag, Whole, app


@app.command(
    help_epilogue="""\
Examples:
  anabranch reproduce voip-sctp --quick
  anabranch reproduce voip-sctp --full --jobs 8 --json verdicts.json
  anabranch reproduce sctp-handover --quick
  anabranch reproduce mptcp-aqm --full"""
)
def reproduce(
    paper: str,
    /,
    *,
    quick: Annotated[bool, Flag] = False,
    full: Annotated[bool, Flag] = False,
    jobs: Whole | None = None,
    out: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Repeat a published study: its numbers beside ours, a verdict for each claim.

    Parameters
    ----------
    paper
        Which one; `anabranch list papers` shows them.
    quick
        The cells that carry the claims, in minutes; what happens if --full is not given.
    full
        The whole study.
    jobs
        Threads; all cores if not given. Never changes a result.
    out
        Folder for rows and figures; `results/PAPER` if not given.
    json_file
        Write cells and claims with their verdicts to this file.
    """
    if quick and full:
        raise AnabranchError("--quick and --full exclude each other")
    found = papers.load(paper)
    folder = out or Path("results") / paper
    mode = "full" if full else "quick"
    return found.reproduce(mode, jobs, folder, json_file, terminal.console())
