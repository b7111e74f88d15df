"""aioquic, in this process: an asyncio server that sends every stream back, and a client."""

import asyncio
import contextlib
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aioquic.asyncio import connect, serve
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.tls import CipherSuite
from quic_peers import ALPN, HOST, Client, Server, content, written

from anabranch import quic

OTHER_VERSION = 0x1A2A3A4A


@dataclass(frozen=True)
class Aioquic:
    """aioquic, in this process."""

    name: str = "aioquic"
    negotiates_versions: frozenset[str] = frozenset({"connects", "listens"})
    chooses_ciphers: bool = True
    updates_keys: bool = True
    keeps_keys: bool = True
    reports_marks: bool = False
    resets: bool = False

    def __str__(self) -> str:
        return self.name

    @contextlib.asynccontextmanager
    async def server(
        self,
        port: int,
        made: quic.Certificate,
        folder: Path,
        host: str = HOST,
        **options: object,
    ) -> AsyncIterator[Server]:
        configuration = _configuration(is_client=False, options=options)
        configuration.load_cert_chain(*written(made, folder))
        ends: list[End] = []

        def create(*words: Any, **more: Any) -> Any:
            ends.append(End(*words, **more))
            return ends[-1]

        serving = await serve(
            host,
            port,
            configuration=configuration,
            create_protocol=create,
            retry=bool(options.get("retry")),
        )
        try:
            yield _AtWork(ends)
        finally:
            serving.close()

    @contextlib.asynccontextmanager
    async def client(
        self,
        own: int,
        port: int,
        made: quic.Certificate,
        _folder: Path,
        host: str = HOST,
        **options: object,
    ) -> AsyncIterator[Client]:
        configuration = _configuration(is_client=True, options=options)
        configuration.load_verify_locations(cadata=made.chain)
        async with connect(
            host,
            port,
            configuration=configuration,
            create_protocol=End,
            local_port=own,
        ) as end:
            yield _AtWork([end])
        # Its own one, after it has migrated.
        end._transport.close()


def _configuration(*, is_client: bool, options: dict[str, object]) -> Any:

    configuration = QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[ALPN],
        max_datagram_frame_size=65_535,
        server_name="localhost" if is_client else None,
        # Windows as ours have.
        max_data=4_000_000,
        max_stream_data=2_000_000,
    )
    if options.get("chacha20"):
        configuration.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if options.get("other_version"):
        own = configuration.supported_versions
        configuration.supported_versions = [OTHER_VERSION, *own] if is_client else [OTHER_VERSION]
        if is_client:
            configuration.original_version = OTHER_VERSION
    if is_client:
        configuration.verify_mode = ssl.CERT_REQUIRED
    return configuration


class _AtWork:
    """One end at work: of a server, its last connection."""

    def __init__(self, ends: "list[End]") -> None:
        self._ends = ends

    @property
    def is_open(self) -> bool:
        return not self._ends[-1].end.done()

    async def exchange(self, size: int) -> None:
        await self._ends[-1].exchange(size)

    async def exchange_many(self, count: int, size: int) -> None:
        await asyncio.gather(*(self.exchange(size + at) for at in range(count)))

    async def datagram(self, data: bytes) -> bytes:
        return await self._ends[-1].datagram(data)

    async def migrate(self) -> None:
        end = self._ends[-1]
        before = end._transport
        # As `connect` makes one. This gives the connection its new socket.
        fresh = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        fresh.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        fresh.bind(("::", 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: end, sock=fresh)
        before.close()
        end.change_connection_id()

    async def update_keys(self) -> None:
        end = self._ends[-1]
        end._quic.request_key_update()
        end.transmit()

    async def close(self, code: int) -> None:
        self._ends[-1].close(error_code=code)

    async def closed(self) -> int:
        return await self._ends[-1].end

    async def was_reset(self) -> bool:
        raise NotImplementedError("aioquic knows no stateless resets")


class End(QuicConnectionProtocol):  # type: ignore[misc]
    """aioquic's connection, as both tests and its own callbacks use it."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self._heard: dict[int, asyncio.Queue[bytes | None]] = {}
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event: events.QuicEvent) -> None:
        match event:
            case events.StreamDataReceived(data, end, number):
                if number & 1 == int(not self._quic._is_client):
                    queue = self._heard.setdefault(number, asyncio.Queue())
                    queue.put_nowait(data)
                    if end:
                        queue.put_nowait(None)
                elif not number & 2:
                    self._quic.send_stream_data(number, data, end)
            case events.DatagramFrameReceived(data):
                if self._quic._is_client:
                    self._messages.put_nowait(data)
                else:
                    self._quic.send_datagram_frame(data)
            case events.ConnectionTerminated(code):
                if not self.end.done():
                    self.end.set_result(code)

    async def exchange(self, size: int) -> None:
        number, sent = self._quic.get_next_available_stream_id(), content(size)
        queue = self._heard.setdefault(number, asyncio.Queue())
        self._quic.send_stream_data(number, sent, end_stream=True)
        self.transmit()
        heard, total = hashlib.sha256(), 0
        while (piece := await queue.get()) is not None:
            heard.update(piece)
            total += len(piece)
        assert (total, heard.digest()) == (size, hashlib.sha256(sent).digest())

    async def datagram(self, data: bytes) -> bytes:
        self._quic.send_datagram_frame(data)
        self.transmit()
        return await self._messages.get()
