"""The work of the commands of `anabranch sctp`, in a module of its own as it is slow to import."""

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from anabranch.errors import LiveError
from anabranch.sctp import (
    AddressAdded,
    AddressRemoved,
    Association,
    AssociationClosedError,
    Restarted,
    Sight,
    StreamReset,
    Talk,
    Unreachable,
    check_call,
    check_message,
)
from anabranch.support import terminal
from anabranch.support.files import opened_atomically
from anabranch.support.stdin import STANDARD

from .app import write_json
from .messages import say
from .pieces import Pieces, alongside, say_rate, standard_input, standard_output
from .sctp_options import Messages, Sockets

_PLAIN_SECONDS = 10
_SILENT_SECONDS = 5
"""Seconds without a packet after which a line says so."""
_LOOK_EVERY = 0.5
_QUIET_SECONDS = 1
"""Seconds after which a line says which answer is awaited."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs one of these coroutines to its end, or until Ctrl-C."""
    asyncio.run(work)


async def listen(
    sockets: Sockets, messages: Messages, port: int, *, echo: bool, keep: bool
) -> None:
    """Waits for peers and talks with them."""
    check_message(**messages.options())
    lines = None if echo else Pieces(standard_input().readline)
    out = standard_output()

    async def serve(association: Association) -> None:
        try:
            async with association, _telling(association):
                if lines is None:
                    await _echo(association)
                else:
                    await _converse(association, messages, lines, out, until_said=False)
        except AssociationClosedError as closed:
            if not keep:
                raise
            say(str(closed))

    async with _waiting(sockets, port) as accepted:
        tasks: set[asyncio.Task[None]] = set()
        async for association in accepted:
            say(f"{_peer(association)} is connected")
            if echo and keep:
                task = asyncio.create_task(serve(association))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                continue
            await serve(association)
            _count(association, sockets)
            if not keep:
                return


async def connect(  # noqa: PLR0917
    sockets: Sockets,
    messages: Messages,
    host: str,
    port: int,
    remote_udp: int,
    patience: float,
) -> None:
    """Talks with a peer."""
    check_message(**messages.options())
    lines, out = Pieces(standard_input().readline), standard_output()
    async with (
        _connected(sockets, host, port, remote_udp, patience) as association,
        _telling(association),
    ):
        await _converse(association, messages, lines, out, until_said=True)
    _count(association, sockets)


async def send(  # noqa: PLR0917
    sockets: Sockets,
    messages: Messages,
    host: str,
    port: int,
    remote_udp: int,
    file: Path,
    size: int,
    patience: float,
) -> None:
    """Sends a file."""
    check_message(**messages.options())
    source = standard_input() if file == STANDARD else file.open("rb")
    async with _connected(sockets, host, port, remote_udp, patience) as association:
        began, total = time.monotonic(), 0
        async for content in Pieces(lambda: source.read(size)):
            await association.send(content, **messages.options())
            total += len(content)
        await association.shutdown()
    say_rate("sent", total, time.monotonic() - began)
    _count(association, sockets)


async def receive(sockets: Sockets, port: int, file: Path, patience: float) -> None:
    """Writes what one peer sends to a file."""
    standard = standard_output() if file == STANDARD else None
    # An idle peer answers heartbeats; one that is gone does not.
    often = {"hb_interval": f"{min(_SILENT_SECONDS, patience) / 2:g} s"}
    async with _waiting(sockets, port, often) as accepted, await anext(accepted) as association:
        began, total = time.monotonic(), 0
        with (
            opened_atomically(file, is_long=True)
            if standard is None
            else nullcontext(standard) as out
        ):
            async with _attended(association, patience):
                async for message in association:
                    out.write(message.data)
                    total += len(message.data)
            out.flush()
    say_rate("received", total, time.monotonic() - began)
    _count(association, sockets)


