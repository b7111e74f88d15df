"""A connection over the sockets of an endpoint: how it opens and ends."""

import asyncio
import math
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from anabranch.errors import LiveError

from .waiting import Changed, until


class Host(Protocol):
    """What the engine's hosts have in common."""

    def check_process(self) -> None:
        """Raises a LiveError in a process that was forked from the one that has made it."""

    def news(self) -> list[tuple[int, str, object]]:
        """What has happened, by numbers of connections; raises a LiveError if it has failed."""

    def scalars(self, number: int, /) -> dict[str, float]:
        """The counters of a connection."""

    def close(self) -> None:
        """Closes its sockets."""


H = TypeVar("H", bound=Host)


class Connection(ABC, Generic[H]):
    """A connection of an endpoint.

    At the end of an `async with` block it is shut down, or aborted if an exception leaves the
    block.
    """

    def __init__(self, host: H, number: int) -> None:
        self._host = host
        self._number = number
        self._changed = Changed()
        self._is_open = False
        self._reason: str | None = None
        self._why = ""
        self._counted: dict[str, float] = {}

    def scalars(self) -> dict[str, float]:
        """Its counters, by the names that a simulated one's have.

        There are none if the endpoint was closed before it ended.
        """
        if self._reason is not None:
            return self._counted
        return self._host.scalars(self._number)

    @property
    def reason(self) -> str | None:
        """How it has ended: `shutdown`, `aborted`, `lost` or `failed`; None while it lives."""
        return self._reason

    async def shutdown(self) -> None:
        """Ends it once the peer has everything that was sent; waits for that.

        Raises
        ------
        LiveError
            It has ended otherwise meanwhile, so the peer may not have everything.
        """
        if self._reason is None:
            self._begin_shutdown()
            await self.ended()
            if self._reason != "shutdown":
                raise self._closed()

    async def abort(self) -> None:
        """Ends it at once."""
        self._begin_abort()
        await self.ended()

    async def ended(self) -> None:
        """Waits until it has ended, for whatever reason."""
        await until(self._changed, lambda: self._reason is not None)

    async def __aenter__(self) -> Self:
        """Gives the connection itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Shuts it down, or aborts it if an exception leaves the block."""
        if self._reason is None:
            await (self.shutdown() if error is None else self.abort())

    @abstractmethod
    def _begin_shutdown(self) -> None:
        """Has the engine end it in order."""

    @abstractmethod
    def _begin_abort(self) -> None:
        """Has the engine end it at once, if it lives."""

    @abstractmethod
    def _closed(self) -> LiveError:
        """The error that says how it has ended."""

    @abstractmethod
    def _take(self, kind: str, particulars: object) -> None:
        """Handles an event from the engine."""

    def _check_open(self) -> None:
        if self._reason is not None:
            raise self._closed()

    def _unanswered(self) -> str:
        """What is known of why the peer has not answered, to follow a sentence."""
        return ""

    async def _opened(self, patience: float) -> None:
        """Waits, for so many seconds, until it is open."""
        limit = None if math.isinf(patience) else patience
        try:
            async with asyncio.timeout(limit):
                await until(self._changed, lambda: self._is_open or self._reason is not None)
        except TimeoutError:
            self._begin_abort()
            heard = self._unanswered()
            raise LiveError(f"the peer has not answered within {patience:g} s{heard}") from None
        except asyncio.CancelledError:
            self._begin_abort()
            raise
        if not self._is_open:
            self._check_open()

    def _end(self, reason: str, why: str = "") -> None:
        """Ends it here, since the endpoint is closed or has failed."""
        if self._reason is None:
            self._reason, self._why = reason, why
        self._changed.set()
