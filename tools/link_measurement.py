"""Measures UDP packets through a link as programs see them: which arrive, and when.

It is used for our emulator and for the kernel's disciplines alike, on the host and in the virtual
kernel.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

DELAY_MS = 20
_ETHERNET = "02:00:00:00:00:0"
"""The Ethernet addresses of the ends, without their last digit: that of their IPv4 address."""
SIZE = 1472
"""Bytes of data in a packet; with its UDP and IPv4 headers it has 1500 B."""

# Arguments: peer, bytes, seconds between packets, packets, packets in a call (UDP_SEGMENT).
SOURCE = """
import socket, struct, sys, time
peer, size, gap, count, many = sys.argv[1:]
size, gap, count, many = int(size), float(gap), int(count), int(many)
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if many > 1:
    line.setsockopt(socket.IPPROTO_UDP, 103, size)
line.connect((peer, 9))
rest, due = bytes(size - 16), time.monotonic()
for number in range(0, count, many):
    now = time.time_ns()
    line.send(b"".join(struct.pack("=qq", number + k, now) + rest for k in range(many)))
    due += gap * many
    time.sleep(max(due - time.monotonic(), 0))
"""

# Prints number, departure and arrival (ns) of each packet after the last one has arrived, as its
# output is not read before. Options 35 and 33 are SO_TIMESTAMPNS and SO_RCVBUFFORCE.
SINK = """
import array, socket, struct, sys
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(socket.SOL_SOCKET, 35, 1)
line.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)
line.bind(("", 9))
found = array.array("q")
print("ready", flush=True)
line.settimeout(30)
try:
    while True:
        data, extra, _, _ = line.recvmsg(2048, 64)
        seconds, nanoseconds = struct.unpack("qq", extra[0][2])
        found.extend(struct.unpack("=qq", data[:16]))
        found.append(seconds * 10**9 + nanoseconds)
        line.settimeout(3)
except TimeoutError:
    sys.stdout.buffer.write(found.tobytes())
"""

Start = Callable[..., "subprocess.Popen[Any]"]
"""Starts a command in a node: takes the node's name (`here` or `peer`), the command, and options of
Popen.
"""

Packets = npt.NDArray[np.int64]
"""A row for each packet that arrived: its number, departure and arrival, both in ns."""


def packets(
    start: Start, peer: str, *, count: int, gap: float, size: int = SIZE, many: int = 1
) -> Packets:
    """Sends `count` packets, `many` at a time, with `gap` seconds between.

    Gives those that arrived.
    """
    command = [sys.executable, "-c", SINK]
    with start("peer", command, stdout=subprocess.PIPE) as sink:
        assert sink.stdout is not None
        assert sink.stdout.readline() == b"ready\n"
        words = [sys.executable, "-c", SOURCE, peer, *map(str, (size, gap, count, many))]
        assert start("here", words).wait() == 0
        found = sink.stdout.read()
    return np.frombuffer(found, dtype=np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class Row:
    """The accuracy of a link."""

    link: str
    rate: float
    """The rate in Mbit/s, as all rates here."""
    got: float
    delay_ms: float
    """The delay that the link should have."""
    median_ms: float
    p99_ms: float


def measured(link: str, rate: int, start: Start, peer: str, many: int = 1) -> Row:
    """Measures a link that is filled for some seconds, and one that gets single packets."""
    filled = packets(start, peer, count=rate * 1000, gap=10e-3 / rate, many=many)
    # The first packets resolve addresses and fill the queue.
    arrivals = filled[100:, 2]
    lonely = packets(start, peer, count=510, gap=0.0371)[10:]
    delays = np.sort(lonely[:, 2] - lonely[:, 1]) / 1e6
    return Row(
        link=link,
        rate=rate,
        got=(len(arrivals) - 1) * 12_000 / float(arrivals[-1] - arrivals[0]) * 1e3,
        delay_ms=DELAY_MS + 12 / rate,
        median_ms=float(np.median(delays)),
        p99_ms=float(delays[len(delays) * 99 // 100]),
    )


HEADS = """\
| link | rate, Mbit/s | got, Mbit/s | off, % | delay, ms | median, ms | p99, ms |
|---|---|---|---|---|---|---|"""
"""What `line` writes below, in Markdown."""


def line(row: Row) -> str:
    """A row of the table in Markdown."""
    off = 100 * (row.got / row.rate - 1)
    return (
        f"| {row.link} | {row.rate} | {row.got:.4f} | {off:+.3f} "
        f"| {row.delay_ms:.4f} | {row.median_ms:.4f} | {row.p99_ms:.4f} |"
    )


def table(rows: Sequence[Row]) -> str:
    """All rows in Markdown."""
    return "\n".join([HEADS, *map(line, rows)])


def token_bucket(rate: int, burst: int = 1) -> str:
    """The arguments of `tc` for a tbf with the rate of such a link, and bursts of so many packets.

    With one packet the bucket is full when the next may leave, so that all that the kernel's timer
    is late is lost to the rate.
    """
    # The kernel's disciplines count Ethernet frames.
    return f"tbf rate {rate * 1514 / 1500:.6f}mbit burst {1514 * burst} limit 75000"


@contextmanager
def chain(*disciplines: str) -> Iterator[Start]:
    """Nodes `here` and `peer` (10.9.0.2), and between them one for each discipline but the first.

    Each discipline is on a device towards `peer`, in a namespace of its own, as they would disturb
    each other in a common one. The reverse direction has none. The ends know each other's Ethernet
    address: if they had to ask, the first packets of all flows would wait and leave together.
    """
    names = ["here", *(f"between{number}" for number in range(1, len(disciplines))), "peer"]
    names = [f"anabranch-{name}" for name in names]
    try:
        for name in names:
            tool(f"ip netns add {name}")
        for left, right, discipline in zip(names, names[1:], disciplines, strict=False):
            tool(f"ip -n {left} link add on type veth peer name back netns {right}")
            tool(f"ip -n {left} link set on up")
            tool(f"ip -n {right} link set back up")
            tool(f"tc -n {left} qdisc add dev on root {discipline}")
        for name in names[1:-1]:
            for device, other in (("back", "on"), ("on", "back")):
                tool(f"tc -n {name} qdisc add dev {device} ingress")
                redirected = f"matchall action mirred egress redirect dev {other}"
                tool(f"tc -n {name} filter add dev {device} ingress {redirected}")
        tool(f"ip -n {names[0]} address add 10.9.0.1/24 dev on")
        tool(f"ip -n {names[-1]} address add 10.9.0.2/24 dev back")
        for name, device, own, other in ((names[0], "on", 1, 2), (names[-1], "back", 2, 1)):
            tool(f"ip -n {name} link set {device} address {_ETHERNET}{own}")
            tool(f"ip -n {name} neigh add 10.9.0.{other} lladdr {_ETHERNET}{other} dev {device}")

        def start(node: str, command: list[str], **options: Any) -> "subprocess.Popen[Any]":
            words = ["ip", "netns", "exec", f"anabranch-{node}", *command]
            return subprocess.Popen(words, **options)

        # Packets sent right after devices come up may be lost.
        time.sleep(2)
        yield start
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def tool(line: str) -> None:
    """Runs a program; raises if it fails."""
    subprocess.run(line.split(), check=True)
