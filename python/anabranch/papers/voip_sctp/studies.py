"""The paper's studies: which runs each has, and the folders that keep them.

Every study is the network of `scenario.toml` with a sweep: its own (the paper's 7,128 cells) or one
of the `sweep_*.toml` files. The loss clock and the variants of the sensitivity list are values set
on top, each a study of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from anabranch._engine import Scenario
from anabranch.papers.studies import (
    Key,
    Reading,
    Sets,
    Work,
    described,
    efforts,
    file_text,
    label,
    readings,
)

from .factors import CLOCKS

LAST_LINKS = ("p0-last", "p1-last")

TEN_PERCENT = described(__package__)["potentially-failed"].sets
"""The loss of Table 2, as `scenario.toml` has it in its axes."""

COLUMNS = ("call.mos", "call.mean_delay_ms")
"""The call's scalars that the analysis reads."""


@dataclass(frozen=True)
class Effort:
    """Replications of each kind of cell; `efforts.toml` says what each kind is."""

    table2: dict[str, int]
    figures: dict[str, int]
    grid: dict[str, int]
    settings: int
    potentially_failed: int
    traced: int
    sensitivity: int


EFFORTS = efforts(__package__, Effort)
"""The effort of each mode."""


def paper(clock: str, effort: Effort) -> Work:
    """The paper's 7,128 cells under one loss clock."""

    def replications(key: Key) -> int:
        losses = {label(key[f"loss{path}"]) for path in (0, 1)}
        waits = [key[f"wait{path}"] for path in (0, 1)]
        is_drawn = len(losses) == 1 and waits == [0.025, 0.025]
        table2 = effort.table2[clock] if losses == {"0.1"} else 0
        return max(effort.grid[clock], table2, effort.figures[clock] if is_drawn else 0)

    title = {"on_arrival": "losses on arrival", "slot": "losses every 5 ms"}[clock]
    loaded = Scenario.parse(file_text(__package__, "scenario.toml"), clock_sets(clock))
    return Work(f"paper-{clock}", title, loaded, replications, COLUMNS)


class Variant(Reading):
    """One line of the sensitivity list."""

    group: str
    prototype: float | None = None
    """The mean absolute error that an independent prototype found."""


variants = partial(readings, __package__, "sensitivity.toml", "variant", Variant)
"""The sensitivity list; the first is the interpretation itself."""


def clock_sets(clock: str) -> Sets:
    """The loss clock of both paths, as values to set."""
    assert clock in CLOCKS
    return tuple((f"links.{link}.loss.clock", clock) for link in LAST_LINKS)


def all_studies(effort: Effort) -> Iterator[Work]:
    """Every study of a mode, in the order of their weight for the page's first lines."""
    for clock in CLOCKS:
        yield paper(clock, effort)
    for study in described(__package__).values():
        if study.name != "sensitivity":
            yield study.work(effort)
        elif effort.sensitivity:
            for number, variant in enumerate(variants()):
                name, sets = f"sensitivity/{number:02}", TEN_PERCENT + variant.sets
                yield study.work(effort, sets, name=name, title=variant.name)
