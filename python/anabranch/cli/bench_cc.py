"""`anabranch bench-cc`."""

from pathlib import Path
from typing import Literal

from anabranch.support import terminal

from .app import UNDERSTAND, app
from .bench_options import Benching


@app.command(
    group=UNDERSTAND,
    sort_key=5,
    name="bench-cc",
    help_epilogue="""\
Examples:
  anabranch bench-cc reno cubic bbr --quick
  anabranch bench-cc mine.py:Mine cubic bbr
  anabranch bench-cc all --jobs 8
  anabranch bench-cc cubic --scenario lossy --scenario cellular
  anabranch bench-cc vegas --json vegas.json
  anabranch bench-cc vegas --baseline vegas.json --junit vegas.xml
Names of controls: anabranch list congestion_control""",
)
def bench_cc(
    *controls: str,
    profile: Literal["linux_6", "linux_2_6_20", "rfc"] = "linux_6",
    out: Path = Path("results/bench-cc"),
    benching: Benching | None = None,
) -> int:
    """Compare congestion controls of TCP in thirteen scenarios: one table, a page and checks.

    The exit code is 1 if a check failed: a threshold of the scenario, or a
    comparison with --baseline. What a built-in control is known not to keep
    is explained, and is no failure. Finished runs in the folder are never computed
    again: after Ctrl-C the same command continues.

    Parameters
    ----------
    controls
        Names of congestion controls, `all`, or classes of Python: FILE.py:CLASS (docs/plugins.md).
    profile
        The TCP profile of all flows.
    out
        Folder for rows, figures and the page, index.html.
    """
    from anabranch import bench_cc as bench

    benching = benching or Benching()
    return bench.bench(
        controls,
        terminal.console(),
        benching.files(out),
        only=benching.scenario,
        profile=profile,
        replications=benching.count(),
        jobs=benching.jobs,
    )
