"""QUIC for programs: streams and datagrams over UDP, with TLS 1.3, for asyncio.

The connection is the simulator's: the same state machine, with a real clock, real addresses, bytes
and keys. A client looks at the server's certificate unless it is told not to. With the variable
`SSLKEYLOGFILE` in the environment, the secrets of connections are appended to that file, with which
Wireshark decrypts captures.

A server that sends every stream back, and a client:

>>> import asyncio
>>> from anabranch import quic
>>> async def serve(listener):
...     async for connection in listener:
...         async for stream in connection.streams():
...             await stream.write(await stream.read_all(), end=True)
>>> async def ask(port, trust):
...     async with quic.connect("127.0.0.1", port, trust=trust, protocols=["echo"]) as connection:
...         stream = await connection.open()
...         await stream.write(b"hello", end=True)
...         return await stream.read_all()
>>> async def both():
...     made = quic.self_signed(["127.0.0.1"])
...     async with (
...         quic.Endpoint(["127.0.0.1"]) as endpoint,
...         endpoint.listen(made, protocols=["echo"]) as listener,
...     ):
...         server = asyncio.create_task(serve(listener))
...         print(await ask(endpoint.port, made.chain))
...         server.cancel()
>>> asyncio.run(both())
b'hello'
"""

from .certificate import ANYONE, Certificate, self_signed, system_roots
from .connection import Connection, ConnectionClosedError, Stream, StreamClosedError
from .endpoint import Endpoint, Listener, connect
from .paths import Event, Path, PathChanged, PathRefused

__all__ = [
    "ANYONE",
    "Certificate",
    "Connection",
    "ConnectionClosedError",
    "Endpoint",
    "Event",
    "Listener",
    "Path",
    "PathChanged",
    "PathRefused",
    "Stream",
    "StreamClosedError",
    "connect",
    "self_signed",
    "system_roots",
]
