"""`anabranch difference`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import anabranch
from anabranch.support import terminal

from .app import app, pairs

Values = Annotated[
    tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=False)
]


@app.command(
    help_epilogue="""\
Examples:
  anabranch difference results/rto --a rto_max=0.1 --b rto_max=1 --metric call.mos
  anabranch difference results/rto --a rto_max=0.1 --a pmr=0 --b rto_max=1 --b pmr=5 --metric call.r
  anabranch difference results/rto --a pmr=0 --b pmr=1 --metric call.late --better lower"""
)
def difference(
    folder: Path,
    /,
    *,
    a: Values,
    b: Values,
    metric: str,
    better: Literal["higher", "lower"] | None = None,
    level: float = 0.95,
    matters: str | None = None,
) -> None:
    """Compare a scalar in two parts of a study, with intervals.

    Cells with the same values on all other axes are compared with each other,
    within each replication, as both drew the same random numbers.

    `anabranch compare` compares two studies or runs, in all scalars at once.

    Parameters
    ----------
    folder
        The study folder.
    a
        What is compared, as AXIS=VALUE with the value that tables show; several for several axes.
    b
        What it is compared with, in the same form.
    metric
        The scalar.
    better
        Which values are better, where this does not follow from the scalar's name.
    level
        Confidence level of the intervals.
    matters
        The smallest difference that matters, in the scalar's unit or as a share such as 5%; less
        is called equal. 0.1 for a MOS, 5% for others, if not given.
    """
    from anabranch.stats import verdicts  # noqa: PLC0415 - slow to import

    comparison = anabranch.Study(folder).compare(
        pairs(a, "--a AXIS=VALUE"),
        pairs(b, "--b AXIS=VALUE"),
        metric,
        maximise=None if better is None else better == "higher",
        level=level,
        matters=None if matters is None else verdicts.matters(matters),
    )
    out = terminal.console()
    out.print(comparison.sentence)
    if comparison.doubt:
        out.print(comparison.doubt)
