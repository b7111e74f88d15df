"""Four flows of this kernel's TCP through one of its queue disciplines; runs in the virtual kernel.

`four_flows.py FILE` reads runs from FILE and writes what came of each into FILE.out, a line a run.
Four nodes in a row: the sender, one with the discipline, one with a delay of 20 ms, the receiver.
"""

import ctypes
import json
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from link_measurement import chain, tool

DELAY = "netem delay 20ms limit 10000"
ORPHANS = "netem delay 1us limit 100000"
"""On the sender: its packets no longer count as its own (`skb_orphan_partial`), as behind a router.

Otherwise TCP small queues would hold back what waits in another namespace.
"""
LOOK_SECONDS = 0.05
"""How often the queue is looked at for its mean length."""
_NEWNET = 0x40000000
_RETRANSMITTED = 100
"""Where `tcpi_total_retrans` is in `struct tcp_info`."""


def main() -> None:
    """Runs all runs of a file."""
    file = Path(sys.argv[1])
    for run in json.loads(file.read_text()):
        with file.with_suffix(".out").open("a") as out:
            out.write(json.dumps(through(**run)) + "\n")


def through(
    disciplines: list[str], control: str, starts: list[float], seconds: float
) -> dict[str, Any]:
    """What the queue and the flows count.

    `disciplines` are the words of `tc`, from the root on; `starts` and `seconds` are seconds.
    """
    root, *children = disciplines
    with chain(ORPHANS, f"handle 1: {root}", DELAY):
        for number, child in enumerate(children, 1):
            here = f"parent {number}: handle {number + 1}:"
            tool(f"tc -n anabranch-between1 qdisc add dev on {here} {child}")
        tool(f"tc -n anabranch-peer qdisc add dev back root {DELAY}")
        with _queue_watched(seconds) as lengths:
            found = _flows(control, starts, seconds)
        said = subprocess.run(
            ["tc", "-n", "anabranch-between1", "-s", "-j", "qdisc", "show", "dev", "on"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        # A `tc` that is older than the discipline says this in between.
        said = re.sub(r"\[Unknown qdisc, optlen=\d+\]", "", said)
        last = json.loads(said)[len(children)]
        return found | {
            "dropped": last["drops"],
            "sent": json.loads(said)[0]["packets"],
            "queue": sum(lengths) / len(lengths),
        }


@contextmanager
def _queue_watched(seconds: float) -> Iterator[list[int]]:
    """The packets that wait, at each look."""
    lengths: list[int] = []
    words = ["tc", "-n", "anabranch-between1", "-s", "-batch", "-"]
    looker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert looker.stdin is not None
    assert looker.stdout is not None

    asked, told = looker.stdin, looker.stdout

    def read() -> None:
        is_root = False
        for line in told:
            if "qdisc" in line:
                is_root = " root " in line
            elif is_root and "backlog" in line:
                lengths.append(int(line.split()[2].removesuffix("p")))

    def ask() -> None:
        for _ in range(round(seconds / LOOK_SECONDS)):
            time.sleep(LOOK_SECONDS)
            asked.write("qdisc show dev on\n")
            asked.flush()

    reader, asker = threading.Thread(target=read), threading.Thread(target=ask)
    reader.start()
    asker.start()
    yield lengths
    asker.join()
    asked.close()
    reader.join()
    looker.wait()


def _flows(control: str, starts: list[float], seconds: float) -> dict[str, Any]:
    listener = _socket_in("peer")
    listener.bind(("10.9.0.2", 9))
    listener.listen()
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    began = time.monotonic()
    waiting = sorted(starts, reverse=True)
    senders: dict[int, socket.socket] = {}
    receivers: dict[int, socket.socket] = {}
    data, room = bytes(1 << 18), bytearray(1 << 18)
    got: dict[int, int] = {}
    while (now := time.monotonic() - began) < seconds:
        if waiting and now >= waiting[-1]:
            waiting.pop()
            sender = _socket_in("here")
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            sender.connect_ex(("10.9.0.2", 9))
            senders[sender.fileno()] = sender
            poll.register(sender, select.EPOLLOUT | select.EPOLLET)
            continue
        for number, event in poll.poll((waiting[-1] if waiting else seconds) - now):
            if number in receivers:
                got[number] += receivers[number].recv_into(room, len(room), socket.MSG_TRUNC)
            elif number in senders:
                try:
                    while event & select.EPOLLOUT:
                        senders[number].send(data)
                except BlockingIOError:
                    pass
            else:
                receiver = listener.accept()[0]
                receivers[receiver.fileno()], got[receiver.fileno()] = receiver, 0
                poll.register(receiver, select.EPOLLIN)
    again = 0
    for sender in senders.values():
        info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        again += struct.unpack_from("=I", info, _RETRANSMITTED)[0]
    for each in [listener, *senders.values(), *receivers.values()]:
        each.close()
    return {"received": list(got.values()), "retransmitted": again}


def _socket_in(node: str) -> socket.socket:
    """A socket of TCP in a node's network."""
    libc = ctypes.CDLL(None, use_errno=True)
    there, here = Path(f"/run/netns/anabranch-{node}"), Path("/proc/self/ns/net")
    with there.open() as space, here.open() as own:
        if libc.setns(space.fileno(), _NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.settimeout(0)
        libc.setns(own.fileno(), _NEWNET)
    return made


if __name__ == "__main__":
    main()
