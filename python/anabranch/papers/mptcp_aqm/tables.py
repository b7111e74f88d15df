"""The tables of the terminal, and the cells that page and record share with them."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from anabranch.papers.markdown import known
from anabranch.papers.tables import STYLES, titled

from .factors import COUPLING_NAMES, COUPLINGS, DELAYS, LIA, QUEUE_NAMES, QUEUES
from .outcome import MptcpAqmOutcome
from .published import numbers
from .samples import Runs
from .story import speed
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
    values = list(VALUES) if is_wide else list(SHORT)
    return [
        published(outcome, profiles() if is_wide else profiles()[::2]),
        grid(outcome.base, values),
        ablations(outcome.ablations),
        beyond(outcome.beyond),
        Text(speed(outcome)),
    ]


WIDE = 130
"""From this width on, everything is shown; below, half of the profiles and of the values."""


def published(outcome: MptcpAqmOutcome, shown: Sequence[Profile]) -> Table:
    """The paper's numbers beside ours under these profiles."""
    table = titled("The text's numbers (LIA)")
    table.add_column("", ratio=1)
    table.add_column("paper", justify="right", no_wrap=True)
    for one in shown:
        table.add_column(one.title.replace(", ", "\n"), justify="right", no_wrap=True)
    for index, number in enumerate(numbers()):
        names = {one.name for one in shown}
        found = [
            cell for cell in outcome.cells[index :: len(numbers())] if cell.key["profile"] in names
        ]
        table.add_row(
            number_title(index),
            number.text(),
            *(
                Text(known(cell.measured, digits_of(cell.measured)), style=STYLES[cell.verdict])
                for cell in found
            ),
        )
    return table


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


def grid(runs: Runs, values: list[str]) -> Table:
    """A grid with LIA."""
    table = titled(f"LIA, {profiles()[0].title}")
    table.add_column("", no_wrap=True)
    table.add_column("A ms", justify="right")
    for value in values:
        table.add_column(VALUES[value][0], justify="right")
    for queue in QUEUES:
        for delay in DELAYS:
            own = runs.where(queue=queue, coupling=LIA, delay_ms=delay)
            cells = [known(own.mean(value).mean, VALUES[value][1]) for value in values]
            table.add_row(QUEUE_NAMES[queue], str(delay), *cells)
    return table


def ablations(runs: Runs) -> Table:
    """One thing changed, mean over the delays."""
    table = titled("Queues with one thing changed, mean over the delays")
    table.add_column("", ratio=1)
    for value in ABLATION_VALUES:
        table.add_column(VALUES[value][0], justify="right")
    for change in changes():
        own = runs.where(change=change.name)
        table.add_row(
            change.title,
            *(known(own.mean(value).mean, VALUES[value][1]) for value in ABLATION_VALUES),
        )
    return table


def beyond(runs: Runs) -> Table:
    """Goodput and tail of the sojourn of every transport with a few queues."""
    shown = [
        one for one in queues() if one.name in {"drop_tail", "codel", "fq_codel", "lifo_codel"}
    ]
    table = titled("Goodput / C and 95th percentile of the sojourn in ms, mean over the delays")
    table.add_column("", ratio=1)
    for queue in shown:
        table.add_column(queue.title, justify="right", no_wrap=True)
    for transport in transports():
        own = runs.where(transport=transport.name)
        table.add_row(
            transport.title,
            *(
                f"{known(cell.mean().mean, 2)} {known(cell.mean('p95_ms').mean, 0):>4}"
                for queue in shown
                for cell in [own.where(queue=queue.name)]
            ),
        )
    return table


def grid_rows(runs: Runs) -> list[tuple[str, str, int, list[str]]]:
    """Queue, coupling, delay and every value with its interval."""
    return [
        (
            QUEUE_NAMES[queue],
            COUPLING_NAMES[coupling],
            delay,
            [own.mean(value).text(digits) for value, (_, digits) in FULL.items()],
        )
        for queue in QUEUES
        for coupling in COUPLINGS
        for delay in DELAYS
        for own in [runs.where(queue=queue, coupling=coupling, delay_ms=delay)]
    ]


def ablation_rows(runs: Runs) -> list[tuple[str, str, int, list[str]]]:
    """Change, what it is, delay and values."""
    return [
        (
            change.title,
            change.about,
            delay,
            [own.mean(value).text(VALUES[value][1]) for value in ABLATION_VALUES],
        )
        for change in changes()
        for delay in DELAYS
        for own in [runs.where(change=change.name, delay_ms=delay)]
    ]


def beyond_rows(runs: Runs) -> list[tuple[str, str, list[str]]]:
    """Transport, queue, and values at each delay."""
    return [
        (
            transport.title,
            queue.title,
            [
                own.where(delay_ms=delay).mean(value).text(digits)
                for value, (_, digits) in BEYOND_VALUES.items()
                for delay in DELAYS
            ],
        )
        for transport in transports()
        for queue in queues()
        for own in [runs.where(transport=transport.name, queue=queue.name)]
    ]


def mobility_rows(runs: Runs) -> list[tuple[str, str, list[str]]]:
    """Transport, queue; goodput and longest gap at each event."""
    names = {one.name: one.title for one in transports()}
    titles = {one.name: one.title for one in queues()}
    keys = runs.frame.select("transport", "queue").unique(maintain_order=True).rows()
    return [
        (
            names[transport],
            titles[queue],
            [
                f"{own.mean().text()} ({known(own.mean('longest_gap_s').mean, 1)} s)"
                for event in events()
                for own in [runs.where(transport=transport, queue=queue, event=event.name)]
            ],
        )
        for transport, queue in keys
    ]
