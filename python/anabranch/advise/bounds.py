"""Whether the advice holds for everything that the measurement of a path allows.

A profile says between which bounds a link's mean loss lies, and how long its delay is at most where
it does not know it. At each bound, with all else as it was estimated, the recommendation runs
against its rivals once more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .numbers import change
from .paths import Bound, Paths
from .search import Trials
from .settings import Candidate

_RIVALS = 3
"""How many of the best of the first look are measured as often as the advice is, besides the
simplest of those that look better.
"""
_FIRST_LOOK = 4
"""The first look has the replications of the advice divided by this."""


@dataclass(frozen=True)
class Held:
    """How the recommendation does at one bound."""

    bound: Bound
    rival: Candidate | None
    """The simplest candidate that is better there by more than what matters; None if there is none.
    """
    gain: tuple[float, float]
    """The rival minus the recommendation: mean difference and half the width of its 95 % interval,
    in the goal's unit; positive is better, NaN where runs of the recommendation fail.
    """

    @property
    def holds(self) -> bool:
        """Whether the recommendation is as good as anything there."""
        return self.rival is None

    def as_json(self) -> dict[str, Any]:
        """The same, as a tree for JSON."""
        mean, half_width = self.gain
        return {
            "link": self.bound.link,
            "end": self.bound.end,
            self.bound.key: self.bound.value,
            "holds": self.holds,
            "better": None if self.rival is None else dict(self.rival.values),
            "gain": None if math.isnan(mean) else {"mean": mean, "half_width": half_width},
            "measure": self.bound.remedy,
        }

    def sentence(self, unit: str) -> str:
        """What would be better and what would have to be measured, or where the advice fails."""
        assert self.rival is not None
        better = "some runs fail, and none do with"
        if not math.isnan(self.gain[0]):
            better = f"there is {change(*self.gain, unit)} with"
        bound = self.bound
        return (
            f"not enough known of the {bound.key} of {bound.link}: at {bound.said}, the "
            f"{bound.end} that it may be, {better} {self.rival.name}; measure more, such as "
            f"{bound.remedy}"
        )


def check(
    trials: Trials,
    paths: Paths,
    transport: str,
    recommended: Candidate,
    rivals: Sequence[Candidate],
    *,
    replications: int,
    relevant: float,
) -> list[Held]:
    """Looks at every bound of these paths.

    Parameters
    ----------
    trials
        Where the advice was found; more runs of it are not made.
    recommended
        What is advised.
    rivals
        What may be better somewhere.
    replications
        How often the candidates that are compared in the end run.
    relevant
        The smallest difference that matters, in the goal's unit.
    """
    checks = []
    candidates = list(dict.fromkeys([recommended, *rivals]))
    for bound in paths.bounds:
        there = replace(
            trials,
            scenario=trials.goal.scenario(paths.at(bound), transport),
            folder=trials.folder / f"{bound.link}-{bound.key}-{bound.end}",
            values={},
            counts={},
        )
        title = f"{bound.link} with a {bound.key} of {bound.said}"
        there.measure(title, candidates, max(replications // _FIRST_LOOK, 2))
        order = there.best(candidates)
        finalists = [*order[:_RIVALS], *_better(there, order, recommended, relevant)[:1]]
        there.measure(title, [recommended, *finalists], replications)
        better = _better(there, finalists, recommended, relevant)
        rival = better[0] if better else None
        gain = (0.0, 0.0) if rival is None else there.difference(rival, recommended)
        checks.append(Held(bound, rival, gain))
    return checks


def _better(
    trials: Trials, candidates: Sequence[Candidate], recommended: Candidate, relevant: float
) -> list[Candidate]:
    """The candidates that are better by more than what matters, the simplest first."""
    better = []
    for one in candidates:
        loss, half_width = trials.loss(recommended, one)
        if math.isnan(loss):
            is_better = math.isinf(trials.score(recommended)) > math.isinf(trials.score(one))
        else:
            is_better = loss > max(relevant, half_width)
        if is_better:
            better.append(one)
    return sorted(better, key=lambda one: len(one.values))
