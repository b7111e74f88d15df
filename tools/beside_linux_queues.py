"""Four flows of TCP through Linux's queue disciplines and through ours: a table with intervals.

`python tools/beside_linux_queues.py PAGE [OUT [QUEUE...]]` runs the kernel's own TCP and
disciplines in virtual kernels (`four_flows.py`) and simulates the same, each run with other starts
of the flows within the first round trip. It writes a table into the page between its marks.
Finished runs are kept in OUT. Without QUEUE it takes those that Linux 6.12 has.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np
import polars as pl

from anabranch._engine import Scenario
from anabranch.emulate.testbed import virtual_release
from anabranch.papers.studies import Place, Work, compute_all
from anabranch.studies.plan import Run
from anabranch.studies.workers import Batch, Pool
from anabranch.virtual import run_in_kernel
from beside_linux import compared, write_table

HEADS = (
    "queue",
    "Mbit/s",
    "control",
    "quantity",
    "Linux",
    "simulated",
    "deviation, %",
    "p",
    "verdict",
)
CONTROLS = ("reno", "cubic")
FLOWS = 4
IN_KERNELS = 20
"""Runs of the kernel for each queue, rate and control."""
SIMULATED = 100
RUNS_PER_BOOT = 5
ROUND_TRIP = 0.04
"""Seconds; the flows begin within it."""

_LINK = "link.wan.forward"
QUANTITIES = {
    "dropped": (f"{_LINK}.queue_full_packets", f"{_LINK}.aqm_packets"),
    "waiting, packets": (f"{_LINK}.mean_queue_packets",),
    "goodput, MB": tuple(f"bulk_{flow}.received_bytes" for flow in range(1, FLOWS + 1)),
}
"""What is compared: each the sum of some scalars."""
COLUMNS = tuple(name for names in QUANTITIES.values() for name in names)
_MEGA = ("goodput, MB",)


@dataclass(frozen=True)
class Queue:
    """A discipline as `tc` and as a scenario has it."""

    kernel: str
    ours: str

    def tc(self, rate: int) -> list[str]:
        """The words of `tc`, from the root on."""
        # A bucket with room for little more than a packet; its own limit is never reached.
        return [f"tbf rate {rate}bit burst 1600 limit 10000000", self.kernel]

    def settings(self, rate: int) -> str:
        """The queue of a scenario. A packet of 1500 B is a frame of 1514 B."""
        rate = round(rate * 1500 / 1514)
        return (
            f"{{ kind = 'token_bucket', rate = '{rate} bit/s', burst = '1585 B',"
            f" child = {self.ours} }}"
        )


PIE_TIMER = "update = '16 ms', first_update = '504 ms'"
"""15 ms are 15 jiffies at HZ 1000, and the timer wheel adds one.

