"""QUIC stacks that are programs: one command line, lines of words in, lines of JSON out."""

import asyncio
import contextlib
import functools
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from quic_peers import HOST, Client, Server, at, written

from anabranch import quic

LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class Stack:
    """A stack, as a program (README.md)."""

    name: str
    program: Callable[[], list[str]]
    """Builds it where that is due; the words that start it."""
    negotiates_versions: frozenset[str] = frozenset({"listens"})
    chooses_ciphers: bool = True
    updates_keys: bool = True
    keeps_keys: bool = False
    reports_marks: bool = True
    resets: bool = True

    def __str__(self) -> str:
        return self.name

    @contextlib.asynccontextmanager
    async def server(
        self,
        port: int,
        made: quic.Certificate,
        folder: Path,
        host: str = HOST,
        **options: object,
    ) -> AsyncIterator[Server]:
        chain, key = written(made, folder)
        words = ["listen", f"own={at(host, port)}", f"chain={chain}", f"key={key}"]
        async with self._running(words, options) as end:
            await end.said("listening")
            yield end

    @contextlib.asynccontextmanager
    async def client(
        self,
        own: int,
        port: int,
        made: quic.Certificate,
        folder: Path,
        host: str = HOST,
        **options: object,
    ) -> AsyncIterator[Client]:
        chain = folder / "chain.pem"
        chain.write_bytes(made.chain)
        there = str(options.pop("to", host))
        ends = [f"own={at(host, own)}", f"remote={at(there, port)}"]
        words = ["connect", *ends, f"chain={chain}"]
        async with self._running(words, options) as end:
            await end.said("connected")
            yield end

    @contextlib.asynccontextmanager
    async def _running(
        self, words: list[str], options: dict[str, object]
    ) -> AsyncIterator["Program"]:
        for name, wanted in options.items():
            if isinstance(wanted, int) and wanted:
                words.append(f"{name}={int(wanted)}")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.program(), *words, stdin=pipe, stdout=pipe, limit=LONGEST_LINE
        )
        end = Program(process)
        try:
            yield end
        finally:
            await end.stop()


class Program:
    """One end at work: of a server, its last connection."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._said: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._end: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if said["event"] == "closed":
                if not self._end.done():
                    self._end.set_result(said)
            elif said["event"] == "failed":
                sys.stderr.write(f"{said['why']}\n")
                self._queue("exchanged").put_nowait(said)
            else:
                self._queue(said["event"]).put_nowait(said)

    def _queue(self, event: str) -> asyncio.Queue[dict[str, Any]]:
        return self._said.setdefault(event, asyncio.Queue())

    async def said(self, event: str) -> dict[str, Any]:
        """Waits until it says that; fails if it ends before."""
        waiting = asyncio.create_task(self._queue(event).get())
        await asyncio.wait({waiting, self._listening}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            raise RuntimeError(f"the program ended before it said {event}")
        return waiting.result()

    async def ask(self, line: str, event: str) -> dict[str, Any]:
        """Has it do something, and waits until that is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        return await self.said(event)

    async def stop(self) -> None:
        """It ends at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._listening

    @property
    def is_open(self) -> bool:
        return not self._end.done()

    async def exchange(self, size: int) -> None:
        await self.exchange_many(1, size)

    async def exchange_many(self, count: int, size: int) -> None:
        said = await self.ask(f"exchange {count} {size}", "exchanged")
        assert "why" not in said, said["why"]

    async def datagram(self, data: bytes) -> bytes:
        said = await self.ask(f"datagram {data.hex()}", "datagram")
        return bytes.fromhex(said["data"])

    async def update_keys(self) -> None:
        await self.ask("update", "updated")

    async def migrate(self) -> None:
        await self.ask("migrate", "migrated")

    async def open_path(self, local: str, remote: str, status: str) -> int:
        said = await self.ask(f"open {local} {remote} {status}", "opened")
        assert "path" in said, said["why"]
        return int(said["path"])

    async def abandon_path(self, path: int) -> None:
        await self.ask(f"abandon {path}", "abandoning")

    async def paths(self) -> dict[int, tuple[int, int]]:
        said = await self.ask("paths", "paths")
        return {path: (sent, received) for path, sent, received in said["paths"]}

    async def close(self, code: int) -> None:
        await self.ask(f"close {code}", "closing")

    async def closed(self) -> int:
        said = await self._end
        assert "code" in said, said
        return int(said["code"])

    async def was_reset(self) -> bool:
        return "reset" in (await self._end).get("why", "")


def _rust(name: str) -> Stack:
    program = functools.cache(lambda: [str(peers.cargo(name, "quic-peer", f"{name}-peer"))])
    return Stack(name, program)


QUIC_GO = Stack(
    "quic-go",
    functools.cache(lambda: [str(peers.go("quic-go", "quic-go-peer"))]),
    negotiates_versions=frozenset(),
    chooses_ciphers=False,
    updates_keys=False,
)

PICOQUIC = Stack("picoquic", peers.picoquic, negotiates_versions=frozenset(), chooses_ciphers=False)

STACKS = {each.name: each for each in (_rust("quinn"), _rust("noq"), QUIC_GO, PICOQUIC)}


if __name__ == "__main__":
    # What quic-programs.toml names.
    for stack in (*map(_rust, ("quinn", "noq")), QUIC_GO):
        print(stack.program())
