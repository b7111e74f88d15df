"""Waits for a condition that another task or thread brings about."""

import asyncio
from collections.abc import Callable


async def until(changed: asyncio.Event, holds: Callable[[], object]) -> None:
    """Waits until `holds()` is true, asking again each time `changed` is set."""
    while not holds():
        changed.clear()
        await changed.wait()
