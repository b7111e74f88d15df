"""What the terminal shows of every paper."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from .verdicts import WORDS, Finding, Verdict, by_claim

FEW = 3
"""Up to so many profiles have a column each."""

STYLES: dict[Verdict, str] = {
    "reproduced": "green",
    "partly": "yellow",
    "not_reproduced": "red",
    "open": "dim",
}


def titled(title: str) -> Table:
    """A table without columns yet."""
    return Table(title=title, title_justify="left", show_edge=False, pad_edge=False)


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
            Text(WORDS[found.verdict], style=STYLES[found.verdict])
            for found in (by_profile[profile] for profile in profiles)
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
                for profile, found in by_profile.items()
                if found.verdict == verdict
            ]
            cells.append("all" if len(names) == len(by_profile) else ", ".join(names))
        grid.add_row(number, next(iter(by_profile.values())).text, *cells)
    return grid
