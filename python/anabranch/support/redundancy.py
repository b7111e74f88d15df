"""Redundant audio in RTP (RFC 2198): packets that repeat the frames before their own.

Its payload type is a dynamic one, which SDP says and a capture does not. It is known by how its
payloads behave: they begin with headers of blocks, the lengths of which fit, and whose time stamps
lead back to frames that were sent before.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .holes import Integers
from .rtp import DYNAMIC, Stream

_MOST_BLOCKS = 9
"""Headers of blocks that are read of a packet."""

_SURE = 0.9
"""The least part of the packets, and of the blocks, that have to behave so."""

_FEWEST = 0.5
"""The least part of the packets that repeat something."""


class Redundant(NamedTuple):
    """What the packets of a stream carry besides their own frame."""

    payload_type: int
    """That of the frames themselves."""
    repeats: int
    """How many frames most packets repeat."""
    of: Integers
    """Of each block that repeats a frame: which packet of the stream it is in, ..."""
    stamps: Integers
    """... and the time stamp of its frame."""


def found(
    stream: Stream,
    head: NDArray[np.uint8],
    captured: NDArray[np.integer],
    payload: NDArray[np.integer],
) -> Redundant | None:
    """The redundancy of a stream; None where its payloads do not behave so.

    Parameters
    ----------
    stream
        The packets of one source.
    head
        The first bytes of each of its datagrams, of shape (n, bytes).
    captured
        How many of them are there.
    payload
        How long the whole datagram was.
    """
    if stream.payload_type not in DYNAMIC or not len(head):
        return None
    rows = np.arange(len(head))
    wide = np.pad(head, ((0, 0), (0, 4)))
    # CSRCs and an extension come before the payload (RFC 3550 sections 5.1 and 5.3.1).
    at = 12 + 4 * (head[:, 0] & 15).astype(np.int64)
    has_extension = head[:, 0] & 16 != 0
    place = np.minimum(at + 2, head.shape[1])
    words = wide[rows, place].astype(np.int64) << 8 | wide[rows, place + 1]
    at += np.where(has_extension, 4 + 4 * words, 0)
    kinds = np.full(len(head), -1)
    octets = np.zeros(len(head), dtype=np.int64)
    blocks: list[tuple[Integers, Integers]] = []
    open_ = np.ones(len(head), dtype=bool)
    for _ in range(_MOST_BLOCKS):
        open_ &= at < np.minimum(captured, head.shape[1])
        if not open_.any():
            break
        here = rows[open_]
        one, two, three, four = (
            wide[here, np.minimum(at[here], head.shape[1]) + step].astype(np.int64)
            for step in range(4)
        )
        # RFC 2198 section 3: F, 7 bits of the payload type, then 14 bits of how much older the
        # time stamp is and 10 bits of the block's length; without F, the header ends there.
        is_last = one & 128 == 0
        kinds[here[is_last]] = one[is_last] & 127
        at[here] += np.where(is_last, 1, 4)
        open_[here[is_last]] = False
        more = ~is_last
        blocks.append((here[more], (two << 6 | three >> 2)[more]))
        octets[here[more]] += ((three & 3) << 8 | four)[more]
    is_whole = (kinds >= 0) & (at + octets <= payload) & (kinds != stream.payload_type)
    if is_whole.mean() < _SURE:
        return None
    kind = int(np.bincount(kinds[is_whole]).argmax())
    is_whole &= kinds == kind
    of = np.concatenate([packet for packet, _ in blocks])
    older = np.concatenate([ticks for _, ticks in blocks])
    kept = is_whole[of]
    of, older = of[kept], older[kept]
    step = _step(stream)
    repeating = np.unique(of)
    if is_whole.mean() < _SURE or len(repeating) < _FEWEST * len(head) or step is None:
        return None
    if ((older > 0) & (older % step == 0)).mean() < _SURE:
        return None
    repeats = int(np.bincount(np.bincount(of, minlength=len(head))[repeating]).argmax())
    return Redundant(kind, repeats, of, stream.stamps[of] - older)


def _step(stream: Stream) -> int | None:
    """How many ticks a packet is, as most of them say."""
    order = np.argsort(stream.numbers, kind="stable")
    apart = np.diff(stream.stamps[order])[np.diff(stream.numbers[order]) == 1]
    apart = apart[apart > 0]
    return int(np.median(apart)) if len(apart) else None


def copies(stream: Stream, redundant: Redundant, stamps: NDArray[np.float64]) -> Integers:
    """For each block, the place among `stamps` of the frame that it repeats; -1 without one.

    `stamps` are those of all numbers from the first to the last, in order; NaN where a packet is
    missing, whose stamp then follows from those before it.
    """
    step = _step(stream) or 1
    number = np.arange(len(stamps))
    known = np.flatnonzero(~np.isnan(stamps))
    before = known[np.maximum(np.searchsorted(known, number, side="right") - 1, 0)]
    whole = (stamps[before] + (number - before) * step).astype(np.int64)
    order = np.argsort(whole, kind="stable")
    at = np.minimum(np.searchsorted(whole[order], redundant.stamps), len(whole) - 1)
    places = order[at]
    return np.where(whole[places] == redundant.stamps, places, -1)
