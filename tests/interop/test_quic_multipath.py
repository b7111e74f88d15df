"""Several paths of our QUIC (RFC 10069) against stacks that others wrote.

Two relays on the loopback address are two paths, each with 1 MB each way; with INTEROP=full (`make
validate`) 100 MB. Each test is a cell of docs/interop.md, as in `test_quic.py`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from types import MappingProxyType
from typing import Any

import namespaces
import peers
import pytest
from peers import IS_FULL, LIMIT_S, Cell, MissingError
from quic_peers import ALPN, HOST, SEVERAL, Peer, find
from test_quic import answer, content, exchange

from anabranch import _engine, quic
from support import live

pytestmark = pytest.mark.skipif(not _engine.QUIC, reason="this engine was built without QUIC")

BULK = 100_000_000 if IS_FULL else 1_000_000
RATE = "200e6" if IS_FULL else "20e6"
PACED = ("--delay", "3", "--rate", RATE)
LOSSES = {
    "0 %": PACED,
    "1 %": (*PACED, "--loss", "0.01"),
    "5 %": (*PACED, "--loss", "0.05"),
}
CLIENTS = (HOST, "127.0.1.2")
"""The client's addresses; a client of others sends from the first one unless it is told."""
RELAYS = ("127.0.2.1", "127.0.2.2")
"""What the client takes for the server's addresses."""
OUTSIDE = ("127.0.3.1", "127.0.3.2")
"""Where the server sees the client."""
SHARE = 0.05
"""Of the bytes, what at least goes on each of two equal paths. noq fills the first one first."""


@pytest.fixture(scope="module")
def made() -> quic.Certificate:
    """The server's certificate, whoever it is."""
    return quic.self_signed(["localhost", HOST, *RELAYS])


@pytest.fixture(params=SEVERAL)
def peer(request: pytest.FixtureRequest, cell: Cell) -> Peer:
    """A stack with several paths; skips the test with a sentence where it is not there."""
    try:
        return find(request.param)
    except MissingError as error:
        cell("join", request.param)
        pytest.skip(str(error))


both = pytest.mark.parametrize("ours", ["connects", "listens"])


def run(work: Any) -> None:
    live.run(work, limit_s=LIMIT_S)


class Joined:
    """A connection of ours with a peer over two paths."""

    def __init__(
        self, connection: quic.Connection, other: Any, relays: list[Popen[str]], port: int
    ) -> None:
        self.ours, self.theirs, self.relays = connection, other, relays
        self.port = port
        """That of the relays towards the client."""
        self.is_client = False

    async def exchange(self, size: int) -> float:
        """The client writes so much, and it comes back; MB/s both ways."""
        if self.is_client:
            return await exchange(self.ours, size)
        began = time.monotonic()
        await self.theirs.exchange(size)
        return 2 * size / 1e6 / (time.monotonic() - began)

    def path(self, number: int) -> quic.Path:
        """One of our paths."""
        return next(path for path in self.ours.paths() if path.number == number)

    async def until(self, path: int, change: str) -> None:
        """Waits until that has happened to a path of ours."""
        async with asyncio.timeout(60):
            async for event in self.ours.events():
                if isinstance(event, quic.PathChanged) and (event.path, event.change) == (
                    path,
                    change,
                ):
                    return
        raise AssertionError(f"the connection is over: {self.ours.reason}")

    async def active(self, path: int) -> None:
        """Waits until a path answers, with data that may go there."""
        async with asyncio.timeout(60):
            while self.path(path).state != "active":
                await self.exchange(50_000)

    async def open(self, path: int, status: str = "available") -> int:
        """The client opens a path over this relay; gives its path ID."""
        if self.is_client:
            backup = status == "backup"
            return await self.ours.add_path(CLIENTS[path], RELAYS[path], backup=backup)
        opening = self.theirs.open_path(CLIENTS[path], f"{RELAYS[path]}:{self.port}", status)
        number: int = await opening
        await self.until(number, "validated")
        return number

    def cut(self, path: int) -> None:
        namespaces.tell(self.relays[path], "cut")

    def restore(self, path: int) -> None:
        namespaces.tell(self.relays[path], "restore")


@contextlib.contextmanager
def two_paths(impairment: Sequence[str], server: int, client: int) -> Any:
    """Two relays between a server and a client at these ports; the port at which they wait."""
    inner, outer = peers.free_ports(2)
    with contextlib.ExitStack() as stack:
        relays = []
        for path, here in enumerate(CLIENTS):
            ends = [f"{OUTSIDE[path]}:{inner}", f"{HOST}:{server}"]
            ends += [f"{RELAYS[path]}:{outer}", f"{here}:{client}"]
            command = [str(peers.relay()), *impairment, "udp", *ends]
            relays.append(stack.enter_context(namespaces.relaying(command, {})))
        yield outer, relays


