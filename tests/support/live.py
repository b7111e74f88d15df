"""What the tests of live endpoints share."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

TEST_S = 300
"""Less than a test may take, so that its thread has ended by then."""

LOOPBACK = "127.0.0.1"


@contextmanager
def deserted_port(address: str = LOOPBACK) -> Iterator[int]:
    """A port of UDP that nobody hears at, and nobody can get meanwhile.

    A socket that has a peer has the port, and the system refuses what others send there.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with (
        socket.socket(family, socket.SOCK_DGRAM) as peer,
        socket.socket(family, socket.SOCK_DGRAM) as held,
    ):
        for one in (peer, held):
            one.bind((address, 0))
        held.connect(peer.getsockname()[:2])
        yield int(held.getsockname()[1])


def run(work: Callable[[], Awaitable[None]], limit_s: float = TEST_S) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(limit_s):
            await work()

    # Tests of pages leave an event loop in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(bounded())).result()
