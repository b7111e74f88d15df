"""The finding in words: what the texts of `story.toml` show.

The same sentences on the terminal and on the page.
"""

import math
from collections.abc import Sequence

from anabranch.papers.intervals import Interval
from anabranch.papers.texts import Texts
from anabranch.papers.verdicts import WORDS
from anabranch.support.wording import counted

from .factors import CLOCK_NAMES, CLOCKS, RTO_MAX_S
from .outcome import HELPS, HURTS, NEAR_BEST, OPEN, Optimum, Table2, VoipSctpOutcome

RECOMMENDED_S = 0.1
"""The RTO.Max that the paper recommends, in seconds."""


said = Texts(__package__)


def headline(outcome: VoipSctpOutcome) -> str:
    """What a call should set."""
    return _robust(outcome, "headline")


def _robust(outcome: VoipSctpOutcome, text: str) -> str:
    if math.isnan(outcome.robust_loss):
        return said(f"no_{text}")
    return said(text, robust=outcome.robust, loss=max(outcome.robust_loss, 0.005))


def _decides(outcome: VoipSctpOutcome) -> str:
    """One sentence on what decides the table."""
    errors = {clock: outcome.tables[clock].mean_absolute_error for clock in CLOCKS}
    arrival, slot = errors["on_arrival"], errors["slot"]
    if arrival < slot / 1.5:
        verdict = (
            "The loss model's clock decides this paper: Table 2 needs ns-2's, which stands still"
            " while the sender does"
        )
    elif slot < arrival / 1.5:
        verdict = "Table 2 needs the paper's literal clock, a draw every 5 ms"
    else:
        verdict = "Table 2 does not tell the two loss clocks apart"
    return said("decides", verdict=verdict, **errors)


def sentences(outcome: VoipSctpOutcome) -> list[str]:
    """What each clock says about the best RTO.Max, what recommendations do under both, and why."""
    return [
        _decides(outcome),
        *(_optimum(outcome.optima[clock], clock) for clock in CLOCKS),
        _survivors(outcome),
        *_pmr(outcome),
        _robust(outcome, "robust"),
    ]


def table_summary(table: Table2) -> str:
    """Error, verdicts and worst cells in one line."""
    worst = ", ".join(
        f"{cell.key['rto_max_s']:g} s/PMR {cell.key['pmr']}/{cell.key['delay_centric']}"
        f" {cell.deviation:+.2f}"
        for cell in table.worst
    )
    counts = {verdict: table.count(verdict) for verdict in WORDS}
    return said(
        "table",
        table=table,
        counts=counts,
        undecided=f", {counts['open']} open" if counts["open"] else "",
        worst=worst,
        replications=counted(table.replications, "replication"),
    )


def _optimum(optimum: Optimum, clock: str) -> str:
    best, cell = optimum.rto_max, optimum.cell
    near = [rto for rto in optimum.near_best_s if rto not in best.candidates]
    rivals = [rto for rto in best.candidates if rto != optimum.best_s]
    return said(
        "optimum",
        clock=f"Losses drawn {CLOCK_NAMES[clock]}",
        optimum=optimum,
        doubt="" if best.is_resolved else f"; {best.doubt(_list(rivals, 'and'))}",
        near=f"; surely within {NEAR_BEST:g} MOS of it: {_list(near)}" if near else "",
        cell_doubt="" if cell.is_resolved else f"; {cell.doubt(cell.others)}",
    )


def _survivors(outcome: VoipSctpOutcome) -> str:
    heads = {HELPS: "Helps", HURTS: "Hurts", OPEN: "Not resolved"}
    sentences = []
    for word, head in heads.items():
        items = [item for item in outcome.advice if item.word == word]
        if items:
            listed = "; ".join(f"{item.text} ({_effects(item.effects)})" for item in items)
            sentences.append(f"{head} under both clocks: {listed}.")
    if not any(item.word == HELPS for item in outcome.advice):
        sentences.insert(0, "No recommendation helps under both clocks.")
    if mixed := [item for item in outcome.advice if item.word is None]:
        listed = "; ".join(f"{item.text} ({_effects(item.effects, item.words)})" for item in mixed)
        sentences.append(f"Not the same under both clocks: {listed}.")
    return " ".join(sentences)


def _pmr(outcome: VoipSctpOutcome) -> list[str]:
    """Why PMR 1 is in the best cell although it hurts at the RTO.Max of the recommendations."""
    first, effects = CLOCKS[0], outcome.pmr_effects
    best = outcome.optima[first].setting
    if best.pmr != 1 or not effects[RECOMMENDED_S][first].negative:
        return []
    helps = [rto for rto in RTO_MAX_S if effects[rto][first].positive]
    sentence = said(
        "pmr",
        recommended_s=RECOMMENDED_S,
        recommended=_effects(effects[RECOMMENDED_S]),
        there=_effects(effects[best.rto_max_s]),
        best_s=best.rto_max_s,
        helps=f"; on arrival it helps at {_list(helps)}" if helps else "",
    )
    return [sentence]


def _effects(effects: dict[str, Interval], words: dict[str, str] | None = None) -> str:
    """The effect under each clock, with its word where one is given."""
    return " and ".join(
        f"{round(effects[clock].mean, 2) + 0.0:+.2f}{f' {words[clock]}' if words else ''}"
        for clock in CLOCKS
    )


def _list(values: Sequence[float], word: str = "") -> str:
    texts = [f"{value:g} s" for value in values]
    if word and len(texts) > 1:
        return f"{', '.join(texts[:-1])} {word} {texts[-1]}"
    return ", ".join(texts)
