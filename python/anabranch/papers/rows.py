"""Claims as rows of a file: a value in some cells, how it compares, and what is claimed of it.

A row is a part of a claim (`verdicts.py`). What it says is its `text`, in which

- `{ours}` is the interval that is judged, and `{share}` its mean as per cent;
- `{this}` and `{other}` are the means in its cells and in those that it is compared with;
- `{n}` is the number of runs that have the value, and `{runs}` the number of all runs;
- `{AXIS}` is the value of an axis that `each` runs through;
- `{VALUE}` is the mean of another value in the same cells, which `also` names;
- `{WORD}` is what the paper's package says, and `words` names.

The claims of a paper's package may have parts that are functions beside rows: `by` names them.
"""

import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .intervals import Interval, interval
from .runs import Runs, Setting
from .studies import file_text
from .texts import fill
from .verdicts import SHARE_TOLERANCE, Claim, Part, above, below, between, verdict, within

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
    """The ratio of the mean to that of these cells; what they do not name is as in `where`."""
    percent: bool = False
    """A ratio as per cent above 1, another value as per cent."""
    digits: Annotated[int, Field(ge=0, le=9)] | None = None
    """Digits after the point; those of the value if not given."""
    signed: bool = False
    """Whether the sign stands before a value above 0, too; it always does before differences."""
    also: dict[str, Annotated[int, Field(ge=0, le=9)]] = {}
    """Other values that the text shows, with their digits after the point."""
    words: list[str] = []
    """Words of the paper's package that the text shows."""
    relation: Literal["above", "below", "within", "between", "about"] = Field(alias="is")
    bound: float | tuple[float, float] = 0.0
    """Two numbers where it is `between`."""
    tolerance: Annotated[float, Field(gt=0)] = SHARE_TOLERANCE
    """The distance that `about` allows, as a share of the bound."""
    margin: Annotated[float, Field(gt=0)] | None = None
    """The distance that `about` allows in the unit of the value, instead of the tolerance."""

    @model_validator(mode="after")
    def _fits(self) -> "Row":
        if self.minus is not None and self.over is not None:
            raise ValueError("minus and over exclude each other")
        if isinstance(self.bound, tuple) != (self.relation == "between"):
            raise ValueError(f"bound = {self.bound} does not go with is = {self.relation}")
        if self.relation == "about" and self.bound == 0:
            raise ValueError("bound = 0: about needs another number")
        allowed = {"ours", "share", "this", "n", "runs", *self.each, *self.also, *self.words}
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


class Judged(_Model):
    """Parts of a claim that no row can say: a function of the paper's package judges them."""

    by: str
    """The name of the function."""
    text: str | list[str]
    """What each part says (`texts.py`), a list where they differ; the function gives what stands in
    the braces."""
    study: str = "main"
    """The study that it reads, whose number of replications counts for the claim."""


class PackageClaim(_Model):
    """What a paper says, in the `claims.toml` of its package."""

    id: str
    text: str
    short: str = ""
    """A few words, for a figure."""
    parts: Annotated[list[Row | Judged], Field(min_length=1)]


class ClaimFile(_Model):
    """The content of `claims.toml`."""

    where: Cells = {}
    """Cells of every row, unless it names others."""
    claims: Annotated[list[PackageClaim], Field(min_length=1)]


class Evidence(ABC):
    """What the claims of a paper's package are judged on, under one profile."""

    @property
    @abstractmethod
    def studies(self) -> Mapping[str, Runs]:
        """The runs that rows read, by the names that rows have for them."""

    @abstractmethod
    def replications(self, study: str) -> int:
        """The fewest replications of any cell of a study that claims compare."""

    @property
    def words(self) -> Mapping[str, str]:
        """What texts of rows say beside numbers: the names of what is best, and so on."""
        return {}


Judgement = tuple[bool | None, Mapping[str, object]]
"""Whether a part holds, and what its text shows."""


def load(module: str) -> list[Claim[Any]]:
    """The claims of the `claims.toml` beside a module, in its order.

    Functions of the module that yield a `Judgement` for each part judge the parts that are no rows.
    """
    by_name: dict[str, Callable[[Evidence], Iterator[Judgement]]] = {
        name: one
        for name, one in vars(sys.modules[module]).items()
        if getattr(one, "__annotations__", {}).get("return") == Iterator[Judgement]
    }
    text = file_text(module.rpartition(".")[0], "claims.toml")
    file = ClaimFile.model_validate(tomllib.loads(text))
    named = {part.by for claim in file.claims for part in claim.parts if isinstance(part, Judged)}
    assert named == set(by_name), "the file names each function, and no other"

    def parts(claim: PackageClaim, material: Evidence) -> list[Part]:
        judged = []
        for each in claim.parts:
            if isinstance(each, Judged):
                found = list(by_name[each.by](material))
                texts = each.text if isinstance(each.text, list) else [each.text] * len(found)
                filled = zip(texts, found, strict=True)
                judged += [Part(fill(one, said), holds) for one, (holds, said) in filled]
                continue
            whole = each.model_copy(update={"where": {**file.where, **each.where}})
            runs = material.studies[each.study]
            judged += [part(row, runs, words=material.words) for row in whole.parts()]
        return judged

    def replications(claim: PackageClaim, material: Evidence) -> int:
        return min(material.replications(part.study) for part in claim.parts)

    return [
        Claim(
            claim.id, claim.text, partial(parts, claim), partial(replications, claim), claim.short
        )
        for claim in file.claims
    ]


def ratios(first: Runs, second: Runs, value: str) -> dict[int, float]:
    """Numbers by replication whose mean is the first's mean over the second's, with its interval.

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


def share_text(share: Interval) -> str:
    """A share of the runs as per cent, without its interval."""
    return f"{100 * share.mean:.0f} %" if share.n else "none"


def part(
    row: Row,
    runs: Runs,
    *,
    title: str = "",
    unit: str = "",
    digits: int = 2,
    words: Mapping[str, str] | None = None,
) -> Part:
    """A row judged on the runs of its study.

    `title`, `unit` and `digits` are those of its value; a text that says where its numbers go needs
    none of them. `words` are those that `Row.words` may name.
    """
    ours = measured(row, runs)
    shown = digits if row.digits is None else row.digits
    signed = row.signed or row.minus is not None or (row.over is not None and row.percent)
    interval_text = ours.text(shown, signed=signed)
    text = row.text
    if "{" in text:
        there = runs.where(**row.where)
        numbers = {
            "ours": interval_text,
            "share": share_text(ours),
            "this": there.mean(row.value).text(shown),
            "n": str(ours.n),
            "runs": str(there.frame["replication"].n_unique()),
            **{name: there.mean(name).text(places) for name, places in row.also.items()},
        }
        if row.others is not None:
            numbers["other"] = runs.where(**row.others).mean(row.value).text(shown)
        text = text.format_map({**(words or {}), **numbers})
    else:
        unit = " %" if row.percent else f" {unit}" if unit and row.over is None else ""
        text = f"{text or _words(row, title or row.value)}: {interval_text}{unit} ({_claimed(row)})"
    if row.relation == "between":
        return Part(text, between(ours, *_both(row)))
    bound = _one(row)
    if row.relation == "about":
        tolerance = row.margin or row.tolerance * abs(bound)
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


def _cells(cells: Cells) -> str:
    return ", ".join(
        f"{name} {' or '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in cells.items()
    )
