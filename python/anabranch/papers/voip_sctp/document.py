"""The golden record of a validation: every published number beside ours, as Markdown.

`python -m anabranch.papers.voip_sctp docs/validation/voip-sctp.md` runs the mode `validate` and
writes it; the file is under version control, so that a change of results shows in a diff.
"""

from pathlib import Path

from anabranch.papers.markdown import head, line
from anabranch.papers.verdicts import WORDS

from . import story
from .outcome import Outcome, Table2
from .published import CLOCK_NAMES, CLOCKS, DELAY_CENTRIC, PMR, RTO_MAX_S


def write(outcome: Outcome, path: Path) -> None:
    """Writes the record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown(outcome), encoding="utf-8")


def markdown(outcome: Outcome) -> str:
    """The record as text."""
    parts = [
        "# `voip-sctp`: published and measured",
        "",
        f"Written by `make validate` ({outcome.calls:,} calls); do not edit.",
        "",
        f"**{story.headline(outcome)}**",
        "",
        *(f"- {sentence}" for sentence in story.sentences(outcome)),
    ]
    for clock in CLOCKS:
        parts += ["", *_table2(outcome.tables[clock])]
    parts += ["", *_figures(outcome), "", *_claims(outcome), "", *_sensitivity(outcome)]
    return "\n".join(parts) + "\n"


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


def _figures(outcome: Outcome) -> list[str]:
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


def _claims(outcome: Outcome) -> list[str]:
    lines = ["## Claims", ""]
    for finding in outcome.claims:
        clock = finding.profile.replace("_", " ")
        verdict = WORDS[finding.verdict]
        lines.append(f"- **{finding.id}** ({clock}): {verdict}. {finding.text} {finding.evidence}")
    return lines


def _sensitivity(outcome: Outcome) -> list[str]:
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
