"""A bench for congestion controls: thirteen scenarios, one table, and checks for automatic tests.

A clean link, random loss (at four rates), bursty loss, a deep and a shallow buffer, a long fat
path, a step of the rate, two equal flows, two flows with unequal round-trip times, a flow against
CUBIC, congestion on the way of the acknowledgements, a cellular link, and a queue that marks. They
cover what RFC 9743 (section 5) wants known about a new control, as far as one bottleneck with a
FIFO queue, or with DualPI2, can show it.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anabranch.bench_cc import checks, measures, reports, scenarios
from anabranch.bench_cc.checks import Baseline, Check
from anabranch.bench_cc.files import Files
from anabranch.bench_cc.measures import CONTROLS, Cell
from anabranch.errors import whole
from anabranch.support import cores

__all__ = ["bench", "compare", "conclude"]

REPLICATIONS = 10
"""Default replications of each cell."""


def compare(
    controls: Sequence[str],
    out: Path,
    *,
    only: Sequence[str] = (),
    profile: str = "linux_6",
    replications: int = REPLICATIONS,
    jobs: int | None = None,
) -> list[Cell]:
    """Runs what the folder `out` lacks; gives a cell for each scenario, case and control.

    Parameters
    ----------
    controls
        Names of congestion controls, `all`, or classes of Python, `mine.py:Mine`.
    out
        Where the studies are kept.
    only
        Names of scenarios; all of them if empty.
    profile
        The TCP profile of all flows.
    replications
        Runs of each cell.
    jobs
        Threads; all cores if not given. Never changes a result.
    """
    names = scenarios.chosen(tuple(controls), scenarios.controls())
    threads = cores.threads(jobs)
    replications = whole("replications", replications, 1)
    chosen = scenarios.load(tuple(only), profile, names)
    folder = out / "studies" / profile
    return measures.compute_all(
        chosen, names, replications, folder=folder, jobs=threads, bench=CONTROLS
    )


def bench(
    controls: Sequence[str],
    console: Console,
    files: Files,
    *,
    only: Sequence[str] = (),
    profile: str = "linux_6",
    replications: int = REPLICATIONS,
    jobs: int | None = None,
) -> int:
    """Compares, prints the table, and writes the page with its figures and the files asked for.

    Returns
    -------
    The exit code: 1 if a check failed.
    """
    names = scenarios.chosen(tuple(controls), scenarios.controls())
    files.check()
    cases = [case for about in scenarios.load(tuple(only), profile) for case in about.cases]
    of_it = [(case, name) for case in cases for name in names]
    baseline = files.compared(CONTROLS, profile, replications, of_it)
    cells = compare(
        controls, files.out, only=only, profile=profile, replications=replications, jobs=jobs
    )
    return conclude(cells, baseline, console, files, profile)


def conclude(
    cells: Sequence[Cell], baseline: Baseline | None, console: Console, files: Files, profile: str
) -> int:
    """Checks, prints the table, and writes the page with its figures and the files asked for.

    Returns
    -------
    The exit code: 1 if a check failed.
    """
    bench = cells[0].bench
    replications = len(cells[0].runs[bench.metrics[0].name])
    checked = checks.run(cells, baseline)
    console.print(reports.tables(cells, console.width))
    means = "One run" if replications == 1 else f"Means ± 95 % intervals of {replications} runs"
    console.print(
        f"{means}, {bench.span}; {reports.BEST} may be the best (95 %, compared run by run), or"
        " is within 1 % of it; without one, all may be."
    )
    console.print(reports.headline(cells))
    written = _page(cells, checked, replications, files.out)
    content = reports.as_json(cells, checked, profile, replications)
    written += files.write(content, checked, bench)
    failed = [check for check in checked if check.verdict == "failed"]
    for check in checked:
        if check.verdict in ("failed", "known"):
            console.print(
                f"{check.verdict}: {check.cell.control}, {check.cell.case}: {check.what};"
                f" {check.message}"
            )
    known, skipped = (
        sum(check.verdict == verdict for check in checked) for verdict in ("known", "skipped")
    )
    of_known = f", {known} known" if known else ""
    console.print(f"{len(checked)} checks, {len(failed)} failed{of_known}, {skipped} skipped")
    for path in written:
        console.print(f"wrote {path}")
    return 1 if failed else 0


def _page(
    cells: Sequence[Cell], checked: Sequence[Check], replications: int, folder: Path
) -> list[Path]:
    from anabranch.bench_cc import figures, page  # noqa: PLC0415 - slow to import
    from anabranch.figures.pages.drawing import draw  # noqa: PLC0415 - slow to import

    summaries = figures.of(cells)
    further = cells[0].bench.further(cells)
    drawing = summaries | {name: each.draw for name, each in further.items()}
    drawn = draw(drawing, folder / "figures")
    captions = {name: each.caption for name, each in further.items()}
    made = page.of(cells, checked, replications, list(summaries), captions)
    return [made.write(folder, drawn, "figures/"), folder / "figures"]
