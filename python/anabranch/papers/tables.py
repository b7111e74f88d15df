"""The claims of every paper, as a table on the terminal and as a list in the record."""

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from anabranch.figures.table import STYLES, titled

from .verdicts import WORDS, Finding, Verdict, by_claim

FEW = 3
"""Up to so many profiles have a column each."""


def claims(findings: Sequence[Finding]) -> Table:
    """Every claim with its verdict under each profile."""
    profiles = list(dict.fromkeys(finding.profile for finding in findings))
    grid = titled("The paper's claims")
    grid.add_column("", no_wrap=True)
    grid.add_column("claim", ratio=1)
    if len(profiles) > FEW:
        return _claims_by_verdict(grid, findings)
    for profile in profiles:
        grid.add_column(profile.replace("_", " ").replace("-", "\n"), no_wrap=True)
    for number, by_profile in by_claim(findings).items():
        verdicts = [
            Text(WORDS[judged.verdict], style=STYLES[judged.verdict])
            for judged in (by_profile[profile] for profile in profiles)
        ]
        grid.add_row(number, by_profile[profiles[0]].text, *verdicts)
    return grid


def _claims_by_verdict(grid: Table, findings: Sequence[Finding]) -> Table:
    """The profiles under which each claim holds, does so partly, or is not decided."""
    verdicts: tuple[Verdict, ...] = ("reproduced", "partly", "open")
    for verdict in verdicts:
        grid.add_column(WORDS[verdict], ratio=1, style=STYLES[verdict])
    for number, by_profile in by_claim(findings).items():
        cells = []
        for verdict in verdicts:
            names = [
                profile.replace("_", " ").replace("-", " ")
                for profile, finding in by_profile.items()
                if finding.verdict == verdict
            ]
            cells.append("all" if len(names) == len(by_profile) else ", ".join(names))
        grid.add_row(number, next(iter(by_profile.values())).text, *cells)
    return grid


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