@contextlib.asynccontextmanager
async def joined(  # noqa: PLR0917
    peer: Peer,
    made: quic.Certificate,
    folder: Path,
    ours: str,
    impairment: Sequence[str] = PACED,
    status: str = "available",
    theirs: Mapping[str, Any] = MappingProxyType({}),
    **more: object,
) -> AsyncIterator[Joined]:
    """Both ends have both paths, the second one with this status."""
    server, client = peers.free_ports(2)
    settings: dict[str, object] = {"multipath": True, "keep_alive": "1 s", **more}
    with two_paths(impairment, server, client) as (outer, relays):
        if ours == "connects":
            async with (
                peer.server(server, made, folder, paths=4, **theirs) as other,
                quic.Endpoint(CLIENTS, port=client) as endpoint,
            ):
                connection = await endpoint.connect(
                    HOST,
                    outer,
                    protocols=[ALPN],
                    trust=made.chain,
                    settings=settings,
                    paths=[f"{CLIENTS[0]}={RELAYS[0]}"],
                )
                async with connection:
                    both_ends = Joined(connection, other, relays, outer)
                    both_ends.is_client = True
                    assert await both_ends.open(1, status) == 1
                    yield both_ends
                    await connection.close()
        else:
            async with (
                quic.Endpoint([HOST], port=server) as endpoint,
                endpoint.listen(made, protocols=[ALPN], settings=settings) as listener,
                peer.client(
                    client, outer, made, folder, paths=4, host="0.0.0.0", to=RELAYS[0], **theirs
                ) as other,
            ):
                connection = await listener.accept()
                answering = asyncio.create_task(answer(connection))
                both_ends = Joined(connection, other, relays, outer)
                assert await both_ends.open(1, status) == 1
                yield both_ends
                answering.cancel()
                await connection.close()


def shares(end: Joined) -> list[float]:
    """Of the bytes that we sent, what went on each path."""
    sent = [path.sent for path in end.ours.paths()]
    return [bytes_ / sum(sent) for bytes_ in sent]


@both
def test_join(peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell) -> None:
    async def work() -> None:
        async with joined(peer, made, tmp_path, ours) as end:
            for number in (0, 1):
                await end.active(number)
                path = end.path(number)
                if ours == "connects":
                    assert (path.local, path.remote) == (CLIENTS[number], RELAYS[number])
                else:
                    assert (path.local, path.remote) == (HOST, OUTSIDE[number])
            await end.exchange(10_000)

    cell("join", peer)
    run(work)


@both
@pytest.mark.parametrize("loss", LOSSES)
def test_transfer(  # noqa: PLR0917 - fixtures
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, loss: str, cell: Cell
) -> None:
    """All bytes arrive, and both paths carry a part of them."""

    async def work() -> None:
        async with joined(peer, made, tmp_path, ours, LOSSES[loss]) as end:
            speed = await end.exchange(BULK)
            cell(f"transfer, {loss} loss, ours {ours}", peer, speed)
            assert min(shares(end)) > SHARE, shares(end)
            theirs = await end.theirs.paths()
            sent = [theirs[path][0] for path in (0, 1)]
            assert min(sent) > SHARE * sum(sent), theirs

    cell(f"transfer, {loss} loss, ours {ours}", peer)
    run(work)


@both
def test_backup(peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell) -> None:
    """A path that the client calls a backup carries nothing, until the other one is cut."""

    async def work() -> None:
        # noq goes over to a backup when it has given the other path up.
        idle = {"path_idle_ms": 2000}
        async with joined(peer, made, tmp_path, ours, status="backup", theirs=idle) as end:
            # Whoever is told has heard of it by then.
            await asyncio.sleep(0.5)
            await end.exchange(300_000)
            path = end.path(1)
            assert path.sent < 30_000, path
            # picoquic's server sends there none the less: what the client says is a wish.
            assert path.received < 30_000 or (peer.name, ours) == ("picoquic", "connects"), path
            # noq's server wants of its own accord what the client does.
            assert path.is_backup if ours == "connects" else path.is_peers_backup
            end.cut(0)
            await end.exchange(300_000)
            assert end.path(1).sent > 300_000

    cell("backup", peer)
    run(work)


