"""What commands that talk to peers share: standard input and output, piece by piece."""

import asyncio
import contextlib
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from io import BufferedReader
from typing import Any, BinaryIO

from anabranch.errors import AnabranchError

from .messages import say

_READ_AHEAD = 16
"""Pieces that wait for whoever iterates."""


class Pieces:
    """The pieces of a file, which a thread reads ahead.

    No one waits for it, as the file may never end.

    It may be iterated over several times: each iteration goes on where the last one stopped.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._queue: queue.Queue[bytes | OSError] = queue.Queue(_READ_AHEAD)
        self._came: asyncio.Event | None = None
        self._is_over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces that no iteration has taken yet."""
        if self._came is None:
            self._came = asyncio.Event()
            work = (self._came, asyncio.get_running_loop())
            threading.Thread(target=self._work, args=work, daemon=True).start()
        while not self._is_over:
            self._came.clear()
            try:
                piece = self._queue.get_nowait()
            except queue.Empty:
                await self._came.wait()
                continue
            self._is_over = not piece or isinstance(piece, OSError)
            if isinstance(piece, OSError):
                raise piece
            if piece:
                yield piece

    def _work(self, came: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        piece: bytes | OSError = b"before the first"
        # The loop may have been closed in the meantime.
        with contextlib.suppress(RuntimeError):
            while piece and not isinstance(piece, OSError):
                try:
                    piece = self._read()
                except OSError as error:
                    piece = error
                self._queue.put(piece)
                loop.call_soon_threadsafe(came.set)


@asynccontextmanager
async def alongside(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Runs something while the block lasts, and no longer; raises what it raises."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        (why,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(why, Exception):
            raise why


def standard_input() -> BufferedReader:
    """Standard input, as bytes."""
    if sys.stdin is None:
        raise AnabranchError("standard input is closed; use </dev/null if there is no input")
    # Not `sys.stdin`: Python cannot exit while a thread waits in it.
    return open(sys.stdin.fileno(), "rb", closefd=False)


def standard_output() -> BinaryIO:
    """Standard output, as bytes."""
    if sys.stdout is None:
        raise AnabranchError("standard output is closed; use >/dev/null to discard output")
    return sys.stdout.buffer


def say_rate(what: str, total: int, seconds: float) -> None:
    """Says how fast something was."""
    rate = total * 8 / max(seconds, 1e-9) / 1e6
    say(f"{what} {total} bytes in {seconds:.2f} s, {rate:.3g} Mbit/s")
