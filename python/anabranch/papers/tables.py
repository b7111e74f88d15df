"""What the terminal shows of every paper."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from .verdicts import WORDS, Finding, by_claim

STYLES = {"reproduced": "green", "partly": "yellow", "not_reproduced": "red"}


def claims(findings: Sequence[Finding]) -> Table:
    """Every claim with its verdict under each profile."""
    profiles = list(dict.fromkeys(finding.profile for finding in findings))
    grid = Table(title="The paper's claims", title_justify="left", show_edge=False, pad_edge=False)
    grid.add_column("", no_wrap=True)
    grid.add_column("claim", ratio=1)
    for profile in profiles:
        grid.add_column(profile.replace("_", " "), no_wrap=True)
    for number, by_profile in by_claim(findings).items():
        verdicts = [
            Text(WORDS[found.verdict], style=STYLES[found.verdict])
            for found in (by_profile[profile] for profile in profiles)
        ]
        grid.add_row(number, by_profile[profiles[0]].text, *verdicts)
    return grid
