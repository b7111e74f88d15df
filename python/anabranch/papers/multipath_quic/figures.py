"""The figures: the ratios of times and the benefits of the second path, as distributions."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch.figures import plots
from anabranch.papers.plots import DASHED, stroke, verdict_matrix
from anabranch.papers.runs import Runs
from anabranch.papers.verdicts import by_claim

from .claims import SHORT
from .outcome import TITLES, MultipathQuicOutcome
from .studies import DESIGNS, readings

PAIRS = (
    ("TCP over QUIC, one path", "tcp_ms", "quic_ms", plots.COLOURS[0]),
    ("MPTCP over MP-QUIC", "mptcp_ms", "mpquic_ms", plots.COLOURS[1]),
)
"""What is divided by what, and its colour."""
BENEFITS = (
    ("MPTCP", "benefit_tcp", plots.COLOURS[0]),
    ("MP-QUIC", "benefit_quic", plots.COLOURS[1]),
)


def of(outcome: MultipathQuicOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    return {
        "verdicts": partial(verdicts, outcome),
        "ratios": partial(ratios, outcome),
        "benefits": partial(benefits, outcome),
    }


def verdicts(outcome: MultipathQuicOutcome) -> Figure:
    """Every claim under every reading."""
    rows = {
        f"{number}. {SHORT[number]}": [finding.verdict for finding in findings.values()]
        for number, findings in by_claim(outcome.claims).items()
    }
    return verdict_matrix(rows, [reading.title for reading in readings()])


def _distribution(axes: Axes, values: Sequence[float], label: str, colour: str) -> None:
    """A cumulative distribution as a line of steps."""
    ordered = np.sort(np.asarray(values, float))
    shares = np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
    axes.step(ordered, shares, where="post", color=colour, label=label)


def _panels(outcome: MultipathQuicOutcome, draw: Callable[[Axes, Runs], None]) -> Figure:
    """A panel for each design, under the first reading."""
    figure = plots.blank(10, 6)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for axes, design in zip(panels.flat, DESIGNS, strict=True):
        draw(axes, outcome.base.runs[design])
        plots.titled(axes, TITLES[design])
        axes.set_ylim(0, 1)
    for axes in panels[:, 0]:
        axes.set_ylabel("share of the topologies")
    return figure


def ratios(outcome: MultipathQuicOutcome) -> Figure:
    """The distribution of time over time: right of 1 QUIC is sooner."""

    def draw(axes: Axes, runs: Runs) -> None:
        for label, above, below, colour in PAIRS:
            ratio = (runs.frame[above] / runs.frame[below]).to_list()
            _distribution(axes, ratio, label, colour)
        axes.axvline(1, color=plots.QUIET, linestyle=DASHED, linewidth=0.8)
        plots.logarithmic(axes.xaxis)
        axes.set_xlim(0.2, 5)
        axes.set_xticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
        axes.minorticks_off()

    with plots.style():
        figure = _panels(outcome, draw)
        for axes in figure.axes[2:]:
            axes.set_xlabel("time of (MP)TCP over time of (MP-)QUIC")
        plots.legend(figure, [stroke(label, colour) for label, _, _, colour in PAIRS])
    return figure


def benefits(outcome: MultipathQuicOutcome) -> Figure:
    """The distribution of what the second path brings: 0 is the better path alone, 1 both."""

    def draw(axes: Axes, runs: Runs) -> None:
        for label, value, colour in BENEFITS:
            _distribution(axes, runs.frame[value].to_list(), label, colour)
        axes.axvline(0, color=plots.QUIET, linestyle=DASHED, linewidth=0.8)
        axes.set_xlim(-1, 1.5)

    with plots.style():
        figure = _panels(outcome, draw)
        for axes in figure.axes[2:]:
            axes.set_xlabel("aggregation benefit")
        plots.legend(figure, [stroke(label, colour) for label, _, colour in BENEFITS])
    return figure
