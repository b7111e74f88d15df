"""Flows of a capture: which directions belong together, and as which paths."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from anabranch.support import quic
from anabranch.support.packets import ACK, SYN

from .journeys import FEWEST_PACKETS, Direction, End, Ends, Flags, Integers, Journeys, name_of


@dataclass(slots=True)
class Path:
    """A pair of addresses, or a subflow."""

    name: str
    ways: tuple[Direction | None, Direction | None]
    """From side a to side b, and back."""


@dataclass(slots=True)
class Flow:
    """What two ends said to each other. Side a is the one that spoke first."""

    name: str
    protocol: str
    """`SCTP`, `TCP`, `MPTCP`, `QUIC` or `UDP`."""
    hosts: tuple[str, str]
    paths: list[Path]

    def directions(self, side: int) -> list[Direction]:
        """What this side sent, by path."""
        return [way for path in self.paths if (way := path.ways[side]) is not None]

    def places(self, side: int) -> frozenset[str]:
        """Where this side's packets are sent; what comes to it is seen there too."""
        near = {way.near for way in self.directions(side)}
        nodes = {_node(place) for place in near}
        seen = set()
        for way in self.directions(1 - side):
            sent = way.sent
            seen |= {sent.places[place] for place in {sent.near, *np.unique(sent.place).tolist()}}
        return frozenset(near | {place for place in seen if _node(place) in nodes})

    @property
    def packets(self) -> int:
        """That were sent, both ways."""
        return sum(len(way.sent) for side in (0, 1) for way in self.directions(side))

    @property
    def octets(self) -> int:
        """Bytes of all of them."""
        return sum(way.octets for side in (0, 1) for way in self.directions(side))

    @property
    def copies(self) -> int:
        """Packets that the capture has once more."""
        ways = [way for side in (0, 1) for way in self.directions(side)]
        return sum({way.domain: way.copies for way in ways}.values())

    def round_trip_s(self) -> float | None:
        """The least round trip of the slowest path in use; None where no path shows one."""
        ways = [way for side in (0, 1) for way in self.directions(side)]
        return max((w.round_trip_s for w in ways if isfinite(w.round_trip_s)), default=None)

    @property
    def start_s(self) -> float:
        """When the first one was sent."""
        return min(_start_s(way) for side in (0, 1) for way in self.directions(side))

    @property
    def end_s(self) -> float:
        """When the last one was seen."""
        ways = [way for side in (0, 1) for way in self.directions(side)]
        return max(float(way.sent.last()[0].max()) for way in ways)


def _node(place: str) -> str:
    """Of an interface of `anabranch run`, LINK@NODE, the node; another one is itself."""
    return place.rpartition("@")[2]


