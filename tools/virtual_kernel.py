"""Measures how exact links are in the virtual kernel, and what that costs: a table of a page.

Our emulator, the kernel's own netem and tbf and, if the variable RATTAN names its program, Rattan
run in the same guest, one after the other: UDP packets fill a link to measure its rate, or come one
at a time to measure its delay. The table is written into the page at its mark.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from anabranch.emulate import Emulator, scenario_text
from anabranch.virtual import kernel_file, run_in_kernel
from emulated_accuracy import rattan
from link_measurement import DELAY_MS, Row, chain, measured, table, token_bucket

RATES = (1, 10, 100)
"""Rates in Mbit/s."""
MARK = "<!-- generated: tools/virtual_kernel.py -->"


def main() -> None:
    """Inside the kernel, measures; outside, writes the page."""
    if sys.argv[1] == "--inside":
        json.dump([asdict(row) for rate in RATES for row in links(rate)], sys.stdout)
        return
    page = Path(sys.argv[1])
    head = page.read_text().partition(MARK)[0]
    page.write_text(head + MARK + "\n\n" + results())


def results() -> str:
    """The text after the mark."""
    began = time.monotonic()
    here = Path(__file__).absolute()
    done = run_in_kernel(
        [sys.executable, here, "--inside"],
        folder=tempfile.gettempdir(),
        environment={"RATTAN": os.environ.get("RATTAN", "")},
    )
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    wall = time.monotonic() - began
    version = kernel_file().with_name("version").read_text().strip()
    return (
        f"{table([Row(**row) for row in json.loads(done.stdout)])}\n\n"
        f"Linux {version}; {done.virtual_seconds:.0f} s of virtual time,"
        f" {done.cpu_seconds:.0f} s of CPU, {wall:.0f} s on the wall.\n"
    )


def links(rate: int) -> Iterator[Row]:
    """A row for each kind of link."""
    text = scenario_text(delay=f"{DELAY_MS}ms", rate=f"{rate}Mbit/s", queue=50)
    with Emulator(text) as emulator:
        yield measured("our emulator", rate, emulator.start, "peer")
    # netem counts Ethernet frames, and its limit includes frames in transit.
    limits = f"rate {rate * 1514 / 1500:.6f}mbit limit {50 + rate * DELAY_MS // 12}"
    with chain(f"netem delay {DELAY_MS}ms {limits}") as start:
        yield measured("netem", rate, start, "10.9.0.2")
    with chain(token_bucket(rate), f"netem delay {DELAY_MS}ms limit 10000") as start:
        yield measured("tbf, then netem's delay", rate, start, "10.9.0.2")
    if program := os.environ.get("RATTAN"):
        with rattan(program, rate) as (start, peer):
            yield measured("Rattan", rate, start, peer)


if __name__ == "__main__":
    main()
