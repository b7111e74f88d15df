"""Packets of a capture in bounded memory: all where they are few, else those of its largest flows.

A capture with more packets than may be kept is read twice: once for what each flow carries, and
once more for the packets of the flows that were chosen, from the first one on.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import flows
from .capture import Capture
from .gathered import chosen, joined
from .packets import SCTP, Packets

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

MOST_FLOWS = 1 << 18
"""That are counted at a time; beyond it, the smaller half is forgotten."""

_JOINING = (0, 1)
"""MP_CAPABLE and MP_JOIN (RFC 8684 section 3): the options by which subflows are put together."""

_MOST_SUBFLOWS = 16
"""Of Multipath TCP that are kept beside a chosen one."""

_MOST_JOINING = 4096
"""Packets of other subflows that are kept for what they join."""


class Listed(NamedTuple):
    """Flows, those with the most payload first: each by the first packet that was seen of it."""

    protocol: Integers
    source: Integers
    """Index into `Capture.addresses`."""
    source_port: Integers
    destination: Integers
    destination_port: Integers


class Kept(NamedTuple):
    """The packets that are looked at."""

    packets: Packets | None
    """None where there is none."""
    others: int = 0
    """Flows whose packets are not among them."""
    of: int = 0
    """How many packets the flows have that were chosen; 0 where all packets are there."""
    end_ns: int = 0
    """When the last of these was seen."""

    @property
    def is_cut(self) -> bool:
        """Whether the flows go on behind these packets."""
        return self.packets is not None and self.of > len(self.packets)


def read(
    capture: Capture,
    used: Callable[[Packets], Flags],
    choose: Callable[[Listed], Collection[int]],
    most: int,
    told: Callable[[Packets], None] = lambda _: None,
) -> Kept:
    """The packets of a capture that are used, at most so many.

    Parameters
    ----------
    capture
        It is read to its end; what it says of itself is that of all its packets.
    used
        Which packets of a batch are used.
    choose
        Which flows, by their numbers in the list, are kept where there are more packets.
    most
        How many packets are kept.
    told
        Told each batch, once.
    """
    parts: list[Packets] = []
    count = 0
    table: _Table | None = None
    for batch in capture.batches():
        told(batch)
        rows = np.flatnonzero(used(batch))
        count += len(rows)
        if not len(rows):
            continue
        if table is not None:
            table.add(batch, rows)
            continue
        parts.append(chosen(batch, rows))
        if count > most:
            table = _Table()
            for part in parts:
                table.add(part, np.arange(len(part)))
            parts.clear()
    return Kept(joined(parts)) if table is None else _again(capture, used, choose, most, table)


def _again(
    capture: Capture,
    used: Callable[[Packets], Flags],
    choose: Callable[[Listed], Collection[int]],
    most: int,
    table: "_Table",
) -> Kept:
    keys, joining = table.chosen(choose)
    parts: list[Packets] = []
    left, left_joining = most, _MOST_JOINING if joining else 0
    for batch in capture.again().batches():
        rows = np.flatnonzero(used(batch))
        is_own = np.isin(_keys(batch, rows), keys)
        if left_joining:
            options = batch.multipath
            others = np.unique(options.packet[np.isin(options.kind, _JOINING)])
            others = others[np.isin(others, rows[~is_own])][:left_joining]
            left_joining -= len(others)
            is_own |= np.isin(rows, others)
        rows = rows[is_own][:left]
        left -= len(rows)
        if len(rows):
            parts.append(chosen(batch, rows))
        if not left:
            break
    of = table.packets(keys)
    packets = joined(parts)
    return Kept(packets, len(table.key) - len(keys), of, table.end_ns(keys))


@dataclass
class _Table:
    """What each flow carries: columns in the order of their keys."""

    key: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    column: Integers = field(default_factory=lambda: np.zeros((8, 0), dtype=np.int64))
    """Payload, packets, when the last one was seen, whether it has options of Multipath TCP, and
    source, port, destination, port of the first one.
    """

    def add(self, packets: Packets, rows: Integers) -> None:
        names, first, which = np.unique(
            _keys(packets, rows), return_index=True, return_inverse=True
        )
        column = np.zeros((8, len(names)), dtype=np.int64)
        column[0] = np.bincount(which, weights=packets.payload[rows]).astype(np.int64)
        column[1] = np.bincount(which)
        np.maximum.at(column[2], which, packets.time_ns[rows])
        options = packets.multipath
        joins = options.packet[np.isin(options.kind, _JOINING)]
        column[3][which[np.isin(rows, joins)]] = 1
        of = rows[first]
        column[4], column[5] = packets.source[of], packets.source_port[of]
        column[6], column[7] = packets.destination[of], packets.destination_port[of]
        at = np.searchsorted(self.key, names)
        known = at < len(self.key)
        known[known] = self.key[at[known]] == names[known]
        old = at[known]
        self.column[:2, old] += column[:2, known]
        self.column[2:4, old] = np.maximum(self.column[2:4, old], column[2:4, known])
        self.key = np.insert(self.key, at[~known], names[~known])
        self.column = np.insert(self.column, at[~known], column[:, ~known], axis=1)
        if len(self.key) > MOST_FLOWS:
            largest = np.argsort(-self.column[0], kind="stable")[: MOST_FLOWS // 2]
            kept = np.sort(largest)
            self.key, self.column = self.key[kept], self.column[:, kept]

    def chosen(
        self, choose: Callable[[Listed], Collection[int]]
    ) -> tuple[NDArray[np.uint64], bool]:
        """The keys of the flows that are chosen, and whether some are subflows."""
        order = np.argsort(-self.column[0], kind="stable")
        protocol = (self.key[order] & np.uint64(255)).astype(np.int64)
        wanted = order[sorted(choose(Listed(protocol, *self.column[4:, order])))]
        joins = bool(self.column[3][wanted].any())
        if joins:
            subflows = order[self.column[3][order] > 0][:_MOST_SUBFLOWS]
            wanted = np.union1d(wanted, subflows)
        return self.key[np.sort(wanted)], joins

    def packets(self, keys: NDArray[np.uint64]) -> int:
        return int(self.column[1][np.isin(self.key, keys)].sum())

    def end_ns(self, keys: NDArray[np.uint64]) -> int:
        return int(self.column[2][np.isin(self.key, keys)].max())


def _keys(packets: Packets, rows: Integers) -> NDArray[np.uint64]:
    """A hash of both ends of each packet, the protocol in its lowest byte.

    An association of SCTP has several addresses: its ports alone count.
    """
    protocol = packets.protocol[rows]
    is_sctp, port = protocol == SCTP, (1 << flows.PORT_BITS) - 1
    ends = [np.where(is_sctp, end & port, end) for end in flows.ends(packets, rows)]
    low = np.minimum(*ends).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    high = np.maximum(*ends).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (low ^ (low >> np.uint64(29))) + (high ^ (high >> np.uint64(32)))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(
        (mixed ^ (mixed >> np.uint64(31))) & ~np.uint64(255) | protocol.astype(np.uint64),
        dtype=np.uint64,
    )
