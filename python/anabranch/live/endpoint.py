"""An endpoint: sockets that the engine serves, connections over them, and listeners."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from anabranch.errors import LiveError

from .connection import Connection, H
from .waiting import Changed, until

C = TypeVar("C", bound=Connection[Any])

BACKLOG = 1024
"""The most connections of each listener that peers have opened and `accept` has not returned yet;
further ones are aborted.
"""

_LOOK_EVERY = 0.5
"""Seconds after which the engine is asked for events even if none were announced."""


class Bell(asyncio.DatagramProtocol):
    """Wakes the event loop when the engine has events, and now and then without being rung."""

    def __init__(self, take: Callable[[], None]) -> None:
        self._take = take
        self._transport: asyncio.DatagramTransport | None = None
        self._look: asyncio.TimerHandle | None = None

    @classmethod
    async def hang(cls, take: Callable[[], None]) -> Self:
        """Opens the socket; from `begin` on, `take` is called."""
        bell = cls(take)
        loop = asyncio.get_running_loop()
        bell._transport, _ = await loop.create_datagram_endpoint(
            lambda: bell, local_addr=("127.0.0.1", 0)
        )
        return bell

    @property
    def port(self) -> int:
        """The port of the loopback address at which it is rung."""
        assert self._transport is not None
        return int(self._transport.get_extra_info("sockname")[1])

    def begin(self) -> None:
        """Looks from now on."""
        self._look = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look_again)

    def _look_again(self) -> None:
        self._take()
        self.begin()

    def datagram_received(self, _data: bytes, _address: tuple[Any, ...]) -> None:
        """It is rung."""
        self._take()

    def close(self) -> None:
        """Closes the socket."""
        if self._look is not None:
            self._look.cancel()
        if self._transport is not None:
            self._transport.close()


class Listener(Generic[C]):
    """The connections that peers open; each is returned once."""

    def __init__(self) -> None:
        self._accepted: deque[C] = deque()
        self._changed = Changed()
        self._closed: str | None = None

    async def accept(self) -> C:
        """Waits for the next one.

        Raises
        ------
        LiveError
            The endpoint has been closed, or has failed; the message says why.
        """
        await until(self._changed, lambda: self._accepted or self._closed is not None)
        if not self._accepted:
            raise LiveError(self._closed or "the endpoint is closed")
        return self._accepted.popleft()

    async def __aiter__(self) -> AsyncIterator[C]:
        """All of them, in the order in which they are opened."""
        while True:
            yield await self.accept()

    def _take(self, connection: C) -> None:
        self._accepted.append(connection)
        self._changed.set()

    def _is_full(self) -> bool:
        return len(self._accepted) >= BACKLOG

    def _close(self, sentence: str = "the endpoint is closed") -> list[C]:
        """Wakes all who wait with this reason; gives the connections that were not returned."""
        self._closed = self._closed or sentence
        self._changed.set()
        left = [*self._accepted]
        self._accepted.clear()
        return left


class Endpoint(ABC, Generic[H, C]):
    """Sockets, a thread that serves them, and any number of connections.

    Use it in `async with`: leaving the block closes the sockets.
    """

    def __init__(self) -> None:
        self._host: H | None = None
        self._process = os.getpid()
        self._bell: Bell | None = None
        self._connections: dict[int, C] = {}
        self._listeners: dict[object, Listener[C]] = {}

    @abstractmethod
    def _bound(self, announce_at: int) -> H:
        """A host with sockets, which announces news at this port of the loopback address."""

    @abstractmethod
    def _made(self, host: H, number: int) -> C:
        """The object that stands for the engine's connection of this number."""

    def _place(self, particulars: object) -> object:
        """Where a connection has been accepted: the key of its listener."""
        return particulars

    async def __aenter__(self) -> Self:
        """Binds the sockets."""
        if self._process != os.getpid():
            # What a process has opened that this one was forked from stays that process's.
            self._forget()
            self._process = os.getpid()
        self._bell = await Bell.hang(self._take_news)
        try:
            self._host = self._bound(self._bell.port)
        except BaseException:
            self._bell.close()
            raise
        self._bell.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Closes the sockets."""
        if self._process != os.getpid():
            return
        if self._bell is not None:
            self._bell.close()
        if self._host is not None:
            self._host.close()
        for connection in self._connections.values():
            connection._end("aborted", "the endpoint is closed")
        for listener in self._listeners.values():
            listener._close()
        # The endpoint may be opened again, and its connections are then numbered anew.
        self._forget()

    def _forget(self) -> None:
        self._connections.clear()
        self._listeners.clear()

    def _live(self) -> H:
        if self._host is None:
            raise LiveError("the endpoint is not open; use it in `async with`")
        self._host.check_process()
        return self._host

    async def _opened(self, number: int, patience: float) -> C:
        """The connection of this number, once it is open."""
        connection = self._connection(number)
        await connection._opened(patience)
        return connection

    @contextmanager
    def _listening(
        self, place: object, listener: Listener[C], stop: Callable[[H], None]
    ) -> Iterator[None]:
        """Gives a listener what is accepted at a place; then has the engine accept no more there.

        Connections that the listener has not returned are aborted.
        """
        self._listeners[place] = listener
        try:
            yield
        finally:
            self._listeners.pop(place, None)
            with suppress(LiveError):  # the endpoint is closed, or has failed
                stop(self._live())
                for connection in listener._close("the listener has been closed"):
                    connection._begin_abort()

    def _connection(self, number: int) -> C:
        if number not in self._connections:
            self._connections[number] = self._made(self._live(), number)
        return self._connections[number]

    def _take_news(self) -> None:
        if self._host is None:
            return
        try:
            news = self._host.news()
        except LiveError as failure:
            self._fail(str(failure))
            return
        for number, kind, particulars in news:
            connection = self._connection(number)
            connection._take(kind, particulars)
            if kind == "accepted":
                listener = self._listeners.get(self._place(particulars))
                if listener is None or listener._is_full():
                    connection._begin_abort()
                else:
                    listener._take(connection)
            if kind == "closed":
                del self._connections[number]

    def _fail(self, sentence: str) -> None:
        """Stops all sending and receiving; all who wait get this reason."""
        for connection in self._connections.values():
            connection._end("failed", sentence)
        self._connections.clear()
        for listener in self._listeners.values():
            listener._close(sentence)
