"""RTP among the datagrams of UDP (RFC 3550), known by how it behaves.

Nothing on the wire says that a datagram is RTP, and many protocols have the two bits of its
version where it has them. A stream of RTP has one source (SSRC), numbers that mostly step by one,
a time stamp that grows with them, and payload types that are assigned or dynamic.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .holes import Integers, Vector, unwrapped

VERSION = 2

FEWEST_PACKETS = 10
"""Of a stream."""

_STEPS = 0.5
"""The least part of the numbers that are followed by the next one: up to half may be lost."""

_NEAR = 0.9
"""The least part of the steps that are no jump, and of the stamps that do not go back."""

_JUMP = 100
"""Numbers further from each other than this are no neighbours, whatever was lost."""

CLOCKS = (8000, 16000, 48000, 90000, 44100, 22050, 32000, 24000, 12000, 11025)
"""Clock rates of time stamps in Hz (RFC 3551 section 6, RFC 7587)."""

_ASSIGNED = frozenset({0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 25, 26, 28})
_ASSIGNED |= {31, 32, 33, 34}
DYNAMIC = frozenset({*range(35, 64), *range(96, 128)})
"""96 to 127, and where those do not suffice 35 to 63 (RFC 3551 section 3, RFC 5761 section 4)."""

PAYLOADS: dict[int, tuple[str, int]] = {
    0: ("PCMU", 8000),
    3: ("GSM", 8000),
    4: ("G723", 8000),
    8: ("PCMA", 8000),
    9: ("G722", 8000),
    15: ("G728", 8000),
    18: ("G729", 8000),
}
"""Payload type -> the encoding of speech and the clock's rate in Hz (RFC 3551 tables 4 and 5)."""

_COMFORT_NOISE = 13
_CODECS = {
    "PCMU": "g711+plc",
    "PCMA": "g711+plc",
    "GSM": "gsm-fr",
    "G722": "g722",
    "G729": "g729a+vad",
}


def codec_of(payload_type: int) -> str | None:
    """The codec of `anabranch list codecs` that a payload type stands for; None where it is open.

    A dynamic type says nothing by itself: its codec was agreed on before (SDP). G.723.1 has two
    rates, of which the type says none. Receivers of G.711 are taken to conceal losses (its Appendix
    I), and those of G.729 to have what G.113 rates, G.729A with silence suppression.
    """
    encoding, _ = PAYLOADS.get(payload_type, ("", 0))
    return _CODECS.get(encoding)


class Stream(NamedTuple):
    """The packets of one source of RTP, in the order of the file."""

    source: int
    """Its SSRC."""
    payload_type: int
    """That of most packets that are not comfort noise."""
    rows: Integers
    """Where its packets are among the datagrams."""
    numbers: Integers
    """Their sequence numbers, which do not start over here."""
    stamps: Integers
    """Their time stamps, likewise, in ticks of the clock."""
    clock_hz: int | None
    """What ticks: that of the payload type, or the rate that fits the times; None where none does.
    """


def streams(
    is_candidate: NDArray[np.bool_],
    payload_types: NDArray[np.integer],
    numbers: NDArray[np.integer],
    stamps: NDArray[np.integer],
    sources: NDArray[np.integer],
    *,
    seen_s: Vector,
) -> list[Stream]:
    """The streams of RTP among the datagrams from one address and port to another.

    Parameters
    ----------
    is_candidate
        Whether a datagram has room for RTP's header, its version, and no packet type of RTCP (192
        to 223 in the second byte, RFC 5761 section 4).
    payload_types, numbers, stamps, sources
        What its header would say: 7 bits, 16 bits, 32 bits, 32 bits.
    seen_s
        When each was captured, in s.

    Returns
    -------
    The streams with most packets first; none where the datagrams do not behave so.
    """
    known = np.isin(payload_types, sorted(_ASSIGNED | DYNAMIC))
    candidates = np.flatnonzero(is_candidate & known)
    if len(candidates) < FEWEST_PACKETS:
        return []
    names, which, counts = np.unique(sources[candidates], return_inverse=True, return_counts=True)
    order = np.argsort(which, kind="stable")
    edges = np.concatenate([[0], np.cumsum(counts)])
    found = []
    for index in np.flatnonzero(counts >= FEWEST_PACKETS).tolist():
        rows = candidates[order[edges[index] : edges[index + 1]]]
        whole = unwrapped(numbers[rows], 16)
        ticks = unwrapped(stamps[rows], 32)
        if _behaves(whole, ticks):
            kind = _payload_type(payload_types[rows])
            clock = _clock(kind, ticks, seen_s[rows])
            found.append(Stream(int(names[index]), kind, rows, whole, ticks, clock))
    found.sort(key=lambda stream: -len(stream.rows))
    return found


def _behaves(numbers: Integers, stamps: Integers) -> bool:
    """Whether numbers step by one and stamps grow as those of RTP do."""
    different = np.unique(numbers)
    if len(different) < max(FEWEST_PACKETS, len(numbers) / 2):
        return False
    if (np.diff(different) == 1).mean() < _STEPS:
        return False
    if np.ptp(numbers) > _JUMP * len(numbers) or (np.abs(np.diff(numbers)) <= _JUMP).mean() < _NEAR:
        return False
    grown = np.diff(stamps[np.argsort(numbers, kind="stable")])
    return bool(np.ptp(stamps) > 0 and (grown >= 0).mean() >= _NEAR)


def _payload_type(payload_types: NDArray[np.integer]) -> int:
    speech = payload_types[payload_types != _COMFORT_NOISE]
    counts = np.bincount(speech if len(speech) else payload_types, minlength=1)
    return int(counts.argmax())


def _clock(payload_type: int, stamps: Integers, seen_s: Vector) -> int | None:
    """The clock's rate: the type's, or that known rate which fits the times within 1 %."""
    if payload_type in PAYLOADS:
        return PAYLOADS[payload_type][1]
    took_s = float(np.ptp(seen_s))
    if took_s <= 0:
        return None
    rate = float(stamps[-1] - stamps[0]) / took_s
    return next((clock for clock in CLOCKS if abs(rate / clock - 1) < 0.01), None)


def missing(stream: Stream) -> NDArray[np.bool_]:
    """For each number from the first to the last whether it never came.

    A packet that was overtaken has come. Numbers that jump as a whole (a source that began anew)
    count as many losses as their distance.
    """
    at = stream.numbers - stream.numbers.min()
    lost = np.ones(int(at.max()) + 1, dtype=bool)
    lost[at] = False
    return lost