async def answer(sockets: Sockets, settings: Mapping[str, object], port: int) -> None:
    """Waits for a call."""
    async with _waiting(sockets, port) as accepted:
        association = await anext(accepted)
        await _talk(association, sockets, settings, calls=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await association.ended()


async def call(  # noqa: PLR0917
    sockets: Sockets,
    settings: Mapping[str, object],
    host: str,
    port: int,
    remote_udp: int,
    patience: float,
) -> None:
    """Calls a peer."""
    check_call(settings)
    async with _connected(sockets, host, port, remote_udp, patience) as association:
        await _talk(association, sockets, settings, calls=True)


async def _talk(
    association: Association, sockets: Sockets, settings: Mapping[str, object], *, calls: bool
) -> None:
    stop = asyncio.Event()
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    with _display(association) as watch:
        outcome = await Talk(association, settings, calls=calls).run(watch, stop=stop)
    out = terminal.console()
    out.print(terminal.summary(outcome.scalars))
    half = outcome.round_trip_ms / 2
    out.print(f"delays are known to ± {half:.3g} ms (half of the quickest round trip)")
    out.print(outcome.sentence)
    if association.reason is None and calls:
        await association.shutdown()
    _count(association, sockets, outcome.scalars)


@contextlib.contextmanager
def _display(association: Association) -> Iterator[Callable[[Sight], None]]:
    """Shows a call while it lasts: a table on a terminal, else a line every ten seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def tell(sight: Sight) -> None:
            if round(sight.seconds) % _PLAIN_SECONDS == 0:
                say(_state(sight))

        yield tell
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda sight: live.update(_table(sight, association), refresh=True)


def _state(sight: Sight) -> str:
    heard = sight.heard
    mos = "no MOS yet" if math.isnan(sight.mos) else f"MOS {sight.mos:.2f} over the last 10 s"
    lost, delay = heard.get("loss_percent", 0.0), heard.get("mean_delay_ms", math.nan)
    return f"{sight.seconds:.0f} s: {mos}; heard: {lost:.1f} % lost, {delay:.1f} ms one way"


def _table(sight: Sight, association: Association) -> Table:
    """A table of the call's present state, path by path."""
    table = Table(title=_state(sight), box=box.SIMPLE, title_justify="left")
    table.add_column("path")
    table.add_column("state")
    for head in ("SRTT, ms", "RTO, ms", "cwnd, B", "outstanding, B", "errors"):
        table.add_column(head, justify="right")
    for path in association.paths():
        state = path.state.replace("_", " ") + (", primary" if path.is_primary else "")
        numbers = (f"{path.cwnd}", f"{path.outstanding}", f"{path.errors}")
        table.add_row(path.remote, state, f"{path.srtt_ms:.1f}", f"{path.rto_ms:.0f}", *numbers)
    return table


@asynccontextmanager
async def _attended(association: Association, patience: float) -> AsyncIterator[None]:
    """Says when nothing comes from the peer any more, and gives it up after this many seconds."""
    is_given_up = False

    async def attend() -> None:
        nonlocal is_given_up
        received, since, has_said = -1.0, 0.0, False
        while association.reason is None:
            now = time.monotonic()
            packets = association.scalars().get("sctp.packets_received", 0.0)
            if packets != received:
                if has_said:
                    say(f"{_peer(association)} is there again")
                received, since, has_said = packets, now, False
            elif now - since >= patience:
                is_given_up = True
                await association.abort()
            elif now - since >= _SILENT_SECONDS and not has_said:
                has_said = True
                say(
                    f"nothing has come from {_peer(association)} for {_SILENT_SECONDS} s; it is"
                    f" given up after {patience:g} s (--patience)"
                )
            await asyncio.sleep(_LOOK_EVERY)

    attending = asyncio.create_task(attend())
    try:
        yield
    except AssociationClosedError:
        if is_given_up:
            raise LiveError(
                f"the peer is gone: nothing has come from it for {patience:g} s (--patience)"
            ) from None
        raise
    finally:
        attending.cancel()


@asynccontextmanager
async def _waiting(
    sockets: Sockets, port: int, defaults: Mapping[str, object] | None = None
) -> AsyncIterator[AsyncIterator[Association]]:
    """Listens at a port; gives the associations that peers open."""
    async with (
        sockets.endpoint(waits=True) as endpoint,
        endpoint.listen(port, settings={**(defaults or {}), **sockets.settings()}) as listener,
    ):
        carrier = "IP" if endpoint.udp_port is None else f"UDP port {endpoint.udp_port}"
        say(f"waits at port {port}, {carrier}")
        yield aiter(listener)


@asynccontextmanager
async def _connected(
    sockets: Sockets, host: str, port: int, remote_udp: int, patience: float
) -> AsyncIterator[Association]:
    """An association with a peer, which is shut down at the end."""

    async def tell(carrier: str) -> None:
        await asyncio.sleep(_QUIET_SECONDS)
        limit = "until the transport gives it up" if math.isinf(patience) else f"{patience:g} s"
        say(f"waits for an answer from {host}, port {port}, {carrier}: {limit} (--patience)")

    async with sockets.endpoint(waits=False) as endpoint:
        carrier = "IP" if endpoint.udp_port is None else f"UDP port {remote_udp}"
        telling = asyncio.create_task(tell(carrier))
        try:
            association = await endpoint.connect(
                host.split(","),
                port,
                udp_port=remote_udp,
                settings=sockets.settings(),
                patience=patience,
            )
        finally:
            telling.cancel()
        async with association:
            yield association


async def _converse(
    association: Association,
    messages: Messages,
    lines: Pieces,
    out: BinaryIO,
    *,
    until_said: bool,
) -> None:
    """Sends lines and prints messages until the peer ends it or, if asked, the lines end."""

    async def speak() -> None:
        try:
            async for line in lines:
                await association.send(line, **messages.options())
        except AssociationClosedError:
            raise
        except Exception:
            await association.abort()
            raise
        if until_said:
            await association.shutdown()

    async with alongside(speak()):
        async for message in association:
            out.write(message.data)
            out.flush()


@asynccontextmanager
async def _telling(association: Association) -> AsyncIterator[None]:
    """Prints, while the context lasts, what the peer does with the association."""

    async def tell() -> None:
        async for event in association.events():
            match event:
                case AddressAdded(address):
                    say(f"{_peer(association)} has the address {address}, too")
                case AddressRemoved(address):
                    say(f"{_peer(association)} has left the address {address}")
                case Restarted():
                    say(f"{_peer(association)} has restarted")
                case Unreachable(_, reason):
                    say(f"{_peer(association)}: {reason} (ICMP)")
                case StreamReset(None):
                    say(f"{_peer(association)} has reset all its streams")
                case StreamReset(stream):
                    say(f"{_peer(association)} has reset its stream {stream}")

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


async def _echo(association: Association) -> None:
    async for message in association:
        await association.send(
            message.data,
            stream=message.stream,
            ppid=message.ppid,
            unordered=message.unordered,
        )


def _peer(association: Association) -> str:
    return ", ".join(path.remote for path in association.paths()) or "a peer"


def _count(
    association: Association, sockets: Sockets, scalars: Mapping[str, float] | None = None
) -> None:
    if sockets.json_file is not None:
        write_json(sockets.json_file, {**(scalars or {}), **association.scalars()})
