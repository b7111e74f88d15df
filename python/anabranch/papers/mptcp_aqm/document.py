"""The sections of the golden record."""

from anabranch.papers.markdown import claims, head, known, line
from anabranch.papers.verdicts import WORDS, by_claim

from .factors import DELAYS
from .outcome import MptcpAqmOutcome, best_fit, misfit_percent, overall
from .published import numbers
from .story import TITLES
from .studies import events, profiles
from .tables import (
    ABLATION_VALUES,
    BEYOND_VALUES,
    FULL,
    VALUES,
    ablation_rows,
    beyond_rows,
    digits_of,
    grid_rows,
    mobility_rows,
    number_title,
)


def sections(outcome: MptcpAqmOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        _published(outcome),
        _overall(outcome),
        _attribution(outcome),
        claims(outcome.claims, TITLES),
        _fit(outcome),
        *(_grid(outcome, name) for name in outcome.grids),
        _ablations(outcome),
        _theta(outcome),
        _beyond(outcome),
        _mobility(outcome),
    ]


def _published(outcome: MptcpAqmOutcome) -> list[str]:
    return [
        "## The numbers of the text",
        "",
        "LIA; means over the delays where the paper gives none.",
        "",
        *head("", "paper", *(one.title for one in profiles())),
        *(
            line(
                number_title(index),
                number.text(),
                *(
                    f"{known(cell.measured, digits_of(cell.measured))} ±"
                    f" {known(cell.half_width, digits_of(cell.measured))}, {WORDS[cell.verdict]}"
                    for cell in outcome.cells[index :: len(numbers())]
                ),
            )
            for index, number in enumerate(numbers())
        ),
    ]


def _overall(outcome: MptcpAqmOutcome) -> list[str]:
    return [
        "## Verdicts",
        "",
        *head("claim", "", "over all profiles", *(one.title for one in profiles())),
        *(
            line(
                number,
                next(iter(found.values())).text,
                overall(list(found.values()), TITLES),
                *(WORDS[found[one.name].verdict] for one in profiles()),
            )
            for number, found in by_claim(outcome.claims).items()
        ),
    ]


def _attribution(outcome: MptcpAqmOutcome) -> list[str]:
    base = [one for one in outcome.claims if one.profile == outcome.base.profile]
    titles = list(outcome.attribution)
    return [
        "## Verdicts with one thing of the base changed",
        "",
        f"Base: {TITLES[outcome.base.profile]}.",
        "",
        *head("claim", "base", *titles),
        *(
            line(
                one.id,
                WORDS[one.verdict],
                *(WORDS[outcome.attribution[title][index].verdict] for title in titles),
            )
            for index, one in enumerate(base)
        ),
    ]


def _fit(outcome: MptcpAqmOutcome) -> list[str]:
    rates = next(iter(outcome.fits.values())).frame["rate_mbps"].unique().sort().to_list()
    return [
        "## The rate of C",
        "",
        "Root mean square of the deviations of the six RTTs from the paper's, in %.",
        "",
        *head("profile", *(f"{rate:g} Mbit/s" for rate in rates), "best"),
        *(
            line(
                TITLES[name],
                *(misfit_percent(runs, rate).text(0) for rate in rates),
                f"{best_fit(runs)[0]:g}",
            )
            for name, runs in outcome.fits.items()
        ),
    ]


def _grid(outcome: MptcpAqmOutcome, name: str) -> list[str]:
    return [
        f"## Grid: {TITLES[name]}",
        "",
        *head("queue", "coupling", "A ms", *(title for title, _ in FULL.values())),
        *(
            line(queue, coupling, str(delay), *cells)
            for queue, coupling, delay, cells in grid_rows(outcome.grids[name])
        ),
    ]


def _ablations(outcome: MptcpAqmOutcome) -> list[str]:
    return [
        "## Queues with one thing changed",
        "",
        *head("", "", "A ms", *(VALUES[value][0] for value in ABLATION_VALUES)),
        *(
            line(title, about, str(delay), *cells)
            for title, about, delay, cells in ablation_rows(outcome.ablations)
        ),
    ]


def _theta(outcome: MptcpAqmOutcome) -> list[str]:
    runs = outcome.theta
    keys = runs.frame.select("queue", "delay_ms").unique(maintain_order=True).rows()
    values = ("goodput_share", "aqm_drops", "drops", "sojourn_ms", "p99_ms", "max_ms")
    return [
        "## Longer delays on A",
        "",
        *head("queue", "A ms", *values),
        *(
            line(
                queue.replace("_", " "),
                str(delay),
                *(
                    runs.where(queue=queue, delay_ms=delay)
                    .mean(value)
                    .text(2 if value == "goodput_share" else 0)
                    for value in values
                ),
            )
            for queue, delay in keys
        ),
    ]


def _beyond(outcome: MptcpAqmOutcome) -> list[str]:
    heads = [f"{title}, {delay} ms" for title, _ in BEYOND_VALUES.values() for delay in DELAYS]
    return [
        "## Beyond the paper: transports and queues",
        "",
        *head("transport", "queue", *heads),
        *(
            line(transport, queue, *cells)
            for transport, queue, cells in beyond_rows(outcome.beyond)
        ),
    ]


def _mobility(outcome: MptcpAqmOutcome) -> list[str]:
    return [
        "## Beyond the paper: losses and mobility",
        "",
        "Goodput / C and, in parentheses, the longest time without data at the server.",
        "",
        *head("transport", "queue", *(event.title for event in events())),
        *(
            line(transport, queue, *cells)
            for transport, queue, cells in mobility_rows(outcome.mobility)
        ),
    ]
