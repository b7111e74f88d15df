"""The work of the commands of `anabranch quic`, in a module of its own as it is slow to import."""

import asyncio
import contextlib
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from anabranch.quic import (
    Connection,
    ConnectionClosedError,
    Endpoint,
    PathRefused,
    Stream,
    StreamClosedError,
)
from anabranch.support import terminal
from anabranch.support.files import opened_atomically
from anabranch.support.progress import wants_json
from anabranch.support.stdin import STANDARD

from .app import write_json
from .messages import say
from .pieces import Pieces, alongside, say_rate, standard_input, standard_output
from .quic_options import Serving, Sockets, Trusting

_CHUNK = 262_144
_QUIET_SECONDS = 1
"""Seconds after which a line says which answer is awaited."""
_SILENT_SECONDS = 1
"""Seconds without a datagram, beside four round trips, after which no more are waited for."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs one of these coroutines to its end, or until Ctrl-C."""
    asyncio.run(work)


def tell(sentence: str, event: str, **particulars: object) -> None:
    """Says what happens, to a person or to a program."""
    if wants_json():
        terminal.say_on_error(json.dumps({"event": event, **particulars}))
    else:
        say(sentence)


async def listen(serving: Serving, sockets: Sockets, port: int, *, echo: bool, keep: bool) -> None:
    """Waits for peers and talks with them."""
    lines = None if echo else _typed()
    out = standard_output()

    async def serve(connection: Connection) -> None:
        try:
            async with connection:
                if lines is None:
                    await _echo(connection)
                else:
                    await _answer(connection, lines, out)
        except ConnectionClosedError as closed:
            if not keep:
                raise
            tell(str(closed), "closed", reason=closed.reason, code=closed.code)

    async with _waiting(serving, sockets, port) as accepted:
        tasks: set[asyncio.Task[None]] = set()
        async for connection in accepted:
            _say_connected(connection)
            if echo and keep:
                task = asyncio.create_task(serve(connection))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                continue
            await serve(connection)
            _count(connection, sockets)
            if not keep:
                return


async def connect(
    trusting: Trusting,
    sockets: Sockets,
    host: str,
    port: int,
    patience: float,
    *,
    datagrams: bool,
) -> None:
    """Talks with a peer."""
    out = standard_output()
    lines = Pieces(standard_input().readline) if datagrams else _typed()
    async with _connected(trusting, sockets, host, port, patience) as connection:
        if datagrams:
            await _send_datagrams(connection, lines, out)
        else:
            stream = await connection.open()
            await _converse(stream, lines, out)
    _count(connection, sockets)


async def send(  # noqa: PLR0917
    trusting: Trusting,
    sockets: Sockets,
    host: str,
    port: int,
    file: Path,
    patience: float,
) -> None:
    """Sends a file."""
    source = standard_input() if file == STANDARD else file.open("rb")
    async with _connected(trusting, sockets, host, port, patience) as connection:
        began, total = time.monotonic(), 0
        stream = await connection.open(bidirectional=False)
        async for content in Pieces(lambda: source.read(_CHUNK)):
            await stream.write(content)
            total += len(content)
        await stream.end()
        await connection.shutdown()
        seconds = time.monotonic() - began
    _say_rate("sent", total, seconds)
    _count(connection, sockets)


async def receive(serving: Serving, sockets: Sockets, port: int, file: Path) -> None:
    """Writes what one peer sends to a file."""
    standard = standard_output() if file == STANDARD else None
    async with _waiting(serving, sockets, port) as accepted, await anext(accepted) as connection:
        _say_connected(connection)
        stream = await connection.accept()
        began, total = time.monotonic(), 0
        with (
            opened_atomically(file, is_long=True)
            if standard is None
            else nullcontext(standard) as out
        ):
            async for piece in stream:
                out.write(piece)
                total += len(piece)
            out.flush()
        seconds = time.monotonic() - began
        if stream.writes:
            await stream.end()
        await connection.ended()
    _say_rate("received", total, seconds)
    _count(connection, sockets)


@asynccontextmanager
async def _waiting(
    serving: Serving, sockets: Sockets, port: int
) -> AsyncIterator[AsyncIterator[Connection]]:
    """Listens at a port; gives the connections that peers open."""
    certificate = serving.certificate()
    async with (
        Endpoint(serving.address, port=port, mtu=sockets.mtu) as endpoint,
        endpoint.listen(
            certificate, protocols=sockets.protocols(), settings=sockets.settings()
        ) as listener,
    ):
        where = ", ".join(serving.address)
        tell(
            f"waits at UDP port {endpoint.port} of {where}",
            "listening",
            port=endpoint.port,
            addresses=[*serving.address],
        )
        yield aiter(listener)


