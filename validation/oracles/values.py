"""What comparisons share that put one number beside another: rows, and how to show them."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.figures import plots
from anabranch.stats import mean_interval

Verdict = Literal["within", "in_range", "outside"]

TOLERANCE = 0.10


IN_RANGE = "a"
UNITS = {
    "goodput": "kbit/s",
    "best flow": "kbit/s",
    "worst flow": "kbit/s",
    "rtt": "ms",
    "retransmitted": "segments",
    "dropped": "packets",
    "sent": "packets",
    "packets 1": "packets",
    "packets 2": "packets",
    "stall": "s",
    "goodput / C": "1",
    "rtt A": "ms",
    "rtt B": "ms",
    "cwnd A": "segments",
    "cwnd B": "segments",
    "queue": "packets",
    "sojourn": "ms",
    "p95 sojourn": "ms",
}
"""The units of the quantities in all these comparisons."""

CAUSES = {IN_RANGE: "theirs lies in the range in which ours does with 95 %"}
"""Causes that all these comparisons share."""


@dataclass(frozen=True)
class Measured:
    """One quantity of one setting, as another implementation has it."""

    key: Mapping[str, str]
    quantity: str
    theirs: float


@dataclass(frozen=True)
class Value:
    """The same quantity with our mean, and a range where 95 % of such results would lie."""

    key: Mapping[str, str]
    quantity: str
    theirs: float
    mean: float
    low: float
    high: float
    known: str = ""
    """The letter of the cause if their number is outside of the range."""

    @property
    def deviation(self) -> float:
        """Our mean as a share of their number, less one."""
        if self.mean == self.theirs:
            return 0.0
        return self.mean / self.theirs - 1 if self.theirs else math.inf

    @property
    def verdict(self) -> Verdict:
        """Whether our mean is within the tolerance, or else their number within our range."""
        if abs(self.deviation) <= TOLERANCE:
            return "within"
        return "in_range" if self.low <= self.theirs <= self.high else "outside"

    @property
    def cause(self) -> str:
        """The letter for the cause of a deviation above the tolerance; `?` if it is unknown."""
        letters = {"within": "", "in_range": IN_RANGE, "outside": self.known or "?"}
        return letters[self.verdict]


def lines(name: str) -> list[dict[str, str]]:
    """The lines of a file of numbers beside this module, without comments."""
    text = (files(__package__) / name).read_text("utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def text(name: str) -> str:
    """The text of a scenario beside this module."""
    return (files(__package__) / name).read_text("utf-8")


def settings(
    rows: Sequence[Measured],
) -> Iterator[tuple[Mapping[str, str], list[Measured]]]:
    """Each setting with its quantities."""
    for key, group in groupby(rows, lambda row: row.key):
        yield key, list(group)


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """The range of 95 % of the values, from order statistics."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(0.025 * last)], ordered[round(0.975 * last)]


def range_of_means(values: Sequence[float], count: int) -> tuple[float, float]:
    """The 95 % range for the mean of `count` further runs (Student's prediction interval)."""
    mean, half_width, n = mean_interval(values)
    if not math.isfinite(half_width):
        return mean, mean
    half_width *= math.sqrt(1 + n / count)
    return mean - half_width, mean + half_width


def heads(keys: Sequence[str], theirs: str) -> tuple[str, ...]:
    """The heads of `cells`."""
    return (*keys, "quantity", "unit", theirs, "ours", "ours, 95 % range", "deviation, %", "cause")


def cells(value: Value) -> list[str]:
    """A value as text."""
    return [
        *value.key.values(),
        value.quantity,
        UNITS[value.quantity],
        number(value.theirs),
        number(value.mean),
        f"{number(value.low)} to {number(value.high)}",
        f"{100 * value.deviation:+.1f}",
        value.cause,
    ]


