"""What is compared: in simulations by scalars, of programs by what crossed the links."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.bench_cc.measures import Bench, Metric, jain
from anabranch.bench_quic.scenarios import LIMIT_S, QuicScenario

METRICS = (
    Metric(
        "goodput_mbit_per_s",
        "goodput, Mbit/s",
        1,
        "bytes of all tested transfers over the completion of the last one",
    ),
    Metric("utilisation_percent", "used, %", 1, "that goodput, of the link's rate", is_shown=False),
    Metric("jain", "Jain index, 0-1", 1, "Jain's index of the goodputs of two transfers"),
    Metric(
        "completion_s",
        "completion, s",
        -1,
        "from the client's first packet until everything has arrived, handshake included",
    ),
    Metric(
        "handshake_ms",
        "handshake, ms",
        -1,
        "from the client's first packet until it can send data under the keys of the handshake",
    ),
    Metric(
        "recovery_ms",
        "recovery, ms",
        -1,
        "the longest time in which no data arrives, beyond that for which the link carries nothing",
    ),
)


@dataclass(frozen=True)
class Transfer:
    """What came of one transfer."""

    completion_s: float
    """NaN unless all of it arrived in time."""
    handshake_ms: float
    longest_gap_ms: float


def of_transfers(about: QuicScenario, transfers: Sequence[Transfer]) -> dict[str, float]:
    """Every metric of one run."""
    completions = [each.completion_s for each in transfers]
    # `max` has no opinion on NaN.
    last = math.nan if any(map(math.isnan, completions)) else max(completions)
    goodput = len(transfers) * about.size * 8 / 1e6 / last
    gap = max(each.longest_gap_ms for each in transfers)
    return {
        "goodput_mbit_per_s": goodput,
        "utilisation_percent": 100 * goodput / about.capacity_mbit_per_s,
        "jain": jain([1 / each for each in completions]) if len(completions) > 1 else math.nan,
        "completion_s": last,
        "handshake_ms": statistics.fmean(each.handshake_ms for each in transfers),
        "recovery_ms": gap - about.outage_ms if about.outage_ms else math.nan,
    }


def _of_run(about: QuicScenario, row: Mapping[str, float]) -> dict[str, float]:
    transfers = [
        Transfer(
            row[f"{flow}.completion_s"],
            row[f"{flow}.quic.a.handshake_ms"],
            # Of a transfer that is complete nothing arrives afterwards.
            1000 * row[f"{flow}.stalled_s"],
        )
        for flow in about.tested
    ]
    return of_transfers(about, transfers)


def _scalars(about: QuicScenario) -> list[str]:
    names = ("completion_s", "quic.a.handshake_ms", "stalled_s")
    return [f"{flow}.{name}" for flow in about.tested for name in names]


STACKS = Bench(
    command="bench-quic",
    what="stack",
    title="QUIC in fourteen scenarios",
    span=f"each transfer within {LIMIT_S} s",
    question="Which stack of QUIC transfers best?",
    asked={
        "goodput_mbit_per_s": "the most goodput",
        "handshake_ms": "the shortest handshake",
        "recovery_ms": "the shortest recovery after an outage",
    },
    metrics=METRICS,
    drawn={
        "goodput": ("utilisation_percent", "goodput, % of the link's rate"),
        "handshake": ("handshake_ms", "time of the handshake (ms)"),
        "recovery": ("recovery_ms", "recovery after an outage (ms)"),
        "fairness": ("jain", "Jain's index of two transfers (1: equal)"),
    },
    of_run=_of_run,
    scalars=_scalars,
)
