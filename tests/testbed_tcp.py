"""TCP of this machine's kernel beside our own, on the same scenarios: a part of docs/testbed.md.

`python tests/testbed_tcp.py FOLDER` writes the table into FOLDER/testbed.md between its marks, and
the windows over each other to FOLDER/testbed-windows.png. It takes half an hour of real time. A run
in which the emulator was late is discarded and made again.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import anabranch
from anabranch.emulate import testbed
from anabranch.figures import plots

BEGIN = "<!-- generated: tests/testbed_tcp.py -->"
END = "<!-- end of testbed_tcp -->"
REPLICATIONS = 3
CONTROLS = ("reno", "cubic", "bbr")
LOSSES = ("0 %", "0.1 %", "1 %")
DRAWN = "0.1 %"
"""The loss whose windows the figure shows, of replication 0."""
LATEST_MS = 1.0
"""What a run's 99th percentile of lateness may be."""
MOST_TRIES = 6
"""Of a run, before the machine counts as too busy."""
SEGMENT_BYTES = 1448


@dataclass(frozen=True)
class Link:
    """A bottleneck, the same in both directions but for the losses, which data alone has."""

    title: str
    rate: str
    delay: str
    queue: str
    seconds: int


LINKS = (
    Link(
        "10 Mbit/s, 20 ms, 50 packets",
        "10 Mbit/s",
        "20 ms",
        "{ kind = 'drop_tail', packets = 50 }",
        20,
    ),
    Link(
        "2 Mbit/s, 100 ms, 200 packets",
        "2 Mbit/s",
        "100 ms",
        "{ kind = 'drop_tail', packets = 200 }",
        30,
    ),
    Link("50 Mbit/s, 20 ms, CoDel", "50 Mbit/s", "20 ms", "{ kind = 'codel' }", 20),
)

SCENARIO = """
name = "testbed-tcp"
run.duration = "{seconds} s"
paths.only.via = ["wan"]

[links.wan]
ends = ["here", "there"]
rate = "{rate}"
delay = "{delay}"
queue = {queue}
loss = {{ kind = "bernoulli", probability = "{loss}" }}

[links.wan.reverse]
loss = {{ kind = "bernoulli", probability = 0 }}

[flows.bulk]
from = "here"
to = "there"
paths = ["only"]
transport = {{ kind = "tcp", profile = "linux_6", cc.kind = "{control}" }}
app.kind = "bulk"
"""

Windows = tuple[pl.DataFrame, pl.DataFrame]
"""Of the kernel's sender and of the simulated one."""


@dataclass(frozen=True)
class Cell:
    """What one control did on one link at one loss."""

    link: Link
    control: str
    loss: str
    kernel: list[float]
    """Goodputs in Mbit/s, by replication."""
    simulated: list[float]
    late_ms: float
    """The largest 99th percentile of the runs that count."""
    discarded: int
    windows: Windows

    @property
    def deviation_percent(self) -> float:
        """The kernel's mean above the simulated one."""
        return 100 * (fmean(self.kernel) / fmean(self.simulated) - 1)

    def row(self) -> str:
        """Its line of the table."""
        cells = (
            self.link.title,
            self.control,
            self.loss,
            f"{fmean(self.kernel):.2f}",
            f"{fmean(self.simulated):.2f}",
            f"{self.deviation_percent:+.1f} %",
            f"{self.late_ms:.3f}",
        )
        return f"| {' | '.join(cells)} |"


def measure(link: Link, control: str, loss: str) -> Cell:
    """Runs it on the kernel and simulated, on the same losses."""
    text = SCENARIO.format(
        seconds=link.seconds,
        rate=link.rate,
        delay=link.delay,
        queue=link.queue,
        loss=loss,
        control=control,
    )
    kernel, simulated, late, discarded = [], [], [], 0
    for replication in range(REPLICATIONS):
        result, tries = in_time(text, replication)
        discarded += tries - 1
        late.append(lateness(result))
        beside = anabranch.run(text, replication=replication, trace=replication == 0)
        kernel.append(goodput(result))
        simulated.append(goodput(beside))
        if replication == 0:
            windows = (window(result), window(beside))
    return Cell(link, control, loss, kernel, simulated, max(late), discarded, windows)


