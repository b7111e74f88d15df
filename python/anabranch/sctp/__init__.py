"""SCTP for programs where the system has none: multi-homed, over UDP or IP, for asyncio.

The association is the simulator's: the same state machine, with a real clock, real addresses and
bytes. It travels in UDP (RFC 6951), so it needs no root and passes address translators; with
`udp_port=None` it travels directly in IP, where the system permits raw sockets.

A server that sends every message back, and a client:

>>> import asyncio
>>> from anabranch import sctp
>>> async def serve(listener):
...     async for association in listener:
...         async for message in association:
...             await association.send(message.data, stream=message.stream)
>>> async def ask(host, udp_port):
...     settings = {"rto_min": "200 ms"}
...     async with sctp.connect(host, 5001, udp_port=udp_port, settings=settings) as association:
...         await association.send(b"hello", stream=3, ppid=51)
...         return await association.receive()
>>> async def both():
...     async with sctp.Endpoint(["127.0.0.1"]) as endpoint, endpoint.listen(5001) as listener:
...         server = asyncio.create_task(serve(listener))
...         print(await ask("127.0.0.1", endpoint.udp_port))
...         server.cancel()
>>> asyncio.run(both())
Message(data=b'hello', stream=3, ppid=0, unordered=False)
"""

from .association import (
    Abandoned,
    AddressAdded,
    AddressRemoved,
    Association,
    AssociationClosedError,
    Event,
    Message,
    Part,
    Path,
    PathChanged,
    PrimaryChanged,
    Restarted,
    StreamReset,
    Unreachable,
    check_message,
)
from .call import CallOutcome, Sight, Talk, check_call
from .endpoint import ENCAPSULATION_PORT, Endpoint, Listener, connect

__all__ = [
    "ENCAPSULATION_PORT",
    "Abandoned",
    "AddressAdded",
    "AddressRemoved",
    "Association",
    "AssociationClosedError",
    "CallOutcome",
    "Endpoint",
    "Event",
    "Listener",
    "Message",
    "Part",
    "Path",
    "PathChanged",
    "PrimaryChanged",
    "Restarted",
    "Sight",
    "StreamReset",
    "Talk",
    "Unreachable",
    "check_call",
    "check_message",
    "connect",
]
