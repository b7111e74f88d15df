"""The tables: the terminal, the page and the record show them, some in short."""

from rich.console import RenderableType
from rich.text import Text

from anabranch.figures.table import Table
from anabranch.papers import facets
from anabranch.papers.intervals import Interval
from anabranch.papers.page import Context
from anabranch.papers.tables import listed, of_published, of_records, recorded
from anabranch.papers.verdicts import DECIDABLE_REPLICATIONS

from . import story
from .factors import (
    CONTROL_NAMES,
    CONTROLS,
    PROFILE_NAMES,
    PROFILES,
    READING_NAMES,
    READINGS,
    SEGMENTS,
    SHEET,
    size,
)
from .outcome import TcpWimaxOutcome, aggression
from .studies import FLOWS


def of(outcome: TcpWimaxOutcome, _width: int) -> list[Table | RenderableType]:
    """Links, throughput, the paper's numbers, speed."""
    return [
        links(outcome),
        listed(SHEET, "throughput", outcome.studies),
        of_published(SHEET, "text", outcome.cells),
        Text(story.speed(outcome)),
    ]


def links(outcome: TcpWimaxOutcome, name: str = "links") -> Table:
    """What each profile does to full-size packets."""
    found = [
        vars(link) | {"name": PROFILE_NAMES[profile], "burst_ms": 1e3 * link.burst_s}
        for profile, link in outcome.links.items()
    ]
    return of_records(SHEET, name, found)


def flows(outcome: TcpWimaxOutcome) -> Table:
    """Jain's index of transfers with the same control."""
    runs = outcome.studies["flows"]
    profiles = [str(place.value) for place in SHEET.places("link", runs)]

    def cell(control: str, profile: str) -> str:
        own = runs.where(profile=profile, control=control)
        means = (own.where(flows=count).mean("jain").mean for count in FLOWS)
        return ", ".join(f"{mean:.2f}" for mean in means)

    return Table(
        "Jain's index of 2, 4, 8 and 16 transfers with the same control",
        ["", *profiles],
        [
            [CONTROL_NAMES[control], *(cell(control, profile) for profile in profiles)]
            for control in CONTROLS
        ],
    )


def sensitivity(outcome: TcpWimaxOutcome, name: str = "sensitivity") -> Table:
    """What each choice changes."""
    found = []
    for variant in outcome.variants:
        ends = {"best": CONTROL_NAMES[variant.best], "worst": CONTROL_NAMES[variant.worst]}
        is_decidable = variant.runs >= DECIDABLE_REPLICATIONS
        sure = {f"sure_{end}": one if is_decidable else "open" for end, one in ends.items()}
        found.append(vars(variant) | {"mean_mbps": variant.mean_mbps} | ends | sure)
    return of_records(SHEET, name, found)


def recommendations(outcome: TcpWimaxOutcome) -> Table:
    """The setting for each link, or that it is not resolved."""
    found = []
    for best in outcome.recommendations.values():
        is_any = len(best.segments) == len(SEGMENTS)
        about = {
            "link": PROFILE_NAMES[best.profile],
            "control": CONTROL_NAMES[best.control],
            "buffer": size(best.buffer),
            "segments": "any" if is_any else ", ".join(map(size, best.segments)),
            "goodput": best.goodput_mbps.text(),
            "cov": f"{best.cov:.2f}",
            "names": ", ".join(CONTROL_NAMES[control] for control in best.candidates),
        }
        if not best.is_resolved:
            about |= dict.fromkeys(("buffer", "segments", "goodput", "cov"), "")
            about["control"] = f"cannot be told after {best.goodput_mbps.n} replications"
        found.append(about)
    return of_records(SHEET, "recommendations", found)


def context(outcome: TcpWimaxOutcome) -> Context:
    """What the page's template needs of its own."""
    there = set(outcome.shares["profile"])
    return {
        "counts": _counts(outcome),
        "numbers": of_published(SHEET, "text", outcome.cells),
        "links": links(outcome, "shown_links"),
        "recommendations": recommendations(outcome),
        "sensitivity": sensitivity(outcome, "shown_sensitivity"),
        "speed": story.speed(outcome),
        "readings": READINGS,
        "reading_names": READING_NAMES,
        "profiles": PROFILES,
        "profile_names": PROFILE_NAMES,
        "control_names": CONTROL_NAMES,
        "aggression": {
            profile: [
                (row["first"], Interval(row["mean"], row["half_width"], row["n"]))
                for row in aggression(outcome.shares, profile).iter_rows(named=True)
            ]
            for profile in PROFILES
            if profile in there
        },
    }


def _counts(outcome: TcpWimaxOutcome) -> dict[str, str]:
    """Figure -> how many runs its numbers come from."""
    counts = facets.counts(SHEET, outcome.studies)
    for reading, runs in outcome.grid.items():
        for profile in PROFILES:
            own = runs.where(profile=profile)
            counts[f"heatmap-{profile}-{reading}"] = f"Means of {own.repeated} runs"
    counts["sensitivity"] = f"Means of {outcome.variants[0].runs} runs"
    return counts


def sections(outcome: TcpWimaxOutcome) -> list[Table | list[str]]:
    """What the record says after the finding."""
    throughput, pairs, stations, coherence = (
        listed(SHEET, name, outcome.studies)
        for name in ("throughput", "pairs", "stations", "coherence")
    )
    return [
        links(outcome),
        throughput,
        of_published(SHEET, "recorded", outcome.cells),
        recorded(outcome.claims, READING_NAMES),
        flows(outcome),
        pairs,
        stations,
        sensitivity(outcome),
        coherence,
    ]
