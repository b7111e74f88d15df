"""Programs over the emulated links of a scenario, in real time, and what their packets show.

Nothing of a program has to be known but its command lines: times are those of datagrams at the
nodes' devices, whose first octets are not encrypted (RFC 9000 section 17).
"""

import math
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

import numpy as np
import polars as pl

from anabranch import quic
from anabranch.bench_quic.measures import Transfer, of_transfers
from anabranch.bench_quic.programs import Program, filled
from anabranch.bench_quic.scenarios import LIMIT_S, QuicScenario
from anabranch.emulate import Emulator
from anabranch.errors import AnabranchError
from anabranch.support.capture import Capture

_FIRST_PORT = 4433
_READY_S = 15.0
"""The longest that a server may take until it listens."""
_LINGER_S = 2.0
"""How long a client may take to end after the limit."""
_LOOK_S = 0.02
_DATA_OCTETS = 1000
"""A datagram with data has as many, but for the last one of a transfer."""
_NEVER = "36000 s"


@dataclass(frozen=True)
class Outcome:
    """One run of a program."""

    values: dict[str, float]
    fault: str
    """What went wrong, or nothing."""
    lateness_ms: float
    """How much later than due packets were, the 99 % quantile."""


def run(about: QuicScenario, case: int, program: Program, replication: int) -> Outcome:
    """Runs a transfer for each tested flow of a case over its links."""
    settled = about.scenario.cell_toml(about.cell(case, about.controls[0]))
    # The simulated flows that the programs stand for begin when nobody listens any more.
    sets = {f"flows.{flow}.app.start": _NEVER for flow in about.tested}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-quic-")))
        capture = folder / "packets.pcapng"
        with Emulator(settled, sets=sets, replication=replication, pcap=capture) as emulator:
            fault = _transfer(about, program, emulator, folder)
            summary = emulator.summary
        found = _seen(capture)
    receives = "client" if program.downloads else "server"
    transfers = [
        _measured(about, found, _FIRST_PORT + at, receives) for at in range(len(about.tested))
    ]
    if not fault and any(math.isnan(each.completion_s) for each in transfers):
        fault = f"{_words(about.size)} did not arrive within {LIMIT_S} s"
    late = summary.get("emulation.lateness_p99_ms", math.nan)
    return Outcome(of_transfers(about, transfers), fault, late)


def _words(size: int) -> str:
    return f"{size / 1e6:g} MB"


@dataclass(frozen=True)
class _Place:
    """Where a transfer runs."""

    client: str
    server: str
    address: str
    port: int


def _places(about: QuicScenario, program: Program, emulator: Emulator) -> Iterator[_Place]:
    flows = emulator.settings["flows"]
    for at, name in enumerate(about.tested):
        ends = [flows[name]["from"], flows[name]["to"]]
        client, server = reversed(ends) if program.downloads else ends
        (path, *_) = flows[name]["paths"]
        (device,) = (each for each in emulator.nodes[client] if each.path == path)
        yield _Place(client, server, device.peer_addresses[0], _FIRST_PORT + at)


def _transfer(about: QuicScenario, program: Program, emulator: Emulator, folder: Path) -> str:
    """Runs servers, then clients, to their end; what went wrong, or nothing."""
    places = [*_places(about, program, emulator)]
    made = quic.self_signed(["localhost", *{place.address for place in places}])
    (folder / "cert.pem").write_bytes(made.chain)
    (folder / "key.pem").write_bytes(made.key)
    served = folder / "served"
    served.mkdir()
    with (served / "data").open("wb") as file:
        file.truncate(about.size)
    common = {
        "cert": folder / "cert.pem",
        "key": folder / "key.pem",
        "bytes": about.size,
        "file": served / "data",
        "folder": served,
    }
    with ExitStack() as stack:
        for place in places:
            values = {**common, "address": place.address, "port": place.port}
            server = stack.enter_context(
                _started(emulator, place.server, program.server, values, folder)
            )
            _await_port(server, place.port)
        clients = [
            stack.enter_context(
                _started(
                    emulator,
                    place.client,
                    program.client,
                    {**common, "address": place.address, "port": place.port},
                    folder,
                )
            )
            for place in places
        ]
        until = time.monotonic() + LIMIT_S + _LINGER_S
        for client in clients:
            try:
                code = client.process.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                return f"the client had not ended after {LIMIT_S + _LINGER_S:g} s"
            if code:
                return f"the client ended with exit code {code}: {client.last_words()}"
    return ""


