"""Two sides scalar by scalar: what differs, how much, and how sure that is."""

import fnmatch
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from anabranch.errors import AnabranchError
from anabranch.stats import check_level, labels, verdicts
from anabranch.stats.many import differences, half_widths, screened
from anabranch.stats.verdicts import Matters
from anabranch.support import declared, wording

from .sides import Key, RunId, Settings, Side, side

_CERTAIN = 1e-9
"""A relative standard error below this is rounding: the differences are all equal."""

_RANKS = {"resolved": 0, "same": 0, "single": 1, "open": 2, "small": 3, "equal": 4}
"""The order of rows by verdict, the lowest first."""

_LEADS = ("goodput_kbit_per_s", "mean_delay_ms", "loss_percent", "mos")
"""The last parts of the names of scalars that say how a flow fared; they come first."""

_TOLD = 3
"""How many of these the sentence tells."""

_FEW = 6
"""With fewer runs than this, equal differences may be chance: six pairs of a counter with two
equally likely values all differ by the same amount with probability 2^-5.
"""

_NAMED = 3
"""How many names of what only one side has are listed."""

_SETTINGS = 12
"""How many settings that differ are listed."""


@dataclass(frozen=True)
class Cell:
    """A cell that both sides have."""

    name: str
    """Its values on the axes; empty where each side has only one cell."""
    a: int
    """The index of the cell at side A."""
    b: int


