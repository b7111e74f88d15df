"""Waits for a condition that another task or thread brings about."""

import asyncio
import os
from collections.abc import Callable

from anabranch.errors import LiveError


class Changed(asyncio.Event):
    """Set when something has changed, by the process that it was made in.

    A process that is forked from that one has none of its threads, so that nothing would ever
    change there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    async def wait(self) -> bool:  # type: ignore[override]
        """Waits until it is set; raises a LiveError in another process."""
        if os.getpid() != self._process:
            raise LiveError(
                f"the endpoint belongs to the process {self._process}, which this one was forked"
                " from; make another endpoint here"
            )
        await super().wait()
        return True


async def until(changed: asyncio.Event, holds: Callable[[], object]) -> None:
    """Waits until `holds()` is true, asking again each time `changed` is set."""
    while not holds():
        changed.clear()
        await changed.wait()
