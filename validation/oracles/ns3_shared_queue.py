"""Two TCP flows and UDP through one queue, compared with ns-3.44.

ns-3's numbers are means over ten runs, each until both flows together had delivered 4 MB. Ours are
means over runs that end at the same point: each is run twice, first to learn when that is. How
ns-3's UDP packets are spaced is not known, so half of our runs have equal intervals and half have
Poisson's.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import fmean

import polars as pl
from matplotlib.figure import Figure

from anabranch._engine import Scenario
from anabranch.studies.result import load, run
from oracles import values
from oracles.values import Measured, Value, as_csv, cells

__all__ = ["as_csv", "cells"]

REPLICATIONS = 30
THEIR_RUNS = 10
DELIVERED_BYTES = 4_000_000
MSS_BYTES = 1406

_KEYS = {"rate_c_mbps": "rate", "profile": "profile", "delay_a_ms": "delay", "queue": "queue"}
HEADS = values.heads(("rate of C, Mbit/s", "profile", "delay of A, ms", "queue"), "ns-3")
"""The heads of `cells`."""

CAUSES = values.CAUSES | {
    "b": "ns-3.44's recovery gives back too little: proportional rate reduction counts duplicates"
    " twice and takes the pipe for the flight, and the acknowledgement that ends it raises the"
    " window by all that it covers; with both as in Linux, ns-3 drops about what ours does",
    "c": "less than one packet, or the time that it takes on link C",
    "d": "at 10 Mbit/s a run is over in 4.5 s, so that slow start decides: which packets it loses,"
    " and how far the window goes beyond the 64 KB that may be outstanding",
    "e": "within 5 % of our range, which has two readings of UDP's spacing",
    "f": "how far apart the two flows started is not known, and decides which packets a drop-tail"
    " queue loses in slow start: 20 ms apart, ours drops 66 instead of 92 at 1 Mbit/s",
}
"""What causes a deviation; docs/ns3-shared-queue.md has the evidence."""

_COLUMNS = {
    "goodput_frac": "goodput / C",
    "rtt_a_ms": "rtt A",
    "rtt_b_ms": "rtt B",
    "cwnd_a": "cwnd A",
    "cwnd_b": "cwnd B",
    "drops": "dropped",
    "qlen_mean": "queue",
    "sojourn_mean_ms": "sojourn",
    "sojourn_p95_ms": "p95 sojourn",
}
"""Columns of ns-3's file, and what they are called here."""

_TIMES = ("rtt A", "rtt B", "sojourn", "p95 sojourn")

_QUEUES = {
    "pfifo": '{ kind = "drop_tail", packets = 50, measure = true }',
    "codel": '{ kind = "codel", packets = 50, square_root = "newton" }',
    "fqcodel": '{ kind = "fq_codel", packets = 50, square_root = "newton", ecn = false }',
}

_COMMON = (
    'kind = "tcp", cc = { kind = "reno" }, measure = true,'
    # Only the receiver's window limits the flows. ns-3's application refills its send buffer of the
    # same size with each acknowledgement; ours, as in Linux, waits until a third is free, and then
    # bursts.
    ' send_buffer = "1 MiB", receive_buffer = "64 KiB", loss_detection = "dupacks",'
    " tail_loss_probe = false, f_rto = false, undo = false"
)
_TRANSPORTS = {
    # ns-3's default: LinuxReno, SACK, proportional rate reduction.
    "linux": f'{{ {_COMMON}, profile = "linux_6", receive_autotuning = false, quick_acks = 0,'
    ' compressed_ack_delay = "0 s", rto_estimator = "rfc6298" }',
    "old": f'{{ {_COMMON}, profile = "rfc", sack = false }}',
}
"""ns-3's profiles, which have neither RACK nor tail loss probes."""


def kernel_rows() -> list[Measured]:
    """The numbers in ns-3's file."""
    return [
        Measured({head: line[key] for key, head in _KEYS.items()}, ours, float(line[name]))
        for line in values.lines("ns3_shared_queue.csv")
        for name, ours in _COLUMNS.items()
    ]