@dataclass(frozen=True)
class SideBySide:
    """What two sides have in common, and how that differs."""

    a: Side
    b: Side
    cells: Sequence[Cell]
    only: tuple[Sequence[str], Sequence[str]]
    """The names of cells that only one side has."""
    only_scalars: tuple[Sequence[str], Sequence[str]]
    """The names of scalars for which only one side has a value."""
    settings: Sequence[tuple[str, str, str]] | None
    """The settings in which the scenarios of the first cell differ: path, value of A, value of B;
    None if a side does not tell its settings.
    """
    rows: pl.DataFrame
    """One row for each cell and scalar that both have a value of: cell, scalar, a and b (means),
    difference (a - b), half_width (at `interval_level`), deviation (difference / |b|; NaN where b
    is 0), p (NaN where nothing was tested), runs_a, runs_b, paired, verdict.

    The verdict is `resolved`, `same` (by the same amount in every run), `single` (too few runs for
    an interval), `open` (not resolved), `small` (all of the interval is too small to matter) or
    `equal` (in every run). The rows are in this order, with `resolved` and `same` ranked alike;
    rows of one rank begin with those that say how flows fared, and are sorted by how far their
    ratio is from 1.
    """
    level: float
    interval_level: float
    """The level of the intervals, chosen so that exactly the resolved ones exclude 0."""

    def count(self, *verdicts: str) -> int:
        """How many rows have one of these verdicts."""
        return int(self.rows["verdict"].is_in(verdicts).sum())

    def listed(self, bound: float) -> pl.DataFrame:
        """The rows to look at.

        Where there are intervals, these are the differences that are resolved, or the same in every
        run. Where there are none, these are the rows whose deviation exceeds the bound, a share of
        b. Of a single cell, the scalars that say how flows fared come first, whether or not they
        differ.
        """
        exceeds = pl.col("deviation").is_nan() | (pl.col("deviation").abs() > bound)
        kept = pl.col("verdict").is_in(["resolved", "same"])
        leads = _is_lead() if len(self.cells) == 1 else pl.lit(value=False)
        rows = self.rows.filter(leads | kept | ((pl.col("verdict") == "single") & exceeds))
        return rows if len(self.cells) > 1 else rows.sort(~_is_lead(), maintain_order=True)

    @property
    def notes(self) -> list[str]:
        """What the reader has to know before the numbers, a sentence each."""
        return list(filter(None, (*self._about_scenarios(), *self._about_missing(), self._method)))

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        total = wording.counted(self.rows.height, "comparison")
        scalars = wording.counted(self.rows["scalar"].n_unique(), "scalar")
        compared = scalars if len(self.cells) == 1 else f"{total} ({scalars}, {self._cells})"
        equal = self.count("equal")
        if equal == self.rows.height:
            return f"nothing differs: {compared}, equal in every run"
        parts = []
        if resolved := self.count("resolved"):
            share = wording.number(100 * (1 - self.level))
            parts.append(
                f"{_differ(resolved)} (of such findings {share} % on average are by chance)"
            )
        if same := self.count("same"):
            rows = self.rows.filter(pl.col("verdict") == "same").select("runs_a", "runs_b")
            doubt = " (of so few runs that may be chance)" if min(rows.min().row(0)) < _FEW else ""
            parts.append(f"{_differ(same)} by the same amount in every run{doubt}")
        if single := self.count("single"):
            parts.append(f"{_differ(single)}, without an interval that could say whether by chance")
        if not_resolved := self.count("open"):
            parts.append(f"the difference of {not_resolved:,} is not resolved")
        if small := self.count("small"):
            by = "differs by" if small == 1 else "differ by"
            parts.append(f"{small:,} {by} too little to matter")
        if equal:
            parts.append(f"{equal:,} {'is' if equal == 1 else 'are'} equal in every run")
        return f"{self._fared}{compared}: {', '.join(parts)}{self._most}"

    @property
    def _fared(self) -> str:
        """How the flows fared on both sides, where that differs."""
        leads = self.rows.filter(_is_lead())
        differ = leads.filter(pl.col("verdict").is_in(["resolved", "same", "single"]))
        if differ.is_empty():
            if leads.is_empty():
                return ""
            if "open" in leads["verdict"]:
                return "whether flows fare differently cannot be told; "
            return "no flow fares differently; "
        told = [self._against(row) for row in differ.head(_TOLD).iter_rows(named=True)]
        more = differ.height - len(told)
        return f"{'; '.join(told)}{f'; and {more} more of how flows fare' if more else ''}; "

    @property
    def _most(self) -> str:
        """The largest difference of what is not said yet."""
        rest = self.rows.filter(~_is_lead() & (pl.col("verdict") != "equal"))
        if rest.is_empty() or rest["verdict"][0] not in ("resolved", "same", "single"):
            return ""
        return f"; the most: {self._against(rest.row(0, named=True))}"

    @staticmethod
    def _against(row: dict[str, Any]) -> str:
        where = f" at {row['cell']}" if row["cell"] else ""
        one, two = (wording.number(row[side], 4) for side in ("a", "b"))
        return f"`{row['scalar']}`{where}, {one} against {two}"

    @property
    def _cells(self) -> str:
        return wording.counted(len(self.cells), "cell")

    @property
    def _method(self) -> str:
        paired = self.rows["paired"]
        share = wording.number(100 * self.level)
        if not self.rows["verdict"].is_in(["resolved", "open"]).any():
            if self.count("single"):
                return "a difference needs two runs or more of each side to have an interval"
            return ""
        if paired.all():
            how = "differences are those within replications: both were simulated with one seed"
        elif paired.any():
            how = (
                "differences are those within replications where both have two or more with one"
                " seed, otherwise those of independent runs (Welch)"
            )
        else:
            how = "the runs are independent (Welch): they do not share seed and random numbers"
        return (
            f"{how}; intervals are for {share} % of what is listed"
            f" ({wording.number(100 * self.interval_level, 5)} % each)"
        )

    def _about_scenarios(self) -> Iterator[str]:
        a, b = self.a, self.b
        yield f"A: {a.description}"
        yield f"B: {b.description}"
        if a.scenario and b.scenario and a.scenario != b.scenario:
            yield f"the scenarios have other names: {a.scenario} | {b.scenario}"
        if a.version and b.version and _release(a, b) != _release(b, a):
            yield f"the versions differ: {a.version} | {b.version}"
        for things, mine, other in (("flows", a.flows, b.flows), ("links", a.links, b.links)):
            for name, more in (("A", mine - other), ("B", other - mine)):
                # no news: an emulation has scalars of its own flows only
                if more and mine and other:
                    yield f"only {name} has the {things} {_some(sorted(more))}"
        if self.settings:
            several = [f"{path} = {one} | {two}" for path, one, two in self.settings]
            where = f" (at {self.cells[0].name})" if self.cells[0].name else ""
            yield f"settings that differ, A | B{where}: {_some(several, '; ', _SETTINGS)}"
        elif self.settings is None and a.hashes and b.hashes and a.hashes != b.hashes:
            one, two = (_some(sorted(each.hashes)) for each in (a, b))
            yield f"the scenarios differ (hashes {one} | {two}), the files do not say in what"

    def _about_missing(self) -> Iterator[str]:
        for name, cells, scalars in zip("AB", self.only, self.only_scalars, strict=True):
            if cells:
                what = wording.counted(len(cells), "cell")
                yield f"only {name} has {what}: {_some(cells, '; ')}"
            if scalars:
                yield f"only {name} has {wording.counted(len(scalars), 'scalar')}: {_some(scalars)}"


