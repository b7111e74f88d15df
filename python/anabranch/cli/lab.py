"""`anabranch lab`."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch import lab as page

from .app import Natural, app


@app.command(
    help_epilogue="""\
Examples:
  anabranch lab
  anabranch lab my-call.toml
  anabranch lab --out site"""
)
def lab(
    scenario: Path | None = None,
    *,
    port: Natural = 0,
    browser: Annotated[bool, Parameter(negative="--no-browser", show_default=False)] = True,
    out: Path | None = None,
) -> None:
    """Open a page in which a network can be watched, changed and compared.

    It is there until Ctrl-C.

    Parameters
    ----------
    scenario
        A scenario file to begin with; without one, the page begins with a story.
    port
        The page's TCP port on this machine; 0 for any free port.
    browser
        Open the page in a browser.
    out
        Write the page to this folder, for a web server, instead of opening it.
    """
    fragment = page.fragment(scenario) if scenario else ""
    if out is not None:
        written = page.write_site(out)
        print(f"{len(written)} files in {out}; any web server can serve them: index.html{fragment}")
        return
    with page.serving(port) as address:
        print(f"The lab is at {address}{fragment}\nCtrl-C ends it.", flush=True)
        if browser:
            webbrowser.open(address + fragment)
        threading.Event().wait()