def in_time(text: str, replication: int) -> tuple[Any, int]:
    """A run on the kernel in which packets were in time, and how many it took."""
    for tries in range(1, MOST_TRIES + 1):
        result = testbed.run(text, replication=replication, trace=replication == 0)
        if lateness(result) <= LATEST_MS:
            return result, tries
    sys.exit(
        f"{MOST_TRIES} runs in a row were later than {LATEST_MS} ms (p99): this machine is too busy"
    )


def lateness(result: Any) -> float:
    """The 99th percentile, in ms."""
    return float(result.summary["emulation.lateness_p99_ms"])


def goodput(result: Any) -> float:
    """In Mbit/s."""
    return float(result.summary["bulk.goodput_kbit_per_s"]) / 1e3


def window(result: Any) -> pl.DataFrame:
    """The sender's congestion window over time, in segments."""
    sender: pl.DataFrame = result.traces["paths"].filter(pl.col("side") == "a")
    return sender.select("time_s", window=pl.col("cwnd_bytes") / SEGMENT_BYTES)


def figure(cells: list[Cell]) -> Figure:
    """The windows at one loss, a row for each link and a column for each control."""
    with plots.style():
        drawn = plots.blank(10, 2.1 * len(LINKS))
        panels = drawn.subplots(len(LINKS), len(CONTROLS), squeeze=False)
        for row, link in zip(panels, LINKS, strict=True):
            for axes, control in zip(row, CONTROLS, strict=True):
                (cell,) = (
                    one
                    for one in cells
                    if (one.link, one.control, one.loss) == (link, control, DRAWN)
                )
                draw(axes, cell)
            row[0].set_ylabel("segments")
        for axes in panels[-1]:
            axes.set_xlabel("time (s)")
        names = [
            Line2D([], [], color=plots.COLOURS[0], label="simulated"),
            Line2D([], [], color=plots.ACCENT, linewidth=0.9, label="kernel"),
        ]
        plots.legend(drawn, names)
    return drawn


def draw(axes: Axes, cell: Cell) -> None:
    """One panel."""
    kernel, simulated = cell.windows
    axes.plot(
        simulated["time_s"], simulated["window"], drawstyle="steps-post", color=plots.COLOURS[0]
    )
    axes.plot(
        kernel["time_s"],
        kernel["window"],
        drawstyle="steps-post",
        color=plots.ACCENT,
        linewidth=0.9,
    )
    axes.set_ylim(0, None)
    axes.set_xlim(0, cell.link.seconds)
    axes.set_title(f"{cell.control}: {cell.link.title}", fontsize=plots.SIZE)


def body(cells: list[Cell]) -> str:
    """What stands between the marks of the page."""
    far = [cell for cell in cells if abs(cell.deviation_percent) > 10]
    near = sum(abs(cell.deviation_percent) <= 1 for cell in cells)
    discarded = sum(cell.discarded for cell in cells)
    said = (
        f"Linux {testbed.release()}, means of {REPLICATIONS} replications. Of {len(cells)} cells"
        f" {near} are within 1 %, and {len(far)} more than 10 % off. {discarded} runs were later"
        f" than {LATEST_MS:g} ms (p99), discarded and made again."
    )
    heads = (
        "| link | control | loss | kernel, Mbit/s | simulated, Mbit/s | deviation | late p99, ms |"
    )
    return "\n".join([said, "", heads, "|---|" + "---|" * 6, *(cell.row() for cell in cells)])


def main() -> None:
    """Measures cell by cell and writes the page."""
    folder = Path(sys.argv[1])
    cells = []
    for link in LINKS:
        for control in CONTROLS:
            for loss in LOSSES:
                cells.append(measure(link, control, loss))
                print(cells[-1].row(), flush=True)
    page = folder / "testbed.md"
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    text = "\n\n".join([head + BEGIN, body(cells), END]) + tail
    page.write_text(text, encoding="utf-8")
    plots.save(figure(cells), folder / "testbed-windows", ("png",))


if __name__ == "__main__":
    main()
