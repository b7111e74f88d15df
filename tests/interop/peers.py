"""SCTP stacks that nobody here wrote, as programs with one command line (README.md).

Built once into target/interop. A peer that cannot be built or run says in one sentence what it
lacks. `transfer` runs two of them against each other, and `wrong` says what did not arrive as sent.
"""

import contextlib
import fcntl
import functools
import importlib.util
import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import namespaces
import pytest
from namespaces import Network
from running import Running

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CACHE = ROOT / "target" / "interop"

IS_FULL = os.environ.get("INTEROP") == "full"
"""As many bytes as `make validate` sends; by default, as many as `make test` has time for."""

LIMIT_S = 900 if IS_FULL else 200
"""The longest that an exchange may take: far longer than any does on a busy machine."""

slow = pytest.mark.skipif(not IS_FULL, reason="left out: `make validate` has time for it")

BUILD_S = 900
"""A first build takes a minute or two."""


class MissingError(Exception):
    """A sentence: what this machine lacks."""


@dataclass(frozen=True)
class Peer:
    """A stack, and its abilities."""

    name: str
    command: Callable[[], list[str]]
    """Builds it where that is due; `MissingError` where it cannot be had."""
    speaks_raw_ip: bool = False
    has_shutdown: bool = True
    """It can begin a graceful end; all of them can answer one."""
    has_interleaving: bool = True
    has_reset: bool = True
    takes_addresses: bool = True
    """Whether it accepts an INIT that lists addresses, or their types."""
    lists_addresses: bool = False
    """Whether its own INIT does that."""

    def __str__(self) -> str:
        return self.name


def available(*wanted: Peer) -> None:
    """Skips the test with the sentence that says what is missing."""
    for peer in wanted:
        try:
            peer.command()
        except MissingError as error:
            pytest.skip(str(error))


@dataclass
class Report:
    """A peer's report at its end."""

    peer: str
    role: str
    end: str
    """`shutdown`, `aborted`, `lost` (no answer any more), `refused` (never there) or `timeout`."""
    established: bool
    sent_messages: int
    sent_bytes: int
    sent_digests: dict[str, str]
    received_messages: int
    received_bytes: int
    received_digests: dict[str, str]
    corrupt: int
    misplaced: int
    duplicates: int
    out_of_order: int
    abandoned: int
    resets_sent: int
    resets_received: int
    resets_failed: int
    path_events: list[str]
    errors: list[str]
    wall_s: float
    data_s: float
    """From the beginning to the last message that was received."""
    cpu_s: float
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, said: dict[str, Any]) -> "Report":
        known = {each.name for each in fields(cls)} - {"more"}
        return cls(
            **{name: said[name] for name in known},
            more={name: value for name, value in said.items() if name not in known},
        )


class PeerAtWork(Running):
    """A peer at work."""

    def report(self, timeout: float) -> Report:
        """Waits for its end."""
        last = self.ended(timeout)
        if "peer" not in last:
            errors = "".join(self.errors())
            raise RuntimeError(f"{' '.join(self.command)} says no result: {errors}")
        return Report.read(last)


@dataclass(frozen=True)
class Load:
    """What each side sends, and how."""

    messages: int = 1000
    back: int | None = None
    """Messages of the one who listens; as many as of the other."""
    size: str = "1000"
    streams: int = 4
    rate: int = 0
    """Messages per second; 0: as fast as it goes."""
    options: tuple[str, ...] = ()
    """For both."""
    of_client: tuple[str, ...] = ()
    """For the one who connects."""
    of_server: tuple[str, ...] = ()
    """For the one who listens."""
    close: str = "shutdown"
    closer: str = "connect"
    is_counted: bool = True
    """Everything arrives: a side is done when it has all of it."""
    timeout: int = LIMIT_S


@dataclass
class Outcome:
    """Both ends, and what the relays counted."""

    listen: Report
    connect: Report
    relays: list[dict[str, Any]] = field(default_factory=list)

    @property
    def mb_per_s(self) -> float:
        """Both ways together, as the end of ours saw it."""
        ours = next(end for end in (self.listen, self.connect) if end.peer == "anabranch")
        return (ours.sent_bytes + ours.received_bytes) / 1e6 / max(ours.wall_s, 1e-9)


Meanwhile = Callable[[Running, Running], None]

Cell = Callable[..., None]
"""Names the cell of docs/interop.md that a test is: the feature, the peer, MB/s if measured."""


def words(load: Load, role: str, ends: tuple[Sequence[str], Sequence[str]]) -> list[str]:
    """The command line of one end, but for ports."""
    back = load.messages if load.back is None else load.back
    sends, receives = (load.messages, back) if role == "connect" else (back, load.messages)
    found = [role, "--local", ",".join(ends[0]), "--remote", ",".join(ends[1])]
    found += ["--send", str(sends), "--size", load.size, "--streams", str(load.streams)]
    found += ["--timeout", str(load.timeout), *load.options]
    found += load.of_client if role == "connect" else load.of_server
    if load.is_counted:
        found += ["--receive", str(receives)]
    if load.rate:
        found += ["--rate", str(load.rate)]
    if role == load.closer:
        found += ["--close", load.close]
    return found


