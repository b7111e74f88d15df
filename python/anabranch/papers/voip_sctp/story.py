"""What the texts of `story.j2` show: the same on the terminal and on the page."""

import math

from anabranch.papers.texts import Texts
from anabranch.support.wording import counted

from .factors import CLOCK_NAMES, CLOCKS, RTO_MAX_S
from .outcome import HELPS, HURTS, NEAR_BEST, OPEN, Table2, VoipSctpOutcome

RECOMMENDED_S = 0.1
"""The RTO.Max that the paper recommends, in seconds."""


said = Texts(__package__, clocks=CLOCK_NAMES, counted=counted, near_best=NEAR_BEST)


def headline(outcome: VoipSctpOutcome) -> str:
    """What a call should set."""
    return said("headline", **_robust(outcome))


def _robust(outcome: VoipSctpOutcome) -> dict[str, object]:
    """What is said of the setting that loses least under the worse clock."""
    loss = outcome.robust_loss
    return {"robust": outcome.robust, "loss": max(loss, 0.005), "is_known": not math.isnan(loss)}


def sentences(outcome: VoipSctpOutcome) -> list[str]:
    """What each clock says about the best RTO.Max, what recommendations do under both, and why."""
    first, advice, effects = CLOCKS[0], outcome.advice, outcome.pmr_effects
    best = outcome.optima[first].setting
    heads = {"Helps": HELPS, "Hurts": HURTS, "Not resolved": OPEN}
    return said.several(
        "sentences",
        errors={clock: outcome.tables[clock].mean_absolute_error for clock in CLOCKS},
        optima=outcome.optima,
        advice=advice,
        advised={
            head: [item for item in advice if item.word == word] for head, word in heads.items()
        },
        mixed=[item for item in advice if item.word is None],
        is_hurt=best.pmr == 1 and effects[RECOMMENDED_S][first].negative,
        recommended_s=RECOMMENDED_S,
        best_s=best.rto_max_s,
        pmr_effects=effects,
        helps=[rto for rto in RTO_MAX_S if effects[rto][first].positive],
        **_robust(outcome),
    )


def table_summary(table: Table2) -> str:
    """Error, verdicts and worst cells in one line."""
    return said("summary", table=table)
