"""The page of the bench: tables, figures and checks."""

from collections.abc import Mapping, Sequence

from anabranch.bench_cc import reports
from anabranch.bench_cc.checks import Check
from anabranch.bench_cc.measures import Cell
from anabranch.figures.pages.tables import Page
from anabranch.figures.table import Cell as Place
from anabranch.figures.table import Table
from anabranch.support.wording import counted


def of(
    cells: Sequence[Cell],
    checks: Sequence[Check],
    replications: int,
    drawn: Sequence[str],
    further: Mapping[str, str] | None = None,
) -> Page:
    """What the page says; `drawn` names its figures, `further` has captions of other ones."""
    failed = [check for check in checks if check.verdict == "failed"]
    known = [check for check in checks if check.verdict == "known"]
    heads, cases = reports.rows(cells)
    bench = cells[0].bench
    return Page(
        title=bench.title,
        headline=reports.headline(cells),
        sentences=[
            f"{counted(len(checks), 'check')}, {len(failed)} failed.",
            *(
                f"{one.cell.control}, {one.cell.case}: {one.what}; {one.message}."
                for one in (*failed, *known)
            ),
        ],
        tables=[
            *(_table(case, heads, lines) for case, lines in cases.items()),
            *(_table(title, *part) for title, part in bench.parts(cells).items()),
        ],
        notes=[
            f"Green, and {reports.BEST}: may be the best of its column (95 %, compared run by run),"
            " or is within 1 % of it; where none is marked, all may be.",
            *(
                f"{metric.head}: {metric.meaning}"
                for metric in bench.metrics
                if metric.head in heads
            ),
        ],
        captions={
            name: f"{bench.drawn[name][1][0].upper()}{bench.drawn[name][1][1:]}, mean and 95 %"
            " interval; orange: may be the best. Each case has a scale of its own, but for shares."
            for name in drawn
        }
        | dict(further or {}),
        facts=f"{counted(replications, 'run')} of each {bench.what} in each case, {bench.span}",
    )


def _table(case: str, heads: Sequence[str], lines: reports.Lines) -> Table:
    """The table of one case, with the columns that it has."""
    kept = [i for i in range(len(heads)) if any(line[i] != reports.NONE for line in lines)]
    return Table(
        title=case,
        heads=[heads[i] for i in kept],
        rows=[
            [Place(line[i], "reproduced" if line[i].endswith(reports.BEST) else None) for i in kept]
            for line in lines
        ],
    )
