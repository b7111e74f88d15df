"""aioquic as a program that uploads, or that reads what is uploaded: `anabranch bench-quic`.

The words are those of the other programs (README.md), as far as a bench needs them.
"""

import asyncio
import sys
from typing import Any

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration

ALPN = "interop"
PIECE = 1 << 16


async def _sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(PIECE):
        pass
    writer.write_eof()


def _on_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    tasks.append(asyncio.ensure_future(_sink(reader, writer)))


tasks: list[asyncio.Future[Any]] = []


async def _listen(words: dict[str, str]) -> None:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=[ALPN])
    configuration.load_cert_chain(words["chain"], words["key"])
    host, _, port = words["own"].rpartition(":")
    await serve(host, int(port), configuration=configuration, stream_handler=_on_stream)
    await asyncio.Event().wait()


async def _connect(words: dict[str, str]) -> None:
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=[ALPN], server_name="localhost"
    )
    configuration.load_verify_locations(cafile=words["chain"])
    host, _, port = words["remote"].rpartition(":")
    async with connect(host, int(port), configuration=configuration) as protocol:
        reader, writer = await protocol.create_stream()
        writer.write(bytes(int(words["upload"])))
        writer.write_eof()
        await reader.read()


def main() -> None:
    """Does what its words say."""
    role, *pairs = sys.argv[1:]
    words = dict(pair.split("=", 1) for pair in pairs)
    asyncio.run(_listen(words) if role == "listen" else _connect(words))


if __name__ == "__main__":
    main()
