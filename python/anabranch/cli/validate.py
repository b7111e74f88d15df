"""`anabranch validate`."""

from pathlib import Path

import anabranch
from anabranch.errors import AnabranchError
from anabranch.support import terminal
from anabranch.support.wording import counted

from . import notes
from .app import MODEL, Sets, app, pairs
from .messages import USER_ERROR, complain


@app.command(
    group=MODEL,
    sort_key=3,
    help_epilogue="""\
Examples:
  anabranch validate my-call.toml
  anabranch validate scenarios/*.toml""",
)
def validate(*scenarios: Path, set_: Sets = ()) -> int:
    """Check scenarios without running them.

    Parameters
    ----------
    scenarios
        Scenario files.
    set_
        Change a value, PATH=VALUE; may be given several times.
    """
    if not scenarios:
        raise AnabranchError("validate needs at least one scenario file")
    code = 0
    for path in scenarios:
        try:
            loaded = anabranch.load(path, pairs(set_))
        except anabranch.ScenarioError as error:
            complain(error)
            code = USER_ERROR
        else:
            terminal.say(f"{path}: ok ({_runs(loaded)}, hash {loaded.hash})")
            for note in notes.of_cells(loaded):
                terminal.say(f"{path}: {note}")
    return code


def _runs(scenario: anabranch.Scenario) -> str:
    """How many cells there are and how often each is run, for each part of the sweep."""
    problems = []
    for part in scenario.parts:
        until = part["until"]
        often = (
            counted(part["replications"], "replication")
            if until is None
            else f"until {until['metric']} is known to {until['half_width']:g}"
        )
        name = f"{part['study']}: " if scenario.studies else ""
        problems.append(f"{name}{counted(part['cell_count'], 'cell')}, {often}")
    return "; ".join(problems)
