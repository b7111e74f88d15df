"""The tables: the terminal, the page and the record show them, some in short."""

from rich.console import RenderableType
from rich.text import Text

from anabranch.figures.table import Table
from anabranch.papers.tables import listed, of_published, of_records, recorded
from anabranch.papers.verdicts import DECIDABLE_REPLICATIONS

from . import story
from .factors import (
    CONTROL_NAMES,
    CONTROLS,
    PROFILE_NAMES,
    READING_NAMES,
    SEGMENTS,
    SHEET,
    size,
)
from .outcome import TcpWimaxOutcome
from .studies import FLOWS


def of(outcome: TcpWimaxOutcome, _width: int) -> list[RenderableType]:
    """Links, throughput, the paper's numbers, speed."""
    throughput = listed(SHEET, "throughput", outcome.studies)
    shown: list[RenderableType] = [
        table.rich()
        for table in (links(outcome), throughput, of_published(SHEET, "text", outcome.cells))
    ]
    speed = story.speed(outcome)
    return shown if speed is None else [*shown, Text(speed)]


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
        goodputs = [one.mean for one in variant.goodput_mbps.values()]
        best, worst = CONTROL_NAMES[variant.best], CONTROL_NAMES[variant.worst]
        is_decidable = variant.runs >= DECIDABLE_REPLICATIONS
        found.append(
            vars(variant)
            | {
                "mean_mbps": sum(goodputs) / len(CONTROLS),
                "best": best,
                "worst": worst,
                "sure_best": best if is_decidable else "open",
                "sure_worst": worst if is_decidable else "open",
            }
        )
    return of_records(SHEET, name, found)


def recommendations(outcome: TcpWimaxOutcome) -> Table:
    """The setting for each link, or that it is not resolved."""
    found = []
    for profile, advised in outcome.recommendations.items():
        is_any = len(advised.segments) == len(SEGMENTS)
        words = f"cannot be told after {advised.goodput_mbps.n} replications"
        setting = dict.fromkeys(("buffer", "segments", "goodput", "cov"), "") | {"control": words}
        if advised.is_resolved:
            setting = {
                "control": CONTROL_NAMES[advised.control],
                "buffer": size(advised.buffer),
                "segments": "any" if is_any else ", ".join(map(size, advised.segments)),
                "goodput": advised.goodput_mbps.text(),
                "cov": f"{advised.cov:.2f}",
            }
        others = ", ".join(CONTROL_NAMES[control] for control in advised.candidates)
        found.append({"link": PROFILE_NAMES[profile], "others": others} | setting)
    return of_records(SHEET, "recommendations", found)


def sections(outcome: TcpWimaxOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    described = {
        name: listed(SHEET, name, outcome.studies)
        for name in ("throughput", "pairs", "stations", "coherence")
    }
    before = (
        links(outcome),
        described["throughput"],
        of_published(SHEET, "recorded", outcome.cells),
    )
    after = (flows(outcome), described["pairs"], described["stations"], sensitivity(outcome))
    return [
        *(table.markdown() for table in before),
        recorded(outcome.claims, READING_NAMES),
        *(table.markdown() for table in (*after, described["coherence"])),
    ]
