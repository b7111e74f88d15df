"""`anabranch bench-quic`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support import terminal

from .app import UNDERSTAND, Flag, Whole, app


@app.command(
    group=UNDERSTAND,
    sort_key=6,
    name="bench-quic",
    help_epilogue="""\
Examples:
  anabranch bench-quic --quick
  anabranch bench-quic quinn quic_go --scenario lossy --scenario outage
  anabranch bench-quic quinn --scenario clean --json quinn.json
  anabranch bench-quic live programs.toml --quick
  anabranch bench-quic live:quic_go programs.toml:quic-go --scenario clean
A file of programs has a table for each, with two command lines:
  [mine]
  server = "my-server --port {port} --cert {cert} --key {key}"
  client = "my-client {address}:{port} --ca {cert} --upload {file}"
More in docs/bench-quic.md""",
)
def bench_quic(
    *stacks: str,
    scenario: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    quick: Annotated[bool, Flag] = False,
    replications: Whole | None = None,
    jobs: Whole | None = None,
    out: Path = Path("results/bench-quic"),
    baseline: Path | None = None,
    junit: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Compare QUIC stacks in fourteen scenarios: our profiles simulated, programs in real time.

    The exit code is 1 if a check failed: a transfer that was not complete in time, or a
    comparison with --baseline. Finished simulated runs in the folder are never computed again;
    programs run anew.

    Parameters
    ----------
    stacks
        Profiles of our QUIC, which are simulated (all of them if nothing is given); live or
        live:PROFILE, our endpoint over sockets; FILE.toml or FILE.toml:NAME, programs.
    scenario
        Only run this scenario; may be given several times.
    quick
        3 replications instead of 10.
    replications
        Runs of each cell.
    jobs
        Threads of the simulations; all cores if not given. Never changes a result.
    out
        Folder for rows, figures and the page, index.html.
    baseline
        An earlier --json file: no metric may be worse by more than both 95 % intervals and 1 %.
    junit
        Write the checks to this file, as JUnit XML.
    json_file
        Write every mean with its interval, and the checks, to this file.
    """
    from anabranch import bench_quic as bench
    from anabranch.bench_quic import programs

    if quick and replications is not None:
        raise AnabranchError("--quick and --replications exclude each other")
    if programs.chosen(stacks)[1]:
        from .rooted import become_root

        become_root("a bench of programs")
    count = bench.QUICK_REPLICATIONS if quick else bench.REPLICATIONS
    return bench.bench(
        stacks,
        terminal.console(),
        out=out,
        only=scenario,
        replications=count if replications is None else replications,
        jobs=jobs,
        baseline_file=baseline,
        junit_file=junit,
        json_file=json_file,
    )
