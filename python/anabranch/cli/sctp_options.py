"""What the commands of `anabranch sctp` have in common."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, Token

from anabranch.errors import AnabranchError
from anabranch.support.files import check_file

from .app import Flag, Natural, Sets, pairs

if TYPE_CHECKING:
    from anabranch.sctp import Endpoint

Words = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
STANDARD = Path("-")
"""Standard input or output, where a file is named."""


def _file(_: object, tokens: Sequence[Token]) -> Path:
    text = tokens[0].value
    if text.startswith("-") and text != str(STANDARD):
        raise ValueError(f"unknown option: `{text}`; as the name of a file it is `./{text}`")
    return Path(text)


File = Annotated[Path, Parameter(allow_leading_hyphen=True, converter=_file)]
"""A file, or `-`."""


@Parameter(name="*")
@dataclass(frozen=True)
class Sockets:
    """What all these commands have in common."""

    address: Words = ()
    """An address to bind to; several times for a multi-homed end, none for all."""
    udp: Natural | None = None
    """This end's port of UDP; default 9899 where it waits, else any."""
    raw: Annotated[bool, Flag] = False
    """In IP itself, without UDP; needs root or the capability CAP_NET_RAW."""
    tun: Words = ()
    """A TUN device and this end's addresses behind it, NAME=ADDRESS[,ADDRESS], instead of sockets;
    needs root or the capability CAP_NET_ADMIN; may be given several times."""
    mtu: Natural = 1500
    """The largest IP packet in bytes."""
    profile: str | None = None
    """Whose defaults: rfc9260, rfc4960, rfc2960, freebsd_10, linux or ns2."""
    set_: Sets = ()
    """A setting of a scenario's transport, KEY=VALUE; may be given several times."""
    json_file: Annotated[Path | None, Parameter(name="--json")] = None
    """Write the counters of the association to this file at its end."""

    def settings(self) -> dict[str, object]:
        """What the transport is to be."""
        settings: dict[str, object] = {} if self.profile is None else {"profile": self.profile}
        for path, text in pairs(self.set_, "--set KEY=VALUE").items():
            *tables, key = path.split(".")
            place = settings
            for table in tables:
                inner = place.setdefault(table, {})
                if not isinstance(inner, dict):
                    raise AnabranchError(f"`--set {path}={text}`: {table} is not a table")
                place = inner
            place[key] = value(text)
        return settings

    def endpoint(self, waits: bool) -> "Endpoint":  # noqa: FBT001 - says itself what it is
        """The sockets."""
        from anabranch.sctp import ENCAPSULATION_PORT, Endpoint  # noqa: PLC0415 - slow to import

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
    """How messages are sent."""

    stream: Natural = 0
    """The stream."""
    ppid: Natural = 0
    """The payload protocol identifier."""
    unordered: Annotated[bool, Flag] = False
    """Deliver each message as soon as it is there."""
    retransmissions: Natural | None = None
    """Give a message up after so many retransmissions (RFC 7496)."""
    lifetime: Natural | None = None
    """Give a message up after so many milliseconds (RFC 3758)."""

    def options(self) -> dict[str, Any]:
        """As `Association.send` has them."""
        return {
            "stream": self.stream,
            "ppid": self.ppid,
            "unordered": self.unordered,
            "retransmissions": self.retransmissions,
            "lifetime_ms": self.lifetime,
        }


def value(text: str) -> object:
    """A value as TOML has it, or a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
