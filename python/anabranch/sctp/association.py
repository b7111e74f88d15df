"""An association: messages in both directions, over the paths of both ends."""

import asyncio
import ipaddress
import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import astuple, dataclass
from typing import Literal

from anabranch import live
from anabranch._engine import LiveHost
from anabranch.errors import AnabranchError, LiveError, whole
from anabranch.live.waiting import until
from anabranch.support.arguments import escaped, flag, octets, refuse, text

_EVENTS_KEPT = 10_000
"""Events are kept until someone asks for them; beyond this number the earliest are dropped."""

_READ_AT_ONCE = 32_768
"""Bytes that may have been read before the peer is told of the free space."""


@dataclass(frozen=True)
class Message:
    """A message that has arrived."""

    data: bytes
    stream: int
    ppid: int
    """The payload protocol identifier that the peer gave it."""
    unordered: bool


@dataclass(frozen=True)
class Part(Message):
    """A part of a message that the receive buffer has too little room for (RFC 9260 section 6.9).

    The parts of a message come in order. Between them no other message comes, unless both ends
    interleave (`interleaving`): then each stream may have one ordered and one unordered message in
    parts.
    """

    is_last: bool
    """Whether the message ends with it."""
    is_aborted: bool = False
    """Whether the peer has given up the rest of the message, or has restarted: it ends without
    this part's `data`, which is empty."""


@dataclass(frozen=True)
class Path:
    """The state of a path at one moment."""

    local: str
    """The address at this end; `0.0.0.0` or `::` where the system chooses it."""
    remote: str
    state: Literal["active", "inactive", "potentially_failed"]
    is_primary: bool
    srtt_ms: float
    """Smoothed round-trip time; NaN before the first sample."""
    rto_ms: float
    cwnd: int
    """Bytes."""
    outstanding: int
    """Bytes that have been sent and are neither acknowledged nor given up."""
    errors: int
    """Consecutive errors."""


@dataclass(frozen=True)
class PathChanged:
    """A path has changed its state."""

    path: int
    state: Literal["active", "inactive", "potentially_failed"]


@dataclass(frozen=True)
class PrimaryChanged:
    """Another path has become the primary one."""

    before: int
    after: int


@dataclass(frozen=True)
class Unreachable:
    """An ICMP message says that a packet has not reached the peer's address on this path.

    Only what it says of the port or the protocol ends an association (RFC 9260 section 10).
    """

    path: int
    reason: str


@dataclass(frozen=True)
class Abandoned:
    """A message was given up (partial reliability): the number that `send` returned."""

    number: int


@dataclass(frozen=True)
class Restarted:
    """The peer has restarted, and the association is open again.

    Data that had been sent and was not acknowledged may not have arrived, and will not be sent
    again.
    """


@dataclass(frozen=True)
class StreamReset:
    """The peer has restarted its stream, after all messages that it sent earlier."""

    stream: int | None
    """The stream's number; None for all of its streams."""


@dataclass(frozen=True)
class AddressAdded:
    """An address of the peer has become part of the association."""

    address: str


@dataclass(frozen=True)
class AddressRemoved:
    """An address of the peer is no longer part of the association."""

    address: str


Event = (
    Abandoned
    | AddressAdded
    | AddressRemoved
    | PathChanged
    | PrimaryChanged
    | Restarted
    | StreamReset
    | Unreachable
)


class AssociationClosedError(LiveError):
    """The association has ended.

    Attributes
    ----------
    reason
        `shutdown` (both ends, in order), `aborted` (by one end), `lost` (the peer cannot be
        reached) or `failed` (the endpoint itself; the message says why); `closing` if it has not
        ended yet but no longer accepts messages.
    """

    def __init__(self, reason: str, why: str = "") -> None:
        how = {
            "failed": f"has failed: {why}",
            "closing": "is closing: no message can be sent any more",
            "shutdown": "has been shut down",
            "aborted": f"has been aborted: {why}" if why else "has been aborted",
            "lost": "is lost: the peer does not answer",
        }
        super().__init__(f"the association {how.get(reason, reason)}")
        self.reason = reason


