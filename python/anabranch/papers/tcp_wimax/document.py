"""The sections of the golden record."""

import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.markdown import claims, head, line
from anabranch.papers.verdicts import WORDS

from .factors import CONTROL_NAMES, CONTROLS, PROFILE_NAMES, PROFILES, READING_NAMES
from .outcome import TcpWimaxOutcome, aggression, means
from .studies import FLOWS, STATIONS
from .tables import LINK_HEADS, link_cells


def sections(outcome: TcpWimaxOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        _links(outcome),
        _throughput(outcome),
        _numbers(outcome),
        claims(outcome.claims, READING_NAMES),
        _flows(outcome),
        _pairs(outcome),
        _stations(outcome),
        _sensitivity(outcome),
        _coherence(outcome),
    ]


def _links(outcome: TcpWimaxOutcome) -> list[str]:
    return [
        "## What the links do to packets of 1500 B",
        "",
        "Loss: of probe packets every 12 ms. A burst is an unbroken run of lost ones. Coherence"
        " time: lag at which the autocorrelation of the effective SNR falls to one half. Datagrams:"
        " as many as fit.",
        "",
        *head("link", *LINK_HEADS),
        *(line(profile, *link_cells(link)) for profile, link in outcome.links.items()),
    ]


def _throughput(outcome: TcpWimaxOutcome) -> list[str]:
    lines = [
        "## Goodput in Mbit/s and coefficient of variation of 1 s goodput",
        "",
        "Writes of 4 KB, buffers of 512 KB, Nagle's algorithm on.",
        "",
        *head("", *PROFILES),
    ]
    for control in CONTROLS:
        cells = [outcome.write.claimed(profile).where(control=control) for profile in PROFILES]
        texts = [f"{runs.mean().text()}, {runs.mean('cov').mean:.2f}" for runs in cells]
        lines.append(line(CONTROL_NAMES[control], *texts))
    return lines


def _numbers(outcome: TcpWimaxOutcome) -> list[str]:
    lines = [
        "## Numbers of the paper's text",
        "",
        *head("link", "quantity", "segment size is", "paper", "ours", "verdict"),
    ]
    lines.extend(
        line(
            str(cell.key["profile"]),
            str(cell.key["quantity"]).replace("_", " "),
            READING_NAMES[str(cell.key["segment_reading"])],
            f"{cell.published:g} ({cell.key['bound']})",
            f"{cell.measured:.1f} ± {cell.half_width:.1f}",
            WORDS[cell.verdict],
        )
        for cell in outcome.cells
    )
    return lines


def _flows(outcome: TcpWimaxOutcome) -> list[str]:
    lines = [
        "## Jain's index of 2, 4, 8 and 16 transfers with the same control",
        "",
        *head("", *(f"{profile}" for profile in _present(outcome.flows))),
    ]
    found = means(outcome.flows, ["profile", "control", "flows"], "jain")
    for control in CONTROLS:
        cells = [
            ", ".join(
                f"{found.filter(profile=profile, control=control, flows=count)['mean'].item():.2f}"
                for count in FLOWS
            )
            for profile in _present(outcome.flows)
        ]
        lines.append(line(CONTROL_NAMES[control], *cells))
    return lines


def _pairs(outcome: TcpWimaxOutcome) -> list[str]:
    lines = [
        "## Two controls on one link: mean share against the eight others",
        "",
        *head("", *_present(outcome.shares)),
    ]
    ranked = [aggression(outcome.shares, profile) for profile in _present(outcome.shares)]
    for control in CONTROLS:
        rows = [found.row(by_predicate=pl.col("first") == control, named=True) for found in ranked]
        cells = [Interval(row["mean"], row["half_width"], row["n"]) for row in rows]
        lines.append(line(CONTROL_NAMES[control], *(f"{cell.text(0)} %" for cell in cells)))
    return lines


def _stations(outcome: TcpWimaxOutcome) -> list[str]:
    lines = [
        "## 1, 2, 4 and 8 stations at one base station: Mbit/s of all, Jain's index",
        "",
        "Mean of the nine controls.",
        "",
        *head("link", *(str(count) for count in STATIONS)),
    ]
    average = outcome.stations.group_by("profile", "stations", "replication").agg(
        pl.col("goodput_mbps", "jain").mean()
    )
    for profile in _present(outcome.stations):
        rows = average.filter(profile=profile)
        rate, jain = (means(rows, ["stations"], value) for value in ("goodput_mbps", "jain"))
        cells = [
            f"{rate.filter(stations=count)['mean'].item():.2f},"
            f" {jain.filter(stations=count)['mean'].item():.2f}"
            for count in STATIONS
        ]
        lines.append(line(PROFILE_NAMES[profile], *cells))
    return lines


def _sensitivity(outcome: TcpWimaxOutcome) -> list[str]:
    lines = [
        "## Sensitivity: one thing changed at a time",
        "",
        "No line of sight, 10 dB, writes of 4 KB, buffers of 512 KB.",
        "",
        *head(
            "changed",
            "mean Mbit/s",
            "best",
            "worst",
            "best above worst %",
            "Westwood+ above worst %",
            "BIC above the others %",
        ),
    ]
    lines.extend(
        line(
            found.name,
            f"{sum(goodput.mean for goodput in found.goodput_mbps.values()) / len(CONTROLS):.2f}",
            CONTROL_NAMES[found.best],
            CONTROL_NAMES[found.worst],
            found.gap_percent.text(0),
            found.westwood_percent.text(0),
            found.bic_percent.text(0, signed=True),
        )
        for found in outcome.variants
    )
    return lines


def _coherence(outcome: TcpWimaxOutcome) -> list[str]:
    found = means(outcome.coherence, ["doppler_hz", "control"], "goodput_mbps")
    shifts = sorted(found["doppler_hz"].unique())
    lines = [
        "## Goodput in Mbit/s against the largest Doppler shift, no line of sight, 10 dB",
        "",
        *head("", *(f"{shift:g} Hz" for shift in shifts)),
    ]
    for control in CONTROLS:
        rows = found.filter(control=control)
        cells = [f"{rows.filter(doppler_hz=shift)['mean'].item():.2f}" for shift in shifts]
        lines.append(line(CONTROL_NAMES[control], *cells))
    return lines


def _present(rows: pl.DataFrame) -> list[str]:
    there = set(rows["profile"])
    return [profile for profile in PROFILES if profile in there]
