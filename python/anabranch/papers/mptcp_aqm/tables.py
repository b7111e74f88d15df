"""The tables: the terminal, the page and the record show them, some in short."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from anabranch.figures.table import Cell, Table, known
from anabranch.papers.verdicts import WORDS, by_claim

from .factors import COUPLING_NAMES, COUPLINGS, DELAYS, LIA, QUEUE_NAMES, QUEUES
from .outcome import MptcpAqmOutcome, best_fit, misfit_percent, overall
from .published import numbers
from .samples import Runs
from .story import TITLES, speed
from .studies import Profile, changes, events, profiles, queues, transports

VALUES = {
    "goodput_share": ("part of C", 2),
    "drops": ("drops", 0),
    "queue_packets": ("queue", 1),
    "sojourn_ms": ("sojourn ms", 0),
    "p99_ms": ("p99 ms", 0),
    "max_ms": ("longest ms", 0),
    "rtt_a_ms": ("RTT A ms", 0),
    "rtt_b_ms": ("RTT B ms", 0),
    "cwnd_a_packets": ("cwnd A", 1),
    "cwnd_b_packets": ("cwnd B", 1),
    "duplicates": ("twice", 0),
}
"""Of the grid: heads and digits."""
SHORT = ("goodput_share", "drops", "queue_packets", "p99_ms", "rtt_a_ms", "rtt_b_ms")
"""What fits 80 columns."""
FULL = {
    **VALUES,
    "srtt_a_ms": ("SRTT A ms", 0),
    "srtt_b_ms": ("SRTT B ms", 0),
    "changed_cwnd_packets": ("cwnd at changes", 1),
    "udp_loss_percent": ("UDP lost %", 1),
    "timeouts": ("timeouts", 0),
    "retransmissions": ("sent again", 0),
}
"""What page and record have."""
ABLATION_VALUES = ("goodput_share", "drops", "queue_packets", "sojourn_ms", "p99_ms", "max_ms")
BEYOND_VALUES = {
    "goodput_share": ("part of C", 2),
    "p95_ms": ("p95 sojourn ms", 0),
    "udp_loss_percent": ("UDP lost %", 1),
    "rtt_b_ms": ("RTT B ms", 0),
}


def of(outcome: MptcpAqmOutcome, width: int) -> list[RenderableType]:
    """The published numbers, the grid of the base, ablations and what lies beyond."""
    is_wide = width >= WIDE
    shown = [
        published(outcome, profiles() if is_wide else profiles()[::2], has_intervals=False),
        grid_of_lia(outcome.base, list(VALUES) if is_wide else list(SHORT)),
        mean_ablations(outcome.ablations),
        mean_beyond(outcome.beyond),
    ]
    return [*(table.rich() for table in shown), Text(speed(outcome))]


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


def grid_of_lia(runs: Runs, values: Sequence[str]) -> Table:
    """A grid with LIA, without intervals."""
    return Table(
        f"LIA, {profiles()[0].title}",
        ["", "A ms", *(VALUES[value][0] for value in values)],
        [
            [
                QUEUE_NAMES[queue],
                str(delay),
                *(known(own.mean(value).mean, VALUES[value][1]) for value in values),
            ]
            for queue in QUEUES
            for delay in DELAYS
            for own in [runs.where(queue=queue, coupling=LIA, delay_ms=delay)]
        ],
    )


def mean_ablations(runs: Runs) -> Table:
    """One thing changed, mean over the delays."""
    return Table(
        "Queues with one thing changed, mean over the delays",
        ["", *(VALUES[value][0] for value in ABLATION_VALUES)],
        [
            [
                change.title,
                *(known(own.mean(value).mean, VALUES[value][1]) for value in ABLATION_VALUES),
            ]
            for change in changes()
            for own in [runs.where(change=change.name)]
        ],
    )


def mean_beyond(runs: Runs) -> Table:
    """Goodput and tail of the sojourn of every transport with a few queues."""
    shown = [
        one for one in queues() if one.name in {"drop_tail", "codel", "fq_codel", "lifo_codel"}
    ]
    return Table(
        "Goodput / C and 95th percentile of the sojourn in ms, mean over the delays",
        ["", *(queue.title for queue in shown)],
        [
            [
                transport.title,
                *(
                    f"{known(cell.mean().mean, 2)} {known(cell.mean('p95_ms').mean, 0):>4}"
                    for queue in shown
                    for cell in [runs.where(transport=transport.name, queue=queue.name)]
                ),
            ]
            for transport in transports()
        ],
    )


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
    base = [one for one in outcome.claims if one.profile == outcome.base.profile]
    changed = outcome.attribution
    return Table(
        "Verdicts with one thing of the base changed",
        ["claim", "base", *changed],
        [
            [
                one.id,
                WORDS[one.verdict],
                *(WORDS[findings[index].verdict] for findings in changed.values()),
            ]
            for index, one in enumerate(base)
        ],
        lead=f"Base: {TITLES[outcome.base.profile]}.",
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
    runs = outcome.grids[name]
    return Table(
        f"Grid: {TITLES[name]}",
        ["queue", "coupling", "A ms", *(title for title, _ in FULL.values())],
        [
            [
                QUEUE_NAMES[queue],
                COUPLING_NAMES[coupling],
                str(delay),
                *(own.mean(value).text(digits) for value, (_, digits) in FULL.items()),
            ]
            for queue in QUEUES
            for coupling in COUPLINGS
            for delay in DELAYS
            for own in [runs.where(queue=queue, coupling=coupling, delay_ms=delay)]
        ],
        keys=2,
        is_merged=True,
    )


def ablations(runs: Runs) -> Table:
    """One thing changed, at each delay."""
    return Table(
        "Queues with one thing changed",
        ["queue", "what is changed", "A ms", *(VALUES[value][0] for value in ABLATION_VALUES)],
        [
            [
                change.title,
                change.about,
                str(delay),
                *(own.mean(value).text(VALUES[value][1]) for value in ABLATION_VALUES),
            ]
            for change in changes()
            for delay in DELAYS
            for own in [runs.where(change=change.name, delay_ms=delay)]
        ],
        keys=2,
        is_merged=True,
    )


def theta(runs: Runs) -> Table:
    """Longer delays on A."""
    values = ("goodput_share", "aqm_drops", "drops", "sojourn_ms", "p99_ms", "max_ms")
    keys = runs.frame.select("queue", "delay_ms").unique(maintain_order=True).rows()
    return Table(
        "Longer delays on A",
        ["queue", "A ms", *values],
        [
            [
                queue.replace("_", " "),
                str(delay),
                *(own.mean(value).text(2 if value == "goodput_share" else 0) for value in values),
            ]
            for queue, delay in keys
            for own in [runs.where(queue=queue, delay_ms=delay)]
        ],
    )


def beyond(runs: Runs) -> Table:
    """Transports and queues, values at each delay."""
    return Table(
        "Beyond the paper: transports and queues",
        [
            "transport",
            "queue",
            *(f"{title}, {delay} ms" for title, _ in BEYOND_VALUES.values() for delay in DELAYS),
        ],
        [
            [
                transport.title,
                queue.title,
                *(
                    own.where(delay_ms=delay).mean(value).text(digits)
                    for value, (_, digits) in BEYOND_VALUES.items()
                    for delay in DELAYS
                ),
            ]
            for transport in transports()
            for queue in queues()
            for own in [runs.where(transport=transport.name, queue=queue.name)]
        ],
        keys=2,
        is_merged=True,
    )


def mobility(runs: Runs) -> Table:
    """Goodput and longest gap at each event."""
    names = {one.name: one.title for one in transports()}
    titles = {one.name: one.title for one in queues()}
    keys = runs.frame.select("transport", "queue").unique(maintain_order=True).rows()
    return Table(
        "Beyond the paper: losses and mobility",
        ["transport", "queue", *(event.title for event in events())],
        [
            [
                names[transport],
                titles[queue],
                *(
                    f"{own.mean().text()} ({known(own.mean('longest_gap_s').mean, 1)} s)"
                    for event in events()
                    for own in [runs.where(transport=transport, queue=queue, event=event.name)]
                ),
            ]
            for transport, queue in keys
        ],
        keys=2,
        is_merged=True,
        lead="Goodput / C and, in parentheses, the longest time without data at the server.",
    )
