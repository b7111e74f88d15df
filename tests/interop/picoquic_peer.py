"""picoquic as a program like those of `quic_program.py`: the library in the package aiopquic.

It runs with a Python for which that package has a wheel, beside ours, and needs nothing else.

python picoquic_peer.py listen|connect NAME=VALUE... (README.md)
"""

import ctypes
import hashlib
import importlib.util
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

ALPN = b"interop"
HOST = "127.0.0.1"
MAX_DATAGRAM_FRAME_SIZE = 0x20
DATA, FIN = 0, 1
ENDS = {4: "stateless reset", 5: "closed by QUIC", 6: "closed"}
READY, DATAGRAM, AVAILABLE, DELETED = 10, 11, 20, 22
DISCONNECTED = 19
BUFFER = 1 << 16

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


def library() -> Any:
    """picoquic."""
    spec = importlib.util.find_spec("aiopquic")
    assert spec is not None
    assert spec.submodule_search_locations
    (found,) = Path(spec.submodule_search_locations[0], "_binding").glob("_transport*.so")
    lib = ctypes.CDLL(str(found))
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    for name in ("create", "create_client_cnx"):
        getattr(lib, f"picoquic_{name}").restype = pointer
    for name in ("get_next_local_stream_id", "current_time"):
        getattr(lib, f"picoquic_{name}").restype = number
    lib.picoquic_get_next_wake_delay.restype = ctypes.c_int64
    return lib


