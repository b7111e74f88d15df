"""The options that the commands of `anabranch quic` share."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from anabranch import _engine
from anabranch.errors import AnabranchError, LiveError
from anabranch.support.files import check_file

from .app import Flag, Natural, Sets
from .peers import Words, transport_settings

if TYPE_CHECKING:
    from anabranch.quic import Certificate
    from anabranch.quic.certificate import Anyone

_ALPN = ("anabranch",)


@Parameter(name="*")
@dataclass(frozen=True)
class Sockets:
    """Options of all these commands."""

    alpn: Words = ()
    """A protocol above QUIC that both ends must have in common; by default `anabranch`; may be
    given several times."""
    mtu: Natural = 1500
    """The largest IP packet in bytes."""
    profile: str | None = None
    """The profile of the transport: noq, picoquic, quic_go, quinn or rfc9000."""
    multipath: Annotated[bool, Flag] = False
    """Use several paths at the same time, if the other end does."""
    scheduler: str | None = None
    """Which path carries the next packet: min_rtt, round_robin, blest, ecf, linux, backup_only or
    redundant."""
    set_: Sets = ()
    """A setting of a scenario's transport, KEY=VALUE; may be given several times."""
    json_file: Annotated[Path | None, Parameter(name="--json")] = None
    """Write the counters of the connection to this file at its end."""

    def settings(self) -> dict[str, object]:
        """The transport's settings, as a scenario has them."""
        check_file(self.json_file)
        settings: dict[str, object] = {"multipath": True} if self.multipath else {}
        if self.scheduler is not None:
            settings["scheduler"] = self.scheduler
        return {**settings, **transport_settings(self.profile, self.set_)}

    def protocols(self) -> list[str]:
        """The protocols above QUIC."""
        return [*(self.alpn or _ALPN)]


@Parameter(name="*")
@dataclass(frozen=True)
class Serving:
    """Options of an end that waits."""

    address: Words = ("127.0.0.1",)
    """An address to bind to, by default that of this machine alone; 0.0.0.0 for all."""
    cert: Path | None = None
    """The certificate in PEM, and behind it those that vouch for it; by default a new one, for this
    machine's name and the addresses, that only itself vouches for."""
    key: Path | None = None
    """The key of the certificate, in PEM."""
    write_cert: Path | None = None
    """Write a new certificate to this file, for `--trust` of peers."""

    def certificate(self) -> "Certificate":
        """What this end shows of itself."""
        from anabranch.quic import Certificate, self_signed

        if (self.cert is None) != (self.key is None):
            given, other = ("--cert", "--key") if self.key is None else ("--key", "--cert")
            raise AnabranchError(f"{given} is given without {other}; give both, or none")
        if self.cert is not None and self.key is not None:
            if self.write_cert is not None:
                raise AnabranchError(
                    "--write-cert writes a new certificate; it does not go with --cert"
                )
            chain, key = _certificates(self.cert), self.key.read_bytes()
            try:
                _engine.check_key(chain, key)
            except LiveError as error:
                raise AnabranchError(f"{self.key}: {error}") from None
            return Certificate(chain, key)
        any_address = {"0.0.0.0", "::"}
        own = [*dict.fromkeys(["localhost", socket.gethostname(), "127.0.0.1", *self.address])]
        made = self_signed([name for name in own if name not in any_address])
        if self.write_cert is not None:
            self.write_cert.write_bytes(made.chain)
        return made


@Parameter(name="*")
@dataclass(frozen=True)
class Trusting:
    """Options of an end that connects."""

    trust: Path | None = None
    """The certificates in PEM of whom to believe; by default those that the system trusts."""
    insecure: Annotated[bool, Flag] = False
    """Believe anyone: look at no certificate."""
    name: str | None = None
    """The name for which the server's certificate must be; by default HOST."""
    path: Words = ()
    """A path, LOCAL=REMOTE, or LOCAL, to the address of HOST; may be given several times, and the
    handshake goes on the first one."""
    backup: tuple[Natural, ...] = ()
    """The number of a path, from 0, that carries data only while no other one can; may be given
    several times."""

    def locals(self) -> list[str]:
        """The addresses to bind to."""
        return [*dict.fromkeys(path.partition("=")[0] for path in self.path)]

    def backups(self) -> dict[str, object]:
        """What is set of the paths."""
        if wrong := [number for number in self.backup if number >= len(self.path)]:
            count = len(self.path)
            raise AnabranchError(f"--backup {wrong[0]} is no path; --path is given {count} times")
        return {"backup": [*self.backup]} if self.backup else {}

    def whom(self) -> "bytes | Anyone | None":
        """Whom to believe."""
        from anabranch.quic import ANYONE

        if self.insecure and self.trust is not None:
            raise AnabranchError("--insecure and --trust are both given; give one of them")
        if self.insecure:
            return ANYONE
        return None if self.trust is None else _certificates(self.trust)


def _certificates(file: Path) -> bytes:
    """A file with certificates in PEM."""
    from anabranch.quic.engine import check_engine

    check_engine()
    content = file.read_bytes()
    try:
        _engine.certificates(content)
    except LiveError as error:
        raise AnabranchError(f"{file}: {error}") from None
    return content
