"""`anabranch new`."""

import shlex
import tomllib
from functools import partial
from pathlib import Path

from anabranch import papers
from anabranch.papers import templates
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
  anabranch new mine --template voip-sctp
  anabranch new mine.py
  anabranch new mine.py --template media_control
  anabranch list templates""",
)
def new(name: Path, /, *, template: str | None = None) -> None:
    """Write a scenario to start from; an existing file is never overwritten.

    Parameters
    ----------
    name
        Name or path of the new file; `.toml` is added. A name that ends in `.py` is a congestion
        control of your own, a class of Python to change; with `--template media_control` one of
        media.
    template
        Which scenario to copy, two-path-call if not given; `anabranch list templates` shows them.
        The name of a reproduced paper gives its network with all comments, and a small sweep to
        change.
    """
    if name.suffix == ".py":
        kind = template or "congestion_control"
        path, made = library.create_plugin(name, kind)
        own = f"{shlex.quote(str(path))}:{made}"
        of_media = kind == "media_control"
        bench = f"bench-rtc {own} nada" if of_media else f"bench-cc {own} cubic bbr"
        terminal.say(
            f"wrote {path}; try it with: anabranch {bench} --quick; its hooks are in"
            " docs/plugins.md"
        )
        return
    template = template or "two-path-call"
    others = {paper: partial(templates.text, paper) for paper in papers.names()}
    path = library.create(name, template, others)
    has_sweep = "sweep" in tomllib.loads(path.read_text(encoding="utf-8"))
    command = (
        f"anabranch sweep {shlex.quote(str(path))} --out results/{shlex.quote(path.stem)}"
        if has_sweep
        else f"anabranch run {shlex.quote(str(path))}"
    )
    terminal.say(f"wrote {path}; run it with: {command}")