def find(journeys: Journeys) -> list[Flow]:
    """The flows of a capture with enough packets, those of the most bytes first."""
    groups: dict[int, list[Direction]] = {}
    parent = list(range(len(journeys.directions)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first_of: dict[object, int] = {}
    tokens = _tokens(journeys.directions)
    for index, direction in enumerate(journeys.directions):
        keys = [(direction.domain, direction.generation), *_tags(direction)]
        keys += [("token", token) for token in tokens.get(index, ())]
        for key in keys:
            parent[root(index)] = root(first_of.setdefault(key, index))
    for index, direction in enumerate(journeys.directions):
        groups.setdefault(root(index), []).append(direction)
    packets = journeys.directions[0].packets if journeys.directions else None
    opens = np.zeros(0, dtype=bool) if packets is None else quic.packets_that_open(packets)
    flows = _joined([_flow(group, journeys.names, opens) for group in groups.values()])
    found = [flow for flow in flows if flow.packets >= FEWEST_PACKETS]
    found.sort(key=lambda flow: -flow.octets)
    count = Counter(flow.name for flow in found)
    seen: Counter[str] = Counter()
    for flow in found:
        name = flow.name
        if count[name] > 1:
            seen[name] += 1
            flow.name = f"{name} ({seen[name]} of {count[name]})"
    return found


_MOVING_S = 1.0
"""How long after a client's first packet from another address the last one from its old address may
leave: challenges of addresses are answered where they came (RFC 9000 section 8.2.2)."""


def _joined(flows: list[Flow]) -> list[Flow]:
    """With those in one that are the same connection of QUIC, whose client has moved.

    What it sends from its other address has short headers alone and connection IDs that nobody has
    seen (RFC 9000 section 9.5). It is known by the hosts and the server's port, and because the
    client leaves its old address.
    """
    flows = sorted(flows, key=lambda flow: flow.start_s)
    joined: list[Flow] = []
    for flow in flows:
        known = [one for one in joined if flow.protocol == "UDP" and _goes_on(one, flow)]
        if len(known) == 1:
            [connection] = known
            server = _server(connection)
            for path in flow.paths:
                ways = path.ways if server.port == _server(flow).port else path.ways[::-1]
                connection.paths.append(Path(path.name, (ways[0], ways[1])))
        else:
            joined.append(flow)
    return joined


def _goes_on(connection: Flow, flow: Flow) -> bool:
    """Whether a flow of UDP is what a connection of QUIC has moved to."""
    if connection.protocol != "QUIC" or set(connection.hosts) != set(flow.hosts):
        return False
    server = _server(connection)
    if server.port not in {end.port for way in flow.directions(0) for end in way.ends}:
        return False
    left_s = max(float(way.sent.sent_s[-1]) for way in connection.directions(0))
    ways = [*flow.directions(0), *flow.directions(1)]
    return left_s <= flow.start_s + _MOVING_S and all(
        quic.packets_with_short_headers(way.packets)[way.sent.row].all() for way in ways
    )


def _server(flow: Flow) -> End:
    """The end to which the first packet went."""
    return min(flow.directions(0), key=_start_s).ends[1]


_CAPABLE, _JOIN = 0, 1
"""Options of Multipath TCP (RFC 8684 section 3)."""


def _tokens(directions: list[Direction]) -> dict[int, set[int]]:
    """By direction: the tokens of Multipath TCP that its packets have keys for, or join."""
    found: dict[int, set[int]] = {}
    if not directions or not len(directions[0].packets.multipath.packet):
        return found
    packets = directions[0].packets
    table = packets.multipath
    owner = np.full(len(packets), -1, dtype=np.int64)
    for index, direction in enumerate(directions):
        if direction.protocol == "TCP":
            owner[direction.sent.row] = index
    asks = packets.flags[table.packet] & (SYN | ACK) == SYN
    is_own = owner[table.packet] >= 0
    for kind, tokens in (
        (table.kind == _CAPABLE, table.token),
        (table.kind == _CAPABLE, table.peer_token),
        ((table.kind == _JOIN) & asks, table.token),
    ):
        rows = np.flatnonzero(is_own & kind & (tokens >= 0))
        for row, token in zip(rows.tolist(), tokens[rows].tolist(), strict=True):
            found.setdefault(int(owner[table.packet[row]]), set()).add(token)
    return found


def _tags(direction: Direction) -> list[object]:
    """What directions of an association have in common, as its tags say.

    Whatever goes to one end of it has the tag that this end chose. Of QUIC it is the connection of
    packets that could be opened.
    """
    if direction.protocol == "UDP":
        quic = direction.packets.quic
        opened = np.isin(quic.packet, direction.sent.row)
        return [("QUIC", one) for one in np.unique(quic.connection[opened]).tolist()]
    if direction.protocol != "SCTP":
        return []
    tags = np.unique(_tag_of(direction))
    ports = direction.ends[0].port, direction.ends[1].port
    return [(direction.protocol, *ports, tag) for tag in tags[tags != 0].tolist()]


def _tag_of(direction: Direction) -> Integers:
    return direction.packets.tag[direction.sent.row].astype(np.int64)


def _start_s(way: Direction) -> float:
    return float(way.sent.sent_s[0])


def _flow(group: list[Direction], names: dict[bytes, str], opens: Flags) -> Flow:
    first = min(group, key=_start_s)
    sides = _sides(group, first)
    pairs: dict[tuple[int, int], list[Direction | None]] = {}
    for way in sorted(group, key=_start_s):
        pair = pairs.setdefault((way.domain, way.generation), [None, None])
        pair[sides[id(way)]] = way
    labels = [_label(ways, names) for ways in pairs.values()]
    count = Counter(labels)
    paths = [
        Path(
            label if count[label] == 1 else _label(ways, {}),
            (ways[0], ways[1]),
        )
        for label, ways in zip(labels, pairs.values(), strict=True)
    ]
    protocol = first.protocol
    if protocol == "TCP" and _is_multipath(group):
        protocol = "MPTCP"
    elif protocol == "UDP" and any(opens[way.sent.row].any() for way in group):
        protocol = "QUIC"
    hosts = (name_of(first.ends[0].address, names), name_of(first.ends[1].address, names))
    if len(paths) == 1 and "–" in paths[0].name:
        paths[0].name = "path"
    ends = " to ".join(
        f"[{host}]:{end.port}" if ":" in host else f"{host}:{end.port}"
        for host, end in zip(hosts, first.ends, strict=True)
    )
    return Flow(f"{protocol} from {ends}", protocol, hosts, paths)


def _sides(group: list[Direction], first: Direction) -> dict[int, int]:
    """Which side each direction comes from: 0 for that of the first packet."""
    if first.protocol != "SCTP":
        return {id(way): _side_of(way.ends, first.ends) for way in group}
    tags = [_tag(way) for way in group]
    own = next(tag for way, tag in zip(group, tags, strict=True) if way is first)
    sides = {}
    for way, tag in zip(group, tags, strict=True):
        is_same = way is first or (bool(own) and own == tag)
        is_back = way.ends == first.ends[::-1]
        sides[id(way)] = int(is_back or not is_same)
    return sides


def _side_of(ends: Ends, first: Ends) -> int:
    """The side of a direction of TCP or UDP: of its ends or, on another subflow, of its ports."""
    if ends in {first, first[::-1]}:
        return int(ends != first)
    port = first[1].port
    ports = [end.port == port for end in ends]
    if ports[0] != ports[1]:
        return int(ports[0])
    return int(ends[0].address == first[1].address)


def _tag(way: Direction) -> dict[int, None]:
    """The tag of most packets that has one."""
    tags = _tag_of(way)
    return {tag: None for tag, _ in Counter(tags[tags != 0].tolist()).most_common(1)}


def _is_multipath(group: Iterable[Direction]) -> bool:
    """Whether one of the first packets of a direction offers Multipath TCP, or joins."""
    for way in group:
        table = way.packets.multipath
        if not len(table.packet):
            return False
        rows = way.sent.row[:3]
        flags = way.packets.flags[table.packet]
        has_key = (table.kind == _CAPABLE) & ((table.token >= 0) | (table.peer_token >= 0))
        joins = (table.kind == _JOIN) & (table.token >= 0) & (flags & ACK == 0)
        if np.isin(rows, table.packet[(has_key | joins) & (flags & SYN != 0)]).any():
            return True
    return False


def _label(ways: list[Direction | None], names: dict[bytes, str]) -> str:
    """The path's name in the scenario, if the capture says it, or else its addresses."""
    way = ways[0] or ways[1]
    assert way is not None
    ends = way.ends if ways[0] is not None else way.ends[::-1]
    known = {names.get(end.address.packed, "").rpartition(".")[2] for end in ends}
    if len(known) == 1 and (name := known.pop()):
        return name
    return " – ".join(str(end.address) for end in ends)


def begins(path: Path) -> bool:
    """Whether the capture has its beginning: a SYN, or the INIT of an association."""
    return any(way.is_asking(_FIRST).any() for way in path.ways if way is not None)


_FIRST = 10
"""The packets of a direction among which its beginning is."""
