"""Runs and studies from Python: scenarios in, Polars frames out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anabranch import stats
from anabranch._engine import ENGINE_VERSION, Scenario
from anabranch.errors import AnabranchError, whole
from anabranch.stats import comparison
from anabranch.stats.comparison import Comparison, Selection
from anabranch.stats.verdicts import Matters
from anabranch.store import (
    FolderStore,
    MemoryStore,
    Store,
    cells_of,
    read,
    read_cells,
    read_definition,
    traces,
    without_empty,
)
from anabranch.studies import execution, stopping
from anabranch.studies.execution import Progress
from anabranch.studies.result import Value, loaded
from anabranch.studies.where import Where
from anabranch.studies.workers import Workers
from anabranch.support import declared, wording
from anabranch.support.columns import axes_of
from anabranch.support.cores import threads
from anabranch.support.progress import in_notebook, shown
from anabranch.support.views import views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_RUNS = 100_000_000
"""The most runs of a study, as memory holds which of them are finished."""


class Study:
    """All cells of a scenario's sweep, each replicated.

    Parameters
    ----------
    scenario
        A loaded scenario, a path or TOML text; or a study folder, to read or to continue it.
    out
        A folder for the rows: finished runs in it are not computed again. Without it, rows are kept
        in memory.
    set
        Values to change, by dotted path; only with a path or text.
    replications
        Runs of each cell, instead of those in the sweep. If not given for an opened folder, all
        runs in it are read.
    jobs
        Threads; all cores if not given. Never changes a result.

    Examples
    --------
    >>> study = anabranch.Study("scenarios/rto-sweep.toml", "results/rto", replications=3)
    >>> study.run()
    >>> study
    Study rto-sweep: 9 cells over rto_max, pmr; 27 of 27 runs finished; in results/rto
    >>> anabranch.Study("results/rto").cells("call.mos").columns
    ['cell', 'rto_max', 'pmr', 'mean', 'half_width', 'n']
    >>> rows = study.frame(columns=["call.*"])
    >>> rows.height
    27
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        out: str | Path | None = None,
        *,
        set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
        replications: int | None = None,
        jobs: int | None = None,
    ) -> None:
        self.out = None if out is None else Path(out)
        self.jobs = threads(jobs)
        self._opened = _is_folder(scenario)
        self._asked = None if replications is None else whole("replications", replications, 1)
        if self._opened:
            if out is not None or set:
                raise AnabranchError(f"{scenario} is a folder: `out` and `set` need a scenario")
            self.out = Path(str(scenario))
            self._cells = read_cells(self.out)
        else:
            self.scenario = loaded(scenario, set)
            self._check_total()
            self._cells = cells_of(self.scenario)
            self._memory = MemoryStore(self.scenario)

    def __repr__(self) -> str:
        """A description of the study, and how much of it is finished."""
        what = f"Study {self.scenario.name}: {wording.counted(len(self._cells), 'cell')}"
        if self.axes:
            what += f" over {', '.join(self.axes)}"
        most = " at most" if any(part["until"] for part in self.scenario.parts) else ""
        done = f"{self._finished().height:,} of{most} {self.total:,} runs finished"
        return f"{what}; {done}; {'in memory' if self.out is None else f'in {self.out}'}"

    def _repr_html_(self) -> str:
        """The same description for a notebook, with the means of the cells."""
        return views().of_study(self)

    def plot(
        self,
        metric: str,
        x: str | None = None,
        by: str | None = None,
        *,
        panels: str | None = None,
        where: Where = (),
        width: str | None = None,
        height: str | None = None,
        font: str | None = None,
        font_size: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> "Figure":
        """A scalar against an axis with its intervals, as a figure for a publication.

        It is drawn in the style of `matplotlib.rcParams` and of style sheets where they set
        something. An axis whose values were swept in ratios is logarithmic.

        Parameters
        ----------
        metric
            The scalar, `call.mos`.
        x
            The axis to draw it against; the one with the most numbers if not given.
        by
            The axis whose values have a line each; if not given, another axis, if there is one.
        panels
            The axis whose values have a panel each; if not given, the third axis, if there is one.
        where
            The cells to draw: values by axis, `{"pmr": [0, 1]}`, or conditions,
            `["rto_max<=1 s", "study=main"]`.
        width, height
            Of the figure, `84mm`; a page's width if not given.
        font
            A family such as `serif`, or a font's name.
        font_size
            In points.
        labels
            Words for the scalar and the axes, `{"rto_max": "RTO.Max (s)"}`. A unit in brackets at
            the end is the one that the values get.

        Raises
        ------
        AnabranchError
            If there is no such scalar, axis or value, or more axes vary than a figure shows.

        Examples
        --------
        >>> study = anabranch.Study("scenarios/rto-sweep.toml", replications=3)
        >>> study.run()
        >>> figure = study.plot("call.mos", where={"pmr": [0, 1]}, width="84mm", font="serif")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_xscale()
        ('rto_max (s)', 'log')
        """
        return views().figure_of_study(
            self,
            metric,
            x,
            by,
            panels=panels,
            where=where,
            width=width,
            height=height,
            font=font,
            font_size=font_size,
            labels=labels or {},
        )

    @property
    def cell_table(self) -> pl.DataFrame:
        """A row for each cell: its number, sub-study, seed, hash, and values on the axes."""
        return self._cells

    @cached_property
    def scenario(self) -> Scenario:
        """The study's definition."""
        assert self.out is not None
        return read_definition(self.out)

    @property
    def replications(self) -> int:
        """Runs of each cell."""
        return self.scenario.replications if self._asked is None else self._asked

    @property
    def axes(self) -> list[str]:
        """The names of the sweep's axes, which are columns of `frame()`."""
        return axes_of(self._cells)

    @property
    def total(self) -> int:
        """The number of all runs; with a stopping rule, the most possible."""
        counts = zip(self._most_of_parts(), self.scenario.parts, strict=True)
        return sum(most * part["cell_count"] for most, part in counts)

    def run(
        self,
        progress: Progress | Literal[False] | None = None,
        *,
        cluster: Any = None,
        shard: tuple[int, int] | None = None,
        metrics: Sequence[str] = (),
        workers: Workers | None = None,
    ) -> None:
        """Computes the runs that are not finished yet.

        On Ctrl-C it saves what is finished, then raises KeyboardInterrupt.

        Parameters
        ----------
        progress
            Called with the state of the work, such as `print`. If not given, a notebook shows a
            bar; False shows none.
        cluster
            Compute there instead of in this process: `local`, the address of a Dask scheduler, a
            `distributed.Client` or a cluster such as dask-jobqueue's `SLURMCluster`.
        shard
            Compute the i-th share of n, `(i, n)`, only; the folder may be shared by all of them.
        metrics
            Scalars that must exist: a wrong name ends the study with its first run. `progress` gets
            the interval of the first one.
        workers
            What computes the runs, instead of threads or a cluster.
        """
        self._check_total()
        with ExitStack() as stack:
            if progress is None and in_notebook():
                progress = stack.enter_context(shown("runs", kept=self.out is not None))
            engine = ENGINE_VERSION if workers is None else workers.engine
            store = stack.enter_context(self._store(shared=shard is not None, engine=engine))
            execution.compute_study(
                self.scenario,
                store,
                self._asked,
                jobs=self.jobs,
                cluster=cluster,
                workers=workers,
                shard=shard,
                progress=progress or None,
                metrics=metrics,
            )

    def frame(self, study: str | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """One row for each finished run of this study, sorted by cell and replication.

        Its columns are cell, replication, study (with sub-studies), seed, the axes, every scalar
        that has a value in one of the rows, engine_version, schema_version, scenario_hash. It is
        equal to the bit however the work was split, stopped and continued.

        Parameters
        ----------
        study
            The sub-study whose rows to read; all rows if not given.
        columns
            The scalars to read, with `*` for any text in a name; all if not given. A scalar without
            any value is included only if it is named.

        Raises
        ------
        AnabranchError
            If no run is finished yet.
        """
        rows = self._finished(columns)
        if rows.is_empty():
            raise AnabranchError("no run of the study is finished yet: call `run()` first")
        if study is not None:
            names = (
                self._cells["study"].unique().to_list() if "study" in self._cells.columns else []
            )
            if study not in names:
                known = f"there are {', '.join(sorted(names))}" if names else "it has none"
                raise AnabranchError(f"the study has no sub-study `{study}`; {known}")
            rows = rows.filter(pl.col("study") == study)
        return without_empty(rows, columns or ())

    def _finished(self, columns: Sequence[str] | None = ()) -> pl.DataFrame:
        """The finished rows; none if the folder does not exist yet."""
        if self.out is None:
            rows = self._memory.read(columns)
        elif not self._opened and not self.out.exists():
            return pl.DataFrame()
        else:
            rows = read(self.out, None if self._opened else self.scenario, columns)
        if not (self._opened and self._asked is None):
            rows = rows.filter(pl.col("replication") < pl.Series(self._most())[rows["cell"]])
        return rows

    def traces(self, table: str) -> pl.LazyFrame:
        """Traces that the sweep keeps, read when collected: cell, replication, the table's columns.

        Parameters
        ----------
        table
            One of the sweep's `traces`.

        Raises
        ------
        AnabranchError
            If the sweep keeps no such table.
        """
        if table not in self.scenario.traces:
            kept = ", ".join(f"`{name}`" for name in self.scenario.traces) or "none"
            raise AnabranchError(
                f"the study keeps no trace `{table}` (it keeps {kept}); `sweep.traces` of the"
                " scenario says which"
            )
        if self.out is None:
            return self._memory.traces(table)
        return traces(self.out, table, None if self._opened else self.scenario)

    def query(self, sql: str | None = None, *, timeout_s: float | None = None) -> pl.DataFrame:
        """The result of a SELECT over the study folder; the tables are those of `store.query`.

        The query is about the folder's current definition, even if this study has another one.

        Parameters
        ----------
        sql
            The query in DuckDB's dialect; all rows if not given.
        timeout_s
            Seconds after which the query raises an AnabranchError; no limit if not given.
        """
        from anabranch.store.query import Tables  # noqa: PLC0415 - slow to import

        if self.out is None:
            raise AnabranchError("a query needs a study folder: give the study an `out`")
        with Tables(self.out, timeout_s=timeout_s) as tables:
            return tables.frame(sql)

    def cells(self, metric: str, level: float = 0.95) -> pl.DataFrame:
        """Mean of a scalar in each cell: cell, the axes, mean, half_width of its interval, n.

        Mean and half-width have the scalar's unit; `level` lies between 0 and 1.
        """
        return stats.cells(self._scalar(metric), ["cell", *self.axes], metric, level)

    def best_set(
        self,
        metric: str,
        *,
        per: Sequence[str] = (),
        maximise: bool | None = None,
        level: float = 0.95,
        matters: Matters | None = None,
    ) -> pl.DataFrame:
        """The cells from best to worst, and which may be the best: `comparison.best_set`.

        Parameters
        ----------
        metric
            The scalar, `call.mos`.
        per
            Axes: the cells of each combination of their values are ranked by themselves.
        maximise
            Whether more of the scalar is better; known for the usual ones.
        level
            Confidence level, between 0 and 1.
        matters
            The smallest difference that matters; `verdicts.usual` of the scalar if not given.

        Raises
        ------
        AnabranchError
            If no run is finished, or there is no such scalar, axis or value.

        Examples
        --------
        >>> study = anabranch.Study("scenarios/rto-sweep.toml", replications=3)
        >>> study.run()
        >>> study.best_set("call.mos", per=["pmr"]).columns  # for each value of pmr by itself
        ['cell', 'rto_max', 'pmr', 'mean', 'half_width', 'n',
         'rank', 'best', 'behind', 'behind_half_width', 'resolved_by', 'verdict']
        """
        by = ["cell", *self.axes]
        rows = self._scalar(metric)
        return comparison.best_set(
            rows, by, metric, per=per, maximise=maximise, level=level, matters=matters
        )

    def compare(
        self,
        a: Selection,
        b: Selection,
        metric: str,
        *,
        maximise: bool | None = None,
        level: float = 0.95,
        matters: Matters | None = None,
    ) -> Comparison:
        """A scalar in two selections of cells, a minus b: `comparison.compare`.

        Parameters
        ----------
        a, b
            The values on some axes that the cells of a selection have, as in results or as in the
            scenario, 0.1 or "100 ms".
        metric
            The scalar, `call.mos`.
        maximise
            Whether more of the scalar is better; known for the usual ones.
        level
            Confidence level, between 0 and 1.
        matters
            The smallest difference that matters; `verdicts.usual` of the scalar if not given.

        Raises
        ------
        AnabranchError
            If no run is finished, or there is no such scalar, axis or value.

        Examples
        --------
        >>> study = anabranch.Study("scenarios/rto-sweep.toml", replications=3)
        >>> study.run()
        >>> study.compare({"rto_max": 0.1}, {"rto_max": 1}, "call.mos").names
        ('rto_max = 0.1 s', 'rto_max = 1 s')
        """
        rows = self._scalar(metric)
        axes = self.scenario.axes
        return comparison.compare(
            rows, a, b, metric, maximise=maximise, level=level, matters=matters, axes=axes
        )

    def _scalar(self, metric: str) -> pl.DataFrame:
        """The rows with only this scalar."""
        rows = self.frame(columns=[metric])
        if metric not in rows.columns:
            raise declared.no_scalar(metric, self.frame().columns)
        return rows

    def _most(self) -> NDArray[np.int64]:
        """The most runs of each cell; no folder has more than `MOST_RUNS`."""
        counts = [min(most, MOST_RUNS) for most in self._most_of_parts()]
        return np.repeat(counts, [part["cell_count"] for part in self.scenario.parts])

    def _most_of_parts(self) -> list[int]:
        """The most runs of each cell of a part."""
        if self._asked is not None:
            return [self._asked for _ in self.scenario.parts]
        return [
            part["replications"] if part["until"] is None else stopping.looks(part["until"])[-1]
            for part in self.scenario.parts
        ]

    def _check_total(self) -> None:
        # Too many cells would not even fit in a list.
        if (total := self.total) > MOST_RUNS:
            raise AnabranchError(f"the study has {total:,} runs; at most {MOST_RUNS:,} are allowed")

    @contextmanager
    def _store(self, *, shared: bool, engine: str) -> Iterator[Store]:
        if self.out is None:
            yield self._memory
        else:
            with FolderStore(
                self.out, self.scenario, shared=shared, asked=self._asked, engine=engine
            ) as store:
                yield store


def _is_folder(scenario: Scenario | str | Path) -> bool:
    if isinstance(scenario, Scenario) or (isinstance(scenario, str) and "\n" in scenario):
        return False
    return Path(scenario).is_dir()
