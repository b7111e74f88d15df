"""A network namespace whose kernel is a peer of ours, over TUN devices.

The kernel's end of device PATH is 10.78.PATH.2 and fd78:PATH::2; ours, behind it, ends in 1. Root
only. What a killed run left behind is removed by the next one.
"""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PREFIX = "anb"

BUILD_S = 900
"""A first build takes a minute or two."""


class MissingError(Exception):
    """A sentence: what this machine lacks."""


def missing() -> str | None:
    """What this machine lacks for it, in a sentence."""
    if os.name != "posix" or os.geteuid() != 0:
        return "TUN devices and network namespaces need root"
    if shutil.which("ip") is None:
        return "the program `ip` is not installed"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    probe = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True)
    subprocess.run(["ip", "netns", "del", probe], check=False, capture_output=True)
    return None if made.returncode == 0 else "network namespaces cannot be made"


@functools.cache
def our_peer() -> str:
    """Builds crates/anabranch-live/examples/stream_peer."""
    line = [
        "cargo",
        "build",
        "--locked",
        "--quiet",
        "-p",
        "anabranch-live",
        "--example",
        "stream_peer",
    ]
    if shutil.which("cargo") is None:
        raise MissingError("our peer cannot be built: there is no `cargo`")
    done = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=BUILD_S
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return str(ROOT / "target" / "debug" / "examples" / "stream_peer")


class Tunnels:
    """A namespace with so many devices, t0, t1, ..."""

    def __init__(self, paths: int = 1, mtu: int = 1500) -> None:
        self.paths = paths
        self.mtu = mtu
        self.space = f"{PREFIX}{os.getpid()}-tun{id(self) % 10_000}"

    @contextlib.contextmanager
    def running(self) -> Iterator["Tunnels"]:
        """From here on there is one."""
        _remove_stale()
        try:
            _run(["ip", "netns", "add", self.space])
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
        _run(["ip", "-n", self.space, *words])

    def sysctl(self, **values: object) -> None:
        """Settings of its kernel; two underscores for a dot."""
        words = [f"{name.replace('__', '.')}={value}" for name, value in values.items()]
        _run(self.command(["sysctl", "-q", "-w", *words]))

    def mptcp(self, *words: str) -> None:
        """`ip mptcp` within it."""
        _run(self.command(["ip", "mptcp", *words]))

    def command(self, words: Sequence[str]) -> list[str]:
        """The same command, run in it."""
        return ["ip", "netns", "exec", self.space, *words]

    def kernel(self, role: str, *words: object) -> "Running":
        """A program on the kernel's TCP or MPTCP."""
        line = [sys.executable, str(HERE / "kernel_stream_peer.py"), role, *map(str, words)]
        return Running(self.command(line))

    def ours(
        self,
        role: str,
        *words: object,
        version: int = 4,
        settings: Mapping[str, object] | None = None,
    ) -> "Running":
        """A program on our TCP or MPTCP, behind all devices."""
        devices = ";".join(f"t{path}={ours(path, version)}" for path in range(self.paths))
        line = [our_peer(), role, "--tun", devices, "--mtu", str(self.mtu), *map(str, words)]
        if settings is not None:
            line += ["--settings", json.dumps(settings)]
        return Running(self.command(line))


def kernel(path: int = 0, version: int = 4) -> str:
    """The kernel's address on a device."""
    return f"10.78.{path}.2" if version == 4 else f"fd78:{path}::2"


def ours(path: int = 0, version: int = 4) -> str:
    """Our address behind a device."""
    return f"10.78.{path}.1" if version == 4 else f"fd78:{path}::1"


class Running:
    """A program that says lines of JSON."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        self.said: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._news = threading.Condition()
        self._threads = [
            threading.Thread(target=self._listen, args=(stream, keep), daemon=True)
            for stream, keep in ((self.process.stdout, True), (self.process.stderr, False))
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self, stream: IO[str], keep: bool) -> None:  # noqa: FBT001
        for line in stream:
            with self._news:
                if keep and line.startswith("{"):
                    self.said.append(json.loads(line))
                else:
                    self._errors.append(line)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for(self, event: str, timeout: float = 20) -> dict[str, Any]:
        """Until it has said so."""
        end = time.monotonic() + timeout
        with self._news:
            while True:
                found = [said for said in self.said if said.get("event") == event]
                if found:
                    return found[0]
                left = end - time.monotonic()
                if left <= 0 or not self._threads[0].is_alive():
                    raise RuntimeError(
                        f"{self.command} never said {event}: {self.said} {self._errors}"
                    )
                self._news.wait(min(left, 0.5))

    def ended(self, timeout: float = 60) -> dict[str, Any]:
        """Waits for its end, and gives what it said last."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for thread in self._threads:
            thread.join(10)
        if not self.said:
            raise RuntimeError(f"{self.command} says nothing: {''.join(self._errors)}")
        return self.said[-1]

    def errors(self) -> list[str]:
        """What it said that was no JSON."""
        return self._errors

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it said under this name."""
        return [said for said in self.said if said.get("event") == name]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _remove_stale() -> None:
    listed = subprocess.run(["ip", "netns", "list"], check=False, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        name = line.split()[0] if line else ""
        number = name.removeprefix(PREFIX).split("-")[0]
        if name.startswith(PREFIX) and number.isdigit() and not Path(f"/proc/{number}").exists():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
