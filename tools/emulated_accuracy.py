"""Rate, delay and loss of emulated links as programs see them: tables of docs/emulate.md.

It measures TUN and veth, and for the rate also tbf of the host's kernel. Sender and receiver run
before other programs (SCHED_FIFO), as the emulator does: a sender that has to wait for longer than
the queue lasts leaves the link idle. It needs root, and for tbf a machine that does nothing else,
since the kernel's own work has no priority. It prints Markdown, each row when it is measured. Words
on the command line select tables, numbers the rates in Mbit/s: `rates 50 100`. A rate takes about
150 s. If the variable RATTAN names a program, the rates also include those of Rattan (crate
`rattan`), which gets the same priority as the emulator, and take 190 s each.
"""

import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from anabranch.emulate import Emulator, scenario_text
from link_measurement import (
    DELAY_MS,
    HEADS,
    SIZE,
    Row,
    Start,
    chain,
    line,
    measured,
    packets,
    token_bucket,
    tool,
)

DEVICES = ("tun", "veth")

RATES = (1, 10, 50, 100)
"""Rates in Mbit/s."""
SECONDS = 6
MILLION = 1_000_000
BURSTS = """
name = "bursts"
paths.link.via = ["link"]
[links.link]
ends = ["here", "peer"]
delay = "1 ms"
loss = { kind = "gilbert", clock = "packet", mean_loss = "2 %", mean_bad_steps = 4.0 }
"""
MEAN_LOSS, MEAN_BURST = 0.02, 4.0

# Arguments: peer, bytes, seconds. It sends 64 packets with each call, or as many as fit.
FLOOD = """
import socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
size = int(sys.argv[2])
line.setsockopt(socket.IPPROTO_UDP, 103, size)
line.connect((sys.argv[1], 9))
data, end = bytes(size * min(64, 65000 // size)), time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    try:
        line.send(data)
    except OSError:
        pass
"""


@contextmanager
def emulated(text: str, devices: str) -> Iterator[Emulator]:
    """A scenario with devices of this kind."""
    os.environ["ANABRANCH_EMULATE_DEVICES"] = devices
    with Emulator(text) as emulator:
        yield emulator


def first(start: Start) -> Start:
    """Starts programs that run before others."""

    def begin(node: str, command: list[str], **options: Any) -> "subprocess.Popen[Any]":
        return start(node, ["chrt", "--fifo", "5", *command], **options)

    return begin


@contextmanager
def rattan(program: str, rate: int) -> Iterator[tuple[Start, str]]:
    """A link of Rattan's, and the address of `peer`; its other end is in a namespace of its own."""
    outside = "anabranch-outside"
    link = ["--uplink-bandwidth", f"{rate}Mbps", "--uplink-queue", "droptail"]
    link += ["--uplink-queue-args", '{"packet_limit": 50}']
    link += ["--uplink-delay", f"{DELAY_MS}ms", "--downlink-delay", f"{DELAY_MS}ms"]
    within = ["sh", "-c", "echo within $$ $RATTAN_BASE; exec sleep 1000"]
    words = ["ip", "netns", "exec", outside, "chrt", "--fifo", "10", program, "link", *link]
    tool(f"ip netns add {outside}")
    try:
        tool(f"ip -n {outside} link set lo up")
        with subprocess.Popen(
            [*words, "--", *within], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            said = next(line for line in process.stdout if line.startswith("within"))
            _, inner, peer = said.split()

            def start(node: str, command: list[str], **options: Any) -> "subprocess.Popen[Any]":
                here = ["nsenter", f"--net=/proc/{inner}/ns/net"]
                prefix = here if node == "here" else ["ip", "netns", "exec", outside]
                return subprocess.Popen([*prefix, *command], **options)

            time.sleep(2)
            try:
                yield start, peer
            finally:
                # Rattan ends with its command.
                os.kill(int(inner), signal.SIGTERM)
    finally:
        tool(f"ip netns delete {outside}")


def rates(chosen: list[int]) -> None:
    """The rate under overload, and the one-way delay of single packets."""
    print(HEADS, flush=True)
    for rate in chosen:
        many = max(rate // 10, 1)
        text = scenario_text(delay=f"{DELAY_MS}ms", rate=f"{rate}Mbit/s", queue=50)
        for devices in DEVICES:
            with emulated(text, devices) as emulator:
                show(measured(f"ours, {devices}", rate, first(emulator.start), "peer", many))
        for burst in (1, 2):
            with chain(token_bucket(rate, burst)) as start:
                name = f"tbf, burst of {burst}, without a delay"
                show(measured(name, rate, first(start), "10.9.0.2", many))
        if program := os.environ.get("RATTAN"):
            with rattan(program, rate) as (start, peer):
                show(measured("Rattan", rate, first(start), peer, many))


def show(row: Row) -> None:
    """Prints a row at once, so that it is there if the rest is not waited for."""
    print(line(row), flush=True)


def losses() -> None:
    """A million packets through bursts of losses."""
    with Emulator(BURSTS) as emulator:
        found = packets(emulator.start, "peer", count=MILLION, gap=1 / 40_000, size=16, many=8)
    arrived = np.zeros(MILLION, bool)
    arrived[found[:, 0]] = True
    edges = np.flatnonzero(np.diff(np.r_[True, arrived, True].astype(int)))
    runs = np.diff(edges)[::2]
    # The parameters of the model: losses in bursts of geometric lengths.
    stays = 1 - 1 / MEAN_BURST
    variance = MEAN_LOSS * (1 - MEAN_LOSS) * (1 + stays) / (1 - stays) / MILLION
    lost, error = 1 - arrived.mean(), variance**0.5
    print(f"lost {lost:.4%} (model {MEAN_LOSS:.2%}, its standard error {error:.4%})")
    spread = (MEAN_BURST * (MEAN_BURST - 1) / len(runs)) ** 0.5
    print(f"mean burst {runs.mean():.3f} (model {MEAN_BURST}, its standard error {spread:.3f})")


def ceiling() -> None:
    """How many packets pass without a rate limit."""
    print("| devices | bytes | packets/s | Mbit/s | CPU of the emulator, us a packet |")
    print("|---|---|---|---|---|")
    for size, devices in itertools.product((64, 512, SIZE), DEVICES):
        with emulated(scenario_text(delay="1ms"), devices) as emulator:
            before = resource.getrusage(resource.RUSAGE_SELF)
            began = time.monotonic()
            words = [sys.executable, "-c", FLOOD, "peer", str(size), str(SECONDS)]
            emulator.run("here", words, stdout=subprocess.DEVNULL, check=True)
            took = time.monotonic() - began
            after = resource.getrusage(resource.RUSAGE_SELF)
            count = sum(link.packets for link in emulator.counters())
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        per_second, whole = count / took, size + 28
        print(
            f"| {devices} | {whole} | {per_second:,.0f} | {per_second * whole * 8 / 1e6:.0f} "
            f"| {used / count * 1e6:.1f} |"
        )


def main() -> None:
    """Prints all tables, or those that are named."""
    chosen = [int(word) for word in sys.argv[1:] if word.isdigit()]
    tables = {
        "rates": lambda: rates(chosen or list(RATES)),
        "losses": losses,
        "ceiling": ceiling,
    }
    for name in [word for word in sys.argv[1:] if not word.isdigit()] or tables:
        tables[name]()


if __name__ == "__main__":
    main()
