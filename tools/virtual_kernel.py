"""How exact links are in the virtual kernel, and what that costs: a table of a page.

Our emulator and the kernel's own netem and tbf stand in the same guest, one after the other:
packets of UDP fill a link (its rate), or come one at a time (its delay). Writes the table into the
page at its mark.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from anabranch.emulate import Emulator, scenario_text
from anabranch.virtual import kernel_file, run_in_kernel

DELAY_MS = 20
RATES = (1, 10, 100)
"""In Mbit/s."""
SIZE = 1472
"""Of a packet's data; with its headers of UDP and IPv4 it has 1500 B."""
MARK = "<!-- generated: tools/virtual_kernel.py -->"

# Both clocks are the same one. Says when each packet was sent and when it came, in ns.
SINK = """
import socket, struct, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
line.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
line.bind(("", 9))
print("ready", flush=True)
line.settimeout(3)
rows = []
try:
    while True:
        data, extra, _, _ = line.recvmsg(2048, 64)
        seconds, nanos = struct.unpack("qq", extra[0][2])
        rows.append((int.from_bytes(data[:8]), seconds * 10**9 + nanos))
except TimeoutError:
    # Not before: nobody reads it meanwhile.
    for row in rows:
        print(*row)
"""
SOURCE = """
import socket, sys, time
count, size, gap = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.connect((sys.argv[1], 9))
due = time.monotonic()
for _ in range(count):
    line.send(time.time_ns().to_bytes(8) + bytes(size - 8))
    due += gap
    time.sleep(max(due - time.monotonic(), 0))
"""

Start = Callable[..., "subprocess.Popen[Any]"]


def main() -> None:
    """Inside the kernel it measures, outside it writes the page."""
    if sys.argv[1] == "--inside":
        json.dump([row for rate in RATES for row in measured(rate)], sys.stdout)
        return
    page = Path(sys.argv[1])
    head = page.read_text().partition(MARK)[0]
    page.write_text(head + MARK + "\n\n" + tables())


def tables() -> str:
    """What is behind the mark."""
    began = time.monotonic()
    done = run_in_kernel([sys.executable, __file__, "--inside"], folder="/tmp", is_shown=False)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    wall = time.monotonic() - began
    lines = [
        "| link | rate, Mbit/s | got, Mbit/s | off, % | delay, ms | median, ms | p99, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in json.loads(done.stdout):
        off = 100 * (row["got"] / row["rate"] - 1)
        lines.append(
            f"| {row['name']} | {row['rate']} | {row['got']:.4f} | {off:+.3f} "
            f"| {row['expected']:.4f} | {row['median']:.4f} | {row['p99']:.4f} |"
        )
    version = kernel_file().with_name("version").read_text().strip()
    lines += [
        "",
        f"Linux {version}; {done.virtual_seconds:.0f} s of virtual time,"
        f" {done.cpu_seconds:.0f} s of CPU, {wall:.0f} s on the wall.",
        "",
    ]
    return "\n".join(lines)


def measured(rate: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of link."""
    text = scenario_text(delay=f"{DELAY_MS}ms", rate=f"{rate}Mbit/s", queue=50)
    with Emulator(text) as emulator:
        yield row("our emulator", rate, emulator.start, "peer")
    # What the kernel's disciplines count is the frame.
    frame = f"rate {rate * 1514 / 1500:.6f}mbit"
    # Its limit has those on their way, too.
    netem = f"netem delay {DELAY_MS}ms {frame} limit {50 + rate * DELAY_MS // 12}"
    with chain(netem) as start:
        yield row("netem", rate, start, "10.9.0.2")
    tbf = f"tbf {frame} burst 1514 limit 75000"
    with chain(tbf, f"netem delay {DELAY_MS}ms limit 10000") as start:
        yield row("tbf, then netem's delay", rate, start, "10.9.0.2")


def row(name: str, rate: int, start: Start, peer: str) -> dict[str, Any]:
    """What comes when a link is filled for some seconds, and when packets come one by one."""
    # The first ones ask for addresses and fill the queue.
    arrivals = [at for _, at in packets(start, peer, count=rate * 1000, gap=10e-3 / rate)][100:]
    got = (len(arrivals) - 1) * 12_000 / (arrivals[-1] - arrivals[0]) * 1e3
    lonely = packets(start, peer, count=510, gap=0.0371)[10:]
    delays = sorted(at - sent for sent, at in lonely)
    return {
        "name": name,
        "rate": rate,
        "got": got,
        "expected": DELAY_MS + 12 / rate,
        "median": median(delays) / 1e6,
        "p99": delays[len(delays) * 99 // 100] / 1e6,
    }


def packets(start: Start, peer: str, *, count: int, gap: float) -> list[tuple[int, int]]:
    """When packets were sent and came, in ns; so many, so many seconds apart."""
    command = [sys.executable, "-c", SINK]
    with start("peer", command, stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout is not None
        assert sink.stdout.readline() == "ready\n"
        words = [sys.executable, "-c", SOURCE, peer, str(count), str(SIZE), str(gap)]
        assert start("here", words).wait() == 0
        lines = sink.stdout.read().splitlines()
    return [(int(sent), int(at)) for sent, at in map(str.split, lines)]


@contextmanager
def chain(*disciplines: str) -> Iterator[Start]:
    """Namespaces `here` and `peer`, and between them one for each discipline but the first.

    Each discipline is that of a device on the way to `peer`, in a namespace of its own: in one,
    they disturb each other. Nothing is done on the way back.
    """
    names = ["here", *(f"between{number}" for number in range(1, len(disciplines))), "peer"]
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
    tool("ip -n here address add 10.9.0.1/24 dev on")
    tool("ip -n peer address add 10.9.0.2/24 dev back")

    def start(node: str, command: list[str], **options: Any) -> "subprocess.Popen[Any]":
        return subprocess.Popen(["ip", "netns", "exec", node, *command], **options)

    try:
        # Packets right after devices come up can vanish.
        time.sleep(2)
        yield start
    finally:
        for name in names:
            tool(f"ip netns delete {name}")


def tool(line: str) -> None:
    """Runs a program that must succeed."""
    subprocess.run(line.split(), check=True)


if __name__ == "__main__":
    main()
