"""The tables: the terminal, the page and the record show them, some in short."""

from collections.abc import Callable, Sequence

import polars as pl
from rich.console import RenderableType
from rich.text import Text

from anabranch.figures.table import Cell, Table, known
from anabranch.papers.intervals import Interval
from anabranch.papers.tables import of_published, recorded
from anabranch.papers.verdicts import DECIDABLE_REPLICATIONS

from . import story
from .factors import (
    CONTROL_NAMES,
    CONTROLS,
    PROFILE_NAMES,
    PROFILES,
    READING_NAMES,
    SEGMENTS,
    size,
)
from .outcome import TcpWimaxOutcome, aggression, means
from .studies import FLOWS, STATIONS

LINK_HEADS = ("SNR dB", "loss %", "burst ms", "coherence s", "bits per symbol", "datagrams Mbit/s")
BOUNDS = {"above": "> ", "up to": "up to "}


def of(outcome: TcpWimaxOutcome, _width: int) -> list[RenderableType]:
    """Links, throughput, the paper's numbers, speed."""
    shown: list[RenderableType] = [
        table.rich() for table in (links(outcome), throughput(outcome), numbers(outcome))
    ]
    speed = story.speed(outcome)
    return shown if speed is None else [*shown, Text(speed)]


def links(outcome: TcpWimaxOutcome) -> Table:
    """What each profile does to full-size packets."""
    return Table(
        "What the links do to packets of 1500 B",
        ["link", *LINK_HEADS],
        [
            [
                profile,
                link.snr_db.text(1),
                link.loss_percent.text(1),
                known(1e3 * link.burst_s, 0),
                known(link.coherence_s, 2),
                link.bits_per_symbol.text(0),
                link.capacity_mbps.text(1),
            ]
            for profile, link in outcome.links.items()
        ],
        lead="Loss: of probe packets every 12 ms. A burst is an unbroken run of lost ones."
        " Coherence time: lag at which the autocorrelation of the effective SNR falls to one half."
        " Datagrams: as many as fit.",
    )


def throughput(outcome: TcpWimaxOutcome) -> Table:
    """Goodput and its variation with writes of 4 KB and buffers of 512 KB."""

    def cell(control: str, profile: str) -> str:
        runs = outcome.write.claimed(profile).where(control=control)
        return f"{runs.mean().text()}, {runs.mean('cov').mean:.2f}"

    return _by_control(
        "Goodput in Mbit/s and coefficient of variation of 1 s goodput",
        PROFILES,
        cell,
        lead="Writes of 4 KB, buffers of 512 KB, Nagle's algorithm on.",
    )


def numbers(outcome: TcpWimaxOutcome) -> Table:
    """The numbers of the paper's text beside ours."""
    return of_published(
        "The paper's numbers",
        ["link", "quantity", "segment is"],
        outcome.cells,
        lambda cell: [
            str(cell.key["profile"]),
            str(cell.key["quantity"]).removesuffix("_percent").replace("_", " ") + ", %",
            READING_NAMES[str(cell.key["segment_reading"])],
        ],
        lambda cell: f"{BOUNDS.get(str(cell.key['bound']), '')}{cell.published:g}",
        digits=1,
    )


def recorded_numbers(outcome: TcpWimaxOutcome) -> Table:
    """The numbers of the paper's text in the record, which has verdicts in a column."""
    return of_published(
        "Numbers of the paper's text",
        ["link", "quantity", "segment size is"],
        outcome.cells,
        lambda cell: [
            str(cell.key["profile"]),
            str(cell.key["quantity"]).replace("_", " "),
            READING_NAMES[str(cell.key["segment_reading"])],
        ],
        lambda cell: f"{cell.published:g} ({cell.key['bound']})",
        digits=1,
        in_words=True,
    )


def flows(outcome: TcpWimaxOutcome) -> Table:
    """Jain's index of transfers with the same control."""
    jain = means(outcome.flows, ["profile", "control", "flows"], "jain")

    def cell(control: str, profile: str) -> str:
        rows = jain.filter(profile=profile, control=control)
        return ", ".join(f"{rows.filter(flows=count)['mean'].item():.2f}" for count in FLOWS)

    title = "Jain's index of 2, 4, 8 and 16 transfers with the same control"
    return _by_control(title, _present(outcome.flows), cell)


def pairs(outcome: TcpWimaxOutcome) -> Table:
    """The mean share of each control against the others, one at a time."""
    ranked = {profile: aggression(outcome.shares, profile) for profile in _present(outcome.shares)}

    def cell(control: str, profile: str) -> str:
        row = ranked[profile].row(by_predicate=pl.col("first") == control, named=True)
        return f"{Interval(row['mean'], row['half_width'], row['n']).text(0)} %"

    title = "Two controls on one link: mean share against the eight others"
    return _by_control(title, list(ranked), cell)


def stations(outcome: TcpWimaxOutcome) -> Table:
    """Goodput of all stations, and how evenly it is shared."""
    average = outcome.stations.group_by("profile", "stations", "replication").agg(
        pl.col("goodput_mbps", "jain").mean()
    )
    rows = []
    for profile in _present(outcome.stations):
        rate, jain = (
            means(average.filter(profile=profile), ["stations"], value)
            for value in ("goodput_mbps", "jain")
        )
        cells = [
            f"{rate.filter(stations=count)['mean'].item():.2f},"
            f" {jain.filter(stations=count)['mean'].item():.2f}"
            for count in STATIONS
        ]
        rows.append([PROFILE_NAMES[profile], *cells])
    return Table(
        "1, 2, 4 and 8 stations at one base station: Mbit/s of all, Jain's index",
        ["link", *(str(count) for count in STATIONS)],
        rows,
        lead="Mean of the nine controls.",
    )


