"""How a published number or claim is judged, in every paper alike.

A claim is cut into parts, each an inequality that its words say; a part holds when the whole 95 %
interval is on the claimed side, fails when the whole interval is on the other, and is open in
between; a part that is one published number can also be met partly. A claim is reproduced when all
its parts hold and not reproduced when its leading part fails or all do. Otherwise it is partly
reproduced when a part holds, wholly or partly, and open when none does: what is left is undecided.

What has fewer than two replications has no interval: there no part is decided, whatever its means,
counts and ranks are. With few replications the evidence says that they may be why a part is open.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

from anabranch.figures.table import Cell, Shade, known

from .intervals import Interval

Material = TypeVar("Material")
"""What a paper's claims are judged on."""
Verdict = Shade
"""`open` is what too few runs leave undecided."""

WORDS: dict[Verdict, str] = {
    "reproduced": "reproduced",
    "partly": "partly",
    "not_reproduced": "not reproduced",
    "open": "open",
}

SHARE_TOLERANCE = 0.10
"""A number is reproduced within this share of the published value, if nothing else is said."""

DECIDABLE_REPLICATIONS = 10
"""Cells with fewer replications say nothing about the sign of their own difference.

A part that is open with fewer is open for want of replications.
"""


@dataclass(frozen=True)
class Part:
    """One inequality of a claim, or one published number.

    True holds, False contradicted, None not decided by the interval. A number that is met partly
    does not hold, but is decided.
    """

    text: str
    holds: bool | None
    is_partly: bool = False

    @classmethod
    def number(cls, text: str, verdict: Verdict) -> "Part":
        """The part that says what became of one published number."""
        holds = {"reproduced": True, "not_reproduced": False}.get(verdict)
        return cls(text, holds, is_partly=verdict == "partly")

    @property
    def is_open(self) -> bool:
        """Whether more runs may decide it."""
        return self.holds is None and not self.is_partly


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict under one profile: a loss clock, a reading."""

    id: str
    text: str
    profile: str
    verdict: Verdict
    evidence: str


def judge(
    number: str, text: str, profile: str, parts: Sequence[Part], replications: int
) -> Finding:
    """The finding from a claim's parts and the fewest replications behind any of them."""
    if replications < 2:
        parts = [replace(part, holds=None, is_partly=False) for part in parts]
    evidence = "; ".join(map(_sentence, parts)) + "."
    if replications < DECIDABLE_REPLICATIONS and any(part.is_open for part in parts):
        evidence += f" With so few replications ({replications}) what is open cannot be decided."
    return Finding(number, text, profile, combine(parts), evidence[:1].upper() + evidence[1:])


@dataclass(frozen=True)
class Claim(Generic[Material]):
    """What a paper says, and how it is judged."""

    id: str
    text: str
    parts: Callable[[Material], list[Part]]
    replications: Callable[[Material], int]
    """The fewest behind any of its parts."""
    short: str = ""
    """A few words, for a figure."""

    def judge(self, material: Material, profile: str) -> Finding:
        """The finding on a material, which is that of one profile."""
        parts, replications = self.parts(material), self.replications(material)
        return judge(self.id, self.text, profile, parts, replications)


def by_claim(findings: Iterable[Finding]) -> dict[str, dict[str, Finding]]:
    """Claim's number -> profile -> its finding."""
    by_id: dict[str, dict[str, Finding]] = {}
    for finding in findings:
        by_id.setdefault(finding.id, {})[finding.profile] = finding
    return by_id


def counted(findings: Sequence[Finding]) -> str:
    """How many findings have which verdict; which they are stands in the table of claims."""
    verdicts = [finding.verdict for finding in findings]
    parts = [f"{verdicts.count(word)} {text}" for word, text in WORDS.items() if word in verdicts]
    return ", ".join(parts)


def combine(parts: Sequence[Part]) -> Verdict:
    """All parts hold: reproduced.

    The first contradicted, or all: not reproduced. Else, some hold at least partly: partly. None
    does: open.
    """
    if all(part.holds for part in parts):
        return "reproduced"
    if parts[0].holds is False:
        return "not_reproduced"
    return "partly" if any(part.holds or part.is_partly for part in parts) else "open"


def all_of(parts: Sequence[bool | None]) -> bool | None:
    """True when all hold, False when any is contradicted, else None."""
    if any(part is False for part in parts):
        return False
    return True if all(parts) else None


def above(value: Interval, bound: float = 0.0) -> bool | None:
    """Whether the whole interval lies above the bound.

    False when no part of it does, None when it straddles the bound or is unknown.
    """
    if value.low > bound:
        return True
    return False if value.high <= bound else None


def below(value: Interval, bound: float) -> bool | None:
    """Whether the whole interval lies below the bound.

    False when it lies above, None when it straddles it or is unknown.
    """
    return above(Interval(-value.mean, value.half_width, value.n), -bound)


def within(value: Interval, bound: float) -> bool | None:
    """Whether the whole interval lies within ±bound.

    False when it lies outside, None when it straddles a bound.
    """
    if -bound <= value.low and value.high <= bound:
        return True
    return False if value.low > bound or value.high < -bound else None


def between(value: Interval, low: float, high: float) -> bool | None:
    """Whether the whole interval lies between two bounds.

    False when it lies outside, None when it straddles a bound.
    """
    middle = (low + high) / 2
    return within(Interval(value.mean - middle, value.half_width, value.n), (high - low) / 2)


@dataclass(frozen=True)
class PublishedNumber:
    """One published number beside ours; the JSON of `reproduce` has all of it but the unit."""

    table: str
    key: dict[str, float | int | str]
    published: float
    measured: float
    half_width: float
    verdict: Verdict
    unit: str

    @property
    def deviation(self) -> float:
        """Ours minus the published value."""
        return self.measured - self.published

    def ours(self, digits: int = 2) -> Cell:
        """Our value with its half-width, for a table."""
        half_width = known(self.half_width, digits)
        return Cell(f"{self.measured:.{digits}f} ± {half_width}", self.verdict)


def plain(value: object, *without: str) -> Any:
    """A dataclass with all that it has as a tree for JSON, less some of its fields.

    Numbers have four digits: far below every half-width, far above the last bit of a sum. NaN is
    None.
    """
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    if isinstance(value, Interval):
        return plain(value._asdict())
    if is_dataclass(value):
        names = (one.name for one in fields(value) if one.name not in without)
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def verdict(published: float, measured: float, half_width: float, tolerance: float) -> Verdict:
    """Reproduced within the tolerance, partly within twice that.

    Open where the half-width exceeds the tolerance, or one run has none (NaN), unless the whole
    interval lies beyond twice the tolerance.
    """
    distance = abs(measured - published)
    if not half_width <= tolerance and not distance - half_width > 2 * tolerance:
        return "open"
    if distance <= tolerance:
        return "reproduced"
    return "partly" if distance <= 2 * tolerance else "not_reproduced"


def _sentence(part: Part) -> str:
    if part.is_partly:
        return f"{part.text} (partly)"
    return part.text + {True: "", False: " (contradicted)", None: " (not decided)"}[part.holds]
