"""Certificates: whom a client believes, and what a server shows."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from anabranch import _engine
from anabranch.errors import LiveError
from anabranch.support.arguments import octets, texts

from .engine import check_engine


class Anyone(Enum):
    """Whom a client believes that looks at no certificate."""

    ANYONE = "anyone"


ANYONE = Anyone.ANYONE
"""`trust` of a client that takes every certificate: whoever answers may be anyone."""


@dataclass(frozen=True)
class Certificate:
    """What a server shows of itself, in PEM."""

    chain: bytes
    """Its certificate, and those that vouch for it."""
    key: bytes
    """The key of the first one."""

    def __repr__(self) -> str:
        """Without the key."""
        return f"Certificate(chain={len(self.chain)} bytes)"


def self_signed(names: Sequence[str]) -> Certificate:
    """A new certificate for these names and addresses, which only itself vouches for.

    A client believes it whose `trust` is its `chain`.
    """
    check_engine()
    wanted = texts("names", names)
    if not wanted:
        raise LiveError("names: there is none; give at least one name or address")
    chain, key = _engine.self_signed(wanted)
    return Certificate(chain.encode(), key.encode())


def system_roots() -> list[bytes]:
    """The certificates that this system trusts, in DER."""
    roots = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not roots:
        raise LiveError(
            "this system trusts no certificate that could be found; name some (trust), or trust"
            " anyone"
        )
    return roots


def roots_of(trust: object) -> list[bytes] | None:
    """The certificates to believe, in DER; None for anyone."""
    if trust is ANYONE:
        return None
    if trust is None:
        return system_roots()
    return _engine.certificates(octets("trust", trust))
