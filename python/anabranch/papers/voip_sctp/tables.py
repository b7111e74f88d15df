"""The tables of the terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from anabranch.papers.tables import STYLES, titled
from anabranch.papers.verdicts import PublishedNumber

from . import story
from .outcome import Table2, VoipSctpOutcome
from .published import CLOCK_NAMES, DELAY_CENTRIC, PMR, RTO_MAX_S

WIDE = 128
"""Characters that Table 2 needs on one line a row; below, its cells have two lines."""


def of(outcome: VoipSctpOutcome, width: int) -> list[RenderableType]:
    """Table 2 under both clocks, figures' numbers."""
    found: list[RenderableType] = [
        Group(table2(table, compact=width < WIDE), Text(story.table_summary(table)))
        for table in outcome.tables.values()
    ]
    return [*found, figures(outcome.figure_cells)]


def table2(table: Table2, *, compact: bool = False) -> Table:
    """11 rows by 8 columns; in each cell ours, the difference and the paper's.

    Coloured by verdict. Compact, it fits on 80 characters: ours with the difference above, the
    paper's below.
    """
    grid = Table(
        title=(
            f"Table 2, MOS at 10 % loss, losses drawn {CLOCK_NAMES[table.clock]}: ours, difference,"
            " paper"
        ),
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    grid.add_column("RTO\nMax s", justify="right", no_wrap=True)
    for state in DELAY_CENTRIC:
        for pmr in PMR:
            grid.add_column(f"d-c {state}\nPMR {pmr}", justify="left", no_wrap=True)
    for rto in RTO_MAX_S:
        cells = [
            _cell(table.find(rto, state, pmr), compact=compact)
            for state in DELAY_CENTRIC
            for pmr in PMR
        ]
        grid.add_row(f"{rto:g}", *cells)
    return grid


def figures(cells: list[PublishedNumber]) -> Table:
    """The numbers that the text gives for figures 3 to 6."""
    grid = titled("Figures 3 to 6 (±: 95 %, of one run where the paper gives one run)")
    for heading in ("figure", "losses", "RTO.Max", "quantity"):
        grid.add_column(heading)
    for heading in ("paper", "ours"):
        grid.add_column(heading, justify="right")
    for cell in cells:
        ours = Text(f"{cell.measured:.2f} ± {cell.half_width:.2f}", style=STYLES[cell.verdict])
        quantity = str(cell.key["quantity"]).replace("_", " ")
        clock = str(cell.key["loss_clock"]).replace("_", " ")
        grid.add_row(
            cell.table, clock, f"{cell.key['rto_max_s']:g} s", quantity, f"{cell.published:g}", ours
        )
    return grid


def _cell(cell: PublishedNumber, *, compact: bool) -> Text:
    # Two digits, as the half-widths allow; "-.04", without its zero, makes eight columns fit on 80.
    deviation = (
        f"{cell.deviation:+.2f}".replace("0.", ".", 1)
        if abs(cell.deviation) < 1
        else f"{cell.deviation:+.1f}"
    )
    style = STYLES[cell.verdict]
    if compact:
        return Text.assemble(
            (f"{cell.measured:.2f}{deviation}", style), ("\n" + f"{cell.published:.2f}", "dim")
        )
    return Text.assemble(
        (f"{cell.measured:.2f} {deviation}", style), (f" {cell.published:.2f}", "dim")
    )