def sensitivity(outcome: TcpWimaxOutcome) -> Table:
    """What each choice changes."""
    heads = ("mean Mbit/s", "best", "worst", "best above worst %", "Westwood+ above worst %")
    return Table(
        "Sensitivity: one thing changed at a time",
        ["changed", *heads, "BIC above the others %"],
        [
            [
                variant.name,
                f"{sum(one.mean for one in variant.goodput_mbps.values()) / len(CONTROLS):.2f}",
                CONTROL_NAMES[variant.best],
                CONTROL_NAMES[variant.worst],
                variant.gap_percent.text(0),
                variant.westwood_percent.text(0),
                variant.bic_percent.text(0, signed=True),
            ]
            for variant in outcome.variants
        ],
        lead="No line of sight, 10 dB, writes of 4 KB, buffers of 512 KB.",
    )


def shown_sensitivity(outcome: TcpWimaxOutcome) -> Table:
    """What each choice changes, on the page: best and worst only where runs may decide on them."""
    heads = (
        "best above worst, %",
        "Westwood+ above worst, %",
        "BIC above the mean of the others, %",
    )
    rows = []
    for variant in outcome.variants:
        is_decidable = variant.runs >= DECIDABLE_REPLICATIONS
        ends = [
            CONTROL_NAMES[name] if is_decidable else "open"
            for name in (variant.best, variant.worst)
        ]
        gaps = (variant.gap_percent.text(1), variant.westwood_percent.text(1))
        rows.append([variant.name, *ends, *gaps, variant.bic_percent.text(1, signed=True)])
    return Table("One thing changed at a time", ["changed", "best", "worst", *heads], rows)


def shown_links(outcome: TcpWimaxOutcome) -> Table:
    """What each profile does to packets, on the page, with what bursts of loss are like."""
    heads = ("mean SNR, dB", "loss, %", "burst, packets", "burst, ms", "longest, s")
    further = ("coherence time, s", "bits in a symbol", "datagrams, Mbit/s")
    return Table(
        "What the links do to packets",
        ["link", *heads, *further],
        [
            [
                PROFILE_NAMES[profile],
                link.snr_db.text(1),
                link.loss_percent.text(1),
                known(link.burst_packets, 1),
                known(1e3 * link.burst_s, 0),
                known(link.longest_burst_s, 1),
                known(link.coherence_s, 2),
                link.bits_per_symbol.text(0),
                link.capacity_mbps.text(1),
            ]
            for profile, link in outcome.links.items()
        ],
    )


def recommendations(outcome: TcpWimaxOutcome) -> Table:
    """The setting for each link, or that it is not resolved."""
    heads = ("link", "control", "buffer", "write size", "goodput, Mbit/s", "variation")
    rows = []
    for profile, advised in outcome.recommendations.items():
        if advised.is_resolved:
            is_any = len(advised.segments) == len(SEGMENTS)
            setting = [
                CONTROL_NAMES[advised.control],
                size(advised.buffer),
                "any" if is_any else ", ".join(map(size, advised.segments)),
                advised.goodput_mbps.text(),
                f"{advised.cov:.2f}",
            ]
        else:
            words = f"cannot be told after {advised.goodput_mbps.n} replications"
            setting = [words, "", "", "", ""]
        others = ", ".join(CONTROL_NAMES[control] for control in advised.candidates)
        rows.append([PROFILE_NAMES[profile], *setting, others])
    all_heads = [*heads, "as good, or not told apart"]
    return Table("Recommendations", all_heads, rows, keys=len(all_heads))


def coherence(outcome: TcpWimaxOutcome) -> Table:
    """Goodput against how fast the channel changes."""
    goodput = means(outcome.coherence, ["doppler_hz", "control"], "goodput_mbps")
    shifts = {f"{shift:g} Hz": shift for shift in sorted(goodput["doppler_hz"].unique())}

    def cell(control: str, shift: str) -> str:
        row = goodput.filter(control=control, doppler_hz=shifts[shift])
        return f"{row['mean'].item():.2f}"

    title = "Goodput in Mbit/s against the largest Doppler shift, no line of sight, 10 dB"
    return _by_control(title, list(shifts), cell)


def _by_control(
    title: str, heads: Sequence[str], cell: Callable[[str, str], str], lead: str = ""
) -> Table:
    """A row for each control; `cell` is given the control and the head."""
    rows: list[list[Cell | str]] = [
        [CONTROL_NAMES[control], *(cell(control, head) for head in heads)] for control in CONTROLS
    ]
    return Table(title, ["", *heads], rows, lead=lead)


def _present(rows: pl.DataFrame) -> list[str]:
    there = set(rows["profile"])
    return [profile for profile in PROFILES if profile in there]


def sections(outcome: TcpWimaxOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    before = (links, throughput, recorded_numbers)
    after = (flows, pairs, stations, sensitivity, coherence)
    return [
        *(table(outcome).markdown() for table in before),
        recorded(outcome.claims, READING_NAMES),
        *(table(outcome).markdown() for table in after),
    ]