def run_pair(
    listen: list[str], connect: list[str], load: Load, meanwhile: Meanwhile | None = None
) -> Outcome:
    """Starts both, does something meanwhile, and waits for their ends."""
    with contextlib.ExitStack() as stack:
        server = PeerAtWork(listen)
        stack.callback(server.stop)
        server.wait_for("listening")
        client = PeerAtWork(connect)
        stack.callback(client.stop)
        if meanwhile is not None:
            meanwhile(server, client)
        limit = load.timeout + 20
        return Outcome(connect=client.report(limit), listen=server.report(limit))


def on_loopback(peer: Peer, role: str, load: Load, ports: tuple[int, int]) -> list[str]:
    """The command line of one end over UDP on this machine, with its port and the other one's."""
    own = ["127.0.0.1"]
    port, other = (str(each) for each in ports)
    ends = ["--encapsulation", port, "--remote-encapsulation", other]
    return [*peer.command(), *words(load, role, (own, own)), *ends]


def over_loopback(
    listen: Peer, connect: Peer, load: Load, impairment: Sequence[str] | None = None
) -> Outcome:
    """Over UDP on this machine, through the relay if there is an impairment."""
    server, client, *between = free_ports(4)
    towards = (server, client) if impairment is None else (between[0], between[1])
    counted: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if impairment is not None:
            ends = [between[1], server, between[0], client]
            command = [str(relay()), *impairment, "udp", *(f"127.0.0.1:{each}" for each in ends)]
            stack.enter_context(namespaces.relaying(command, counted))
        outcome = run_pair(
            on_loopback(listen, "listen", load, (server, towards[1])),
            on_loopback(connect, "connect", load, (client, towards[0])),
            load,
        )
    outcome.relays = [counted] if counted else []
    return outcome


def over_network(
    network: Network,
    listen: Peer,
    connect: Peer,
    load: Load,
    *,
    is_raw: bool,
    meanwhile: Meanwhile | None = None,
) -> Outcome:
    """Between the two hosts of a network, over raw IP or UDP; the one who listens is host 1."""
    udp = [] if is_raw else ["--encapsulation", "9899", "--remote-encapsulation", "9899"]
    commands = []
    for host, peer, role in ((1, listen, "listen"), (0, connect, "connect")):
        ends = (network.addresses(host), network.addresses(1 - host))
        line = [*peer.command(), *words(load, role, ends), *udp]
        commands.append(network.command(host, line))
    return run_pair(commands[0], commands[1], load, meanwhile)


_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# Not of the range from which the system takes one for whoever asks for any (32768 and more), and of
# each worker's own: nobody else gets it before its program does.
_PORTS = itertools.cycle(range(10_000 + _WORKER % 20 * 1_000, 11_000 + _WORKER % 20 * 1_000))


