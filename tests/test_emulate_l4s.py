"""Queues that mark, under programs that say ECT(1): the recipe of docs/emulate.md."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.emulate import Emulator
from conftest import HANGS_S, no_emulation

LACKS = no_emulation()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")

QUEUES = {
    "dualpi2": '{ kind = "dualpi2" }',
    "dualpi2 of Linux": '{ kind = "dualpi2", variant = "linux" }',
    "fq_codel": '{ kind = "fq_codel" }',
    "cake": '{ kind = "cake", bandwidth = "19 Mbit/s" }',
}

LINK = """
[links.access]
ends = ["internet", "home"]
rate = "20 Mbit/s"
delay = "10 ms"
queue = { kind = "drop_tail" }
reverse = { queue = { kind = "drop_tail" } }
[paths.only]
via = ["access"]
"""

SENT = 4400

# Sends packets that say ECT(1), by a quarter faster than the link, for 2 s.
SENDER = f"""
import socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 1)
began = time.monotonic()
for number in range({SENT}):
    line.sendto(bytes(1400), (sys.argv[1], 5001))
    time.sleep(max(0, began + number * 1428 * 8 / 25e6 - time.monotonic()))
"""

# Counts packets by their ECN field until a second after a line says that all are sent; prints how
# many said ECT(1), and how many had the mark. A busy machine may not get to it for a while: 33 is
# SO_RCVBUFFORCE.
RECEIVER = """
import select, socket, sys
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
line.setsockopt(socket.SOL_SOCKET, 33, 1 << 25)
line.bind(("", 5001))
line.settimeout(1)
print("ready", flush=True)
counts, are_sent = [0, 0, 0, 0], False
while True:
    try:
        _, said, _, _ = line.recvmsg(2000, 100)
    except TimeoutError:
        if are_sent:
            break
        are_sent = select.select([sys.stdin], [], [], 0)[0]
        continue
    counts[said[0][2][0] & 3] += 1
print(counts[1], counts[3])
"""


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """A scenario of one link."""
    file = tmp_path / "access.toml"
    file.write_text(LINK, "utf-8")
    return file


@pytest.mark.parametrize("queue", QUEUES)
def test_a_program_that_says_ect1_sees_the_marks_of_the_queue(link: Path, queue: str) -> None:
    with Emulator(link, sets={"links.access.queue": QUEUES[queue]}) as emulator:
        receiver = emulator.start(
            "home",
            ["python3", "-c", RECEIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        sent, at = 0, "link.access.forward."
        # What a busy machine sends all at once fills the queue, which then drops instead.
        while emulator.summary[f"{at}marked_packets"] < 200 and sent < 20 * SENT:
            emulator.run("internet", ["python3", "-c", SENDER, "home"], check=True)
            sent += SENT
        said, _ = receiver.communicate("sent\n", timeout=HANGS_S)
        found = emulator.summary
    unmarked, marked = map(int, said.split())
    assert marked > 100
    assert marked + unmarked <= sent
    # What is dropped later, or waits at the end, may have been marked.
    assert marked <= found[f"{at}marked_packets"] <= marked + sent - unmarked
    if queue.startswith("dualpi2"):
        assert found[f"{at}l4s.packets"] >= sent - found[f"{at}queue_full_packets"]
        assert found[f"{at}classic.packets"] < 10


def built(folder: Path) -> Callable[[str], Path]:
    """The programs of UDP Prague, built from its sources."""
    sources = os.environ.get("ANABRANCH_UDP_PRAGUE")
    if not sources:
        pytest.skip("ANABRANCH_UDP_PRAGUE names no folder with the sources of UDP Prague")
    if shutil.which("g++") is None or shutil.which("make") is None:
        pytest.skip("there is no g++ or no make to build UDP Prague with")
    shutil.copytree(sources, folder / "udp_prague")
    command = ["make", "-s", "-C", str(folder / "udp_prague")]
    subprocess.run(command, check=True, timeout=300)
    return lambda name: folder / "udp_prague" / f"udp_prague_{name}"


def test_udp_pragues_own_programs_keep_the_queue_as_short_as_it_marks(
    tmp_path: Path, link: Path
) -> None:
    program = built(tmp_path)
    waits = {}
    for queue in ("dualpi2 of Linux", "fq_codel", "cake"):
        with Emulator(link, sets={"links.access.queue": QUEUES[queue]}) as emulator:
            server = [str(program("sender")), "-p", "8080", "-q"]
            emulator.start("internet", server)
            time.sleep(0.5)
            client = [str(program("receiver")), "-c", "-a", "10.177.0.1", "-p", "8080", "-q"]
            emulator.start("home", client)
            time.sleep(8)
            found = emulator.summary
        at = "link.access.forward."
        assert found[f"{at}delivered_packets"] > 5000, queue
        assert found[f"{at}marked_packets"] > 50, queue
        waits[queue] = found[f"{at}mean_sojourn_ms"]
    # A step of 1 ms, and CoDel's target of 5 ms.
    assert waits["dualpi2 of Linux"] < 2.5 < min(waits["fq_codel"], waits["cake"])
