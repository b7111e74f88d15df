"""Paths of a connection: what they are, and what happens to them (RFC 10069)."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anabranch.errors import LiveError
from anabranch.live.resolving import resolved
from anabranch.support.arguments import escaped, text


@dataclass(frozen=True)
class Path:
    """The state of a path at one moment."""

    number: int
    """Its path ID, which is never used again."""
    local: str
    """The address at this end; `0.0.0.0` or `::` where the system chooses it."""
    remote: str
    """The peer's address."""
    port: int
    """The peer's port of UDP."""
    state: Literal["abandoned", "active", "opening", "potentially_failed"]
    """`opening` until packets are known to arrive in both directions; `potentially_failed` while
    the last packets got no answer."""
    is_backup: bool
    """Whether this end wants it to carry data only while no other path can."""
    is_peers_backup: bool
    """Whether the peer wants that."""
    srtt_ms: float
    """Smoothed round-trip time; NaN before the first sample."""
    cwnd: int
    """Bytes."""
    sent: int
    """Bytes of UDP payload that were sent."""
    received: int
    """Bytes of UDP payload that came."""


PathState = Literal[
    "abandoned",
    "active",
    "available",
    "backup",
    "moved",
    "opened",
    "potentially_failed",
    "validated",
]
"""What can happen to a path."""


@dataclass(frozen=True)
class PathChanged:
    """Something has happened to a path."""

    path: int
    """Its path ID."""
    change: PathState
    """An end has begun to use it (`opened`), it is known to work (`validated`), its packets get no
    answer (`potentially_failed`) or get one again (`active`), the peer wants it to be a backup
    (`backup`) or no longer (`available`), its addresses or ports are others (`moved`), or an end
    has given it up (`abandoned`)."""
    local: str
    remote: str
    port: int


@dataclass(frozen=True)
class PathRefused:
    """A path that was to be opened cannot be."""

    local: str
    remote: str
    reason: str


Event = PathChanged | PathRefused
"""What `Connection.events` gives."""


def address(key: str, given: object) -> str:
    """An address as the engine writes it."""
    written = text(key, given, "the text of an address")
    try:
        return str(ipaddress.ip_address(written))
    except ValueError:
        raise LiveError(f"{key} = `{escaped(written)}` is not an address of IPv4 or IPv6") from None


async def pairs(paths: Sequence[str], host: str) -> list[tuple[str, str]]:
    """The addresses of paths, each LOCAL or LOCAL=REMOTE, for a server with this name."""
    found = []
    for path in paths:
        local, separator, remote = path.partition("=")
        ends = (
            address("paths: LOCAL", local),
            address("paths: REMOTE", remote) if separator else await resolved(host),
        )
        # Before any packet: a connection may end while its further paths are asked for.
        if len({ipaddress.ip_address(end).version for end in ends}) > 1:
            raise LiveError(
                f"a path from {ends[0]} to {ends[1]} has two versions of IP; both must be of the"
                " same one"
            )
        found.append(ends)
    return found
