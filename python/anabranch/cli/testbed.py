"""`anabranch testbed`: a scenario on the kernel's own stacks, in real time."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support.files import check_different, check_file, check_folder

from .app import REAL, Flag, Natural, Sets, Whole, app, pairs


@app.command(
    group=REAL,
    sort_key=2,
    name="testbed",
    help_epilogue="""\
Examples:
  anabranch testbed my-download.toml
  anabranch testbed my-download.toml --set flows.bulk.transport.cc.kind=bbr \\
      --all
  anabranch testbed my-download.toml --trace traces --pcap packets.pcapng \\
      --json result.json
  anabranch testbed my-sweep.toml --out results/kernel --replications 5
  anabranch testbed my-sweep.toml --kernel virtual --out results/virtual \\
      --replications 5
  anabranch testbed scenarios/failover.toml --stack usrsctp
More in docs/testbed.md""",
)
def start(
    scenario: Path,
    /,
    *,
    kernel: Literal["host", "virtual"] = "host",
    stack: Literal["kernel", "usrsctp"] = "kernel",
    set_: Sets = (),
    seed: Natural | None = None,
    replication: Natural = 0,
    cell: Natural = 0,
    out: Path | None = None,
    replications: Whole | None = None,
    jobs: Whole | None = None,
    trace: Path | None = None,
    pcap: Path | None = None,
    interval: Natural = 20,
    all_: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
    quiet: Annotated[bool, Flag] = False,
) -> int:
    """Run a scenario on a kernel: its flows are sockets, its links are emulated, in real time.

    Flows use the kernel's own TCP, MPTCP, UDP and SCTP, with the settings of
    the scenario; settings that this kernel does not have are refused. The
    scalars are those of `anabranch run`. With --out it runs every cell of a
    sweep, one run after another, into a study folder.

    Parameters
    ----------
    scenario
        A scenario file.
    kernel
        The kernel to use: this machine's, or the virtual one (`make kernel`), whose runs are
        repeatable to the byte, need no root and do not depend on the clock.
    stack
        What SCTP flows run on: that kernel, or usrsctp, FreeBSD's SCTP in user space, which is
        built from libusrsctp the first time.
    set_
        Change a value, PATH=VALUE; may be given several times.
    seed
        Replaces the scenario's seed.
    replication
        Which of the independent repetitions.
    cell
        Which cell, if the scenario has a sweep.
    out
        A study folder: run all cells, as `sweep` does.
    replications
        Runs of each cell, with --out.
    jobs
        Virtual kernels that run at the same time, with --out; all cores if not given.
    trace
        Write path, frame, interval, exchange, queue and event traces into this folder, as Parquet.
    pcap
        Write what the nodes send and receive to this file, as pcapng.
    interval
        How often the kernel is asked for the state of its connections, in ms, from 10 to 1000.
    all_
        Print every scalar.
    json_file
        Write the scalars to this file.
    quiet
        Print errors only.
    """
    if out is not None:
        single = {"--trace": trace, "--pcap": pcap, "--json": json_file, "--seed": seed}
        if given := [name for name, value in single.items() if value is not None]:
            raise AnabranchError(f"{given[0]} is for one run: leave --out away")
    elif replications is not None:
        raise AnabranchError("--replications needs --out: a folder for the rows")
    if jobs is not None and (out is None or kernel == "host"):
        raise AnabranchError("--jobs is for --kernel virtual with --out: other runs go one by one")
    for folder in (trace, out):
        if folder is not None:
            check_folder(folder)
    check_different(scenario, trace=trace, json=json_file, pcap=pcap)
    check_file(json_file, made=trace)
    check_file(pcap, made=trace)

    from . import testbed_work

    if out is not None:
        testbed_work.study(
            scenario,
            pairs(set_),
            out,
            replications=replications,
            interval=interval,
            jobs=jobs,
            kernel=kernel,
            stack=stack,
            is_quiet=quiet,
        )
        return 0
    wanted = testbed_work.Wanted(
        scenario=scenario,
        sets=pairs(set_),
        seed=seed,
        replication=replication,
        cell=cell,
        trace=trace,
        pcap=pcap,
        json=json_file,
        interval=interval,
        stack=stack,
        shows_all=all_,
        is_quiet=quiet,
    )
    if kernel == "virtual":
        return testbed_work.run_virtual(wanted)
    testbed_work.run(wanted)
    return 0
