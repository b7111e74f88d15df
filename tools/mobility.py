"""How a call survives the loss of its Wi-Fi: by ASCONF before or after it, or by failover only.

`python tools/mobility.py FOLDER` writes the generated part of `mobility.md` and its figure
`mobility-mos.png` there. This takes some seconds.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from matplotlib.figure import Figure

import anabranch
import marked
from anabranch.figures import plots, run_plots
from anabranch.stats import mean_interval
from anabranch.studies import library
from anabranch.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.artist import Artist

REPLICATIONS = 20
LOSS_S = 15.0
"""When the Wi-Fi is lost, in seconds, in both scenarios."""

_BEGIN = "<!-- generated: python tools/mobility.py docs -->"
_END = "<!-- end of generated -->"
_SIDES = (("a", "to the server"), ("b", "to the phone"))


@dataclass(frozen=True)
class Way:
    """One way to survive the loss."""

    name: str
    scenario: str
    sets: dict[str, str]


_BOTH_THERE = {"flows.call.addresses": "[]"}
_DEFAULTS = {"flows.call.transport": '{ kind = "sctp", profile = "rfc9260" }'}

WAYS = (
    Way("ASCONF, make before break", "mobility-make-before-break", {}),
    Way("ASCONF, break before make", "mobility-break-before-make", {}),
    Way("failover alone", "mobility-make-before-break", _BOTH_THERE),
    Way(
        "failover alone, defaults of RFC 9260",
        "mobility-make-before-break",
        {**_BOTH_THERE, **_DEFAULTS},
    ),
)


@dataclass(frozen=True)
class CallSide:
    """The results of one direction of one call."""

    way: str
    side: str
    interruption_ms: float
    """The longest run of frames that were not played, in ms."""
    rto_ms: float
    """The RTO of the Wi-Fi path when it was lost."""
    before: float
    """Mean MOS of the seconds before 8 s."""
    worst: float
    """MOS of the worst second."""
    after: float
    """Mean MOS of the seconds from 19 s on."""
    mos: float
    """MOS of the whole call."""


def run(way: Way, replication: int) -> Result:
    """One traced call."""
    path = library.scenarios()[way.scenario]
    return anabranch.run(path, set=way.sets, replication=replication, trace=True)


def outcomes() -> list[CallSide]:
    """The results for every way, replication and direction."""
    replications = range(REPLICATIONS)
    return [
        o for way in WAYS for replication in replications for o in outcomes_of(way, replication)
    ]


def outcomes_of(way: Way, replication: int) -> list[CallSide]:
    """Both directions of one call."""
    result = run(way, replication)
    return [_outcome(way.name, result, side) for side, _ in _SIDES]


def _outcome(way: str, result: Result, side: str) -> CallSide:
    seconds = result.traces["ratings"].filter(pl.col("side") == side)
    paths = result.traces["paths"].filter(
        (pl.col("side") == side) & (pl.col("path") == 0) & (pl.col("time_s") < LOSS_S)
    )
    direction = {"a": "a_to_b", "b": "b_to_a"}[side]
    return CallSide(
        way=way,
        side=side,
        interruption_ms=result.summary[f"call.{direction}.longest_gap_ms"],
        rto_ms=paths["rto_ms"][-1],
        before=_mean(seconds.filter(pl.col("end_s") <= 8)),
        worst=min(seconds["mos"]),
        after=_mean(seconds.filter(pl.col("start_s") >= 19)),
        mos=result.summary[f"call.{direction}.mos"],
    )


def _mean(seconds: pl.DataFrame) -> float:
    return math.fsum(seconds["mos"]) / seconds.height


def table(found: list[CallSide]) -> str:
    """The outcomes as a table in Markdown."""
    lines = [
        "| way | direction | gap, ms | RTO, ms | MOS before | worst second | after | call |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for way in WAYS:
        for side, direction in _SIDES:
            rows = [row for row in found if (row.way, row.side) == (way.name, side)]
            values = [
                _with_interval([row.interruption_ms for row in rows], 0),
                _with_interval([row.rto_ms for row in rows], 0),
                *(
                    _with_interval([getattr(row, name) for row in rows], 2)
                    for name in ("before", "worst", "after", "mos")
                ),
            ]
            lines.append(f"| {way.name} | {direction} | {' | '.join(values)} |")
    return "\n".join(lines)


def _with_interval(values: list[float], digits: int) -> str:
    mean, half_width, _ = mean_interval(values)
    return f"{mean:.{digits}f} ± {half_width:.{digits}f}"


def figure() -> Figure:
    """MOS of each second towards the phone, with a panel for each way."""
    with plots.style():
        drawn = plots.blank(8, 7.2)
        panels = drawn.subplots(len(WAYS), 1, sharex=True)
        names: list[Artist] = []
        for axes, way in zip(panels, WAYS, strict=True):
            result = run(way, 0)
            seconds = result.traces["ratings"].filter(pl.col("side") == "b")
            changes = run_plots.primary_changes(result, "call", "b")
            shown = run_plots.draw_rating(axes, seconds, changes, ("wifi", "lte"))
            names = max(names, shown, key=len)
            axes.axvspan(LOSS_S, seconds["end_s"][-1], color=plots.FAILED, linewidth=0, zorder=0)
            axes.set_title(way.name, pad=16)
        panels[-1].set_xlabel("time (s); grey: no Wi-Fi; the strip is of the server")
        plots.legend(drawn, names)
        return drawn


def page(text: str) -> str:
    """The page with a new generated part."""
    return marked.replaced(text, _BEGIN, _END, table(outcomes()))


def main() -> int:
    """Writes the page and its figure."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    path = folder / "mobility.md"
    path.write_text(page(path.read_text("utf-8")), encoding="utf-8")
    print(f"wrote {path}")
    for written in plots.save(figure(), folder / "mobility-mos", ("png",)):
        print(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
