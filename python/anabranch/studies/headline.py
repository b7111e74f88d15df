"""A run in a few lines: what ran, its results, and what held it back."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from anabranch._engine import Scenario
from anabranch.studies import nothing
from anabranch.support import wording
from anabranch.support.quantities import bits_per_second, milliseconds

FULL = 0.9
"""The share of its rate from which on a link is called full, as in `explain`."""

_MOST_FLOWS = 5
_MOST_OBSTACLES = 3

_LOST = {
    "lost_packets": "lost",
    "corrupted_packets": "damaged",
    "down_packets": "lost while it was down",
    "queue_full_packets": "dropped at a full queue",
    "aqm_packets": "dropped by the AQM",
}
"""Scalar -> what the link did to these packets, in words."""


class Finished(Protocol):
    """What the lines are made from; `Result` has all of it."""

    @property
    def scenario(self) -> Scenario:
        """The scenario that ran."""

    @property
    def cell(self) -> int:
        """The cell of its sweep."""

    @property
    def seed(self) -> int:
        """The seed of its random numbers."""

    @property
    def replication(self) -> int:
        """The number of the replication."""

    @property
    def summary(self) -> Mapping[str, float]:
        """Every scalar by name."""


def lines(result: Finished) -> list[str]:
    """What ran, the result of each flow, and what held it back."""
    scenario = result.scenario
    tree = tomllib.loads(scenario.cell_toml(result.cell))
    time = wording.number(result.summary.get("run.simulated_s"), 4)
    which = f"seed {result.seed}, replication {result.replication}"
    if scenario.cell_count > 1:
        which = f"cell {result.cell} of {scenario.cell_count}, {which}"
    said = [f"{scenario.name}: {time} s simulated ({which})"]
    flows = list(_flows(result.summary, tree))
    said += flows[:_MOST_FLOWS]
    if len(flows) > _MOST_FLOWS:
        said.append(f"and {len(flows) - _MOST_FLOWS} more flows")
    said.append(_obstacles(result.summary, tree))
    return said


def _flows(summary: Mapping[str, float], tree: Mapping[str, Any]) -> Iterator[str]:
    """A line for each flow with a result, or for each of its directions if both have one."""
    for name, flow in tree["flows"].items():
        count = flow.get("count", 1)
        for member in [name] if count == 1 else [f"{name}_{i}" for i in range(1, count + 1)]:
            for way in ("", ".a_to_b", ".b_to_a"):
                section = f"{member}{way}"
                ends = (flow["from"], flow["to"])
                sender, receiver = ends[::-1] if way == ".b_to_a" else ends
                parts = list(_facts(summary, section))
                if reason := nothing.why(summary, member, way):
                    parts.append(reason)
                if parts:
                    over = " + ".join(flow["paths"])
                    transport = flow["transport"]["kind"]
                    yield (
                        f"{member}, {transport} from {sender} to {receiver} over {over}: "
                        f"{'; '.join(parts)}"
                    )


def _facts(summary: Mapping[str, float], section: str) -> Iterator[str]:
    """The main results of a flow, with units, as far as they have a value."""

    def value(name: str) -> float:
        return summary.get(f"{section}.{name}", math.nan)

    if value("mos") >= 0:
        missing = value("late") + value("lost")
        yield f"MOS {value('mos'):.2f}"
        yield f"{missing:,.0f} of {value('sent'):,.0f} frames not played"
    if (made := value("frames_made")) >= 0:
        yield f"{value('frames_lost'):,.0f} of {made:,.0f} frames not shown"
        delay = value("p95_frame_delay_ms")
        if delay >= 0:
            yield f"95 % of the others within {_time(delay)}"
        count = wording.counted(int(value("freezes")), "freeze")
        yield f"{count}, {value('frozen_percent'):.3g} % of the time"
    if (rate := value("goodput_kbit_per_s")) >= 0:
        yield f"goodput {wording.rate(rate * 1e3)}"
    if (seconds := value("completion_s")) >= 0:
        yield f"complete after {wording.number(seconds, 4)} s"
    if value("rpm") >= 0:
        yield f"{value('rpm'):,.0f} round trips per minute"
    for name, what in (("completion", "requests"), ("page_load", "pages")):
        if (time := value(f"p95_{name}_ms")) >= 0:
            yield f"95 % of the {what} within {_time(time)}"
    if (delay := value("mean_delay_ms")) >= 0:
        yield f"mean delay {_time(delay)}"
    if value("failed") > 0:
        yield f"{value('failed'):,.0f} of {value('started'):,.0f} failed"


def _obstacles(summary: Mapping[str, float], tree: Mapping[str, Any]) -> str:
    """Links that lost packets or were full, the worst first, and timeouts."""
    obstacles = sorted(_of_links(summary, tree), reverse=True)
    texts = [text for _, text in obstacles[:_MOST_OBSTACLES]]
    if len(obstacles) > _MOST_OBSTACLES:
        texts.append(f"{wording.counted(len(obstacles) - _MOST_OBSTACLES, 'other link direction')}")
    expired = sum(value for name, value in summary.items() if name.endswith(".timeouts"))
    if expired:
        texts.append(wording.counted(int(expired), "retransmission timeout"))
    if not texts:
        return "bottlenecks: none; nothing was lost, no link was full and no timer expired"
    return f"bottlenecks: {'; '.join(texts)}"


def _of_links(summary: Mapping[str, float], tree: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """The share of a link that was used or lost, with words for it, if it is worth mentioning."""
    seconds = summary.get("run.simulated_s", math.nan) - milliseconds(tree["run"]["warm_up"]) / 1e3
    for link, settings in tree["links"].items():
        for way, ends in (("forward", settings["ends"]), ("reverse", settings["ends"][::-1])):
            section = f"link.{link}.{way}"
            arrived = summary.get(f"{section}.arrived_packets", 0.0)
            if not arrived:
                continue
            where = f"{link} to {ends[1]}"
            rate = settings.get("rate")
            octets = summary.get(f"{section}.delivered_bytes", 0.0)
            carried = 8 * octets / seconds if seconds > 0 else 0.0
            of = bits_per_second(rate) if isinstance(rate, str) else math.nan
            if carried >= FULL * of:
                yield (
                    1 + carried / of,
                    f"{where} is full ({wording.rate(carried)} of {wording.rate(of)})",
                )
            for name, what in _LOST.items():
                if gone := summary.get(f"{section}.{name}", 0.0):
                    share = 100 * gone / arrived
                    text = f"{where}: {gone:,.0f} of {arrived:,.0f} packets {what}"
                    yield gone / arrived, f"{text} ({wording.number(share, 2)} %)"


def _time(ms: float) -> str:
    if ms >= 1e3:
        return f"{wording.number(ms / 1e3, 3)} s"
    return f"{wording.number(ms, 3)} ms"
