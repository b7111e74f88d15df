"""Our QUIC against stacks that others wrote, by the names of the public interop runner's cases.

1 MB each way; with INTEROP=full (`make validate`) 100 MB. Each test is a cell of docs/interop.md,
where `tools/interop_page.py` writes what came of it; the fixture `cell` says which.
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import namespaces
import peers
import pytest
from peers import IS_FULL, LIMIT_S, Cell, MissingError
from quic_peers import ALPN, HOST, HOST6, NAMES, Client, Peer, Server, find

from anabranch import _engine, quic
from support import live

pytestmark = [
    pytest.mark.skipif(not _engine.QUIC, reason="this engine was built without QUIC"),
]

BULK = 100_000_000 if IS_FULL else 1_000_000
LOSSES = {
    "0 %": (),
    "1 %": ("--loss", "0.01", "--reorder", "0.01", "--duplicate", "0.01", "--delay", "0.5"),
    "5 %": ("--loss", "0.05", "--reorder", "0.02", "--duplicate", "0.02", "--delay", "0.5"),
}


@pytest.fixture(scope="module")
def made() -> quic.Certificate:
    """The server's certificate, whoever it is."""
    return quic.self_signed(["localhost", HOST])


@pytest.fixture(params=NAMES)
def peer(request: pytest.FixtureRequest, cell: Cell) -> Peer:
    """A stack that is not ours; skips the test with a sentence where it is not there."""
    try:
        return find(request.param)
    except MissingError as error:
        cell("handshake", request.param)
        pytest.skip(str(error))


run = partial(live.run, limit_s=LIMIT_S)


