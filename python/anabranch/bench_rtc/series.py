"""What the packets of a run show over time: rates, queueing delays and losses of the media flows.

Everything comes from two tables of a trace: `packets`, with what each end sent and what became of
it, and `hops`, with when each packet entered a link and when its transmission began.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anabranch import _engine

TABLES = ("packets", "hops")

BIN_S = 0.1
"""RFC 8868 section 3 asks for rates each 200 ms at least."""

_MEDIA = ("datagram", "retransmission")
"""The kinds of packets that carry media."""

Numbers = NDArray[np.float64]


def seconds(text: str) -> float:
    """A length of time in s."""
    return _engine.quantity("duration", text) / 1e9


@dataclass(frozen=True)
class Steps:
    """A value that changes at some times and holds until the next one."""

    times: Sequence[float]
    values: Sequence[float]

    def mean(self, start: float, end: float) -> float:
        """Its mean over some time."""
        ends = [*self.times[1:], np.inf]
        shares = (
            max(min(until, end) - max(since, start), 0.0) * value
            for since, until, value in zip(self.times, ends, self.values, strict=True)
        )
        return sum(shares) / (end - start)


@dataclass(frozen=True)
class Flow:
    """A media flow of a scenario."""

    name: str
    start_s: float
    end_s: float
    pauses: Sequence[tuple[float, float]]
    """When it sends nothing in between."""
    hops: Sequence[tuple[str, str]]
    """The bottlenecks on its way, and the direction in which it crosses them."""

    def is_active(self, start: float, end: float) -> bool:
        """Whether it sends all of this time."""
        within = self.start_s <= start and end <= self.end_s
        return within and all(end <= begun or start >= ended for begun, ended in self.pauses)


@dataclass(frozen=True)
class Course:
    """What happens in a case, by its settings."""

    flows: Sequence[Flow]
    capacities: Mapping[tuple[str, str], Steps]
    """Of each direction of a bottleneck that media crosses, in Mbit/s."""
    periods: Sequence[tuple[float, float]]
    """The times in which nothing changes: neither a capacity nor who sends (RFC 8868 section 3)."""

    @property
    def window(self) -> tuple[float, float]:
        """When there is media."""
        return self.periods[0][0], self.periods[-1][1]


def course(settings: Mapping[str, Any], bottlenecks: Sequence[str]) -> Course:
    """What happens in a case, from its settings as a tree."""
    flows = [_flow(name, settings, bottlenecks) for name in _media_flows(settings)]
    crossed = dict.fromkeys(hop for flow in flows for hop in flow.hops)
    capacities = {hop: _capacity(settings["links"][hop[0]], hop[1]) for hop in crossed}
    start, end = min(flow.start_s for flow in flows), max(flow.end_s for flow in flows)
    changes = {start, end}
    for flow in flows:
        changes |= {flow.start_s, flow.end_s, *(at for pause in flow.pauses for at in pause)}
    for capacity in capacities.values():
        changes |= {*capacity.times}
    for flow in settings["flows"].values():
        # A load that comes and goes once; not what goes on and off all the time.
        if flow["transport"]["kind"] != "rtp" and "duration" in flow["app"]:
            begun = _start(flow["app"])
            changes |= {begun, begun + seconds(flow["app"]["duration"])}
    times = sorted(time for time in changes if start <= time <= end)
    return Course(flows, capacities, [*itertools.pairwise(times)])


def _media_flows(settings: Mapping[str, Any]) -> list[str]:
    return [name for name, flow in settings["flows"].items() if flow["app"]["kind"] == "video"]


def _start(app: Mapping[str, Any]) -> float:
    start = app.get("start", "0 s")
    return seconds(start if isinstance(start, str) else start["from"])


def _flow(name: str, settings: Mapping[str, Any], bottlenecks: Sequence[str]) -> Flow:
    flow = settings["flows"][name]
    app = flow["app"]
    start = _start(app)
    end = start + seconds(app["duration"])
    sending = app.get("sending", True)
    steps = [] if isinstance(sending, bool) else sending["timetable"]
    ends = [seconds(at) for at, _ in steps[1:]] + [end]
    pauses = [
        (seconds(at), until) for (at, sends), until in zip(steps, ends, strict=False) if not sends
    ]
    hops, node = [], flow["from"]
    for link in settings["paths"][flow["paths"][0]]["via"]:
        first, second = settings["links"][link]["ends"]
        is_forward = node == first
        node = second if is_forward else first
        if link in bottlenecks:
            hops.append((link, "forward" if is_forward else "reverse"))
    return Flow(name, start, end, pauses, hops)


def _capacity(link: Mapping[str, Any], direction: str) -> Steps:
    reverse = link.get("reverse", {}) if direction == "reverse" else {}
    rate = reverse.get("rate", link["rate"])
    table = [["0 s", rate]] if isinstance(rate, str) else rate["timetable"]
    times = [seconds(at) for at, _ in table]
    return Steps(times, [_engine.quantity("rate", value) / 1e6 for _, value in table])


@dataclass(frozen=True)
class Packets:
    """The packets of the run's media and what they found at the bottlenecks."""

    media: pl.DataFrame
    """`flow`, `sent_s`, `bytes`, `delivered_s` (NaN if lost), `waited_ms` in queues."""
    carried: pl.DataFrame
    """What each bottleneck carried: `link`, `direction`, `left_s`, `bytes`, `is_media`,
    `is_rival`."""


