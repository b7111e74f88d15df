"""Parts of the golden records."""

import math
from collections.abc import Iterable, Mapping

from .verdicts import WORDS, Finding


def head(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [line(*names), line(*["---"] * len(names))]


def line(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def claims(findings: Iterable[Finding], profiles: Mapping[str, str]) -> list[str]:
    """The section of every claim; `profiles` names what it was judged under."""
    return [
        "## Claims",
        "",
        *(
            f"- **{found.id}** ({profiles[found.profile]}): {WORDS[found.verdict]}."
            f" {found.text} {found.evidence}"
            for found in findings
        ),
    ]


def known(value: float, digits: int) -> str:
    """A number, a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
