"""Packets that a capture has more than once: seen twice is not sent twice.

A mirror port, a bridge, a router, `tcpdump -i any` and a tunnel's two ends show a packet several
times, up to some milliseconds apart; only its TTL, its MAC addresses and its VLAN may differ. What
an end sends again has another identification (RFC 6864), another time stamp (RFC 7323), or comes
no sooner than a round trip after the first one, since only an answer or its absence calls for it.
"""

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Vector = NDArray[np.float64]

SAME_IDENTIFICATION_S = 0.5
"""Equal packets with an identification that tells packets apart are one packet for this long: some
paths are captured at both of their ends.
"""

UNKNOWN_ROUND_TRIP_S = 1e-3
"""Taken for the least round trip where none is known: nobody sends again so soon."""

_FEWEST = 3
"""An identification tells packets apart if at least so many packets have different ones."""


def keys(identity: Hashes, content: Hashes) -> Hashes:
    """A number for each packet that its copies have, too, and no other packet.

    Parameters
    ----------
    identity, content
        Hashes of what no router changes, and of all that was captured behind IP's header.
    """
    mixed = content * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(identity ^ mixed ^ (mixed >> np.uint64(32)), dtype=np.uint64)


def tells(key: Hashes, identification: NDArray[np.integer], sender: Integers) -> Flags:
    """Whether each packet's identification tells it apart from what its sender sends again.

    Some systems set 0, or a constant, in packets that are never fragmented (RFC 6864 section 4.1).

    Parameters
    ----------
    key
        See `keys`.
    identification
        Of IPv4, or of a fragment of IPv6; -1 if there is none.
    sender
        A number for the direction of the flow to which each packet belongs.
    """
    if not len(key):
        return np.zeros(0, dtype=bool)
    _, first = np.unique(key, return_index=True)
    of = sender[first]
    pairs = np.unique(np.stack([of, identification[first].astype(np.int64)]), axis=1)
    count = int(sender.max()) + 1
    different = np.bincount(pairs[0], minlength=count)
    packets = np.bincount(of, minlength=count)
    varies = (different >= _FEWEST) & (2 * different > packets)
    return np.asarray(varies[sender] & (identification > 0))


def copies(
    key: Hashes,
    seen_s: Vector,
    flow: Integers,
    *,
    tells_apart: Flags,
    is_numbered: Flags,
    round_trip_s: Vector,
) -> Flags:
    """Which packets are copies of one that the capture has before them.

    Parameters
    ----------
    key
        See `keys`.
    seen_s
        When each was captured, in s, in the order of the file.
    flow
        A number for the flow, of both directions, to which each packet belongs.
    tells_apart
        See `tells`.
    is_numbered
        Whether the packet has numbered content, such as data or SYN. Acknowledgements alone may
        come several times with equal content; they are copies where the flow's other packets have
        some, as far apart.
    round_trip_s
        The least round trip of each packet's flow, in s; infinite or not a number if it is not
        known.
    """
    found = np.zeros(len(key), dtype=bool)
    order = np.argsort(key, kind="stable")
    equal = np.flatnonzero(key[order][1:] == key[order][:-1])
    if not len(equal):
        return found
    later, earlier = order[equal + 1], order[equal]
    apart_s = np.abs(seen_s[later] - seen_s[earlier])
    known_s = np.where(np.isfinite(round_trip_s) & (round_trip_s > 0), round_trip_s, 0.0)
    least_s = np.where(known_s > 0, known_s, UNKNOWN_ROUND_TRIP_S)[later]
    is_copy = apart_s < np.where(tells_apart[later], SAME_IDENTIFICATION_S, least_s)
    open_ = is_copy & ~is_numbered[later] & ~tells_apart[later]
    sure = is_copy & ~open_
    count = int(flow.max()) + 1
    copied = np.bincount(flow[earlier[sure & is_numbered[later]]], minlength=count)
    numbered = np.bincount(flow[is_numbered], minlength=count)
    # Of n packets that were captured twice, n are copies.
    has_copies = (copied > 0) & (3 * copied >= numbered)
    furthest_s = np.zeros(count)
    np.maximum.at(furthest_s, flow[later[sure]], apart_s[sure])
    mirrored = has_copies[flow[later]] & (apart_s <= 2 * furthest_s[flow[later]])
    found[later[sure | (open_ & mirrored)]] = True
    return found
