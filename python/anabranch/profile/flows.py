"""Reads from a capture's packets the round-trip times, losses and deliveries of its main flow.

Round-trip times come from ICMP echoes and SCTP heartbeats with their answers; from data and its
acknowledgements, except for data sent twice (P. Karn, C. Partridge, SIGCOMM 1987); and in a capture
at the receiver, from TCP's timestamps and their echoes (RFC 7323 section 4). Losses come from gaps
in the sequence numbers of RTP and of ICMP echoes; retransmissions of TCP and SCTP give an estimate.
"""

import hashlib
import struct
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.errors import AnabranchError
from anabranch.support.capture import (
    DAMAGED,
    ICMP,
    ICMP6,
    SCTP,
    TCP,
    UDP,
    Packet,
    left_out,
    rtp_of,
    short_of_header,
    tcp_options,
)

from .intervals import Vector
from .measurement import Delays, Deliveries, LossSequence, Measurement

FEWEST_PACKETS = 10
"""A flow with fewer packets is not used."""

_NAMES = {ICMP: "ICMP echo", ICMP6: "ICMP echo", SCTP: "SCTP", TCP: "TCP", UDP: "UDP"}

DATA, ACK, HEARTBEAT, ANSWER = range(4)
"""Kinds of rows."""

_FIELDS = ("time_s", "forward", "octets", "kind", "number", "following", "stamp", "echo")
ROWS = np.dtype([(name, np.float64) for name in _FIELDS])
"""A row of a flow. The time is in seconds since the first packet (seconds since 1970 would have
steps of 200 ns and more); `forward` is 1 or 0; the fields of a `Row` come after the octets.
"""

Rows = NDArray[np.void]
"""Rows of type `ROWS`, in order of time."""


class Row(NamedTuple):
    """The content of a packet, or of one of its chunks; -1 stands for a missing value.

    A TCP packet becomes a row of DATA and one of ACK. An SCTP packet becomes a row for each chunk,
    of which the first one of DATA has the octets. An RTP packet becomes a row of DATA; so does any
    other UDP packet, but without values.
    """

    kind: int
    number: float
    """DATA: the sequence number; ACK: the acknowledged one; HEARTBEAT and ANSWER: an identity."""
    following: float = -1.0
    """DATA: the number of what follows, or RTP's source; an echo: its sequence number."""
    stamp: float = -1.0
    echo: float = -1.0
    """The echo of TCP's timestamps; RTP has only a stamp."""


class Sample(NamedTuple):
    """A measured delay."""

    seen_s: float
    """When the delay was over, in seconds."""
    delay_s: float
    octets: float
    """The length of the packet that was delayed."""


class Waiting(NamedTuple):
    """Data that has not been acknowledged yet."""

    following: float
    seen_s: float
    octets: float


Key = tuple[int, bytes, bytes]


class Flows:
    """Packets by the hosts, ports and protocol that they belong to."""

    def __init__(self, packets: Iterable[Packet]) -> None:
        self.rows: dict[Key, array[float]] = defaultdict(lambda: array("d"))
        self.octets: Counter[Key] = Counter()
        self.left_out: Counter[str] = Counter()
        """What the flows leave out, with the number of packets."""
        self._first_ns: int | None = None
        for packet in packets:
            reader = _READERS.get(packet.protocol)
            if reader is None:
                missing: str | None = f"packets of IP protocol {packet.protocol}"
            else:
                missing = reader(self, packet)
            if missing is not None:
                self.left_out[missing] += 1

    def add(self, packet: Packet, ends: tuple[bytes, bytes], *rows: Row) -> None:
        """Adds the rows of a packet; `ends` distinguishes flows between the same hosts."""
        one, other = packet.source + ends[0], packet.destination + ends[1]
        forward = one <= other
        key = (packet.protocol, one, other) if forward else (packet.protocol, other, one)
        self.octets[key] += packet.octets
        flow = self.rows[key]
        carrier = next((i for i, row in enumerate(rows) if row.kind == DATA), 0)
        if self._first_ns is None:
            self._first_ns = packet.time_ns
        time_s = (packet.time_ns - self._first_ns) / 1e9
        for i, row in enumerate(rows):
            octets = packet.octets if i == carrier else 0
            flow.extend((time_s, float(forward), octets, *row))

    def main(self) -> tuple[Key, Rows, int]:
        """The flow with the most bytes, its rows, and the number of other flows.

        Among flows with equally many bytes, the one that began first counts.
        """
        wanted = {
            key: octets
            for key, octets in self.octets.items()
            if len(self.rows[key]) >= FEWEST_PACKETS * len(_FIELDS)
        }
        if not wanted:
            raise AnabranchError(
                f"no flow of TCP, SCTP, RTP or ICMP echoes has {FEWEST_PACKETS} packets"
            )
        key = max(wanted, key=lambda key: wanted[key])
        rows = np.frombuffer(self.rows[key]).view(ROWS)
        return key, rows[np.argsort(rows["time_s"], kind="stable")], len(wanted) - 1


