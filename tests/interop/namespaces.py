"""Two hosts joined by several paths, each of them a link that can be cut and restored.

A host is a network namespace; a path is a pair of virtual Ethernet devices between the two, or two
pairs with the relay between them, which loses, reorders and duplicates frames. Root only. What a
killed run left behind is removed by the next one.

python tests/interop/namespaces.py DEVICE... turns off what would leave checksums to the hardware.
"""

import contextlib
import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from running import PATIENCE_S

PREFIX = "anb"

# ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO of linux/ethtool.h; SIOCETHTOOL.
OFFLOADS = (0x17, 0x1F, 0x24, 0x2C)
SIOCETHTOOL = 0x8946


def missing() -> str | None:
    """What this machine lacks for it, in a sentence; None if nothing is missing."""
    if os.name != "posix" or os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the program `ip` is not installed"
    probe = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True)
    subprocess.run(["ip", "netns", "del", probe], check=False, capture_output=True)
    return None if made.returncode == 0 else "network namespaces cannot be made"


class Network:
    """Two hosts, 0 and 1, at addresses 10.77.PATH.1 and .2."""

    def __init__(
        self, paths: int = 1, relay: Path | None = None, impairments: Sequence[Sequence[str]] = ()
    ) -> None:
        """`impairments` are the relay's options, for each path or once for all of them."""
        self.paths = paths
        self.hosts = tuple(f"{PREFIX}{os.getpid()}-{end}" for end in "ab")
        self.reports: list[dict[str, Any]] = []
        """The relays' counts, once the network is gone."""
        self._relay = relay
        self._impairments = list(impairments) or [()]
        self._router = f"{PREFIX}{os.getpid()}-r"
        self._relays: list[subprocess.Popen[str]] = []

    def addresses(self, host: int) -> list[str]:
        """A host's own, by path."""
        return [f"10.77.{path}.{host + 1}" for path in range(self.paths)]

    def command(self, host: int, words: Sequence[str | Path]) -> list[str]:
        """The command as it runs in a host."""
        return _within(self.hosts[host], words)

    @contextlib.contextmanager
    def running(self) -> Iterator["Network"]:
        """From here on packets pass."""
        remove_stale()
        try:
            for space in (*self.hosts, self._router):
                _ip("netns", "add", space)
                _ip("-n", space, "link", "set", "lo", "up")
            for path in range(self.paths):
                self._join(path)
            yield self
        finally:
            for relay in self._relays:
                self.reports.append(_ended(relay))
            for space in (*self.hosts, self._router):
                subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def _join(self, path: int) -> None:
        ends = [f"path{path}", f"path{path}"]
        if self._relay is None:
            _pair((self.hosts[0], ends[0]), (self.hosts[1], ends[1]))
        else:
            inner = [f"a{path}", f"b{path}"]
            for space, own, other in zip(self.hosts, ends, inner, strict=True):
                _pair((space, own), (self._router, other))
                _ip("-n", self._router, "link", "set", other, "up")
        for host, space in enumerate(self.hosts):
            address = f"{self.addresses(host)[path]}/24"
            _ip("-n", space, "addr", "add", address, "dev", ends[host])
            _ip("-n", space, "link", "set", ends[host], "up")
            # The relay carries what the kernel would otherwise leave to the hardware to finish.
            run(_within(space, [sys.executable, __file__, ends[host]]))
        if self._relay is not None:
            words = [*self._impairments[path % len(self._impairments)], "interfaces", *inner]
            self._relays.append(started([*_within(self._router, [self._relay, *words])]))

    def cut(self, path: int) -> None:
        """From here on nothing passes on this path."""
        self._switch(path, is_up=False)

    def restore(self, path: int) -> None:
        """Lets it work again."""
        self._switch(path, is_up=True)

    def _switch(self, path: int, *, is_up: bool) -> None:
        if self._relay is None:
            # Without carrier at one end, the other end has none either.
            how = "up" if is_up else "down"
            _ip("-n", self.hosts[1], "link", "set", f"path{path}", how)
        else:
            tell(self._relays[path], "restore" if is_up else "cut")


def started(command: list[str]) -> subprocess.Popen[str]:
    """A relay that is ready."""
    pipe = subprocess.PIPE
    relay = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    if "ready" not in _of(relay.stdout).readline():
        raise RuntimeError(_of(relay.stderr).read())
    return relay


def tell(relay: subprocess.Popen[str], word: str) -> None:
    """Says `cut` or `restore` to a relay."""
    _of(relay.stdin).write(word + "\n")
    _of(relay.stdin).flush()


def _ended(relay: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = relay.communicate(timeout=PATIENCE_S)
    report: dict[str, Any] = json.loads(said)
    return report


@contextlib.contextmanager
def relaying(command: list[str], report: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A running relay; its counts are in `report` afterwards."""
    relay = started(command)
    try:
        yield relay
    finally:
        report.update(_ended(relay))


def _of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _within(space: str, words: Sequence[str | Path]) -> list[str]:
    return ["ip", "netns", "exec", space, *map(str, words)]


def run(command: list[str]) -> None:
    """Runs it; an error of the program is an exception."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _ip(*words: str) -> None:
    run(["ip", *words])


def _pair(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Two devices, each in its namespace, joined by a wire."""
    _ip(
        *("-n", one[0], "link", "add", one[1], "txqueuelen", "2000", "type", "veth"),
        *("peer", "name", other[1], "netns", other[0]),
    )


def remove_stale() -> None:
    """Removes the namespaces of runs that are no longer there."""
    listed = subprocess.run(["ip", "netns", "list"], check=False, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        name = line.split()[0] if line else ""
        number = name.removeprefix(PREFIX).split("-")[0]
        if name.startswith(PREFIX) and number.isdigit() and not Path(f"/proc/{number}").exists():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _finish_checksums(devices: list[str]) -> None:
    import fcntl  # noqa: PLC0415  (not on Windows)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for device in devices:
            for offload in OFFLOADS:
                # struct ethtool_value, and struct ifreq with its address.
                value = ctypes.create_string_buffer(struct.pack("=II", offload, 0), 8)
                request = struct.pack("16sP8x", device.encode(), ctypes.addressof(value))
                fcntl.ioctl(any_socket, SIOCETHTOOL, request)


if __name__ == "__main__":
    _finish_checksums(sys.argv[1:])
