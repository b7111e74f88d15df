"""The work of `anabranch testbed`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
from anabranch.emulate import testbed, usrsctp
from anabranch.studies import headline
from anabranch.studies.result import checked
from anabranch.support import cores, progress, terminal, wording

from . import lateness, virtual
from .app import run_record, write_json
from .messages import say
from .rooted import become_root

if TYPE_CHECKING:
    from anabranch.studies.workers import Workers


@dataclass(frozen=True)
class Wanted:
    """The options of the command line."""

    scenario: Path
    sets: Mapping[str, str]
    seed: int | None
    replication: int
    cell: int
    trace: Path | None
    pcap: Path | None
    json: Path | None
    interval: int
    stack: testbed.SctpStack
    shows_all: bool
    is_quiet: bool


def run(wanted: Wanted) -> None:
    """Computes one run."""
    loaded = anabranch.load(wanted.scenario, wanted.sets)
    become_root("a testbed")
    result = testbed.run(
        loaded,
        seed=wanted.seed,
        replication=wanted.replication,
        cell=wanted.cell,
        trace=wanted.trace is not None,
        pcap=wanted.pcap,
        interval_ms=wanted.interval,
        stack=wanted.stack,
    )
    written = [] if wanted.pcap is None else [wanted.pcap]
    if wanted.trace is not None:
        from anabranch.store import write_tables

        written += write_tables(wanted.trace, result.traces)
    if wanted.json is not None:
        kernel = {"kind": testbed.kind(), "release": testbed.release(), "sctp": wanted.stack}
        write_json(wanted.json, run_record(result, "testbed") | {"kernel": kernel})
        written.append(wanted.json)
    if not wanted.is_quiet:
        _show(result, written, wanted)
    _warn(result.summary)


def run_virtual(wanted: Wanted) -> int:
    """Computes one run in the virtual kernel; gives the exit status."""
    loaded = anabranch.load(wanted.scenario, wanted.sets)
    if wanted.stack == "usrsctp":
        # It is built here, as anything built within the virtual kernel is lost with it.
        usrsctp.program()
    if wanted.trace is not None:
        wanted.trace.mkdir(parents=True, exist_ok=True)
    options: dict[str, object] = {
        "--seed": wanted.seed,
        "--replication": wanted.replication,
        "--cell": wanted.cell,
        "--trace": wanted.trace,
        "--pcap": wanted.pcap,
        "--json": wanted.json,
        "--interval": wanted.interval,
        "--stack": wanted.stack,
        "--all": wanted.shows_all,
    }
    _, _, seed, replication = checked(loaded, None, wanted.cell, wanted.seed, wanted.replication)
    done = virtual.again(
        "testbed",
        options,
        wanted.sets,
        [str(wanted.scenario)],
        files=(wanted.pcap, wanted.json),
        folders=(wanted.trace,),
        seed=testbed.kernel_seed(seed, replication),
        is_quiet=wanted.is_quiet,
    )
    if done.returncode == 0 and not wanted.is_quiet:
        virtual.say_what_it_took(done)
    return done.returncode


def study(
    scenario: Path,
    sets: Mapping[str, str],
    out: Path,
    *,
    replications: int | None,
    interval: int,
    jobs: int | None,
    kernel: str,
    stack: testbed.SctpStack,
    is_quiet: bool,
) -> None:
    """Computes every cell of a sweep: one run after another, or on all cores in virtual kernels."""
    loaded = anabranch.load(scenario, sets)
    workers: Workers
    if kernel == "host":
        become_root("a testbed")
        workers = testbed.Kernel(loaded, interval, stack)
    else:
        workers = testbed.VirtualKernel(loaded, interval, cores.threads(jobs), stack)
    work = anabranch.Study(loaded, out, replications=replications, jobs=1)
    with progress.shown(loaded.name, kept=True) as shown:
        work.run(shown, workers=workers)
    if not is_quiet:
        count = wording.counted(anabranch.read(out).height, "run")
        terminal.console().print(f"{count} in {out / 'rows'}")


def _show(result: "anabranch.Result", written: list[Path], wanted: Wanted) -> None:
    out = terminal.console()
    first, *others = headline.lines(result)
    where = f"on Linux {testbed.release()}"
    if wanted.stack == "usrsctp":
        where = f"with usrsctp {where}"
    out.print(first.replace("simulated", where))
    for line in others:
        out.print(line)
    values = result.summary
    if late := lateness.line(values):
        out.print(late)
    if wanted.shows_all:
        out.print(terminal.summary(values))
    for path in written:
        out.print(f"wrote {path}")


def _warn(values: Mapping[str, float]) -> None:
    if late := lateness.warning(values):
        say(late)
    if corrupted := values["emulation.corrupted_reads"]:
        say(f"what was read {corrupted:.0f} times was not what had been sent")