def _is_lead() -> pl.Expr:
    return pl.col("scalar").str.split(".").list.last().is_in(_LEADS)


def compare(
    a: str | Path,
    b: str | Path,
    *,
    metrics: Sequence[str] = (),
    level: float = 0.95,
    matters: Matters | None = None,
) -> SideBySide:
    """Compares two studies or runs of one scenario, a minus b, scalar by scalar.

    Cells are matched by their values on the axes; where each side has one, these are compared
    whatever they are. Two settings of one study are compared by `Study.compare`.

    Parameters
    ----------
    a, b
        Study folders, JSON files of runs, or folders of those: `compare.sides` has the rule.
    metrics
        Patterns of scalars, `link.*`; all if there are none.
    level
        Of the differences that are called resolved, a share of 1 - level is due to chance on
        average.
    matters
        The smallest difference that matters; `verdicts.usual` of each scalar if not given.

    Raises
    ------
    AnabranchError
        When a side cannot be read, or is of another scenario.

    Examples
    --------
    >>> from anabranch.compare import compare
    >>> call = "scenarios/two-path-call.toml"
    >>> for out, rto in (("results/long", "1 s"), ("results/short", "0.1 s")):
    ...     changes = {"flows.call.transport.rto_max": rto}
    ...     anabranch.Study(call, out, set=changes, replications=5).run()
    >>> found = compare("results/long", "results/short", metrics=["call.mos"])
    >>> found.settings
    [('flows.call.transport.rto_max', '1 s', '100 ms')]
    >>> found.rows["verdict"].to_list()
    ['open']
    """
    check_level(level)
    sides = (side(a, metrics or None), side(b, metrics or None))
    _check_alike(*sides)
    scalars, only_scalars = _in_common(*sides, metrics)
    cells, only = _matched(*sides)
    parts, valueless = [], (set[str](), set[str]())
    compared: set[str] = set()
    for cell in cells:
        part = _differences(*sides, cell, scalars)
        has_a, has_b = part["runs_a"] > 0, part["runs_b"] > 0
        for names, lonely in zip(valueless, (has_a & ~has_b, has_b & ~has_a), strict=True):
            names.update(part.filter(lonely)["scalar"])
        parts.append(part.filter(has_a & has_b))
        compared.update(parts[-1]["scalar"])
    rows = pl.concat(parts)
    if rows.is_empty():
        raise AnabranchError(
            f"{sides[0].name} and {sides[1].name} never have a value of one scalar"
        )
    rows, interval_level = _judged(rows, level, matters)
    return SideBySide(
        a=sides[0],
        b=sides[1],
        cells=cells,
        only=only,
        only_scalars=tuple(  # type: ignore[arg-type]
            sorted({*names, *(lonely - compared)})
            for names, lonely in zip(only_scalars, valueless, strict=True)
        ),
        settings=_settings(*sides, cells[0]),
        rows=rows,
        level=level,
        interval_level=interval_level,
    )


def _check_alike(a: Side, b: Side) -> None:
    """Raises unless the sides can be runs of one scenario or of variants of it."""
    for things, mine, other in (("flow", a.flows, b.flows), ("link", a.links, b.links)):
        if mine and other and not mine & other:
            raise AnabranchError(
                f"{a.name} and {b.name} are not of the same scenario: they have no {things} in"
                f" common ({_some(sorted(mine))} | {_some(sorted(other))})"
            )


