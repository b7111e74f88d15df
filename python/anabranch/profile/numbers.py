"""What each side of a connection sends with numbers, and how the other one acknowledges it.

TCP numbers bytes (RFC 9293), SCTP chunks of data (RFC 9260). Keep-alives and probes of a closed
window repeat a number, or send a byte that nobody has room for, on purpose: they are no data here.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch import _engine
from anabranch.support import segments
from anabranch.support.flows import DATA_CHUNKS, SACK_CHUNKS
from anabranch.support.gathered import beside, bytes_of
from anabranch.support.holes import apart, unwrapped
from anabranch.support.packets import FIN, RST, SYN, Packets

from .intervals import Vector
from .loss import Flags

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Data:
    """Segments of TCP, or chunks of SCTP, in the order in which they were seen."""

    row: Integers
    """The row of its packet in the flow."""
    seen_s: Vector
    start: Integers
    end: Integers
    """The first number, and the one behind the last; they do not start over."""
    octets: Vector
    """Bytes of its IP packet; of several chunks in one packet, the first one has them."""
    sent: Vector
    """Bytes that a link transmits until it has passed: those of its packet, or with offload those
    of the segments of its packet that go before it, too.
    """
    is_user: Flags
    """Whether it carries data of the user; SYN and FIN alone do not."""
    is_syn: Flags

    def only(self, kept: Flags) -> "Data":
        """Some of the rows."""
        return Data(
            self.row[kept], self.seen_s[kept], self.start[kept], self.end[kept],
            self.octets[kept], self.sent[kept], self.is_user[kept], self.is_syn[kept],
        )  # fmt: skip


class Selective(NamedTuple):
    """What acknowledgements report above gaps (RFC 2018; RFC 9260 section 3.3.4)."""

    of: Integers
    """Which acknowledgement."""
    start: Integers
    end: Integers
    """The first number, and the one behind the last, in the line of the data's."""


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """What the other side says about the data, in the order in which it was seen."""

    row: Integers
    seen_s: Vector
    number: Integers
    """The next number that it expects, in the line of the data's."""
    is_alone: Flags
    """Whether it came without data of the other side, so that no user had to write first."""
    is_closed: Flags
    """TCP: whether the window has no room at all."""
    selective: Selective

    def news(self, data: Data) -> Integers:
        """How many numbers of the data each reports for the first time.

        What was sent before the capture began may have arrived before it, too, and is not counted.
        """
        before = np.concatenate([data.start[:1], np.maximum.accumulate(data.end)[:-1]])
        gaps = np.flatnonzero(data.start > before)
        columns = {"number": self.number} | {
            f"selective.{name}": column for name, column in self.selective._asdict().items()
        }
        first = self.number[:1]
        columns |= {
            "known.start": np.concatenate([first, before[gaps]]),
            "known.end": np.concatenate(
                [np.maximum(data.start[: len(first)], first), data.start[gaps]]
            ),
        }
        found = _engine.newly_acknowledged(bytes_of(columns))
        return np.frombuffer(found, np.int64)


@dataclass(frozen=True, slots=True)
class Side:
    """One direction of a connection."""

    data: Data
    acknowledgements: Acknowledgements
    full: int
    """The numbers of a full segment; SCTP numbers chunks, so that it is 1."""
    probes: int = 0
    """Keep-alives and probes of a closed window, which are left out."""
    has_offload: bool = False
    """Whether some of its packets are several segments."""
    is_cut: bool = False
    """Whether it has more segments than are looked at."""
    whole: Data | None = None
    """What an association sends on all its paths: what one of them loses it may send again on
    another one (RFC 9260 section 6.4.1); None where that is `data`.
    """
    on_path: Flags | None = None
    """Of `whole`, which rows are those of `data`."""


