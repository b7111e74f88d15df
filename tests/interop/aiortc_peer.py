"""A peer on aiortc's SCTP: single-homed, over UDP, with a stand-in for its DTLS transport.

Command line, payload and the JSON at the end: README.md. aiortc has no graceful close of its own,
so `--close shutdown` is refused; it answers the peer's SHUTDOWN.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from typing import Any

import numpy as np
from aiortc import rtcsctptransport as aiortc
from payload import Flow, filled, sizes

MOST_QUEUED = 500
"""Fragments that wait in aiortc, which takes whatever it is given."""


class Wire(asyncio.DatagramProtocol):
    """The DTLS transport that aiortc needs: whole datagrams in both directions."""

    state = "connected"

    def __init__(self, role: str) -> None:
        self._role = "server" if role == "listen" else "client"
        self.packets: asyncio.Queue[bytes] = asyncio.Queue()
        self.udp: asyncio.DatagramTransport | None = None
        self.receiver: Any = None
        self.has_aborted = self.has_shut_down = False

    def connection_made(self, transport: Any) -> None:
        self.udp = transport

    def datagram_received(self, data: bytes, _from: Any) -> None:
        self.packets.put_nowait(data)

    def error_received(self, _error: Exception) -> None:
        """The peer does not listen yet, or no longer."""

    def _register_data_receiver(self, receiver: Any) -> None:
        self.receiver = receiver

    def _unregister_data_receiver(self, _receiver: Any) -> None:
        self.receiver = None

    async def _send_data(self, data: bytes) -> None:
        assert self.udp is not None
        self.note(data)
        self.udp.sendto(data)

    def note(self, packet: bytes) -> None:
        """How the association ends, which aiortc does not say."""
        kind = packet[12] if len(packet) > 12 else None
        self.has_aborted |= kind == 6
        self.has_shut_down |= kind == 14

    async def carry(self) -> None:
        """One packet after the other, for as long as the process lives."""
        while True:
            packet = await self.packets.get()
            self.note(packet)
            if self.receiver is not None:
                await self.receiver._handle_data(packet)


class Transport(aiortc.RTCSctpTransport):  # type: ignore[misc]
    """aiortc's association, without data channels."""

    def __init__(self, wire: Wire, peer: "Peer") -> None:
        super().__init__(wire, peer.want.port)
        self.peer = peer
        self.resets_received = 0
        self.abandoned = 0

    async def _init(self) -> None:
        # By itself it sends INIT from both ends.
        if self.peer.want.role == "connect":
            await super()._init()

    async def _receive(self, stream_id: int, _pp_id: int, data: bytes) -> None:
        self.peer.take(stream_id, data)

    def _set_state(self, state: Any) -> None:
        super()._set_state(state)
        self.peer.changed(state)

    async def _reset_deferred_streams(self) -> None:
        before = self._reconfig_deferred
        await super()._reset_deferred_streams()
        if before is not None and self._reconfig_deferred is None:
            self.resets_received += len(before.streams) or 1

    def _data_channel_reset(self, stream_id: int) -> None:
        """There is no data channel that would end with it."""

    def _data_channel_closed(self, stream_id: int) -> None:
        self.peer.errors.append(f"stream {stream_id} was not reset")