def packets(tables: Mapping[str, Any], course: Course, rival: Sequence[str]) -> Packets:
    """The packets of a traced run."""
    names = [flow.name for flow in course.flows]
    columns = ("sent_s", "flow", "side", "size_bytes", "kind", "delivered_s")
    sent = pl.DataFrame({name: tables["packets"][name] for name in columns}).with_row_index(
        "packet"
    )
    columns = ("packet", "link", "direction", "entered_s", "begun_s", "left_s")
    hops = pl.DataFrame({name: tables["hops"][name] for name in columns}).with_columns(
        pl.col("packet").cast(pl.UInt32)
    )
    hops = hops.filter(pl.col("link").is_in([link for link, _ in course.capacities]))
    waits = hops.group_by("packet").agg(
        waited_ms=1e3 * (pl.col("begun_s") - pl.col("entered_s")).sum()
    )
    is_media = pl.col("flow").is_in(names) & (pl.col("side") == "a") & pl.col("kind").is_in(_MEDIA)
    media = (
        sent.filter(is_media)
        .join(waits, on="packet", how="left")
        .select("flow", "sent_s", "delivered_s", "waited_ms", bytes="size_bytes")
    )
    own = pl.col("flow").str.replace(r"_\d+$", "")
    carried = (
        hops.filter(pl.col("left_s").is_not_nan())
        .join(sent, on="packet")
        .select(
            "link",
            "direction",
            "left_s",
            bytes="size_bytes",
            is_media=is_media,
            is_rival=pl.col("flow").is_in(rival) | own.is_in(rival),
        )
    )
    return Packets(media, carried)


def per_bin(times: pl.Series, weights: pl.Series, until_s: float) -> Numbers:
    """Sums of weights in bins of `BIN_S` from 0 to a time."""
    edges = np.arange(0, until_s + BIN_S / 2, BIN_S)
    sums, _ = np.histogram(times.to_numpy(), bins=edges, weights=weights.to_numpy())
    return np.asarray(sums)


def rate(packets: pl.DataFrame, times: str, until_s: float) -> Numbers:
    """Mbit/s in these bins, of packets with `bytes` and their times in a column."""
    return per_bin(packets[times], packets["bytes"], until_s) * 8e-6 / BIN_S


def smooth(values: Numbers, seconds: float) -> Numbers:
    """The mean over so many seconds around each bin."""
    width = max(round(seconds / BIN_S), 1)
    kernel = np.ones(width)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")
