"""Linux's 13 congestion controls on the virtual kernel, compared with earlier measurements.

`python tools/virtual_tcp.py PAGE [OUT]` runs the set-up of docs/linux-tcp.md on the virtual kernel:
for each run behind the committed numbers there is one with as much loss and a pattern of its own.
It writes a table into the page between its marks. Finished runs are kept in OUT; with `--finished`
the table has only those.
"""

import math
import os
import resource
import sys
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from statistics import fmean

import polars as pl
from scipy import stats

import marked
from anabranch._engine import Scenario
from anabranch.emulate import testbed
from anabranch.papers.studies import Place, Work, compute_all, folder_of
from anabranch.stats import Interval, mean_interval
from anabranch.store import read
from anabranch.support.toml_text import inline

sys.path.append(str(Path(__file__).parent.parent / "validation"))

import oracles
from oracles import linux_tcp

BEGIN = "<!-- generated: tools/virtual_tcp.py -->"
END = "<!-- end of virtual -->"
GOODPUT = "bulk.goodput_kbit_per_s"
Goodputs = dict[tuple[str, str], dict[int, float]]
COLUMNS = (GOODPUT, "bulk.tcp.a.data_segments_retransmitted")
HEADS = (
    "control",
    "loss, %",
    "measured before, kbit/s",
    "virtual kernel, kbit/s",
    "difference, %",
    "p",
    "simulated, kbit/s",
    "kernel above it, %",
)


def main() -> None:
    """Runs what is missing and writes the table."""
    words = [word for word in sys.argv[1:] if word != "--finished"]
    page = Path(words[0])
    out = Path(words[1] if len(words) > 1 else "results/virtual-tcp")
    jobs = os.cpu_count() or 1
    rows = linux_tcp.kernel_rows()
    works = [pattern(rows, number) for number in range(len(rows[0].lost))]
    began = time.monotonic()
    place = Place("-virtual", lambda scenario: testbed.VirtualKernel(scenario, jobs=jobs))
    if "--finished" in sys.argv[1:]:
        asked = (finished(work, folder_of(work, out, place)) for work in works)
        works = [work for work in asked if work.total]
    real = compute_all(works, out, jobs, "transfers in virtual kernels", place)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = (usage.ru_utime + usage.ru_stime, time.monotonic() - began)
    simulated = compute_all(works, out, jobs, "simulated transfers")
    text = page.read_text(encoding="utf-8")
    body = table(rows, values(real), values(simulated))
    print(f"{took[0]:.0f} s of CPU, {took[1]:.0f} s on the wall")
    page.write_text(marked.replaced(text, BEGIN, END, body), encoding="utf-8")


def pattern(rows: list[linux_tcp.Measured], number: int) -> Work:
    """Every control at every loss, with the loss that the kernel had in its runs of this number."""
    lost: dict[str, list[float]] = {}
    for row in rows:
        lost.setdefault(row.loss_percent, []).append(row.lost[number])
    cases = {
        loss: {"links.wan.loss.probability": f"{100 * fmean(shares):.6f} %"}
        for loss, shares in lost.items()
    }
    controls = list(dict.fromkeys(row.control for row in rows))
    network = files(oracles).joinpath("linux_tcp_10mbit.toml").read_text(encoding="utf-8")
    sweep = (
        f"[sweep]\naxes.control.set = 'flows.bulk.transport.cc.kind'\n"
        f"axes.control.values = {inline(controls)}\naxes.loss.cases = {inline(cases)}\n"
    )
    scenario = Scenario.parse(f"{network}\n{sweep}", (("seed", str(number + 1)),))
    # Without loss nothing is drawn.
    return Work(
        f"pattern-{number + 1}",
        "controls and losses",
        scenario,
        lambda key: int(number == 0 or float(key["loss"]) > 0),
        COLUMNS,
    )


