"""TCP of profile `linux_6`, the TCP of Linux 6.12, and ns-3's, on one lossy bottleneck.

The kernel was measured three times for each congestion control and loss, 30 s each, with the same
three patterns of loss for every control; ours is the mean of many replications. ns-3's numbers are
its means over runs of 60 s.
"""

import csv
import gzip
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from statistics import fmean
from typing import Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.figures import plots
from anabranch.stats import mean_interval
from anabranch.studies.result import load, run
from anabranch.support import progress

Verdict = Literal["within", "in_interval", "outside"]

TOLERANCE = 0.10
REPLICATIONS = 100
SEGMENT_BYTES = 1448
"""Bytes of data in a full segment with timestamps."""

HEADS = (
    "control",
    "loss, %",
    "Linux, kbit/s",
    "± Linux",
    "ours, kbit/s",
    "± ours",
    "deviation, %",
    "at its loss, kbit/s",
    "deviation there, %",
    "ns-3, kbit/s",
    "ns-3's deviation, %",
    "cause",
)
"""The heads of `cells`."""

CAUSES = {
    "a": "the kernel's three patterns of loss lost fewer or more packets than the nominal share",
}
"""What causes a deviation; docs/linux-tcp.md has the evidence."""

_NS3_NAMES = {"reno": "LinuxReno", "westwood": "WestwoodPlus", "highspeed": "HighSpeed"}


@dataclass(frozen=True)
class Row:
    """One congestion control at one loss.

    Goodputs are in kbit/s, half-widths those of 95 % intervals.
    """

    control: str
    loss_percent: str
    kernel: float
    kernel_half_width: float
    ours: float
    half_width: float
    ours_at_its_loss: float
    """Our goodput with the shares of lost packets that the kernel's three runs had."""
    ns3: float
    """ns-3's goodput; NaN where it was not measured."""
    kernel_runs: tuple[float, ...] = ()
    """The kernel's goodput with each of its patterns of loss."""
    lost: tuple[float, ...] = ()
    """The share of packets that each of the kernel's runs lost."""

    @property
    def deviation(self) -> float:
        """Our mean as a share of the kernel's, less one."""
        return self.ours / self.kernel - 1

    @property
    def deviation_at_its_loss(self) -> float:
        """Our mean at the kernel's own losses as a share of the kernel's mean, less one."""
        return self.ours_at_its_loss / self.kernel - 1

    @property
    def ns3_deviation(self) -> float:
        """ns-3's mean as a share of the kernel's, less one."""
        return self.ns3 / self.kernel - 1

    @property
    def verdict(self) -> Verdict:
        """Whether our mean is within the tolerance, or else within the combined interval."""
        if abs(self.deviation) <= TOLERANCE:
            return "within"
        half_width = math.hypot(self.kernel_half_width, self.half_width)
        return "in_interval" if abs(self.ours - self.kernel) <= half_width else "outside"

    @property
    def cause(self) -> str:
        """The letter for the cause of a deviation outside of these; `?` if it is unknown."""
        if self.verdict != "outside":
            return ""
        return "a" if abs(self.deviation_at_its_loss) <= TOLERANCE else "?"


@dataclass(frozen=True)
class Measured:
    """The goodputs that others measured at one congestion control and loss, in kbit/s."""

    control: str
    loss_percent: str
    kernel: tuple[float, ...]
    lost: tuple[float, ...]
    """The share of packets after the queue that each of the kernel's runs lost."""
    ns3: float


def kernel_rows() -> list[Measured]:
    """The entries of the kernel's file and ns-3's, one for each control and loss."""
    ns3 = {
        (line["cc"], round(float(line["loss"]) * 100, 6)): float(line["goodput_mbps"]) * 1e3
        for line in _lines("ns3_tcp_loss.csv")
    }
    grouped = groupby(_lines("linux_tcp_10mbit.csv"), lambda line: (line["cc"], line["loss_pct"]))
    rows = []
    for (control, loss), group in grouped:
        lines = list(group)
        name = _NS3_NAMES.get(control, control.capitalize())
        rows.append(
            Measured(
                control=control,
                loss_percent=loss,
                kernel=tuple(float(line["goodput_bps"]) / 1e3 for line in lines),
                lost=tuple(int(line["wire_lost"]) / int(line["queue_sent_pkts"]) for line in lines),
                ns3=ns3.get((name, float(loss)), math.nan),
            )
        )
    return rows