def _read_tcp(flows: Flows, packet: Packet) -> str | None:
    """Adds the packet's rows, or says what it is if it has none; the other readers do the same."""
    payload = packet.payload
    if len(payload) < 20:
        return short_of_header(payload, packet.length)
    sequence, acknowledged, offset, flags = struct.unpack_from(">IIBB", payload, 4)
    header = (offset >> 4) * 4
    if not 20 <= header <= packet.length:
        return DAMAGED
    stamp, echo = _tcp_time_stamps(payload[20:header])
    # FIN and SYN take a sequence number each.
    length = packet.length - header + (flags & 0b11).bit_count()
    rows = [Row(DATA, float(sequence), float(sequence + length), stamp)] if length else []
    if flags & 16:
        rows.append(Row(ACK, float(acknowledged), stamp=stamp, echo=echo))
    flows.add(packet, (payload[:2], payload[2:4]), *rows)
    return None


def _tcp_time_stamps(options: bytes) -> tuple[float, float]:
    for kind, value in tcp_options(options):
        if kind == 8 and len(value) == 8:
            stamp, echo = struct.unpack(">II", value)
            return float(stamp), float(echo)
    return -1.0, -1.0


def _read_udp(flows: Flows, packet: Packet) -> str | None:
    payload = packet.payload
    if len(payload) < 8:
        return short_of_header(payload, packet.length)
    row = Row(DATA, -1.0)
    if (rtp := rtp_of(payload)) is not None:
        row = Row(DATA, float(rtp.number), float(rtp.source), float(rtp.stamp))
    flows.add(packet, (payload[:2], payload[2:4]), row)
    return None


def _read_icmp(flows: Flows, packet: Packet) -> str | None:
    payload = packet.payload
    asking, answering = (8, 0) if packet.protocol == ICMP else (128, 129)
    if len(payload) < 8:
        return short_of_header(payload, packet.length)
    if payload[0] not in (asking, answering):
        return "ICMP messages other than echoes"
    identity, sequence = struct.unpack_from(">HH", payload, 4)
    kind = HEARTBEAT if payload[0] == asking else ANSWER
    ends = (payload[4:6], payload[4:6])
    flows.add(packet, ends, Row(kind, float(identity), float(sequence)))
    return None


def _read_sctp(flows: Flows, packet: Packet) -> str | None:
    payload, at = packet.payload, 12
    if len(payload) < 12:
        return short_of_header(payload, packet.length)
    rows: list[Row] = []
    while at + 4 <= len(payload):
        kind, _, length = struct.unpack_from(">BBH", payload, at)
        if length < 4:
            break
        value = payload[at + 4 : at + length]
        if kind == 0 and len(value) >= 4:
            tsn = int.from_bytes(value[:4])
            rows.append(Row(DATA, float(tsn), float(tsn + 1)))
        elif kind == 3 and len(value) >= 4:
            rows.append(Row(ACK, float(int.from_bytes(value[:4]) + 1)))
        elif kind in (4, 5):
            rows.append(Row(HEARTBEAT if kind == 4 else ANSWER, _information(value)))
        for question, answer in _HANDSHAKE:
            if kind in (question, answer):
                which = HEARTBEAT if kind == question else ANSWER
                rows.append(Row(which, float(2**53 + 2 * question)))
        at += (length + 3) // 4 * 4
    flows.add(packet, (payload[:2], payload[2:4]), *rows)
    return "packets' last SCTP chunks, which are cut off" if at + 4 <= packet.length else None


