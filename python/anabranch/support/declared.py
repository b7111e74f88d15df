"""What a run reports, as the engine declares it: scalars, the tables of traces, and old names."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from anabranch import _engine
from anabranch.errors import AnabranchError, suggestion


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of a scalar, or of a column of a trace."""

    name: str
    """The last part of the scalar's name in a row, or the column's name."""
    unit: str
    """Its unit as figures show it; `1` for plain numbers, and nothing for words."""
    more_is_better: bool | None
    """None where that depends on the question."""
    meaning: str
    words: str
    """The name without its unit, in words."""


@dataclass(frozen=True, slots=True)
class Group:
    """Scalars with the same places in the row."""

    of: str
    """The component: a kind of transport or application, `link`, `run`, ..."""
    about: str
    places: tuple[str, ...]
    """Where they stand, such as `<flow>.sctp.<side>`."""
    scalars: tuple[Declared, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a trace."""

    name: str
    row: str
    """What it has a row for."""
    columns: tuple[Declared, ...]


@cache
def groups() -> tuple[Group, ...]:
    """All scalars, by component."""
    return tuple(
        Group(one["of"], one["about"], tuple(one["places"]), _declared(one["scalars"]))
        for one in _all()["groups"]
    )


@cache
def tables() -> tuple[Table, ...]:
    """All tables of traces."""
    return tuple(
        Table(one["name"], one["row"], _declared(one["columns"])) for one in _all()["tables"]
    )


def limits() -> dict[str, str]:
    """What can hold a sender back, by the words of the trace `limits`, in the order of tables."""
    shares = next(group for group in groups() if group.of == "limits").scalars
    return {share.name.removesuffix("_share"): share.meaning for share in shares}


def scalar(metric: str) -> Declared | None:
    """The declaration of a scalar by its full name, or by the last part of it."""
    return _by_name().get(metric.rpartition(".")[2])


def present_name(metric: str) -> str:
    """The name that a scalar has now, which is another one if it was renamed.

    What has no place before its name is no scalar of a run, and keeps its name.
    """
    owner, dot, name = metric.rpartition(".")
    return f"{owner}{dot}{_all()['renamed'].get(name, name)}" if dot else metric


def no_scalar(metric: str, known: Iterable[str]) -> AnabranchError:
    """The error for a scalar that is not among the known ones."""
    now = present_name(metric)
    hint = f"; it is called `{now}` now" if now != metric else suggestion(metric, known)
    return AnabranchError(f"there is no scalar `{metric}`{hint}")


@cache
def _all() -> dict[str, Any]:
    declarations: dict[str, Any] = json.loads(_engine.results())
    return declarations


@cache
def _by_name() -> dict[str, Declared]:
    # Scalars of one name have one unit and agree on what is better: a test of the engine says so.
    return {one.name.rpartition(".")[2]: one for group in groups() for one in group.scalars}


def _declared(several: list[dict[str, str | None]]) -> tuple[Declared, ...]:
    better = {"more": True, "less": False, None: None}
    return tuple(
        Declared(
            str(one["name"]),
            str(one["unit"]),
            better[one["better"]],
            str(one["meaning"]),
            str(one["words"]),
        )
        for one in several
    )
