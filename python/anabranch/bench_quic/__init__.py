"""A bench for QUIC: the scenarios of bench-cc and an outage, our profiles beside real programs.

Profiles are simulated. Programs, our endpoint over sockets among them, run over the emulated links
of the same scenarios, in real time, with the same flows beside them.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anabranch import bench_cc
from anabranch.bench_cc import measures as shared
from anabranch.bench_cc.files import Files
from anabranch.bench_cc.measures import Cell
from anabranch.bench_quic import programs as asked
from anabranch.bench_quic import runs, scenarios
from anabranch.bench_quic.measures import STACKS
from anabranch.bench_quic.programs import Program
from anabranch.errors import whole
from anabranch.support import cores, progress

__all__ = ["bench", "compare"]

REPLICATIONS = 10
"""Default replications of each cell."""

_PROFILE = "quic"
"""Stands for the profile of TCP in files of results."""


def compare(
    words: Sequence[str],
    out: Path,
    *,
    only: Sequence[str] = (),
    replications: int = REPLICATIONS,
    jobs: int | None = None,
) -> tuple[list[Cell], list[str]]:
    """Simulates what the folder `out` lacks and runs programs; cells, and what went wrong.

    Parameters
    ----------
    words
        Profiles, `live`, and files of programs; all profiles if empty.
    out
        Where the studies of simulated runs are kept. Programs run anew each time.
    only
        Names of scenarios; all of them if empty.
    replications
        Runs of each cell.
    jobs
        Threads of the simulations; all cores if not given. Programs run one after the other.
    """
    profiles, programs = asked.chosen(words)
    threads = cores.threads(jobs)
    replications = whole("replications", replications, 1)
    chosen = scenarios.load(tuple(only))
    total = replications * sum(
        len(about.cases) * (len(profiles) + len(programs)) for about in chosen
    )
    cells: list[Cell] = []
    faults: list[str] = []
    done = 0
    with progress.shown("bench-quic", kept=not programs) as shown:
        for about in chosen:
            if profiles:
                before = done

                def update(of_this: int, before: int = before) -> None:
                    shown(progress.Status(before + of_this, total))

                cells += shared.compute(
                    about,
                    profiles,
                    replications,
                    folder=out / "studies" / about.folder,
                    jobs=threads,
                    tell=update,
                    bench=STACKS,
                )
                done += replications * len(about.cases) * len(profiles)
            for case, title in enumerate(about.cases):
                # Programs in turn: what else the machine does meets all of them.
                found: dict[Program, list[dict[str, float]]] = {each: [] for each in programs}
                for replication in range(replications):
                    for program, values in found.items():
                        outcome = runs.run(about, case, program, replication)
                        values.append(outcome.values)
                        faults += _faults(program, title, outcome)
                        done += 1
                        shown(progress.Status(done, total))
                cells += [
                    shared.cell_of(about, title, program.name, values, STACKS)
                    for program, values in found.items()
                ]
    order = list(dict.fromkeys(cell.case for cell in cells))
    names = [*profiles, *(program.name for program in programs)]
    ranked = sorted(cells, key=lambda cell: (order.index(cell.case), names.index(cell.control)))
    return ranked, faults


LATE_MS = 1.0
"""Packets that are later than this make a run doubtful."""


def _faults(program: Program, title: str, outcome: runs.Outcome) -> list[str]:
    said = [outcome.fault] if outcome.fault else []
    if outcome.lateness_ms > LATE_MS:
        said.append(f"1 % of the packets were more than {outcome.lateness_ms:.1f} ms late")
    return [f"{program.name}, {title}: {sentence}" for sentence in said]


def bench(
    words: Sequence[str],
    console: Console,
    files: Files,
    *,
    only: Sequence[str] = (),
    replications: int = REPLICATIONS,
    jobs: int | None = None,
) -> int:
    """Compares, prints the table, and writes the page with its figures and the files asked for.

    Returns
    -------
    The exit code: 1 if a check failed.
    """
    profiles, programs = asked.chosen(words)
    files.check()
    names = [*profiles, *(program.name for program in programs)]
    cases = [case for about in scenarios.load(tuple(only)) for case in about.cases]
    of_it = [(case, name) for case in cases for name in names]
    baseline = files.compared(STACKS, _PROFILE, replications, of_it)
    cells, faults = compare(words, files.out, only=only, replications=replications, jobs=jobs)
    code = bench_cc.conclude(cells, baseline, console, files, _PROFILE)
    for fault in faults:
        console.print(fault)
    return code