def _information(heartbeat: bytes) -> float:
    """A 52-bit number for the information that a heartbeat carries and its answer repeats."""
    return float(int.from_bytes(hashlib.blake2b(heartbeat, digest_size=8).digest()) >> 12)


_HANDSHAKE = ((1, 2), (2, 10), (10, 11))
"""Chunks that answer each other: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 section 5.1)."""

_READERS = {ICMP: _read_icmp, ICMP6: _read_icmp, SCTP: _read_sctp, TCP: _read_tcp, UDP: _read_udp}


def measure(flows: Flows) -> Measurement:
    """The measurement of the main flow."""
    (protocol, one, other), rows, others = flows.main()
    if protocol in (ICMP, ICMP6):
        weights = rows["kind"] == HEARTBEAT
    elif protocol == UDP:
        weights = np.ones(len(rows))
    else:
        weights = rows["octets"] * (rows["kind"] == DATA)
    side = _direction(rows["forward"], weights)
    if protocol in (ICMP, ICMP6):
        measured = _echoes(rows)
    elif protocol == UDP:
        measured = _rtp(rows[rows["forward"] == side])
    else:
        measured = _acknowledged(rows, side, "TCP" if protocol == TCP else "SCTP")
    start, end = (one, other) if side else (other, one)
    title = f"{_NAMES[protocol]} from {_end(protocol, start)} to {_end(protocol, end)}"
    notes = [*measured.notes, *left_out(flows.left_out)]
    if others:
        notes.append(f"the flow of the most bytes; {others} more are not looked at")
    return Measurement(
        f"{title}, {len(rows)} packets", measured.delays, measured.losses, measured.deliveries,
        None, notes,
    )  # fmt: skip


def _direction(directions: Vector, weights: Vector) -> int:
    """The direction with the largest weight; if both have the same, that of the first row."""
    forward, backward = (float(weights[directions == side].sum()) for side in (1, 0))
    return int(directions[0]) if forward == backward else int(forward > backward)


def _end(protocol: int, end: bytes) -> str:
    address, port = ip_address(end[:-2]), int.from_bytes(end[-2:])
    if protocol in (ICMP, ICMP6):
        return str(address)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def _echoes(rows: Rows) -> Measurement:
    asked, answered = rows[rows["kind"] == HEARTBEAT], rows[rows["kind"] == ANSWER]
    sequence = _unwrapped(asked["following"], 1 << 16)
    sent = dict(zip(sequence.tolist(), asked["time_s"].tolist(), strict=True))
    back = {}
    if len(answered) and len(sequence):
        # An answer belongs to the last question with the same 16 bits.
        for time, number in zip(
            answered["time_s"].tolist(), answered["following"].tolist(), strict=True
        ):
            at = int(np.searchsorted(asked["time_s"], time, side="right")) - 1
            if at < 0:
                continue
            exact = sequence[at] - ((int(sequence[at]) - int(number)) % (1 << 16))
            if exact in sent and exact not in back:
                back[exact] = time - sent[exact]
    if not back:
        raise AnabranchError("no echo was answered, so there is nothing to estimate")
    order = sorted(sent)
    # Questions that may be answered only after the capture's end are left out.
    latest = rows["time_s"][-1] - max(back.values())
    order = [number for number in order if number in back or sent[number] <= latest]
    lost = np.array([number not in back for number in order])
    times = [sent[number] for number in order]
    return Measurement(
        "",
        Delays(np.array([back[n] for n in order if n in back]), 2, "round-trip times of echoes"),
        LossSequence(lost, "echoes without an answer", spacing_s=spacing(times), round_trip=True),
    )