def free_ports(count: int) -> list[int]:
    """UDP ports without a listener."""
    found: list[int] = []
    while len(found) < count:
        port = next(_PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found


def wrong(sender: Report, receiver: Report, *, is_ordered: bool = True) -> list[str]:
    """Sentences about data that did not arrive exactly as sent; empty if every octet did."""
    found = damaged(receiver, is_ordered=is_ordered)
    if sender.sent_messages != receiver.received_messages:
        text = f"{sender.sent_messages} messages were sent, {receiver.received_messages} arrived"
        found.append(text)
    if sender.sent_digests != receiver.received_digests:
        found.append(f"digests: {sender.sent_digests} sent, {receiver.received_digests} received")
    return found


def damaged(receiver: Report, *, is_ordered: bool = True) -> list[str]:
    """Sentences about data that arrived damaged, where not all of it has to arrive."""
    names = ["corrupt", "misplaced", "duplicates", *(["out_of_order"] if is_ordered else [])]
    counts = {name: getattr(receiver, name) for name in names}
    return [f"{count} messages are {name}" for name, count in counts.items() if count]


# How they are built.


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """One process at a time builds it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_fresh(target: Path, sources: Sequence[Path]) -> bool:
    if not target.exists():
        return False
    made = target.stat().st_mtime
    return all(source.stat().st_mtime <= made for source in sources)


def _built(name: str, command: list[str], where: Path, **environment: str) -> None:
    if shutil.which(command[0]) is None:
        raise MissingError(f"{name} cannot be built: there is no `{command[0]}`")
    done = subprocess.run(
        command,
        cwd=where,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_S,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["?"]
        cause = next((line for line in lines if "error" in line), lines[-1])
        raise MissingError(f"{name} cannot be built: {cause.strip()}")


@functools.cache
def usrsctp() -> list[str]:
    """Compiles the peer against Debian's library."""
    target, source = CACHE / "usrsctp_peer", HERE / "usrsctp_peer.c"
    with _locked("usrsctp"):
        if not _is_fresh(target, [source, HERE / "payload.h"]):
            if not Path("/usr/include/usrsctp.h").exists():
                raise MissingError("usrsctp is not installed: apt-get install libusrsctp-dev")
            line = ["cc", "-O2", "-o", str(target), str(source), "-lusrsctp", "-lpthread"]
            _built("usrsctp", line, HERE)
    return [str(target)]


def cargo(name: str, folder: str, program: str = "") -> Path:
    """A program of the package in this folder, of its name unless told."""
    target = CACHE / "cargo" / "release" / (program or folder)
    with _locked("cargo"):
        sources = [HERE / folder / "Cargo.toml", *(HERE / folder / "src").rglob("*.rs")]
        if not _is_fresh(target, sources):
            line = ["cargo", "build", "--locked", "--release", "--quiet"]
            _built(name, line, HERE / folder, CARGO_TARGET_DIR=str(CACHE / "cargo"))
            target.touch()
    return target


@functools.cache
def example(name: str, *options: str) -> Path:
    """A program of our crates' examples, as `cargo test` has left it, or built here.

    With INTEROP=full it is the release. That it does not compile is a failure, not something that
    is lacking. Options are cargo's.
    """
    target = ROOT / "target" / ("release" if IS_FULL else "debug") / "examples" / name
    crates = [ROOT / "crates" / crate for crate in ("anabranch-live", "anabranch-transport")]
    sources = [path for crate in crates for path in crate.rglob("*.rs")]
    with _locked("examples"):
        if not _is_fresh(target, sources):
            if shutil.which("cargo") is None:
                raise MissingError("our own peer cannot be built: there is no `cargo`")
            line = ["cargo", "build", "--locked", "--quiet", "--example", name, *options]
            line += ["--profile", "release" if IS_FULL else "test"]
            subprocess.run(line, cwd=ROOT, check=True, timeout=BUILD_S)
            # Cargo leaves a program alone that a change of the sources does not concern.
            target.touch()
    return target


def go(name: str, folder: str) -> Path:
    target = CACHE / folder
    with _locked("go"):
        sources = [HERE / folder / "go.sum", *(HERE / folder).glob("*.go")]
        if not _is_fresh(target, sources):
            _built(name, ["go", "build", "-o", str(target), "."], HERE / folder)
    return target


@functools.cache
def relay() -> Path:
    """The program that loses, reorders and duplicates."""
    return cargo("the relay", "relay")


AIOPQUIC = "aiopquic==0.6.1"


@functools.cache
def picoquic() -> list[str]:
    """The peer, with a Python of its own for which the package around picoquic has a wheel."""
    folder = CACHE / "picoquic"
    python = folder / "bin" / "python"
    with _locked("picoquic"):
        for name in () if python.exists() else ("python3.13", "python3.12"):
            if shutil.which(name) is None:
                continue
            with contextlib.suppress(MissingError):
                _built("picoquic", [name, "-m", "venv", "--clear", str(folder)], HERE)
                pip = [str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
                _built("picoquic", [*pip, AIOPQUIC], HERE)
                break
            shutil.rmtree(folder, ignore_errors=True)
    if not python.exists():
        raise MissingError(f"{AIOPQUIC} (picoquic) has wheels for Python 3.12 and 3.13 only")
    return [str(python), str(HERE / "picoquic_peer.py")]


def _aiortc() -> list[str]:
    if importlib.util.find_spec("aiortc") is None:
        raise MissingError("aiortc is not installed: pip install --group interop")
    return [sys.executable, str(HERE / "aiortc_peer.py")]


ANABRANCH = Peer(
    "anabranch",
    lambda: [str(example("sctp_peer"))],
    speaks_raw_ip=True,
)
"""Ours. It lists addresses only where it has several."""

STREAM = Peer("anabranch", lambda: [str(example("stream_peer"))])
"""Our TCP and MPTCP."""

USRSCTP = Peer("usrsctp", usrsctp, speaks_raw_ip=True, lists_addresses=True)
DCSCTP = Peer("dcsctp", functools.cache(lambda: [str(cargo("dcsctp", "dcsctp-peer"))]))
PION = Peer("pion", functools.cache(lambda: [str(go("pion", "pion-peer"))]), takes_addresses=False)
AIORTC = Peer("aiortc", _aiortc, has_shutdown=False, has_interleaving=False)

KERNEL = Peer("kernel", lambda: [sys.executable, str(HERE / "kernel_peer.py")])
"""TCP and MPTCP."""

GVISOR = Peer("gvisor", functools.cache(lambda: [str(go("gvisor", "gvisor-peer"))]))
"""TCP over a TUN device."""

PEERS = (USRSCTP, DCSCTP, PION, AIORTC)
"""The stacks that are not ours."""