def content(size: int, seed: int) -> bytes:
    """Bytes that no piece of which looks like another."""
    block = hashlib.shake_256(b"%d" % seed).digest(min(size, 1 << 20))
    return (block * (size // len(block) + 1))[:size] if size else b""


@contextlib.contextmanager
def between(
    impairment: Sequence[str], server: int, client: int, relays: list[Popen[str]] | None = None
) -> Any:
    """The port to which the client sends: the relay's, or the server's where there is none.

    The relay is added to `relays`.
    """
    if not impairment:
        yield server
        return
    inner, outer = peers.free_ports(2)
    counted: dict[str, Any] = {}
    ends = [inner, server, outer, client]
    command = [str(peers.relay()), *impairment, "udp", *(f"{HOST}:{each}" for each in ends)]
    with namespaces.relaying(command, counted) as relay:
        if relays is not None:
            relays.append(relay)
        yield outer
    # Of few packets, none may be lost.
    assert counted["forward"]["lost"] > 0 or "--reorder" not in impairment


@contextlib.asynccontextmanager
async def ours_connects(
    peer: Peer,
    made: quic.Certificate,
    tmp_path: Path,
    impairment: Sequence[str] = (),
    settings: dict[str, object] | None = None,
    *,
    relays: list[Popen[str]] | None = None,
    **options: object,
) -> AsyncIterator[tuple[quic.Connection, Server]]:
    """A connection of ours to a server of the peer's, which answers each stream with itself."""
    port, own = peers.free_ports(2)
    async with peer.server(port, made, tmp_path, HOST, **options) as server:
        with between(impairment, port, own, relays) as towards:
            async with quic.Endpoint([HOST], port=own) as endpoint:
                connection = await endpoint.connect(
                    HOST, towards, protocols=[ALPN], trust=made.chain, settings=settings
                )
                async with connection:
                    yield connection, server


@contextlib.asynccontextmanager
async def ours_listens(
    peer: Peer,
    made: quic.Certificate,
    tmp_path: Path,
    impairment: Sequence[str] = (),
    settings: dict[str, object] | None = None,
    *,
    relays: list[Popen[str]] | None = None,
    **options: object,
) -> AsyncIterator[tuple[quic.Connection, Client]]:
    """A connection of the peer's to a server of ours."""
    port, own = peers.free_ports(2)
    async with (
        quic.Endpoint([HOST], port=port) as endpoint,
        endpoint.listen(made, protocols=[ALPN], settings=settings) as listener,
    ):
        with between(impairment, port, own, relays) as towards:
            async with peer.client(own, towards, made, tmp_path, HOST, **options) as client:
                yield await listener.accept(), client


async def exchange(connection: quic.Connection, size: int) -> float:
    """Writes so much on a stream of ours, and reads it as it comes back; MB/s both ways."""
    sent, heard = content(size, 1), hashlib.sha256()
    began = time.monotonic()
    stream = await connection.open()
    writing = asyncio.create_task(stream.write(sent, end=True))
    total = 0
    async for piece in stream:
        heard.update(piece)
        total += len(piece)
    await writing
    assert (total, heard.digest()) == (size, hashlib.sha256(sent).digest())
    return 2 * size / 1e6 / (time.monotonic() - began)


async def answer(connection: quic.Connection) -> None:
    """Sends every stream back."""
    async for stream in connection.streams():
        async for piece in stream:
            if stream.writes:
                await stream.write(piece)
        if stream.writes:
            await stream.end()


@contextlib.asynccontextmanager
async def ours_answers(
    peer: Peer,
    made: quic.Certificate,
    tmp_path: Path,
    impairment: Sequence[str] = (),
    settings: dict[str, object] | None = None,
    *,
    relays: list[Popen[str]] | None = None,
    **options: object,
) -> AsyncIterator[tuple[quic.Connection, Client]]:
    """A connection of the peer's to a server of ours, which answers each stream with itself."""
    listening = ours_listens(peer, made, tmp_path, impairment, settings, relays=relays, **options)
    async with listening as (ours, client):
        answering = asyncio.create_task(answer(ours))
        yield ours, client
        answering.cancel()


@pytest.mark.parametrize("loss", LOSSES)
def test_transfer_of_a_client_of_ours(
    peer: Peer, made: quic.Certificate, tmp_path: Path, loss: str, cell: Cell
) -> None:
    async def work() -> None:
        async with ours_connects(peer, made, tmp_path, LOSSES[loss]) as (connection, _):
            speed = await exchange(connection, BULK)
            cell(f"transfer, {loss} loss, ours connects", peer, speed)
            await connection.shutdown()
            assert connection.reason == "shutdown"

    cell(f"transfer, {loss} loss, ours connects", peer)
    run(work)


@pytest.mark.parametrize("loss", LOSSES)
def test_transfer_of_a_server_of_ours(
    peer: Peer, made: quic.Certificate, tmp_path: Path, loss: str, cell: Cell
) -> None:
    async def work() -> None:
        async with ours_listens(peer, made, tmp_path, LOSSES[loss]) as (connection, client):
            answering = asyncio.create_task(answer(connection))
            began = time.monotonic()
            await client.exchange(BULK)
            speed = 2 * BULK / 1e6 / (time.monotonic() - began)
            cell(f"transfer, {loss} loss, ours listens", peer, speed)
            if LOSSES[loss]:
                # The peer's goodbye may be lost, and it says it once.
                await connection.shutdown()
            else:
                await client.close(0)
            await answering
            assert connection.reason == "shutdown"

    cell(f"transfer, {loss} loss, ours listens", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_handshake(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """Both ends know the other's name and the protocol; a certificate of others is refused."""

    async def work() -> None:
        other = quic.self_signed(["localhost", HOST])
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path) as (connection, _):
                assert connection.protocol == ALPN
            (port,) = peers.free_ports(1)
            async with peer.server(port, other, tmp_path), quic.Endpoint([HOST]) as endpoint:
                with pytest.raises(quic.ConnectionClosedError, match="invalid peer certificate"):
                    await endpoint.connect(HOST, port, protocols=[ALPN], trust=made.chain)
                with pytest.raises(quic.ConnectionClosedError, match="no_application_protocol"):
                    await endpoint.connect(HOST, port, protocols=["none"], trust=other.chain)
        else:
            async with ours_listens(peer, made, tmp_path) as (connection, client):
                assert connection.protocol == ALPN
                assert client.is_open

    cell("handshake", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_handshake_loss(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """30 % of all packets are lost, as in the runner's case."""

    cell("handshakeloss", peer)
    run(lambda: handshakes(peer, made, tmp_path, ours, "--loss"))


async def handshakes(
    peer: Peer, made: quic.Certificate, folder: Path, ours: str, impairment: str
) -> None:
    """Five connections over which little is sent, where 30 % of the packets are impaired."""
    for seed in range(5):
        weather = (impairment, "0.3", "--delay", "5", "--seed", str(seed))
        if ours == "connects":
            async with ours_connects(peer, made, folder, weather) as (connection, _):
                await exchange(connection, 1000)
                await connection.close()
        else:
            async with ours_answers(peer, made, folder, weather) as (connection, client):
                await client.exchange(1000)
                await connection.close()


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_handshake_corruption(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """30 % of all packets have a flipped bit, as in the runner's case."""

    cell("handshakecorruption", peer)
    run(lambda: handshakes(peer, made, tmp_path, ours, "--corrupt"))


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_amplification_limit(peer: Peer, tmp_path: Path, ours: str, cell: Cell) -> None:
    """A server with a long certificate may send no more until a client speaks that is not heard.

    The client's packets 2 to 7 are lost (RFC 9002 section 6.2.2.1).
    """

    async def work() -> None:
        long = quic.self_signed(["localhost", HOST, *(f"name-{at}.example" for at in range(250))])
        weather = ("--drop", "2", "7", "--delay", "5")
        if ours == "connects":
            async with ours_connects(peer, long, tmp_path, weather) as (connection, _):
                await exchange(connection, 10_000)
        else:
            async with ours_answers(peer, long, tmp_path, weather) as (_, client):
                await client.exchange(10_000)

    cell("amplificationlimit", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_blackhole(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """Nothing passes for two seconds in the middle of a transfer."""

    async def cut(relays: list[Popen[str]]) -> None:
        await asyncio.sleep(0.5)
        namespaces.tell(relays[0], "cut")
        await asyncio.sleep(2)
        namespaces.tell(relays[0], "restore")

    async def work() -> None:
        weather, relays = ("--delay", "5", "--rate", "10e6"), list[Popen[str]]()
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path, weather, relays=relays) as (end, _):
                await asyncio.gather(exchange(end, 2_000_000), cut(relays))
        else:
            async with ours_answers(peer, made, tmp_path, weather, relays=relays) as (_, client):
                await asyncio.gather(client.exchange(2_000_000), cut(relays))

    cell("blackhole", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_ipv6(peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell) -> None:
    async def work() -> None:
        port, own = peers.free_ports(2)
        if ours == "connects":
            async with (
                peer.server(port, made, tmp_path, host=HOST6),
                quic.Endpoint([HOST6]) as endpoint,
            ):
                connection = await endpoint.connect(
                    HOST6, port, protocols=[ALPN], trust=made.chain, server_name="localhost"
                )
                async with connection:
                    await exchange(connection, 100_000)
        else:
            async with (
                quic.Endpoint([HOST6], port=port) as endpoint,
                endpoint.listen(made, protocols=[ALPN]) as listener,
                peer.client(own, port, made, tmp_path, host=HOST6) as client,
            ):
                answering = asyncio.create_task(answer(await listener.accept()))
                await client.exchange(100_000)
                answering.cancel()

    cell("ipv6", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_corruption(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    async def work() -> None:
        weather = ("--corrupt", "0.05", "--delay", "0.5")
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path, weather) as (connection, _):
                await exchange(connection, 300_000)
        else:
            async with ours_answers(peer, made, tmp_path, weather) as (_, client):
                await client.exchange(300_000)

    cell("transfercorruption", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_longrtt(peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell) -> None:
    async def work() -> None:
        weather = ("--delay", "750")
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path, weather) as (connection, _):
                await exchange(connection, 20_000)
                assert connection.scalars()["quic.min_rtt_ms"] >= 1500
        else:
            async with ours_answers(peer, made, tmp_path, weather) as (_, client):
                await client.exchange(20_000)

    cell("longrtt", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_retry(peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell) -> None:
    async def work() -> None:
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path, retry=True) as (connection, _):
                assert connection.scalars()["quic.retries"] == 1
                await exchange(connection, 10_000)
        else:
            settings: dict[str, object] = {"retry": True}
            async with ours_answers(peer, made, tmp_path, settings=settings) as (_, client):
                await client.exchange(10_000)

    cell("retry", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_version_negotiation(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    cell("versionnegotiation", peer)
    theirs = "listens" if ours == "connects" else "connects"
    if theirs not in peer.negotiates_versions:
        who = "server" if theirs == "listens" else "client"
        pytest.xfail(f"a {who} of {peer} cannot be told to speak another version")

    async def work() -> None:
        if ours == "connects":
            (port,) = peers.free_ports(1)
            async with (
                peer.server(port, made, tmp_path, other_version=True),
                quic.Endpoint([HOST]) as endpoint,
            ):
                with pytest.raises(quic.ConnectionClosedError, match="speaks other versions"):
                    await endpoint.connect(HOST, port, protocols=[ALPN], trust=made.chain)
        else:
            async with ours_answers(peer, made, tmp_path, other_version=True) as (_, client):
                await client.exchange(10_000)

    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_multiplexing(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """300 streams, more than are permitted at a time."""

    async def work() -> None:
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path) as (connection, _):
                await asyncio.gather(*(exchange(connection, 500 + at) for at in range(300)))
        else:
            settings: dict[str, object] = {"max_streams": 50}
            async with ours_answers(peer, made, tmp_path, settings=settings) as (_, client):
                await client.exchange_many(300, 700)

    cell("multiplexing", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_key_update(  # noqa: PLR0917 - fixtures
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, who: str, cell: Cell
) -> None:
    async def update(
        connection: quic.Connection, their: Server, talk: Callable[[int], Awaitable[object]]
    ) -> None:
        if who == "theirs":
            if peer.updates_keys:
                await their.update_keys()
            return
        async with asyncio.timeout(30):
            while not connection.update_keys():
                # One of the peer's own is under way, until it hears of ours.
                assert not peer.keeps_keys
                await talk(1000)

    async def work() -> None:
        # Whoever cannot be told updates its keys by itself within these.
        size = 100_000 if peer.updates_keys or who == "ours" else 1_000_000
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path) as (connection, server):
                talk = partial(exchange, connection)
                await talk(size)
                await update(connection, server, talk)
                await talk(size)
                count = connection._host.key_updates(connection._number)
        else:
            async with ours_answers(peer, made, tmp_path) as (connection, client):
                await client.exchange(size)
                await update(connection, client, client.exchange)
                await client.exchange(size)
                count = connection._host.key_updates(connection._number)
        assert count == 1 if peer.keeps_keys else count > 0

    cell("keyupdate", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_chacha20(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    cell("chacha20", peer)
    if not peer.chooses_ciphers:
        pytest.xfail(f"{peer}'s program does not choose among ciphers")

    async def work() -> None:
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path, chacha20=True) as (connection, _):
                await exchange(connection, 100_000)
        else:
            async with ours_answers(peer, made, tmp_path, chacha20=True) as (_, client):
                await client.exchange(100_000)

    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_datagrams(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """RFC 9221: fifty messages of all sizes, which come back."""

    async def work() -> None:
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path) as (connection, _):
                for size in range(1, 1000, 20):
                    connection.send_datagram(content(size, size))
                    assert await connection.receive_datagram() == content(size, size)
        else:
            async with ours_listens(peer, made, tmp_path) as (connection, client):

                async def back() -> None:
                    while True:
                        connection.send_datagram(await connection.receive_datagram())

                answering = asyncio.create_task(back())
                for size in range(1, 1000, 20):
                    assert await client.datagram(content(size, size)) == content(size, size)
                answering.cancel()

    cell("datagrams", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_close(peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell) -> None:
    """Each end closes with a code, and the other one is told."""

    async def work() -> None:
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path) as (connection, server):
                await exchange(connection, 1000)
                await connection.close(0x77)
                assert await server.closed() == 0x77
            async with ours_connects(peer, made, tmp_path) as (connection, server):
                await exchange(connection, 1000)
                await server.close(0x78)
                await connection.ended()
                with pytest.raises(quic.ConnectionClosedError, match="0x78"):
                    await connection.open()
        else:
            async with ours_listens(peer, made, tmp_path) as (connection, client):
                await connection.close(0x77)
                assert await client.closed() == 0x77
            async with ours_listens(peer, made, tmp_path) as (connection, client):
                await client.close(0x78)
                await connection.ended()
                with pytest.raises(quic.ConnectionClosedError, match="0x78"):
                    await connection.open()

    cell("close with a code", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_ecn(peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell) -> None:
    """A router marks packets, and each end hears of it."""

    async def work() -> None:
        weather = ("--mark", "0.1")
        settings: dict[str, object] = {"ecn": True}
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path, weather, settings) as (connection, _):
                await exchange(connection, 500_000)
                told = connection.scalars()
        else:
            async with ours_answers(peer, made, tmp_path, weather, settings) as (connection, end):
                await end.exchange(500_000)
                told = connection.scalars()
        assert told["quic.ce_received"] > 0
        assert told["quic.ce_reported"] > 0
        assert told["quic.ecn_reductions"] > 0

    cell("ecn", peer)
    if not peer.reports_marks:
        pytest.xfail(f"{peer} does not report marks")
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
@pytest.mark.parametrize("case", ["rebind-port", "rebind-addr"])
def test_rebinding(  # noqa: PLR0917 - fixtures
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, case: str, cell: Cell
) -> None:
    """A NAT gives the client another port or address in the middle of a transfer, three times."""

    async def rebind(relays: list[Popen[str]]) -> None:
        for turn in range(3):
            await asyncio.sleep(0.2)
            (port,) = peers.free_ports(1)
            host = HOST if case == "rebind-port" else f"127.0.0.{turn + 2}"
            namespaces.tell(relays[0], f"rebind {host}:{port}")

    async def work() -> None:
        weather, relays = ("--delay", "5", "--rate", "20e6"), list[Popen[str]]()
        if ours == "connects":
            async with ours_connects(peer, made, tmp_path, weather, relays=relays) as (end, _):
                await asyncio.gather(exchange(end, 3_000_000), rebind(relays))
        else:
            async with ours_answers(peer, made, tmp_path, weather, relays=relays) as (end, client):
                await asyncio.gather(client.exchange(3_000_000), rebind(relays))
                assert end.scalars()["quic.rebindings"] >= 3

    cell(case, peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_migration(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """A client goes on at another port on purpose, and at another address where it is ours."""

    async def work() -> None:
        if ours == "connects":
            async with (
                peer.server(port := peers.free_ports(1)[0], made, tmp_path),
                quic.Endpoint([HOST]) as endpoint,
            ):
                connection = await endpoint.connect(HOST, port, protocols=[ALPN], trust=made.chain)
                await exchange(connection, 100_000)
                for moves, addresses in enumerate((None, ["127.0.0.2"]), 1):
                    endpoint.rebind(addresses)
                    await exchange(connection, 1_000_000)
                    assert connection.scalars()["quic.migrations"] == moves
                await connection.shutdown()
        else:
            async with ours_answers(peer, made, tmp_path) as (connection, client):
                await client.exchange(100_000)
                await client.migrate()
                await client.exchange(1_000_000)
                assert connection.scalars()["quic.rebindings"] == 1

    cell("connectionmigration", peer)
    run(work)


@pytest.mark.parametrize("ours", ["connects", "listens"])
def test_stateless_reset(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """An end that has forgotten the connection says so (RFC 9000 section 10.3)."""

    async def they_forget() -> None:
        (port,) = peers.free_ports(1)
        async with quic.Endpoint([HOST]) as endpoint:
            async with peer.server(port, made, tmp_path):
                connection = await endpoint.connect(HOST, port, protocols=[ALPN], trust=made.chain)
                await exchange(connection, 10_000)
            async with peer.server(port, made, tmp_path):
                stream = await connection.open()
                await stream.write(content(1000, 1))
                await connection.ended()
                with pytest.raises(quic.ConnectionClosedError, match="stateless reset"):
                    await connection.open()

    async def ours_forgets() -> None:
        relays = list[Popen[str]]()
        weather = ("--delay", "0.5")
        async with ours_answers(peer, made, tmp_path, weather, relays=relays) as (end, client):
            await client.exchange(10_000)
            namespaces.tell(relays[0], "cut")
            await end.abort()
            while end._host.counts()[0] > 0:
                await asyncio.sleep(0.1)
            namespaces.tell(relays[0], "restore")
            asking = asyncio.create_task(client.exchange(10_000))
            assert await client.was_reset()
            asking.cancel()

    cell("stateless reset", peer)
    if not peer.resets:
        pytest.xfail(f"{peer} neither sends stateless resets nor knows them")
    run(they_forget if ours == "connects" else ours_forgets)


@pytest.mark.parametrize(
    "case",
    [
        "resumption",
        "zerortt",
        "http3",
        "v2",
        "goodput",
        "crosstraffic",
    ],
)
def test_what_is_not_there(peer: Peer, case: str, cell: Cell) -> None:
    cell(case, peer)
    causes = {
        "resumption": "there are no session tickets",
        "zerortt": "there is no 0-RTT",
        "http3": "not applicable: there is no HTTP",
        "v2": "there is version 1 only",
        "goodput": "not applicable: a measurement, which bench-quic makes (clean)",
        "crosstraffic": "not applicable: a measurement, which bench-quic makes (versus CUBIC)",
    }
    pytest.xfail(causes[case])


def test_the_environment_is_left_alone() -> None:
    """No test writes secrets."""
    assert "SSLKEYLOGFILE" not in os.environ