def number(value: float) -> str:
    """A number with as many digits as are useful."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def counts(values: Sequence[Value]) -> dict[str, dict[Verdict, int]]:
    """How many values have which verdict, for each quantity."""
    verdicts: tuple[Verdict, ...] = ("within", "in_range", "outside")
    names = dict.fromkeys(value.quantity for value in values)
    return {
        name: {v: sum(x.verdict == v for x in values if x.quantity == name) for v in verdicts}
        for name in names
    }


def as_csv(values: Sequence[Value]) -> str:
    """One line for each value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    keys = list(values[0].key) if values else []
    writer.writerow([*keys, "quantity", "theirs", "mean", "low", "high", "verdict", "cause"])
    for value in values:
        numbers = (value.theirs, value.mean, value.low, value.high)
        texts = [f"{x:.6g}" for x in numbers]
        writer.writerow([*value.key.values(), value.quantity, *texts, value.verdict, value.cause])
    return out.getvalue()


_COLUMNS = 4
"""Panels side by side in a figure."""

_FARTHEST = 2.0
"""Where a figure's scale ends, as a multiple of their number: values beyond it would make the rest
unreadable.
"""


def figure(values: Sequence[Value], theirs: str) -> Figure:
    """Our means and ranges over their numbers: a panel for each quantity, lines for settings."""
    names = list(dict.fromkeys(value.quantity for value in values))
    settings = list(dict.fromkeys(" ".join(value.key.values()) for value in values))
    columns = min(_COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    with plots.style():
        figure = plots.blank(10, 0.8 + (0.19 * len(settings) + 0.6) * lines)
        grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(names) :]:
            axes.set_visible(False)
        for axes, (name, group) in zip(grid.flat, _by_quantity(values), strict=False):
            axes.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color=plots.FAILED)
            axes.axvline(1.0, color=plots.QUIET, linewidth=0.8)
            for value in group:
                y = settings.index(" ".join(value.key.values()))
                colour = plots.ACCENT if value.verdict == "outside" else plots.COLOURS[0]
                shares = (_share(value, number) for number in (value.low, value.high, value.mean))
                low, high, mean = (min(share, _FARTHEST) for share in shares)
                axes.plot((low, high), (y, y), color=colour, linewidth=1.0)
                marker = ">" if mean == _FARTHEST else "o"
                axes.plot(mean, y, marker, color=colour, markersize=4)
            axes.set_title(name)
            axes.grid(visible=False)
        grid[0][0].set_yticks(range(len(settings)), settings)
        grid[0][0].set_ylim(len(settings) - 0.5, -0.5)
        # The lowest panel of each column.
        for axes in grid.flat[max(len(names) - columns, 0) : len(names)]:
            axes.set_xlabel(f"ours / {theirs}'s")
            axes.tick_params(labelbottom=True)
        dot: Any = {"marker": "o", "markersize": 4, "linewidth": 1.0}
        handles = [
            Line2D([], [], color=plots.COLOURS[0], label="mean and 95 % range of ours", **dot),
            Line2D([], [], color=plots.ACCENT, label="theirs lies outside", **dot),
            Patch(color=plots.FAILED, label=f"within {100 * TOLERANCE:g} %"),
        ]
        if any(_share(value, value.mean) >= _FARTHEST for value in values):
            far = f"{_FARTHEST:g} times and more"
            handles.append(Line2D([], [], color="black", marker=">", linestyle="", label=far))
        plots.legend(figure, handles)
    return figure


def _share(value: Value, number: float) -> float:
    """A number as a share of theirs; 1 where both are 0."""
    if value.theirs:
        return number / value.theirs
    return 1.0 if number == 0 else math.inf


def _by_quantity(values: Sequence[Value]) -> Iterator[tuple[str, list[Value]]]:
    names = list(dict.fromkeys(value.quantity for value in values))
    ordered = sorted(values, key=lambda value: names.index(value.quantity))
    for name, group in groupby(ordered, lambda value: value.quantity):
        yield name, list(group)
