"""A paper's studies: scenarios with the runs wanted of them, and the folders that keep the rows."""

import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.store import FolderStore, free_of_other_engines
from anabranch.studies import execution
from anabranch.studies.workers import Threads, Workers
from anabranch.support import progress
from anabranch.support.toml_text import inline

from .runs import Setting

Key = dict[str, float | str | bool]
Sets = tuple[tuple[str, str], ...]
Settings = dict[str, Any]
"""Values of TOML by dotted path."""
Computed = TypeVar("Computed")
AnyReading = TypeVar("AnyReading", bound="Reading")
Amount = int | float | str | list[float] | dict[str, int]
"""What a mode says of one thing: how often it runs, or what it runs with."""


@dataclass(frozen=True)
class Work:
    """Runs of one scenario: its folder's name, what it is, and how often each cell runs."""

    name: str
    title: str
    scenario: Scenario
    replications: Callable[[Key], int]
    columns: tuple[str, ...]
    """The scalars that the analysis reads; a whole row may have many more."""

    def wanted(self) -> list[int]:
        """Runs of each cell."""
        return [
            self.replications(self.scenario.cell_key(cell))
            for cell in range(self.scenario.cell_count)
        ]

    @property
    def total(self) -> int:
        """Runs in all."""
        return sum(self.wanted())


@dataclass(frozen=True)
class Place:
    """A place that computes the runs of studies."""

    suffix: str
    """What the names of its studies' folders end with; they stand beside those of other places."""
    workers: Callable[[Scenario], Workers]


def simulated(jobs: int) -> Place:
    """Threads of this process, as many as there are jobs."""
    return Place("", lambda scenario: Threads(scenario, jobs, scenario.traces))


def file_text(package: str, name: str) -> str:
    """A file of a paper's package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def published(
    package: str, name: str = "published.csv", **kinds: type[pl.DataType]
) -> pl.DataFrame:
    """The numbers that a paper gives, from a file of its package; the kinds of some columns."""
    content = files(package).joinpath(name).read_bytes()
    return pl.read_csv(content, comment_prefix="#", schema_overrides=kinds)


@dataclass(frozen=True)
class Effort:
    """How much a mode runs: what `efforts.toml` says of it."""

    amounts: Mapping[str, Amount]

    def of(self, key: str) -> int:
        """How often something runs; `KEY.NAME` is what a table says of a name."""
        name, _, part = key.partition(".")
        amount = self.amounts[name]
        number = amount[part] if isinstance(amount, dict) else amount
        assert isinstance(number, int), key
        return number

    def text(self, key: str) -> str:
        """A quantity, such as the length of a run."""
        return str(self.amounts[key])

    def numbers(self, key: str) -> list[float]:
        """Several values that are run."""
        values = self.amounts[key]
        assert isinstance(values, list), key
        return values


def efforts(package: str, name: str = "efforts.toml") -> dict[str, Effort]:
    """How much each mode runs, from a file of a paper's package: a table for each mode."""
    return {mode: Effort(row) for mode, row in tomllib.loads(file_text(package, name)).items()}


def as_sets(settings: Mapping[str, Any]) -> Sets:
    """Values by dotted path, as the engine takes them on top of a scenario."""
    return tuple((path, inline(value)) for path, value in settings.items())


def with_sweep(scenario: str, sweep: str, sets: Sets = ()) -> Scenario:
    """The network of a scenario's text, which ends with its sweep, with another sweep."""
    network, separator, _ = scenario.partition("\n[sweep]\n")
    assert separator, "the scenario ends with its sweep"
    return Scenario.parse(f"{network}\n{sweep}", sets)


class Reading(BaseModel):
    """A row of a package's file: values on top of a scenario, such as what a paper may mean."""

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    """What people call it; its name if it has no title."""
    about: str = ""
    settings: Settings = Field(alias="set")
    """Values by dotted path."""

    @model_validator(mode="before")
    @classmethod
    def _titled(cls, row: Settings) -> Settings:
        return {"title": row.get("name")} | row

    @property
    def sets(self) -> Sets:
        """The values as the engine takes them."""
        return as_sets(self.settings)


def readings(
    package: str,
    file: str,
    table: str,
    kind: type[AnyReading] = Reading,  # type: ignore[assignment]
) -> tuple[AnyReading, ...]:
    """The rows of a table of a package's file."""
    return tuple(map(kind.model_validate, tomllib.loads(file_text(package, file))[table]))


