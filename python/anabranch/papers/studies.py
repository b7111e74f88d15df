"""A paper's studies: scenarios with the runs wanted of them, and the folders that keep the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anabranch import progress, study
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.store import FolderStore, Run

Key = dict[str, float | str | bool]
Sets = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Study:
    """Runs of one scenario: its folder's name, what it is, and how often each cell runs."""

    name: str
    title: str
    scenario: Scenario
    replications: Callable[[Key], int]
    columns: tuple[str, ...]
    """The scalars that the analysis reads; a whole row may have many more."""

    def runs(self) -> list[Run]:
        """Cells and replications.

        All cells once, then again: a sweep that is stopped early covers everything.
        """
        wanted = [
            self.replications(self.scenario.cell_key(cell))
            for cell in range(self.scenario.cell_count)
        ]
        return [
            (cell, replication)
            for replication in range(max(wanted, default=0))
            for cell, count in enumerate(wanted)
            if replication < count
        ]


def with_sweep(scenario: str, sweep: str, sets: Sets = ()) -> Scenario:
    """The network of a scenario's text, which ends with its sweep, with another sweep."""
    network, found, _ = scenario.partition("\n[sweep]\n")
    assert found, "the scenario ends with its sweep"
    return Scenario.parse(f"{network}\n{sweep}", sets)


def compute_all(works: Sequence[Study], out: Path, jobs: int, what: str) -> dict[str, pl.DataFrame]:
    """Computes what the folders of all studies lack, and shows how far it is.

    Gives each study's rows by its name; see `compute`.
    """
    total = sum(len(work.runs()) for work in works)
    done = 0
    with progress.shown(what, kept=True) as shown:

        def advance(runs: int) -> None:
            nonlocal done
            done += runs
            shown(done, total)

        return {work.name: compute(work, out, jobs, advance) for work in works}


def compute(work: Study, out: Path, jobs: int, advance: Callable[[int], None]) -> pl.DataFrame:
    """Computes the runs of a study that its folder lacks, and reads what it needs of all of them.

    Parameters
    ----------
    work
        The study; its folder is `out`/studies/name.
    out
        Where the paper's results are.
    jobs
        Threads.
    advance
        Called with the number of runs finished since the last call, those found in the folder
        included.

    Returns
    -------
    cell, replication, the axes and the study's columns, sorted by cell and replication.
    """
    runs = work.runs()
    folder = out / "studies" / work.name
    before = 0

    def hear(done: int, _: int) -> None:
        nonlocal before
        advance(done - before)
        before = done

    try:
        with FolderStore(folder, work.scenario) as store:
            study.compute(work.scenario, store, runs, jobs, hear)
    except OSError as error:
        raise AnabranchError(f"cannot write to {folder}: {error.strerror or error}") from error
    wanted = pl.DataFrame(runs, schema={"cell": pl.UInt32, "replication": pl.UInt32}, orient="row")
    return _read(folder, work).join(
        wanted, on=["cell", "replication"], how="semi", maintain_order="left"
    )


def _read(folder: Path, work: Study) -> pl.DataFrame:
    axes = [axis["name"] for axis in work.scenario.axes]
    shards = sorted((folder / "rows").glob("*.parquet"))
    return pl.concat(
        [
            pl.read_parquet(shard, columns=["cell", "replication", *axes, *work.columns])
            for shard in shards
        ]
    ).sort("cell", "replication")


def find_cell(loaded: Scenario, key: dict[str, Any]) -> int:
    """The number of the cell with these axis values."""
    for cell in range(loaded.cell_count):
        found = loaded.cell_key(cell)
        if all(label(found[name]) == label(value) for name, value in key.items()):
            return cell
    raise LookupError(f"{loaded.name} has no cell {key}")


def label(value: float | str) -> str:
    """An axis value as text that two spellings of a quantity share.

    0.1, "10 %" and "0.1" are "0.1".
    """
    if isinstance(value, str) and value.endswith("%"):
        return f"{float(value[:-1]) / 100:g}"
    return (
        f"{value:g}"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else str(value)
    )


def inline(value: Any) -> str:
    """A value as TOML, tables inline."""
    if isinstance(value, Mapping):
        items = ", ".join(f'"{name}" = {inline(item)}' for name, item in value.items())
        return f"{{ {items} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value}"
