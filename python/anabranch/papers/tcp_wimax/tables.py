"""The tables of the terminal."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from anabranch.papers.markdown import known
from anabranch.papers.tables import STYLES, titled

from . import story
from .factors import CONTROL_NAMES, CONTROLS, PROFILES
from .link import Link
from .outcome import TcpWimaxOutcome

LINK_HEADS = ("SNR dB", "loss %", "burst ms", "coherence s", "bits per symbol", "datagrams Mbit/s")


def of(outcome: TcpWimaxOutcome, _width: int) -> list[RenderableType]:
    """Links, throughput, the paper's numbers, speed."""
    found: list[RenderableType] = [links(outcome), throughput(outcome), numbers(outcome)]
    speed = story.speed(outcome)
    return found if speed is None else [*found, Text(speed)]


def links(outcome: TcpWimaxOutcome) -> Table:
    """What each profile does to full-size packets."""
    grid = titled("The links, for packets of 1500 B")
    grid.add_column("", no_wrap=True)
    for head in LINK_HEADS:
        grid.add_column(head, justify="right")
    for profile, link in outcome.links.items():
        grid.add_row(profile, *link_cells(link))
    return grid


def link_cells(link: Link) -> list[str]:
    """One link's cells under LINK_HEADS."""
    return [
        link.snr_db.text(1),
        link.loss_percent.text(1),
        known(1e3 * link.burst_s, 0),
        known(link.coherence_s, 2),
        link.bits_per_symbol.text(0),
        link.capacity_mbps.text(1),
    ]


def throughput(outcome: TcpWimaxOutcome) -> Table:
    """Goodput and its variation with writes of 4 KB and buffers of 512 KB."""
    grid = titled("Goodput in Mbit/s, coefficient of variation: writes of 4 KB, buffers of 512 KB")
    grid.add_column("", no_wrap=True)
    for profile in PROFILES:
        grid.add_column(profile, justify="right")
    for control in CONTROLS:
        cells = [outcome.write.claimed(profile).where(control=control) for profile in PROFILES]
        grid.add_row(
            CONTROL_NAMES[control],
            *(f"{runs.mean().text()}  {runs.mean('cov').mean:.2f}" for runs in cells),
        )
    return grid


def numbers(outcome: TcpWimaxOutcome) -> Table:
    """The numbers of the paper's text beside ours."""
    grid = titled("The paper's numbers")
    for head in ("link", "quantity", "segment is"):
        grid.add_column(head)
    for head in ("paper", "ours"):
        grid.add_column(head, justify="right")
    for cell in outcome.cells:
        bound = {"above": "> ", "up to": "up to "}.get(str(cell.key["bound"]), "")
        ours = Text(f"{cell.measured:.1f} ± {cell.half_width:.1f}", style=STYLES[cell.verdict])
        grid.add_row(
            str(cell.key["profile"]),
            str(cell.key["quantity"]).removesuffix("_percent").replace("_", " ") + ", %",
            str(cell.key["segment_reading"]).replace("_", " "),
            f"{bound}{cell.published:g}",
            ours,
        )
    return grid