class Count(BaseModel):
    """How often some cells of a study run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str
    """The key of the effort (`Effort.of`); `{name}` is that of the variant."""
    where: dict[str, Setting | list[Setting]] = {}
    """Axis -> the value of it, or several; all cells if not given."""

    def has(self, key: Key) -> bool:
        """Whether a cell is one of them."""
        return all(
            label(key[axis]) in map(label, values if isinstance(values, list) else [values])
            for axis, values in self.where.items()
        )


class Described(BaseModel):
    """A study as a row of a package's file: `scenario.toml`, mostly with another sweep."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    package: str
    name: str
    """With variants `{name}` is that of each, and `{number}` its number."""
    title: str = ""
    """That of each variant if not given."""
    sweep: str = ""
    """The file with the sweep; that of the scenario if not given."""
    each: tuple[str, str] | None = None
    """A file, and its table that has a variant of the study in each row (`Reading`)."""
    replications: list[Count]
    """A cell runs as often as the most of those say that it is one of."""
    lasts: str = "duration"
    """The key of the effort that is the length of a run; as in the scenario without it."""
    columns: tuple[str, ...] = ()
    settings: Settings = Field({}, alias="set")
    """Values by dotted path on top of the scenario."""

    @property
    def sets(self) -> Sets:
        """The settings as the engine takes them."""
        return as_sets(self.settings)

    def works(self, effort: Effort, sets: Sets = (), prefix: str = "") -> Iterator[Work]:
        """The runs of it in a mode, of each variant if it has some; those that run at all.

        `sets` go on top of its own, and `prefix` before the names of folders.
        """
        variants = [None] if self.each is None else readings(self.package, *self.each)
        for number, variant in enumerate(variants):
            said = {"name": variant.name if variant else "", "number": number}
            counts = [(effort.of(count.of.format(**said)), count) for count in self.replications]
            if any(wanted for wanted, _ in counts):
                own = sets if variant is None else (*variant.sets, *sets)
                if self.lasts in effort.amounts:
                    own = (*own, ("run.duration", effort.text(self.lasts)))
                title = self.title or (variant.title if variant else self.name)
                yield Work(
                    prefix + self.name.format(**said),
                    title,
                    self.scenario(own),
                    partial(_most, counts),
                    self.columns,
                )

    def scenario(self, sets: Sets) -> Scenario:
        """Its scenario with these values on top of its own."""
        text = file_text(self.package, "scenario.toml")
        if not self.sweep:
            return Scenario.parse(text, (*self.sets, *sets))
        return with_sweep(text, file_text(self.package, self.sweep), (*self.sets, *sets))


def _most(counts: Sequence[tuple[int, Count]], key: Key) -> int:
    return max((wanted for wanted, count in counts if count.has(key)), default=0)


@cache
def described(package: str, file: str = "studies.toml") -> Mapping[str, Described]:
    """The studies of a package's file by name, in its order."""
    rows = tomllib.loads(file_text(package, file))["study"]
    return {row["name"]: Described(package=package, **row) for row in rows}


def works(package: str, effort: Effort) -> Iterator[Work]:
    """All described studies of a mode."""
    for study in described(package).values():
        yield from study.works(effort)


def compute_all(
    works: Sequence[Work], out: Path, jobs: int, what: str, place: Place | None = None
) -> dict[str, pl.DataFrame]:
    """Computes what the folders of all studies lack, and shows how far it is.

    Gives each study's rows by its name; see `compute`.
    """
    place = place or simulated(jobs)
    total = sum(work.total for work in works)
    done = 0
    with progress.shown(what, kept=True) as shown:

        def advance(runs: int) -> None:
            nonlocal done
            done += runs
            shown(progress.Status(done, total))

        return {work.name: compute(work, out, place, advance) for work in works}


def compute(work: Work, out: Path, place: Place, advance: Callable[[int], None]) -> pl.DataFrame:
    """Computes the runs of a study that its folder lacks, and reads what it needs of all of them.

    Parameters
    ----------
    work
        The study; its folder is `out`/studies/name, followed by that of the place.
    out
        Where the paper's results are.
    place
        Who computes them.
    advance
        Called with the number of runs finished since the last call, those found in the folder
        included.

    Returns
    -------
    cell, replication, the axes and the study's columns, sorted by cell and replication.
    """
    wanted = work.wanted()
    folder = folder_of(work, out, place)
    before = 0

    def hear(status: progress.Status) -> None:
        nonlocal before
        advance(status.done - before)
        before = status.done

    try:
        workers = place.workers(work.scenario)
        free_of_other_engines(folder, workers.engine)
        with FolderStore(folder, work.scenario, asked=wanted, engine=workers.engine) as store:
            execution.compute_fixed(work.scenario, store, wanted, workers=workers, progress=hear)
            rows = store.read(work.columns)
    except OSError as error:
        raise AnabranchError(f"cannot write to {folder}: {error.strerror or error}") from error
    axes = [axis["name"] for axis in work.scenario.axes]
    return rows.filter(pl.col("replication") < pl.Series(wanted)[rows["cell"]]).select(
        "cell", "replication", *axes, *work.columns
    )


def folder_of(work: Work, out: Path, place: Place) -> Path:
    """The folder with the runs of a study that were computed at this place."""
    return out / "studies" / f"{work.name}{place.suffix}"


def timed(computed: Callable[[], Computed]) -> tuple[Computed, float]:
    """What is computed, and how many seconds of processor time that took."""
    started = time.process_time()
    return computed(), time.process_time() - started


def speed(
    scenario: Scenario, keys: Iterable[Mapping[str, float | str]], counters: Iterable[str]
) -> tuple[float, float]:
    """Computes some cells once more on one core: seconds for each, and packets a second.

    `counters` are the scalars that count the packets.
    """
    runs = [(find_cell(scenario, key), 0) for key in keys]
    batch, elapsed = timed(lambda: _engine.run_batch(scenario, runs, 1))
    return elapsed / len(runs), sum(sum(batch[name]) for name in counters) / elapsed


def find_cell(loaded: Scenario, key: Mapping[str, float | str]) -> int:
    """The number of the cell with these axis values."""
    for cell in range(loaded.cell_count):
        axes = loaded.cell_key(cell)
        if all(label(axes[name]) == label(value) for name, value in key.items()):
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
