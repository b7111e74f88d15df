"""What a direction of a call in RTP is worth to its listener, and what it loses that to.

Packets that are missing, those that a jitter buffer would not play, and the delay of the buffer
itself go into the E-model (ITU-T G.107), as in a run (`anabranch.explain.calls`). A capture at one
end has no delay of the path.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.explain.calls import RELEVANT, Call, Cost, burst_ratio, shapley
from anabranch.support import redundancy, rtp, wording

from .beside import Beside
from .beside import find as find_beside
from .journeys import Direction
from .packets import heads_of
from .rtcp import Reported

DEPTH_MS = 100.0
"""Depth of the jitter buffer, that of scenarios (`jitter_buffer`)."""

_DEPTHS_MS = (20.0, 40.0, 60.0, 80.0, 100.0, 150.0, 200.0, 300.0)
"""Others that might be better."""

_DELAYS_MS = (50.0, 150.0, 300.0)
"""Delays of the path that a call may have besides (ITU-T G.114: up to 150 ms is good)."""

_BLOCK_S = 5.0
"""The least delay of this long, and of as long before it, is what a jitter buffer starts from: no
clock drifts by much meanwhile.
"""

_VIDEO_HZ = 90_000

_STEADY_MS = 0.1
"""A stream without losses and with less jitter than this has not come over a path yet."""


@dataclass(frozen=True, slots=True)
class Rated:
    """One direction of a call, as it was captured."""

    section: str
    """The path and the host that sent."""
    payload_type: int
    clock_hz: int | None
    frames: int
    """Numbers from the first to the last."""
    lost: int
    late: int
    """Packets that came too late for the jitter buffer."""
    out_of_order: int
    burst_ratio: float
    """Of what was not played (G.107 section 7.5): 1 if at random, more in bursts."""
    packet_ms: float
    """Of speech in a packet; NaN where the clock is not known."""
    jitter_ms: float
    """The interarrival jitter of RFC 3550 (appendix A.8), on average."""
    most_jitter_ms: float
    depth_ms: float
    codec: str | None
    why: str
    """Why there is no rating; empty where there is one."""
    call: Call | None
    """Its rating, and what it costs."""
    others: tuple[tuple[str, float], ...] = ()
    """What else could be set, each with the MOS that it would give; those that help."""
    delayed: tuple[tuple[float, float], ...] = ()
    """Delays of the path in ms, each with the MOS that the call would have; none if it is known."""
    reported: Reported | None = None
    """What RTCP says of it."""
    repeats: int = 0
    """How many frames before its own most packets repeat (RFC 2198)."""
    repaired: int = 0
    """Frames that came only so."""
    beside: Beside | None = None
    """What else was sent while packets came too late."""

    def sentences(self, capture: Sequence[str]) -> list[str]:
        """What came, and what it is worth.

        `capture` are the words by which `anabranch profile` finds the packets.
        """
        said = [self._came(), *self._redundant(), *self._heard()]
        if self.beside is not None:
            said.append(self.beside.sentence())
        if self.call is None:
            return [*said, f"{self.section}: {self.why}"] if self.why else said
        said += self.call.sentences()
        if self.delayed:
            values = ", ".join(f"{mos:.2f} with {delay:g} ms" for delay, mos in self.delayed)
            said.append(f"One end does not show the path's own delay; the MOS is {values} of it.")
        if self.others:
            best = "; ".join(f"{what}: {mos:.2f}" for what, mos in self.others)
            said.append(f"What would help, by its MOS: {best}.")
        if self.call.mos < self.call.best - RELEVANT:
            is_loaded = self.beside is not None and self.beside.protocol == "TCP"
            said.append(
                f"Settings that would help: `anabranch profile {shlex.join(capture)} --out "
                "path.toml`, then `anabranch advise --paths path.toml --goal mos --transport udp"
                f"{' --beside-bulk' * is_loaded}`."
            )
        return said

    def _redundant(self) -> list[str]:
        """What redundancy made of the losses."""
        if not self.repeats:
            return []
        frames = "the frame" if self.repeats == 1 else f"the {self.repeats} frames"
        left = self.lost - self.repaired
        shares = [wording.number(100 * count / self.frames, 3) for count in (self.lost, left)]
        return [
            f"{self.section}: each packet repeats {frames} before its own (RFC 2198): of "
            f"{self.frames:,} frames {self.lost:,} were lost without that ({shares[0]} %) and "
            f"{left:,} with it ({shares[1]} %); delays count as of the repetition."
        ]

    def _came(self) -> str:
        text = f"{self.section}: RTP of payload type {self.payload_type}"
        if self.clock_hz is not None:
            text += (
                f", {wording.number(self.packet_ms, 3)} ms a packet, with a jitter of "
                f"{wording.number(round(self.jitter_ms, 3), 3)} ms on average and at most "
                f"{wording.number(round(self.most_jitter_ms, 3), 3)} ms (RFC 3550)"
            )
        if self.lost == 0 and self.out_of_order == 0 and self.most_jitter_ms < _STEADY_MS:
            return f"{text}. It seems to be captured where it is sent: see it at its other end."
        if self.clock_hz is None or self.clock_hz == _VIDEO_HZ:
            return f"{text}."
        return (
            f"{text}; {self.late} of {self.frames} packets came too late for a jitter buffer of "
            f"{self.depth_ms:g} ms."
        )

    def _heard(self) -> list[str]:
        """What RTCP says."""
        said, told = [], self.reported
        if told is not None and told.samples:
            trip = wording.number(round(1e3 * told.round_trip_s, 1), 4)
            count = wording.counted(told.samples, "report")
            said.append(
                f"{self.section}: {count} of RTCP measure a round trip of {trip} ms; half of it is "
                "taken for the path's delay."
            )
        if told is not None and told.expected:
            share = wording.number(100 * told.lost / told.expected, 3)
            said.append(
                f"{self.section}: by RTCP its listener missed {told.lost:,} of {told.expected:,} "
                f"packets ({share} %)."
            )
        return said

    def as_json(self) -> dict[str, Any]:
        """The same, as a tree for JSON."""
        content = asdict(replace(self, call=None))
        content["call"] = None if self.call is None else self.call.as_json()
        return content


def rate(
    flow: str,
    section: str,
    way: Direction,
    stream: rtp.Stream,
    *,
    codec: str | None,
    reported: Reported,
    every: Sequence[Direction] = (),
    names: Mapping[bytes, str] | None = None,
) -> Rated:
    """Rates what a direction's stream of RTP is worth.

    Parameters
    ----------
    flow, section
        Names of the flow and of the direction.
    way, stream
        The direction, and the stream that it carries.
    codec
        One of `anabranch list codecs`; that of the payload type if not given.
    reported
        What RTCP says of the stream.
    every, names
        All directions of the capture, and its names of hosts: what else was sent meanwhile.
    """
    arrived, delay_ms = _arrivals(way, stream)
    if delay_ms is None and reported.samples:
        delay_ms = 1e3 * reported.round_trip_s / 2
    lost = np.isnan(arrived.seen_s)
    redundant = redundancy.found(stream, *heads_of(way.packets, way.sent.row[stream.rows]))
    kind, clock = stream.payload_type, stream.clock_hz
    if redundant is not None:
        kind = redundant.payload_type
        clock = rtp.PAYLOADS[kind][1] if kind in rtp.PAYLOADS else clock
    packet_ms = float("nan")
    late = np.full(len(lost), np.nan)
    jitter = np.zeros(1)
    if clock is not None:
        steps = np.diff(arrived.stamps[~lost]) / np.diff(np.flatnonzero(~lost)) / clock * 1e3
        packet_ms = float(np.median(steps))
        jitter = _jitter_ms(arrived, clock)
        late = _lateness_ms(arrived, clock)
    missing = lost
    if redundant is not None and clock is not None:
        late = _repaired_ms(arrived, late, stream, redundant, clock)
        missing = np.isnan(late)
    known = codec or rtp.codec_of(kind)
    heard = _Heard(missing, late, packet_ms, delay_ms, known, is_redundant=redundant is not None)
    is_late = heard.is_late(DEPTH_MS)
    rated = Rated(
        section,
        stream.payload_type,
        clock,
        len(lost),
        int(lost.sum()),
        int(is_late.sum()),
        int((np.diff(stream.numbers) < 0).sum()),
        burst_ratio(missing | is_late),
        packet_ms,
        float(jitter.mean()),
        float(jitter.max()),
        DEPTH_MS,
        known,
        "",
        None,
        reported=reported,
        repeats=0 if redundant is None else redundant.repeats,
        repaired=int((lost & ~missing).sum()),
        beside=find_beside(way, arrived.seen_s[is_late & ~lost], every, names or {}),
    )
    if clock == _VIDEO_HZ and codec is None:
        return replace(rated, codec=None, why="Its clock of 90 kHz is that of video: no MOS.")
    if clock is None:
        return replace(rated, why="No clock of RTP fits its time stamps: no MOS.")
    if known is None:
        why = (
            f"Its packets do not say which codec payload type {kind} is: "
            "--codec CODEC rates the call."
        )
        return replace(rated, why=why)
    try:
        heard.mos(lost=False, depth_ms=0.0)
        return replace(
            rated,
            call=heard.call(flow, section),
            others=tuple(heard.others()),
            delayed=() if delay_ms is not None else tuple(heard.delayed()),
        )
    except AnabranchError as error:
        source = str(error).rpartition(": ")[2]
        why = (
            f"There is no MOS for {known} ({source}); `anabranch emodel --ie --bpl` rates it with "
            "values of your own."
        )
        return replace(rated, why=why)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """By number: when its packet came first, in s (NaN if it did not), and its time stamp."""

    seen_s: NDArray[np.float64]
    stamps: NDArray[np.float64]


def _arrivals(way: Direction, stream: rtp.Stream) -> tuple[_Arrived, float | None]:
    """What came to the listener's end, or here; and the mean delay in ms, where both ends are."""
    far = way.far()
    sent = way.sent.sent_s[stream.rows]
    seen = sent if far is None else way.sent.at({far})[stream.rows]
    seen = np.where(way.sent.is_dropped()[stream.rows], np.nan, seen)
    places = stream.numbers - stream.numbers.min()
    count = int(places.max()) + 1
    first = np.full(count, np.inf)
    np.fmin.at(first, places, seen)
    stamps = np.full(count, np.nan)
    stamps[places] = stream.stamps
    delay_ms = None if far is None else float(np.nanmean(seen - sent)) * 1e3
    came = np.isfinite(first)
    # What is under way when the capture ends is not lost.
    end = int(np.flatnonzero(came)[-1]) + 1
    return _Arrived(np.where(came, first, np.nan)[:end], stamps[:end]), delay_ms


