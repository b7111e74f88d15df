"""A captured transfer of the kernel's TCP between two hosts, whose routers an emulated link joins.

    host (192.168.1.2) -- router `here` == the link == router `peer` -- host (192.168.2.2)

The hosts' devices are veth, with segmentation offload or without; the router in front of the
receiver joins segments as a network card does (GRO), or does not. dumpcap captures at both hosts
and at all devices of the first router; the emulator's own capture has each packet of the link.

python tools/kernel_transfer.py NUMBERS FOLDER carries out those of a comma-separated list, each
into a folder of its own: `link.pcapng`, `near.pcapng`, `far.pcapng`, `any.pcapng`, `truth.json`.
"""

import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anabranch.emulate import Emulator

PORT = 5001
OVERTIME_S = 60.0
"""A transfer has this long to end after its sender has sent all."""
_STARTS_S = 20.0
"""A capture, or the receiver, has so long to begin."""
_SIOCETHTOOL = 0x8946
_ETHTOOL = {"tx": 0x17, "gro": 0x2C}
"""linux/ethtool.h. A device without checksum offload gets no large segments."""


@dataclass(frozen=True)
class Drawn:
    """What one transfer goes over, in SI units."""

    number: int
    rate: float
    """bit/s of IP packets."""
    delay: float
    loss: float
    """Mean probability."""
    burst: float
    """Mean length of a burst of losses in packets; 1: independent."""
    queue: int
    control: str
    seconds: float
    sender_has_offload: bool
    receiver_has_offload: bool

    @classmethod
    def of(cls, number: int) -> "Drawn":
        """The transfer with this number."""
        rng = random.Random(f"captured transfer {number}")
        rate = 10 ** rng.uniform(6.3, 7.5)
        delay = 10 ** rng.uniform(-2.7, -1.2)
        flying = 2 * delay * rate / 12_000
        return cls(
            number,
            rate=round(rate, -3),
            delay=round(delay, 5),
            loss=rng.choice([0.0, round(10 ** rng.uniform(-3, -1.5), 5)]),
            burst=rng.choice([1.0, 3.0]),
            queue=max(20, round(flying * rng.uniform(0.5, 2))),
            control=rng.choice(["cubic", "reno"]),
            # Some 4,000 packets, and time enough to leave slow start.
            seconds=min(max(4_000 * 12_000 / rate, 3.0), 8.0),
            sender_has_offload=rng.random() < 0.5,
            receiver_has_offload=rng.random() < 0.5,
        )

    @property
    def hold_s(self) -> float:
        """How long the receiver's router waits for what it could join to a packet."""
        return 3 * 12_000 / self.rate if self.receiver_has_offload else 0.0

    @property
    def scenario(self) -> str:
        """The link, which loses on the way of the data only."""
        loss = '{ kind = "none" }'
        if self.loss and self.burst == 1:
            loss = f'{{ kind = "bernoulli", probability = {self.loss} }}'
        elif self.loss:
            loss = (
                f'{{ kind = "gilbert", clock = "packet", mean_loss = {self.loss},'
                f" mean_bad_steps = {self.burst} }}"
            )
        return (
            f'name = "transfer"\nseed = {self.number}\n[links.link]\nends = ["here", "peer"]\n'
            f'rate = "{self.rate:.0f} bit/s"\ndelay = "{self.delay * 1e3:g} ms"\nloss = {loss}\n'
            f'queue = {{ kind = "drop_tail", packets = {self.queue} }}\n'
            'reverse = { loss = { kind = "none" } }\n[paths.link]\nvia = ["link"]\n'
        )


def carry(drawn: Drawn, folder: Path) -> None:
    """Makes the transfer; the folder gets its captures and the truth.

    The nodes' devices must be veth (`ANABRANCH_EMULATE_DEVICES`), since TUN joins no segments.
    """
    with Emulator(drawn.scenario, pcap=folder / "link.pcapng") as emulator:
        _attach(emulator, "here", 1, 2, has_offload=drawn.sender_has_offload)
        _attach(emulator, "peer", 2, 1, has_offload=True)
        if drawn.receiver_has_offload:
            nanoseconds = round(drawn.hold_s * 1e9)
            shell = (
                "mount -t sysfs none /sys &&"
                f" echo {nanoseconds} > /sys/class/net/link/gro_flush_timeout"
            )
            _done(emulator, "peer", ["sh", "-c", shell])
            _done(emulator, "peer", _role("offload", "link", "gro", 1))
        with (
            _captured(emulator, "here", _in_host("dumpcap", "-i", "eth0"), folder / "near.pcapng"),
            _captured(emulator, "peer", _in_host("dumpcap", "-i", "eth0"), folder / "far.pcapng"),
            _captured(emulator, "here", ["dumpcap", "-i", "any"], folder / "any.pcapng"),
        ):
            middle = _transfer(emulator, drawn)
        summary = dict(emulator.summary)
    truth = {"drawn": asdict(drawn), "middle": middle, "summary": summary}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1), encoding="utf-8")


