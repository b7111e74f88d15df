"""The tables of the terminal, the page and the record."""

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from anabranch.figures.table import STYLES, Table
from anabranch.papers.verdicts import WORDS, PublishedNumber

from . import story
from .outcome import Table2, VoipSctpOutcome
from .published import CLOCK_NAMES, DELAY_CENTRIC, PMR, RTO_MAX_S

WIDE = 128
"""Characters that Table 2 needs on one line a row; below, its cells have two lines."""


def of(outcome: VoipSctpOutcome, width: int) -> list[RenderableType]:
    """Table 2 under both clocks, figures' numbers."""
    shown: list[RenderableType] = [
        Group(table2(table, compact=width < WIDE), Text(story.table_summary(table)))
        for table in outcome.tables.values()
    ]
    return [*shown, figures(outcome.figure_cells).rich()]


def table2(table: Table2, *, compact: bool = False) -> RichTable:
    """11 rows by 8 columns; in each cell ours, the difference and the paper's.

    Coloured by verdict. Compact, it fits on 80 characters: ours with the difference above, the
    paper's below.
    """
    grid = RichTable(
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
    return Table(
        "Figures 3 to 6 (±: 95 %, of one run where the paper gives one run)",
        ["figure", "losses", "loss", "RTO.Max", "quantity", "paper", "ours"],
        [
            [
                cell.table.removeprefix("figure "),
                str(cell.key["loss_clock"]).replace("_", " "),
                f"{100 * float(cell.key['loss']):g} %",
                f"{cell.key['rto_max_s']:g} s",
                str(cell.key["quantity"]).replace("_", " ").replace("mos", "MOS"),
                f"{cell.published:g}",
                cell.ours(),
            ]
            for cell in cells
        ],
        keys=5,
    )


def recorded_figures(cells: list[PublishedNumber]) -> Table:
    """The same in the record, which has the verdict in a column."""
    return Table(
        "Numbers that the text gives for figures 3 to 6",
        ["figure", "losses", "RTO.Max", "quantity", "paper", "ours", "verdict"],
        [
            [
                cell.table.removeprefix("figure "),
                str(cell.key["loss_clock"]).replace("_", " "),
                f"{cell.key['rto_max_s']:g} s",
                str(cell.key["quantity"]).replace("_", " "),
                f"{cell.published:g}",
                cell.ours().text,
                WORDS[cell.verdict],
            ]
            for cell in cells
        ],
        keys=4,
    )


def recorded_table2(table: Table2) -> Table:
    """Table 2 in the record."""
    columns = [(state, pmr) for state in DELAY_CENTRIC for pmr in PMR]
    return Table(
        f"Table 2, losses drawn {CLOCK_NAMES[table.clock]}",
        ["RTO.Max", *(f"d-c {state}, PMR {pmr}" for state, pmr in columns)],
        [
            [
                f"{rto:g} s",
                *(
                    f"{cell.ours().text} ({cell.published:.2f})"
                    for state, pmr in columns
                    for cell in [table.find(rto, state, pmr)]
                ),
            ]
            for rto in RTO_MAX_S
        ],
        lead=f"{story.table_summary(table)}\nEach cell: ours ± 95 % half-width (paper).",
    )


def sensitivity(outcome: VoipSctpOutcome) -> Table:
    """What each choice is worth."""
    rows = []
    for row in outcome.sensitivity.iter_rows(named=True):
        prototype = "" if row["prototype"] is None else f"{row['prototype']:.2f}"
        error, bias = f"{row['mean_absolute_error']:.2f}", f"{row['bias']:+.2f}"
        rows.append([row["group"], row["name"], error, bias, prototype])
    return Table(
        "Sensitivity: what each choice of the interpretation is worth",
        ["group", "change", "error", "bias", "prototype"],
        rows,
        keys=2,
        lead="Mean absolute error against Table 2, and mean deviation, when one thing changes"
        " (losses on arrival unless it is the clock that changes). `prototype`: an independent"
        " prototype.",
    )


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
