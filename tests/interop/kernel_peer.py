"""TCP and MPTCP of this machine's kernel, with the command line of the other peers (README.md).

Besides: --protocol tcp|mptcp, --congestion NAME, --buffer OCTETS (both directions; by default as
the kernel chooses). There is one stream, so messages follow each other without anything between
them: their sizes are known. Streams, partial reliability and the like do not exist here.
"""

import argparse
import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any

from payload import Flow, filled, size_of, sizes

# linux/mptcp.h, linux/in.h, linux/tcp.h
IPPROTO_MPTCP = 262
SOL_MPTCP, MPTCP_INFO = 284, 1
TCP_CONGESTION, TCP_INFO = 13, 11
FALLBACK_FLAG = 1


class Peer:
    """One run."""

    def __init__(self, want: argparse.Namespace) -> None:
        self.want = want
        self.sent, self.received = Flow(), Flow()
        self.errors: list[str] = []
        self.established = self.last_data = 0.0
        self.end = "refused"
        self.kernel: dict[str, Any] = {}
        self.connection: socket.socket
        self.listener: socket.socket
        self.lock = threading.Lock()

    def run(self) -> None:
        """From the socket to the end."""
        want = self.want
        protocol = IPPROTO_MPTCP if want.protocol == "mptcp" else socket.IPPROTO_TCP
        own = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if want.congestion:
            own.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, want.congestion.encode())
        if want.buffer:
            # The kernel doubles it.
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                own.setsockopt(socket.SOL_SOCKET, option, want.buffer // 2)
        if want.role == "listen":
            # An MPTCP listener that is bound to no address also takes joins at its other addresses.
            own.bind(("0.0.0.0" if want.protocol == "mptcp" else want.local, want.port))
            own.listen(1)
            say({"event": "listening"})
            self.connection, _ = own.accept()
            # The listener also gets the joins.
            self.listener = own
        else:
            own.bind((want.local, 0))
            own.connect((want.remote, want.remote_port))
            self.connection = own
        self.established, self.end = time.monotonic(), "lost"
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        say({"event": "established"})
        sender = threading.Thread(target=self.guarded, args=(self.send,), daemon=True)
        sender.start()
        self.guarded(self.receive)
        sender.join()
        self.connection.close()

    def guarded(self, job: Any) -> None:
        try:
            job()
        except (ConnectionResetError, BrokenPipeError) as error:
            self.end = "aborted"
            self.errors.append(str(error))
        except TimeoutError as error:
            self.errors.append(str(error))
        except OSError as error:
            if self.end != "aborted":
                self.errors.append(str(error))

    def send(self) -> None:
        """Sends all; then ends the connection, if that is to be done here and all is received."""
        want = self.want
        for n in range(want.send):
            if want.rate:
                time.sleep(max(self.established + n / want.rate - time.monotonic(), 0))
            message = filled(0, n, want.size)
            if n == want.wrong_byte:
                message = message[:-1] + bytes([message[-1] ^ 1])
            self.connection.sendall(message)
            self.sent.count(0, message)
        while self.received.messages < want.receive and self.end == "lost":
            time.sleep(0.001)
        if want.close == "shutdown":
            self.look()
            self.connection.shutdown(socket.SHUT_WR)
        elif want.close == "abort":
            self.look()
            self.end = "aborted"
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # A thread that reads would keep it open.
            with contextlib.suppress(OSError):
                self.connection.close()

    def receive(self) -> None:
        """Takes messages out of the stream of octets, until it ends."""
        want, waiting, index = self.want, bytearray(), 0
        self.connection.settimeout(0.2 if want.close == "abort" else None)
        while True:
            try:
                some = self.connection.recv(1 << 18)
            except TimeoutError:
                if self.end == "aborted":
                    return
                continue
            if not some:
                break
            waiting += some
            place = 0
            while (length := size_of(0, index, want.size)) <= len(waiting) - place:
                self.received.check(0, bytes(waiting[place : place + length]), want.size)
                place, index = place + length, index + 1
                count = self.received.messages
                if want.receive >= 10 and count % (want.receive // 10) == 0:
                    say({"event": "received", "messages": count})
            del waiting[:place]
            self.last_data = time.monotonic()
        if waiting:
            self.errors.append(f"{len(waiting)} octets of a message without its end")
        if self.end == "lost":
            self.end = "shutdown"
        self.look()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)

    def look(self) -> None:
        """The kernel's information on the connection."""
        with self.lock:
            if self.kernel:
                return
            with contextlib.suppress(OSError):
                name = self.connection.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16)
                self.kernel["congestion"] = name.rstrip(b"\0").decode()
            with contextlib.suppress(OSError):
                # tcpi_total_retrans of struct tcp_info
                info = self.connection.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 104)
                self.kernel["retransmitted"] = struct.unpack_from("I", info, 100)[0]
            if self.want.protocol == "mptcp":
                try:
                    info = self.connection.getsockopt(SOL_MPTCP, MPTCP_INFO, 16)
                    flags = struct.unpack_from("I", info, 8)[0]
                    self.kernel |= {
                        "subflows": info[0] + 1,
                        "fallback": bool(flags & FALLBACK_FLAG),
                    }
                except OSError:
                    # The connection has fallen back to TCP.
                    self.kernel |= {"subflows": 1, "fallback": True}

    def report(self) -> dict[str, Any]:
        now, is_established = time.monotonic(), self.established > 0
        return {
            "peer": "kernel",
            "role": self.want.role,
            "end": self.end,
            "established": is_established,
            **self.sent.report("sent"),
            **self.received.report("received"),
            **dict.fromkeys(("abandoned", "resets_sent", "resets_received", "resets_failed"), 0),
            "path_events": [],
            "errors": self.errors,
            "wall_s": now - self.established if is_established else 0.0,
            "data_s": self.last_data - self.established if self.last_data else 0.0,
            "cpu_s": time.process_time(),
            **self.kernel,
        }


def say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kernel_peer", description=__doc__)
    parser.add_argument("role", choices=["listen", "connect"])
    parser.add_argument("--local", required=True)
    parser.add_argument("--remote", default="")
    parser.add_argument("--protocol", choices=["tcp", "mptcp"], default="tcp")
    parser.add_argument("--congestion", default="")
    for name in ("--port", "--remote-port"):
        parser.add_argument(name, type=int, default=5000)
    for name in ("--buffer", "--send", "--receive"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--size", type=sizes, default=(1000, 1000))
    parser.add_argument("--streams", type=int, choices=[1], default=1)
    parser.add_argument("--close", choices=["wait", "shutdown", "abort"], default="wait")
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--wrong-byte", type=int)
    parser.add_argument("--timeout", type=float, default=60.0)
    return parser.parse_args()


def main() -> int:
    peer = Peer(arguments())
    run = threading.Thread(target=peer.guarded, args=(peer.run,), daemon=True)
    run.start()
    run.join(peer.want.timeout)
    if run.is_alive():
        peer.end = "timeout"
    say(peer.report())
    sys.stdout.flush()
    # Threads may still wait in the kernel.
    os._exit(0 if peer.established and peer.end != "timeout" else 1)


if __name__ == "__main__":
    main()
