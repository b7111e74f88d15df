"""`anabranch lab`."""

import shlex
import time
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support import terminal
from anabranch.support.files import check_folder

from .app import MODEL, Natural, app

RESULTS = Path("results/lab")
"""Where studies go that the page hands over, unless `--results` says otherwise."""


@app.command(
    group=MODEL,
    sort_key=5,
    help_epilogue="""\
Examples:
  anabranch lab
  anabranch lab my-call.toml
  anabranch lab results/rto --cell 3
  anabranch lab --out site""",
)
def lab(
    scenario: Path | None = None,
    *,
    cell: Natural | None = None,
    port: Natural | None = None,
    browser: Annotated[bool, Parameter(negative="--no-browser", show_default=False)] = True,
    results: Path = RESULTS,
    out: Path | None = None,
) -> None:
    """Open a page in which a network can be watched, changed and compared.

    It is there until Ctrl-C.

    Parameters
    ----------
    scenario
        A scenario file or a study folder to begin with; without one the page begins with a story.
    cell
        A cell of its sweep to begin with, by its number.
    port
        Where the page is on this machine, 8417 or else a free one if not given; 0 for a free one.
    browser
        Open the page in a browser.
    results
        Where the studies go that the page hands over to this computer, each into a folder.
    out
        Write the page to this folder, for a web server, instead of opening it.
    """
    if cell is not None and scenario is None:
        raise AnabranchError("--cell needs a scenario or a study folder, whose cell it is")
    from anabranch import lab as page

    fragment = page.fragment(scenario, cell) if scenario else ""
    if out is not None:
        written = page.write_site(out)
        terminal.say(
            f"{len(written)} files in {out}; any web server can serve them: index.html{fragment}"
        )
        return
    if results != RESULTS:
        check_folder(results)
    serve(page.files(), port, results, fragment, is_shown=browser)


def serve(
    files: dict[str, bytes], port: int | None, results: Path, fragment: str, *, is_shown: bool
) -> None:
    """Serves the page until Ctrl-C; what a study has finished by then is kept."""
    from anabranch import lab as page

    def report(folder: Path, file: Path, address: str) -> None:
        from anabranch import report as reports

        reports.write(folder, file, lab=address)

    taken = page.Results(results, report)
    try:
        with page.serving(files, port, taken) as served:
            opened = served.opened(fragment)
            print(f"The lab is at {opened}\nCtrl-C ends it.", flush=True)
            if is_shown:
                webbrowser.open(opened)
            while True:  # polars has the system go on waiting for a lock after a signal
                time.sleep(3600)
    except KeyboardInterrupt as interrupt:
        if stopped := [one for one in taken.all() if one.was_cut]:
            folder = stopped[0].folder
            words = ["anabranch", "sweep", str(folder / "scenario.toml"), "--out", str(folder)]
            message = f"finished runs are kept; `{shlex.join(words)}` goes on"
            raise type(interrupt)(message) from None
        raise
