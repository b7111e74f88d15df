"""The designed experiments: every point in both orders, over every transport, under each reading.

A study is one design under one reading; its axes are the topology, a point and which of its paths
is the first, and the transport.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict

from anabranch._engine import Scenario
from anabranch.papers.studies import Effort, Settings, Work, as_sets, efforts, file_text, published
from anabranch.support.toml_text import inline

DESIGNS = {
    "low": "low products",
    "high": "high products",
    "low-loss": "low, losses",
    "high-loss": "high, losses",
}
TRANSPORTS = ("tcp", "quic", "mptcp", "mpquic")
SINGLE = ("tcp", "quic")
"""Those that use the first path alone."""
COLUMNS = ("get.completed", "get.max_completion_ms")
LARGE, SHORT = 20_480_000, 262_144
"""Bytes of a download, as the scripts have them: 20,000 kB and 256 kB."""
LEAST_QUEUE = 10
"""Packets; the scripts take no fewer."""
NETEM_QUEUE = 1_000
PACKET = 1_500
"""Bytes that the scripts count for a packet."""

_text = partial(file_text, __package__)


EFFORTS = efforts(__package__)


class Reading(BaseModel):
    """What the paper may mean where it is silent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    about: str
    queue: Literal["netem", "delay", "bdp"]
    """How long the queues are."""
    stack: str
    """Whose transports; one of the file's `stacks`."""


@dataclass(frozen=True)
class Path:
    """A path of a point: Mbit/s, ms each way, queueing delay in s, per cent lost each way."""

    rate: float
    delay: float
    queue: float
    loss: float

    def packets(self, reading: str) -> int:
        """The length of its queue under a reading, in packets."""
        if reading == "netem":
            return NETEM_QUEUE
        seconds = self.queue if reading == "delay" else 2e-3 * self.delay
        return max(LEAST_QUEUE, int(self.rate * 1e6 / 8 / PACKET * seconds))

    def settings(self, link: str, reading: str) -> Settings:
        """The values of a link of the scenario."""
        return {
            f"links.{link}.rate": f"{self.rate} Mbit/s",
            f"links.{link}.delay": f"{self.delay} ms",
            f"links.{link}.queue": {"kind": "drop_tail", "packets": self.packets(reading)},
            f"links.{link}.loss.probability": f"{self.loss} %",
        }


@cache
def _file() -> dict[str, object]:
    return tomllib.loads(_text("readings.toml"))


@cache
def readings() -> tuple[Reading, ...]:
    """The readings, the paper's own scripts first."""
    rows = _file()["reading"]
    assert isinstance(rows, list)
    return tuple(map(Reading.model_validate, rows))


@cache
def designs() -> pl.DataFrame:
    """The points of all designs: design, point, and rate, delay, queue and loss of both paths."""
    return published(__package__, "designs.csv")


def topologies(design: str, step: int) -> Iterator[tuple[str, tuple[Path, Path]]]:
    """Every `step`-th point of a design: `17` and, with its paths exchanged, `17r`."""
    for row in designs().filter(design=design).iter_rows(named=True):
        if row["point"] % step:
            continue
        names = ("rate", "delay", "queue", "loss")
        first, second = (Path(*(float(row[f"{name}{n}"]) for name in names)) for n in (1, 2))
        yield str(row["point"]), (first, second)
        yield f"{row['point']}r", (second, first)


def work(reading: Reading, design: str, bytes_: int, step: int, runs: int) -> Work:
    """The downloads of one design under one reading."""
    stacks = _file()["stacks"]
    assert isinstance(stacks, dict)
    lines = ["[sweep]", f"metrics = {inline(list(COLUMNS))}", "", "[sweep.axes.topology.cases]"]
    for name, paths in topologies(design, step):
        settings = {
            key: value
            for link, path in zip(("first", "second"), paths, strict=True)
            for key, value in path.settings(link, reading.queue).items()
        }
        lines.append(f"{inline(name)} = {inline(settings)}")
    lines += ["", "[sweep.axes.transport.cases]"]
    for name in TRANSPORTS:
        used = ["first"] if name in SINGLE else ["first", "second"]
        settings = {"flows.get.paths": used, "flows.get.transport": stacks[reading.stack][name]}
        lines.append(f"{name} = {inline(settings)}")
    network = _text("scenario.toml").partition("\n[sweep]\n")[0]
    sets = as_sets({"flows.get.app.response_size": f"{bytes_} B"})
    size = "short" if bytes_ == SHORT else "large"
    return Work(
        f"{reading.name}/{design}-{size}",
        f"{size}, {DESIGNS[design]}, {reading.title}",
        Scenario.parse(f"{network}\n\n" + "\n".join(lines) + "\n", sets),
        lambda _key: runs,
        COLUMNS,
    )


def works(effort: Effort) -> dict[tuple[str, str, str], Work]:
    """All studies by reading, design and size: `large` in every design, `short` in `low`."""
    found = {}
    for reading in readings():
        for design in DESIGNS:
            own = work(reading, design, LARGE, effort.of("step"), effort.of("runs"))
            found[reading.name, design, "large"] = own
        own = work(reading, "low", SHORT, effort.of("short"), effort.of("runs"))
        found[reading.name, "low", "short"] = own
    return found
