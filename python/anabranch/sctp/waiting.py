"""Waiting for what somebody else changes."""

import asyncio
from collections.abc import Callable


async def until(changed: asyncio.Event, holds: Callable[[], object]) -> None:
    """Waits until it holds, looking again whenever something has changed."""
    while not holds():
        changed.clear()
        await changed.wait()
