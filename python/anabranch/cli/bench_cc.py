"""`anabranch bench-cc`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support import terminal

from .app import UNDERSTAND, Flag, Whole, app


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
    scenario: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    profile: Literal["linux_6", "linux_2_6_20", "rfc"] = "linux_6",
    quick: Annotated[bool, Flag] = False,
    replications: Whole | None = None,
    jobs: Whole | None = None,
    out: Path = Path("results/bench-cc"),
    baseline: Path | None = None,
    junit: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
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
    scenario
        Only run this scenario; may be given several times.
    profile
        The TCP profile of all flows.
    quick
        3 replications instead of 10.
    replications
        Runs of each cell.
    jobs
        Threads; all cores if not given. Never changes a result.
    out
        Folder for rows, figures and the page, index.html.
    baseline
        An earlier --json file: no metric may be worse by more than both 95 % intervals and 1 %.
    junit
        Write the checks to this file, as JUnit XML.
    json_file
        Write every mean with its interval, and the checks, to this file.
    """
    from anabranch import bench_cc as bench

    if quick and replications is not None:
        raise AnabranchError("--quick and --replications exclude each other")
    count = bench.QUICK_REPLICATIONS if quick else bench.REPLICATIONS
    return bench.bench(
        controls,
        terminal.console(),
        out=out,
        only=scenario,
        profile=profile,
        replications=count if replications is None else replications,
        jobs=jobs,
        baseline_file=baseline,
        junit_file=junit,
        json_file=json_file,
    )