The first update comes HZ / 2 after the discipline is installed (`pie_init`), on a step of the wheel
of 8 ms; the flows begin 55 us after it.
"""

QUEUES = {
    "codel": Queue("codel", "{ kind = 'codel', square_root = 'newton' }"),
    "fq_codel": Queue(
        "fq_codel noecn",
        "{ kind = 'fq_codel', mtu_of_all = true, square_root = 'newton', ecn = false }",
    ),
    "pie": Queue("pie", f"{{ kind = 'pie', variant = 'linux', {PIE_TIMER} }}"),
    "fq_pie": Queue("fq_pie", f"{{ kind = 'fq_pie', {PIE_TIMER} }}"),
    "sfq": Queue("sfq", "{ kind = 'sfq' }"),
    "cobalt": Queue("cake unlimited besteffort flowblind", "{ kind = 'cobalt' }"),
    "cake": Queue("cake unlimited besteffort", "{ kind = 'cake' }"),
    "dualpi2": Queue("dualpi2", "{ kind = 'dualpi2', variant = 'linux' }"),
}
NEWER = {"dualpi2"}
"""Since Linux 6.18."""


@dataclass(frozen=True)
class Row:
    """A discipline at a rate."""

    queue: str
    mbit_per_s: int
    seconds: int

    @property
    def name(self) -> str:
        """The name of its study."""
        return f"{self.queue}-{self.mbit_per_s}"

    @property
    def rate(self) -> int:
        """The rate in bit/s, counted on Ethernet frames."""
        return self.mbit_per_s * 1_000_000

    def scenario(self) -> Scenario:
        """The scenario; its axis is the control."""
        queue = QUEUES[self.queue]
        return Scenario.parse(f"""
            name = "{self.name}"
            seed = 1
            run.duration = "{self.seconds} s"
            [links.wan]
            ends = ["sender", "receiver"]
            rate = "10 Gbit/s"
            delay = "20 ms"
            queue = {queue.settings(self.rate)}
            reverse.queue = {{ kind = "drop_tail", packets = 1000 }}
            [paths.wan]
            via = ["wan"]
            [flows.bulk]
            from = "sender"
            to = "receiver"
            paths = ["wan"]
            count = {FLOWS}
            transport = {{ kind = "tcp", profile = "linux_6" }}
            app = {{ kind = "bulk", start = {{ from = "0 s", to = "{ROUND_TRIP} s" }} }}
            [sweep]
            axes.control.set = "flows.bulk.transport.cc.kind"
            axes.control.values = {json.dumps(CONTROLS)}
        """)

    def work(self, runs: int) -> Work:
        """The study of its runs."""
        return Work(self.name, self.name, self.scenario(), lambda _: runs, COLUMNS)


ROWS = [
    *(Row(queue, 2, 30) for queue in QUEUES),
    *(Row(queue, 10, 20) for queue in ("codel", "fq_codel", "cobalt", "cake", "dualpi2")),
]


class Kernels(Pool):
    """Workers whose runs are the kernel's own TCP and disciplines; see `Workers`."""

    batch_runs = RUNS_PER_BOOT
    batch_seconds = None

    def __init__(self, scenario: Scenario, row: Row, jobs: int) -> None:
        super().__init__(jobs)
        self._scenario, self._row, self._jobs = scenario, row, jobs
        self._cancelled = Event()
        self.engine = f"Linux {virtual_release()} in virtual time"

    def places(self) -> int:
        """See `Workers`."""
        return self._jobs

    def cancel(self) -> None:
        """See `Workers`."""
        self._cancelled.set()

    def compute(self, runs: Sequence[Run]) -> Batch:
        """See `Pool`."""
        began = time.monotonic()
        queue = QUEUES[self._row.queue]
        orders = []
        for cell, replication in runs:
            draw = random.Random(replication)
            orders.append(
                {
                    "disciplines": queue.tc(self._row.rate),
                    "control": self._scenario.cell_key(cell)["control"],
                    "starts": [draw.uniform(0, ROUND_TRIP) for _ in range(FLOWS)],
                    "seconds": self._row.seconds,
                }
            )
        here = Path(__file__).absolute().parent
        with tempfile.TemporaryDirectory(prefix="anabranch-queues-") as folder:
            file = Path(folder) / "runs"
            file.write_text(json.dumps(orders))
            done = run_in_kernel(
                [sys.executable, "-P", here / "four_flows.py", file],
                folder=folder,
                seed=runs[0][1],
                environment={"PYTHONPATH": str(here)},
                cancelled=self._cancelled,
            )
            out = file.with_suffix(".out")
            found = (
                [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
            )
        columns = {
            f"{_LINK}.queue_full_packets": [run["dropped"] for run in found],
            f"{_LINK}.aqm_packets": [0 for _ in found],
            f"{_LINK}.mean_queue_packets": [run["queue"] for run in found],
            "cell": [cell for cell, _ in runs[: len(found)]],
            "replication": [replication for _, replication in runs[: len(found)]],
        }
        for flow in range(FLOWS):
            columns[f"bulk_{flow + 1}.received_bytes"] = [run["received"][flow] for run in found]
        said = done.stderr.decode(errors="replace").strip() or "it said nothing"
        failures = [(run, said) for run in runs[len(found) :]]
        arrays = {name: np.array(values, float) for name, values in columns.items()}
        return Batch(arrays, time.monotonic() - began, failures=failures)


def main() -> None:
    """Runs what is missing and writes the table."""
    out = Path(sys.argv[2] if len(sys.argv) > 2 else "results/beside-linux-queues")
    wanted = set(sys.argv[3:]) or QUEUES.keys() - NEWER
    jobs = os.cpu_count() or 1
    lines: list[list[str]] = []
    for row in (row for row in ROWS if row.queue in wanted):
        place = Place("-virtual", partial(Kernels, row=row, jobs=jobs))
        real = compute_all(
            [row.work(IN_KERNELS)], out, jobs, f"{row.name} in virtual kernels", place
        )
        simulated = compute_all([row.work(SIMULATED)], out, jobs, f"{row.name} simulated")
        lines += compared_rows(row, real[row.name], simulated[row.name])
    write_table(Path(sys.argv[1]), "beside_linux_queues", HEADS, lines)


def compared_rows(row: Row, real: pl.DataFrame, simulated: pl.DataFrame) -> Iterator[list[str]]:
    """The rows of the table."""
    for control in CONTROLS:
        for quantity, names in QUANTITIES.items():
            unit = 1e6 if quantity in _MEGA else 1
            theirs, ours = (
                found.filter(pl.col("control") == control)
                .select(pl.sum_horizontal(names) / unit)
                .to_series()
                .to_list()
                for found in (real, simulated)
            )
            head = [row.queue, str(row.mbit_per_s), control, quantity]
            yield [*head, *compared(theirs, ours)]


if __name__ == "__main__":
    main()
