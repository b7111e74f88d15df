"""Tables of the golden records."""

import math


def head(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [line(*names), line(*["---"] * len(names))]


def line(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def known(value: float, digits: int) -> str:
    """A number, a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
