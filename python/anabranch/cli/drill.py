"""`anabranch drill`."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.support import terminal
from anabranch.support.files import check_different
from anabranch.support.stdin import on_disk

from .app import CHECK, File, app


@app.command(
    group=CHECK,
    sort_key=1,
    help_epilogue="""\
Examples:
  anabranch drill my-handshake.pkt
  anabranch drill scripts/ --profile rfc
  anabranch drill --suite ../packetdrill/gtests --json verdicts.json
  anabranch drill scripts/ --junit verdicts.xml
  generate-script | anabranch drill -
The language and the verdicts: docs/drill.md""",
)
def drill(
    *scripts: File,
    suite: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = (),
    profile: str | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
    junit: Path | None = None,
) -> int:
    """Run scripts in packetdrill's language against TCP, MPTCP and SCTP, in virtual time.

    Prints one line for each script: passed, failed with what was expected and
    what was seen, or not applicable with what the script needs and a simulated
    stack lacks. The exit code is 1 if a script failed.

    Parameters
    ----------
    scripts
        Files, or folders with scripts (*.pkt); `-` is standard input.
    suite
        A folder whose scripts are counted as one suite; may be given several times.
    profile
        The profile of the endpoints; by default linux_6 for TCP and MPTCP, freebsd for SCTP.
    json_file
        Write every verdict to this file.
    junit
        Write the verdicts to this file as JUnit XML.
    """
    from anabranch import drill as drills

    check_different(*scripts, json=json_file, junit=junit)
    with ExitStack() as kept:
        # Named twice, standard input is one script.
        files = [kept.enter_context(on_disk(script)) for script in dict.fromkeys(scripts)]
        return drills.run(
            files,
            terminal.console(),
            suites=suite,
            profile=profile,
            json_file=json_file,
            junit_file=junit,
        )