@both
@pytest.mark.parametrize("who", ["ours", "theirs"])
@pytest.mark.parametrize("path", [0, 1])
def test_abandon(  # noqa: PLR0917 - fixtures
    peer: Peer,
    made: quic.Certificate,
    tmp_path: Path,
    ours: str,
    who: str,
    path: int,
    cell: Cell,
) -> None:
    """Either end gives either path up in the middle of a transfer."""

    async def give_up(end: Joined) -> None:
        await asyncio.sleep(0.3)
        if who == "ours":
            end.ours.abandon_path(path)
        else:
            await end.theirs.abandon_path(path)
        await end.until(path, "abandoned")

    async def work() -> None:
        async with joined(peer, made, tmp_path, ours) as end:
            await asyncio.gather(end.exchange(2_000_000), give_up(end))
            before = end.path(path).sent
            await end.exchange(100_000)
            assert end.path(path).sent == before
            assert end.path(path).state == "abandoned"
            if ours == "connects" and path:
                again = await end.ours.add_path(CLIENTS[1], RELAYS[1])
                assert again > 1
                await end.exchange(100_000)

    cell("abandon", peer)
    run(work)


@both
@pytest.mark.parametrize("path", [0, 1])
def test_cut(  # noqa: PLR0917 - fixtures
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, path: int, cell: Cell
) -> None:
    """A path is cut in the middle of a transfer, which goes on; and the path comes back.

    noq leaves what is on its way there until it gives the path up; the client opens another one.
    """

    async def cut(end: Joined) -> None:
        await asyncio.sleep(0.3)
        end.cut(path)

    async def work() -> None:
        gives_up = peer.name == "noq"
        theirs = {"path_idle_ms": 2000} if gives_up else {}
        async with joined(peer, made, tmp_path, ours, theirs=theirs) as end:
            await asyncio.gather(end.exchange(2_000_000), cut(end))
            number = path
            if gives_up and end.path(path).state != "abandoned":
                await end.until(path, "abandoned")
            end.restore(path)
            if gives_up:
                number = await end.open(path)
            await end.active(number)
            before = end.path(number)
            await end.exchange(2_000_000)
            after = end.path(number)
            assert after.sent + after.received > before.sent + before.received + 50_000

    cell("cut and back", peer)
    run(work)


@both
@pytest.mark.parametrize("path", [0, 1])
def test_rebinding(  # noqa: PLR0917 - fixtures
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, path: int, cell: Cell
) -> None:
    """A NAT gives the client another port on one path, twice in a transfer."""

    async def rebind(end: Joined) -> None:
        for _ in range(2):
            await asyncio.sleep(0.3)
            (port,) = peers.free_ports(1)
            namespaces.tell(end.relays[path], f"rebind {OUTSIDE[path]}:{port}")
        if ours == "listens":
            await end.until(path, "moved")

    async def work() -> None:
        async with joined(peer, made, tmp_path, ours) as end:
            await asyncio.gather(end.exchange(3_000_000), rebind(end))
            before = end.path(path)
            await end.exchange(1_000_000)
            after = end.path(path)
            assert after.state != "abandoned"
            assert after.sent + after.received > before.sent + before.received + 100_000

    cell("rebinding of one path", peer)
    run(work)


@both
@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_key_update(  # noqa: PLR0917 - fixtures
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, who: str, cell: Cell
) -> None:
    """Three updates, with data on both paths before and after each."""

    async def work() -> None:
        async with joined(peer, made, tmp_path, ours, scheduler="round_robin") as end:
            for turn in range(1, 4):
                await end.exchange(500_000)
                if who == "theirs":
                    await end.theirs.update_keys()
                else:
                    async with asyncio.timeout(30):
                        while not end.ours.update_keys():
                            await end.exchange(1000)
                await end.exchange(500_000)
                count = end.ours._host.key_updates(end.ours._number)
                # noq leaves out what is too early.
                assert count >= (turn if who == "ours" else 1)
            assert min(shares(end)) > SHARE

    cell("key update", peer)
    run(work)


@both
def test_datagrams(
    peer: Peer, made: quic.Certificate, tmp_path: Path, ours: str, cell: Cell
) -> None:
    """Messages of all sizes come back, the last of them while a path is cut."""

    async def work() -> None:
        async with joined(peer, made, tmp_path, ours, scheduler="round_robin") as end:
            sizes = range(1, 1000, 50)
            if ours == "connects":
                for size in sizes:
                    end.ours.send_datagram(content(size, size))
                    assert await end.ours.receive_datagram() == content(size, size)
            else:

                async def back() -> None:
                    while True:
                        end.ours.send_datagram(await end.ours.receive_datagram())

                answering = asyncio.create_task(back())
                for size in sizes:
                    assert await end.theirs.datagram(content(size, size)) == content(size, size)
                answering.cancel()

    cell("datagrams", peer)
    run(work)
