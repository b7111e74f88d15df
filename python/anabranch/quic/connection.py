"""A connection, and its streams."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from anabranch import live
from anabranch.errors import AnabranchError, LiveError, whole
from anabranch.live.waiting import until
from anabranch.support.arguments import flag, octets
from anabranch.support.quic_errors import error_name

from .paths import Event, Path, PathChanged, PathRefused, PathState, address

if TYPE_CHECKING:
    from anabranch._engine import QuicHost

_READ_AT_ONCE = 262_144
"""Bytes that may have been read before the engine is told."""

_MOST_CODE = 2**62 - 1
"""What a number of QUIC can be."""

_EVENTS_KEPT = 10_000
"""Events that no one has asked for."""

_PART = 262_144
"""Bytes that are handed to the engine at once."""


class ConnectionClosedError(LiveError):
    """The connection has ended.

    Attributes
    ----------
    reason
        `shutdown` (in order), `aborted` (by one end, or for what it did), `lost` (the peer cannot
        be reached) or `failed` (the endpoint itself; the message says why).
    code
        The code with which the peer has closed, None if it has not: its application's, or QUIC's
        own (RFC 9000 section 20).
    """

    def __init__(self, reason: str, code: tuple[int, bool] | None = None, why: str = "") -> None:
        how = {
            "failed": "has failed",
            "shutdown": "has been closed",
            "aborted": "has been aborted",
            "lost": "is lost: the peer does not answer",
        }.get(reason, reason)
        if code is not None and (code[0] or not code[1]):
            number, is_of_application = code
            of = "its application's code" if is_of_application else "code"
            how = f"{how} by the peer with {of} {number:#x}{_meaning(number, is_of_application)}"
        super().__init__(f"the connection {how}{f': {why}' if why else ''}")
        self.reason = reason
        self.code = None if code is None else code[0]


class StreamClosedError(LiveError):
    """Nothing more can be read from the stream, or written to it, since an end has given it up."""


def _meaning(code: int, is_of_application: bool) -> str:  # noqa: FBT001 - the engine's
    """What a code of QUIC says (RFC 9000 section 20.1)."""
    name = "" if is_of_application or code == 0 else error_name(code)
    return f" ({name})" if name else ""


class Stream:
    """A stream of a connection, with both directions or with one."""

    def __init__(self, connection: "Connection", number: int) -> None:
        self._connection = connection
        self.number = number
        """Its number (RFC 9000 section 2.1)."""
        self._pieces: deque[bytes] = deque()
        self._is_over = False
        self._is_reset = False
        self._has_ended = not self.writes

    @property
    def is_ours(self) -> bool:
        """Whether this end has opened it."""
        return self.number & 1 == self._connection._own_bit

    @property
    def reads(self) -> bool:
        """Whether the peer sends on it."""
        return not self.number & 2 or not self.is_ours

    @property
    def writes(self) -> bool:
        """Whether this end sends on it."""
        return not self.number & 2 or self.is_ours

    async def write(self, data: bytes | bytearray | memoryview, *, end: bool = False) -> None:
        """Appends bytes; waits while the send buffer is full.

        Parameters
        ----------
        data
            The bytes; none with `end` if the stream only ends.
        end
            Nothing follows.

        Raises
        ------
        StreamClosedError
            It has ended, or an end has given it up.
        ConnectionClosedError
            The connection has ended.
        """
        content = memoryview(octets("data", data))
        flag("end", end)
        connection, place = self._connection, 0
        while True:
            connection._check_open()
            if self._has_ended:
                raise StreamClosedError(f"stream {self.number} takes nothing more")
            part = content[place : place + _PART]
            is_last = place + len(part) == len(content)
            connection._changed.clear()
            # What is handed over as a whole is not copied.
            is_whole = len(part) == len(content)
            handed = data if is_whole and isinstance(data, bytes) else bytes(part)
            try:
                taken = connection._host.write(
                    connection._number, self.number, handed, is_last and end
                )
            except BrokenPipeError:
                self._has_ended = True
                continue
            place += taken
            if taken < len(part):
                await connection._changed.wait()
            elif is_last:
                self._has_ended |= end
                return

    async def end(self) -> None:
        """Says that nothing follows."""
        await self.write(b"", end=True)

    async def read(self) -> bytes:
        """The next bytes, as they have come; no bytes once the stream is over.

        Raises
        ------
        StreamClosedError
            The peer has given it up.
        ConnectionClosedError
            The connection has ended before the stream.
        """
        connection = self._connection
        await until(
            connection._changed,
            lambda: (
                self._pieces or self._is_over or self._is_reset or connection._reason is not None
            ),
        )
        if self._pieces:
            piece = self._pieces.popleft()
            connection._has_read(len(piece), 0)
            return piece
        if self._is_over or not self.reads:
            return b""
        if self._is_reset:
            raise StreamClosedError(f"the peer has given up stream {self.number}")
        connection._check_open()
        return b""

    async def read_all(self, most: float = math.inf) -> bytes:
        """All bytes up to the end, at most so many; raises as `read`, and a LiveError for more."""
        pieces, total = [], 0
        while piece := await self.read():
            pieces.append(piece)
            total += len(piece)
            if total > most:
                raise LiveError(f"stream {self.number} has more than {most:g} bytes")
        return b"".join(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The bytes as they come, up to the end; raises as `read`."""
        return self._parts()

    async def _parts(self) -> AsyncIterator[bytes]:
        while piece := await self.read():
            yield piece

    def reset(self, code: int = 0) -> None:
        """Gives up what this end sends: the peer is told, with a code of the application."""
        self._has_ended = True
        self._connection._give_up(self.number, code, reset=True)

    def stop(self, code: int = 0) -> None:
        """Wants nothing more of what the peer sends, and tells it, with a code."""
        self._connection._give_up(self.number, code, reset=False)
        self._is_reset = True
        for piece in self._pieces:
            self._connection._has_read(len(piece), 0)
        self._pieces.clear()


