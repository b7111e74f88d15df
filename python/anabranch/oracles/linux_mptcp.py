"""MPTCP of profile `linux_6` beside the MPTCP of Linux 6.12, and TCP on one of its two paths.

Two equal paths without loss, subflows that are not coupled: what two paths carry is to be twice
what one does. Nothing in these runs is random, so one run of each is compared with one of the
kernel's.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from matplotlib.figure import Figure

import anabranch
from anabranch import _engine
from anabranch.oracles import values
from anabranch.oracles.values import Measured, Value, as_csv, as_json, cells, summary

__all__ = ["as_csv", "as_json", "cells", "summary"]

REPLICATIONS = 1
SECONDS = 30

KEY = ("case", "control")
HEADS = values.heads(KEY, "Linux")
"""The heads of `cells`; goodputs in kbit/s."""
KEYS = 3
"""How many of them say what a row is."""

CAUSES = values.CAUSES
"""What makes a deviation."""

_BUFFERS = 'send_buffer = "16 MiB", receive_buffer = "16 MiB"'


def kernel_rows() -> list[Measured]:
    """The kernel's file; a path that nothing crosses is left out."""
    rows = []
    for line in values.lines("linux_mptcp.csv"):
        key = {"case": line["case"], "control": line["cc"]}
        rows.append(Measured(key, "goodput", float(line["goodput_bps"]) / 1e3))
        rows += [
            Measured(key, f"packets {path}", float(line[f"path{path}_pkts"]))
            for path in (1, 2)
            if line[f"path{path}_pkts"] != "0"
        ]
    return rows


def scenario(case: str, control: str) -> anabranch.Scenario:
    """The set-up with one transport and control."""
    cc = f'cc = {{ kind = "{control}" }}'
    transport = f'{{ kind = "{case}", profile = "linux_6", {_BUFFERS}, {cc} }}'
    return anabranch.load(values.text("linux_mptcp.toml"), {"flows.bulk.transport": transport})


def compare(
    rows: Sequence[Measured], replications: int = REPLICATIONS, jobs: int = 1
) -> Iterator[Value]:
    """The kernel's numbers beside ours, each transport and control as soon as it is computed."""
    runs = [(0, replication) for replication in range(replications)]
    for key, quantities in values.settings(rows):
        columns = _engine.run_batch(scenario(key["case"], key["control"]), runs, jobs)
        found = {
            "goodput": [size * 8 / 1e3 / SECONDS for size in columns["bulk.received_bytes"]],
            "packets 1": columns["link.first.forward.delivered_packets"],
            "packets 2": columns["link.second.forward.delivered_packets"],
        }
        for row in quantities:
            ours = found[row.quantity]
            yield Value(key, row.quantity, row.theirs, fmean(ours), *values.quantiles(ours))


def figures(rows: Sequence[Value]) -> dict[str, Figure]:
    """Our numbers as shares of the kernel's."""
    return {"linux-mptcp": values.figure(rows, "Linux")}