def finished(work: Work, folder: Path) -> Work:
    """The part of the study that is finished in its folder."""
    there = set(read(folder)["cell"]) if (folder / "study.json").exists() else set()
    keys = [work.scenario.cell_key(cell) for cell in there]
    return replace(work, replications=lambda key: int(key in keys))


def values(found: dict[str, pl.DataFrame]) -> Goodputs:
    """Goodputs in kbit/s by control and loss, then by the number of the pattern."""
    values: Goodputs = {}
    for name, rows in sorted(found.items()):
        for control, loss, goodput in rows.select("control", "loss", GOODPUT).iter_rows():
            here = values.setdefault((control, f"{float(loss):g}"), {})
            here[int(name.removeprefix("pattern-")) - 1] = goodput
    return values


def table(rows: list[linux_tcp.Measured], real: Goodputs, simulated: Goodputs) -> str:
    """A row for each control and loss, and a summary of all."""
    lines, chances, off = [], [], []
    for row in rows:
        key = (row.control, f"{float(row.loss_percent):g}")
        if key not in real:
            continue
        ours, beside = list(real[key].values()), list(simulated[key].values())
        before = [row.kernel[number] for number in real[key]]
        chance = p_value(before, ours)
        if not math.isnan(chance):
            chances.append(chance)
        off += [a / b - 1 for a, b in zip(ours, beside, strict=True)]
        cells = [
            *key,
            interval(before).text(0),
            interval(ours).text(0),
            f"{100 * (fmean(ours) / fmean(before) - 1):+.1f}",
            "" if math.isnan(chance) else f"{chance:.2f}",
            interval(beside).text(0),
            f"{100 * (fmean(ours) / fmean(beside) - 1):+.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    rare = sum(chance < 0.05 for chance in chances)
    near = sum(abs(one) <= 0.01 for one in off)
    smallest = "less than 0.001" if min(chances) < 0.001 else f"{min(chances):.3f}"
    said = (
        f"Linux {testbed.virtual_release()}: {sum(map(len, real.values()))} runs of 30 s. Of"
        f" {len(chances)} cells with several runs {rare} differ with p < 0.05 (Welch's test;"
        f" {0.05 * len(chances):.1f} are expected by chance), and the smallest p is"
        f" {smallest}. Run by run on the same losses, the kernel is within 1 % of the"
        f" simulation in {near} of {len(off)} runs, and {100 * fmean(off):+.2f} % off on average."
        f"{by_loss(rows, real)}"
    )
    heads = "| " + " | ".join(HEADS) + " |\n|---|" + "---:|" * (len(HEADS) - 1)
    return f"{said}\n\n{heads}\n" + "\n".join(lines)


def by_loss(rows: list[linux_tcp.Measured], real: Goodputs) -> str:
    """Both kernels, all controls together: they share their patterns, so that each counts once."""
    said = []
    for loss in dict.fromkeys(row.loss_percent for row in rows):
        cells = [
            (row, found)
            for row in rows
            if row.loss_percent == loss
            for found in [real.get((row.control, f"{float(loss):g}"), {})]
            if len(found) == len(row.kernel)
        ]
        if not cells or len(cells[0][1]) < 2:
            continue
        patterns = range(len(cells[0][1]))
        before = [fmean(row.kernel[one] for row, _ in cells) for one in patterns]
        ours = [fmean(found[one] for _, found in cells) for one in patterns]
        off = 100 * (fmean(ours) / fmean(before) - 1)
        said.append(f"{float(loss):g} %: {off:+.1f} %, p = {p_value(before, ours):.2f}")
    together = "; ".join(said)
    return f" All controls together differ by this much at a loss of {together}." if said else ""


def p_value(before: list[float], ours: list[float]) -> float:
    """The p-value of Welch's test that both have the same mean; NaN if neither varies."""
    if len(ours) < 2:
        return math.nan
    return float(stats.ttest_ind(before, ours, equal_var=False).pvalue)


def interval(runs: list[float]) -> Interval:
    """The mean of these runs with its interval."""
    return mean_interval(runs)


if __name__ == "__main__":
    main()