def scenario(
    key: Mapping[str, str], spacing: str = "cbr", duration_s: float | None = None
) -> Scenario:
    """The scenario with one setting."""
    rate = float(key["rate"]) * 1e6
    transport = _TRANSPORTS[key["profile"]]
    settings: dict[str, str | float | bool] = {
        "links.a.delay": f"{key['delay']} ms",
        "links.c.rate": f"{rate * 1458 / 1460:.0f} bit/s",
        "links.c.delay": f"{1 + 1460 * 8e3 / rate:.3f} ms",
        "links.c.queue": _QUEUES[key["queue"]],
        "flows.a.transport": transport,
        "flows.b.transport": transport,
        "flows.udp.app.intervals.kind": spacing,
        "flows.udp.app.rate": f"{rate / 4 * 1430 / 1460:.0f} bit/s",
    }
    # Without a given duration, the run is long enough for half of the rate.
    longest = DELIVERED_BYTES * 8 / (rate / 2)
    settings["run.duration"] = f"{longest if duration_s is None else duration_s:.4f} s"
    return load(values.text("ns3_shared_queue.toml"), settings)


def compare(
    rows: Sequence[Measured], replications: int = REPLICATIONS, jobs: int = 1
) -> Iterator[Value]:
    """ns-3's numbers beside ours; each setting is yielded once computed."""
    with ThreadPoolExecutor(jobs) as pool:
        for key, quantities in values.settings(rows):
            readings = [
                list(pool.map(partial(_run, key, spacing), range(-(-replications // 2))))
                for spacing in ("cbr", "poisson")
            ]
            for row in quantities:
                ours = [[run[row.quantity] for run in runs] for runs in readings]
                lows, highs = zip(
                    *(values.range_of_means(x, THEIR_RUNS) for x in ours), strict=True
                )
                mean = fmean(map(fmean, ours))
                low, high = min(lows), max(highs)
                is_near = 0.95 * low <= row.theirs <= 1.05 * high
                known = _cause(key, row, mean) or ("e" if is_near else "")
                yield Value(key, row.quantity, row.theirs, mean, low, high, known)


def _cause(key: Mapping[str, str], row: Measured, mean: float) -> str:
    """The cause of a deviation outside of our range."""
    rate = float(key["rate"])
    packet = 1460 * 8 / rate / 1e3 if row.quantity in _TIMES else 1.0
    if row.quantity != "dropped" and abs(mean - row.theirs) < packet:
        return "c"
    is_aqm = key["queue"] != "pfifo"
    if key["profile"] == "linux" and is_aqm and (rate == 1 or row.quantity == "dropped"):
        return "b"
    if not is_aqm:
        return "f"
    return "d" if rate == 10 else ""


def _run(key: Mapping[str, str], spacing: str, replication: int) -> dict[str, float]:
    first = run(scenario(key, spacing), replication=replication, trace=True)
    seconds = _delivered_at(first.traces["intervals"])
    scalars = run(scenario(key, spacing, seconds), replication=replication).summary
    link = "link.c.forward"
    received = scalars["a.received_bytes"] + scalars["b.received_bytes"]
    values = {
        "goodput / C": received * 8 / scalars["run.simulated_s"] / (float(key["rate"]) * 1e6),
        "dropped": scalars[f"{link}.queue_full_packets"] + scalars[f"{link}.aqm_packets"],
        "queue": scalars[f"{link}.mean_queue_packets"],
        "sojourn": scalars[f"{link}.mean_sojourn_ms"],
        "p95 sojourn": scalars[f"{link}.p95_sojourn_ms"],
    }
    for flow, name in (("a", "A"), ("b", "B")):
        values[f"rtt {name}"] = scalars[f"{flow}.tcp.a.mean_rtt_ms"]
        values[f"cwnd {name}"] = scalars[f"{flow}.tcp.a.mean_cwnd_bytes"] / MSS_BYTES
    return values


def _delivered_at(intervals: pl.DataFrame) -> float:
    """When both flows together have delivered everything, in seconds."""
    read = intervals.sort("end_s").select("end_s", total=pl.col("bytes").cum_sum())
    done = read.filter(pl.col("total") >= DELIVERED_BYTES)["end_s"]
    return float(done[0])


def figures(rows: Sequence[Value]) -> dict[str, Figure]:
    """Our means and ranges as shares of ns-3's numbers."""
    return {"ns3-shared-queue": values.figure(rows, "ns-3")}
