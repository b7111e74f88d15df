"""A link between two network namespaces that real programs send over, and whose truth is known.

The tests' independent reference for what is measured on real hosts: user space between two TUN
devices, root only, nothing of the engine. Packets go one after the other at the link's rate
through a drop-tail queue; the delay has a random part, and order is kept; those of the forward
direction are lost by a Gilbert chain in time.

python tests/emulated_link.py ROLE ... is what runs in a namespace: `sink`, `source` or `ping`.
"""

import contextlib
import heapq
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CLIENT, SERVER = "10.99.0.1", "10.99.0.2"
PORT = 5001
CAPTURED_OCTETS = 96


@dataclass(frozen=True)
class Link:
    """The properties of the link; times in s."""

    rate: float
    """bit/s of IP packets."""
    delay: float
    jitter: float
    """The delay's random part is uniform from 0 to this."""
    queue: int
    """Packets that wait or are being sent."""
    mean_loss: float
    in_bad: float
    mean_bad: float
    slot: float = 0.005


@dataclass
class Direction:
    """One direction: when what goes in comes out."""

    link: Link
    is_lossy: bool
    rng: random.Random
    leaving: deque[float] = field(default_factory=deque)
    """When those that wait, and the one that is being sent, will have been sent."""
    last: float = 0.0
    slot: int = -1
    is_bad: bool = False
    offered: int = 0
    lost: int = 0
    overflowed: int = 0

    def carry(self, now: float, octets: int) -> float | None:
        """When a packet that arrives now comes out; None: never."""
        while self.leaving and self.leaving[0] <= now:
            self.leaving.popleft()
        if len(self.leaving) >= self.link.queue:
            self.overflowed += 1
            return None
        start = self.leaving[-1] if self.leaving else now
        sent = start + octets * 8 / self.link.rate
        self.leaving.append(sent)
        self.offered += 1
        if self.is_lossy and self._is_lost(start):
            self.lost += 1
            return None
        self.last = max(self.last, sent + self.link.delay + self.rng.uniform(0, self.link.jitter))
        return self.last

    def _is_lost(self, at: float) -> bool:
        """Whether the chain loses a packet whose sending begins then."""
        link = self.link
        leaves = min(link.slot / link.mean_bad, 1.0)
        share = link.mean_loss / link.in_bad
        enters = leaves * share / (1 - share)
        for _ in range(int(at / link.slot) - self.slot):
            if self.slot < 0:
                self.is_bad = self.rng.random() < share
                self.slot = int(at / link.slot)
                break
            self.is_bad = self.rng.random() < (1 - leaves if self.is_bad else enters)
            self.slot += 1
        return self.is_bad and self.rng.random() < link.in_bad


def missing() -> str | None:
    """What this machine lacks for it, in a sentence; None if nothing is missing."""
    if os.name != "posix" or os.geteuid() != 0:
        return "network namespaces need root"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    for program in ("ip", "tcpdump"):
        if shutil.which(program) is None:
            return f"the program `{program}` is not installed"
    made = subprocess.run(
        ["ip", "netns", "add", "anabranch-probe"], check=False, capture_output=True
    )
    subprocess.run(["ip", "netns", "del", "anabranch-probe"], check=False, capture_output=True)
    return None if made.returncode == 0 else "network namespaces cannot be made"


