"""How the work of a run grows with its size: instructions per packet, and exponents.

`scaling.py [WORD...]` counts with valgrind, for series of runs that differ in one number n: links
in a chain, flows, paths, packets on their way. Each run is counted twice, once for a shorter time,
and the difference is divided by the packets that more were delivered (in a chain, by packets times
links), so that what a run costs before its first packet and after its last one does not count. What
it costs to build and to report n flows is a series of its own, per flow.

Where n times the work costs n^e times the instructions, e is the exponent: 1 plus the slope of the
instructions per packet, both as logarithms. It is printed from line to line, and for the whole
series. With words, only those series are counted whose name has one of them.

The engine is the one of `make setup`; docs/performance.md has the exponents.
"""

import argparse
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil, log
from pathlib import Path
from tempfile import TemporaryDirectory

from bench_check import FLOW, chain, count

MOST = 1.1
"""Of an exponent, over a whole series and in its last step."""

RUN = """
import sys
from anabranch import _engine
scenario = _engine.Scenario.load(sys.argv[1], [("run.duration", f"{sys.argv[2]} s")])
for _ in range(int(sys.argv[3])):
    print(_engine.run(scenario)["summary"]["run.packets_delivered"])
"""

SEGMENT = 1448
"""Bytes of data in a full segment of TCP; a chunk of SCTP has as much here."""

ROUND_TRIP = 0.2
"""Seconds, of the runs with large windows."""


@dataclass(frozen=True)
class _Case:
    """A scenario of size n without its duration, and the two durations in seconds.

    If these are equal, the longer run is two runs, for `work` pieces of work instead of packets.
    """

    n: int
    text: str
    short: float
    long: float
    work: int = 0
    links: int = 1


@dataclass(frozen=True)
class _Series:
    name: str
    cases: list[_Case]
    per: str = "packet"


def _series() -> list[_Series]:
    sizes = [1, 2, 4, 8, 16]
    flows = [100, 250, 1_000, 4_000]
    windows = [100, 1_000, 10_000, 100_000]
    return [
        _Series(
            "links in a chain", [_chain(n) for n in [1, 2, 4, 8, 16, 32, 64]], "packet and link"
        ),
        _Series("flows, 100 kbit/s each", [_flows(n, n / 10, 1) for n in flows]),
        _Series("flows, 100 Mbit/s together", [_flows(n, 100, 2) for n in flows]),
        _Series("flows built and reported", [_flows(n, n / 10, 0) for n in flows], "flow"),
        _Series("SCTP paths, equal", [_paths(n, _SHARING, 0) for n in sizes]),
        _Series("SCTP paths, unlike", [_paths(n, _SHARING, 5) for n in sizes]),
        _Series("MPTCP subflows, equal", [_paths(n, _MPTCP, 0) for n in sizes]),
        _Series("MPTCP subflows, unlike", [_paths(n, _MPTCP, 5) for n in sizes]),
        _Series("packets in a window, TCP", [_window(n, _TCP, 0) for n in windows]),
        _Series("packets in a window, TCP, losses", [_window(n, _TCP, 1e-3) for n in windows]),
        _Series("packets in a window, SCTP", [_window(n, _SCTP, 0) for n in windows]),
        _Series(
            "packets in a window, SCTP, losses",
            # A SACK reports no TSN more than 65,535 behind the cumulative one.
            [_window(n, _SCTP, 1e-3) for n in [100, 1_000, 10_000, 60_000]],
        ),
    ]


def _chain(n: int) -> _Case:
    text = f"""
{chain(n)}
{FLOW}
paths = ["whole"]
transport = {_TCP.format(bytes=16_000_000)}
"""
    return _Case(n, text, 5, 10, links=n)


def _flows(n: int, mbits: float, seconds: float) -> _Case:
    """For 0 s, flows that are built and reported and begin only afterwards."""
    first = "0 s" if seconds else "2 s"
    text = f"""
links.wan = {{ ends = ["a", "b"], rate = "{mbits} Mbit/s", delay = "20 ms",
    queue = {{ kind = "drop_tail", packets = {max(50, 2 * n)} }} }}
paths.wan.via = ["wan"]
{FLOW.replace('"bulk" }', f'"bulk", start = {{ from = "{first}", to = "2 s" }} }}')}
paths = ["wan"]
count = {n}
transport = {{ kind = "tcp", profile = "linux_6" }}
"""
    return _Case(n, text, 2, 2 + seconds) if seconds else _Case(n, text, 1, 1, work=n)


