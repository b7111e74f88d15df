"""`anabranch sctp`: a socket tool in the manner of netcat, for SCTP."""

import asyncio
import contextlib
import math
import signal
import sys
import threading
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from cyclopts import App, Parameter
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from anabranch.errors import AnabranchError
from anabranch.support import terminal
from anabranch.support.files import check_file

from .app import Flag, Natural, Sets, app, pairs, write_json
from .messages import say

if TYPE_CHECKING:
    from anabranch.sctp import Association, Endpoint, Sight

sctp = App(
    name="sctp",
    help="""SCTP on the network: listen, connect, send, receive, call.

Packets travel in UDP (RFC 6951), which needs no rights; with --raw in IP itself.""",
    help_format="plaintext",
)
app.command(sctp)

Words = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
_CHUNK = 16_384
_STANDARD = Path("-")
_READ_AHEAD = 16
_PLAIN_SECONDS = 10


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
            place[key] = _value(text)
        return settings

    def endpoint(self, waits: bool) -> "Endpoint":  # noqa: FBT001 - says itself what it is
        """The sockets."""
        from anabranch.sctp import ENCAPSULATION_PORT, Endpoint  # noqa: PLC0415 - slow to import

        check_file(self.json_file)
        if self.raw and self.udp is not None:
            raise AnabranchError("--raw and --udp are both given; packets travel in one of them")
        default = ENCAPSULATION_PORT if waits else 0
        port = None if self.raw else default if self.udp is None else self.udp
        return Endpoint(self.address, udp_port=port, mtu=self.mtu)


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


