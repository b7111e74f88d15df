"""What was measured between two changes of a test case, as tables."""

import math
from collections.abc import Sequence

from anabranch.bench_cc.measures import Cell
from anabranch.bench_cc.reports import NONE, Lines, value_text
from anabranch.bench_rtc.measures import OF_PERIOD, period_name
from anabranch.bench_rtc.scenarios import MediaScenario

_HEADS = {
    "received_mbit_per_s": "arrived, Mbit/s",
    "utilisation_percent": "used, %",
    "queueing_p50_ms": "queue p50, ms",
    "queueing_p95_ms": "queue p95, ms",
    "loss_percent": "lost, %",
    "convergence_s": "converged, s",
}


def tables(cells: Sequence[Cell]) -> dict[str, tuple[list[str], Lines]]:
    """For each case with several periods its columns and a line for each control and period."""
    found: dict[str, tuple[list[str], Lines]] = {}
    for cell in cells:
        about = cell.scenario
        assert isinstance(about, MediaScenario)
        periods = about.courses[about.cases.index(cell.case)].periods
        if len(periods) < 2:
            continue
        heads = ["period", cell.bench.what, *(_HEADS[name] for name in OF_PERIOD)]
        _, lines = found.setdefault(f"{cell.case}, by period", (heads, []))
        for number, (start, end) in enumerate(periods, 1):
            values = [cell.values[period_name(number, name)] for name in OF_PERIOD]
            texts = [NONE if math.isnan(value.mean) else value_text(value) for value in values]
            lines.append([f"{start:g} to {end:g} s", cell.control, *texts])
    for _, lines in found.values():
        # By period, then by control.
        lines.sort(key=lambda line: float(line[0].split()[0]))
    return found