def _role(*words: object) -> list[str]:
    return [sys.executable, __file__, *map(str, words)]


def _in_host(*words: object) -> list[str]:
    return ["ip", "netns", "exec", "host", *map(str, words)]


def _done(emulator: Emulator, node: str, command: list[str]) -> None:
    done = emulator.run(node, command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _attach(emulator: Emulator, node: str, own: int, other: int, *, has_offload: bool) -> None:
    """Makes the node a router, with a host behind it."""
    shell = f"""
        set -e
        mount -t tmpfs none /run
        ip netns add host
        ip link add lan type veth peer name eth0 netns host
        ip address add 192.168.{own}.1/24 dev lan
        ip link set lan up
        ip -n host address add 192.168.{own}.2/24 dev eth0
        ip -n host link set lo up
        ip -n host link set eth0 up
        ip -n host route add default via 192.168.{own}.1
        ip route add 192.168.{other}.0/24 dev link
        echo 1 > /proc/sys/net/ipv4/ip_forward
    """
    _done(emulator, node, ["sh", "-c", shell])
    if not has_offload:
        _done(emulator, node, _in_host(*_role("offload", "eth0", "tx", 0)))


@contextmanager
def _captured(emulator: Emulator, node: str, command: list[str], file: Path) -> Iterator[None]:
    """Captures headers with dumpcap, from when it has begun on."""
    words = [*command, "-q", "-s", "128", "-f", f"tcp port {PORT}", "-w", str(file)]
    process = emulator.start(node, words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + _STARTS_S
        while not (file.exists() and file.stat().st_size):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"dumpcap did not begin: {file.name}")
            time.sleep(0.05)
        yield
        time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)


def _transfer(emulator: Emulator, drawn: Drawn) -> dict[str, Any]:
    """Gives the drops of the link when half of the time was over, and when that was."""
    sink = emulator.start("peer", _in_host(*_role("sink")), stdout=subprocess.PIPE)
    assert sink.stdout is not None
    with sink.stdout:
        if sink.stdout.readline() != b"ready\n":
            raise RuntimeError("the receiver did not begin")
    words = _role("source", drawn.seconds, drawn.control)
    source = emulator.start("here", _in_host(*words))
    time.sleep(drawn.seconds / 2)
    forward = next(link for link in emulator.counters() if link.direction == "forward")
    middle = {"at": time.time(), "dropped": forward.dropped}
    if source.wait(drawn.seconds + OVERTIME_S) or sink.wait(OVERTIME_S):
        raise RuntimeError("the transfer failed")
    return middle


def _sink() -> None:
    """Reads one connection to its end."""
    with socket.create_server(("", PORT)) as listener:
        listener.settimeout(_STARTS_S)
        print("ready", flush=True)
        line, _ = listener.accept()
        with line:
            line.settimeout(OVERTIME_S)
            while line.recv(1 << 18):
                pass


def _source(seconds: float, control: str) -> None:
    """Sends for this long, and waits until all has arrived."""
    with socket.socket() as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        # What is left to send at the end is little.
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 1 << 16)
        line.settimeout(OVERTIME_S)
        line.connect(("192.168.2.2", PORT))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            line.sendall(bytes(1 << 16))
        line.shutdown(socket.SHUT_WR)
        line.recv(1)


def _offload(device: str, what: str, value: int) -> None:
    """As `ethtool -K`."""
    import array  # noqa: PLC0415
    import fcntl  # noqa: PLC0415  (not on Windows)

    asked = array.array("I", [_ETHTOOL[what], value])
    request = struct.pack("16sP16x", device.encode(), asked.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        fcntl.ioctl(line, _SIOCETHTOOL, request)


def main() -> None:
    """Carries out transfers, or is a program of one."""
    match sys.argv[1:]:
        case ["sink"]:
            _sink()
        case ["source", seconds, control]:
            _source(float(seconds), control)
        case ["offload", device, what, value]:
            _offload(device, what, int(value))
        case [numbers, folder]:
            os.environ["ANABRANCH_EMULATE_DEVICES"] = "veth"
            for number in map(int, numbers.split(",")):
                own = Path(folder) / str(number)
                own.mkdir()
                carry(Drawn.of(number), own)


if __name__ == "__main__":
    main()
