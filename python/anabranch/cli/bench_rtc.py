"""`anabranch bench-rtc`."""

from pathlib import Path

from anabranch.support import terminal

from .app import UNDERSTAND, app
from .bench_options import Benching


@app.command(
    group=UNDERSTAND,
    sort_key=7,
    name="bench-rtc",
    help_epilogue="""\
Examples:
  anabranch bench-rtc gcc nada --quick
  anabranch bench-rtc rate.py:Mine nada
  anabranch bench-rtc all --jobs 8
  anabranch bench-rtc nada --scenario 5.1 --scenario long-tcp
  anabranch bench-rtc nada --scenario 5.8 --json nada.json
  anabranch bench-rtc nada --scenario 5.8 --baseline nada.json
Names of controls: anabranch list media_control; more in docs/bench-rtc.md""",
)
def bench_rtc(
    *controls: str,
    out: Path = Path("results/bench-rtc"),
    benching: Benching | None = None,
) -> int:
    """Compare congestion controls of media in the test cases of RFC 8867 and RFC 8869.

    A scenario is named by its name or by its section, such as 5.1. The exit code
    is 1 if a check failed: a threshold of the scenario, or a comparison with
    --baseline. What a built-in control is known not to keep is explained, and is
    no failure. Finished runs in the folder are never computed again: after Ctrl-C
    the same command continues.

    Parameters
    ----------
    controls
        Names of congestion controls of media, `all`, or classes of Python: FILE.py:CLASS
        (docs/plugins.md).
    out
        Folder for rows, figures and the page, index.html.
    """
    from anabranch import bench_rtc as bench

    benching = benching or Benching()
    return bench.bench(
        controls,
        terminal.console(),
        benching.files(out),
        only=benching.scenario,
        replications=benching.count(),
        jobs=benching.jobs,
    )
