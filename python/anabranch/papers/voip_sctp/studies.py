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
    with_sweep,
)

from .factors import CLOCKS

_text = partial(file_text, __package__)

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
        wanted = effort.grid[clock]
        if losses == {"0.1"}:
            wanted = max(wanted, effort.table2[clock])
        if len(losses) == 1 and waits == [0.025, 0.025]:
            wanted = max(wanted, effort.figures[clock])
        return wanted

    title = {"on_arrival": "losses on arrival", "slot": "losses every 5 ms"}[clock]
    return Work(
        f"paper-{clock}",
        title,
        Scenario.parse(_text("scenario.toml"), clock_sets(clock)),
        replications,
        COLUMNS,
    )


class Variant(Reading):
    """One line of the sensitivity list."""

    group: str
    prototype: float | None = None
    """The mean absolute error that an independent prototype found."""
    policy: str = ""
    """A setting of the path policy, empty for none."""


variants = partial(readings, __package__, "sensitivity.toml", "variant", Variant)
"""The sensitivity list; the first is the interpretation itself."""


def sensitivity(number: int, variant: Variant, effort: Effort) -> Work:
    """Table 2's cells under one variant."""
    sweep = _text("sweep_table2.toml")
    if variant.policy:
        for state, changed in (
            ('{ kind = "failover" }', f'{{ kind = "failover", {variant.policy} }}'),
            (
                '{ kind = "delay_centric" }',
                f'{{ kind = "delay_centric", failover = {{ {variant.policy} }} }}',
            ),
        ):
            assert state in sweep, "the sweep says which policy each state of delay-centric is"
            sweep = sweep.replace(state, changed)
    loaded = _with_sweep(sweep, TEN_PERCENT + variant.sets)
    return Work(
        f"sensitivity/{number:02}", variant.name, loaded, lambda _: effort.sensitivity, COLUMNS
    )


def clock_sets(clock: str) -> Sets:
    """The loss clock of both paths, as values to set."""
    assert clock in CLOCKS
    return tuple((f"links.{link}.loss.clock", clock) for link in LAST_LINKS)


def all_studies(effort: Effort) -> Iterator[Work]:
    """Every study of a mode, in the order of their weight for the page's first lines."""
    for clock in CLOCKS:
        yield paper(clock, effort)
    for study in described(__package__).values():
        yield study.work(effort)
    if effort.sensitivity:
        for number, variant in enumerate(variants()):
            yield sensitivity(number, variant, effort)


def _with_sweep(sweep: str, sets: Sets = ()) -> Scenario:
    return with_sweep(_text("scenario.toml"), sweep, sets)
