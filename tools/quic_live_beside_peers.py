"""Our QUIC over sockets beside quic-go, over the same emulated links, in real time.

`python tools/quic_live_beside_peers.py docs/validation/quic-live-peers.md` writes the generated
part of that page: the median time in which a client's upload is complete, of ours with the profile
`quic_go` and of quic-go itself. It takes a quarter of an hour, and root or user namespaces.
"""

import math
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import marked
import quic_beside_peers
from anabranch._engine import Scenario
from anabranch.bench_quic import programs, runs
from anabranch.bench_quic.programs import Program
from anabranch.bench_quic.scenarios import COMPLETES, QuicScenario
from anabranch.support import progress

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "interop"))

import quic_program  # noqa: E402 - beside the tests

BOUND = 0.15
"""A larger deviation of the medians needs a cause."""
WANTED = 0.8
"""The share of the links that is to be within it."""

_BEGIN = (
    "<!-- generated: python tools/quic_live_beside_peers.py docs/validation/quic-live-peers.md -->"
)
_END = "<!-- end of generated -->"


class Link(quic_beside_peers.Link):
    """A link as in virtual time, emulated."""

    @property
    def runs(self) -> int:
        """As many as a quarter of an hour has time for."""
        return 3

    @property
    def about(self) -> QuicScenario:
        """The link as the scenario of a bench."""
        loss = f'{{ kind = "bernoulli", probability = {self.loss} }}' if self.loss else '"none"'
        size = round(self.megabytes * 1e6)
        profile = "quic_go"
        text = f"""
run.duration = "60 s"
[links.wan]
ends = ["client", "server"]
rate = "{self.mbit_per_s} Mbit/s"
delay = "{self.delay_ms} ms"
queue = {{ kind = "drop_tail", packets = {self.queue} }}
loss = {loss}
[paths.up]
via = ["wan"]
[flows.test]
from = "client"
to = "server"
paths = ["up"]
app = {{ kind = "bulk", bytes = "{size} B" }}
transport = {{ kind = "quic", profile = "{profile}" }}
"""
        return QuicScenario(
            name="link",
            title=str(self),
            capacity_mbit_per_s=self.mbit_per_s,
            delay_ms=self.delay_ms,
            tested=("test",),
            rival=None,
            keeps=(COMPLETES,),
            known={},
            controls=(profile,),
            folder="link",
            scenario=Scenario.parse(text, [], "."),
            size=size,
            outage_ms=0,
        )


LINKS = (
    Link(10, 20, 50, 0, 5),
    Link(50, 10, 200, 0, 20),
    Link(1, 50, 20, 0, 0.5),
    Link(100, 5, 100, 0, 25),
    Link(20, 300, 500, 0, 5),
    Link(10, 20, 50, 0, 0.1),
    Link(2, 30, 200, 0, 1),
    Link(20, 40, 30, 0, 8),
    Link(5, 150, 60, 0, 2),
    Link(30, 5, 1000, 0, 10),
    Link(10, 20, 50, 0.01, 2),
    Link(50, 10, 200, 0.001, 10),
    Link(5, 150, 60, 0.005, 1),
    Link(20, 40, 30, 0.03, 1),
    Link(10, 20, 50, 0.05, 0.5),
    Link(2, 30, 50, 0.02, 0.5),
    Link(100, 10, 300, 0.002, 10),
    Link(20, 5, 100, 0.01, 3),
    Link(10, 100, 100, 0.001, 3),
    Link(1, 20, 20, 0.05, 0.2),
)


@dataclass(frozen=True)
class Row:
    """What came of a link: seconds until everything was there, run by run."""

    link: Link
    theirs: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def deviation(self) -> float:
        """How much longer ours takes in the median, as a share."""
        return statistics.median(self.ours) / statistics.median(self.theirs) - 1


def rows(links: tuple[Link, ...]) -> list[Row]:
    """Every link; both stacks in turn, so that what else the machine does meets both."""
    quic_program.STACKS["quic-go"].program()
    file = ROOT / "tests/interop/quic-programs.toml"
    _, (theirs, ours) = programs.chosen([f"{file}:quic-go", "live:quic_go"])
    # quic-go searches for the MTU, ours is told it.
    told = ("--set", "max_datagram='1452 B'")
    pair = (theirs, replace(ours, server=(*ours.server, *told), client=(*ours.client, *told)))
    total = sum(link.runs * len(pair) for link in links)
    found = []
    done = 0
    with progress.shown("links") as shown:
        for link in links:
            times: dict[Program, list[float]] = {program: [] for program in pair}
            for replication in range(link.runs):
                for program, values in times.items():
                    values.append(_completion(link, program, replication))
                    done += 1
                    shown(progress.Status(done, total))
            found.append(Row(link, *(tuple(values) for values in times.values())))
            print(f"{link}: {found[-1].deviation:+.3f}", flush=True)
    return found


def _completion(link: Link, program: Program, replication: int) -> float:
    outcome = runs.run(link.about, 0, program, replication)
    if outcome.fault:
        print(f"{program.name}, {link}: {outcome.fault}", file=sys.stderr)
    return outcome.values["completion_s"]


def table(found: list[Row]) -> str:
    """A row for each link."""
    lines = [
        "| link and size | runs | quic-go, s | ours, s | deviation |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in found:
        values = [
            f"{statistics.median(each):.3f} ({min(each):.3f} to {max(each):.3f})"
            for each in (row.theirs, row.ours)
        ]
        mark = f"{100 * row.deviation:+.1f} %"
        mark = f"**{mark}**" if not abs(row.deviation) <= BOUND else mark
        words = [str(row.link), str(row.link.runs), *values, mark]
        lines.append(f"| {' | '.join(words)} |")
    near = sum(abs(row.deviation) <= BOUND for row in found if not math.isnan(row.deviation))
    lines += ["", f"Within {100 * BOUND:g} % of quic-go: {near} of {len(found)}."]
    return "\n".join(lines)


def main() -> int:
    """Writes the page."""
    path = Path(sys.argv[1])
    found = rows(LINKS)
    text = marked.replaced(path.read_text("utf-8"), _BEGIN, _END, table(found))
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