def _jitter_ms(arrived: _Arrived, clock: int) -> NDArray[np.float64]:
    """The interarrival jitter after each packet, in ms (RFC 3550 section 6.4.1)."""
    came = np.flatnonzero(~np.isnan(arrived.seen_s))
    order = came[np.argsort(arrived.seen_s[came], kind="stable")]
    transit_ms = (arrived.seen_s[order] - arrived.stamps[order] / clock) * 1e3
    jitter, found = 0.0, np.zeros(max(len(order) - 1, 1))
    for index, difference in enumerate(np.abs(np.diff(transit_ms)).tolist()):
        jitter += (difference - jitter) / 16
        found[index] = jitter
    return found


def _lateness_ms(arrived: _Arrived, clock: int) -> NDArray[np.float64]:
    """How much longer each packet took than the fastest around it, in ms; NaN if it did not come.

    The least of its block of time and of the one before, so that clocks may drift.
    """
    transit_ms = (arrived.seen_s - arrived.stamps / clock) * 1e3
    came = np.flatnonzero(~np.isnan(transit_ms))
    block = ((arrived.seen_s[came] - arrived.seen_s[came].min()) / _BLOCK_S).astype(np.int64)
    numbers, which = np.unique(block, return_inverse=True)
    least = np.full(len(numbers), np.inf)
    np.minimum.at(least, which, transit_ms[came])
    before = np.minimum(least, np.concatenate([least[:1], least[:-1]]))
    late = np.full(len(transit_ms), np.nan)
    late[came] = transit_ms[came] - before[which]
    return late