def _in_common(
    a: Side, b: Side, metrics: Sequence[str]
) -> tuple[list[str], tuple[list[str], list[str]]]:
    """The scalars that both have, in the order of A, and those that only one has."""
    patterns = metrics or ["*"]
    mine, other = (
        [name for name in of.scalars if any(fnmatch.fnmatchcase(name, one) for one in patterns)]
        for of in (a, b)
    )
    for pattern in metrics:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in (*mine, *other)):
            # From a study, only the matching scalars were read, so it is read again with all of
            # them.
            known = [name for of in (a, b) for name in side(of.name).scalars]
            raise declared.no_scalar(pattern, known)
    there = set(other)
    both = [name for name in mine if name in there]
    # Every run has the scalars of `run`, so they do not show that the scenario is the same.
    if not both or (not metrics and all(name.startswith("run.") for name in both)):
        raise AnabranchError(
            f"{a.name} and {b.name} have no scalar in common: are they of the same scenario?"
        )
    shared = set(both)
    only_a, only_b = ([name for name in of if name not in shared] for of in (mine, other))
    return both, (only_a, only_b)


def _matched(a: Side, b: Side) -> tuple[list[Cell], tuple[list[str], list[str]]]:
    """The cells that both have, and the names of those that only one has.

    A cell without a finished run does not count.
    """
    there = [sorted(of.rows["_cell"].unique().to_list()) for of in (a, b)]
    if len(there[0]) == len(there[1]) == 1:
        return [Cell("", there[0][0], there[1][0])], ([], [])
    named = _names(a, b)
    places = [
        {of.keys[cell]: cell for cell in cells} for of, cells in zip((a, b), there, strict=True)
    ]
    cells = [
        Cell(named[key], place, places[1][key])
        for key, place in places[0].items()
        if key in places[1]
    ]
    only = [
        [named[key] or "the one without axes" for key in mine if key not in other]
        for mine, other in (places, places[::-1])
    ]
    if not cells:
        raise AnabranchError(
            f"{a.name} and {b.name} have no cell in common: {_some(only[0], '; ')} |"
            f" {_some(only[1], '; ')}"
        )
    return cells, (only[0], only[1])


def _names(a: Side, b: Side) -> dict[Key, str]:
    """A text for each key; different values get different texts."""
    keys = list(dict.fromkeys([*a.keys, *b.keys]))
    among: dict[str, dict[Any, None]] = {}
    for key in keys:
        for name, value in key:
            among.setdefault(name, {})[value] = None
    shown = labels.of_values(among, [*a.axes(), *b.axes()])
    return {key: labels.key_text(dict(key), shown) for key in keys}


def _differences(a: Side, b: Side, cell: Cell, scalars: Sequence[str]) -> pl.DataFrame:
    """The differences of all scalars in one cell."""
    runs = (a.runs(cell.a), b.runs(cell.b))
    values = [a.values(cell.a, scalars), b.values(cell.b, scalars)]
    pairs: list[RunId] = []
    if a.is_simulated and b.is_simulated:
        known = set(runs[1])
        pairs = [run for run in runs[0] if run in known and run[0] is not None]
    for i, of in enumerate(runs):
        places = {run: place for place, run in enumerate(of)}
        # The paired runs come first, in one order.
        order = [places.pop(run) for run in pairs]
        values[i] = values[i][:, [*order, *places.values()]]
    compared = differences(values[0], values[1], len(pairs))
    size = np.abs(compared.difference)
    certain = (size > 0) & (compared.error <= _CERTAIN * size)
    verdict = np.where(np.isnan(compared.error), "single", np.where(certain, "same", "open"))
    verdict = np.where(compared.equal, "equal", verdict)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        deviation = np.where(compared.b == 0, np.nan, compared.difference / np.abs(compared.b))
    return pl.DataFrame(
        {
            "cell": pl.Series([cell.name] * len(scalars), dtype=pl.String),
            "scalar": pl.Series(scalars, dtype=pl.String),
            "a": compared.a,
            "b": compared.b,
            "difference": compared.difference,
            "error": compared.error,
            "freedom": compared.freedom,
            "deviation": deviation,
            "p": compared.p,
            "runs_a": compared.n_a,
            "runs_b": compared.n_b,
            "paired": compared.paired,
            "verdict": verdict,
        }
    )


