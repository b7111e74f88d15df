"""How much longer ns-2 and ns-3 take for the same scenarios, all in one window of time.

`bench_peers.py` runs this program, ns-2 and ns-3 in turn, a few rounds long, and prints the least
user time of each, and the ratios of these. A time means little on a machine with other guests; the
ratio of two that were taken in turn does. Of this program, the time of a simulation is the
difference of a process that runs many and one that runs one; of the others it is that of the whole
process, of which some 50 ms are its start.

The programs of ns-2 and ns-3 are in benches/peers. On Debian: `apt-get install ns2 libns3-dev g++`.
What is not there is left out, and said. Other versions: NS2 and NS3_LIBS name a program and the
libraries to link.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_high
from tempfile import TemporaryDirectory

from bench_check import ENVIRONMENT, ROOT, RUN, cubic, fq_codel

PEERS = ROOT / "benches/peers"
NS3_LIBS = (
    "-lns3-applications -lns3-point-to-point -lns3-traffic-control -lns3-internet"
    " -lns3-network -lns3-core"
)


@dataclass(frozen=True)
class _Race:
    """A scenario of ours, how often it runs, and the peer's command for the same."""

    name: str
    text: str
    runs: int
    peer: Sequence[str]


def _sctp() -> str:
    """Two paths of three links, Poisson background in the middle, 1 % loss on the last."""
    links = "".join(
        f"""
[paths.p{path}]
via = ["p{path}-first", "p{path}-middle", "p{path}-last"]
[links.p{path}-first]
ends = ["a", "near{path}"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = {{ kind = "drop_tail", packets = 50 }}
[links.p{path}-middle]
ends = ["near{path}", "far{path}"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = {{ kind = "drop_tail", packets = 50 }}
cross_traffic = [
  {{ kind = "poisson", direction = "forward", packet = "500 B", rate = "500 kbit/s" }},
]
[links.p{path}-last]
ends = ["far{path}", "b"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = {{ kind = "drop_tail", packets = 50 }}
loss = {{ kind = "bernoulli", probability = 0.01 }}
reverse = {{ loss = {{ kind = "none" }} }}
"""
        for path in (0, 1)
    )
    return f"""
run.duration = "300 s"
{links}
[flows.bulk]
from = "a"
to = "b"
paths = ["p0", "p1"]
app = {{ kind = "bulk" }}
[flows.bulk.transport]
kind = "sctp"
profile = "ns2"
send_buffer = "1 MB"
receive_buffer = "64 KiB"
hb_interval = "1 s"
"""


def _races(folder: Path) -> list[_Race]:
    ns2 = os.environ.get("NS2", "ns")
    races = []
    if shutil.which(ns2):
        command = [ns2, str(PEERS / "sctp.tcl"), "1"]
        races.append(_Race("SCTP over two paths, 300 s: ns-2", _sctp(), 40, command))
    else:
        print("ns-2 is left out: there is no program `ns` (on Debian, package ns2)")
    ns3 = _ns3(folder)
    if ns3 is None:
        return races
    for name, text, runs, options in (
        (
            "CUBIC, 10 Mbit/s, 1e-3 loss, 60 s: ns-3",
            cubic("10 Mbit/s", 1e-3, 60),
            20,
            "--rate=10Mbps --loss=1e-3 --seconds=60",
        ),
        (
            "FQ-CoDel, 4 flows, 10 Mbit/s, 60 s: ns-3",
            fq_codel(60),
            20,
            "--rate=10Mbps --flows=4 --queue=fq_codel --seconds=60",
        ),
        (
            "CUBIC, 1 Gbit/s, 1e-5 loss, 10 s: ns-3",
            cubic("1 Gbit/s", 1e-5, 10),
            5,
            "--rate=1Gbps --loss=1e-5 --seconds=10",
        ),
    ):
        races.append(_Race(name, text, runs, [ns3, *options.split()]))
    return races


def _ns3(folder: Path) -> str | None:
    """The compiled program of ns-3, or nothing, with a line that says why."""
    program = str(folder / "tcp")
    compiler = shutil.which("g++")
    if compiler is None:
        print("ns-3 is left out: there is no g++")
        return None
    libraries = os.environ.get("NS3_LIBS", NS3_LIBS).split()
    command = [compiler, "-O2", "-std=c++17", "-o", program, str(PEERS / "tcp.cc"), *libraries]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        reason = next((line for line in compiled.stderr.splitlines() if "rror" in line), "")
        print(f"ns-3 is left out: its libraries are not there (on Debian, libns3-dev): {reason}")
        return None
    return program


def _user_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """User time of a command, which succeeds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"`{' '.join(command)}` ended with {done.returncode}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def _measured(race: _Race, rounds: int, python: str | None, folder: Path) -> str:
    file = folder / "scenario.toml"
    file.write_text(race.text)
    ours = [python or sys.executable, "-c", RUN, str(file)]
    # Another interpreter has an engine of its own, which the sources of this one would hide.
    environment = {**ENVIRONMENT}
    if python is not None:
        del environment["PYTHONPATH"]
    many, one, peer = [], [], []
    for _ in range(rounds):
        many.append(_user_seconds([*ours, str(race.runs + 1)], environment))
        one.append(_user_seconds([*ours, "1"], environment))
        peer.append(_user_seconds(race.peer, environment))
    each = (min(many) - min(one)) / race.runs
    return (
        f"{race.name:42} {1e3 * each:8.2f} ms {1e3 * min(peer):9.1f} ms {min(peer) / each:7.1f}"
        f"   (medians {1e3 * (median_high(many) - median_high(one)) / race.runs:.2f} and"
        f" {1e3 * median_high(peer):.1f} ms)"
    )


def main() -> None:
    """Prints a line for each scenario as it is measured."""
    described = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=described)
    parser.add_argument("--rounds", type=int, default=5, help="how often each program runs")
    parser.add_argument(
        "--python",
        help="an interpreter with the engine that is measured, such as that of a wheel;"
        " by default the one of `make setup`",
    )
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        races = _races(folder)
        if races:
            print(f"{'':42} {'ours':>11} {'other':>12} {'ratio':>7}")
        for race in races:
            print(_measured(race, given.rounds, given.python, folder), flush=True)


if __name__ == "__main__":
    main()
