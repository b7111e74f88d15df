"""Tables that papers have alike: claims, means of runs, published numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.figures.table import Cell, Table, known

from .runs import Runs
from .verdicts import WORDS, Finding, PublishedNumber, Verdict, by_claim

FEW = 3
"""Up to so many profiles have a column each."""
_SHOWN: tuple[Verdict, ...] = ("reproduced", "partly", "open")
"""Verdicts that have a column each where there are more profiles."""


@dataclass(frozen=True)
class Column:
    """A value of runs that has a column."""

    value: str
    head: str
    digits: int = 2
    has_interval: bool = True

    def cell(self, runs: Runs) -> str:
        """The mean of the value over these runs."""
        mean = runs.mean(self.value)
        return mean.text(self.digits) if self.has_interval else known(mean.mean, self.digits)


def of_means(
    title: str,
    keys: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Runs]],
    columns: Sequence[Column],
    *,
    texts: int | None = None,
    lead: str = "",
) -> Table:
    """A row for some runs: what they are, under the heads `keys`, and the mean of each column.

    `texts` is the number of keys that are text, all of them if it is not given; where they begin
    alike, a page has what they share once.
    """
    return Table(
        title,
        [*keys, *(column.head for column in columns)],
        [[*key, *(column.cell(runs) for column in columns)] for key, runs in rows],
        keys=len(keys) if texts is None else texts,
        is_merged=len(keys) > 1 and texts is not None,
        lead=lead,
    )


def of_published(
    title: str,
    heads: Sequence[str],
    cells: Iterable[PublishedNumber],
    key: Callable[[PublishedNumber], Sequence[str]],
    paper: Callable[[PublishedNumber], str],
    *,
    digits: int = 2,
    in_words: bool = False,
) -> Table:
    """Published numbers beside ours, which have the verdict as a shade or in a column of its own.

    `heads` are those of `key`, which says what a number is; `paper` says what was published.
    """
    rows: list[list[Cell | str]] = [
        [
            *key(cell),
            paper(cell),
            *([cell.ours(digits).text, WORDS[cell.verdict]] if in_words else [cell.ours(digits)]),
        ]
        for cell in cells
    ]
    verdict = ["verdict"] if in_words else []
    return Table(title, [*heads, "paper", "ours", *verdict], rows, keys=len(heads))


def claims(findings: Sequence[Finding]) -> Table:
    """Every claim with its verdict under each profile.

    Where there are many profiles, those under which it holds, does so partly, or is not decided.
    """
    profiles = list(dict.fromkeys(finding.profile for finding in findings))
    few = len(profiles) <= FEW
    heads = [profile.replace("_", " ").replace("-", "\n") for profile in profiles]
    rows: list[list[Cell | str]] = []
    for number, by_profile in by_claim(findings).items():
        if few:
            verdicts = [by_profile[profile].verdict for profile in profiles]
            cells = [Cell(WORDS[verdict], verdict) for verdict in verdicts]
        else:
            cells = [Cell(_profiles(by_profile, verdict), verdict) for verdict in _SHOWN]
        rows.append([number, next(iter(by_profile.values())).text, *cells])
    shown = heads if few else [WORDS[verdict] for verdict in _SHOWN]
    return Table("The paper's claims", ["", "claim", *shown], rows, keys=2 + len(shown))


def _profiles(by_profile: Mapping[str, Finding], verdict: Verdict) -> str:
    names = [
        profile.replace("_", " ").replace("-", " ")
        for profile, finding in by_profile.items()
        if finding.verdict == verdict
    ]
    return "all" if len(names) == len(by_profile) else ", ".join(names)


def recorded(findings: Iterable[Finding], profiles: Mapping[str, str]) -> list[str]:
    """The record's section of every claim; `profiles` names what it was judged under."""
    return [
        "## Claims",
        "",
        *(
            f"- **{finding.id}** ({profiles[finding.profile]}): {WORDS[finding.verdict]}."
            f" {finding.text} {finding.evidence}"
            for finding in findings
        ),
    ]
