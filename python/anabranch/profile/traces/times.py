"""Times of tables: how they are written, and that they do not go back."""

import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.wording import counted

from ..intervals import Vector
from .series import gap_after

_UNDERSCORED = re.compile(r"(\d{4})\.(\d\d)\.(\d\d)_(\d\d)\.(\d\d)\.(\d\d)")
"""Times of G-NetTrack: 2019.12.14_10.16.30."""


def date(text: str) -> float | None:
    """A date in seconds since 1970; None where it is none that is read."""
    try:
        if match := _UNDERSCORED.match(text):
            found = datetime.strptime(match[0], "%Y.%m.%d_%H.%M.%S")  # noqa: DTZ007 - below
        else:
            found = datetime.fromisoformat(text)
        zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return zoned.timestamp()
    except (ValueError, OverflowError):
        return None


def note_gaps(times: Vector, spacing: float, notes: list[str]) -> None:
    """Says how many gaps there are, if there are any."""
    further = np.diff(times)
    gaps = further[further > gap_after(spacing)]
    if len(gaps):
        notes.append(
            f"{counted(len(gaps), 'gap')} in the times, the longest of {gaps.max():.6g} s: the "
            "mean of the log stands in a gap"
        )


def backwards(file: Path, number: int, before: float, after: float) -> AnabranchError:
    """What is wrong with this line, whose time in seconds comes before that of another."""
    return AnabranchError(
        f"{file}, line {number}: the time goes back from {before:.12g} s to {after:.12g} s; where "
        "a table has several runs, choose one with --where"
    )


def magnitude(value: float) -> float:
    """The unit of a time since 1970, or of a short one: nobody measured before 1973."""
    for least, unit in ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3)):
        if abs(value) >= least:
            return unit
    return 1.0
