"""What is compared: measures of RFC 8868, from a run's packets and the scalars of its calls."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from anabranch.bench_cc.measures import Metric, jain
from anabranch.bench_rtc.scenarios import MediaScenario
from anabranch.bench_rtc.series import BIN_S, Course, Flow, Numbers, Packets, rate, smooth

METRICS = (
    Metric(
        "goodput_mbit_per_s",
        "goodput, Mbit/s",
        1,
        "bits of all frames that were shown, by the time in which there is media",
    ),
    Metric(
        "utilisation_percent",
        "used, %",
        1,
        "bits that the bottleneck carried, of its capacity; the mean where there are several",
    ),
    Metric(
        "queueing_p50_ms",
        "queue p50, ms",
        -1,
        "the time that half of the packets of media wait at most in the bottlenecks' queues",
    ),
    Metric("queueing_p95_ms", "queue p95, ms", -1, "the same of 95 % of them"),
    Metric("loss_percent", "lost, %", -1, "packets of media that did not arrive"),
    Metric(
        "frame_delay_p95_ms",
        "frame p95, ms",
        -1,
        "the time from making a frame to showing it that 95 % of them take at most, in the worst"
        " call",
    ),
    Metric("frame_delay_p99_ms", "frame p99, ms", -1, "the same of 99 %"),
    Metric("freezes", "freezes", -1, "freezes of the worst call, as WebRTC counts them"),
    Metric("frozen_percent", "frozen, %", -1, "the time in freezes, of the worst call"),
    Metric(
        "jain",
        "Jain index, 0-1",
        1,
        "Jain's index of the calls at a bottleneck, each by its priority, in the second half of"
        " periods in which nothing changes",
    ),
    Metric("share_percent", "share, %", 0, "media, of what media and TCP send over the bottleneck"),
    Metric(
        "convergence_s",
        "converged, s",
        -1,
        "from a change until the sending rate (over 1 s) stays within 20 % of its mean in the last"
        " third of the period that begins then; the mean of all changes and calls",
    ),
    Metric(
        "oscillations_per_min",
        "swings, 1/min",
        -1,
        "how often the sending rate (over 500 ms) goes from three quarters of the period's mean to"
        " five quarters, or back",
    ),
    Metric("feedback_kbit_per_s", "feedback, kbit/s", -1, "RTCP that the receivers send"),
)

_PREFIX = "bench."
"""Before the names of what packets show, among the scalars of a run."""

OF_PERIOD = (
    "received_mbit_per_s",
    "utilisation_percent",
    "queueing_p50_ms",
    "queueing_p95_ms",
    "loss_percent",
    "convergence_s",
)
"""What is measured in each period by itself."""

_OF_PACKETS = (
    "utilisation_percent",
    "queueing_p50_ms",
    "queueing_p95_ms",
    "loss_percent",
    "jain",
    "share_percent",
    "rival_mbit_per_s",
    "convergence_s",
    "oscillations_per_min",
)

_OF_CALLS = {
    "frame_delay_p95_ms": "p95_frame_delay_ms",
    "frame_delay_p99_ms": "p99_frame_delay_ms",
    "freezes": "freezes",
    "frozen_percent": "frozen_percent",
}

TOLERANCE = 0.2
"""A rate has converged when it stays within this share of what it converges to."""
_RATE_S, _SWING_S = 1.0, 0.5
_LOW, _HIGH = 0.75, 1.25
"""The watermarks of oscillations (RFC 8868 section 3), as shares of a period's mean rate."""


def period_name(number: int, name: str) -> str:
    """The name of a measure of a period, which are counted from 1."""
    return f"phase_{number}_{name}"


def of_packets(seen: Packets, course: Course, about: MediaScenario) -> dict[str, float]:
    """What the packets of a run show, as scalars."""
    start, end = course.window
    sending = {
        flow.name: rate(seen.media.filter(flow=flow.name), "sent_s", end) for flow in course.flows
    }
    media = _within(seen.media, "sent_s", start, end)
    settled = [
        _convergences(course.flows, sending, since, until) for since, until in course.periods
    ]
    values = {
        **_of_window(seen, course, start, end),
        "jain": _fairness(seen, course, about.priorities),
        **_beside(seen, start, end),
        "convergence_s": _mean([each for period in settled for each in period]),
        "oscillations_per_min": _oscillations(course, sending),
    }
    for number, (since, until) in enumerate(course.periods, 1):
        arrived = _within(media, "delivered_s", since, until)
        own = {
            "received_mbit_per_s": _megabits(arrived) / (until - since),
            **_of_window(seen, course, since, until),
            "convergence_s": _mean(settled[number - 1]),
        }
        values |= {period_name(number, name): own[name] for name in OF_PERIOD}
    return {f"{_PREFIX}{name}": value for name, value in values.items()}


def names_of_packets(course: Course) -> list[str]:
    """The names of the scalars that `of_packets` gives."""
    numbers = range(1, len(course.periods) + 1)
    own = [period_name(number, name) for number in numbers for name in OF_PERIOD]
    return [f"{_PREFIX}{name}" for name in (*_OF_PACKETS, *own)]