_SHARING = (
    '{{ kind = "sctp", send_buffer = "{bytes} B", receive_buffer = "{bytes} B", '
    'max_burst = "off", load_sharing = {{}} }}'
)
_MPTCP = (
    '{{ kind = "mptcp", profile = "linux_6", send_buffer = "{bytes} B", '
    'receive_buffer = "{bytes} B" }}'
)
_TCP = (
    '{{ kind = "tcp", profile = "linux_6", send_buffer = "{bytes} B", receive_buffer = "1 GB", '
    'cc = {{ kind = "cubic", beta = 0.95, slow_start = "standard" }} }}'
)
_SCTP = (
    '{{ kind = "sctp", send_buffer = "{bytes} B", receive_buffer = "1 GB", max_burst = "off", '
    'cc = {{ kind = "sctp", initial_window = {{ segments = 64 }}, slow_start_limit = 2 }} }}'
)


def _paths(n: int, transport: str, apart: int) -> _Case:
    """A transfer over n paths of 10 Mbit/s, each `apart` ms longer than the one before."""
    names = [f"p{number}" for number in range(n)]
    links = "\n".join(
        f'paths.{name}.via = ["{name}"]\n'
        f'links.{name} = {{ ends = ["a", "b"], rate = "10 Mbit/s", '
        f'delay = "{20 + apart * number} ms" }}'
        for number, name in enumerate(names)
    )
    listed = ", ".join(f'"{name}"' for name in names)
    text = f"""
{links}
{FLOW}
paths = [{listed}]
transport = {transport.format(bytes=500_000 * n)}
"""
    return _Case(n, text, 1, 2.5)


def _window(n: int, transport: str, loss: float) -> _Case:
    """A transfer whose send buffer holds n packets, fewer than the link carries in a round trip.

    Losses begin when the window is full.
    """
    # Without a limit, slow start multiplies the window by at least 1.5 in a round trip.
    full = ceil(log(n / 4) / log(1.5)) * ROUND_TRIP
    losses = [["0 s", 0], [f"{full:.1f} s", loss]]
    trips = max(3, ceil(20_000 / n))
    text = f"""
paths.wan.via = ["wan"]

[links.wan]
ends = ["a", "b"]
rate = "{1.3 * n * 1_500 * 8 / ROUND_TRIP / 1e6:.3f} Mbit/s"
delay = "{1_000 * ROUND_TRIP / 2} ms"
queue = {{ kind = "drop_tail", packets = {2 * n} }}
loss = {{ kind = "bernoulli", probability = {{ timetable = {json.dumps(losses)} }} }}
reverse = {{ loss = {{ kind = "none" }} }}
{FLOW}
paths = ["wan"]
transport = {transport.format(bytes=SEGMENT * n)}
"""
    return _Case(n, text, full, full + trips * ROUND_TRIP)


def _count(file: Path, seconds: float, runs: int) -> tuple[int, int]:
    """The instructions of as many runs of this many seconds, and the packets delivered."""
    instructions, delivered = count(RUN, file, seconds, runs)
    return instructions, round(sum(map(float, delivered.split())))


def _per_unit(case: _Case, folder: Path) -> float:
    """Instructions per packet, or per piece of work."""
    file = folder / f"{id(case)}.toml"
    file.write_text(case.text)
    few, packets_before = _count(file, case.short, 1)
    many, packets = _count(file, case.long, 2 if case.work else 1)
    work = case.work or (packets - packets_before) * case.links
    return (many - few) / work


def _exponent(before: tuple[int, float], after: tuple[int, float]) -> float:
    (n_before, cost_before), (n_after, cost_after) = before, after
    return 1 + log(cost_after / cost_before) / log(n_after / n_before)


def _show(series: _Series, costs: list[float]) -> bool:
    """Prints a series, and says whether its exponents are small enough."""
    points = list(zip([case.n for case in series.cases], costs, strict=True))
    print(f"\n{series.name}\n{'n':>9}  instructions per {series.per}  exponent")
    for index, (n, cost) in enumerate(points):
        step = f"{_exponent(points[index - 1], points[index]):.2f}" if index else ""
        print(f"{n:9,}  {cost:{17 + len(series.per)},.0f}  {step:>8}")
    whole, last = _exponent(points[0], points[-1]), _exponent(points[-2], points[-1])
    is_small = max(whole, last) <= MOST
    print(f"whole series: {whole:.2f}{'' if is_small else f'; more than {MOST}!'}", flush=True)
    return is_small


def main() -> int:
    """Returns the exit code: 1 where an exponent is too large."""
    described = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=described)
    parser.add_argument("words", nargs="*", metavar="WORD")
    words = parser.parse_args().words
    if shutil.which("valgrind") is None:
        print("nothing is counted: there is no valgrind (on Debian, package valgrind)")
        return 0
    chosen = [it for it in _series() if not words or any(word in it.name for word in words)]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        counting = [
            [pool.submit(_per_unit, case, Path(folder)) for case in series.cases]
            for series in chosen
        ]
        shown = [
            _show(series, [cost.result() for cost in costs])
            for series, costs in zip(chosen, counting, strict=True)
        ]
    return 0 if all(shown) else 1


if __name__ == "__main__":
    sys.exit(main())