def _repaired_ms(
    arrived: _Arrived,
    late_ms: NDArray[np.float64],
    stream: rtp.Stream,
    redundant: redundancy.Redundant,
    clock: int,
) -> NDArray[np.float64]:
    """How late each frame is with what later packets repeat; NaN where it did not come at all."""
    stamps = arrived.stamps
    places = redundancy.copies(stream, redundant, stamps)
    carriers = stream.numbers[redundant.of] - stream.numbers.min()
    known = (places >= 0) & (carriers < len(late_ms))
    places, carriers, of = places[known], carriers[known], redundant.stamps[known]
    # The same clock: a repetition is later than its packet by what its frame is older.
    found = late_ms[carriers] + (stamps[carriers] - of) / clock * 1e3
    best = late_ms.copy()
    np.fmin.at(best, places, found)
    return best


class _Heard:
    """What a listener hears with other settings, by the E-model."""

    def __init__(
        self,
        lost: NDArray[np.bool_],
        late_ms: NDArray[np.float64],
        packet_ms: float,
        delay_ms: float | None,
        codec: str | None,
        *,
        is_redundant: bool = False,
    ) -> None:
        self.is_redundant = is_redundant
        self.lost, self.late_ms, self.packet_ms = lost, late_ms, packet_ms
        self.delay_ms = delay_ms or 0.0
        self.codec = codec or ""
        sources = {str(one["name"]): str(one["source"]) for one in _engine.codecs()}
        self.is_wideband = "wideband" in sources.get(self.codec, "")

    def is_late(self, depth_ms: float) -> NDArray[np.bool_]:
        """Which packets a jitter buffer of this depth does not play."""
        return np.asarray(np.nan_to_num(self.late_ms) > depth_ms)

    def mos(
        self,
        *,
        lost: bool = True,
        late: bool = True,
        depth_ms: float = DEPTH_MS,
        path_ms: float | None = None,
        listening: bool = True,
        is_doubled: bool = False,
    ) -> float:
        """The MOS with some of the causes, and other settings.

        Parameters
        ----------
        lost, late, listening
            Whether losses, packets that are late, and the delay of packets and buffer count.
        depth_ms
            Of the jitter buffer.
        path_ms
            Delay of the path; what is known of it if not given.
        is_doubled
            Whether each packet has the speech of the one before it once more (RFC 2198).
        """
        missing = np.zeros(len(self.lost), dtype=bool)
        if lost:
            missing |= self.lost
        if late:
            missing |= self.is_late(depth_ms)
        if is_doubled:
            missing[:-1] &= missing[1:]
        delay_ms = self.delay_ms if path_ms is None else path_ms
        if listening:
            delay_ms += self.packet_ms * (2 if is_doubled else 1) + depth_ms
        terms: dict[str, float | str] = {
            "form": "g107_1" if self.is_wideband else "g107",
            "codec": self.codec,
            "delay_ms": delay_ms,
            "loss": float(missing.mean()),
        }
        if not self.is_wideband:
            terms["burst_ratio"] = burst_ratio(missing)
        return float(_engine.emodel(terms)[-1][1])

    def call(self, flow: str, section: str) -> Call:
        """The rating, and what each cause costs: the mean over all orders of taking it away."""
        late = self.is_late(DEPTH_MS)
        kinds = [
            ("loss", int(self.lost.sum()), 0.0),
            ("late", int((late & ~self.lost).sum()), 0.0),
            ("listening", 0, self.packet_ms + DEPTH_MS),
            ("delay", 0, self.delay_ms),
        ]
        causes = [one for one in kinds if one[1] or one[2]]
        names = [name for name, _, _ in causes]
        worth = np.array([self._with(names, active) for active in range(1 << len(names))])
        costs = [
            Cost(name, "", count, ms, shapley(worth, len(names), index))
            for index, (name, count, ms) in enumerate(causes)
        ]
        costs.sort(key=lambda cost: -cost.mos)
        return Call(
            flow, "", section, len(self.lost), float(worth[-1]), float(worth[0]), tuple(costs), 0.0
        )

    def _with(self, names: Sequence[str], active: int) -> float:
        on = {name for index, name in enumerate(names) if active >> index & 1}
        return self.mos(
            lost="loss" in on,
            late="late" in on,
            listening="listening" in on,
            path_ms=self.delay_ms if "delay" in on else 0.0,
        )

    def delayed(self) -> list[tuple[float, float]]:
        """The MOS with other delays of the path."""
        return [(delay_ms, self.mos(path_ms=delay_ms)) for delay_ms in _DELAYS_MS]

    def others(self) -> list[tuple[str, float]]:
        """What would help by what counts, the best first."""
        depth_ms, mos = max(
            ((depth_ms, self.mos(depth_ms=depth_ms)) for depth_ms in _DEPTHS_MS),
            key=lambda one: one[1],
        )
        found = [(f"a jitter buffer of {depth_ms:g} ms", mos)]
        if not self.is_redundant:
            doubled = self.mos(is_doubled=True)
            found.append(("each frame once more in the next packet (RFC 2198)", doubled))
        if self.is_late(DEPTH_MS).any():
            spared = self.mos(late=False)
            found.append(("no waiting (a queue of its own at the slowest link)", spared))
        if self.codec == "g711":
            concealing = _Heard(self.lost, self.late_ms, self.packet_ms, self.delay_ms, "g711+plc")
            found.append(("concealment of losses (g711+plc)", concealing.mos()))
        now = self.mos()
        return sorted((o for o in found if o[1] >= now + RELEVANT), key=lambda one: -one[1])