def of_tcp(packets: Packets, seen_s: Vector, own: Flags, fixed: int) -> Side:
    """What TCP segments of one side say.

    Parameters
    ----------
    packets
        Both directions of a connection.
    seen_s
        When each was seen.
    own
        Which ones this side has sent.
    fixed
        Bytes of headers without options.
    """
    usable = (packets.sequence >= 0) & (packets.flags & RST == 0)
    answers = ~own & usable & (packets.acknowledgement >= 0)
    rows = np.flatnonzero((own & usable) | answers)
    number = np.where(own[rows], packets.sequence[rows], packets.acknowledgement[rows])
    line = np.zeros(len(packets), dtype=np.int64)
    line[rows] = unwrapped(number, 32)
    acks = np.flatnonzero(answers)
    sacks, _ = beside(packets.sacks, "packet", acks, len(packets))
    of = acks[sacks.packet]
    acknowledgements = Acknowledgements(
        acks, seen_s[acks], line[acks],
        packets.payload[acks] == 0, (packets.window[acks] == 0) & (packets.flags[acks] & SYN == 0),
        Selective(
            sacks.packet,
            *(line[of] + apart(edge, packets.acknowledgement[of])
              for edge in (sacks.start, sacks.end)),
        ),
    )  # fmt: skip
    sent = np.flatnonzero(own & usable)
    payload = packets.payload[sent].astype(np.int64)
    ends = packets.flags[sent] & (SYN | FIN)
    start, end = line[sent], line[sent] + payload + (ends & SYN > 0) + (ends & FIN > 0)
    probing = _probes((sent, start, end, payload), ends == 0, acknowledgements)
    kept = (end > start) & ~probing
    sent, start, end, payload = sent[kept], start[kept], end[kept], payload[kept]
    octets = packets.octets[sent].astype(np.int64)
    says = (packets.flags & SYN != 0) & (packets.mss > 0)
    announced = [packets.mss[says & way] for way in (own, ~own)]
    mine, peers = (int(values.min()) if len(values) else None for values in announced)
    most = segments.largest(payload, octets - payload, fixed, (mine, peers))
    used = segments.within(payload, most)
    sent, start, end, payload = sent[:used], start[:used], end[:used], payload[:used]
    cut = segments.split(start, end, payload, octets[:used], most[:used])
    row = sent[cut.packet]
    data = Data(
        row, seen_s[row], cut.start, cut.end,
        cut.octets.astype(float), cut.sent.astype(float),
        payload[cut.packet] > 0, packets.flags[row] & SYN != 0,
    )  # fmt: skip
    full = int(np.quantile((cut.end - cut.start), 0.9)) if len(row) else 1
    return Side(
        data, acknowledgements, full, int(probing.sum()), len(row) > len(sent), used < len(octets)
    )


def _probes(
    sent: tuple[Integers, Integers, Integers, Integers],
    plain: Flags,
    acknowledgements: Acknowledgements,
) -> Flags:
    """Keep-alives (RFC 9293 section 3.8.4) and probes of a closed window (section 3.8.6.1).

    A keep-alive has the number before the next one, with that byte or without, after everything
    was acknowledged. A probe has at most a byte, old or new, while the window is closed.

    Parameters
    ----------
    sent
        Of each segment: its row, the number of its first byte, that behind its last one, and its
        bytes of payload.
    plain
        Whether it has neither SYN nor FIN.
    acknowledgements
        What the other side says.
    """
    row, start, end, payload = sent
    if not len(row) or not len(acknowledgements.row):
        return np.zeros(len(row), dtype=bool)
    # The next number, as far as this side has data before.
    highest = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    at = np.searchsorted(acknowledgements.row, row) - 1
    told = at >= 0
    acknowledged = np.maximum.accumulate(acknowledgements.number)[np.maximum(at, 0)]
    closed = acknowledgements.is_closed[np.maximum(at, 0)]
    done = acknowledged >= highest
    with_byte = (payload == 1) & (
        (done & (start == highest - 1)) | (closed & (start >= acknowledged - 1))
    )
    # Without a byte, what has a new number acknowledges something.
    without = (payload == 0) & (start == acknowledged - 1) & (done | closed)
    small = plain & (with_byte | without)
    return np.asarray(small & told)


def of_sctp(packets: Packets, seen_s: Vector, own: Flags, on_path: Flags) -> Side:
    """What the chunks of one side say; its data only where its packets are on the path."""
    chunks = packets.chunks
    row = chunks.packet.astype(np.int64)
    is_data = np.isin(chunks.kind, DATA_CHUNKS) & own[row]
    is_answer = np.isin(chunks.kind, SACK_CHUNKS) & ~own[row]
    used = np.flatnonzero((is_data | is_answer) & (chunks.number >= 0))
    line = unwrapped(chunks.number[used], 32)
    data, answer = is_data[used], is_answer[used]
    at = row[used]
    has_data = np.zeros(len(packets), dtype=bool)
    has_data[row[np.isin(chunks.kind, DATA_CHUNKS)]] = True
    gaps, _ = beside(packets.gaps, "chunk", used[answer], len(chunks.packet))
    shift = (line[answer] - chunks.number[used[answer]])[gaps.chunk]
    acknowledgements = Acknowledgements(
        at[answer], seen_s[at[answer]], line[answer] + 1, ~has_data[at[answer]],
        np.zeros(int(answer.sum()), dtype=bool),
        Selective(gaps.chunk, gaps.start + shift, gaps.end + shift),
    )  # fmt: skip
    sent, start = at[data], line[data]
    octets = packets.octets[sent].astype(float)
    is_first = np.diff(sent, prepend=-1) != 0
    yes = np.ones(len(sent), dtype=bool)
    whole = Data(
        sent, seen_s[sent], start, start + 1, np.where(is_first, octets, 0.0), octets, yes, ~yes
    )
    here = on_path[sent]
    return Side(whole.only(here), acknowledgements, 1, whole=whole, on_path=here)


def closed_s(acknowledgements: Acknowledgements, end_s: float) -> float:
    """For how long the receiver's window was closed, in s."""
    if not acknowledgements.is_closed.any():
        return 0.0
    until = np.append(acknowledgements.seen_s[1:], end_s)
    return float(np.maximum(until - acknowledgements.seen_s, 0.0)[acknowledgements.is_closed].sum())
