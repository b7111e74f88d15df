"""Losses and jitter of RTP, as its receiver sees it."""

import numpy as np

from anabranch.support import rtp
from anabranch.support.packets import Packets

from . import regular
from .intervals import Vector
from .measurement import Delays, LossSequence, Measurement

NO_NUMBERS = (
    "the main flow is UDP without RTP, whose packets have no numbers; give two captures, one of "
    "each end"
)
ENCRYPTED = (
    "the main flow is QUIC, which encrypts its packet numbers; give two captures, one of each end, "
    "or one that has the secrets (a decryption secrets block)"
)


def streams(packets: Packets, seen_s: Vector) -> list[rtp.Stream]:
    """The streams of RTP in one direction of a flow of UDP; those with most packets first."""
    head = packets.datagrams.head[:, :12].astype(np.int64)
    row = packets.datagrams.packet
    whole = packets.datagrams.captured >= 12
    second = head[:, 1]
    return rtp.streams(
        whole & (head[:, 0] >> 6 == rtp.VERSION) & ~((second >= 192) & (second <= 223)),
        second & 127,
        _number(head[:, 2:4]),
        _number(head[:, 4:8]),
        _number(head[:, 8:12]),
        seen_s=seen_s[row],
    )


def measure(packets: Packets, seen_s: Vector) -> Measurement:
    """The measurement of the largest stream of RTP in one direction of a flow of UDP."""
    row = packets.datagrams.packet
    stream = streams(packets, seen_s)[0]
    times = seen_s[row[stream.rows]]
    delays = spacing = None
    if stream.clock_hz is not None:
        media_s = stream.stamps / stream.clock_hz
        spacing = regular.between(stream.numbers, media_s)
        relative = times - media_s
        delays = Delays(
            relative - relative.min(), 1, "arrivals against RTP's time stamps", absolute=False
        )
    return Measurement(
        "",
        delays,
        LossSequence(rtp.missing(stream), "gaps in RTP's sequence numbers", spacing_s=spacing),
        notes=["a capture of RTP at its receiver has no delays, only how they differ"],
    )


def _number(octets: np.ndarray) -> np.ndarray:
    """The number that the bytes of each row write, the first one highest."""
    found = np.zeros(len(octets), dtype=np.int64)
    for column in octets.T:
        found = found << 8 | column
    return found