def _rtp(rows: Rows) -> Measurement:
    if (rows["number"] < 0).mean() > 0.5:
        raise AnabranchError(
            "the main flow is UDP without RTP, whose packets have no numbers; give two captures, "
            "one of each end"
        )
    rows = rows[rows["number"] >= 0]
    source = Counter(rows["following"].tolist()).most_common(1)[0][0]
    rows = rows[rows["following"] == source]
    sequence = _unwrapped(rows["number"], 1 << 16)
    first, last = int(sequence.min()), int(sequence.max())
    if last - first > 100 * len(rows):
        raise AnabranchError("the numbers of the main flow's packets jump; it is not RTP")
    lost = np.ones(last - first + 1, dtype=bool)
    lost[sequence - first] = False
    stamps = _unwrapped(rows["stamp"], 1 << 32).astype(float)
    # A tick of the media clock in s; clocks are multiples of 8 kHz, or 44.1 kHz and its fractions.
    delays = regular = None
    if np.ptp(stamps) > 0:
        tick = np.ptp(rows["time_s"]) / (stamps[-1] - stamps[0])
        known = [1 / rate for rate in _CLOCKS if abs(tick * rate - 1) < 0.01]
        if known:
            regular = _regular(sequence, stamps * known[0])
            relative = rows["time_s"] - stamps * known[0]
            delays = Delays(
                relative - relative.min(), 1, "arrivals against RTP's time stamps", absolute=False
            )
    return Measurement(
        "",
        delays,
        LossSequence(lost, "gaps in RTP's sequence numbers", spacing_s=regular),
        notes=["a capture of RTP at its receiver has no delays, only how they differ"],
    )


_CLOCKS = (8000, 16000, 48000, 90000, 44100, 22050, 32000, 24000, 12000, 11025)
"""The clock rates of RTP in Hz (RFC 3551 section 6, RFC 7587)."""


def _acknowledged(rows: Rows, side: int, name: str) -> Measurement:
    """The measurement of TCP or SCTP: one side sends most of the data, the other answers."""
    is_data = rows["kind"] == DATA
    ahead = _round_trips(rows, side) + _answers(rows, side)
    behind = _round_trips(rows, 1 - side) + _echo_times(rows, side) + _answers(rows, 1 - side)
    if not ahead and not behind:
        raise AnabranchError(f"no {name} data was acknowledged, so there is nothing to estimate")
    near = [min((one.delay_s for one in samples), default=0.0) for samples in (ahead, behind)]
    at_sender = bool(ahead) and (not behind or near[0] >= near[1])
    chosen = ahead if at_sender else behind
    times, delays, of_delays = np.array(sorted(chosen)).T
    if at_sender:
        times = times - delays  # when the packets were sent, like the times of the losses
    # For a capture in the middle of the path, each side has a part of the round trip.
    delays = delays + min(near)
    data = rows[is_data & (rows["forward"] == side)]
    octets = None
    if at_sender:
        lost, sent = _sent_again(data, float(rows["time_s"][-1]), float(delays.max()))
        octets = data["octets"][: len(lost)]
    else:
        lost, sent = _gaps(data, float(np.median(delays)))
    place = f"captured at the {'sender' if at_sender else 'receiver'}, as its delays tell"
    if not ahead or not behind:
        place = (
            f"taken to be captured at the {'sender' if at_sender else 'receiver'}: there is no "
            "handshake and no time stamp to tell"
        )
    notes = [place]
    if not at_sender:
        notes.append(
            "a capture at the receiver does not show losses before a pause, nor those of what was "
            "sent again: the loss is at least this"
        )
    return Measurement(
        "",
        Delays(delays, 2, f"round-trip times of {name}", times_s=times, octets=of_delays),
        LossSequence(
            lost, f"{name}'s retransmissions", is_estimate=True, times_s=sent, octets=octets
        )
        if len(lost) >= FEWEST_PACKETS
        else None,
        _deliveries(rows, data, side, at_sender=at_sender, name=name),
        notes=notes,
    )


