"""The gate of speed: how many instructions runs need, beside the counts that were committed.

`bench_check.py TABLE` counts with valgrind, as the difference of a command that runs a scenario
more often and one that runs it less often. It fails if a count is more than 1 % away from that of
TABLE, either way: what gets faster is to be committed, too. `--update` writes the table. Counts
belong to a compiler and a kind of machine; with others, or without valgrind, it says so and checks
nothing.

The engine is the one of `make setup`, which needs some 6 % more instructions than a release.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
TOLERANCE = 0.01

ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT / "python")}
"""Of a process that runs scenarios."""

RUN = """
import sys
from anabranch import _engine
scenario = _engine.Scenario.load(sys.argv[1])
for replication in range(int(sys.argv[2])):
    _engine.run(scenario, replication=replication)
"""

FLOW = """
[flows.bulk]
from = "a"
to = "b"
app = { kind = "bulk" }
"""
RARE = 'loss = { kind = "bernoulli", probability = 1e-3 }'
BUFFERS = 'send_buffer = "16 MiB", receive_buffer = "16 MiB"'
MPTCP = 'transport = { kind = "mptcp", send_buffer = "4 MB", receive_buffer = "4 MB" }'
QUIC = (
    'transport = { kind = "quic", multipath = true, max_datagram = "1472 B", send_buffer = "4 MB" }'
)
TCP = f'transport = {{ kind = "tcp", profile = "linux_6", {BUFFERS} }}'


@dataclass(frozen=True)
class _Bench:
    """A scenario, and how often the two commands run it."""

    name: str
    text: str
    few: int = 1
    many: int = 3


def _benches() -> list[_Bench]:
    call = (ROOT / "benches/voip_call.toml").read_text()
    return [
        _Bench("voip call of 135 s", call, 1, 21),
        _Bench("CUBIC, 10 Mbit/s, 1e-3 loss, 60 s", cubic("10 Mbit/s", 1e-3, 60)),
        _Bench("CUBIC over QUIC, 10 Mbit/s, 1e-3 loss, 60 s", _quic()),
        _Bench("FQ-CoDel, 4 flows, 60 s", fq_codel(60)),
        _Bench("MPTCP over two paths, 30 s", over_two_paths(MPTCP)),
        _Bench("QUIC over two paths, 30 s", over_two_paths(QUIC)),
        _Bench("chain of 64 links, 20 s", _long_chain()),
        _Bench("1,000 flows, 2 s", _many_flows(1_000)),
        _Bench("load sharing over 8 paths, 4 MB buffers, 5 s", _load_sharing(8)),
    ]


def cubic(rate: str, loss: float, seconds: int) -> str:
    """A bulk transfer over a link of 20 ms each way that loses packets of data."""
    return f"""
run.duration = "{seconds} s"
paths.wan.via = ["wan"]

[links.wan]
ends = ["a", "b"]
rate = "{rate}"
delay = "20 ms"
queue = {{ kind = "drop_tail", packets = 1000 }}
loss = {{ kind = "bernoulli", probability = {loss} }}
reverse = {{ loss = {{ kind = "none" }} }}
{FLOW}
paths = ["wan"]
{TCP}
"""


def _quic() -> str:
    """What `cubic` has, over QUIC with the same buffers and as large packets."""
    windows = 'max_data = "16 MiB", max_stream_data = "16 MiB", send_buffer = "16 MiB"'
    sizes = f'max_datagram = "1472 B", {windows}'
    return cubic("10 Mbit/s", 1e-3, 60).replace(TCP, f'transport = {{ kind = "quic", {sizes} }}')


def fq_codel(seconds: int) -> str:
    """Four bulk transfers through FQ-CoDel over a link of 10 Mbit/s, 20 ms each way."""
    text = (ROOT / "benches/fq_codel.toml").read_text()
    return text.replace('"300 s"', f'"{seconds} s"')


def over_two_paths(transport: str) -> str:
    """A bulk transfer over Wi-Fi, which loses packets, and LTE."""
    return f"""
