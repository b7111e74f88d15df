"""Our queue disciplines and those of Linux 6.12: four TCP flows through one queue.

The kernel was measured once for each discipline and congestion control. What is not known of its
run is drawn at random in ours: when each flow began within the first round trip, and when PIE made
its first update. This gives a range that the kernel's number should lie in.
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

REPLICATIONS = 200
FLOWS = 4
SECONDS = 30

KEY = ("queue", "control")
HEADS = values.heads(KEY, "Linux")
"""The heads of `cells`."""

CAUSES = values.CAUSES | {
    "b": "one instant of a sawtooth: the smoothed round-trip times at the end of the run",
}
"""What causes a deviation; docs/linux-aqm.md has the evidence."""

_KNOWN: dict[tuple[str, ...], str] = {
    ("fq_codel", "reno", "rtt"): "b",
    ("fq_pie", "cubic", "rtt"): "b",
}
"""Causes found in traces and in further runs of the kernel, by queue, control and quantity."""

# Linux's pfifo counts the packet in service, which waits for the token bucket, against its limit.
_PFIFO = '{{ kind = "drop_tail", packets = {} }}'
_PIE = '{{ kind = "pie", update = "16 ms", first_update = "{} ms" }}'

_QUEUES = {
    "pfifo-limit-100": [_PFIFO.format(99)],
    "pfifo-limit-1000": [_PFIFO.format(999)],
    "codel": ['{ kind = "codel", square_root = "newton" }'],
    "fq_codel": ['{ kind = "fq_codel", mtu_of_all = true, square_root = "newton", ecn = false }'],
    # 15 ms are 15 jiffies at HZ 1000, and the timer wheel adds one. The first update comes HZ / 2
    # after the discipline is installed (`pie_init`), which was at an unknown time before the flows.
    "pie": [_PIE.format(first) for first in (16, 100, 200, 300, 400, 500)],
    "fq_pie": ['{ kind = "fq_pie", update = "16 ms" }'],
    # The packet that waits for the token bucket is one of the 127 (`qdisc_peek_dequeued`).
    "sfq": ['{ kind = "sfq", packets = 126 }'],
    # It has no token bucket, but CAKE's own shaper: 10 Mbit/s, counted on Ethernet frames.
    "cake-10mbit": ['{ kind = "cake", bandwidth = "9907529 bit/s" }'],
}
"""The kernel's disciplines as ours; several where something about the kernel's run is not known."""

_SHAPERS = {"cake-10mbit": "10 Gbit/s"}
"""The rate of the link below a discipline that shapes."""


def kernel_rows() -> list[Measured]:
    """The numbers in the kernel's file, with the flows added up."""
    grouped = groupby(values.lines("linux_aqm.csv"), lambda line: (line["queue"], line["cc"]))
    rows = []
    for (queue, control), group in grouped:
        flows = list(group)
        quantities = _quantities(
            [float(flow["goodput_bps"]) / 1e3 for flow in flows],
            [float(flow["rtt_us"]) / 1e3 for flow in flows],
            sum(float(flow["retrans_segs"]) for flow in flows),
            float(flows[0]["queue_drops"]),
            float(flows[0]["queue_sent_pkts"]),
        )
        key = {"queue": queue, "control": control}
        rows += [Measured(key, name, number) for name, number in quantities.items()]
    return rows


def _quantities(
    goodputs: Sequence[float], rtts: Sequence[float], sent_again: float, drops: float, sent: float
) -> dict[str, float]:
    return {
        "goodput": sum(goodputs),
        "best flow": max(goodputs),
        "worst flow": min(goodputs),
        "rtt": fmean(rtts),
        "retransmitted": sent_again,
        "dropped": drops,
        "sent": sent,
    }


def scenario(queue: str, control: str, rate: str | None = None) -> Scenario:
    """The scenario with one queue (as a scenario file writes it), one control and a link rate."""
    settings: dict[str, str | float | bool] = {
        "flows.bulk.transport.cc.kind": control,
        "links.wan.queue": queue,
    }
    if rate is not None:
        settings["links.wan.rate"] = rate
    return load(values.text("linux_aqm.toml"), settings)


def compare(
    rows: Sequence[Measured], replications: int = REPLICATIONS, jobs: int = 1
) -> Iterator[Value]:
    """The kernel's numbers beside ours; each queue and control is yielded once computed."""
    for key, quantities in values.settings(rows):
        rate = _SHAPERS.get(key["queue"])
        readings = [scenario(queue, key["control"], rate) for queue in _QUEUES[key["queue"]]]
        few = -(-replications // len(readings))
        runs = [run for reading in readings for run in _runs(reading, few, jobs)]
        for row in quantities:
            ours = [run[row.quantity] for run in runs]
            known = _KNOWN.get((*key.values(), row.quantity), "")
            yield Value(key, row.quantity, row.theirs, fmean(ours), *values.quantiles(ours), known)


def _runs(reading: Scenario, replications: int, jobs: int) -> list[dict[str, float]]:
    runs = [(0, replication) for replication in range(replications)]
    columns = _engine.run_batch(reading, runs, jobs)

    def of_flows(name: str, replication: int) -> list[float]:
        return [columns[f"bulk_{flow}.{name}"][replication] for flow in range(1, FLOWS + 1)]

    link = "link.wan.forward"
    early = columns.get(f"{link}.aqm_packets", [0.0] * replications)
    return [
        _quantities(
            [size * 8 / 1e3 / SECONDS for size in of_flows("received_bytes", i)],
            of_flows("tcp.a.srtt_ms", i),
            sum(of_flows("tcp.a.data_segments_retransmitted", i)),
            columns[f"{link}.queue_full_packets"][i] + early[i],
            columns[f"{link}.delivered_packets"][i],
        )
        for i in range(replications)
    ]


def figures(rows: Sequence[Value]) -> dict[str, Figure]:
    """Our means and ranges as shares of the kernel's numbers."""
    return {"linux-aqm": values.figure(rows, "Linux")}
