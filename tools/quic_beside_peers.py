"""Our QUIC beside quinn-proto and noq-proto in virtual time, over the same links.

`python tools/quic_beside_peers.py docs/validation/quic-peers.md` writes the generated part of that
page: the mean time in which a client's upload is complete, of ours with the stack's profile and of
the stack itself, over one link and, with noq, over two at the same time. It takes two minutes, and
two more for the first build of the stacks.
"""

import functools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anabranch
import marked
from anabranch import quic
from anabranch.stats import mean_interval

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "interop"))

import peers

BOUND = 0.1
"""A larger deviation of the means needs a cause."""

_BEGIN = "<!-- generated: python tools/quic_beside_peers.py docs/validation/quic-peers.md -->"
_END = "<!-- end of generated -->"


@dataclass(frozen=True)
class Link:
    """A link and what is sent over it."""

    mbit_per_s: float
    delay_ms: float
    queue: int
    """Packets beside the one in service."""
    loss: float
    megabytes: float

    def __str__(self) -> str:
        loss = f", {100 * self.loss:g} % lost" if self.loss else ""
        rate = f"{self.mbit_per_s:g} Mbit/s, {self.delay_ms:g} ms"
        return f"{rate}, a queue of {self.queue}{loss}, {self.megabytes:g} MB"

    @property
    def runs(self) -> int:
        """Without losses by chance, only the stack's own choices differ."""
        return 30 if self.loss else 3


Links = tuple[Link, ...]
"""One, or those of two paths, of which the first one says how much is sent."""


LINKS = (
    Link(10, 20, 50, 0, 10),
    Link(10, 20, 50, 0.01, 5),
    Link(50, 10, 200, 0.001, 20),
    Link(1, 50, 20, 0, 1),
    Link(100, 5, 100, 0, 25),
    Link(5, 150, 60, 0.005, 3),
    Link(20, 300, 500, 0, 10),
    Link(10, 20, 50, 0, 0.1),
    Link(2, 30, 200, 0, 2),
    Link(20, 40, 30, 0.03, 3),
)
PAIRS = (
    (Link(10, 20, 50, 0, 10), Link(10, 20, 50, 0, 10)),
    (Link(10, 20, 50, 0, 10), Link(5, 60, 50, 0, 10)),
    (Link(5, 60, 50, 0, 10), Link(10, 20, 50, 0, 10)),
    (Link(20, 10, 100, 0, 10), Link(8, 35, 200, 0, 10)),
    (Link(10, 20, 50, 0.01, 5), Link(10, 20, 50, 0.01, 5)),
    (Link(10, 20, 50, 0.01, 5), Link(10, 20, 50, 0, 5)),
    (Link(50, 10, 200, 0.001, 20), Link(20, 30, 200, 0.001, 20)),
    (Link(2, 30, 200, 0, 4), Link(2, 100, 200, 0, 4)),
    (Link(20, 40, 60, 0.005, 5), Link(5, 150, 60, 0.005, 5)),
    (Link(10, 20, 50, 0, 0.2), Link(10, 40, 50, 0, 0.2)),
)
"""The links of two paths, that of the handshake first."""

CONTROLS = {"quinn": ("cubic", "reno", "bbr"), "noq": ("cubic", "reno", "bbr3")}
"""What each has; BBR is of version 1 in quinn and of version 3 in noq."""