def of_run(course: Course, row: Mapping[str, float]) -> dict[str, float]:
    """Every metric of one run, and what was measured of each period."""
    start, end = course.window
    flows = course.flows
    values = {name.removeprefix(_PREFIX): row[name] for name in names_of_packets(course)}
    for name, scalar in _OF_CALLS.items():
        values[name] = max(row[f"{flow.name}.{scalar}"] for flow in flows)
    bits = sum(
        row[f"{flow.name}.goodput_kbit_per_s"] * (flow.end_s - flow.start_s) for flow in flows
    )
    values["goodput_mbit_per_s"] = bits / 1e3 / (end - start)
    octets = sum(row[f"{flow.name}.rtp.b.rtcp_bytes_sent"] for flow in flows)
    values["feedback_kbit_per_s"] = octets * 8e-3 / (end - start)
    return values


def scalars(course: Course) -> list[str]:
    """The names of the scalars that `of_run` reads."""
    of_calls = (*_OF_CALLS.values(), "goodput_kbit_per_s", "rtp.b.rtcp_bytes_sent")
    return [
        *names_of_packets(course),
        *(f"{flow.name}.{name}" for flow in course.flows for name in of_calls),
    ]


def _of_window(seen: Packets, course: Course, start: float, end: float) -> dict[str, float]:
    media = _within(seen.media, "sent_s", start, end)
    waited = media.filter(pl.col("delivered_s").is_not_nan())["waited_ms"]
    lost = media.filter(pl.col("delivered_s").is_nan()).height
    carried = _within(seen.carried, "left_s", start, end)
    used = []
    for (link, direction), capacity in course.capacities.items():
        of_it = _megabits(carried.filter(link=link, direction=direction))
        used.append(100 * of_it / (end - start) / capacity.mean(start, end))
    return {
        "utilisation_percent": _mean(used),
        "queueing_p50_ms": _quantile(waited, 0.5),
        "queueing_p95_ms": _quantile(waited, 0.95),
        "loss_percent": 100 * lost / media.height if media.height else math.nan,
    }


def _beside(seen: Packets, start: float, end: float) -> dict[str, float]:
    carried = _within(seen.carried, "left_s", start, end)
    media, rival = (
        _megabits(carried.filter(name)) / (end - start) for name in ("is_media", "is_rival")
    )
    share = 100 * media / (media + rival) if rival else math.nan
    return {"share_percent": share, "rival_mbit_per_s": rival if rival else math.nan}


def _fairness(seen: Packets, course: Course, priorities: Mapping[str, float]) -> float:
    """The mean index of all bottlenecks and periods with several calls, by the periods' lengths."""
    found, weights = [], []
    for hop in course.capacities:
        crossing = [flow for flow in course.flows if hop in flow.hops]
        for start, end in course.periods:
            active = [flow.name for flow in crossing if flow.is_active(start, end)]
            if len(active) < 2:
                continue
            half = _within(seen.media, "delivered_s", (start + end) / 2, end)
            rates = [_megabits(half.filter(flow=name)) / priorities.get(name, 1) for name in active]
            found.append(jain(rates))
            weights.append(end - start)
    return float(np.average(found, weights=weights)) if found else math.nan


def _convergences(
    flows: Sequence[Flow], sending: Mapping[str, Numbers], start: float, end: float
) -> list[float]:
    """How long each call takes in a period until its rate stays near what it converges to."""
    found = []
    for flow in flows:
        own = smooth(sending[flow.name], _RATE_S)[_bins(start, end)]
        if not flow.is_active(start, end) or not len(own):
            continue
        steady = own[-max(len(own) // 3, 1) :].mean()
        away = np.flatnonzero(np.abs(own - steady) > TOLERANCE * steady)
        found.append(BIN_S * (away[-1] + 1) if len(away) else 0.0)
    return found


def _oscillations(course: Course, sending: Mapping[str, Numbers]) -> float:
    """Swings between the watermarks per minute, the mean of the calls."""
    swings = minutes = 0.0
    for flow in course.flows:
        smoothed = smooth(sending[flow.name], _SWING_S)
        for start, end in course.periods:
            own = smoothed[_bins(start, end)]
            if flow.is_active(start, end) and len(own):
                swings += swings_of(own / own.mean()) if own.mean() else 0
                minutes += (end - start) / 60
    return swings / minutes if minutes else math.nan


def swings_of(shares: Numbers) -> int:
    """How often a rate, as a share of its mean, goes from one watermark to the other."""
    beyond = np.where(shares >= _HIGH, 1, np.where(shares <= _LOW, -1, 0))
    sides = beyond[beyond != 0]
    return int(np.count_nonzero(np.diff(sides)))


def _bins(start: float, end: float) -> slice:
    return slice(round(start / BIN_S), round(end / BIN_S))


def _within(packets: pl.DataFrame, times: str, start: float, end: float) -> pl.DataFrame:
    return packets.filter((pl.col(times) >= start) & (pl.col(times) < end))


def _megabits(packets: pl.DataFrame) -> float:
    return 8e-6 * float(packets["bytes"].sum())


def _quantile(values: pl.Series, share: float) -> float:
    found = values.quantile(share)
    return math.nan if found is None else float(found)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