def _value(text: str) -> object:
    """A value as TOML has it, or a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp listen 5001
  anabranch sctp listen 5001 --echo --address 192.0.2.1 --address 198.51.100.1
  anabranch sctp listen 5001 --raw --profile linux"""
)
def listen(
    port: Natural,
    /,
    *,
    sockets: Sockets | None = None,
    messages: Messages | None = None,
    echo: Annotated[bool, Flag] = False,
    keep: Annotated[bool, Flag] = False,
) -> int:
    """Wait for a peer, print what it says and send it the lines of standard input.

    Parameters
    ----------
    port
        The port of SCTP.
    echo
        Send every message back instead.
    keep
        Wait for the next peer when one has gone, and for any number at the same time with --echo.
    """
    sockets, messages = sockets or Sockets(), messages or Messages()

    async def wait() -> None:
        async with _waiting(sockets, port) as accepted:
            tasks: set[asyncio.Task[None]] = set()
            async for association in accepted:
                say(f"{_peer(association)} is connected")
                if echo and keep:
                    tasks.add(asyncio.create_task(_echo(association)))
                    continue
                await (_echo(association) if echo else _converse(association, messages))
                _count(association, sockets)
                if not keep:
                    return

    return _run(wait())


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp connect 192.0.2.1 5001
  anabranch sctp connect 192.0.2.1,198.51.100.1 5001 --set rto_min='200 ms' --set path_max_retrans=2
  anabranch sctp connect server.example 5001 --stream 3 --unordered --lifetime 500"""
)
def connect(
    host: str,
    port: Natural,
    /,
    *,
    sockets: Sockets | None = None,
    messages: Messages | None = None,
    remote_udp: Natural = 9899,
) -> int:
    """Connect, send the lines of standard input as messages and print what comes back.

    Parameters
    ----------
    host
        The peer's name or address, or several of its addresses with commas between them.
    port
        Its port of SCTP.
    remote_udp
        Its port of UDP.
    """
    sockets, messages = sockets or Sockets(), messages or Messages()

    async def talk() -> None:
        async with _connected(sockets, host, port, remote_udp) as association:
            await _converse(association, messages)
        _count(association, sockets)

    return _run(talk())


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp send 192.0.2.1 5001 video.ts
  tar c folder | anabranch sctp send 192.0.2.1 5001 --size 65536"""
)
def send(
    host: str,
    port: Natural,
    file: Path = _STANDARD,
    /,
    *,
    sockets: Sockets | None = None,
    messages: Messages | None = None,
    remote_udp: Natural = 9899,
    size: Natural = _CHUNK,
) -> int:
    """Send a file, or standard input, and shut down when the peer has all of it.

    Parameters
    ----------
    host
        The peer's name or address, or several of its addresses with commas between them.
    port
        Its port of SCTP.
    file
        What to send; `-` is standard input.
    remote_udp
        Its port of UDP.
    size
        Bytes of a message, from 1 on.
    """
    sockets, messages = sockets or Sockets(), messages or Messages()
    if size < 1:
        raise AnabranchError("--size is 0; it must be at least 1")

    async def work() -> None:
        with _opened(file) as source:
            async with _connected(sockets, host, port, remote_udp) as association:
                began, total = time.monotonic(), 0
                async for content in _read(lambda: source.read(size)):
                    await association.send(content, **messages.options())
                    total += len(content)
                await association.shutdown()
            _say_rate("sent", total, time.monotonic() - began)
        _count(association, sockets)

    return _run(work())


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp receive 5001 video.ts
  anabranch sctp receive 5001 | tar x"""
)
def receive(port: Natural, file: Path = _STANDARD, /, *, sockets: Sockets | None = None) -> int:
    """Wait for a peer and write what it sends to a file or to standard output.

    Parameters
    ----------
    port
        The port of SCTP.
    file
        Where to write; `-` is standard output.
    """
    sockets = sockets or Sockets()
    if file != _STANDARD:
        check_file(file)

    async def work() -> None:
        async with _waiting(sockets, port) as accepted:
            association = await anext(accepted)
            began, total = time.monotonic(), 0
            with contextlib.ExitStack() as stack:
                out = (
                    sys.stdout.buffer if file == _STANDARD else stack.enter_context(file.open("wb"))
                )
                async for message in association:
                    out.write(message.data)
                    total += len(message.data)
                out.flush()
            _say_rate("received", total, time.monotonic() - began)
        _count(association, sockets)

    return _run(work())


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp call --listen 5001
  anabranch sctp call 192.0.2.1 5001 --duration 60
  anabranch sctp call 192.0.2.1,198.51.100.1 5001 --app codec=gsm-efr"""
)
def call(
    host: str | None = None,
    port: Natural | None = None,
    /,
    *,
    listen: Natural | None = None,
    sockets: Sockets | None = None,
    remote_udp: Natural = 9899,
    duration: float = 60.0,
    app_: Annotated[Sets, Parameter(name="--app", consume_multiple=False)] = (),
) -> int:
    """Talk both ways, show the paths and the quality as they are, and rate the call at its end.

    One-way delays follow from the clocks of both ends, compared by round trips: they take for
    granted that both ways take equally long.

    Parameters
    ----------
    host
        The peer's name or address, or several of its addresses with commas between them.
    port
        Its port of SCTP.
    listen
        Wait for a call at this port of SCTP instead.
    remote_udp
        The peer's port of UDP.
    duration
        Seconds of talk; the end that calls decides.
    app_
        A setting of a scenario's app of kind voip, KEY=VALUE, such as codec=gsm-efr; may be given
        several times.
    """
    from anabranch.sctp import Talk  # noqa: PLC0415 - slow to import

    if (listen is None) == (host is None or port is None):
        raise AnabranchError("a call needs either HOST and PORT, or --listen PORT")
    sockets = sockets or Sockets()
    settings = {name: _value(text) for name, text in pairs(app_, "--app KEY=VALUE").items()}
    settings.setdefault("duration", f"{duration} s")

    async def talk(association: "Association", calls: bool) -> None:  # noqa: FBT001
        stop = asyncio.Event()
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        with _display(association) as watch:
            outcome = await Talk(association, settings, calls=calls).run(watch, stop=stop)
        out = terminal.console()
        out.print(terminal.summary(outcome.scalars))
        half = outcome.round_trip_ms / 2
        out.print(f"delays are known to ± {half:.3g} ms (half of the quickest round trip)")
        if association.reason is None and calls:
            await association.shutdown()
        _count(association, sockets, outcome.scalars)

    async def work() -> None:
        if listen is not None:
            async with _waiting(sockets, listen) as accepted:
                association = await anext(accepted)
                await talk(association, calls=False)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(5):
                        await association.ended()
        elif host is not None and port is not None:
            async with _connected(sockets, host, port, remote_udp) as association:
                await talk(association, calls=True)

    return _run(work())


