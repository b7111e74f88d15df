"""The sections of the golden record."""

from anabranch.papers.markdown import claims, head, line
from anabranch.papers.verdicts import WORDS

from . import story
from .outcome import Table2, VoipSctpOutcome
from .published import CLOCK_NAMES, CLOCKS, DELAY_CENTRIC, PMR, RTO_MAX_S


def sections(outcome: VoipSctpOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        *(_table2(outcome.tables[clock]) for clock in CLOCKS),
        _figures(outcome),
        claims(outcome.claims, {clock: clock.replace("_", " ") for clock in CLOCKS}),
        _sensitivity(outcome),
    ]


def _table2(table: Table2) -> list[str]:
    columns = [(state, pmr) for state in DELAY_CENTRIC for pmr in PMR]
    heads = [f"d-c {state}, PMR {pmr}" for state, pmr in columns]
    lines = [
        f"## Table 2, losses drawn {CLOCK_NAMES[table.clock]}",
        "",
        story.table_summary(table),
        "Each cell: ours ± 95 % half-width (paper).",
        "",
        *head("RTO.Max", *heads),
    ]
    for rto in RTO_MAX_S:
        cells = [table.find(rto, state, pmr) for state, pmr in columns]
        texts = [f"{c.measured:.2f} ± {c.half_width:.2f} ({c.published:.2f})" for c in cells]
        lines.append(line(f"{rto:g} s", *texts))
    return lines


def _figures(outcome: VoipSctpOutcome) -> list[str]:
    lines = [
        "## Numbers that the text gives for figures 3 to 6",
        "",
        *head("figure", "losses", "RTO.Max", "quantity", "paper", "ours", "verdict"),
    ]
    lines.extend(
        line(
            cell.table.removeprefix("figure "),
            str(cell.key["loss_clock"]).replace("_", " "),
            f"{cell.key['rto_max_s']:g} s",
            str(cell.key["quantity"]).replace("_", " "),
            f"{cell.published:g}",
            f"{cell.measured:.2f} ± {cell.half_width:.2f}",
            WORDS[cell.verdict],
        )
        for cell in outcome.figure_cells
    )
    return lines


def _sensitivity(outcome: VoipSctpOutcome) -> list[str]:
    lines = [
        "## Sensitivity: what each choice of the interpretation is worth",
        "",
        "Mean absolute error against Table 2, and mean deviation, when one thing changes (losses on"
        " arrival unless it is the clock that changes). `prototype`: an independent prototype.",
        "",
        *head("group", "change", "error", "bias", "prototype"),
    ]
    for row in outcome.sensitivity.iter_rows(named=True):
        prototype = "" if row["prototype"] is None else f"{row['prototype']:.2f}"
        error, bias = f"{row['mean_absolute_error']:.2f}", f"{row['bias']:+.2f}"
        lines.append(line(row["group"], row["name"], error, bias, prototype))
    return lines
