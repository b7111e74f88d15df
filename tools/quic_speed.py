"""How fast QUIC is over the loopback address: ours beside quinn, noq and quic-go, in one run.

`python tools/quic_speed.py docs/performance.md` writes the generated part of that page: MB/s of an
upload, and the CPU time of both ends for a megabyte. Each figure is the difference of a long upload
and a short one, so that neither a program's start nor its handshake counts; the median of several.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import marked
from anabranch import quic
from anabranch.bench_quic import programs
from anabranch.bench_quic.programs import Program
from anabranch.support import progress

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "interop"))

import quic_program  # noqa: E402 - beside the tests

PEERS = ("quinn", "noq", "quic-go")
MEGABYTE = 1_000_000
MEGABYTES = (50, 350)
RUNS = 3
HOST = "127.0.0.1"

_BEGIN = "<!-- generated: python tools/quic_speed.py docs/performance.md -->"
_END = "<!-- end of generated -->"


@dataclass(frozen=True)
class Took:
    """Seconds of an upload, and of both processors' time in it."""

    wall: float
    client: float
    server: float


def _cpu(process: "subprocess.Popen[bytes]") -> float:
    """Waits for a program to end; the CPU time that it took."""
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return float(used.ru_utime + used.ru_stime)


def _upload(program: Program, port: int, folder: Path, size: int) -> Took:
    file = folder / "data"
    # It lies in memory, as what the peers upload; a file with holes is cleared while it is read.
    with file.open("wb") as out:
        for _ in range(size // MEGABYTE):
            out.write(bytes(MEGABYTE))
    values = {
        "address": HOST,
        "port": port,
        "cert": folder / "cert.pem",
        "key": folder / "key.pem",
        "bytes": size,
        "file": file,
        "folder": folder,
    }
    null = subprocess.DEVNULL
    server = subprocess.Popen(
        programs.filled(program.server, values), stdin=null, stdout=null, stderr=null
    )
    entry = f":{port:04X} "
    tables = [Path("/proc/net/udp"), Path("/proc/net/udp6")]
    while not any(entry in table.read_text() for table in tables):
        time.sleep(0.02)
    began = time.monotonic()
    client = subprocess.Popen(
        programs.filled(program.client, values), stdin=null, stdout=null, stderr=null
    )
    own = _cpu(client)
    wall = time.monotonic() - began
    with suppress(ProcessLookupError):
        # `terminate` would ask for its end, and take it.
        os.kill(server.pid, signal.SIGTERM)
    return Took(wall, own, _cpu(server))


def _row(name: str, runs: list[tuple[Took, Took]]) -> str:
    megabytes = MEGABYTES[1] - MEGABYTES[0]

    def median(part: str) -> float:
        took = [getattr(long, part) - getattr(short, part) for short, long in runs]
        return float(statistics.median(took))

    each = [1e3 * median(part) / megabytes for part in ("client", "server")]
    speeds = [megabytes / (long.wall - short.wall) for short, long in runs]
    return (
        f"| {name} | {statistics.median(speeds):.0f} ({min(speeds):.0f} to {max(speeds):.0f})"
        f" | {each[0]:.2f} | {each[1]:.2f} |"
    )


def table() -> str:
    """A row for each stack."""
    for name in PEERS:
        quic_program.STACKS[name].program()
    file = ROOT / "tests/interop/quic-programs.toml"
    words = ["live:quinn", *(f"{file}:{name}" for name in PEERS)]
    _, chosen = programs.chosen(words)
    found: dict[str, list[tuple[Took, Took]]] = {program.name: [] for program in chosen}
    port = 4500
    with tempfile.TemporaryDirectory() as name, progress.shown("uploads") as shown:
        folder = Path(name)
        made = quic.self_signed(["localhost", HOST])
        (folder / "cert.pem").write_bytes(made.chain)
        (folder / "key.pem").write_bytes(made.key)
        done = 0
        for _ in range(RUNS):
            for program in chosen:
                pair = []
                for megabytes in MEGABYTES:
                    port += 1
                    pair.append(_upload(program, port, folder, megabytes * MEGABYTE))
                found[program.name].append((pair[0], pair[1]))
                done += 1
                shown(progress.Status(done, RUNS * len(chosen)))
    lines = [
        "| stack | MB/s: median (range) | CPU of the sender, ms per MB | of the receiver |",
        "|---|---:|---:|---:|",
        *(_row(name, runs) for name, runs in found.items()),
    ]
    return "\n".join(lines)


def main() -> int:
    """Writes the page."""
    path = Path(sys.argv[1])
    text = marked.replaced(path.read_text("utf-8"), _BEGIN, _END, table())
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
