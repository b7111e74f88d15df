"""Which settings to try, and how often: all on common random numbers, through studies.

The grid is screened by a Latin hypercube over all settings, of which each round keeps the better
quarter and gives it more replications (successive halving: Jamieson and Talwalkar, "Non-stochastic
Best Arm Identification", AISTATS 2016). From the best one the search goes on, one setting at a
time, as long as that helps. Optuna's TPE can replace both steps.

Nothing depends on how long something takes: the same paths, goal and seed give the same advice.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from anabranch import stats
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.studies.execution import Progress
from anabranch.studies.result import Value, load
from anabranch.studies.study import Study

from .goals import Goal
from .paths import toml
from .settings import DEFAULT, Candidate, Setting, possible

Rounds = Callable[[str], AbstractContextManager[Progress]]
"""Gives, for the title of a round, a context that shows its progress."""


@dataclass(frozen=True)
class Effort:
    """How much is tried."""

    screened: int
    """Candidates in the first round."""
    first: int
    """Replications in the first round; each following round doubles them."""
    last: int
    """Replications of the candidates that the advice rests on."""


_DRAWS = 4
"""Latin hypercubes drawn at most: some candidates combine settings that exclude each other, and
some are drawn twice.
"""

QUICK = Effort(screened=64, first=4, last=50)
FULL = Effort(screened=256, first=8, last=250)


@dataclass
class Trials:
    """Runs candidates and keeps what has been measured so far."""

    scenario: str
    """The scenario without settings, as TOML text."""
    flows: Sequence[str]
    goal: Goal
    metric: str
    within: Mapping[str, tuple[float, float]]
    """Scalars, each with its range; a run with a value outside of it has failed."""
    settings: Mapping[str, Setting]
    searched: Sequence[str]
    """The settings that may be recommended."""
    folder: Path
    sets: Mapping[str, Value]
    jobs: int | None
    rounds: Rounds
    made_of: pl.Expr | None = None
    """What the metric is made of, if it is no scalar itself."""
    values: dict[Candidate, list[float]] = field(default_factory=dict)
    """The value of each replication, in the goal's unit; NaN where a run has failed."""
    counted: Sequence[str] = ()
    """Further scalars to keep for each run."""
    sparse: Sequence[str] = ()
    """Those of them that only some candidates have; the others have NaN."""
    counts: dict[Candidate, pl.DataFrame] = field(default_factory=dict)
    """The scalars of `counted`: a column for each, and a row for each replication."""

    def measure(self, title: str, candidates: Iterable[Candidate], replications: int) -> None:
        """Brings each candidate to at least this many replications; the results are in `values`."""
        wanted = [
            candidate
            for candidate in dict.fromkeys(candidates)
            if len(self.values.get(candidate, ())) < replications
        ]
        if not wanted:
            return
        # A candidate that has been measured is added so that every definition has runs in the
        # folder.
        cases = dict.fromkeys([*list(self.values)[:1], *wanted])
        scenario = load(self._definition(list(cases), replications), self.sets)
        study = Study(scenario, self.folder, jobs=self.jobs)
        lacking = self._lacking(scenario)
        metrics = [name for name in self._metrics() if name not in lacking]
        with self.rounds(title) as progress:
            study.run(progress, metrics=metrics)
        rows = study.frame(columns=metrics)
        rows = rows.with_columns(pl.lit(math.nan).alias(name) for name in lacking)
        if self.made_of is not None:
            rows = rows.with_columns(self.made_of.alias(self.metric))
        for scalar, (least, most) in self.within.items():
            fine = pl.col(scalar).is_between(least, most)
            rows = rows.with_columns(
                pl.when(fine).then(self.metric).otherwise(float("nan")).alias(self.metric)
            )
        values = dict(rows.group_by("candidate").agg(pl.col(self.metric)).iter_rows())
        counts = rows.partition_by("candidate", as_dict=True, include_key=False)
        for candidate in wanted:
            self.values[candidate] = [v * self.goal.scale for v in values[candidate.name]]
            self.counts[candidate] = counts[candidate.name,].select(self.counted)

    def score(self, candidate: Candidate) -> float:
        """The mean with the sign that makes more better.

        A failed run makes a candidate the worst of all.
        """
        values = self.values[candidate]
        if any(math.isnan(value) for value in values):
            return -math.inf
        mean = math.fsum(values) / len(values)
        return mean if self.goal.higher_is_better else -mean

    def best(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """The candidates with the best first; equal ones keep their order."""
        return sorted(dict.fromkeys(candidates), key=lambda one: -self.score(one))

    def difference(
        self, one: Candidate, other: Candidate, level: float = 0.95
    ) -> tuple[float, float]:
        """Mean of `one` - `other` on common random numbers, and half the width of its interval.

        Both are NaN where a run of either has failed.
        """
        n = min(len(self.values[one]), len(self.values[other]))
        differences = [
            a - b for a, b in zip(self.values[one][:n], self.values[other][:n], strict=True)
        ]
        if any(map(math.isnan, differences)):
            return math.nan, math.nan
        mean, half_width, _ = stats.mean_interval(differences, level)
        # A width this small comes from rounding: the differences are all equal.
        return (mean, half_width) if half_width > 1e-9 * abs(mean) else (mean, 0.0)

    def loss(self, one: Candidate, other: Candidate) -> tuple[float, float]:
        """How much worse `one` is than `other`, and half the width of the 95 % interval."""
        mean, half_width = self.difference(other, one)
        return (mean if self.goal.higher_is_better else -mean), half_width

    def frame(self, candidates: Sequence[Candidate]) -> pl.DataFrame:
        """The values of candidates as rows: candidate (its position), replication, value."""
        return pl.concat(
            pl.DataFrame({"value": self.values[one]}).select(
                pl.lit(i).alias("candidate"), pl.int_range(pl.len()).alias("replication"), "value"
            )
            for i, one in enumerate(candidates)
        )

    def _definition(self, candidates: Sequence[Candidate], replications: int) -> str:
        cases = {candidate.name: self._sets(candidate) for candidate in candidates}
        sweep = {
            "replications": replications,
            "axes": {"candidate": {"cases": cases}},
        }
        # A folder's rows all have the same scalars: all that there are, if some are sparse.
        chosen = {} if self.sparse else {"metrics": self._metrics()}
        return self.scenario + toml({"sweep": sweep | chosen})

    def _lacking(self, scenario: Scenario) -> list[str]:
        """The sparse scalars that no candidate of a definition has."""
        if not self.sparse:
            return []
        every = {name for cell in range(scenario.cell_count) for name in scenario.scalars(cell)}
        return [name for name in self.sparse if name not in every]

    def _metrics(self) -> list[str]:
        measured = [self.metric] if self.made_of is None else sorted(self.made_of.meta.root_names())
        return list(dict.fromkeys([*measured, *self.within, *self.counted]))

    def _sets(self, candidate: Candidate) -> dict[str, object]:
        chosen: dict[str, object] = dict(candidate.base)
        for name, value in candidate.values:
            chosen |= self.settings[name].values[value]
        sets: dict[str, object] = {}
        for path, to in chosen.items():
            if path == "dscp" or path.startswith(("transport.", "app.")):
                sets |= {f"flows.{flow}.{path}": to for flow in self.flows}
            else:
                sets[path] = to
        return sets


def grid(trials: Trials, start: Sequence[Candidate], effort: Effort) -> Candidate:
    """Screens and refines; gives the best that was found.

    Parameters
    ----------
    trials
        Where candidates are run.
    start
        Candidates that are tried in any case; the profile of the first is that of all others.
    effort
        How much is tried.
    """
    profile = start[0].profile
    field_ = list(dict.fromkeys([*start, *_screen(trials, profile, effort.screened)]))
    replications = effort.first
    title = f"screening {len(field_)} settings"
    while True:
        trials.measure(title, field_, replications)
        field_ = trials.best(field_)[: max(len(field_) // 4, 3)]
        if len(field_) <= 4:
            break
        title, replications = f"the best {len(field_)}", 2 * replications
    return _climb(trials, field_[0], min(4 * effort.first, effort.last))


def optuna(trials: Trials, start: Sequence[Candidate], effort: Effort) -> Candidate:
    """Searches with Optuna's tree-structured Parzen estimator, seeded, eight at a time."""
    try:
        import optuna as library  # noqa: PLC0415 - an extra
    except ImportError:
        raise AnabranchError(
            "the method optuna needs Optuna: pip install 'anabranch[optuna]'"
        ) from None
    library.logging.set_verbosity(library.logging.WARNING)
    profile = start[0].profile
    space: dict[str, library.distributions.BaseDistribution] = {
        name: library.distributions.CategoricalDistribution(tuple(trials.settings[name].values))
        for name in trials.searched
    }
    sampler = library.samplers.TPESampler(seed=1, n_startup_trials=16)
    search = library.create_study(direction="maximize", sampler=sampler)
    search.enqueue_trial(dict.fromkeys(space, DEFAULT))
    for done in range(0, effort.screened, 8):
        asked = []
        for _ in range(8):
            trial = search.ask(space)
            asked.append((trial, Candidate.of(profile, trial.params)))
        tried = [candidate for _, candidate in asked if possible(candidate)]
        trials.measure(f"{done + 8} of {effort.screened} settings", tried, 2 * effort.first)
        for trial, candidate in asked:
            score = trials.score(candidate) if candidate in tried else -math.inf
            if math.isfinite(score):
                search.tell(trial, score)
            else:
                search.tell(trial, state=library.trial.TrialState.FAIL)
    same = [one for one in trials.values if one.profile == profile]
    return _climb(trials, trials.best(same)[0], min(4 * effort.first, effort.last))


METHODS = {"grid": grid, "optuna": optuna}


def neighbours(trials: Trials, candidate: Candidate, names: Iterable[str]) -> list[Candidate]:
    """Every candidate that differs in one of these settings."""
    tried = [
        candidate.having(name, value)
        for name in names
        for value in trials.settings[name].values
        if value != candidate[name]
    ]
    return [one for one in tried if possible(one)]


def _climb(trials: Trials, candidate: Candidate, replications: int) -> Candidate:
    """Changes one setting at a time as long as that helps; gives the last candidate."""
    for step in range(1, len(trials.searched) + 1):
        around = [candidate, *neighbours(trials, candidate, trials.searched)]
        trials.measure(f"refining, step {step}", around, replications)
        best = trials.best(around)[0]
        if best == candidate:
            break
        candidate = best
    return candidate


def _screen(trials: Trials, profile: str, count: int) -> list[Candidate]:
    """Draws `count` candidates in which the values of each setting are about equally frequent."""
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    names = trials.searched
    every = math.prod(len(trials.settings[name].values) for name in names)
    sampler = qmc.LatinHypercube(len(names), rng=1)
    screened: dict[Candidate, None] = {}
    for _ in range(_DRAWS):
        if len(screened) >= count:
            break
        for point in sampler.random(min(count, every)):
            values = {}
            for name, where in zip(names, point, strict=True):
                labels = list(trials.settings[name].values)
                values[name] = labels[int(where * len(labels))]
            candidate = Candidate.of(profile, values)
            if possible(candidate):
                screened[candidate] = None
    return list(screened)[:count]
