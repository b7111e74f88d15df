"""Claims as rows of a file: a value in some cells, how it compares, and what is claimed of it.

A row is a part of a claim (`verdicts.py`). What it says is its `text`, in which `{ours}` is the
interval that is judged, `{this}` and `{other}` are the means in its cells and in those that it is
compared with, and `{AXIS}` is the value of an axis that `each` runs through.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from string import Formatter
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .intervals import Interval, interval
from .runs import Runs
from .verdicts import SHARE_TOLERANCE, Claim, Part, above, below, verdict, within

Material = TypeVar("Material")

Setting = bool | int | float | str
Cells = dict[str, Setting | list[Setting]]
"""Axis -> the value of it, or several."""


STRICT = ConfigDict(extra="forbid", frozen=True)
"""What a file may say: nothing that is not known."""


class _Model(BaseModel):
    model_config = STRICT


class Row(_Model):
    """A part of a claim: a relation that its words say."""

    text: str = ""
    """What it says; made from the rest if not given."""
    study: str = "main"
    value: str
    where: Cells = {}
    each: dict[str, list[Setting]] = {}
    """A part for each of these values of an axis, or for each pair of several axes' values."""
    minus: Cells | None = None
    """The difference to these cells, run by run on the same random numbers; what they do not name
    is as in `where`."""
    over: Cells | None = None
    """The ratio of the mean to that of these cells, likewise."""
    percent: bool = False
    """A ratio as per cent above 1, another value as per cent."""
    digits: Annotated[int, Field(ge=0, le=9)] | None = None
    """Digits after the point; those of the value if not given."""
    relation: Literal["above", "below", "within", "between", "about"] = Field(alias="is")
    bound: float | tuple[float, float] = 0.0
    """Two numbers where it is `between`."""
    tolerance: Annotated[float, Field(gt=0)] = SHARE_TOLERANCE
    """For `about`: as a share of the bound."""

    @model_validator(mode="after")
    def _fits(self) -> "Row":
        if self.minus is not None and self.over is not None:
            raise ValueError("minus and over exclude each other")
        if isinstance(self.bound, tuple) != (self.relation == "between"):
            raise ValueError(f"bound = {self.bound} does not go with is = {self.relation}")
        if self.relation == "about" and self.bound == 0:
            raise ValueError("bound = 0: about needs another number")
        allowed = {"ours", "this", *self.each}
        if self.others is not None:
            allowed.add("other")
        try:
            named = {
                f"{name}{f':{spec}' if spec else ''}{f'!{conversion}' if conversion else ''}"
                for _, name, spec, conversion in Formatter().parse(self.text)
                if name is not None
            }
        except ValueError as error:
            raise ValueError(f"text = {self.text!r}: {error}") from None
        for name in sorted(named - allowed):
            known = ", ".join(f"{{{one}}}" for one in sorted(allowed))
            raise ValueError(f"text = {self.text!r}: {{{name}}} is none of {known}")
        return self

    def parts(self) -> Iterator["Row"]:
        """The row for each value of each axis in `each`, without `each`."""
        for values in product(*self.each.values()):
            chosen = dict(zip(self.each, values, strict=True))
            named = {f"{{{axis}}}": str(value) for axis, value in chosen.items()}
            text = self.text
            for name, value in named.items():
                text = text.replace(name, value)
            yield self.model_copy(
                update={"each": {}, "where": {**self.where, **chosen}, "text": text}
            )

    @property
    def others(self) -> Cells | None:
        """The cells that it is compared with, if it is."""
        own = self.minus if self.over is None else self.over
        return None if own is None else {**self.where, **own}


class ClaimRows(_Model):
    """What a paper says; a claim without parts is judged elsewhere."""

    id: str
    text: str
    parts: list[Row] = []


class ClaimFile(_Model):
    """All of `claims.toml`."""

    where: Cells = {}
    """Cells of every row, unless it names others."""
    claims: Annotated[list[ClaimRows], Field(min_length=1)]