@asynccontextmanager
async def _connected(
    trusting: Trusting, sockets: Sockets, host: str, port: int, patience: float
) -> AsyncIterator[Connection]:
    """A connection with a peer, which is closed at the end."""
    settings, whom = {**trusting.backups(), **sockets.settings()}, trusting.whom()

    async def remind() -> None:
        await asyncio.sleep(_QUIET_SECONDS)
        limit = "until the transport gives it up" if math.isinf(patience) else f"{patience:g} s"
        tell(f"waits for an answer from {host}, UDP port {port}: {limit} (--patience)", "waiting")

    async with Endpoint(trusting.locals(), mtu=sockets.mtu) as endpoint:
        reminding = asyncio.create_task(remind())
        try:
            connection = await endpoint.connect(
                host,
                port,
                protocols=sockets.protocols(),
                trust=whom,
                server_name=trusting.name,
                settings=settings,
                paths=trusting.path,
                patience=patience,
            )
        finally:
            reminding.cancel()
        if wants_json():
            _say_connected(connection)
        async with connection, alongside(_tell_paths(connection)):
            yield connection


async def _tell_paths(connection: Connection) -> None:
    """Says what happens to the paths of a connection."""
    async for event in connection.events():
        where = f"from {event.local} to {event.remote}"
        if isinstance(event, PathRefused):
            tell(f"there is no path {where}: {event.reason}", "path_refused", **vars(event))
        else:
            change = event.change.replace("_", " ")
            tell(f"path {event.path} {where}: {change}", "path", **vars(event))


def _typed() -> Pieces:
    """Standard input as it comes: a line that is typed, or many that are there."""
    source = standard_input()
    return Pieces(lambda: source.read1(_CHUNK))


async def _converse(stream: Stream, lines: Pieces, out: BinaryIO) -> None:
    """Sends lines on a stream and prints what comes back, until both directions are over."""

    async def speak() -> None:
        async for line in lines:
            await stream.write(line)
        await stream.end()

    async with alongside(speak()) as speaking:
        async for piece in stream:
            out.write(piece)
            out.flush()
        await speaking


async def _answer(connection: Connection, lines: Pieces, out: BinaryIO) -> None:
    """Prints what comes on the streams of the peer; lines go back on the first that takes them."""
    speaking: asyncio.Task[None] | None = None

    async def speak(stream: Stream) -> None:
        with contextlib.suppress(StreamClosedError):
            async for line in lines:
                await stream.write(line)
            await stream.end()

    hearing = asyncio.create_task(_print_datagrams(connection, out))
    try:
        async for stream in connection.streams():
            if speaking is None and stream.writes:
                speaking = asyncio.create_task(speak(stream))
            with contextlib.suppress(StreamClosedError):
                async for piece in stream:
                    out.write(piece)
                    out.flush()
    finally:
        for task in (hearing, speaking):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def _print_datagrams(
    connection: Connection, out: BinaryIO, came: Callable[[], None] = lambda: None
) -> None:
    """Prints the datagrams that come, until the connection is over; tells of each."""
    with contextlib.suppress(ConnectionClosedError):
        while True:
            out.write(await connection.receive_datagram())
            out.flush()
            came()


async def _echo(connection: Connection) -> None:
    """Sends streams and datagrams back."""

    async def back(stream: Stream) -> None:
        with contextlib.suppress(StreamClosedError, ConnectionClosedError):
            async for piece in stream:
                if stream.writes:
                    await stream.write(piece)
            if stream.writes:
                await stream.end()

    async def datagrams() -> None:
        with contextlib.suppress(ConnectionClosedError):
            while True:
                connection.send_datagram(await connection.receive_datagram())

    tasks = {asyncio.create_task(datagrams())}
    try:
        async for stream in connection.streams():
            task = asyncio.create_task(back(stream))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    finally:
        for task in tasks:
            task.cancel()


async def _send_datagrams(connection: Connection, lines: Pieces, out: BinaryIO) -> None:
    """Sends lines as datagrams, and prints those that come back.

    It ends when as many have come as were sent, or when none has come for a while.
    """
    sent, answers = 0, asyncio.Semaphore(0)
    hearing = asyncio.create_task(_print_datagrams(connection, out, answers.release))
    try:
        async for line in lines:
            connection.send_datagram(line)
            sent += 1
            await asyncio.sleep(0)
        patience = _SILENT_SECONDS + 4 * connection.scalars().get("quic.srtt_ms", 0) / 1000
        with contextlib.suppress(TimeoutError):
            for _ in range(sent):
                await asyncio.wait_for(answers.acquire(), patience)
    finally:
        hearing.cancel()


def _say_connected(connection: Connection) -> None:
    peer, protocol = connection.peer, connection.protocol
    tell(f"{peer} is connected ({protocol})", "connected", peer=peer, protocol=protocol)


def _say_rate(what: str, total: int, seconds: float) -> None:
    if wants_json():
        tell("", what, bytes=total, seconds=round(seconds, 6))
    else:
        say_rate(what, total, seconds)


def _count(connection: Connection, sockets: Sockets) -> None:
    if sockets.json_file is not None:
        write_json(sockets.json_file, connection.scalars())
