"""`anabranch bench-quic`."""

from pathlib import Path

from anabranch.support import terminal

from .app import UNDERSTAND, app
from .bench_options import Benching
from .rooted import become_root


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
    out: Path = Path("results/bench-quic"),
    benching: Benching | None = None,
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
    out
        Folder for rows, figures and the page, index.html.
    """
    from anabranch import bench_quic as bench
    from anabranch.bench_quic import programs

    benching = benching or Benching()
    replications = benching.count()
    if programs.chosen(stacks)[1]:
        become_root("a bench of programs")
    return bench.bench(
        stacks,
        terminal.console(),
        benching.files(out),
        only=benching.scenario,
        replications=replications,
        jobs=benching.jobs,
    )
