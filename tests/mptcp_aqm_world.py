"""Synthetic studies for the tests of mptcp-aqm: transfers as the paper tells them."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from anabranch.papers.mptcp_aqm import studies
from anabranch.papers.mptcp_aqm.factors import COUPLINGS, DELAYS, PATHS, QUEUES, Runs
from anabranch.papers.mptcp_aqm.traced import Traced

REPLICATIONS = 12

RTT_MS: dict[str, dict[str, tuple[float, ...]]] = {
    "drop_tail": {"a": (500, 520, 691), "b": (450, 455, 478)},
    "codel": {"a": (85, 100, 276), "b": (67, 68, 70)},
}
CWND_PACKETS: dict[str, dict[str, tuple[float, ...]]] = {
    "drop_tail": {"a": (20, 18, 12), "b": (14, 16, 22)},
    "codel": {"a": (6, 5, 4.5), "b": (6, 5, 4.5)},
    "lifo": {"a": (5, 5, 5), "b": (5, 5, 4.5)},
}
LIFO_GAIN = (1.4, 1.2, 1.04)


def values(queue: str, coupling: str, delay_ms: float) -> dict[str, float]:
    """The means of a cell, as published where it is."""
    step = min(range(len(DELAYS)), key=lambda index: abs(DELAYS[index] - delay_ms))
    is_lifo = queue.startswith(("lifo", "fq_lifo"))
    kind = "drop_tail" if queue == "drop_tail" else "codel"
    share = {"drop_tail": 0.75, "fq_codel": 0.54, "codel_literal": 0.05}.get(queue, 0.53)
    if is_lifo:
        share *= LIFO_GAIN[step]
    gains = {"rtt_compensator": 1.03 if is_lifo else 1.05, "per_path": 1.08}
    longer = 1.5 if is_lifo and coupling == "per_path" else 1.0
    sojourn_ms = {"drop_tail": 500.0}.get(queue, 40.0 if is_lifo else 60.0) * longer
    cwnd = CWND_PACKETS["lifo" if is_lifo else kind]
    found = {
        "goodput_share": share * gains.get(coupling, 1.0),
        "goodput_mbps": 0.4,
        "longest_gap_s": 1.0,
        "drops": {"drop_tail": 40.0}.get(queue, 60.0 if is_lifo else 100.0),
        "aqm_drops": 0.0 if kind == "drop_tail" else 60.0,
        "udp_loss_percent": 5.0,
        "queue_packets": {"drop_tail": 40.0}.get(queue, 4.0 if is_lifo else 6.0) * longer,
        "sojourn_ms": sojourn_ms,
        "p95_ms": 2 * sojourn_ms,
        "p99_ms": 3 * sojourn_ms,
        "max_ms": 9 * sojourn_ms,
        "duplicates": 1.0,
        "retransmissions": 50.0,
        "timeouts": 2.0,
    }
    for path in PATHS:
        found[f"rtt_{path}_ms"] = RTT_MS[kind][path][step]
        found[f"srtt_{path}_ms"] = RTT_MS[kind][path][step] + 1
        found[f"cwnd_{path}_packets"] = cwnd[path][step]
        found[f"changed_cwnd_{path}_packets"] = cwnd[path][step]
    both = found["cwnd_a_packets"] + found["cwnd_b_packets"]
    found["changed_cwnd_packets"] = both / 2
    return found | {"cwnd_packets": both / 2, "cwnd_share_a": found["cwnd_a_packets"] / both}


def frame(axes: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """Rows of every combination, with a little noise that all share."""
    rng = np.random.default_rng(7)
    common = rng.normal(size=REPLICATIONS)
    rows = []
    for combination in product(*axes.values()):
        key = dict(zip(axes, combination, strict=True))
        # An ablation's or a cell's queue is in its name.
        queue = str(key.get("queue") or key.get("change") or str(key.get("point")).split("-")[0])
        if "point" in key:
            delay = float(str(key["point"]).split("-")[1])
        else:
            delay = float(key.get("delay_ms", 10))
        means = values(queue, str(key.get("coupling", "linked_increases")), delay)
        for replication in range(REPLICATIONS):
            noise = 1 + 0.01 * common[replication] + 0.001 * rng.normal()
            rows.append(
                key
                | {"replication": replication}
                | {name: float(value * noise) for name, value in means.items()}
            )
    return pl.DataFrame(rows)


def grid(profile: str) -> Runs:
    """The grid under a profile."""
    axes: dict[str, Sequence[Any]] = {"queue": QUEUES, "coupling": COUPLINGS, "delay_ms": DELAYS}
    return Runs(frame(axes), profile)


def fit(profile: str) -> Runs:
    """Round-trip times that fit best at 0.75 Mbit/s."""
    rates = list(map(float, studies.cases("rate_mbps")))
    found = frame({"rate_mbps": rates, "point": list(studies.cases("point"))})
    rtts = [f"rtt_{path}_ms" for path in PATHS]
    return Runs(found.with_columns(pl.col(rtts) * 0.75 / pl.col("rate_mbps")), profile)


def traced() -> Traced:
    """A run in outline."""
    steps = np.arange(0.5, 60)
    both = {"time_s": [*steps, *steps], "path": [0] * len(steps) + [1] * len(steps)}
    return Traced(
        pl.DataFrame(both | {"cwnd_bytes": [7000] * 120, "srtt_ms": [80.0] * 120}),
        pl.DataFrame({"time_s": steps, "waiting_packets": [5] * 60}),
        {0: [40.0, 50.0, 90.0], 1: [30.0, 40.0, 900.0]},
        pl.DataFrame(both | {"mbps": [0.2] * 120}),
        pl.DataFrame({"time_s": steps, "mbps": [0.4] * 60}),
        60.0,
    )
