"""TCP of this machine's kernel and our own on the same scenarios: the table of docs/testbed.md.

Prints Markdown. Words of the command line are the congestion controls; by default those that the
kernel has.
"""

import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import anabranch
from anabranch.emulate import testbed

SECONDS = 20
REPLICATIONS = 3
LOSSES = ("0 %", "0.1 %", "1 %")

SCENARIO = f"""
name = "testbed-tcp"
run.duration = "{SECONDS} s"
paths.only.via = ["wan"]

[links.wan]
ends = ["here", "there"]
rate = "10 Mbit/s"
delay = "20 ms"
queue = {{ kind = "drop_tail", packets = 50 }}
loss = {{ kind = "bernoulli", probability = 0 }}

[links.wan.reverse]
loss = {{ kind = "bernoulli", probability = 0 }}

[flows.bulk]
from = "here"
to = "there"
paths = ["only"]
transport = {{ kind = "tcp", profile = "linux_6", cc.kind = "reno" }}
app.kind = "bulk"
"""


def goodputs(run: Any, control: str, loss: str) -> tuple[float, float]:
    """The mean, in Mbit/s, and the mean of the 99th percentile of lateness where there is one."""
    sets = {"flows.bulk.transport.cc.kind": control, "links.wan.loss.probability": loss}
    rows = [run(SCENARIO, set=sets, replication=one).summary for one in range(REPLICATIONS)]
    late = [row.get("emulation.lateness_p99_ms", 0.0) for row in rows]
    return fmean(row["bulk.goodput_kbit_per_s"] for row in rows) / 1e3, fmean(late)


def main() -> None:
    """Measures control by control."""
    there = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    print("| control | loss | kernel, Mbit/s | simulated, Mbit/s | deviation | late p99, ms |")
    print("|---|---|---|---|---|---|")
    for control in sys.argv[1:] or sorted(there):
        for loss in LOSSES:
            kernel, late = goodputs(testbed.run, control, loss)
            simulated, _ = goodputs(anabranch.run, control, loss)
            deviation = 100 * (kernel / simulated - 1)
            cells = (f"{kernel:.2f}", f"{simulated:.2f}", f"{deviation:+.1f} %", f"{late:.3f}")
            print(f"| {control} | {loss} | {' | '.join(cells)} |")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