def address(text: str) -> tuple[str, int]:
    """ADDRESS:PORT."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def packed(host: str, port: int) -> Any:
    """As C has it."""
    raw = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host)
    return ctypes.create_string_buffer(raw, 128)


def unpacked(raw: Any) -> tuple[str, int]:
    """From C."""
    return socket.inet_ntoa(raw[4:8]), struct.unpack("!H", raw[2:4])[0]


def say(event: str, **more: object) -> None:
    """Says that something has happened."""
    print(json.dumps({"event": event, **more}), flush=True)


def content(size: int) -> bytes:
    """What a client writes."""
    block = hashlib.shake_256(b"picoquic").digest(min(size, 1 << 20))
    return (block * (size // len(block) + 1))[:size] if size else b""


class End:
    """An end at work, with its last connection."""

    def __init__(self, words: dict[str, str], is_server: bool) -> None:  # noqa: FBT001
        self.lib, self.is_server = library(), is_server
        host, self.port = address(words["own"])
        self.selector = selectors.DefaultSelector()
        self.sockets: dict[str, socket.socket] = {}
        self.first = self.bound(HOST if host == "0.0.0.0" else host)
        self.cnx: int | None = None
        self.streams: dict[int, Any] = {}
        self.exchanges: dict[int, tuple[int, bytes]] = {}
        self.wanted: deque[tuple[str, str, str]] = deque()
        self.statuses: dict[tuple[str, int], str] = {}
        self.asked = 0
        self.callback = _Callback(self.on_event)
        lib, now = self.lib, self.now()
        lib.picoquic_register_all_congestion_control_algorithms()
        chain, key = (words.get(name, "").encode() or None for name in ("chain", "key"))
        self.quic = ctypes.c_void_p(
            lib.picoquic_create(
                8,
                chain if is_server else None,
                key,
                None if is_server else chain,
                ALPN,
                self.callback,
                None,
                None,
                None,
                (ctypes.c_uint8 * 16)(*[7] * 16),
                ctypes.c_uint64(now),
                None,
                None,
                None,
                ctypes.c_size_t(0),
            )
        )
        assert self.quic
        lib.picoquic_set_default_congestion_algorithm_by_name(self.quic, b"cubic")
        lib.picoquic_set_default_tp_value(
            self.quic, ctypes.c_uint64(MAX_DATAGRAM_FRAME_SIZE), ctypes.c_uint64(1500)
        )
        lib.picoquic_set_default_multipath_option(self.quic, int("paths" in words))
        lib.picoquic_enable_path_callbacks_default(self.quic, 1)
        if is_server:
            say("listening")
        else:
            self.remote = address(words["remote"])
            self.cnx = lib.picoquic_create_client_cnx(
                self.quic,
                packed(*self.remote),
                ctypes.c_uint64(now),
                0,
                b"localhost",
                ALPN,
                self.callback,
                None,
            )
            assert self.cnx

    def now(self) -> int:
        return int(self.lib.picoquic_current_time())

    def bound(self, host: str) -> socket.socket:
        """The socket of this address."""
        if host not in self.sockets:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                made.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
            made.bind((host, self.port))
            made.setblocking(False)  # noqa: FBT003 - the library's
            self.sockets[host] = made
            self.selector.register(made, selectors.EVENT_READ, host)
        return self.sockets[host]

    def on_event(  # noqa: PLR0912 - one for each event
        self, cnx: int, stream: int, data: Any, length: int, event: int, _own: Any, _other: Any
    ) -> int:
        """picoquic tells."""
        self.cnx = cnx
        taken = ctypes.string_at(data, length) if length and data else b""
        if event in {DATA, FIN}:
            if self.is_server:
                self.write(stream, taken, is_last=event == FIN)
            elif stream in self.streams:
                self.streams[stream][0].update(taken)
                self.streams[stream][1] += len(taken)
                if event == FIN:
                    self.finish(stream)
        elif event == READY:
            say("connected")
        elif event == DATAGRAM:
            if self.is_server:
                self.lib.picoquic_queue_datagram_frame(
                    ctypes.c_void_p(cnx), ctypes.c_size_t(len(taken)), taken
                )
            else:
                say("datagram", data=taken.hex())
        elif event in ENDS:
            local, remote, application = (ctypes.c_uint64() for _ in range(3))
            refs = [ctypes.byref(each) for each in (local, remote)]
            refs += [ctypes.byref(ctypes.c_uint64()), ctypes.byref(application)]
            self.lib.picoquic_get_close_reasons(ctypes.c_void_p(cnx), *refs)
            if event == 6:
                say("closed", code=application.value)
            else:
                say("closed", why=f"{ENDS[event]}: {local.value:#x} {remote.value:#x}")
        elif event in {AVAILABLE, DELETED}:
            change = "validated" if event == AVAILABLE else "abandoned"
            say("path", path=stream, change=change)
            if event == AVAILABLE and self.asked and stream:
                self.asked -= 1
                status = self.wanted.popleft()[2]
                if status == "backup":
                    self.status(stream, status)
                say("opened", path=stream)
        return 0

    def write(self, stream: int, data: bytes, *, is_last: bool) -> None:
        self.lib.picoquic_add_to_stream(
            ctypes.c_void_p(self.cnx),
            ctypes.c_uint64(stream),
            data,
            ctypes.c_size_t(len(data)),
            int(is_last),
        )

    def finish(self, stream: int) -> None:
        """A stream has come back."""
        hashed, count, wanted, size = self.streams.pop(stream)
        if (count, hashed.digest()) != (size, wanted):
            say("failed", why=f"{count} of {size} bytes came back, or other ones")
        elif not self.streams:
            say("exchanged")

    def status(self, path: int, status: str) -> None:
        self.lib.picoquic_set_path_status(
            ctypes.c_void_p(self.cnx), ctypes.c_uint64(path), int(status == "backup")
        )

    def open_wanted(self) -> None:
        """Opens a path once the other end's connection IDs have come."""
        if self.wanted and not self.asked:
            local, remote, _ = self.wanted[0]
            self.bound(local)
            done = self.lib.picoquic_probe_new_path(
                ctypes.c_void_p(self.cnx),
                packed(*address(remote)),
                packed(local, self.port),
                ctypes.c_uint64(self.now()),
            )
            self.asked = int(done == 0)

    def obey(self, line: str) -> None:
        """Does what a line of the standard input asks for."""
        cnx = ctypes.c_void_p(self.cnx)
        match line.split():
            case ["exchange", count, size]:
                for at in range(int(count)):
                    data = content(int(size) + at)
                    stream = self.lib.picoquic_get_next_local_stream_id(cnx, 0)
                    digest = hashlib.sha256(data).digest()
                    self.streams[stream] = [hashlib.sha256(), 0, digest, len(data)]
                    self.write(stream, data, is_last=True)
            case ["datagram", text]:
                data = bytes.fromhex(text)
                self.lib.picoquic_queue_datagram_frame(cnx, ctypes.c_size_t(len(data)), data)
            case ["update"]:
                self.lib.picoquic_start_key_rotation(cnx)
                say("updated")
            case ["close", code]:
                self.lib.picoquic_close(cnx, ctypes.c_uint64(int(code)))
                say("closing")
            case ["open", local, remote, status]:
                self.wanted.append((local, remote, status))
            case ["abandon", path]:
                now = ctypes.c_uint64(self.now())
                args = (ctypes.c_uint64(int(path)), ctypes.c_uint64(0), now)
                say("abandoning", why=self.lib.picoquic_abandon_path(cnx, *args))
            case ["status", path, status]:
                self.status(int(path), status)
                say("status")
            case ["paths"]:
                rows = []
                for number in range(8):
                    quality = (ctypes.c_uint64 * 18)()
                    which = ctypes.c_uint64(number)
                    if self.lib.picoquic_get_path_quality(cnx, which, quality) == 0:
                        rows.append([number, quality[16], quality[17]])
                say("paths", paths=rows)

    def send(self) -> None:
        """Sends what is to be sent now."""
        buffer = ctypes.create_string_buffer(BUFFER)
        length, index = ctypes.c_size_t(), ctypes.c_int()
        to, origin = (ctypes.create_string_buffer(128) for _ in range(2))
        cid, last = ctypes.create_string_buffer(64), ctypes.c_void_p()
        for _ in range(500):
            length.value = 0
            failed = self.lib.picoquic_prepare_next_packet_ex(
                self.quic,
                ctypes.c_uint64(self.now()),
                buffer,
                ctypes.c_size_t(1500),
                ctypes.byref(length),
                to,
                origin,
                ctypes.byref(index),
                cid,
                ctypes.byref(last),
                None,
            )
            if failed or not length.value:
                return
            here, _ = unpacked(origin.raw)
            try:
                self.sockets.get(here, self.first).sendto(
                    buffer.raw[: length.value], unpacked(to.raw)
                )
            except OSError:
                continue

    def run(self) -> None:
        """Works until its standard input ends."""
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ, "")
        words = b""
        while True:
            if self.cnx:
                self.open_wanted()
            self.send()
            wait = self.lib.picoquic_get_next_wake_delay(
                self.quic, ctypes.c_uint64(self.now()), ctypes.c_int64(20_000)
            )
            for key, _ in self.selector.select(max(wait, 0) / 1e6):
                if key.fileobj == 0:
                    some = os.read(0, 1 << 16)
                    if not some:
                        self.last_words()
                        return
                    *lines, words = (words + some).split(b"\n")
                    for line in lines:
                        self.obey(line.decode())
                    continue
                self.receive(key.data)

    def receive(self, host: str) -> None:
        """Takes what has come to an address."""
        for _ in range(200):
            try:
                data, there = self.sockets[host].recvfrom(BUFFER)
            except OSError:
                return
            self.lib.picoquic_incoming_packet_ex(
                self.quic,
                ctypes.create_string_buffer(data, len(data)),
                ctypes.c_size_t(len(data)),
                packed(*there),
                packed(host, self.port),
                0,
                ctypes.c_ubyte(0),
                ctypes.byref(ctypes.c_void_p()),
                ctypes.c_uint64(self.now()),
            )

    def last_words(self) -> None:
        """The other end hears of the end."""
        for _ in range(10):
            self.send()
            time.sleep(0.02)


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    End(dict(word.split("=", 1) for word in rest), role == "listen").run()
