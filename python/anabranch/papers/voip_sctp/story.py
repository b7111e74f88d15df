"""The finding in words, made from the numbers.

The same sentences on the terminal and on the page.
"""

from anabranch.papers.intervals import Interval

from .outcome import NEAR_BEST, Outcome, Table2
from .published import CLOCKS


def headline(outcome: Outcome) -> str:
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


def sentences(outcome: Outcome) -> list[str]:
    """What each clock says about the best RTO.Max, and what survives both."""
    return [*(_optimum(outcome, clock) for clock in CLOCKS), _survivors(outcome), _robust(outcome)]


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
        f" worst {worst}; {table.replications} replications of"
        " 9 delay combinations."
    )


def _optimum(outcome: Outcome, clock: str) -> str:
    found = outcome.optima[clock]
    words = {
        "on_arrival": "Losses drawn on arrival (ns-2)",
        "slot": "Losses drawn every 5 ms (the paper's words)",
    }[clock]
    near = [rto for rto in found.near_best_s if rto != found.best_s]
    others = f"; within {NEAR_BEST:g} MOS of it: {_list(near)}" if near else ""
    return (
        f"{words}: best RTO.Max {found.best_s:g} s, {found.gain.text(signed=True)} MOS against 10"
        f" s{others}. Best cell: {found.setting}."
    )


def _survivors(outcome: Outcome) -> str:
    lasting = [item for item in outcome.advice if item.survives]
    lost = [item for item in outcome.advice if not item.survives]
    kept = "; ".join(f"{item.text} ({_effects(item.effects)})" for item in lasting)
    sentence = (
        f"Helps under both clocks: {kept}."
        if kept
        else "No recommendation helps under both clocks."
    )
    if lost:
        sentence += (
            " Not beyond the interval under both: "
            + "; ".join(f"{item.text} ({_effects(item.effects)})" for item in lost)
            + "."
        )
    return sentence


def _robust(outcome: Outcome) -> str:
    return (
        f"The setting that never loses more than {max(outcome.robust_loss, 0.005):.2f} MOS to the"
        f" best, whichever clock is right: {outcome.robust}."
    )


def _effects(effects: dict[str, Interval]) -> str:
    return " and ".join(f"{round(effects[clock].mean, 2) + 0.0:+.2f}" for clock in CLOCKS)


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:g} s" for value in values)
