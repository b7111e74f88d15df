"""The kernel's TCP or MPTCP as a peer: sends octets of a pattern, checks what it gets.

Runs inside a network namespace and prints JSON. The pattern is that of
crates/anabranch-live/examples/stream_peer.
"""

import argparse
import json
import select
import socket
import struct
import time
from typing import Any

PERIOD = 65_521
CHUNK = 65_536
MPTCP = 262
TCP_CONGESTION = 13
LISTENING: list[socket.socket] = []


def pattern() -> bytes:
    """Long enough that any chunk is a slice of it."""
    state = 1
    period = bytearray()
    for _ in range(PERIOD):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        period.append(state >> 16 & 0xFF)
    return bytes(period) * (2 + (1 << 21) // PERIOD)


ACCURATE_ECN_ENDS = 280


def tcp_info(connection: socket.socket) -> dict[str, Any]:
    """Some of what the kernel counts (struct tcp_info of linux/tcp.h)."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    except OSError:
        return {}
    options = info[5]
    scales = info[6]
    words = struct.unpack_from("=24I", info, 8)
    return {
        "has_timestamps": bool(options & 1),
        "has_sack": bool(options & 2),
        "has_window_scale": bool(options & 4),
        "has_ecn": bool(options & 8),
        "ecn_seen": bool(options & 16),
        "send_scale": scales & 15,
        "receive_scale": scales >> 4,
        "send_mss": words[2],
        "receive_mss": words[3],
        "retransmissions": words[23],
        **accurate_ecn(info),
    }


def accurate_ecn(info: bytes) -> dict[str, Any]:
    """What a kernel that agrees on accurate ECN counts, as Linux 7.3 lays it out."""
    if len(info) < ACCURATE_ECN_ENDS:
        return {}
    delivered_ce = struct.unpack_from("=I", info, 196)[0]
    names = ("received_ce", "delivered_e1", "delivered_e0", "delivered_ceb", "received_e1")
    counters = struct.unpack_from("=7I", info, 248)
    modes = struct.unpack_from("=H", info, 276)[0]
    return {
        "delivered_ce": delivered_ce,
        **dict(zip((*names, "received_e0", "received_ceb"), counters, strict=True)),
        "accecn_option_seen": modes >> 2 & 3,
        "accecn_fails": modes >> 4 & 15,
    }


def opened(want: argparse.Namespace) -> socket.socket:
    """A connection with the peer."""
    family = socket.AF_INET6 if ":" in want.address else socket.AF_INET
    fresh = socket.socket(family, socket.SOCK_STREAM, MPTCP if want.mptcp else 0)
    fresh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if want.congestion:
        fresh.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, want.congestion.encode())
    if want.receive_buffer:
        fresh.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, want.receive_buffer)
    if want.role == "connect":
        if want.local_port:
            fresh.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", want.local_port))
        fresh.settimeout(want.timeout)
        fresh.connect((want.address, want.port))
        return fresh
    fresh.bind((want.address, want.port))
    fresh.listen(8)
    print(json.dumps({"event": "listening"}), flush=True)
    fresh.settimeout(want.timeout)
    connection, _ = fresh.accept()
    # Subflows that join come through it.
    LISTENING.append(fresh)
    return connection


def main() -> None:  # noqa: PLR0915 - one step after the other
    """One connection, to its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["listen", "connect"])
    parser.add_argument("--address", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=5001)
    parser.add_argument("--local-port", type=int, default=0)
    parser.add_argument("--mptcp", action="store_true")
    parser.add_argument("--congestion", default="")
    parser.add_argument("--receive-buffer", type=int, default=0)
    parser.add_argument("--send", type=int, default=0)
    parser.add_argument("--receive", type=int, default=0)
    parser.add_argument(
        "--half-close", action="store_true", help="shut down writing when all is sent"
    )
    parser.add_argument("--pause-at", type=int, default=0)
    parser.add_argument("--pause-for", type=float, default=0.5)
    parser.add_argument("--reset", action="store_true", help="ends by a reset")
    parser.add_argument("--timeout", type=float, default=60)
    want = parser.parse_args()
    content = pattern()
    connection = opened(want)
    print(json.dumps({"event": "connected"}), flush=True)
    connection.setblocking(False)  # noqa: FBT003 - the library's
    begun = time.monotonic()
    sent = received = 0
    wrong_at = None
    has_end = has_shut = False
    error = ""
    info: dict[str, Any] = {}
    try:
        while time.monotonic() - begun < want.timeout:
            is_sending = sent < want.send
            if not is_sending and want.half_close and not has_shut:
                has_shut = True
                connection.shutdown(socket.SHUT_WR)
            if has_end and not is_sending:
                break
            if not is_sending and received >= want.receive and not has_shut:
                # The peer may have no more data; it learns that we have none.
                has_shut = True
                info = tcp_info(connection)
                if want.reset:
                    break
                connection.shutdown(socket.SHUT_WR)
            readable, writable, _ = select.select(
                [] if has_end else [connection], [connection] if is_sending else [], [], 0.5
            )
            if readable:
                if want.pause_at and received >= want.pause_at:
                    want.pause_at = 0
                    time.sleep(want.pause_for)
                data = connection.recv(1 << 20)
                has_end = not data
                start = received % PERIOD
                if wrong_at is None and data != content[start : start + len(data)]:
                    wrong_at = received
                received += len(data)
            if writable:
                start = sent % PERIOD
                sent += connection.send(content[start : start + min(CHUNK, want.send - sent)])
    except OSError as failure:
        error = type(failure).__name__
    seconds = time.monotonic() - begun
    info = info or tcp_info(connection)
    if want.reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    print(
        json.dumps(
            {
                "event": "closed",
                "sent": sent,
                "received": received,
                "wrong_at": wrong_at,
                "has_end": has_end,
                "error": error,
                "seconds": round(seconds, 3),
                "info": info,
            }
        )
    )


if __name__ == "__main__":
    main()