def _each(rows: Rows) -> Iterator[tuple[float, ...]]:
    """The rows as tuples, which are fast but large, so only some exist at a time."""
    for start in range(0, len(rows), 65_536):
        yield from rows[start : start + 65_536].tolist()


def _round_trips(rows: Rows, side: int) -> list[Sample]:
    """The delays between a side's data and its acknowledgements, as the capture saw them."""
    samples = []
    waiting: deque[Waiting] = deque()
    """Waiting data in the order of its numbers."""
    highest: float | None = None
    tainted: float | None = None
    for time, of, octets, kind, number, after, _, _ in _each(rows):
        if kind == DATA and of == side:
            if highest is not None and not _before(highest, after):
                # A retransmission: up to here, an acknowledgement may be of either transmission.
                tainted = highest
                continue
            highest = after % _WRAP
            # Later chunks of a packet have no octets of their own.
            with_last = not octets and waiting and waiting[-1].seen_s == time
            waiting.append(Waiting(highest, time, waiting[-1].octets if with_last else octets))
        elif kind == ACK and of != side:
            newest = None
            while waiting and not _before(number, waiting[0].following):
                newest = waiting.popleft()
            if newest is None or newest.following != number:
                continue
            if tainted is not None and not _before(tainted, number):
                continue
            tainted = None
            samples.append(Sample(time, time - newest.seen_s, newest.octets))
    return samples


_WRAP = float(1 << 32)


def _before(one: float, other: float) -> bool:
    """Whether a number comes before another in serial number arithmetic (RFC 1982)."""
    return 0 < (other - one) % _WRAP < _WRAP / 2


def _echo_times(rows: Rows, side: int) -> list[Sample]:
    """The delays from an acknowledgement with a new timestamp to the first data that echoes it."""
    samples = []
    seen: dict[float, float] = {}
    full = float(rows["octets"].max(initial=0))
    acknowledgements = rows[rows["kind"] == ACK][["time_s", "forward", "stamp", "echo"]]
    for time, whose, stamp, echo in _each(acknowledgements):
        if stamp < 0:
            continue
        if whose != side:
            seen.setdefault(stamp, time)
        elif echo in seen:
            samples.append(Sample(time, time - seen.pop(echo), full))
            if len(seen) > 10_000:
                seen.clear()
    return samples if (rows["forward"] == side).any() else []


def _answers(rows: Rows, side: int) -> list[Sample]:
    """The delays between a side's questions and their answers."""
    asked: dict[float, float] = {}
    answers = []
    for time, of, _, kind, identity, *_ in _each(rows[rows["kind"] >= HEARTBEAT]):
        if kind == HEARTBEAT and of == side:
            asked[identity] = time
        elif kind == ANSWER and of != side and identity in asked:
            answers.append(Sample(time, time - asked.pop(identity), 0.0))
    return answers


def _sent_again(data: Rows, end: float, round_trip: float) -> tuple[NDArray[np.bool_], Vector]:
    """At the sender: packets sent again later, which count as lost, and the times of all.

    Packets that may have been sent again after the capture's end are left out: those as near to it
    as the longest time between a packet and its retransmission.
    """
    lost = np.zeros(len(data), dtype=bool)
    last: dict[float, int] = {}
    longest = round_trip
    times = data["time_s"]
    for index, number in enumerate(data["number"].tolist()):
        earlier = last.get(number)
        if earlier is not None:
            lost[earlier] = True
            longest = max(longest, float(times[index] - times[earlier]))
        last[number] = index
    # In a short capture, a long pause may be as long as all of it.
    latest = max(end - longest, end / 2)
    known = int(np.searchsorted(times, latest, side="right"))
    return lost[:known], times[:known]