@dataclass(frozen=True)
class _Running:
    """A program that runs, and the file of its standard error."""

    process: "subprocess.Popen[Any]"
    said: IO[bytes]

    def last_words(self) -> str:
        """The last line that it has said of what went wrong."""
        self.said.seek(0)
        lines = self.said.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


@contextmanager
def _started(
    emulator: Emulator,
    node: str,
    command: tuple[str, ...],
    values: Mapping[str, object],
    folder: Path,
) -> Iterator[_Running]:
    words = filled(command, values)
    with TemporaryFile(dir=folder) as said:
        null = subprocess.DEVNULL
        try:
            process = emulator.start(node, words, stdin=null, stdout=null, stderr=said)
        except OSError as error:
            raise AnabranchError(f"`{words[0]}` cannot be started: {error.strerror}") from None
        try:
            yield _Running(process, said)
        finally:
            process.kill()
            process.wait()


def _await_port(server: _Running, port: int) -> None:
    """Waits until a program has a socket of UDP at a port, in its own network."""
    until = time.monotonic() + _READY_S
    entry = f":{port:04X} "
    while True:
        tables = (Path(f"/proc/{server.process.pid}/net/{name}") for name in ("udp", "udp6"))
        try:
            if any(entry in table.read_text() for table in tables):
                return
        except OSError:
            pass  # it has just ended
        if (code := server.process.poll()) is not None:
            raise AnabranchError(
                f"the server ended with exit code {code} before it had UDP port {port}:"
                f" {server.last_words()}"
            )
        if time.monotonic() > until:
            raise AnabranchError(
                f"the server has no socket at UDP port {port} after {_READY_S:g} s; its command"
                " gets the port as {port}"
            )
        time.sleep(_LOOK_S)


def _seen(capture: Path) -> pl.DataFrame:
    """The datagrams that nodes sent and received, in their order."""
    parts = []
    for packets in Capture(capture).batches():
        of = packets.datagrams.packet
        parts.append(
            pl.DataFrame(
                {
                    "time_ns": packets.time_ns[of],
                    "is_sent": packets.direction[of] == 1,
                    "source": packets.source_port[of],
                    "destination": packets.destination_port[of],
                    "octets": packets.payload[of],
                    "is_long": (packets.datagrams.head[:, 0] & 0x80) != 0,
                }
            )
        )
    if not parts:
        return pl.DataFrame(schema=_SCHEMA)
    return pl.concat(parts).sort("time_ns", maintain_order=True)


_SCHEMA = {
    "time_ns": pl.Int64,
    "is_sent": pl.Boolean,
    "source": pl.Int32,
    "destination": pl.Int32,
    "octets": pl.Int32,
    "is_long": pl.Boolean,
}


def _measured(about: QuicScenario, seen: pl.DataFrame, port: int, receives: str) -> Transfer:
    """What the datagrams of the server's port show of a transfer."""
    of_client = seen.filter((pl.col("destination") == port) & pl.col("is_sent"))
    if of_client.is_empty():
        return Transfer(math.nan, math.nan, math.nan)
    began = of_client["time_ns"][0]
    short = of_client.filter(~pl.col("is_long"))["time_ns"]
    # Where data leaves with the end of the handshake in one datagram, its header is a long one.
    until = short[0] if len(short) else math.inf
    ended = of_client.filter(pl.col("is_long") & (pl.col("time_ns") <= until))["time_ns"]
    handshake = (ended[-1] - began) / 1e6 if len(short) and len(ended) else math.nan
    towards = "destination" if receives == "server" else "source"
    data = seen.filter(
        (pl.col(towards) == port)
        & ~pl.col("is_sent")
        & ~pl.col("is_long")
        & (pl.col("octets") >= _DATA_OCTETS)
    )
    arrivals = data["time_ns"].to_numpy()
    is_complete = int(data["octets"].sum()) >= about.size
    completion = (arrivals[-1] - began) / 1e9 if is_complete else math.nan
    gaps = np.diff(arrivals)
    return Transfer(
        completion if completion <= LIMIT_S else math.nan,
        handshake,
        float(gaps.max()) / 1e6 if len(gaps) else math.nan,
    )
