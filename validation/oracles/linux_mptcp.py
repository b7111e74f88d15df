"""MPTCP of profile `linux_6` and the MPTCP of Linux 6.12, and TCP on one of its two paths.

The paths are equal and have no loss, and the subflows are not coupled: two paths should carry twice
as much as one. Nothing in these runs is random, so one run of each is compared with one run of the
kernel.

Then the first path turns black, for good or for 5 s, and the longest time without new data or the
goodput is compared. These depend on how full the queue is at that moment, on which no two
implementations agree after 10 s of sawteeth. So the kernel's number is a mean over its runs, and
our runs turn black at several times, which gives a range that the kernel's number should lie in.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import fmean

from matplotlib.figure import Figure

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.studies.result import load
from oracles import values
from oracles.values import Measured, Value, as_csv, cells

__all__ = ["as_csv", "cells"]

REPLICATIONS = 1
SECONDS = 30

KEY = ("case", "control")
HEADS = values.heads(KEY, "Linux")
"""The heads of `cells`."""

CAUSES = values.CAUSES | {
    "b": "the kernel's runs, of an earlier set-up, are few; twenty at other moments stall for "
    "0.62 s ± 0.06 s, as ours do (docs/beside-linux.md)",
    "c": "BBR's round-trip times grow in the kernel at once, in ours over six seconds "
    "(docs/beside-linux.md)",
}
"""What causes a deviation."""

_BLACK = "path 1 black"
_BACKUP = "path 1 black, path 2 a backup"
_RETURNS = "path 1 black for 5 s"

_KNOWN = {
    (_BLACK, "cubic"): "b",
    (_BLACK, "bbr"): "c",
    (_BACKUP, "bbr"): "c",
}
"""Causes found in the kernel's counters and timers, by case and control."""

_BLACK_FROM_S = [8.0 + 0.5 * step for step in range(9)]
"""When path 1 turns black in our runs, in seconds: about one sawtooth, with the kernel's 10 s in
its middle.
"""

_BUFFERS = 'send_buffer = "16 MiB", receive_buffer = "16 MiB"'


def kernel_rows() -> list[Measured]:
    """The numbers in the kernel's file; paths that nothing crosses are left out."""
    rows = []
    for line in values.lines("linux_mptcp.csv"):
        key = {"case": line["case"], "control": line["cc"]}
        rows.append(Measured(key, "goodput", float(line["goodput_bps"]) / 1e3))
        rows += [
            Measured(key, f"packets {path}", float(line[f"path{path}_pkts"]))
            for path in (1, 2)
            if line[f"path{path}_pkts"] != "0"
        ]
    blackouts = groupby(values.lines("linux_mptcp_blackout.csv"), _blackout)
    for (case, control), lines in blackouts:
        key = {"case": case, "control": control}
        runs = list(lines)
        if case == _RETURNS:
            received = fmean(float(line["received_bytes"]) for line in runs)
            rows.append(Measured(key, "goodput", received * 8 / 1e3 / SECONDS))
        else:
            stalled = fmean(float(line["stalled_s"]) for line in runs)
            rows.append(Measured(key, "stall", stalled))
    return rows


def _blackout(line: dict[str, str]) -> tuple[str, str]:
    """The case and the control of a line of the kernel's file whose run has a blackout."""
    if line["black_to_s"]:
        return _RETURNS, line["cc"]
    return _BACKUP if line["path2"] == "backup" else _BLACK, line["cc"]


def scenario(case: str, control: str, black_from_s: float | None = None) -> Scenario:
    """The scenario with one transport and control.

    Path 1 turns black at that time, if one is given.
    """
    cc = f'cc = {{ kind = "{control}" }}'
    kind = case if case in ("mptcp", "tcp") else "mptcp"
    backup = "backup = [1], " if case == _BACKUP else ""
    transport = f'{{ kind = "{kind}", profile = "linux_6", {backup}{_BUFFERS}, {cc} }}'
    sets = {"flows.bulk.transport": transport}
    if black_from_s is not None:
        returns = f', ["{black_from_s + 5} s", true]' if case == _RETURNS else ""
        up = f'[["0 s", true], ["{black_from_s} s", false]{returns}]'
        sets["links.first.up"] = f"{{ timetable = {up} }}"
        sets["links.first.down"] = '"blackhole"'
    return load(values.text("linux_mptcp.toml"), sets)


def compare(
    rows: Sequence[Measured], replications: int = REPLICATIONS, jobs: int = 1
) -> Iterator[Value]:
    """The kernel's numbers beside ours; each transport and control is yielded once computed."""
    runs = [(0, replication) for replication in range(replications)]
    for key, quantities in values.settings(rows):
        case, control = key["case"], key["control"]
        times: Sequence[float | None] = [None]
        if case not in ("mptcp", "tcp"):
            times = _BLACK_FROM_S
        samples: dict[str, list[float]] = {}
        for time in times:
            columns = _engine.run_batch(scenario(case, control, time), runs, jobs)
            for name, numbers in _quantities(columns).items():
                samples.setdefault(name, []).extend(numbers)
        for row in quantities:
            ours = samples[row.quantity]
            known = _KNOWN.get((case, control), "")
            yield Value(key, row.quantity, row.theirs, fmean(ours), *values.quantiles(ours), known)


def _quantities(columns: dict[str, list[float]]) -> dict[str, list[float]]:
    return {
        "goodput": [size * 8 / 1e3 / SECONDS for size in columns["bulk.received_bytes"]],
        "packets 1": columns["link.first.forward.delivered_packets"],
        "packets 2": columns["link.second.forward.delivered_packets"],
        "stall": columns["bulk.stalled_s"],
    }


def figures(rows: Sequence[Value]) -> dict[str, Figure]:
    """Our numbers as shares of the kernel's."""
    return {"linux-mptcp": values.figure(rows, "Linux")}
