"""Rate, delay and loss of emulated links as programs find them: tables of docs/emulate.md.

A program sends numbered packets of UDP with the time at which they left; another one notes when the
kernel had them (SO_TIMESTAMPNS). tbf shapes a pair of Ethernet devices (veth) between two network
namespaces. Needs root and a machine that does nothing else. Prints Markdown.
"""

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from anabranch.emulate import Emulator

RATES = (1, 10, 50, 100)
"""In Mbit/s."""
DELAY_MS = 20
SECONDS = 6
MILLION = 1_000_000
PAYLOAD = 1372
"""Bytes, in packets of IP of 1400."""

# peer, payload, packets a second, packets, packets a call (UDP_SEGMENT).
SEND = """
import socket, struct, sys, time
peer, size, rate, count, many = sys.argv[1], *map(int, sys.argv[2:])
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(17, 103, size)
line.connect((peer, 9))
rest = bytes(size - 16)
began = time.monotonic()
for number in range(0, count, many):
    ahead = began + number / rate - time.monotonic()
    if ahead > 0.001:
        time.sleep(ahead - 0.0005)
    while time.monotonic() < began + number / rate:
        pass
    now = time.time_ns()
    line.send(b"".join(struct.pack("<qq", number + k, now) + rest for k in range(many)))
"""

# Says number, departure and arrival (ns) of each packet until none comes for a second. Options 35
# and 33 are SO_TIMESTAMPNS and SO_RCVBUFFORCE.
TAKE = """
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
        seconds, nanoseconds = struct.unpack("<qq", extra[0][2])
        found.extend(struct.unpack("<qq", data[:16]))
        found.append(seconds * 10**9 + nanoseconds)
        line.settimeout(1)
except TimeoutError:
    pass
sys.stdout.flush()
sys.stdout.buffer.write(found.tobytes())
"""

# peer, payload, seconds: 64 packets a call.
FLOOD = """
import socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
size = int(sys.argv[2])
many = min(64, 65000 // size)
line.setsockopt(17, 103, size)
line.connect((sys.argv[1], 9))
data, end = bytes(size * many), time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    try:
        line.send(data)
    except OSError:
        pass
"""


def text_of(link: str) -> str:
    """A scenario of one link."""
    return f"name = 'a'\nlinks.a = {{ ends = ['here', 'peer'], {link} }}\npaths.a.via = ['a']\n"


def program(text: str, *words: object) -> list[str]:
    """A command."""
    return [sys.executable, "-c", text, *map(str, words)]


Packets = npt.NDArray[np.int64]


class Link:
    """Where programs run, at either end of something."""

    def __init__(self, start: Any, peer: str) -> None:
        self._start = start
        self._peer = peer

    def packets(self, size: int, rate: float, count: int, many: int = 1) -> Packets:
        """Number, departure and arrival in ns, a row for each packet that arrived.

        They leave at `rate` a second, `many` at a time.
        """
        with self._start("peer", program(TAKE), stdout=subprocess.PIPE) as take:
            assert take.stdout.readline() == b"ready\n"
            with self._start("here", program(SEND, self._peer, size, int(rate), count, many)):
                found = take.stdout.read()
        return np.frombuffer(found, dtype=np.int64).reshape(-1, 3)

    def flood(self, size: int, seconds: float) -> None:
        """Sends as fast as it goes to nobody."""
        with self._start("here", program(FLOOD, self._peer, size, seconds)):
            pass


@contextlib.contextmanager
def emulated(link: str) -> Iterator[tuple[Link, Emulator]]:
    """A link of ours."""
    with Emulator(text_of(link)) as emulator:
        yield Link(emulator.start, "peer"), emulator


