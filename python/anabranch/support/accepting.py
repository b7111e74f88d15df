"""What endpoints on real networks share: how they hear of events, and connections that wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, Self, TypeVar

from anabranch.errors import LiveError

from .waiting import Changed, until

T = TypeVar("T")

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


class Accepting(Generic[T]):
    """The connections that peers open; each is returned once."""

    def __init__(self) -> None:
        self._accepted: deque[T] = deque()
        self._changed = Changed()
        self._closed: str | None = None

    async def accept(self) -> T:
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

    async def __aiter__(self) -> AsyncIterator[T]:
        """All of them, in the order in which they are opened."""
        while True:
            yield await self.accept()

    def _take(self, connection: T) -> None:
        self._accepted.append(connection)
        self._changed.set()

    def _is_full(self) -> bool:
        return len(self._accepted) >= BACKLOG

    def _close(self, sentence: str = "the endpoint is closed") -> list[T]:
        """Wakes all who wait with this reason; gives the connections that were not returned."""
        self._closed = self._closed or sentence
        self._changed.set()
        left = [*self._accepted]
        self._accepted.clear()
        return left
