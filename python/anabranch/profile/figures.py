"""Figures of a profile: lengths of loss bursts, and the distribution of delays."""

import numpy as np
from matplotlib.figure import Figure

from anabranch.figures import plots

from .estimates import Profile
from .logs.mahimahi import OCTETS
from .loss import Losses
from .timed import TimedFit, TimedLosses

_LINES = {
    "bernoulli": (plots.QUIET, ":"),
    "simple_gilbert": (plots.COLOURS[0], "--"),
    "gilbert": (plots.COLOURS[2], "-."),
    "gilbert_elliott": (plots.COLOURS[1], "-"),
}


def of_profile(profile: Profile) -> dict[str, Figure]:
    """The figures `bursts` (`losses` for models in time), `delays` and `rate`, if there is data."""
    figures = {}
    with plots.style():
        if isinstance(profile.losses, Losses) and len(profile.losses.bursts) >= 5:
            if isinstance(profile.losses, TimedLosses):
                figures["losses"] = _after_losses(profile, profile.losses)
            else:
                figures["bursts"] = _bursts(profile, profile.losses)
        if profile.measurement.delays is not None:
            figures["delays"] = _delays(profile)
        if profile.measurement.opportunities is not None:
            figures["rate"] = _rate(profile)
    return figures


def _bursts(profile: Profile, losses: Losses) -> Figure:
    figure = plots.blank(9, 4)
    for axes, lengths, lost, title in zip(
        figure.subplots(1, 2),
        (losses.bursts, losses.gaps),
        (True, False),
        ("Bursts of losses", "Gaps between them"),
        strict=True,
    ):
        values, counts = np.unique(lengths, return_counts=True)
        beyond = 1 - np.concatenate([[0], np.cumsum(counts)[:-1]]) / counts.sum()
        axes.plot(values, beyond, "o", color="black", markersize=4, label="measured")
        grid = np.unique(np.geomspace(1, max(int(values[-1]), 2), 200).astype(int)).astype(float)
        for fit in profile.fits:
            assert not isinstance(fit, TimedFit)
            colour, line = _LINES[fit.model]
            chosen = fit is profile.loss
            axes.plot(
                grid,
                fit.survival(grid, lost),
                line,
                color=colour,
                linewidth=2.2 if chosen else 1.3,
                label=fit.model.replace("_", " ") + (" (chosen)" if chosen else ""),
            )
        plots.logarithmic(axes.yaxis)
        if not lost:
            plots.logarithmic(axes.xaxis)
        axes.set_ylim(0.5 / counts.sum(), 1.3)
        axes.set_title(title)
        axes.set_xlabel("packets in a row")
        if lost:
            axes.set_ylabel("share at least so long")
            axes.legend(frameon=False)
    return figure


def _after_losses(profile: Profile, losses: TimedLosses) -> Figure:
    figure = plots.blank(9, 4)
    axes = figure.subplots()
    for fit in profile.fits:
        assert isinstance(fit, TimedFit)
        after = losses.after_loss(fit)
        seen = after.packets > 0
        # A class that begins at 0 is drawn at half of its end, as the axis is logarithmic.
        at = np.concatenate([[after.edges_s[1] / 2], after.edges_s[1:]])[seen] * 1e3
        colour, line = _LINES[fit.model]
        chosen = fit is profile.loss
        axes.plot(
            at,
            after.expected[seen] / after.packets[seen],
            line,
            color=colour,
            linewidth=2.2 if chosen else 1.3,
            label=fit.model.replace("_", " ") + (" (chosen)" if chosen else ""),
        )
    axes.plot(
        at, after.lost[seen] / after.packets[seen], "o", color="black", markersize=4,
        label="measured",
    )  # fmt: skip
    plots.logarithmic(axes.xaxis)
    axes.set_ylim(0, None)
    axes.set_title("Packets lost by the time since a loss, and what the models expect")
    axes.set_xlabel("time since the last lost packet in ms")
    axes.set_ylabel("share lost")
    axes.legend(frameon=False)
    return figure


def _delays(profile: Profile) -> Figure:
    delays = profile.measurement.delays
    assert delays is not None
    milliseconds = delays.seconds * 1e3
    figure = plots.blank(9, 4)
    over, beside = figure.subplots(1, 2)
    shown = np.linspace(0, len(milliseconds) - 1, min(len(milliseconds), 20_000)).astype(int)
    over.plot(
        shown, milliseconds[shown], ".", markersize=2, color=plots.COLOURS[0], rasterized=True
    )
    over.set_title(delays.what[0].upper() + delays.what[1:])
    over.set_xlabel("number")
    over.set_ylabel("delay in ms" if delays.absolute else "delay above the least one in ms")
    ordered = np.sort(milliseconds)
    share = np.arange(1, len(ordered) + 1) / len(ordered)
    beside.step(ordered, share, color=plots.COLOURS[0])
    if profile.delay_s is not None:
        least = profile.delay_s.value * delays.legs * 1e3
        beside.axvline(least, color=plots.ACCENT, linewidth=1)
        beside.text(
            0.98,
            0.05,
            f"{least:.4g} ms without queue and jitter",
            transform=beside.transAxes,
            ha="right",
            color=plots.ACCENT,
        )
    beside.set_title("Share of the delays up to a value")
    beside.set_xlabel("ms")
    beside.set_ylim(0, 1.02)
    return figure


def _rate(profile: Profile) -> Figure:
    trace = profile.measurement.opportunities
    assert trace is not None
    seconds = trace.milliseconds / 1e3
    width = max(seconds[-1] / 300, 0.1)
    edges = np.arange(0, seconds[-1] + width, width)
    counts = np.histogram(seconds, edges)[0]
    figure = plots.blank(9, 3.2)
    axes = figure.subplots()
    axes.stairs(counts * OCTETS * 8 / width / 1e6, edges, color=plots.COLOURS[0])
    for begin, length in profile.outages:
        axes.axvspan(begin, begin + length, color=plots.FAILED, zorder=0)
    axes.set_title(f"What the link can send, in steps of {width:.2g} s; outages grey")
    axes.set_xlabel("s")
    axes.set_ylabel("Mbit/s")
    axes.set_ylim(bottom=0)
    return figure
