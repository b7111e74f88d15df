"""SCTP for programs where the system has none: multi-homed, over UDP or IP, for asyncio.

The association is the simulator's: the same state machine, with a real clock, real addresses and
bytes. It travels in UDP (RFC 6951), so it needs no root and passes address translators; with
`udp_port=None` it travels directly in IP, where the system permits raw sockets.

A server that sends every message back, and a client (`python -m asyncio` runs them as they are):

>>> async def serve():
...     async with sctp.Endpoint(udp_port=9899) as endpoint, endpoint.listen(5001) as listener:
...         async for association in listener:
...             async for message in association:
...                 await association.send(message.data, stream=message.stream)
>>> async def ask():
...     async with sctp.connect("192.0.2.1", 5001, settings={"rto_min": "200 ms"}) as association:
...         await association.send(b"hello", stream=3, ppid=51)
...         print((await association.receive()).data)
"""

from .association import (
    Abandoned,
    AddressAdded,
    AddressRemoved,
    Association,
    AssociationClosedError,
    Event,
    Message,
    Path,
    PathChanged,
    PrimaryChanged,
    Restarted,
    StreamReset,
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
    "Path",
    "PathChanged",
    "PrimaryChanged",
    "Restarted",
    "Sight",
    "StreamReset",
    "Talk",
    "check_call",
    "check_message",
    "connect",
]
