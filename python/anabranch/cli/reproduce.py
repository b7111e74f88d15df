"""`anabranch reproduce`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from anabranch import papers
from anabranch.errors import AnabranchError
from anabranch.support import cores, terminal

from .app import STUDY, Flag, Sets, Whole, app
from .rooted import become_root

if TYPE_CHECKING:
    from anabranch._engine import Scenario
    from anabranch.papers.real import Stack
    from anabranch.studies.workers import Workers


@app.command(
    group=STUDY,
    sort_key=5,
    help_epilogue="""\
Examples:
  anabranch reproduce voip-sctp --quick
  anabranch reproduce voip-sctp --smoke
  anabranch reproduce voip-sctp --full --jobs 8 --json verdicts.json
  anabranch reproduce sctp-handover --quick
  anabranch reproduce mptcp-aqm --full
  anabranch reproduce tcp-wimax --quick --kernel virtual
  anabranch reproduce sctp-handover --quick --stack usrsctp
  anabranch reproduce ./my-paper --smoke""",
)
def reproduce(
    paper: str,
    /,
    *,
    quick: Annotated[bool, Flag] = False,
    full: Annotated[bool, Flag] = False,
    smoke: Annotated[bool, Flag] = False,
    set_: Annotated[Sets, Parameter(show=False)] = (),
    kernel: Literal["virtual", "host"] | None = None,
    stack: Literal["kernel", "usrsctp"] | None = None,
    jobs: Whole | None = None,
    out: Path | None = None,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Repeat a published study: its numbers beside ours, with a verdict on each claim.

    Parameters
    ----------
    paper
        Which paper; `anabranch list papers` shows them. Or the folder of a paper that `python -m
        anabranch.papers new` has started.
    quick
        The cells that carry the claims, in minutes; this is the default.
    full
        The whole study.
    smoke
        One run of each kind, to see that everything works; the numbers mean nothing.
    kernel
        Also run the main study, as far as possible, on a kernel's own stacks over the same links:
        in virtual time (`make kernel`), or on this machine's kernel, in real time.
    stack
        What SCTP flows run on there: the kernel, or usrsctp, FreeBSD's SCTP in user space. Given
        alone, it implies the virtual kernel.
    jobs
        Threads; all cores if not given. Never changes a result.
    out
        Folder for rows and figures; `results/PAPER` if not given, or `results/PAPER-smoke` with
        --smoke.
    json_file
        Write cells and claims with their verdicts to this file.
    """
    chosen = [name for name, asked in (("quick", quick), ("full", full), ("smoke", smoke)) if asked]
    if len(chosen) > 1:
        raise AnabranchError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    asked_for = papers.load(paper)
    if set_:
        raise AnabranchError(_no_set(paper, set_))
    mode = chosen[0] if chosen else "quick"
    folder = out or Path("results") / (
        f"{asked_for.name}-{mode}" if mode == "smoke" else asked_for.name
    )
    real = None
    if kernel is not None or stack is not None:
        real = stack_of(kernel or "virtual", cores.threads(jobs), stack or "kernel")
    return asked_for.reproduce(mode, jobs, folder, json_file, terminal.console(), stack=real)


def _no_set(paper: str, sets: Sequence[str]) -> str:
    """Why a reproduction takes no other values, and what to do instead."""
    if paper not in papers.names():
        return f"a reproduction has the paper's own values: change {Path(paper) / 'scenario.toml'}"
    words = shlex.join(["anabranch", "sweep", "mine.toml", "--set", sets[0]])
    return (
        "a reproduction has the paper's own values, which its claims are about:"
        f" `anabranch new mine --template {paper}` writes its scenario, and `{words} --out"
        " results/mine` runs it with yours"
    )


def stack_of(
    kernel: Literal["virtual", "host"],
    jobs: int,
    sctp: Literal["kernel", "usrsctp"] = "kernel",
) -> "Stack":
    """The stacks of a kernel; as many virtual ones run at a time as there are jobs.

    `sctp` says what SCTP flows run on.
    """
    from anabranch.emulate import testbed
    from anabranch.papers.real import Stack

    def workers(scenario: "Scenario") -> "Workers":
        if kernel == "host":
            return testbed.Kernel(scenario, stack=sctp)
        return testbed.VirtualKernel.of_short_runs(scenario, jobs, sctp)

    name = kernel if sctp == "kernel" else f"{sctp}-{kernel}"
    before = "" if sctp == "kernel" else f"{sctp} on "
    if kernel == "host":
        become_root("a testbed")
        title = f"{before}Linux {testbed.release()}"
        return Stack(name, title, workers, testbed.Lacking(sctp), sctp)
    title = f"{before}Linux {testbed.virtual_release()} in virtual time"
    return Stack(name, title, workers, sctp=sctp)
