"""What depends on the moment, in real stacks and in their profiles: a table with intervals.

`python tools/beside_linux.py PAGE [OUT]` runs each row on the virtual kernel and simulated, at the
same moments, and writes a table into the page between its marks. Finished runs are kept in OUT.
"""

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl
from scipy import stats

import marked
from anabranch._engine import Scenario
from anabranch.emulate import testbed
from anabranch.papers.studies import Place, Work, compute_all
from anabranch.stats import Interval, mean_interval
from anabranch.support.toml_text import inline

HEADS = ("row", "variant", "scalar", "real", "simulated", "deviation, %", "p", "verdict")
CONTROLS = {
    control: {"flows.bulk.transport.cc.kind": control} for control in ("reno", "cubic", "bbr")
}
BULK = "{ kind = 'bulk' }"
CALL = """{ kind = 'datagrams', size = '500 B', rate = '200 kbit/s', intervals = { kind = 'cbr' },
duration = '68 s', unordered = false, measure = true, gaps_after = '4 s' }"""
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
    scalars: tuple[str, ...]
    settings: Callable[[float, int], dict[str, object]]
    """The settings of a moment: its time in seconds, and its number."""
    moments: int
    variants: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: CONTROLS)
    paths: str = '["p1", "p2"]'
    replications: int = 1
    app: str = BULK
    stack: testbed.SctpStack = "kernel"

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
            f"transport = {self.transport}\napp = {self.app}\n"
            f"[sweep]\naxes.variant.cases = {inline(self.variants)}\n"
            f"axes.moment.cases = {inline(cases)}\n"
        )
        return Work(
            self.name, self.title, Scenario.parse(text), lambda _: self.replications, self.scalars
        )


def _black(at: float, seconds: float) -> dict[str, object]:
    steps = [["0 s", True], [f"{at:g} s", False], [f"{at + seconds:g} s", True]]
    return {"links.first.up": {"timetable": steps}, "links.first.down": "blackhole"}


def _returns(at: float, moment: int) -> dict[str, object]:
    """Black for 25 s and up to a heartbeat interval and RTO.Min more, with other heartbeats."""
    seconds = round(25 + 2 * (7 * moment % 20) / 20, 3)
    return {**_black(at, seconds), "seed": moment}


def _lossy(percent: float) -> dict[str, object]:
    return {
        "links.first.loss": {"kind": "bernoulli", "probability": f"{percent} %"},
        "links.first.reverse.loss": {"kind": "bernoulli", "probability": 0},
    }


def _room(**buffers: int) -> dict[str, object]:
    """Buffers in kB."""
    return {f"flows.bulk.transport.{name}": f"{size} kB" for name, size in buffers.items()}


_STALL = ("bulk.stalled_s",)
_SCTP = "flows.bulk.transport"
FAILURES: dict[str, dict[str, object]] = {
    "PMR 2": {f"{_SCTP}.path_max_retrans": 2, f"{_SCTP}.pf_max_retrans": "off"},
    "PMR 2, PFMR 0": {f"{_SCTP}.path_max_retrans": 2, f"{_SCTP}.pf_max_retrans": 0},
    "PMR 5, RTO.Max 1 s": {
        f"{_SCTP}.path_max_retrans": 5,
        f"{_SCTP}.pf_max_retrans": "off",
        f"{_SCTP}.rto_max": "1 s",
    },
}
"""When SCTP gives a path up."""

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
        ("link.first.forward.delivered_packets",),
        lambda _, __: _lossy(1),
        1,
        replications=20,
    ),
    Row(
        "small-buffers",
        "Multipath TCP, small buffers, one of two paths loses 0.1 %",
        TWO_PATHS,
        10,
        "{ kind = 'mptcp', profile = 'linux_6' }",
        ("bulk.received_bytes",),
        lambda _, __: _lossy(0.1),
        1,
        variants={
            f"{size} kB each": _room(send_buffer=size, receive_buffer=size)
            for size in (64, 128, 256)
        },
        replications=10,
    ),
    Row(
        "small-buffer",
        "TCP, a small buffer, 0.1 % lost",
        ONE_PATH,
        10,
        "{ kind = 'tcp', profile = 'linux_6' }",
        ("bulk.received_bytes",),
        lambda _, __: _lossy(0.1),
        1,
        variants={
            "send_buffer 32 kB": _room(send_buffer=32),
            "receive_buffer 32 kB": _room(receive_buffer=32),
        },
        paths='["p1"]',
        replications=10,
    ),
    Row(
        "return",
        "SCTP, heartbeats every 1 s, the first path is black for 25 to 27 s",
        TWO_PATHS,
        70,
        "{ kind = 'sctp', profile = 'linux', hb_interval = '1 s', nagle = false }",
        ("bulk.stalled_s", "link.second.forward.delivered_packets"),
        _returns,
        20,
        variants=FAILURES,
        app=CALL,
    ),
    Row(
        "return-usrsctp",
        "FreeBSD's SCTP (usrsctp), RTO.Min 0.2 s, the first path is black for 25 to 27 s",
        TWO_PATHS,
        70,
        "{ kind = 'sctp', profile = 'freebsd_10', rto_min = '200 ms', rto_max = '1 s',"
        " hb_interval = '1 s', nagle = false }",
        ("bulk.stalled_s", "link.second.forward.delivered_packets"),
        _returns,
        20,
        variants={f"PMR {most}": {f"{_SCTP}.path_max_retrans": most} for most in (2, 5)},
        app=CALL,
        stack="usrsctp",
    ),
)


def main() -> None:
    """Runs what is missing and writes the table."""
    page = Path(sys.argv[1])
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "results/beside-linux")
    jobs = os.cpu_count() or 1
    lines: list[list[str]] = []
    for row in ROWS:
        kernels = partial(testbed.VirtualKernel, jobs=jobs, stack=row.stack)
        place = Place("-virtual", kernels)
        work = row.work()
        real = compute_all([work], out, jobs, f"{row.name} in virtual kernels", place)
        simulated = compute_all([work], out, jobs, f"{row.name} simulated")
        lines += _lines(row, real[row.name], simulated[row.name])
    write_table(page, "beside_linux", HEADS, lines)


def write_table(page: Path, tool: str, heads: Sequence[str], lines: Iterable[list[str]]) -> None:
    """Writes a table into a page, between the marks of a tool; its last five columns compare."""
    begin, end = f"<!-- generated: tools/{tool}.py -->", f"<!-- end of {tool} -->"
    said = f"Linux {testbed.virtual_release()} in virtual time; means over moments, 95 % intervals."
    rows = ["| " + " | ".join(cells) + " |" for cells in (heads, *lines)]
    rule = "|---" * (len(heads) - 5) + "|---:" * 4 + "|---|"
    table = "\n".join([rows[0], rule, *rows[1:]])
    text = page.read_text(encoding="utf-8")
    page.write_text(marked.replaced(text, begin, end, f"{said}\n\n{table}"), encoding="utf-8")


def _lines(row: Row, real: pl.DataFrame, simulated: pl.DataFrame) -> Iterator[list[str]]:
    """A line of the table for each variant and scalar."""
    for variant, scalar in itertools.product(row.variants, row.scalars):
        theirs, ours = (
            found.filter(pl.col("variant") == variant)[scalar].to_list()
            for found in (real, simulated)
        )
        yield [row.title, variant, scalar.partition(".")[2], *compared(theirs, ours)]


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
