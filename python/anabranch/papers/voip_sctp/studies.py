"""The paper's studies: those of `studies.toml`, in the order of their weight for the first look."""

from functools import partial

from anabranch.papers import studies
from anabranch.papers.studies import Reading, described, efforts, readings

EFFORTS = efforts(__package__)
"""The effort of each mode."""
_CLOCKS: tuple[Reading, ...] = readings(__package__, "studies.toml", "clock")
CLOCK_SETS = {clock.name: clock.sets for clock in _CLOCKS}
"""The loss clock of both paths, as values to set."""
TEN_PERCENT = described(__package__)["potentially-failed"].sets
"""The loss of Table 2, as `scenario.toml` has it in its axes."""
COLUMNS = ("call.mos", "call.mean_delay_ms")
"""The call's scalars that the analysis reads."""


class Variant(Reading):
    """One line of the sensitivity list."""

    group: str
    prototype: float | None = None
    """The mean absolute error that an independent prototype found."""


variants = partial(readings, __package__, "sensitivity.toml", "variant", Variant)
"""The sensitivity list; the first is the interpretation itself."""
all_studies = partial(studies.works, __package__)
"""Every study of a mode."""
