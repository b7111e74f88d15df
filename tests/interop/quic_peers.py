"""QUIC stacks that are not ours, each as a server that sends every stream back, and as a client."""

import hashlib
import importlib
import importlib.util
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from peers import MissingError

from anabranch import quic

ALPN = "interop"
HOST = "127.0.0.1"
HOST6 = "::1"


def at(host: str, port: int) -> str:
    """An address and a port, as programs take them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def written(made: quic.Certificate, folder: Path) -> tuple[Path, Path]:
    """The files of a server's certificate, and of its key."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.chain)
    key.write_bytes(made.key)
    return chain, key


class Server(Protocol):
    """A server at work."""

    async def update_keys(self) -> None:
        """Updates the keys of its connection."""

    async def close(self, code: int) -> None:
        """Closes its connection."""

    async def closed(self) -> int:
        """Waits for the end of its connection; the code with which the other end has closed."""

    async def was_reset(self) -> bool:
        """Waits for the end of its connection; whether that was a stateless reset."""


class Client(Server, Protocol):
    """A connected client."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""

    async def exchange(self, size: int) -> None:
        """Writes so much on a stream, and compares what comes back."""

    async def exchange_many(self, count: int, size: int) -> None:
        """The same on many streams at a time."""

    async def migrate(self) -> None:
        """Goes on at another port, on purpose."""

    async def datagram(self, data: bytes) -> bytes:
        """Sends a message, and gives the one that comes back."""


class Peer(Protocol):
    """A stack."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def negotiates_versions(self) -> frozenset[str]:
        """In which roles it can be told to speak another version first, or only."""

    @property
    def chooses_ciphers(self) -> bool:
        """Whether it can be told which cipher to use."""

    @property
    def updates_keys(self) -> bool:
        """Whether it can be told to update its keys."""

    @property
    def keeps_keys(self) -> bool:
        """Whether it never does so by itself."""

    @property
    def reports_marks(self) -> bool:
        """Whether it counts the marks of ECN that come, and says so."""

    @property
    def resets(self) -> bool:
        """Whether it sends stateless resets, and knows them."""

    def server(
        self,
        port: int,
        made: quic.Certificate,
        folder: Path,
        host: str = HOST,
        **options: object,
    ) -> AbstractAsyncContextManager[Server]:
        """Runs a server."""

    def client(
        self,
        own: int,
        port: int,
        made: quic.Certificate,
        folder: Path,
        host: str = HOST,
        **options: object,
    ) -> AbstractAsyncContextManager[Client]:
        """Runs a client."""


def content(size: int) -> bytes:
    """What a client writes."""
    block = hashlib.shake_256(b"client").digest(min(size, 1 << 20))
    return (block * (size // len(block) + 1))[:size] if size else b""


NAMES = ("aioquic", "quinn", "noq", "quic-go")
"""The stacks that are not ours."""

SEVERAL = ("noq", "picoquic")
"""Those with several paths (RFC 10069)."""


def find(name: str) -> Peer:
    """The stack of this name; a `MissingError` says what this machine lacks."""
    if name != "aioquic":
        stack = importlib.import_module("quic_program").STACKS[name]
        stack.program()
        program: Peer = stack
        return program
    if importlib.util.find_spec(name) is None:
        raise MissingError("aioquic is not installed: pip install --group interop")
    peer: Peer = importlib.import_module("aioquic_peer").Aioquic()
    return peer