run.duration = "30 s"
links.wifi = {{ ends = ["a", "b"], rate = "20 Mbit/s", delay = "8 ms", {RARE} }}
links.lte = {{ ends = ["a", "b"], rate = "12 Mbit/s", delay = "35 ms" }}
paths.wifi.via = ["wifi"]
paths.lte.via = ["lte"]
{FLOW}
paths = ["wifi", "lte"]
{transport}
"""


def chain(links: int) -> str:
    """Links of 10 Mbit/s and 1 ms in a row, and path `whole` from `a` to `b` over them."""
    nodes = ["a", *(f"n{number}" for number in range(1, links)), "b"]
    lines = [
        f'links.l{number} = {{ ends = ["{nodes[number]}", "{nodes[number + 1]}"], '
        'rate = "10 Mbit/s", delay = "1 ms" }'
        for number in range(links)
    ]
    via = [f"l{number}" for number in range(links)]
    return "\n".join([*lines, f"paths.whole.via = {json.dumps(via)}"])


def _long_chain() -> str:
    return "\n".join(['run.duration = "20 s"', chain(64), FLOW, 'paths = ["whole"]', TCP])


def _many_flows(flows: int) -> str:
    apart = FLOW.replace('"bulk" }', '"bulk", start = { from = "0 s", to = "1 s" } }')
    return f"""
run.duration = "2 s"
links.wan = {{ ends = ["a", "b"], rate = "100 Mbit/s", delay = "20 ms" }}
paths.wan.via = ["wan"]
{apart}
paths = ["wan"]
count = {flows}
transport = {{ kind = "tcp", profile = "linux_6" }}
"""


def _load_sharing(paths: int) -> str:
    names = [f"p{number}" for number in range(paths)]
    lines = [
        f'paths.{name}.via = ["{name}"]\n'
        f'links.{name} = {{ ends = ["a", "b"], rate = "10 Mbit/s", delay = "{5 * number + 5} ms" }}'
        for number, name in enumerate(names)
    ]
    transport = (
        'transport = { kind = "sctp", send_buffer = "4 MB", receive_buffer = "4 MB", '
        'max_burst = "off", load_sharing = {} }'
    )
    listed = f"paths = {json.dumps(names)}"
    return "\n".join(['run.duration = "5 s"', *lines, FLOW, listed, transport])


def count(program: str, file: Path, *arguments: object) -> tuple[int, str]:
    """The instructions of a Python program that is given a file and more, and what it prints."""
    valgrind = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ]
    done = subprocess.run(
        [*valgrind, sys.executable, "-c", program, str(file), *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    counted = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or counted is None:
        sys.exit(f"{file.name} cannot be counted by valgrind:\n{done.stderr}")
    return int(counted[1].replace(",", "")), done.stdout


def _million_per_run(bench: _Bench, folder: Path) -> float:
    file = folder / (re.sub(r"\W+", "-", bench.name) + ".toml")
    file.write_text(bench.text)
    (many, _), (few, _) = count(RUN, file, bench.many), count(RUN, file, bench.few)
    return (many - few) / (bench.many - bench.few) / 1e6


def _compiled_by() -> str:
    version = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return f"{' '.join(version.stdout.split()[:2])}, {platform.machine()}"


def _counted() -> dict[str, float]:
    benches = _benches()
    with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = pool.map(lambda bench: _million_per_run(bench, Path(folder)), benches)
        return dict(zip([bench.name for bench in benches], counts, strict=True))


def _differs(found: dict[str, float], before: dict[str, float]) -> bool:
    """Prints each count beside the one before, and says whether one is too far away."""
    differs = False
    for name, million in found.items():
        change = million / before[name] - 1 if name in before else float("inf")
        is_off = abs(change) > TOLERANCE
        differs |= is_off
        print(f"{name:46} {million:9.2f} million  {100 * change:+.2f} %{' !' if is_off else ''}")
    return differs


def main() -> int:
    """Returns the exit code."""
    described = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=described)
    parser.add_argument("table", type=Path)
    parser.add_argument("--update", action="store_true", help="write the table")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("instructions are not checked: there is no valgrind (on Debian, package valgrind)")
        return 0
    compiler = _compiled_by()
    if given.update:
        counts = {name: round(million, 2) for name, million in _counted().items()}
        table = {"compiler": compiler, "million_instructions": counts}
        given.table.write_text(json.dumps(table, indent=2) + "\n")
        return 0
    table = json.loads(given.table.read_text())
    if table["compiler"] != compiler:
        print(
            f"instructions are not checked: they are known of {table['compiler']}, not {compiler}"
        )
        return 0
    if _differs(_counted(), table["million_instructions"]):
        print(
            f"at least one count is more than {TOLERANCE:.0%} away from {given.table}; if that is"
            " meant, run `make bench-update`, and say why in docs/performance.md"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
