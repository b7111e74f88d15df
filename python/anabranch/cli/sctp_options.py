"""The options that the commands of `anabranch sctp` share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from anabranch.errors import AnabranchError
from anabranch.support.files import check_file

from .app import Flag, Natural, Sets
from .peers import Words, transport_settings

if TYPE_CHECKING:
    from anabranch.sctp import Endpoint


@Parameter(name="*")
@dataclass(frozen=True)
class Sockets:
    """Options of all these commands."""

    address: Words = ()
    """An address to bind to; several for a multi-homed end, none for all addresses."""
    udp: Natural | None = None
    """This end's UDP port; by default 9899 for an end that waits, otherwise any free port."""
    raw: Annotated[bool, Flag] = False
    """In IP itself, without UDP; needs root or the capability CAP_NET_RAW."""
    tun: Words = ()
    """A TUN device and this end's addresses behind it, NAME=ADDRESS[,ADDRESS], instead of sockets;
    needs root or the capability CAP_NET_ADMIN; may be given several times."""
    mtu: Natural = 1500
    """The largest IP packet in bytes."""
    profile: str | None = None
    """The profile of the transport: rfc9260, rfc4960, rfc2960, freebsd_10, linux or ns2."""
    set_: Sets = ()
    """A setting of a scenario's transport, KEY=VALUE; may be given several times."""
    json_file: Annotated[Path | None, Parameter(name="--json")] = None
    """Write the counters of the association to this file at its end."""

    def settings(self) -> dict[str, object]:
        """The transport's settings, as a scenario has them."""
        return transport_settings(self.profile, self.set_)

    def endpoint(self, waits: bool) -> "Endpoint":  # noqa: FBT001 - says itself what it is
        """Opens the sockets."""
        from anabranch.sctp import ENCAPSULATION_PORT, Endpoint

        check_file(self.json_file)
        if self.raw and self.udp is not None:
            raise AnabranchError("--raw and --udp are both given; packets travel in one of them")
        if self.tun and (self.raw or self.udp is not None):
            other = "--raw" if self.raw else "--udp"
            raise AnabranchError(f"--tun and {other} are both given; packets travel in one of them")
        default = ENCAPSULATION_PORT if waits else 0
        is_in_ip = self.raw or bool(self.tun)
        port = None if is_in_ip else default if self.udp is None else self.udp
        return Endpoint(self.address, udp_port=port, tun=self.tun, mtu=self.mtu)


@Parameter(name="*")
@dataclass(frozen=True)
class Messages:
    """Options for how messages are sent."""

    stream: Natural = 0
    """The stream on which messages are sent."""
    ppid: Natural = 0
    """The payload protocol identifier."""
    unordered: Annotated[bool, Flag] = False
    """Deliver each message as soon as it arrives."""
    retransmissions: Natural | None = None
    """Give a message up after this many retransmissions (RFC 7496)."""
    lifetime: Natural | None = None
    """Give a message up after this many milliseconds (RFC 3758)."""

    def options(self) -> dict[str, Any]:
        """The options as `Association.send` takes them."""
        return {
            "stream": self.stream,
            "ppid": self.ppid,
            "unordered": self.unordered,
            "retransmissions": self.retransmissions,
            "lifetime_ms": self.lifetime,
        }
