"""What depends on the moment, in a real Linux and in profile `linux_6`: a table with intervals.

`python tools/beside_linux.py PAGE [OUT]` runs each row on the virtual kernel and simulated, at the
same moments, and writes a table into the page between its marks. Finished runs are kept in OUT.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from scipy import stats

from anabranch._engine import Scenario
from anabranch.emulate import testbed
from anabranch.papers.studies import Place, Work, compute_all
from anabranch.stats import Interval, mean_interval
from anabranch.support.toml_text import inline

HEADS = ("row", "control", "scalar", "Linux", "simulated", "deviation, %", "p", "verdict")
CONTROLS = ("reno", "cubic", "bbr")
NEAR = 0.1
"""Means this near to each other are within."""

LINK = """
ends = ["sender", "receiver"]
rate = "9907529 bit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 99 }
"""
TWO_PATHS = f"""
[links.first]{LINK}
[links.second]{LINK}
[paths.p1]
via = ["first"]
[paths.p2]
via = ["second"]
"""
ONE_PATH = f"""
[links.first]{LINK}
[paths.p1]
via = ["first"]
"""


@dataclass(frozen=True)
class Row:
    """Runs of one kind: a scenario, the moments at which it is tried, and what is compared."""

    name: str
    title: str
    network: str
    seconds: float
    transport: str
    scalar: str
    settings: Callable[[float, int], dict[str, object]]
    """The settings of a moment: its time in seconds, and its number."""
    moments: int
    controls: tuple[str, ...] = CONTROLS
    paths: str = '["p1", "p2"]'
    replications: int = 1

    def work(self) -> Work:
        """The study of these runs."""
        # About one sawtooth.
        cases = {
            str(moment): self.settings(5 + 2 * moment / self.moments, moment)
            for moment in range(self.moments)
        }
        text = (
            f'name = "{self.name}"\nseed = 1\nrun.duration = "{self.seconds:g} s"\n{self.network}\n'
            f'[flows.bulk]\nfrom = "sender"\nto = "receiver"\npaths = {self.paths}\n'
            f"transport = {self.transport}\napp = {{ kind = 'bulk' }}\n"
            f"[sweep]\naxes.control.set = 'flows.bulk.transport.cc.kind'\n"
            f"axes.control.values = {inline(list(self.controls))}\n"
            f"axes.moment.cases = {inline(cases)}\n"
        )
        return Work(
            self.name, self.title, Scenario.parse(text), lambda _: self.replications, (self.scalar,)
        )


def _black(at: float, seconds: float) -> dict[str, object]:
    steps = [["0 s", True], [f"{at:g} s", False], [f"{at + seconds:g} s", True]]
    return {"links.first.up": {"timetable": steps}, "links.first.down": "blackhole"}


def _lossy() -> dict[str, object]:
    return {
        "links.first.loss": {"kind": "bernoulli", "probability": "1 %"},
        "links.first.reverse.loss": {"kind": "bernoulli", "probability": 0},
    }


_STALL = "bulk.stalled_s"

ROWS = (
    Row(
        "black",
        "Multipath TCP, one of two paths turns black",
        TWO_PATHS,
        10,
        "{ kind = 'mptcp', profile = 'linux_6' }",
        _STALL,
        lambda at, _: _black(at, 10),
        20,
    ),
    Row(
        "black-backup",
        "Multipath TCP, the path turns black before which one stands by",
        TWO_PATHS,
        10,
        "{ kind = 'mptcp', profile = 'linux_6', backup = [1] }",
        _STALL,
        lambda at, _: _black(at, 10),
        20,
    ),
    Row(
        "outage",
        "TCP, an outage of 3 s",
        ONE_PATH,
        16,
        "{ kind = 'tcp', profile = 'linux_6' }",
        _STALL,
        lambda at, _: _black(at, 3),
        20,
        paths='["p1"]',
    ),
    Row(
        "lossy",
        "Multipath TCP, one of two paths loses 1 %",
        TWO_PATHS,
        12,
        "{ kind = 'mptcp', profile = 'linux_6' }",
        "link.first.forward.delivered_packets",
        lambda _, __: _lossy(),
        1,
        replications=20,
    ),
)


def main() -> None:
    """Runs what is missing and writes the table."""
    page = Path(sys.argv[1])
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "results/beside-linux")
    jobs = os.cpu_count() or 1
    works = [row.work() for row in ROWS]
    place = Place("-virtual", lambda scenario: testbed.VirtualKernel(scenario, jobs=jobs))
    real = compute_all(works, out, jobs, "runs in virtual kernels", place)
    simulated = compute_all(works, out, jobs, "simulated runs")
    lines = [line for row in ROWS for line in _lines(row, real[row.name], simulated[row.name])]
    write_table(page, "beside_linux", HEADS, lines)


def write_table(page: Path, tool: str, heads: Sequence[str], lines: Iterable[list[str]]) -> None:
    """Writes a table into a page, between the marks of a tool; its last five columns compare."""
    begin, end = f"<!-- generated: tools/{tool}.py -->", f"<!-- end of {tool} -->"
    said = f"Linux {testbed.virtual_release()} in virtual time; means over moments, 95 % intervals."
    rows = ["| " + " | ".join(cells) + " |" for cells in (heads, *lines)]
    rule = "|---" * (len(heads) - 5) + "|---:" * 4 + "|---|"
    table = "\n".join([rows[0], rule, *rows[1:]])
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    page.write_text(f"{head}{begin}\n\n{said}\n\n{table}\n\n{end}{tail}", encoding="utf-8")


def _lines(row: Row, real: pl.DataFrame, simulated: pl.DataFrame) -> Iterator[list[str]]:
    """A line of the table for each control."""
    for control in row.controls:
        theirs, ours = (
            found.filter(pl.col("control") == control)[row.scalar].to_list()
            for found in (real, simulated)
        )
        yield [row.title, control, row.scalar.partition(".")[2], *compared(theirs, ours)]


def compared(theirs: Sequence[float], ours: Sequence[float]) -> list[str]:
    """The cells that compare two samples, of which `theirs` is Linux's."""
    one, other = mean_interval(theirs), mean_interval(ours)
    deviation = other.mean / one.mean - 1
    chance = float(stats.ttest_ind(theirs, ours, equal_var=False).pvalue)
    return [
        _text(one),
        _text(other),
        f"{100 * deviation:+.1f}",
        "" if math.isnan(chance) else f"{chance:.3f}",
        _verdict(one, other, deviation),
    ]


def _text(interval: Interval) -> str:
    return interval.text(0 if interval.mean > 100 else 2)


def _verdict(one: Interval, other: Interval, deviation: float) -> str:
    if abs(deviation) <= NEAR:
        return "within"
    if abs(one.mean - other.mean) <= math.hypot(one.half_width, other.half_width):
        return "within the intervals"
    return "outside"


if __name__ == "__main__":
    main()
