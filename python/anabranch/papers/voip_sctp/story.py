"""The finding in words, made from the numbers.

The same sentences on the terminal and on the page.
"""

import math
from collections.abc import Sequence

from anabranch.papers.intervals import Interval
from anabranch.support.wording import counted

from .factors import CLOCKS, RTO_MAX_S
from .outcome import HELPS, HURTS, NEAR_BEST, OPEN, Table2, VoipSctpOutcome

RECOMMENDED_S = 0.1
"""The RTO.Max that the paper recommends, in seconds."""


def headline(outcome: VoipSctpOutcome) -> str:
    """What a call should set."""
    question = "What should a call over two lossy SCTP paths set?"
    if math.isnan(outcome.robust_loss):
        return f"{question} That needs two replications or more."
    return (
        f"{question} {outcome.robust}: at most {max(outcome.robust_loss, 0.005):.2f} MOS behind the"
        " best mean, whichever clock the losses follow."
    )


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
    return (
        f"{verdict} (mean absolute error {arrival:.2f} MOS on arrival, {slot:.2f} with a draw every"
        " 5 ms)."
    )


def sentences(outcome: VoipSctpOutcome) -> list[str]:
    """What each clock says about the best RTO.Max, what recommendations do under both, and why."""
    parts = [
        _decides(outcome),
        *(_optimum(outcome, clock) for clock in CLOCKS),
        _survivors(outcome),
        _pmr(outcome),
    ]
    return [*(sentence for sentence in parts if sentence), _robust(outcome)]


def table_summary(table: Table2) -> str:
    """Error, verdicts and worst cells in one line."""
    worst = ", ".join(
        f"{cell.key['rto_max_s']:g} s/PMR {cell.key['pmr']}/{cell.key['delay_centric']}"
        f" {cell.deviation:+.2f}"
        for cell in table.worst
    )
    undecided = table.count("open")
    return (
        f"Mean absolute error {table.mean_absolute_error:.3f} MOS; of 88 cells"
        f" {table.count('reproduced')} reproduced, {table.count('partly')} partly,"
        f" {table.count('not_reproduced')} not{f', {undecided} open' if undecided else ''};"
        f" worst {worst}; {counted(table.replications, 'replication')} of"
        " 9 delay combinations."
    )


def _optimum(outcome: VoipSctpOutcome, clock: str) -> str:
    optimum = outcome.optima[clock]
    words = {
        "on_arrival": "Losses drawn on arrival (ns-2)",
        "slot": "Losses drawn every 5 ms (the paper's words)",
    }[clock]
    near = [rto for rto in optimum.near_best_s if rto not in optimum.rto_max.candidates]
    others = f"; surely within {NEAR_BEST:g} MOS of it: {_list(near)}" if near else ""
    gain = f"{optimum.gain.text(signed=True)} MOS against 10 s"
    best = f"RTO.Max {optimum.best_s:g} s is best, {gain}"
    if not optimum.rto_max.is_resolved:
        rivals = [rto for rto in optimum.rto_max.candidates if rto != optimum.best_s]
        best += f"; {optimum.rto_max.doubt(_list(rivals, 'and'))}"
    cell = f"Best cell: {optimum.setting}"
    if not optimum.cell.is_resolved:
        cell += f"; {optimum.cell.doubt(optimum.cell.others)}"
    return f"{words}: {best}{others}. {cell}."


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


def _pmr(outcome: VoipSctpOutcome) -> str | None:
    """Why PMR 1 is in the best cell although it hurts at the RTO.Max of the recommendations."""
    best = outcome.optima[CLOCKS[0]].setting
    recommended = outcome.pmr_effects[RECOMMENDED_S]
    there = outcome.pmr_effects[best.rto_max_s]
    if best.pmr != 1 or not recommended[CLOCKS[0]].negative:
        return None
    helps = [rto for rto in RTO_MAX_S if outcome.pmr_effects[rto][CLOCKS[0]].positive]
    sentence = (
        f"PMR 1 hurts at RTO.Max {RECOMMENDED_S:g} s and is in the best cell with losses on arrival"
        " all the same: what it does instead of PMR 0 depends on RTO.Max. It brings"
        f" {_effects(recommended)} MOS at {RECOMMENDED_S:g} s and {_effects(there)} MOS at the"
        f" {best.rto_max_s:g} s of that cell"
    )
    return sentence + (f"; on arrival it helps at {_list(helps)}." if helps else ".")


def _robust(outcome: VoipSctpOutcome) -> str:
    loss = outcome.robust_loss
    if math.isnan(loss):
        return (
            "Which setting loses least, whichever clock is right, needs two replications or more."
        )
    return (
        f"Whichever clock is right, {outcome.robust} loses at most {max(loss, 0.005):.2f} MOS"
        " against the best mean (95 %), the least of all settings."
    )


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