class Peer:
    """One run."""

    def __init__(self, want: argparse.Namespace) -> None:
        self.want = want
        self.wire = Wire(want.role)
        self.sent, self.received = Flow(), Flow()
        self.established = asyncio.Event()
        self.over = asyncio.Event()
        self.all_there = asyncio.Event()
        self.established_at = self.last_data = 0.0
        self.resets_sent = 0
        self.errors: list[str] = []
        self.echoes: list[tuple[int, bytes]] = []
        self.end = "refused"
        if want.receive == 0:
            self.all_there.set()
        if want.rto_min:
            aiortc.SCTP_RTO_MIN = want.rto_min / 1000
            aiortc.SCTP_RTO_INITIAL = max(0.5, aiortc.SCTP_RTO_MIN)
        # The fragments of a packet of that size, without the headers of packet and chunk.
        aiortc.USERDATA_MAX_LENGTH = (want.mtu - 28) // 4 * 4

    def changed(self, state: Any) -> None:
        """Called by aiortc in each state."""
        if state == aiortc.RTCSctpTransport.State.ESTABLISHED and not self.established.is_set():
            self.established_at = time.monotonic()
            self.end = "lost"
            say({"event": "established"})
            self.established.set()
        elif state == aiortc.RTCSctpTransport.State.CLOSED:
            self.over.set()
            self.established.set()
            self.all_there.set()

    def take(self, stream: int, data: bytes) -> None:
        """A message that was received."""
        self.received.check(stream, data, self.want.size)
        self.last_data = time.monotonic()
        total = self.want.receive
        if total >= 10 and self.received.messages % (total // 10) == 0:
            say({"event": "received", "messages": self.received.messages})
        if self.want.echo:
            self.echoes.append((stream, data))
        if self.received.messages >= total:
            self.all_there.set()

    async def run(self) -> None:
        """From the sockets to the end."""
        want = self.want
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(
            lambda: self.wire,
            local_addr=(want.local, want.encapsulation),
            remote_addr=(want.remote, want.remote_encapsulation),
        )
        carrier = asyncio.create_task(self.wire.carry())
        self.sctp = Transport(self.wire, self)
        if want.role == "listen":
            say({"event": "listening"})
        await self.sctp.start(aiortc.RTCSctpCapabilities(maxMessageSize=1 << 20), want.remote_port)
        await self.established.wait()
        await self.send_all()
        await self.all_there.wait()
        while self.want.echo and not self.over.is_set():
            await self.send_echoes()
            await asyncio.sleep(0.001)
        if want.close == "abort" and not self.over.is_set():
            await self.drained()
            await self.sctp.stop()
        await self.over.wait()
        await asyncio.sleep(want.linger / 1000)
        carrier.cancel()

    async def send_all(self) -> None:
        want = self.want
        for n in range(want.send):
            if self.over.is_set():
                return
            if want.reset_streams and n == want.send // 2:
                await self.reset()
            if want.rate:
                await asyncio.sleep(self.established_at + n / want.rate - time.monotonic())
            stream, index = n % want.streams, n // want.streams
            message = filled(stream, index, want.size)
            if n == want.wrong_byte:
                message = message[:-1] + bytes([message[-1] ^ 1])
            await self.send(stream, message)
            await self.send_echoes()

    async def send_echoes(self) -> None:
        while self.echoes:
            await self.send(*self.echoes.pop(0))

    async def send(self, stream: int, message: bytes) -> None:
        want = self.want
        while len(self.sctp._outbound_queue) > MOST_QUEUED and not self.over.is_set():
            await asyncio.sleep(0.0005)
        self.sent.count(stream, message)
        await self.sctp._send(
            stream,
            53,
            message,
            expiry=None if want.lifetime is None else time.time() + want.lifetime / 1000,
            max_retransmits=want.retransmissions,
            ordered=not want.unordered,
        )

    async def drained(self) -> None:
        """Everything is acknowledged."""
        while (self.sctp._outbound_queue or self.sctp._sent_queue) and not self.over.is_set():
            await asyncio.sleep(0.001)

    async def reset(self) -> None:
        """Resets all outgoing streams, and waits until the peer has agreed."""
        await self.drained()
        streams = list(range(self.want.streams))
        self.sctp._reconfig_queue.extend(streams)
        await self.sctp._transmit_reconfig()
        while self.sctp._reconfig_request is not None and not self.over.is_set():
            await asyncio.sleep(0.001)
        self.resets_sent += len(streams)

    def report(self) -> dict[str, Any]:
        if self.over.is_set():
            self.end = {
                (True, True): "aborted",
                (True, False): "aborted",
                (False, True): "shutdown",
            }.get((self.wire.has_aborted, self.wire.has_shut_down), self.end)
        now, is_established = time.monotonic(), self.established_at > 0
        return {
            "peer": "aiortc",
            "role": self.want.role,
            "end": self.end,
            "established": is_established,
            **self.sent.report("sent"),
            **self.received.report("received"),
            "abandoned": 0,
            "resets_sent": self.resets_sent,
            "resets_received": self.sctp.resets_received,
            "resets_failed": 0,
            "path_events": [],
            "errors": self.errors,
            "wall_s": now - self.established_at if is_established else 0.0,
            "data_s": self.last_data - self.established_at if self.last_data else 0.0,
            "cpu_s": time.process_time(),
        }


def say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="aiortc_peer", description=__doc__)
    parser.add_argument("role", choices=["listen", "connect"])
    parser.add_argument("--local", required=True)
    parser.add_argument("--remote", required=True)
    for name in ("--port", "--remote-port"):
        parser.add_argument(name, type=int, default=5000)
    for name in ("--encapsulation", "--remote-encapsulation"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--send", "--receive", "--rto-min"):
        parser.add_argument(name, type=int, default=0)
    for name in ("--retransmissions", "--lifetime", "--wrong-byte"):
        parser.add_argument(name, type=int)
    for name in ("--unordered", "--reset-streams", "--echo"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--size", type=sizes, default=(1000, 1000))
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--close", choices=["wait", "abort"], default="wait")
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--mtu", type=int, default=1200)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--linger", type=int, default=200)
    return parser.parse_args()


async def main() -> int:
    peer = Peer(arguments())
    try:
        await asyncio.wait_for(peer.run(), peer.want.timeout)
    except TimeoutError:
        peer.end = "timeout"
        peer.over.clear()
    say(peer.report())
    return 0 if peer.established_at and peer.end != "timeout" else 1


if __name__ == "__main__":
    with np.errstate(over="ignore"), contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(main()))
