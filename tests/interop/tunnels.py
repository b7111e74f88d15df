"""A network namespace whose kernel is a peer of ours, over TUN devices.

The kernel's end of device PATH is 10.78.PATH.2 and fd78:PATH::2; ours, behind it, ends in 1. Root
only. What a killed run left behind is removed by the next one.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import namespaces
import peers
import pytest
from peers import Peer
from running import Running

HERE = Path(__file__).parent


def missing() -> str | None:
    """What this machine lacks for it, in a sentence; None if nothing is missing."""
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return namespaces.missing()


def available(*others: Peer) -> None:
    """Skips the test with the sentence that says what is missing for our end and others."""
    lacks = missing()
    if lacks:
        pytest.skip(f"left out, since {lacks}")
    peers.available(peers.STREAM, *others)


class Tunnels:
    """A namespace with this many devices, t0, t1, ..."""

    def __init__(self, paths: int = 1, mtu: int = 1500) -> None:
        self.paths = paths
        self.mtu = mtu
        self.space = f"{namespaces.PREFIX}{os.getpid()}-tun{id(self) % 10_000}"

    @contextlib.contextmanager
    def running(self) -> Iterator["Tunnels"]:
        """From here on there is one."""
        namespaces.remove_stale()
        try:
            namespaces.run(["ip", "netns", "add", self.space])
            self.ip("link", "set", "lo", "up")
            for path in range(self.paths):
                self.ip("tuntap", "add", "dev", f"t{path}", "mode", "tun")
                self.ip("link", "set", f"t{path}", "mtu", str(self.mtu), "up")
                self.ip("addr", "add", f"{kernel(path)}/24", "dev", f"t{path}")
                # RFC 8200 section 5: no smaller MTU carries IPv6.
                if self.mtu >= 1280:
                    self.ip("addr", "add", f"{kernel(path, 6)}/64", "dev", f"t{path}", "nodad")
            yield self
        finally:
            subprocess.run(["ip", "netns", "del", self.space], check=False, capture_output=True)

    def ip(self, *words: str) -> None:
        """`ip` within it."""
        namespaces.run(["ip", "-n", self.space, *words])

    def sysctl(self, **values: object) -> None:
        """Settings of its kernel; two underscores for a dot."""
        words = [f"{name.replace('__', '.')}={value}" for name, value in values.items()]
        namespaces.run(self.command(["sysctl", "-q", "-w", *words]))

    def mptcp(self, *words: str) -> None:
        """`ip mptcp` within it."""
        namespaces.run(self.command(["ip", "mptcp", *words]))

    def command(self, words: Sequence[str]) -> list[str]:
        """The command as it runs in the namespace."""
        return ["ip", "netns", "exec", self.space, *words]

    def kernel(self, role: str, *words: object) -> Running:
        """A program on the kernel's TCP or MPTCP."""
        line = [sys.executable, str(HERE / "kernel_stream_peer.py"), role, *map(str, words)]
        return Running(self.command(line))

    def ours(
        self,
        role: str,
        *words: object,
        version: int = 4,
        settings: Mapping[str, object] | None = None,
        devices: int | None = None,
    ) -> Running:
        """A program on our TCP or MPTCP, behind all devices, or the first of them."""
        used = range(self.paths if devices is None else devices)
        devices_of = ";".join(f"t{path}={ours(path, version)}" for path in used)
        line = [
            *peers.STREAM.command(),
            role,
            "--tun",
            devices_of,
            "--mtu",
            str(self.mtu),
            *map(str, words),
        ]
        if settings is not None:
            line += ["--settings", json.dumps(settings)]
        return Running(self.command(line))


def sctp_pair(
    tunnels: Tunnels, theirs: Peer, load: peers.Load, *, ours_listens: bool
) -> peers.Outcome:
    """Our SCTP behind all devices with a peer on raw IP in the same namespace."""
    own, other = ([end(path) for path in range(tunnels.paths)] for end in (ours, kernel))
    devices = ";".join(f"t{path}={address}" for path, address in enumerate(own))
    roles = ("listen", "connect") if ours_listens else ("connect", "listen")
    mine = [
        *peers.ANABRANCH.command(),
        *peers.words(load, roles[0], (own, other)),
        "--tun",
        devices,
    ]
    yours = [*theirs.command(), *peers.words(load, roles[1], (other, own))]
    lines = [tunnels.command(line) for line in (mine, yours)]
    listen, connect = lines if ours_listens else lines[::-1]
    return peers.run_pair(listen, connect, load)


def kernel(path: int = 0, version: int = 4) -> str:
    """The kernel's address on a device."""
    return f"10.78.{path}.2" if version == 4 else f"fd78:{path}::2"


def ours(path: int = 0, version: int = 4) -> str:
    """Our address behind a device."""
    return f"10.78.{path}.1" if version == 4 else f"fd78:{path}::1"