@contextlib.contextmanager
def tbf(rate: int) -> Iterator[Link]:
    """A pair of devices of which the first is shaped."""
    names = ["accuracy-a", "accuracy-b"]

    def ip(words: str) -> None:
        subprocess.run(words.split(), check=True)

    def start(node: str, command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        space = names[node == "peer"]
        return subprocess.Popen(["ip", "netns", "exec", space, *command], **options)

    for name in names:
        ip(f"ip netns add {name}")
    try:
        ip(f"ip -n {names[0]} link add v0 type veth peer name v1 netns {names[1]}")
        for number, name in enumerate(names):
            ip(f"ip -n {name} address add 10.99.0.{number + 1}/24 dev v{number}")
            ip(f"ip -n {name} link set v{number} up")
        ip(f"tc -n {names[0]} qdisc add dev v0 root tbf rate {rate}mbit burst 3kb limit 30000")
        yield Link(start, "10.99.0.2")
    finally:
        for name in names:
            ip(f"ip netns delete {name}")


def rate_of(found: Packets, octets: int) -> float:
    """In Mbit/s, from a second after the first packet to the last one that was sent."""
    arrivals = found[:, 2][found[:, 2] > found[0, 2] + 10**9]
    return float((len(arrivals) - 1) * octets * 8e3 / (arrivals[-1] - arrivals[0]))


def rates() -> None:
    """Rate under too much load, and one-way delay under half of what the link carries."""
    print("| link, Mbit/s | rate, ours | tbf | delay off by, p50 ms | p99 ms |")
    print("|---|---|---|---|---|")
    for rate in RATES:
        each = (PAYLOAD + 28) * 8 / rate / 1e6
        load = (PAYLOAD, 1.25 / each, int(SECONDS / each), 1 + rate // 10)
        queue = "queue = { kind = 'drop_tail', packets = 50 }"
        with emulated(f"rate = '{rate} Mbit/s', delay = '{DELAY_MS} ms', {queue}") as (link, _):
            ours = rate_of(link.packets(*load), PAYLOAD + 28)
            quiet = link.packets(PAYLOAD, 0.5 / each, int(SECONDS / each / 2))
        off = (quiet[:, 2] - quiet[:, 1]) / 1e6 - DELAY_MS - each * 1e3
        with tbf(rate) as link:
            # It counts the header of Ethernet.
            theirs = rate_of(link.packets(*load), PAYLOAD + 42)
        p50, p99 = np.percentile(off, [50, 99])
        error = [f"{value:.3f} ({value / rate - 1:+.2%})" for value in (ours, theirs)]
        print(f"| {rate} | {error[0]} | {error[1]} | {p50:.3f} | {p99:.3f} |", flush=True)


def losses() -> None:
    """A million packets through bursts of losses."""
    mean, burst = 0.02, 4.0
    chain = f"mean_loss = '{mean:.0%}', mean_bad_steps = {burst}"
    with emulated(f"delay = '1 ms', loss = {{ kind = 'gilbert', clock = 'packet', {chain} }}") as (
        link,
        emulator,
    ):
        found = link.packets(16, 40_000, MILLION, 8)
        summary = emulator.summary
    arrived = np.zeros(MILLION, bool)
    arrived[found[:, 0]] = True
    edges = np.flatnonzero(np.diff(np.r_[True, arrived, True].astype(int)))
    runs = np.diff(edges)[::2]
    # Of the model: losses in bursts of geometric lengths.
    expected = 1 - 1 / burst
    variance = mean * (1 - mean) * (1 + expected) / (1 - expected) / MILLION
    print(
        f"lost {1 - arrived.mean():.4%} (model {mean:.2%}, its standard error {variance**0.5:.4%})"
    )
    spread = (burst * (burst - 1) / len(runs)) ** 0.5
    print(f"mean burst {runs.mean():.3f} (model {burst}, its standard error {spread:.3f})")
    print(json.dumps({key: value for key, value in summary.items() if "lost" in key}))


def ceiling() -> None:
    """Packets without a limit."""
    print("| bytes | packets/s | Mbit/s | CPU of the emulator, us a packet | late p99, ms |")
    print("|---|---|---|---|---|")
    for size in (64, 512, PAYLOAD):
        with emulated("delay = '1 ms'") as (link, emulator):
            before = resource.getrusage(resource.RUSAGE_SELF)
            began = time.monotonic()
            link.flood(size, SECONDS)
            took = time.monotonic() - began
            after = resource.getrusage(resource.RUSAGE_SELF)
            count = sum(each.packets for each in emulator.counters())
            late = emulator.summary["emulation.lateness_p99_ms"]
        used = sum(
            getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime")
        )
        per_second = count / took
        print(
            f"| {size + 28} | {per_second:,.0f} | {per_second * (size + 28) * 8 / 1e6:.0f} "
            f"| {used / count * 1e6:.2f} | {late:.3f} |",
            flush=True,
        )


def main() -> None:
    """All tables, or those that are named."""
    tables = {"rates": rates, "losses": losses, "ceiling": ceiling}
    for name in sys.argv[1:] or tables:
        tables[name]()


if __name__ == "__main__":
    main()