def _gaps(data: Rows, round_trip: float) -> tuple[NDArray[np.bool_], Vector]:
    """At the receiver: holes in the sequence that fill only after a retransmission or never.

    Gives the times of all packets as well. Lost ones are placed after the last packet that arrived
    before them, at the usual spacing: a sender pauses after its losses, not before them.
    """
    if not len(data):
        return np.zeros(0, dtype=bool), np.zeros(0)
    full = float(np.median((data["following"] - data["number"]) % _WRAP))
    usual = float(np.median(np.diff(data["time_s"]))) if len(data) > 1 else 0.0
    lost: list[bool] = []
    times: list[float] = []
    open_: dict[float, tuple[int, float]] = {}
    highest = None
    before = float(data["time_s"][0])
    for time, number, after in _each(data[["time_s", "number", "following"]]):
        if highest is None or not _before(number, highest):
            missing = 0.0 if highest is None else (number - highest) % _WRAP
            count = int(-(-missing // full)) if full > 0 else 0
            if count > 100_000:
                count = 0  # the numbers start again; nothing was lost
            apart = min(usual, (time - before) / (count + 1))
            for hole in range(count):
                open_[(highest + hole * full) % _WRAP] = (len(lost), time)  # type: ignore[operator]
                lost.append(True)
                times.append(before + (hole + 1) * apart)
            highest = after % _WRAP
        elif number in open_:
            index, since = open_.pop(number)
            if time - since < round_trip / 2:
                lost[index] = False  # late rather than lost
                continue
        lost.append(False)
        times.append(time)
        before = time
    return np.array(lost, dtype=bool), np.array(times)


def _deliveries(
    rows: Rows,
    data: Rows,
    side: int,
    *,
    at_sender: bool,
    name: str,
) -> Deliveries | None:
    packets = data[data["octets"] > 0]
    if len(data) < FEWEST_PACKETS or not len(packets):
        return None
    full = float(np.quantile(packets["octets"], 0.9))
    if not at_sender:
        return Deliveries(
            packets["time_s"], packets["octets"], full, f"{name} packets that arrived"
        )
    acknowledged = rows[(rows["kind"] == ACK) & (rows["forward"] != side)]
    numbers = _unwrapped(acknowledged["number"], 1 << 32)
    # Bytes of IP packets for each numbered byte: payload and headers.
    factor = packets["octets"].sum() / max(((data["following"] - data["number"]) % _WRAP).sum(), 1)
    grown = np.maximum.accumulate(numbers)
    octets = np.diff(grown, prepend=grown[:1]) * factor
    keep = octets > 0
    if not keep.any():  # nothing new after the first
        return None
    return Deliveries(
        acknowledged["time_s"][keep], octets[keep].astype(float), full, f"what {name} acknowledged"
    )


def _unwrapped(numbers: Vector, modulus: int) -> NDArray[np.int64]:
    """Turns numbers that start over at `modulus` into numbers that do not."""
    whole = numbers.astype(np.int64)
    if not len(whole):
        return whole
    steps = (np.diff(whole) + modulus // 2) % modulus - modulus // 2
    return np.concatenate([whole[:1], whole[0] + np.cumsum(steps)])


def spacing(times: list[float]) -> float | None:
    """The time between packets, if it is regular; otherwise None."""
    return _regular(np.arange(len(times)), np.array(times))


def _regular(numbers: NDArray[np.int64], times: Vector) -> float | None:
    """The time from one number to the next, if it is regular; some numbers may be missing."""
    order = np.argsort(numbers, kind="stable")
    further = np.diff(numbers[order])
    steps = np.diff(times[order])[further > 0] / further[further > 0]
    if len(steps) < 2 or np.median(steps) <= 0:
        return None
    regular = np.abs(steps / np.median(steps) - 1) < 0.2
    return float(np.median(steps)) if regular.mean() > 0.8 else None