@contextlib.contextmanager
def _display(association: "Association") -> "Iterator[Callable[[Sight], None]]":
    """Shows a call while it goes on: a table on a terminal, else a line every ten seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def tell(sight: "Sight") -> None:
            if round(sight.seconds) % _PLAIN_SECONDS == 0:
                say(_state(sight))

        yield tell
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda sight: live.update(_table(sight, association), refresh=True)


def _state(sight: "Sight") -> str:
    heard = sight.heard
    mos = "no MOS yet" if math.isnan(sight.mos) else f"MOS {sight.mos:.2f} over the last 10 s"
    lost, delay = heard.get("loss_percent", 0.0), heard.get("mean_delay_ms", math.nan)
    return f"{sight.seconds:.0f} s: {mos}; heard: {lost:.1f} % lost, {delay:.1f} ms one way"


def _table(sight: "Sight", association: "Association") -> Table:
    """The call now, path by path."""
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
async def _waiting(sockets: Sockets, port: int) -> "AsyncIterator[AsyncIterator[Association]]":
    """The associations that peers open at a port."""
    async with (
        sockets.endpoint(waits=True) as endpoint,
        endpoint.listen(port, settings=sockets.settings()) as listener,
    ):
        carrier = "IP" if endpoint.udp_port is None else f"UDP port {endpoint.udp_port}"
        say(f"waits at port {port}, {carrier}")
        yield aiter(listener)


@asynccontextmanager
async def _connected(
    sockets: Sockets, host: str, port: int, remote_udp: int
) -> "AsyncIterator[Association]":
    """An association with a peer, shut down at the end."""
    async with sockets.endpoint(waits=False) as endpoint:
        association = await endpoint.connect(
            host.split(","), port, udp_port=remote_udp, settings=sockets.settings()
        )
        async with association:
            yield association


async def _converse(association: "Association", messages: Messages) -> None:
    """Lines of standard input out, messages in, until one of both ends."""

    async def speak() -> None:
        async for line in _read(sys.stdin.buffer.readline):
            await association.send(line, **messages.options())
        await association.shutdown()

    async def listen_() -> None:
        async for message in association:
            sys.stdout.buffer.write(message.data)
            sys.stdout.buffer.flush()

    speaking = asyncio.create_task(speak())
    hearing = asyncio.create_task(listen_())
    done, _ = await asyncio.wait({speaking, hearing}, return_when=asyncio.FIRST_COMPLETED)
    if speaking in done:
        await speaking
        await hearing
    else:
        speaking.cancel()
        await hearing


async def _echo(association: "Association") -> None:
    async for message in association:
        await association.send(
            message.data,
            stream=message.stream,
            ppid=message.ppid,
            unordered=message.unordered,
        )


async def _read(read: Callable[[], bytes]) -> AsyncIterator[bytes]:
    """What a file gives, read by a thread that nobody waits for: standard input may never end."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue(_READ_AHEAD)

    def work() -> None:
        with contextlib.suppress(RuntimeError, ValueError):  # the loop or the file is closed
            while True:
                piece = read()
                asyncio.run_coroutine_threadsafe(pieces.put(piece), loop).result()
                if not piece:
                    return

    threading.Thread(target=work, daemon=True).start()
    while piece := await pieces.get():
        yield piece


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == _STANDARD:
        yield sys.stdin.buffer
    else:
        with file.open("rb") as source:
            yield source


def _peer(association: "Association") -> str:
    return ", ".join(path.remote for path in association.paths()) or "a peer"


def _say_rate(what: str, total: int, seconds: float) -> None:
    rate = total * 8 / max(seconds, 1e-9) / 1e6
    say(f"{what} {total} bytes in {seconds:.2f} s, {rate:.3g} Mbit/s")


def _count(
    association: "Association", sockets: Sockets, scalars: Mapping[str, float] | None = None
) -> None:
    if sockets.json_file is not None:
        write_json(sockets.json_file, {**(scalars or {}), **association.scalars()})


def _run(work: Coroutine[Any, Any, None]) -> int:
    """Runs until it is done; Ctrl-C ends it, which the peer is told of."""
    asyncio.run(work)
    return 0
