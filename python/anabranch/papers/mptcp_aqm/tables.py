"""The tables: the terminal, the page and the record show them, some in short."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from anabranch.figures.table import Cell, Shade, Table, known
from anabranch.papers import facets
from anabranch.papers.page import Context
from anabranch.papers.tables import listed, recorded
from anabranch.papers.verdicts import WORDS, by_claim

from . import story
from .claims import SHORT as CLAIMS_IN_SHORT
from .factors import QUEUE_NAMES, SHEET
from .outcome import MptcpAqmOutcome, best_fit, misfit_percent, overall
from .published import numbers
from .story import TITLES
from .studies import Profile, attributions, networks, profiles, receivers


def of(outcome: MptcpAqmOutcome, width: int) -> list[Table | RenderableType]:
    """The published numbers, the grid of the base, ablations and what lies beyond."""
    is_wide = width >= WIDE
    described = ("lia" if is_wide else "lia_in_short", "mean_ablations", "mean_beyond")
    return [
        published(outcome, profiles() if is_wide else profiles()[::2], has_intervals=False),
        *(listed(SHEET, name, outcome.studies) for name in described),
        Text(story.speed(outcome)),
    ]


WIDE = 130
"""From this width on, everything is shown; below, half of the profiles and of the values."""


def published(
    outcome: MptcpAqmOutcome, shown: Sequence[Profile], *, has_intervals: bool = True
) -> Table:
    """The paper's numbers beside ours under these profiles."""
    names = {one.name for one in shown}
    rows: list[list[Cell | str]] = []
    for index, number in enumerate(numbers()):
        row: list[Cell | str] = [number_title(index), number.text()]
        for cell in outcome.cells[index :: len(numbers())]:
            if cell.key["profile"] in names:
                digits = digits_of(cell.measured)
                short = Cell(known(cell.measured, digits), cell.verdict)
                row.append(cell.ours(digits) if has_intervals else short)
        rows.append(row)
    return Table(
        "The numbers of the text",
        ["", "paper", *(one.title for one in shown)],
        rows,
        lead="LIA; means over the delays where the paper gives none.",
    )


def number_title(index: int) -> str:
    """What a published number is of."""
    number = numbers()[index]
    words = {
        "rtt_a_ms": "RTT of A, ms",
        "rtt_b_ms": "RTT of B, ms",
        "goodput_share": "goodput / C",
        "queue_packets": "queue, packets",
        "cwnd_packets": "cwnd, packets",
        "goodput_over_codel": "goodput / CoDel's",
    }
    where = f", {number.delay_ms} ms" if number.delay_ms else ""
    return f"{QUEUE_NAMES[number.queue]}{where}: {words[number.quantity]}"


def digits_of(value: float) -> int:
    """After the point, for three figures or so."""
    return 0 if value >= 20 else 1 if value >= 5 else 2


def verdicts(outcome: MptcpAqmOutcome) -> Table:
    """Every claim under every profile."""
    return Table(
        "Verdicts",
        ["claim", "", "over all profiles", *(one.title for one in profiles())],
        [
            [
                number,
                next(iter(findings.values())).text,
                overall(list(findings.values()), TITLES),
                *(WORDS[findings[one.name].verdict] for one in profiles()),
            ]
            for number, findings in by_claim(outcome.claims).items()
        ],
        keys=3,
    )


def attribution(outcome: MptcpAqmOutcome) -> Table:
    """What becomes of every claim with one thing of the base changed."""
    base = outcome.base.profile
    changed = list(dict.fromkeys(one.profile for one in outcome.attribution))
    return Table(
        "Verdicts with one thing of the base changed",
        ["claim", "base", *changed],
        [
            [number, *(WORDS[findings[name].verdict] for name in (base, *changed))]
            for number, findings in outcome.judged.items()
        ],
        lead=f"Base: {TITLES[base]}.",
    )


def fit(outcome: MptcpAqmOutcome) -> Table:
    """How far the published round-trip times are missed against the rate of C."""
    rates = next(iter(outcome.fits.values())).frame["rate_mbps"].unique().sort().to_list()
    return Table(
        "The rate of C",
        ["profile", *(f"{rate:g} Mbit/s" for rate in rates), "best"],
        [
            [
                TITLES[name],
                *(misfit_percent(runs, rate).text(0) for rate in rates),
                f"{best_fit(runs)[0]:g}",
            ]
            for name, runs in outcome.fits.items()
        ],
        lead="Root mean square of the deviations of the six RTTs from the paper's, in %.",
    )


def grid(outcome: MptcpAqmOutcome, name: str) -> Table:
    """Every value of a profile with its interval."""
    title, where = f"Grid: {TITLES[name]}", {"profile": name}
    return listed(SHEET, "grid", outcome.studies, title=title, where=where)


def in_short(outcome: MptcpAqmOutcome) -> Table:
    """Every claim in a few words, with its verdict over all profiles."""
    rows = [
        [number, CLAIMS_IN_SHORT[number], overall(list(findings.values()), TITLES)]
        for number, findings in by_claim(outcome.claims).items()
    ]
    return Table("The paper's claims", ["claim", "in short", "over all profiles"], rows, keys=3)


def choices(outcome: MptcpAqmOutcome) -> Table:
    """Every queue as a router meets it; the recommended ones are shaded."""
    advised = {one.name for one in story.recommended(outcome).candidates}
    heads = ("goodput / C", "95 % of packets wait less than (ms)", "longest (ms)", "UDP lost (%)")
    rows: list[list[Cell | str]] = []
    for one in story.choices(outcome):
        texts = (
            one.goodput_share.text(),
            one.p95_ms.text(0),
            one.longest_ms.text(0),
            one.udp_loss_percent.text(1),
        )
        shade: Shade | None = "reproduced" if one.name in advised else None
        rows.append([one.title, *(Cell(text, shade) for text in texts)])
    return Table("What the router may run", ["queue", *heads], rows)


def context(outcome: MptcpAqmOutcome) -> Context:
    """What the page's template needs of its own."""
    return {
        "profiles": {one.name: one.title for one in profiles()},
        "networks": networks(),
        "receivers": receivers(),
        "attributions": attributions(),
        "numbers": published(outcome, profiles()),
        "counts": facets.counts(SHEET, outcome.studies),
        "in_short": in_short(outcome),
        "fits": [(story.TITLES[name], *best_fit(runs)) for name, runs in outcome.fits.items()],
        "grids": [(story.TITLES[name], grid(outcome, name)) for name in outcome.grids],
        "described": {
            name: listed(SHEET, name, outcome.studies)
            for name in ("ablations", "beyond", "mobility")
        },
        "choices": choices(outcome),
        "recommendation": story.recommendation(outcome),
        "speed": story.speed(outcome),
    }


def sections(outcome: MptcpAqmOutcome) -> list[Table | list[str]]:
    """What the record says after the finding."""
    names = ("ablations", "theta", "beyond", "mobility")
    return [
        published(outcome, profiles()),
        verdicts(outcome),
        attribution(outcome),
        recorded(outcome.claims, TITLES),
        fit(outcome),
        *(grid(outcome, name) for name in outcome.grids),
        *(listed(SHEET, name, outcome.studies) for name in names),
    ]