def _lines(name: str) -> list[dict[str, str]]:
    text = (files(__package__) / name).read_text("utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def scenario(control: str, loss: float) -> Scenario:
    """The scenario with one control and one share of lost packets."""
    text = (files(__package__) / "linux_tcp_10mbit.toml").read_text("utf-8")
    settings: dict[str, str | float | bool] = {
        "flows.bulk.transport.cc.kind": control,
        "links.wan.loss.probability": f"{loss:.9f}",
    }
    return load(text, settings)


def compare(
    rows: Sequence[Measured], replications: int = REPLICATIONS, jobs: int = 1
) -> Iterator[Row]:
    """The kernel's rows beside ours; each is yielded once computed."""
    for row in rows:
        share = float(row.loss_percent) / 100
        nominal = _goodputs(row.control, share, replications, jobs)
        ours, half_width, _ = mean_interval(nominal)
        few = -(-replications // len(row.lost))
        at_its_loss = [
            # Without loss this has just been computed.
            nominal if lost == share else _goodputs(row.control, lost, few, jobs)
            for lost in row.lost
        ]
        kernel, kernel_half_width, _ = mean_interval(row.kernel)
        yield Row(
            control=row.control,
            loss_percent=row.loss_percent,
            kernel=kernel,
            kernel_half_width=_finite(kernel_half_width),
            ours=ours,
            half_width=_finite(half_width),
            ours_at_its_loss=fmean(fmean(goodputs) for goodputs in at_its_loss),
            ns3=row.ns3,
            kernel_runs=row.kernel,
            lost=row.lost,
        )


def _goodputs(control: str, loss: float, replications: int, jobs: int) -> Sequence[float]:
    runs = [(0, replication) for replication in range(replications)]
    return _engine.run_batch(scenario(control, loss), runs, jobs)["bulk.goodput_kbit_per_s"]


def _finite(half_width: float) -> float:
    return half_width if math.isfinite(half_width) else 0.0


def summary(rows: Sequence[Row]) -> list[str]:
    """How far our numbers and ns-3's are from the kernel's, over all cells with loss."""
    lossy = [row for row in rows if float(row.loss_percent) > 0]
    both = [row for row in lossy if not math.isnan(row.ns3)]
    verdicts = [row.verdict for row in rows]
    return [
        f"{verdicts.count('within')} of {len(rows)} within {TOLERANCE:.0%} of the kernel's mean, "
        f"{verdicts.count('in_interval')} more within the combined 95 % interval, "
        f"{verdicts.count('outside')} outside.",
        f"Mean relative deviation over the {len(lossy)} cells with loss: "
        f"{fmean(abs(row.deviation) for row in lossy):.3f}, where as many packets are lost as in "
        f"the kernel's runs {fmean(abs(row.deviation_at_its_loss) for row in lossy):.3f}; "
        f"over the {len(both)} cells of ns-3: {fmean(abs(row.deviation) for row in both):.3f}, "
        f"ns-3's {fmean(abs(row.ns3_deviation) for row in both):.3f}.",
    ]


def notes(rows: Sequence[Row]) -> list[str]:
    """What readers should know first: where all controls deviate to the same side, and why.

    Every control of the kernel met the same patterns of loss, so there are as many samples of the
    deviation as there are patterns, however many controls there are.
    """
    lines = []
    for loss in dict.fromkeys(row.loss_percent for row in rows if float(row.loss_percent) > 0):
        here = [row for row in rows if row.loss_percent == loss and row.kernel_runs]
        sides = {row.deviation > 0 for row in here}
        if len(here) < 2 or len(sides) > 1:
            continue
        lost = fmean(share for row in here for share in row.lost)
        deviation = fmean(row.deviation for row in here)
        rest, half_width, patterns = mean_interval(
            [
                fmean(row.ours_at_its_loss / run - 1 for row, run in zip(here, runs, strict=True))
                for runs in zip(*(row.kernel_runs for row in here), strict=True)
            ]
        )
        rest_words = (
            f"{abs(rest):.1%} {'above' if rest > 0 else 'below'} with an interval of"
            f" ± {half_width:.1%} over the {patterns} patterns"
        )
        end = ", too few to tell it from none." if abs(rest) <= half_width else "."
        side = "above" if True in sides else "below"
        lines.append(
            f"At {loss} % loss all {len(here)} controls read {side}"
            f" Linux, by {abs(deviation):.1%} on average, because all of the kernel's saw the same"
            f" {patterns} patterns of loss, which took {lost:.2%} of the packets: where as many are"
            f" lost, ours are {rest_words}{end}"
        )
    return lines


def cells(row: Row) -> list[str]:
    """A row as text."""
    has_ns3 = not math.isnan(row.ns3)
    return [
        row.control,
        row.loss_percent,
        f"{row.kernel:.0f}",
        f"{row.kernel_half_width:.0f}",
        f"{row.ours:.0f}",
        f"{row.half_width:.0f}",
        f"{100 * row.deviation:+.1f}",
        f"{row.ours_at_its_loss:.0f}",
        f"{100 * row.deviation_at_its_loss:+.1f}",
        f"{row.ns3:.0f}" if has_ns3 else "",
        f"{100 * row.ns3_deviation:+.1f}" if has_ns3 else "",
        row.cause,
    ]


def as_csv(rows: Sequence[Row]) -> str:
    """One line for each row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = ("kernel", "kernel_half_width", "ours", "half_width", "ours_at_its_loss", "ns3")
    writer.writerow(["control", "loss_percent", *fields, "verdict"])
    for row in rows:
        numbers = (getattr(row, field) for field in fields)
        texts = ["" if math.isnan(number) else f"{number:.3f}" for number in numbers]
        writer.writerow([row.control, row.loss_percent, *texts, row.verdict])
    return out.getvalue()


def kernel_traces() -> pl.DataFrame:
    """The kernel's windows: control, loss_percent, time_s; cwnd and ssthresh in segments."""
    packed = (files(__package__) / "linux_tcp_10mbit_trace.csv.gz").read_bytes()
    frame = pl.read_csv(gzip.decompress(packed))
    tag = pl.col("tag").str.split("/")
    return frame.select(
        control=tag.list.get(0),
        loss_percent=tag.list.get(1),
        time_s=pl.col("t_s"),
        cwnd="cwnd",
        ssthresh="ssthresh",
    )


def figures(_rows: Sequence[Row] = ()) -> dict[str, Figure]:
    """The congestion windows of one of our runs over the kernel's, with a panel for each pair.

    Without loss both meet the same conditions; with loss the patterns differ, and so do the
    reductions.
    """
    kernel = kernel_traces()
    losses = kernel["loss_percent"].unique(maintain_order=True).to_list()
    controls = kernel["control"].unique(maintain_order=True).to_list()
    with plots.style():
        figure = plots.blank(10, 1.9 * len(controls))
        panels = figure.subplots(len(controls), len(losses), sharex=True, squeeze=False)
        with progress.steps("windows", panels.size) as step:
            for row, control in zip(panels, controls, strict=True):
                for axes, loss in zip(row, losses, strict=True):
                    is_this = (pl.col("control") == control) & (pl.col("loss_percent") == loss)
                    _draw_windows(axes, control, loss, kernel.filter(is_this))
                    step()
        for axes in panels[-1]:
            axes.set_xlabel("time (s)")
        figure.suptitle(
            "Congestion window in segments: Linux 6.12 (thin, orange) and ours (blue)",
            x=0.01,
            ha="left",
        )
    return {"linux-tcp-windows": figure}


def _draw_windows(axes: Axes, control: str, loss_percent: str, kernel: pl.DataFrame) -> None:
    result = run(scenario(control, float(loss_percent) / 100), trace=True)
    ours = result.traces["paths"].filter(pl.col("side") == "a")
    windows = ours["cwnd_bytes"] / SEGMENT_BYTES
    axes.plot(ours["time_s"], windows, color=plots.COLOURS[0], linewidth=1.2)
    axes.plot(kernel["time_s"], kernel["cwnd"], color=plots.ACCENT, linewidth=0.9)
    axes.set_ylim(0, None)
    axes.set_title(f"{control}, {loss_percent} % loss")