class Bridge:
    """The emulator at work between two namespaces."""

    def __init__(self, name: str, link: Link, seed: int) -> None:
        self.spaces = (f"{name}-client", f"{name}-server")
        self.forward = Direction(link, is_lossy=True, rng=random.Random(seed))
        self.back = Direction(link, is_lossy=False, rng=random.Random(seed + 1))
        self.lateness: list[float] = []
        """By how much packets came out later than they should have."""
        self._files: list[int] = []
        self._stop = threading.Event()
        self._name = name

    @contextlib.contextmanager
    def running(self) -> Iterator["Bridge"]:
        """From here on packets are carried."""
        thread = threading.Thread(target=self._carry, daemon=True)
        try:
            for space, own, other in zip(
                self.spaces, (CLIENT, SERVER), (SERVER, CLIENT), strict=True
            ):
                self._attach(space, own, other)
            thread.start()
            yield self
        finally:
            self._stop.set()
            if thread.is_alive():
                thread.join()
            for file in self._files:
                os.close(file)
            for space in self.spaces:
                subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def _attach(self, space: str, own: str, other: str) -> None:
        import fcntl  # noqa: PLC0415  (not on Windows)

        # TUNSETIFF with IFF_TUN | IFF_NO_PI: whole IP packets, no offloads.
        file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._files.append(file)
        device = f"ana{os.getpid() % 100_000}{len(self._files)}{self._name[:3]}"[:15]
        fcntl.ioctl(file, 0x400454CA, struct.pack("16sH", device.encode(), 0x0001 | 0x1000))
        for command in (
            ["ip", "netns", "add", space],
            ["ip", "link", "set", device, "netns", space, "name", "emu0"],
            ["ip", "-n", space, "addr", "add", f"{own}/32", "peer", other, "dev", "emu0"],
            ["ip", "-n", space, "link", "set", "lo", "up"],
            ["ip", "-n", space, "link", "set", "emu0", "mtu", "1500", "txqueuelen", "2000", "up"],
        ):
            subprocess.run(command, check=True, capture_output=True)

    def _carry(self) -> None:
        import select  # noqa: PLC0415  (only here)

        client, server = self._files
        ways = {client: (server, self.forward), server: (client, self.back)}
        due: list[tuple[float, int, int, bytes]] = []
        count = 0
        while not self._stop.is_set():
            now = time.monotonic()
            while due and due[0][0] <= now:
                at, _, file, packet = heapq.heappop(due)
                self.lateness.append(now - at)
                with contextlib.suppress(OSError):
                    os.write(file, packet)
                now = time.monotonic()
            wait = min(due[0][0] - now, 0.05) if due else 0.05
            for file in select.select([client, server], [], [], max(wait, 0))[0]:
                other, direction = ways[file]
                with contextlib.suppress(BlockingIOError):
                    while True:
                        packet = os.read(file, 2048)
                        out = direction.carry(time.monotonic(), len(packet))
                        if out is not None and packet[0] >> 4 == 4:
                            heapq.heappush(due, (out, count, other, packet))
                            count += 1

    def run(self, end: int, *words: str) -> subprocess.Popen[str]:
        """Starts a program in the namespace of the client (0) or of the server (1)."""
        command = ["ip", "netns", "exec", self.spaces[end], *words]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def role(self, end: int, *words: str) -> subprocess.Popen[str]:
        """Starts one of this file's roles there."""
        return self.run(end, sys.executable, __file__, *words)

    def transfer(self, seconds: float, folder: Path) -> tuple[Path, Path]:
        """A bulk upload by the kernel's TCP, captured at both ends."""
        files = (folder / "client.pcap", folder / "server.pcap")
        captures = [
            self.run(
                end,
                "tcpdump",
                "-i",
                "emu0",
                "-s",
                str(CAPTURED_OCTETS),
                "-w",
                str(file),
                "-U",
                "tcp",
            )
            for end, file in enumerate(files)
        ]
        sink = self.role(1, "sink")
        time.sleep(1.0)
        source = self.role(0, "source", str(seconds))
        source.wait(seconds + 60)
        time.sleep(0.5)
        for process in (*captures, sink):
            process.send_signal(signal.SIGINT)
            process.wait(20)
        return files

    def ping(self, count: int, interval: float) -> list[float | None]:
        """Round-trip times in s; None where no answer came."""
        process = self.role(0, "ping", str(count), str(interval))
        said, _ = process.communicate(timeout=count * interval + 60)
        times: list[float | None] = json.loads(said)
        return times

    def late(self) -> float:
        """Lateness in s that 99 of 100 packets stay below."""
        late = sorted(self.lateness)
        return late[len(late) * 99 // 100] if late else 0.0


def _sink() -> None:
    with socket.create_server((SERVER, PORT)) as listener:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(KeyboardInterrupt, OSError):
            while connection.recv(1 << 16):
                pass


def _source(seconds: float) -> None:
    end = time.monotonic() + seconds
    with socket.create_connection((SERVER, PORT), timeout=20) as connection:
        connection.settimeout(1.0)
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                connection.send(bytes(1 << 16))


def _ping(count: int, interval: float) -> None:
    """ICMP echo requests of 84 octets at equal intervals."""
    times: list[float | None] = [None] * count
    sent = [0.0] * count
    number = os.getpid() & 0xFFFF
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.connect((SERVER, 0))

        def listen() -> None:
            while True:
                try:
                    packet = raw.recv(2048)
                except OSError:
                    return
                now = time.monotonic()
                kind, _, _, own, _ = struct.unpack("!BBHHH", packet[20:28])
                (at,) = struct.unpack("!I", packet[28:32])
                if kind == 0 and own == number and at < count and times[at] is None:
                    times[at] = now - sent[at]

        threading.Thread(target=listen, daemon=True).start()
        begin = time.monotonic()
        for at in range(count):
            time.sleep(max(begin + at * interval - time.monotonic(), 0))
            body = struct.pack("!I", at) + bytes(52)
            head = struct.pack("!BBHHH", 8, 0, 0, number, at & 0xFFFF)
            total = sum(struct.unpack(f"!{len(head + body) // 2}H", head + body))
            total = (total >> 16) + (total & 0xFFFF)
            total += total >> 16
            head = struct.pack("!BBHHH", 8, 0, ~total & 0xFFFF, number, at & 0xFFFF)
            sent[at] = time.monotonic()
            with contextlib.suppress(OSError):
                raw.send(head + body)
        time.sleep(1.0)
    print(json.dumps(times))


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    if role == "sink":
        _sink()
    elif role == "source":
        _source(float(words[0]))
    elif role == "ping":
        _ping(int(words[0]), float(words[1]))
