"""`anabranch new`."""

from pathlib import Path

from anabranch.studies import library
from anabranch.support import terminal

from .app import MODEL, app


@app.command(
    group=MODEL,
    sort_key=1,
    help_epilogue="""\
Examples:
  anabranch new my-call
  anabranch new handover --template wifi-to-lte
  anabranch list templates""",
)
def new(name: Path, /, *, template: str = "two-path-call") -> None:
    """Write a scenario to start from; an existing file is never overwritten.

    Parameters
    ----------
    name
        Name or path of the new file; `.toml` is added.
    template
        Which scenario to copy; `anabranch list templates` shows them.
    """
    path = library.create(name, template)
    terminal.say(f"wrote {path}; run it with: anabranch run {path}")