class Connection(live.Connection["QuicHost"]):
    """A connection of an `Endpoint`; see the package for an example.

    At the end of an `async with` block it is closed once the peer has everything, or at once with
    code 1 if an exception leaves the block.
    """

    def __init__(self, host: "QuicHost", number: int) -> None:
        super().__init__(host, number)
        self._own_bit = 0
        self._streams: dict[int, Stream] = {}
        self._incoming: deque[Stream] = deque()
        self._datagrams: deque[bytes] = deque()
        self._read = self._messages_read = self._waiting = 0
        self._protocol = ""
        self._code: tuple[int, bool] | None = None
        self._route: tuple[str, str, int] | None = None
        self._events: deque[Event] = deque(maxlen=_EVENTS_KEPT)
        self._wanted: dict[tuple[str, str], asyncio.Future[int]] = {}
        self._opening: dict[int, asyncio.Future[int]] = {}

    @property
    def protocol(self) -> str:
        """The protocol above QUIC that both ends have agreed on (ALPN)."""
        return self._protocol

    @property
    def peer(self) -> str:
        """The peer's address and port."""
        route = self._route or self._host.route(self._number)
        if route is None:
            return "a peer"
        self._route = route
        return f"[{route[1]}]:{route[2]}" if ":" in route[1] else f"{route[1]}:{route[2]}"

    async def open(self, *, bidirectional: bool = True) -> Stream:
        """Opens a stream; waits while the peer permits no more of this kind.

        Raises
        ------
        ConnectionClosedError
            The connection has ended.
        """
        flag("bidirectional", bidirectional)
        while True:
            self._check_open()
            self._changed.clear()
            try:
                number = self._host.open_stream(self._number, bidirectional)
            except BrokenPipeError:
                number = None
            if number is not None:
                self._own_bit = number & 1
                # Nothing comes on a stream that only this end writes on.
                return self._stream(number) if bidirectional else Stream(self, number)
            await self._changed.wait()

    async def accept(self) -> Stream:
        """Waits for the next stream that the peer opens.

        Raises
        ------
        ConnectionClosedError
            The connection has ended.
        """
        await until(self._changed, lambda: self._incoming or self._reason is not None)
        if not self._incoming:
            self._check_open()
        return self._incoming.popleft()

    async def streams(self) -> AsyncIterator[Stream]:
        """The streams that the peer opens, until the connection is closed in order."""
        while True:
            try:
                stream = await self.accept()
            except ConnectionClosedError as closed:
                if closed.reason == "shutdown":
                    return
                raise
            yield stream

    def send_datagram(self, data: bytes | bytearray | memoryview) -> None:
        """Sends a message once, which may be lost (RFC 9221).

        Raises
        ------
        LiveError
            It is too long, or the peer takes none.
        ConnectionClosedError
            The connection has ended.
        """
        self._check_open()
        try:
            self._host.send_datagram(self._number, octets("data", data))
        except BrokenPipeError:
            raise ConnectionClosedError("shutdown") from None

    async def receive_datagram(self) -> bytes:
        """Waits for the next message.

        Raises
        ------
        ConnectionClosedError
            The connection has ended.
        """
        await until(self._changed, lambda: self._datagrams or self._reason is not None)
        if not self._datagrams:
            self._check_open()
        message = self._datagrams.popleft()
        self._has_read(len(message), 1)
        return message

    def paths(self) -> list[Path]:
        """The paths that have been used, by path ID; none once the connection has ended."""
        if self._reason is not None:
            return []
        rows = self._host.paths(self._number)
        return [Path(*row[:5], *row[5], *row[6:8], *row[8]) for row in rows]

    async def events(self) -> AsyncIterator[Event]:
        """What happens to its paths, until it ends.

        Of events that no one has asked for, the latest 10,000 are kept.
        """
        while True:
            await until(self._changed, lambda: self._events or self._reason is not None)
            if not self._events:
                return
            yield self._events.popleft()

    async def add_path(self, local: str, remote: str | None = None, *, backup: bool = False) -> int:
        """Opens another path (RFC 10069), and waits until it carries data; gives its path ID.

        Parameters
        ----------
        local
            The address of this end; a socket is bound to it if there is none.
        remote
            The peer's address; by default that of the first path.
        backup
            The path is to carry data only while no other one can.

        Raises
        ------
        LiveError
            There can be no such path, or no packets arrive there.
        ConnectionClosedError
            The connection has ended.
        """
        self._check_open()
        flag("backup", backup)
        second = None if remote is None else address("remote", remote)
        first = address("local", local)
        where = self._host.add_path(self._number, first, second, backup)[:2]
        opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._wanted[where] = opened
        await until(self._changed, lambda: opened.done() or self._reason is not None)
        if not opened.done():
            self._check_open()
        return opened.result()

    def abandon_path(self, path: int, code: int = 0) -> None:
        """Gives a path up, with a code that the peer is told (RFC 10069 section 3.4).

        What was on its way there goes elsewhere. A path ID is never used again.

        Raises
        ------
        LiveError
            There is no such path, or it is the last one.
        """
        self._check_open()
        whole("path", path, 0, 2**32 - 1)
        whole("code", code, 0, _MOST_CODE)
        if not self._host.abandon_path(self._number, path, code):
            raise LiveError(f"path = {path} is not one of several that are open")

    def set_path_status(self, path: int, *, backup: bool) -> None:
        """Tells the peer whether a path is a backup (RFC 10069 section 3.3), and treats it so.

        Raises
        ------
        LiveError
            There is no such path.
        """
        self._check_open()
        whole("path", path, 0, 2**32 - 1)
        if not self._host.set_path_status(self._number, path, flag("backup", backup)):
            raise LiveError(f"path = {path} is not one that is open beside others")

    def update_keys(self) -> bool:
        """Goes on with new keys (RFC 9001 section 6); false if it is too early for that."""
        self._check_open()
        return self._host.update_keys(self._number)

    async def close(self, code: int = 0) -> None:
        """Closes it at once, with a code of the application."""
        whole("code", code, 0, _MOST_CODE)
        if self._reason is None:
            self._host.close_connection(self._number, code)
            await self.ended()

    def _begin_shutdown(self) -> None:
        self._host.shut_down(self._number)

    def _begin_abort(self) -> None:
        if self._reason is None:
            self._host.close_connection(self._number, 1)

    def _closed(self) -> ConnectionClosedError:
        return ConnectionClosedError(self._reason or "shutdown", self._code, self._why)

    def _has_read(self, count: int, messages: int) -> None:
        self._read += count
        self._messages_read += messages
        self._waiting -= 1
        if self._read >= _READ_AT_ONCE or not self._waiting:
            if self._reason is None:
                self._host.has_read(self._number, self._read, self._messages_read)
            self._read = self._messages_read = 0

    def _give_up(self, stream: int, code: int, *, reset: bool) -> None:
        whole("code", code, 0, _MOST_CODE)
        if self._reason is None:
            self._host.give_up_stream(self._number, stream, code, reset)

    def _stream(self, number: int) -> Stream:
        stream = self._streams.get(number)
        if stream is None:
            stream = self._streams[number] = Stream(self, number)
            if not stream.is_ours:
                self._incoming.append(stream)
        return stream

    def _take(self, kind: str, particulars: object) -> None:
        """Handles an event from the engine."""
        match kind, particulars:
            case "received", (int(number), bytes(data)):
                self._stream(number)._pieces.append(data)
                self._waiting += 1
            case "stream_ended", int(number):
                self._last(number)._is_over = True
            case "stream_reset", int(number):
                self._last(number)._is_reset = True
            case "datagram", bytes(data):
                self._datagrams.append(data)
                self._waiting += 1
            case "path_changed", (
                int(number),
                str(change),
                (str(local), str(remote), int(port)),
            ):
                change = cast("PathState", change)
                self._take_path(PathChanged(number, change, local, remote, port))
            case "path_refused", ((str(local), str(remote), int()), str(reason)):
                self._events.append(PathRefused(local, remote, reason))
                if opened := self._wanted.pop((local, remote), None):
                    opened.set_exception(
                        LiveError(f"no path from {local} to {remote} can be opened: {reason}")
                    )
            case (("connected" | "accepted"), str(protocol)):
                self._own_bit = int(kind == "accepted")
                self._protocol, self._is_open = protocol, True
            case "closed", (str(reason), code, (str() | None) as why, dict(counted)):
                self._reason, self._counted, self._why = reason, counted, why or ""
                match code:
                    case int(number), bool(is_of_application):
                        self._code = number, is_of_application
        self._changed.set()

    def _take_path(self, event: PathChanged) -> None:
        """Keeps what has happened to a path, and answers who waits for it."""
        self._events.append(event)
        where = (event.local, event.remote)
        if event.change == "opened" and where in self._wanted:
            self._opening[event.path] = self._wanted.pop(where)
        elif event.change in {"validated", "abandoned"} and event.path in self._opening:
            opened = self._opening.pop(event.path)
            if event.change == "validated":
                opened.set_result(event.path)
            else:
                opened.set_exception(LiveError(f"no packets arrive from {where[0]} at {where[1]}"))

    def _last(self, number: int) -> Stream:
        """A stream on which the peer sends nothing more: from now on, who reads it keeps it."""
        stream = self._stream(number)
        del self._streams[number]
        return stream


def check_protocols(protocols: list[str]) -> list[str]:
    """Protocols above QUIC, at least one, as TLS can name them."""
    if not protocols:
        raise AnabranchError("protocols: there is none; name at least one (ALPN)")
    for protocol in protocols:
        if not 1 <= len(protocol.encode()) <= 255:
            raise AnabranchError(
                f"protocols: a name has from 1 to 255 bytes, not {len(protocol.encode())}"
            )
    return protocols