def _judged(
    rows: pl.DataFrame, level: float, matters: Matters | None
) -> tuple[pl.DataFrame, float]:
    """The rows with verdicts and intervals, sorted, and the level of the intervals.

    Scalars that are equal in all runs, or differ by the same amount in all of them, are not a
    matter of chance, so they do not count among the tests.
    """
    is_test = (rows["verdict"] == "open").to_numpy()
    p = np.where(is_test, rows["p"].to_numpy(), math.nan)
    resolved, interval_level = screened(p, level)
    error, freedom = rows["error"].to_numpy(), rows["freedom"].to_numpy()
    half_width = half_widths(error, freedom, interval_level)
    half_width = np.where(is_test, half_width, np.where(np.isnan(error), math.nan, 0.0))
    verdict = np.where(resolved, "resolved", rows["verdict"].to_numpy())
    what = [verdicts.usual(name) if matters is None else matters for name in rows["scalar"]]
    least = np.array([one.of(b) for one, b in zip(what, rows["b"], strict=True)])
    is_small = np.abs(rows["difference"].to_numpy()) + half_width <= least
    verdict = np.where(is_small & (verdict != "equal"), "small", verdict)
    a, b = rows["a"].abs(), rows["b"].abs()
    # The ratio of the larger to the smaller, so that the order does not depend on which side is A.
    apart = rows["difference"].abs() / pl.select(pl.max_horizontal(a, b)).to_series()
    judged = rows.with_columns(
        pl.Series("half_width", half_width),
        pl.Series("verdict", verdict, dtype=pl.String),
        p=pl.when(pl.Series(is_test)).then("p").otherwise(math.nan),
        _apart=apart.fill_nan(0.0),
    ).with_columns(_rank=pl.col("verdict").replace_strict(_RANKS, return_dtype=pl.Int64))
    order = ("_rank", ~_is_lead(), "_apart")
    judged = judged.sort(*order, descending=[False, False, True], maintain_order=True)
    return judged.select(
        *("cell", "scalar", "a", "b", "difference", "half_width", "deviation", "p"),
        *("runs_a", "runs_b", "paired", "verdict"),
    ), interval_level


def _settings(a: Side, b: Side, cell: Cell) -> list[tuple[str, str, str]] | None:
    """The settings in which a cell differs; None unless both sides tell theirs."""
    one, two = a.settings(cell.a), b.settings(cell.b)
    return None if one is None or two is None else list(_changes(one, two))


def _changes(a: Settings, b: Settings) -> Iterator[tuple[str, str, str]]:
    mine, other = dict(_leaves(a)), dict(_leaves(b))
    changed: list[str] = []
    for path in dict.fromkeys([*mine, *other]):
        one, two = mine.get(path), other.get(path)
        # Where the `kind` of a table differs, its keys do as well; those are not listed.
        if one == two or (None in (one, two) and path.startswith(tuple(changed))):
            continue
        parent, _, name = path.rpartition(".")
        if name == "kind" and None not in (one, two):
            changed.append(f"{parent}.")
        if path not in ("name", "description"):
            yield path, one or "–", two or "–"


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The values of a tree with their paths."""
    if isinstance(tree, dict):
        items: Iterable[tuple[str, Any]] = tree.items()
    elif isinstance(tree, list) and any(isinstance(item, dict | list) for item in tree):
        items = ((str(i), item) for i, item in enumerate(tree))
    else:
        listed = isinstance(tree, list)
        yield path, ", ".join(map(_text, tree)) if listed else _text(tree)
        return
    for name, item in items:
        yield from _leaves(item, f"{path}.{name}" if path else name)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else wording.number(value)


def _differ(count: int) -> str:
    return f"{count:,} differ{'s' if count == 1 else ''}"


def _release(mine: Side, other: Side) -> str:
    """The version of the package, without the engine's hash where the other side has none."""
    version = mine.version or ""
    return version if "+" in (other.version or "") else version.partition("+")[0]


def _some(names: Sequence[str], between: str = ", ", most: int = _NAMED) -> str:
    """The first few names, and how many more there are."""
    more = f"{between}and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more
