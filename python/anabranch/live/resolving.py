"""Addresses of hosts by their names."""

import asyncio
import socket

from anabranch.errors import AnabranchError
from anabranch.support.arguments import escaped


async def resolved(host: str) -> str:
    """The first address of a host; an address is its own.

    Raises
    ------
    AnabranchError
        It is neither an address nor a known name.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        sentence = f"host = `{escaped(host)}` is neither an address nor a known name"
        raise AnabranchError(sentence) from None
    return str(found[0][4][0])
