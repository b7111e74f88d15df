"""The page of a comparison with another implementation."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from anabranch.figures.pages import drawing
from anabranch.figures.pages.tables import Page
from anabranch.figures.table import Cell, Shade, Table
from anabranch.oracles import tables

_SHADES: dict[str, Shade] = {
    "within": "reproduced",
    "in_range": "open",
    "in_interval": "open",
    "outside": "not_reproduced",
}
"""The shade of a verdict."""


def write(oracle: Any, rows: list[Any], replications: int, folder: Path) -> list[Path]:
    """Writes the figures of a comparison into a folder, and the page beside them.

    Parameters
    ----------
    oracle
        The module of the comparison.
    rows
        The rows, as the module's `compare` gives them.
    replications
        Runs of each row.
    folder
        The folder for the page and the figures.
    """
    figures = oracle.figures(rows)
    drawn = drawing.draw({name: partial(figures.__getitem__, name) for name in figures}, folder)
    made = of(oracle, rows, replications, {name: oracle.CAPTIONS[name] for name in figures})
    written = [folder / f"{name}.{suffix}" for name in figures for suffix in ("png", "svg", "pdf")]
    return [made.write(folder, drawn, ""), *written]


def of(oracle: Any, rows: list[Any], replications: int, captions: dict[str, str]) -> Page:
    """The content of the page."""
    verdicts = [row["verdict"] for row in oracle.as_json(rows)]
    within, outside = (verdicts.count(word) for word in ("within", "outside"))
    title = (oracle.__doc__ or "").splitlines()[0].rstrip(".").replace("`", "")
    meanings = getattr(oracle, "MEANINGS", {})
    return Page(
        title=title,
        headline=f"How near are our numbers? {within} of {len(verdicts)} within 10 %,"
        f" {len(verdicts) - within - outside} more with theirs in our 95 % range,"
        f" {outside or 'none'} outside.",
        sentences=[*getattr(oracle, "notes", lambda _: [])(rows), *oracle.summary(rows)],
        tables=[_table(oracle, *parts) for parts in tables(oracle, rows)],
        notes=[
            "Green: our mean is within 10 % of theirs. Grey: it is not, but theirs lies where ours"
            " do with 95 %. Red: neither.",
            *(f"{oracle.HEADS[name]}: {text}" for name, text in meanings.items()),
            *(f"Cause {letter}: {text}" for letter, text in oracle.CAUSES.items()),
        ],
        captions=captions,
        facts=f"{replications:,} {'run' if replications == 1 else 'runs'} of each row",
    )


def _table(oracle: Any, name: str, heads: Sequence[str], part: list[Any]) -> Table:
    """A table without empty columns; where quantities have a cause, it stands behind our number.

    In columns of their own, the causes would make the table wider than a screen.
    """
    lines = [oracle.cells(row) for row in part]
    causes = [i for i, head in enumerate(heads) if head.endswith(": cause")]
    kept = [i for i in range(len(heads)) if i not in causes and any(line[i] for line in lines)]

    def cells(row: Any, line: Sequence[str]) -> list[Cell]:
        verdicts = oracle.shades(row)
        texts = {
            i: f"{line[i]} {line[i + 1]}".rstrip() if i + 1 in causes else line[i] for i in kept
        }
        return [
            Cell(text, _SHADES[verdicts[i]] if i in verdicts else None) for i, text in texts.items()
        ]

    return Table(
        title=name or "All numbers",
        heads=[heads[i] for i in kept],
        rows=[cells(row, line) for row, line in zip(part, lines, strict=True)],
        keys=oracle.KEYS,
    )
