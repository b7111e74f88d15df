"""The time-sequence graph of a flow of a capture, from the columns of its packets.

It is what the place where the data is sent shows: packets that leave there, and acknowledgements
that come there.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anabranch.figures.sequences import Data, Sent, Told, of_ends
from anabranch.support.capture import Capture
from anabranch.support.flows import DATA_CHUNKS, SACK_CHUNKS
from anabranch.support.gathered import chosen, joined
from anabranch.support.packets import SCTP, SYN, TCP, UDP, Packets

from .columns import look
from .flows import Flow
from .journeys import MOST

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

_NEAR_S = 1e-6
"""Times of a flow are rounded."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The packets of a flow, each once, with what tells its path."""

    packets: Packets
    rows: Integers
    seen_s: NDArray[np.float64]
    path: Integers
    """Of all packets; -1 for those of no path."""
    is_sent: Flags
    """Whether the sender sent it, of all packets."""


def sender(flow: Flow) -> int:
    """The side that sends more."""
    octets = [sum(way.octets for way in flow.directions(side)) for side in (0, 1)]
    return int(octets[1] > octets[0])


def sent(file: Path, flow: Flow, side: int, from_s: float = 0.0) -> list[Sent]:
    """What one side of a flow of TCP or SCTP sent, by path; nothing where there is no data.

    Parameters
    ----------
    file
        The capture.
    flow
        The flow, as `explain` found it.
    side
        The side that sends the data.
    from_s
        What comes sooner after the capture's first packet was left out.
    """
    found = _find(file, flow, side, from_s)
    if found is None:
        return []
    names = [path.name for path in flow.paths]
    if flow.protocol == "SCTP":
        return of_ends(_chunks(found), _sacks(found), names, in_chunks=True)
    data, told = _segments(found), _acknowledgements(found, is_multipath=flow.protocol == "MPTCP")
    return of_ends(data, told, names, in_chunks=False)


def _find(file: Path, flow: Flow, side: int, from_s: float) -> _Found | None:
    """Reads the packets of a flow, of its time and place; at most as many as are explained."""
    capture = Capture(file)
    parts: list[Packets] = []
    left = MOST
    first_ns = begun_ns = -1
    for batch in capture.batches():
        used = np.isin(batch.protocol, (TCP, UDP, SCTP)) & ~np.isin(batch.fault, (1, 2))
        first_ns = int(batch.time_ns[0]) if first_ns < 0 else first_ns
        used &= batch.time_ns - first_ns >= from_s * 1e9
        if not used.any():
            continue
        begun_ns = int(batch.time_ns[used].min()) if begun_ns < 0 else begun_ns
        at_s = (batch.time_ns - begun_ns) / 1e9
        used &= (at_s >= flow.start_s - _NEAR_S) & (at_s <= flow.end_s + _NEAR_S)
        path, _ = _paths(batch, capture, flow, side)
        rows = np.flatnonzero(used & (path >= 0))[:left]
        left -= len(rows)
        if len(rows):
            parts.append(chosen(batch, rows))
        if not left:
            break
    packets = joined(parts)
    if packets is None:
        return None
    looked = look(capture, packets)
    path, is_sent = _paths(packets, capture, flow, side)
    return _Found(packets, looked.rows, looked.seen_s + flow.start_s, path, is_sent)


def _paths(packets: Packets, capture: Capture, flow: Flow, side: int) -> tuple[Integers, Flags]:
    """The path of each packet, -1 for none and for what is seen elsewhere, and who sent it."""
    numbers = {address: number for number, address in enumerate(capture.addresses)}
    path = np.full(len(packets), -1, dtype=np.int64)
    is_sent = np.zeros(len(packets), dtype=bool)
    nodes = np.array([place.name.rpartition("@")[2] for place in capture.places], dtype=object)
    for index, one in enumerate(flow.paths):
        way, back = one.ways[side], one.ways[1 - side]
        if way is None:
            continue
        here = nodes[packets.place] == way.near.rpartition("@")[2]
        for direction, is_own in ((way, True), (back, False)):
            if direction is None:
                continue
            source, destination = direction.ends
            is_of = here & (packets.source == numbers.get(source.address, -1))
            is_of &= packets.destination == numbers.get(destination.address, -1)
            is_of &= (packets.source_port == source.port) & (
                packets.destination_port == destination.port
            )
            path[is_of], is_sent[is_of] = index, is_own
    return path, is_sent


