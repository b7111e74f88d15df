"""How advice rates a call's video, and what it shows beside that: bytes, freezes, delays.

A rating that counts freezes alone would be won by a control that sends next to nothing. So each
second of the call has the logarithm of its rate, as in the utility of BOLA (Spiteri et al., INFOCOM
2016) and in QoE_log of Pensieve (Mao et al., SIGCOMM 2017): 0 for the least rate of the source, 1
for the highest. As in QoE_log, what is not seen is taken off as much as the highest rate brings.
That is not an opinion score, and QoE_log's third term, for changes of the rate, is left out.

Not seen is the time of freezes (W3C webrtc-stats), or the share of frames that were not shown
within `deadline`, whichever is more: a frame late is mostly part of a freeze, but a freeze can be
shorter than the deadline, and a queue can make all frames late without one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from anabranch.support.quantities import bits_per_second

from .paths import Paths
from .settings import Candidate, Setting

FLOW = "call"
METRIC = "points"
EXPLAINED = (
    "100 points are the source's highest rate all the time, 0 its least rate, by the logarithm "
    "between them; time that is frozen, and frames late or lost, count -100."
)

_HEADERS = 40
_HEADERS_AGAIN = 42
"""Bytes before a packet's payload: IPv4, UDP, RTP; retransmissions have two more (RFC 4588)."""


@dataclass(frozen=True)
class Beside:
    """Something that is shown beside the goal."""

    name: str
    """Its name in JSON."""
    head: str
    """Its name with its unit, as two lines of a table's head."""
    value: pl.Expr
    """What it is made of, scalars of a run."""
    path: int | None = None
    """The path that it is about."""


def points(app: Mapping[str, Any]) -> pl.Expr:
    """The points of a run, from -100 to 100; `app` is the video, with all its settings."""

    def of(name: str) -> pl.Expr:
        return pl.col(f"{FLOW}.{name}")

    least, most = (bits_per_second(app[key]) for key in ("min_rate", "max_rate"))
    made, shown = of("frames_made"), of("frames_shown")
    rating = pl.lit(1.0)
    if most > least:
        # The mean rate at which the frames that were shown had been encoded.
        rate = of("goodput_kbit_per_s") * 1e3 * made / shown
        rating = (rate / least).clip(1, most / least).log() / math.log(most / least)
    in_time = (shown - of("frames_late")) / made
    unseen = pl.max_horizontal(of("frozen_percent") / 100, 1 - in_time)
    rated = 100 * ((1 - unseen) * rating - unseen)
    return pl.when(shown > 0).then(rated).otherwise(-100.0)


def side(app: Mapping[str, Any]) -> str:
    """The end that sends the video."""
    return "b" if app.get("direction") == "b_to_a" else "a"


def beside(paths: Paths, app: Mapping[str, Any]) -> list[Beside]:
    """What a run sent over RTP, on each path where there are several, and what its viewer saw."""
    shown = [
        ("freezes", "freezes"),
        ("frozen_percent", "frozen,\n%"),
        ("p99_frame_delay_ms", "p99,\nms"),
        ("goodput_kbit_per_s", "shown,\nkbit/s"),
    ]
    seen = [Beside(name, head, pl.col(f"{FLOW}.{name}")) for name, head in shown]
    return [*sent(paths, side(app)), *seen]


def sent(paths: Paths, side: str) -> list[Beside]:
    """What an end has sent in MB: media, copies and retransmissions, with all headers."""
    end = f"{FLOW}.rtp.{side}"
    packets, payload = pl.col(f"{end}.packets_sent"), pl.col(f"{end}.bytes_sent")
    again = pl.col(f"{end}.retransmissions_sent")
    # An end that uses one path has no counters for each: what it sends again is taken to be as
    # large as its packets are in the mean.
    alone = payload + _HEADERS * packets + again * (payload / packets + _HEADERS_AGAIN)
    if len(paths.names) == 1:
        return [Beside("sent_mb", "sent,\nMB", alone * 1e-6)]
    wire = [pl.col(f"{end}.path{position}.wire_bytes_sent") for position in range(len(paths.names))]
    by_path = [
        Beside(f"sent_{name}_mb", f"{name},\nMB", octets * 1e-6, position)
        for position, (name, octets) in enumerate(zip(paths.names, wire, strict=True))
    ]
    together = pl.sum_horizontal(wire).fill_nan(alone)
    return [Beside("sent_mb", "sent,\nMB", together * 1e-6), *by_path]


def scalars(measures: Sequence[Beside]) -> list[str]:
    """The scalars that these are made of."""
    return list(dict.fromkeys(name for one in measures for name in one.value.meta.root_names()))


def of_paths(measures: Sequence[Beside]) -> list[str]:
    """Those of single paths, which a sender has that may use several."""
    return scalars([one for one in measures if one.path is not None])


def values(
    measures: Sequence[Beside],
    counts: pl.DataFrame,
    candidate: Candidate,
    settings: Mapping[str, Setting],
) -> list[list[float]]:
    """Each of these in each run of a candidate."""
    alone = _path_alone(candidate, settings)
    found = []
    for one in measures:
        value = one.value
        if one.path is not None and alone is not None:
            value = measures[0].value if one.path == alone else pl.lit(0.0)
        found.append(counts.with_columns(value.alias("value"))["value"].to_list())
    return found


def _path_alone(candidate: Candidate, settings: Mapping[str, Setting]) -> int | None:
    """The path that a candidate uses alone; None if it may use several."""
    ways = settings.get("paths")
    chosen = {} if ways is None else ways.values[candidate["paths"]]
    if any(key.startswith(("transport.policy", "transport.scheduler")) for key in chosen):
        return None
    return int(chosen.get("transport.path", 0))