def check_message(
    *,
    stream: int = 0,
    ppid: int = 0,
    unordered: bool = False,
    retransmissions: int | None = None,
    lifetime_ms: int | None = None,
    priority: int | None = None,
) -> tuple[str, int] | None:
    """The rule of partial reliability and its number, if these options of a message have one.

    Raises an AnabranchError for options with which no message can be sent.
    """
    rules = {"retransmissions": retransmissions, "lifetime": lifetime_ms, "priority": priority}
    given = [(rule, value) for rule, value in rules.items() if value is not None]
    if len(given) > 1:
        raise AnabranchError(
            f"{given[0][0]} and {given[1][0]} are both given; a message has one of them"
        )
    for name, value, most in (("stream", stream, 2**16 - 1), ("ppid", ppid, 2**32 - 1)):
        whole(name, value, 0, most)
    flag("unordered", unordered)
    for name, value in given:
        return name, whole("lifetime_ms" if name == "lifetime" else name, value, 0, 2**32 - 1)
    return None


class Association(live.Connection[LiveHost]):
    """An association of an `Endpoint`; see the package for an example.

    At the end of an `async with` block it is shut down, or aborted if an exception leaves the
    block.
    """

    def __init__(self, host: LiveHost, number: int) -> None:
        super().__init__(host, number)
        self._inbox: deque[Message] = deque()
        self._parts: dict[tuple[int, bool], int] = {}
        self._events: deque[Event] = deque(maxlen=_EVENTS_KEPT)
        self._messages_read = self._read = 0
        self._unreached = ""
        self._resets: dict[int, list[asyncio.Future[bool]]] = {}
        self._changes: dict[str, asyncio.Future[bool]] = {}

    async def send(
        self,
        data: bytes | bytearray | memoryview,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        retransmissions: int | None = None,
        lifetime_ms: int | None = None,
        priority: int | None = None,
    ) -> int:
        """Sends a message; waits while the send buffer is full.

        Parameters
        ----------
        data
            The message, at least one byte.
        stream
            The stream's number, from 0 on; `streams` in the settings of both ends limits it.
        ppid
            The payload protocol identifier, for the peer's program.
        unordered
            Deliver it as soon as it is complete, without regard to order.
        retransmissions, lifetime_ms, priority
            Partial reliability, at most one of them: give up after this many retransmissions or
            milliseconds, or when a message of higher priority (0 is the highest) finds no room.

        Returns
        -------
        The message's number; `Abandoned` uses it to say that the message was given up.

        Raises
        ------
        AssociationClosedError
            The association has ended, or is closing.
        """
        while True:
            self._changed.clear()
            number = self.send_now(
                data,
                stream=stream,
                ppid=ppid,
                unordered=unordered,
                retransmissions=retransmissions,
                lifetime_ms=lifetime_ms,
                priority=priority,
            )
            if number is not None:
                return number
            await self._changed.wait()

    def send_now(
        self,
        data: bytes | bytearray | memoryview,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        retransmissions: int | None = None,
        lifetime_ms: int | None = None,
        priority: int | None = None,
    ) -> int | None:
        """Like `send`, but gives None, without taking the message, if the send buffer is full."""
        self._check_open()
        rule = check_message(
            stream=stream,
            ppid=ppid,
            unordered=unordered,
            retransmissions=retransmissions,
            lifetime_ms=lifetime_ms,
            priority=priority,
        )
        content = octets("data", data)
        try:
            return self._host.send(self._number, content, stream, ppid, unordered, rule)
        except BrokenPipeError:
            raise AssociationClosedError("closing") from None

    async def receive(self) -> Message:
        """Waits for the next message, or the next `Part` of one that is too large for the buffer.

        Raises
        ------
        AssociationClosedError
            There are no more messages.
        """
        await until(self._changed, lambda: self._inbox or self._reason is not None)
        if not self._inbox:
            self._check_open()
        message = self._inbox.popleft()
        self._read += len(message.data)
        self._messages_read += bool(message.data)
        if self._read >= _READ_AT_ONCE or not self._inbox:
            self._host.has_read(self._number, self._messages_read, self._read)
            self._messages_read = self._read = 0
        return message

    def __aiter__(self) -> AsyncIterator[Message]:
        """The messages until the association is shut down; if it ends otherwise, this raises."""
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        while True:
            try:
                message = await self.receive()
            except AssociationClosedError as closed:
                if closed.reason == "shutdown":
                    return
                raise
            yield message

    async def events(self) -> AsyncIterator[Event]:
        """Events of its paths, its peer and of messages that are given up, until it ends.

        Of events that no one has asked for, the latest 10,000 are kept.
        """
        while True:
            await until(self._changed, lambda: self._events or self._reason is not None)
            if not self._events:
                return
            yield self._events.popleft()

    def paths(self) -> list[Path]:
        """The state of every path at this moment; empty once the association has ended."""
        if self._reason is not None:
            return []
        return [Path(*row) for row in self._host.paths(self._number)]

    def set_primary(self, path: int) -> None:
        """Makes a path the primary one, as far as its policy allows.

        `path` is its position in `paths()`.
        """
        self._check_open()
        whole("path", path, 0, max(len(self.paths()), 1) - 1)
        self._host.command(self._number, "set_primary", path)

    async def add_address(self, address: str) -> None:
        """Adds an address of this end (RFC 5061); waits until the peer has agreed.

        A socket is bound to the address if there is none yet.

        Raises
        ------
        LiveError
            The address cannot be bound, or the peer allows no changes of addresses or refuses this
            one.
        AssociationClosedError
            The association has ended.
        """
        await self._change("add", address)

    async def remove_address(self, address: str) -> None:
        """Removes an address of this end from the association; waits until the peer has agreed.

        From now on nothing is sent from it, and data that was sent from it and is not acknowledged
        is retransmitted from another address.

        Raises
        ------
        LiveError
            The address is not part of the association or is its only one, or the peer allows no
            changes of addresses or refuses this one.
        AssociationClosedError
            The association has ended.
        """
        await self._change("remove", address)

    def set_peer_primary(self, address: str) -> None:
        """Asks the peer to make this address of ours its primary one (RFC 5061 section 4.2.4)."""
        self._check_open()
        self._host.change_address(self._number, "set_peer_primary", _address(address))

    async def _change(self, change: str, address: str) -> None:
        self._check_open()
        address = _address(address)
        if address in self._changes:
            raise LiveError(f"address = {address}: a change of it is on its way already")
        self._host.change_address(self._number, change, address)
        answer = asyncio.get_running_loop().create_future()
        self._changes[address] = answer
        await until(self._changed, lambda: answer.done() or self._reason is not None)
        if not answer.done():
            self._check_open()
        if not answer.result():
            raise LiveError(f"address = {address}: the peer refuses to {change} it")

    async def reset_streams(self, streams: Iterable[int]) -> None:
        """Resets outgoing streams (RFC 6525); waits until the peer has agreed.

        Everything that was sent on them is delivered first; meanwhile `send` waits on them. The
        peer gets a `StreamReset` event.

        Parameters
        ----------
        streams
            The streams' numbers.

        Raises
        ------
        LiveError
            There is no such stream, or the peer cannot reset streams or refuses to.
        AssociationClosedError
            The association has ended.
        """
        self._check_open()
        if not isinstance(streams, Iterable):
            refuse("streams", streams, "a sequence of the numbers of streams")
        wanted = sorted({whole("stream", stream, 0, 2**16 - 1) for stream in streams})
        self._host.reset_streams(self._number, wanted)
        loop = asyncio.get_running_loop()
        answers = {stream: loop.create_future() for stream in wanted}
        for stream, answer in answers.items():
            self._resets.setdefault(stream, []).append(answer)

        def are_known() -> bool:
            return all(answer.done() for answer in answers.values())

        await until(self._changed, lambda: are_known() or self._reason is not None)
        if not are_known():
            self._check_open()
        refused = [stream for stream, answer in answers.items() if not answer.result()]
        if refused:
            numbers = ", ".join(map(str, refused))
            raise LiveError(f"the peer refuses to reset these streams: {numbers}")

    def _begin_shutdown(self) -> None:
        self._host.command(self._number, "shutdown")

    def _begin_abort(self) -> None:
        if self._reason is None:
            self._host.command(self._number, "abort")

    def _closed(self) -> AssociationClosedError:
        return AssociationClosedError(self._reason or "shutdown", self._why)

    def _unanswered(self) -> str:
        return f"; {self._unreached}" if self._unreached else ""

    def _take_change(self, kind: str, address: str, *, is_ours: bool) -> None:
        if not is_ours:
            what = AddressAdded if kind == "address_added" else AddressRemoved
            self._events.append(what(address))
        elif (answer := self._changes.pop(address, None)) is not None:
            answer.set_result(kind != "address_refused")

    def _take_message(self, message: Message, is_last: bool | None) -> None:  # noqa: FBT001 - so
        """Takes a message, or a part of one; None means that it is whole."""
        if is_last is None:
            self._inbox.append(message)
            return
        data, stream, ppid, unordered = astuple(message)
        self._inbox.append(Part(data, stream, ppid, unordered, is_last))
        if is_last:
            self._parts.pop((stream, unordered), None)
        else:
            self._parts[stream, unordered] = ppid

    def _begin_anew(self) -> None:
        """Ends what the peer, which has restarted, does not know about."""
        for stream, unordered in list(self._parts):
            self._abort_part(stream, unordered)
        self._events.append(Restarted())
        for answer in itertools.chain(*self._resets.values(), self._changes.values()):
            answer.set_result(False)
        self._resets.clear()
        self._changes.clear()

    def _abort_part(self, stream: int, unordered: bool) -> None:  # noqa: FBT001 - the engine's
        """Ends a message of which only parts have come."""
        ppid = self._parts.pop((stream, unordered))
        self._inbox.append(Part(b"", stream, ppid, unordered, is_last=True, is_aborted=True))

    def _take(self, kind: str, particulars: object) -> None:
        """Handles an event from the engine."""
        match kind, particulars:
            case "received", (
                bytes(data),
                int(stream),
                int(ppid),
                bool(unordered),
                (bool() | None) as is_last,
            ):
                self._take_message(Message(data, stream, ppid, unordered), is_last)
            case "partial_delivery_aborted", (int(stream), bool(unordered)):
                self._abort_part(stream, unordered)
            case "closed", (str(reason), dict(counted)):
                self._reason, self._counted = reason, counted
            case "connected", _:
                self._is_open = True
            case (
                ("address_added" | "address_deleted" | "address_refused"),
                (str(address), bool(is_ours)),
            ):
                self._take_change(kind, address, is_ours=is_ours)
            case "restarted", _:
                self._begin_anew()
            case (("stream_reset" | "stream_reset_refused"), int(stream)):
                for answer in self._resets.pop(stream, []):
                    answer.set_result(kind == "stream_reset")
            case _:
                self._take_news(kind, particulars)
        self._changed.set()

    def _take_news(self, kind: str, particulars: object) -> None:
        """Handles an event that is only told."""
        match kind, particulars:
            case "path_changed", (
                int(path),
                ("active" | "inactive" | "potentially_failed") as state,
            ):
                self._events.append(PathChanged(path, state))
            case "primary_changed", (int(before), int(after)):
                self._events.append(PrimaryChanged(before, after))
            case "abandoned", int(number):
                self._events.append(Abandoned(number))
            case "stream_reset_by_peer", (int() | None) as stream:
                self._events.append(StreamReset(stream))
            case "unreachable", (int(path), str(reason), bool(is_refused)):
                self._events.append(Unreachable(path, reason))
                self._unreached = f"{reason} (ICMP)"
                if is_refused:
                    self._why = self._unreached


def _address(given: object) -> str:
    """An address as the engine writes it."""
    address = text("address", given, "the text of an address")
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise LiveError(
            f"address = `{escaped(address)}` is not an address of IPv4 or IPv6"
        ) from None
