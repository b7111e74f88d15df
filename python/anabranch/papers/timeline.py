"""The timeline, a kind of figure: quantities of one run over time, and moments as marks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch.figures import plots

from .plots import Style, dot, stroke


@dataclass(frozen=True)
class Course:
    """A quantity over time, as a line; or as steps, where each value holds until the next."""

    label: str
    """What the legend calls it; it has no entry if this is empty."""
    colour: str
    time_s: Sequence[float] | pl.Series
    values: Sequence[float] | pl.Series
    is_stepped: bool = False
    style: Style = field(default_factory=dict)
    """Further arguments for Matplotlib's line; its line style is the legend's, too."""

    def draw(self, axes: Axes) -> None:
        """Adds it to the axes."""
        if self.is_stepped:
            axes.step(self.time_s, self.values, where="post", color=self.colour, **self.style)
        else:
            axes.plot(self.time_s, self.values, color=self.colour, **self.style)

    def entry(self) -> Line2D:
        """The legend's entry for it."""
        shown = {key: self.style[key] for key in ("linestyle",) if key in self.style}
        return stroke(self.label, self.colour, **shown)


@dataclass(frozen=True)
class Moments:
    """Moments as marks at one height."""

    label: str
    """What the legend calls them; they have no entry if this is empty."""
    colour: str
    times_s: Sequence[float]
    marker: str
    height: float
    """Where they stand, as a share of the axes' height."""
    style: Style = field(default_factory=dict)
    """Further arguments for Matplotlib's markers."""
    legend: Style = field(default_factory=dict)
    """Further arguments for the mark in the legend."""

    def draw(self, axes: Axes) -> None:
        """Adds them to the axes."""
        axes.plot(
            self.times_s,
            [self.height] * len(self.times_s),
            linestyle="none",
            marker=self.marker,
            color=self.colour,
            transform=axes.get_xaxis_transform(),
            **self.style,
        )

    def entry(self) -> Line2D:
        """The legend's entry for them."""
        return dot(self.label, self.colour, self.marker, **self.legend)


Shown = Course | Moments


@dataclass(frozen=True)
class Panel:
    """One run, or one view of it."""

    shown: Sequence[Shown]
    title: str = ""
    decorate: Callable[[Axes], None] = lambda _: None
    """Draws what only this figure has."""


def draw(axes: Axes, shown: Iterable[Shown]) -> None:
    """Adds all of them to the axes, in this order."""
    for one in shown:
        one.draw(axes)


def entries(shown: Iterable[Shown]) -> list[Line2D]:
    """The legend's entries, one for each label."""
    labelled: dict[str, Line2D] = {}
    for one in shown:
        if one.label:
            labelled.setdefault(one.label, one.entry())
    return list(labelled.values())


def over_paths(rates: pl.DataFrame, colours: Sequence[str], labels: Sequence[str]) -> list[Course]:
    """Throughput over each path, from `traces.path_rates`."""
    style = {"linewidth": 1.3}
    return [
        Course(label, colour, rows["time_s"], rows["mbps"], style=style)
        for path, (colour, label) in enumerate(zip(colours, labels, strict=True))
        for rows in [rates.filter(path=path)]
    ]


def stacked(
    panels: Sequence[Panel],
    height: float,
    label: str,
    until_s: float,
    *,
    time_label: str = "time (s)",
    bottom: float | None = 0.0,
    pad: float | None = None,
) -> Figure:
    """Panels above each other with one time and one scale, and a legend of all their labels.

    Parameters
    ----------
    panels
        From the top.
    height
        Of the figure, in inches.
    label
        Of the vertical axes, with the unit.
    until_s
        Where the time ends; it begins at 0.
    time_label
        Of the time's axis.
    bottom
        Where the vertical axes begin; by the data if None.
    pad
        Points between a panel and its title; Matplotlib's own if None.
    """
    with plots.style():
        figure = plots.blank(10, height)
        grid = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, panel in zip(grid, panels, strict=True):
            draw(axes, panel.shown)
            panel.decorate(axes)
            axes.set_xlim(0, until_s)
            axes.set_ylabel(label)
            if panel.title:
                axes.set_title(panel.title, pad=pad)
        grid[-1].set_xlabel(time_label)
        # The panels share the axis: only when all has been drawn is its end known.
        if bottom is not None:
            grid[-1].set_ylim(bottom=bottom)
        plots.legend(figure, entries(one for panel in panels for one in panel.shown))
        return figure