@dataclass(frozen=True)
class Case:
    """A stack and a control over a link, or two."""

    stack: str
    control: str
    links: Links

    def __str__(self) -> str:
        *others, last = self.links
        if not others:
            return str(last)
        sent = f", {last.megabytes:g} MB"
        return " and ".join(str(link).removesuffix(sent) for link in self.links) + sent

    @property
    def runs(self) -> int:
        """As many as the link with the most chance wants."""
        return max(link.runs for link in self.links)

    @property
    def bytes(self) -> int:
        """How much is sent."""
        return round(self.links[0].megabytes * 1e6)

    def theirs(self, made: Path) -> list[float]:
        """Seconds until everything is there, by run."""
        values = [
            (link.mbit_per_s * 1e6, link.delay_ms, link.queue, link.loss) for link in self.links
        ]
        names = ("rate", "delay_ms", "queue", "loss")
        of_links = {
            name: ",".join(map(str, column))
            for name, column in zip(names, zip(*values, strict=True), strict=True)
        }
        words: dict[str, object] = {
            **of_links,
            "bytes": self.bytes,
            "cc": self.control.rstrip("3"),
            "seed": 1,
            "count": self.runs,
            "chain": made / "chain.pem",
            "key": made / "key.pem",
        }
        line = [str(_program(self.stack)), *(f"{name}={value}" for name, value in words.items())]
        done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=600)
        return [json.loads(each)["completion_s"] for each in done.stdout.splitlines()]

    def ours(self, folder: Path) -> list[float]:
        """The same of ours."""
        file = folder / f"{abs(hash(self))}.toml"
        file.write_text(self._scenario())
        return [
            anabranch.run(file, replication=number).summary["flow.completion_s"]
            for number in range(self.runs)
        ]

    def _scenario(self) -> str:
        names = ["wan", "other"][: len(self.links)]
        links = "".join(
            f"""
[links.{name}]
ends = ["client", "server"]
rate = "{link.mbit_per_s} Mbit/s"
delay = "{link.delay_ms} ms"
queue = {{ kind = "drop_tail", packets = {link.queue} }}
loss = {_loss(link)}
[paths.{name}]
via = ["{name}"]
"""
            for name, link in zip(names, self.links, strict=True)
        )
        return f"""
run.duration = "3600 s"
{links}
[flows.flow]
from = "client"
to = "server"
paths = {json.dumps(names)}
app = {{ kind = "bulk", bytes = "{self.bytes} B" }}
[flows.flow.transport]
kind = "quic"
profile = "{self.stack}"
cc = {{ kind = "{self.control}" }}
handshake = {{ certificate = "400 B" }}
{_SEVERAL if len(names) > 1 else ""}
"""


_SEVERAL = """
multipath = true
scheduler = "priority"
"""
"""What noq does: the lowest path ID that is validated, available and has room."""


def _loss(link: Link) -> str:
    return f'{{ kind = "bernoulli", probability = {link.loss} }}' if link.loss else '"none"'


@functools.cache
def _program(stack: str) -> Path:
    return peers.cargo(stack, "quic-peer", f"{stack}-virtual")


@dataclass(frozen=True)
class Row:
    """What came of a case."""

    case: Case
    theirs: tuple[float, float]
    ours: tuple[float, float]

    @property
    def deviation(self) -> float:
        """How much longer ours takes, as a share."""
        return self.ours[0] / self.theirs[0] - 1


def cases() -> list[Case]:
    """Each stack over one link, and noq over two."""
    of_one = [
        Case(stack, control, (link,))
        for stack, controls in CONTROLS.items()
        for control in controls
        for link in LINKS
    ]
    return of_one + [Case("noq", control, pair) for control in CONTROLS["noq"] for pair in PAIRS]


def rows(cases: list[Case]) -> list[Row]:
    """What came of these."""
    for stack in CONTROLS:
        _program(stack)
    with TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        made = quic.self_signed(["localhost"])
        (folder / "chain.pem").write_bytes(made.chain)
        (folder / "key.pem").write_bytes(made.key)
        theirs = list(pool.map(lambda case: case.theirs(folder), cases))
        ours = list(pool.map(lambda case: case.ours(folder), cases))
    means = [[mean_interval(each)[:2] for each in values] for values in (theirs, ours)]
    return [Row(case, *both) for case, *both in zip(cases, *means, strict=True)]


def table(found: list[Row]) -> str:
    """A row for each case."""
    lines = [
        "| stack | control | links and size | the stack, s | ours, s | deviation |",
        "|---|---|---|---:|---:|---:|",
    ]
    for row in found:
        values = [f"{mean:.3f} ± {width:.3f}" for mean, width in (row.theirs, row.ours)]
        case = row.case
        mark = f"{100 * row.deviation:+.1f} %"
        mark = f"**{mark}**" if abs(row.deviation) > BOUND else mark
        words = [case.stack, case.control, str(case), *values, mark]
        lines.append(f"| {' | '.join(words)} |")
    for stack, paths, over in (("quinn", 1, ""), ("noq", 1, ""), ("noq", 2, " over two paths")):
        of_stack = [
            row for row in found if row.case.stack == stack and len(row.case.links) == paths
        ]
        near = sum(abs(row.deviation) <= BOUND for row in of_stack)
        lines += ["", f"Within {100 * BOUND:g} % of {stack}{over}: {near} of {len(of_stack)}."]
    return "\n".join(lines)


def main() -> int:
    """Writes the page."""
    path = Path(sys.argv[1])
    text = marked.replaced(path.read_text("utf-8"), _BEGIN, _END, table(rows(cases())))
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
