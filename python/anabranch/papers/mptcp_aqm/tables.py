"""The tables: the terminal, the page and the record show them, some in short."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from anabranch.figures.table import Cell, Shade, Table, known
from anabranch.papers.tables import Column, of_means, recorded
from anabranch.papers.verdicts import WORDS, by_claim

from . import story
from .claims import SHORT as CLAIMS_IN_SHORT
from .factors import COUPLING_NAMES, COUPLINGS, DELAYS, LIA, QUEUE_NAMES, QUEUES
from .outcome import MptcpAqmOutcome, best_fit, misfit_percent, overall
from .published import numbers
from .samples import Runs
from .story import TITLES
from .studies import Profile, changes, events, profiles, queues, transports

COLUMNS = [
    Column("goodput_share", "part of C"),
    Column("drops", "drops", 0),
    Column("queue_packets", "queue", 1),
    Column("sojourn_ms", "sojourn ms", 0),
    Column("p99_ms", "p99 ms", 0),
    Column("max_ms", "longest ms", 0),
    Column("rtt_a_ms", "RTT A ms", 0),
    Column("rtt_b_ms", "RTT B ms", 0),
    Column("cwnd_a_packets", "cwnd A", 1),
    Column("cwnd_b_packets", "cwnd B", 1),
    Column("duplicates", "twice", 0),
]
"""The values of the grid that a wide terminal shows."""
BY_VALUE = {column.value: column for column in COLUMNS}
SHORT = ("goodput_share", "drops", "queue_packets", "p99_ms", "rtt_a_ms", "rtt_b_ms")
"""What fits 80 columns."""
FULL = [
    *COLUMNS,
    Column("srtt_a_ms", "SRTT A ms", 0),
    Column("srtt_b_ms", "SRTT B ms", 0),
    Column("changed_cwnd_packets", "cwnd at changes", 1),
    Column("udp_loss_percent", "UDP lost %", 1),
    Column("timeouts", "timeouts", 0),
    Column("retransmissions", "retransmitted", 0),
]
"""What page and record have."""
ABLATIONS = COLUMNS[:6]
THETA = [
    Column("goodput_share", "goodput_share"),
    *(Column(name, name, 0) for name in ("aqm_drops", "drops", "sojourn_ms", "p99_ms", "max_ms")),
]
BEYOND_VALUES = {
    "goodput_share": ("part of C", 2),
    "p95_ms": ("p95 sojourn ms", 0),
    "udp_loss_percent": ("UDP lost %", 1),
    "rtt_b_ms": ("RTT B ms", 0),
}


def without_intervals(columns: Sequence[Column]) -> list[Column]:
    """The columns with means alone, for a terminal."""
    return [replace(column, has_interval=False) for column in columns]


def of(outcome: MptcpAqmOutcome, width: int) -> list[RenderableType]:
    """The published numbers, the grid of the base, ablations and what lies beyond."""
    is_wide = width >= WIDE
    shown = [
        published(outcome, profiles() if is_wide else profiles()[::2], has_intervals=False),
        grid_of_lia(outcome.base, COLUMNS if is_wide else [BY_VALUE[name] for name in SHORT]),
        mean_ablations(outcome.ablations),
        mean_beyond(outcome.beyond),
    ]
    return [*(table.rich() for table in shown), Text(story.speed(outcome))]


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


def grid_of_lia(runs: Runs, columns: Sequence[Column]) -> Table:
    """A grid with LIA, without intervals."""
    return of_means(
        f"LIA, {profiles()[0].title}",
        ["", "A ms"],
        [
            (
                [QUEUE_NAMES[queue], str(delay)],
                runs.where(queue=queue, coupling=LIA, delay_ms=delay),
            )
            for queue in QUEUES
            for delay in DELAYS
        ],
        without_intervals(columns),
        texts=1,
    )


def mean_ablations(runs: Runs) -> Table:
    """One thing changed, mean over the delays."""
    return of_means(
        "Queues with one thing changed, mean over the delays",
        [""],
        [([change.title], runs.where(change=change.name)) for change in changes()],
        without_intervals(ABLATIONS),
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
    return of_means(
        f"Grid: {TITLES[name]}",
        ["queue", "coupling", "A ms"],
        [
            (
                [QUEUE_NAMES[queue], COUPLING_NAMES[coupling], str(delay)],
                runs.where(queue=queue, coupling=coupling, delay_ms=delay),
            )
            for queue in QUEUES
            for coupling in COUPLINGS
            for delay in DELAYS
        ],
        FULL,
        texts=2,
    )


def ablations(runs: Runs) -> Table:
    """One thing changed, at each delay."""
    return of_means(
        "Queues with one thing changed",
        ["queue", "what is changed", "A ms"],
        [
            (
                [change.title, change.about, str(delay)],
                runs.where(change=change.name, delay_ms=delay),
            )
            for change in changes()
            for delay in DELAYS
        ],
        ABLATIONS,
        texts=2,
    )


def theta(runs: Runs) -> Table:
    """Longer delays on A."""
    keys = runs.frame.select("queue", "delay_ms").unique(maintain_order=True).rows()
    return of_means(
        "Longer delays on A",
        ["queue", "A ms"],
        [
            ([queue.replace("_", " "), str(delay)], runs.where(queue=queue, delay_ms=delay))
            for queue, delay in keys
        ],
        THETA,
        texts=1,
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


def sections(outcome: MptcpAqmOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        published(outcome, profiles()).markdown(),
        verdicts(outcome).markdown(),
        attribution(outcome).markdown(),
        recorded(outcome.claims, TITLES),
        fit(outcome).markdown(),
        *(grid(outcome, name).markdown() for name in outcome.grids),
        ablations(outcome.ablations).markdown(),
        theta(outcome.theta).markdown(),
        beyond(outcome.beyond).markdown(),
        mobility(outcome.mobility).markdown(),
    ]
