"""What `anabranch testbed` does."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anabranch
from anabranch import _engine
from anabranch.emulate import testbed
from anabranch.studies import headline
from anabranch.support import progress, terminal, wording

from .app import write_json
from .messages import say
from .rooted import become_root

_LATE_MS = 1.0
"""A 99th percentile of lateness beyond this is worth a sentence."""


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    scenario: Path
    kernel: str
    sets: Mapping[str, str]
    seed: int | None
    replication: int
    cell: int
    trace: Path | None
    pcap: Path | None
    json: Path | None
    interval: int
    shows_all: bool
    is_quiet: bool


def run(wanted: Wanted) -> None:
    """One run, to its end."""
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
    )
    written = [] if wanted.pcap is None else [wanted.pcap]
    if wanted.trace is not None:
        from anabranch.store import write_tables  # noqa: PLC0415 - slow to import

        written += write_tables(wanted.trace, result.traces)
    if wanted.json is not None:
        content = {
            "scenario": loaded.name,
            "scenario_hash": loaded.hash,
            "version": _engine.__version__,
            "kernel": {"kind": wanted.kernel, "release": testbed.release()},
            "seed": result.seed,
            "cell": wanted.cell,
            "replication": wanted.replication,
            "summary": result.summary,
        }
        write_json(wanted.json, content)
        written.append(wanted.json)
    if not wanted.is_quiet:
        _show(result, written, wanted)
    _warn(result.summary)


def study(
    scenario: Path,
    sets: Mapping[str, str],
    out: Path,
    replications: int | None,
    interval: int,
    *,
    is_quiet: bool,
) -> None:
    """Every cell of a sweep, one run after another."""
    loaded = anabranch.load(scenario, sets)
    become_root("a testbed")
    work = anabranch.Study(loaded, out, replications=replications, jobs=1)
    with progress.shown(loaded.name, kept=True) as shown:
        work.run(shown, workers=testbed.Kernel(loaded, interval))
    if not is_quiet:
        count = wording.counted(anabranch.read(out).height, "run")
        terminal.console().print(f"{count} in {out / 'rows'}")


def _show(result: "anabranch.Result", written: list[Path], wanted: Wanted) -> None:
    out = terminal.console()
    first, *others = headline.lines(result)
    out.print(f"{first.replace('simulated', f'on Linux {testbed.release()}')}")
    for line in others:
        out.print(line)
    values = result.summary
    if "emulation.lateness_p50_ms" in values:
        p50, p99, most = (values[f"emulation.lateness_{name}_ms"] for name in ("p50", "p99", "max"))
        out.print(f"lateness: p50 {p50:.3f} ms, p99 {p99:.3f} ms, max {most:.3f} ms")
    if wanted.shows_all:
        out.print(terminal.summary(values))
    for path in written:
        out.print(f"wrote {path}")


def _warn(values: Mapping[str, float]) -> None:
    p99 = values.get("emulation.lateness_p99_ms", 0.0)
    if p99 > _LATE_MS:
        say(f"one packet in a hundred was more than {p99:.1f} ms late: this machine is busy")
    if corrupted := values["emulation.corrupted_reads"]:
        say(f"what was read {corrupted:.0f} times was not what had been sent")