def _rows(found: _Found, which: Flags) -> Integers:
    return found.rows[which[found.rows]]


def _segments(found: _Found) -> Data:
    packets = found.packets
    rows = _rows(found, found.is_sent & (packets.payload > 0))
    return Data(
        found.path[rows], found.seen_s[rows], packets.sequence[rows],
        packets.payload[rows].astype(np.int64), np.zeros(len(rows), dtype=bool),
    )  # fmt: skip


def _acknowledgements(found: _Found, *, is_multipath: bool) -> Told:
    packets = found.packets
    rows = _rows(found, ~found.is_sent & (packets.acknowledgement >= 0))
    window = np.full(len(rows), -1, dtype=np.int64)
    for path in [] if is_multipath else np.unique(found.path[rows]).tolist():
        syns = (packets.flags & SYN != 0) & (found.path == path)
        offered = [packets.window_scale[syns & (found.is_sent == own)] for own in (True, False)]
        if all(map(len, offered)):
            has_scale = all(scales.max() >= 0 for scales in offered)
            scale = min(int(offered[1].max()), 14) if has_scale else 0
            is_here = found.path[rows] == path
            own = rows[is_here]
            is_syn = packets.flags[own] & SYN != 0
            window[is_here] = packets.window[own].astype(np.int64) << np.where(is_syn, 0, scale)
    table = packets.sacks
    reported = _by_row(rows, len(packets), table.packet, table.start, table.end)
    expected = packets.acknowledgement[rows]
    return Told(found.path[rows], found.seen_s[rows], expected, window, reported)


def _chunks(found: _Found) -> Data:
    table = found.packets.chunks
    is_data = np.isin(table.kind, DATA_CHUNKS) & (table.number >= 0)
    owner, first = np.unique(table.packet[is_data], return_index=True)
    octets = np.zeros(len(found.packets), dtype=np.int64)
    np.add.at(octets, table.packet[is_data], table.data[is_data])
    number = np.full(len(found.packets), -1, dtype=np.int64)
    number[owner] = table.number[is_data][first]
    rows = _rows(found, found.is_sent & (number >= 0))
    return Data(
        found.path[rows], found.seen_s[rows], number[rows], octets[rows],
        np.zeros(len(rows), dtype=bool),
    )  # fmt: skip


def _sacks(found: _Found) -> Told:
    packets, table = found.packets, found.packets.chunks
    sacks = np.flatnonzero(np.isin(table.kind, SACK_CHUNKS) & (table.number >= 0))
    chunk = np.full(len(packets), -1, dtype=np.int64)
    chunk[table.packet[sacks]] = sacks
    rows = _rows(found, ~found.is_sent & (chunk >= 0))
    of = chunk[rows]
    gaps = packets.gaps
    return Told(
        found.path[rows], found.seen_s[rows], (table.number[of] + 1) & 0xFFFFFFFF,
        table.window[of], _by_row(of, len(table.kind), gaps.chunk, gaps.start, gaps.end),
    )  # fmt: skip


def _by_row(
    rows: Integers, count: int, owner: NDArray[np.int32], start: Integers, end: Integers
) -> list[list[tuple[int, int]]]:
    """The runs that belong to each of these rows of a table of so many."""
    at = np.full(count, -1, dtype=np.int64)
    at[rows] = np.arange(len(rows))
    found: list[list[tuple[int, int]]] = [[] for _ in rows]
    for place, *run in zip(at[owner].tolist(), start.tolist(), end.tolist(), strict=True):
        if place >= 0:
            found[place].append((run[0], run[1]))
    return found