def load(
    text: str,
    predicates: Mapping[str, Callable[[Material], list[Part]]],
    runs: Callable[[Material], Runs],
    replications: Callable[[Material], int],
) -> list[Claim[Material]]:
    """The claims of a file, in its order.

    Parameters
    ----------
    text
        Of `claims.toml`.
    predicates
        How the claims without rows are judged, by id.
    runs
        The runs that rows are about.
    replications
        The fewest behind any claim.
    """
    file = ClaimFile.model_validate(tomllib.loads(text))
    ruled = {claim.id for claim in file.claims if not claim.parts}
    assert ruled == set(predicates), "each claim has rows or a predicate"

    def judged(rows: list[Row], material: Material) -> list[Part]:
        return [part(row, runs(material)) for each in rows for row in each.parts()]

    def parts(claim: ClaimRows) -> Callable[[Material], list[Part]]:
        if not claim.parts:
            return predicates[claim.id]
        whole = [
            row.model_copy(update={"where": {**file.where, **row.where}}) for row in claim.parts
        ]
        return partial(judged, whole)

    return [Claim(claim.id, claim.text, parts(claim), replications) for claim in file.claims]


def ratios(first: Runs, second: Runs, value: str) -> dict[int, float]:
    """By replication, numbers whose mean is the first's mean over the second's, and their interval.

    It is the ratio of means, as papers have it, not the mean of ratios, in which few runs of a
    small second would count for most. Each replication's number is the ratio, linearised (the ratio
    estimator: Cochran, Sampling Techniques, section 6.4).
    """
    ours, theirs = first.per_replication(value), second.per_replication(value)
    keys = [key for key in ours if key in theirs]
    mean = sum(theirs[key] for key in keys) / len(keys) if keys else 0.0
    if not mean:
        return {}
    mean_ratio = sum(ours[key] for key in keys) / len(keys) / mean
    return {key: mean_ratio + (ours[key] - mean_ratio * theirs[key]) / mean for key in keys}


def measured(row: Row, runs: Runs) -> Interval:
    """What a row is about: a mean, a difference or a ratio."""
    there = runs.where(**row.where)
    if row.others is None:
        mean, shift = there.mean(row.value), 0.0
    elif row.minus is not None:
        mean, shift = there.minus(runs.where(**row.others), row.value), 0.0
    else:
        mean = interval(ratios(there, runs.where(**row.others), row.value).values())
        shift = 1.0
    if not row.percent:
        return mean
    return Interval(100 * (mean.mean - shift), 100 * mean.half_width, mean.n)


def part(row: Row, runs: Runs, *, title: str = "", unit: str = "", digits: int = 2) -> Part:
    """A row judged on the runs of its study.

    `title`, `unit` and `digits` are those of its value; a text that says where its numbers go needs
    none of them.
    """
    ours = measured(row, runs)
    shown = digits if row.digits is None else row.digits
    signed = row.minus is not None or (row.over is not None and row.percent)
    interval_text = ours.text(shown, signed=signed)
    text = row.text
    if "{" in text:
        others = {} if row.others is None else {"other": row.others}
        means = {
            name: runs.where(**cells).mean(row.value).text(shown)
            for name, cells in {"this": row.where, **others}.items()
        }
        text = text.format(ours=interval_text, **means)
    else:
        unit = " %" if row.percent else f" {unit}" if unit and row.over is None else ""
        text = f"{text or _words(row, title or row.value)}: {interval_text}{unit} ({_claimed(row)})"
    if row.relation == "between":
        low, high = _both(row)
        middle = Interval(ours.mean - (low + high) / 2, ours.half_width, ours.n)
        return Part(text, within(middle, (high - low) / 2))
    bound = _one(row)
    if row.relation == "about":
        tolerance = row.tolerance * abs(bound)
        return Part.number(text, verdict(bound, ours.mean, ours.half_width, tolerance))
    relation = {"above": above, "below": below, "within": within}[row.relation]
    return Part(text, relation(ours, bound))


def _one(row: Row) -> float:
    assert isinstance(row.bound, float)
    return row.bound


def _both(row: Row) -> tuple[float, float]:
    assert isinstance(row.bound, tuple)
    return row.bound


def _claimed(row: Row) -> str:
    if row.relation == "between":
        low, high = _both(row)
        return f"claimed: {low:g} to {high:g}"
    bound = _one(row)
    if row.relation == "about":
        return f"paper: {bound:g}"
    sign = {"above": ">", "below": "<", "within": "within ±"}[row.relation]
    return f"claimed: {sign} {bound:g}"


def _words(row: Row, title: str) -> str:
    where = f" ({_cells(row.where)})" if row.where else ""
    if row.minus is not None:
        return f"{title}{where} minus that of {_cells(row.minus)}"
    if row.over is not None:
        return f"{title}{where} over that of {_cells(row.over)}"
    return f"{title}{where}"


def _cells(cells: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {' or '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in cells.items()
    )
