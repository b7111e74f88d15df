"""Advice: which settings to use over one's own paths, how much they gain, and how to set them.

Every setting is simulated over the given paths; nothing is a rule of thumb. The advice says so
where a setting makes no difference.
"""

import math
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anabranch import stats
from anabranch.errors import AnabranchError
from anabranch.stats import comparison, verdicts
from anabranch.studies.execution import Progress
from anabranch.studies.result import Value, load

from . import bounds, linux, search, timeouts, video
from .goals import GOALS, Goal
from .paths import IDLE_PINGS, Paths, examples, read
from .search import FULL, METHODS, QUICK, Effort, Rounds, Trials
from .settings import (
    DEFAULT,
    TRANSPORTS,
    Candidate,
    Setting,
    is_linux,
    mask,
    possible,
    settings_of,
)

__all__ = ["FULL", "GOALS", "QUICK", "Advice", "Effect", "Ranked", "advise", "examples"]

_SHOWN = 8
"""How many candidates the ranking shows, besides the baselines."""
_LESS = 0.1
"""What a way to use the paths has to save, as a share of the bytes, to be taken for that."""
_ATTEMPTS = 4
"""How often the recommendation may move on, at most, once everything around it has been measured.
"""


@dataclass(frozen=True)
class Ranked:
    """A candidate and how it did, in the goal's unit."""

    candidate: Candidate
    mean: float
    """The mean over the runs; NaN where some runs fail."""
    half_width: float
    """Half the width of the 95 % interval of `mean`."""
    effect: float
    """The mean difference from the profile's defaults, on common random numbers."""
    effect_half_width: float
    among_best: bool
    """Whether it cannot be told from the best; the comparison is simultaneous over all that are
    ranked.
    """


@dataclass(frozen=True)
class Cost:
    """What a candidate sends, and what that brings besides the goal."""

    candidate: Candidate
    measured: tuple[tuple[float, float], ...]
    """Means with half the width of their 95 % intervals, one for each of `Advice.beside`."""


@dataclass(frozen=True)
class Effect:
    """What changing one setting of the recommendation does."""

    setting: Setting
    recommended: str
    changes: dict[str, tuple[float, float]]
    """Value -> mean difference from the recommendation, and half the width of its interval
    (simultaneous 95 % intervals).
    """
    unmasked: tuple[str, str, float, float] | None
    """Set where another setting hides the effect of this one: that setting's name, then, with that
    setting off, the best value of this one, its mean difference from the recommended value and half
    the width of the 95 % interval.
    """
    verdict: str
    """`matters`, `none` (all intervals lie within the smallest difference that matters) or
    `undecided` (no difference is significant, but the intervals allow one that matters).
    """


@dataclass(frozen=True)
class Advice:
    """What to set, and why."""

    goal: Goal
    transport: str
    paths: Paths
    profile: str
    relevant: float
    """The smallest difference that matters, in the goal's unit."""
    replications: int
    tried: int
    """How many candidates were tried."""
    runs: int
    searched: list[Setting]
    """The settings that may be recommended; for a Linux profile, those that Linux has."""
    reference: Candidate
    """The defaults of the chosen profile: what the reader has now."""
    recommended: Candidate
    ranked: list[Ranked]
    """The recommendation, the best others and the baselines; the best comes first."""
    effects: list[Effect]
    gain: tuple[float, float]
    """The recommendation minus the reference: mean difference and half the width of the 95 %
    interval.
    """
    keep_defaults: bool
    """Whether the profile's defaults are as good as anything that was tried."""
    paste: linux.Paste
    rto_costs: list[timeouts.Count]
    """What the recommended and the default RTO.Min cost; empty where the default is recommended."""
    at_bounds: list[bounds.Held]
    """How the recommendation does at each bound that the measurements of the paths leave open."""
    beside: list[video.Beside]
    """What is known besides the goal, such as the bytes that are sent; nothing for most goals."""
    costs: list[Cost]
    """That of the reference, the recommendation, and its other ways to use the paths."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Sentences about what the measurements leave open, and what would settle it."""
        said = {"mos": "the MOS is", "video": "the points are"}.get(self.goal.name, "")
        assumed = (
            f"not enough known of the delay of {path}: none is assumed, so that {said} the "
            f"most that it may be; measure it ({IDLE_PINGS}), or write it"
            for path in self.paths.without_delay()
        )
        tried = (one.sentence(self.goal.unit) for one in self.at_bounds if not one.holds)
        return (*assumed, *tried)

    def as_json(self) -> dict[str, Any]:
        """Everything, as a tree for JSON."""
        return {
            "goal": self.goal.name,
            "metric": self.goal.metric(self.transport),
            "unit": self.goal.unit,
            "transport": self.transport,
            "profile": self.profile,
            "relevant": self.relevant,
            "replications": self.replications,
            "candidates": self.tried,
            "runs": self.runs,
            "keep_defaults": self.keep_defaults,
            "not_enough_known": list(self.unknown),
            "at_bounds": [one.as_json() for one in self.at_bounds],
            "recommended": dict(self.recommended.values),
            "reference": self.reference.name,
            "gain": {"mean": self.gain[0], "half_width": self.gain[1]},
            "ranked": [
                {
                    "name": row.candidate.name,
                    "profile": row.candidate.profile,
                    "settings": dict(row.candidate.values),
                    "mean": row.mean,
                    "half_width": row.half_width,
                    "effect": row.effect,
                    "effect_half_width": row.effect_half_width,
                    "among_best": row.among_best,
                }
                for row in self.ranked
            ],
            "settings": [
                {
                    "name": effect.setting.name,
                    "recommended": effect.recommended,
                    "verdict": effect.verdict,
                    "unmasked": None if effect.unmasked is None else list(effect.unmasked),
                    "changes": {
                        value: {"mean": mean, "half_width": half_width}
                        for value, (mean, half_width) in effect.changes.items()
                    },
                }
                for effect in self.effects
            ],
            "costs": [
                {"settings": dict(cost.candidate.values), "profile": cost.candidate.profile}
                | {
                    one.name: {"mean": mean, "half_width": half_width}
                    for one, (mean, half_width) in zip(self.beside, cost.measured, strict=True)
                }
                for cost in self.costs
            ],
            "rto_costs": [asdict(count) for count in self.rto_costs],
            "paste": asdict(self.paste),
        }


def _silent(_: str) -> AbstractContextManager[Progress]:
    return nullcontext(lambda _: None)


def advise(
    sources: str | Path | Sequence[str | Path],
    goal: str,
    *,
    transport: str | None = None,
    profile: str | None = None,
    beside_bulk: bool = False,
    set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
    effort: Effort = QUICK,
    method: str = "grid",
    out: str | Path | None = None,
    jobs: int | None = None,
    rounds: Rounds = _silent,
) -> Advice:
    """Searches for the settings that serve a goal best over these paths.

    Parameters
    ----------
    sources
        A path file, a scenario whose paths are taken, or the name of an example; or several, for
        paths between the same two hosts.
    goal
        `mos`, `video`, `goodput`, `failover` or `latency`.
    transport
        `sctp`, `mptcp`, `tcp`, `udp`, `quic` or `rtp`; the goal's first one that the paths allow if
        not given.
    profile
        Whose implementation is set, as the scenario file has it; Linux's if not given, for `quic`
        `rfc9000`.
    beside_bulk
        Whether a bulk transfer of TCP fills the first path in the call's direction (`mos`,
        `video`).
    set
        Values to change, by dotted path.
    effort
        How much is tried.
    method
        `grid`, or `optuna` with that extra.
    out
        A folder for all runs: what is in it is not computed again.
    jobs
        Threads; all cores if not given. Never changes the advice.
    rounds
        Gives, for the title of a round, what hears of its progress.

    Raises
    ------
    AnabranchError
        The goal or the method is none, or the goal cannot be had of such paths.
    ScenarioError
        The paths or the values that are set are wrong.

    Examples
    --------
    Is there something better than Linux's defaults for a call over these two paths?

    >>> from anabranch.advise import advise
    >>> found = advise("wifi-and-lte", "mos")
    >>> found.goal.name, found.transport, found.keep_defaults
    ('mos', 'sctp', True)
    >>> found.recommended.values
    ()
    >>> found.ranked[0].mean > 4 > found.ranked[0].half_width  # a mean opinion score
    True
    """
    if goal not in GOALS:
        raise AnabranchError(f"goal is {goal}; it must be {' or '.join(GOALS)}")
    if method not in METHODS:
        raise AnabranchError(f"method is {method}; it must be {' or '.join(METHODS)}")
    sets = dict(set or {})
    of_paths = {name: v for name, v in sets.items() if name.startswith(("links.", "paths."))}
    paths = read([sources] if isinstance(sources, str | Path) else sources, of_paths)
    chosen = GOALS[goal].beside_bulk() if beside_bulk else GOALS[goal]
    transport = chosen.transport(transport, paths)
    profiles = TRANSPORTS[transport]
    profile = profile or profiles["linux"]
    settings = {s.name: s for s in settings_of(transport, goal, paths, profile)}
    baselines = [Candidate(profile), Candidate(profiles["rfc"]), Candidate(profiles["linux"])]
    baselines = list(dict.fromkeys(baselines))
    flows = list(chosen.flows(paths, transport))
    scenario = chosen.scenario(paths, transport)
    of_flows = {name: value for name, value in sets.items() if name not in of_paths}
    beside: list[video.Beside] = []
    made_of = None
    if transport == "rtp":
        app = tomllib.loads(load(scenario, of_flows).to_toml())["flows"][video.FLOW]["app"]
        made_of = chosen.made_of and chosen.made_of(app)
        beside = video.beside(paths, app) if made_of is not None else video.sent(paths, "a")
    with tempfile.TemporaryDirectory() as temporary:
        trials = Trials(
            scenario=scenario,
            flows=flows,
            goal=chosen,
            metric=chosen.metric(transport),
            made_of=made_of,
            within=chosen.within(transport),
            settings=settings,
            searched=[n for n, s in settings.items() if s.in_linux or not is_linux(profile)],
            folder=Path(temporary if out is None else out),
            sets=of_flows,
            jobs=jobs,
            rounds=rounds,
            counted=[*timeouts.counted(transport, flows), *video.scalars(beside)],
            sparse=video.of_paths(beside),
        )
        search = METHODS[method](trials, baselines, effort)
        return _concluded(
            trials, baselines, search, effort, paths=paths, transport=transport, beside=beside
        )


def _concluded(
    trials: Trials,
    baselines: list[Candidate],
    winner: Candidate,
    effort: Effort,
    *,
    paths: Paths,
    transport: str,
    beside: list[video.Beside],
) -> Advice:
    """Measures what the advice rests on, and draws the conclusions."""
    goal = trials.goal
    default = baselines[0]
    linux_default = Candidate(TRANSPORTS[transport]["linux"])
    own = [one for one in trials.values if one.profile == default.profile]
    finalists = list(dict.fromkeys([*baselines, winner, *trials.best(own)[:_SHOWN]]))
    trials.measure("comparing the best", finalists, effort.last)
    best = trials.best(one for one in finalists if one.profile == default.profile)[0]
    if math.isinf(trials.score(best)):
        raise AnabranchError(
            f"over these paths, whatever is set, some runs fail: they have no `{trials.metric}`"
        )
    relevant = goal.relevant
    if goal.relative:
        score = trials.score(linux_default)
        relevant *= abs(trials.score(best) if math.isinf(score) else score)
    for _ in range(_ATTEMPTS):
        recommended = _simplest(trials, best, effort.last, relevant)
        if beside:
            recommended = _thriftiest(trials, recommended, effort.last, relevant, beside)
        around = search.neighbours(trials, recommended, trials.settings)
        trials.measure("each setting by itself", around, effort.last)
        searched = search.neighbours(trials, recommended, trials.searched)
        best = trials.best([recommended, *searched])[0]
        loss, half_width = trials.loss(recommended, best)
        if loss - half_width <= 0 or loss <= relevant:
            break  # otherwise the search has missed something: once more, from there
    finalists = list(dict.fromkeys([*finalists, recommended, *searched]))
    ranked = _ranked(trials, finalists, recommended, baselines)
    effects = _effects(trials, recommended, around, relevant)
    counts = _timeouts(trials, recommended, transport, effort.last, several=len(paths.names) > 1)
    costs = [timeouts.sentence(*counts)] if counts else []
    at_bounds = bounds.check(
        trials,
        paths,
        transport,
        recommended,
        [row.candidate for row in ranked] + searched,
        replications=effort.last,
        relevant=relevant,
    )
    return Advice(
        goal=goal,
        transport=transport,
        paths=paths,
        profile=default.profile,
        relevant=relevant,
        replications=effort.last,
        tried=len(trials.values),
        runs=sum(len(values) for values in trials.values.values()),
        searched=[trials.settings[name] for name in trials.searched],
        reference=default,
        recommended=recommended,
        ranked=ranked,
        effects=effects,
        gain=trials.difference(recommended, default),
        keep_defaults=recommended == default,
        paste=linux.paste(transport, recommended, paths, costs),
        rto_costs=counts,
        at_bounds=at_bounds,
        beside=beside,
        costs=_costs(trials, recommended, default, beside),
    )


def _simplest(trials: Trials, best: Candidate, replications: int, relevant: float) -> Candidate:
    """The best candidate without the settings that do not make it better.

    One setting at a time goes back to its default, the one that costs least first, as long as what
    is left is not worse than the best: its interval has 0 in it, or all of it is below what
    matters.
    """
    current = best
    while current.values:
        simpler = [current.having(name, DEFAULT) for name, _ in current.values]
        simpler = [one for one in simpler if possible(one)]
        trials.measure("leaving settings out", simpler, replications)
        kept = []
        for one in simpler:
            loss, half_width = trials.loss(one, best)
            if loss - half_width <= 0 or loss + half_width <= relevant:
                kept.append(one)
        if not kept:
            break
        current = trials.best(kept)[0]
    return current


def _thriftiest(
    trials: Trials,
    candidate: Candidate,
    replications: int,
    relevant: float,
    beside: list[video.Beside],
) -> Candidate:
    """The candidate with the way to use the paths that sends least, if nothing is lost by it.

    What sends a tenth less, and is worse by no more than what does not matter, is recommended: a
    copy of everything has to bring something.
    """
    ways = search.neighbours(trials, candidate, {"paths"} & trials.settings.keys())
    trials.measure("ways to use the paths", ways, replications)

    def sent(one: Candidate) -> float:
        (octets,) = video.values(beside[:1], trials.counts[one], one, trials.settings)
        return math.fsum(octets) / len(octets)

    as_good = []
    for one in ways:
        loss, half_width = trials.loss(one, candidate)
        if loss + half_width <= relevant and sent(one) < (1 - _LESS) * sent(candidate):
            as_good.append(one)
    return min(as_good, key=sent, default=candidate)


def _costs(
    trials: Trials, recommended: Candidate, reference: Candidate, beside: list[video.Beside]
) -> list[Cost]:
    if not beside:
        return []
    ways = [recommended]
    if "paths" in trials.settings:
        values = trials.settings["paths"].values
        ways = [recommended.having("paths", value) for value in values]
    costs = []
    for one in dict.fromkeys([reference, *(way for way in ways if possible(way))]):
        runs = video.values(beside, trials.counts[one], one, trials.settings)
        costs.append(Cost(one, tuple(stats.mean_interval(values)[:2] for values in runs)))
    return costs


def _timeouts(
    trials: Trials, recommended: Candidate, transport: str, replications: int, *, several: bool
) -> list[timeouts.Count]:
    """What the recommended RTO.Min costs, beside the default one."""
    if recommended["rto_min"] == DEFAULT or not trials.counted:
        return []
    both = [recommended, timeouts.with_default_minimum(recommended)]
    trials.measure("the default RTO.Min", both, replications)
    return [
        timeouts.count(
            transport,
            timeouts.limits(one, trials.settings),
            trials.counts[one],
            trials.flows,
            several=several,
        )
        for one in both
    ]


def _ranked(
    trials: Trials,
    finalists: list[Candidate],
    recommended: Candidate,
    baselines: list[Candidate],
) -> list[Ranked]:
    order = trials.best(finalists)
    # What makes some runs fail is not the best, however good the others are.
    rivals = [one for one in order if math.isfinite(trials.score(one))]
    judged = comparison.best_set(
        trials.frame(rivals), ["candidate"], "value", maximise=trials.goal.higher_is_better
    )
    among_best = {order[i] for i in judged.filter("best")["candidate"]}
    always = {recommended, *baselines}
    # Settings that change nothing at all, not even a single run, would fill the list.
    different = dict[tuple[float, ...], Candidate]()
    for one in sorted(order, key=lambda one: (one not in always, len(one.values))):
        different.setdefault(tuple(trials.values[one]), one)
    shown = [one for one in order if one in different.values()][:_SHOWN]
    rows = []
    for candidate in (one for one in order if one in shown or one in always):
        values = trials.values[candidate]
        fails = any(map(math.isnan, values))
        mean, half_width, _ = stats.mean_interval([math.nan] if fails else values)
        effect, effect_half_width = trials.difference(candidate, baselines[0])
        rows.append(
            Ranked(candidate, mean, half_width, effect, effect_half_width, candidate in among_best)
        )
    return rows


def _effects(
    trials: Trials, recommended: Candidate, around: list[Candidate], relevant: float
) -> list[Effect]:
    level = 1 - 0.05 / max(len(around), 1)
    effects = []
    for setting in trials.settings.values():
        changes = {
            one[setting.name]: trials.difference(one, recommended, level)
            for one in around
            if one[setting.name] != recommended[setting.name]
        }
        if changes:
            chosen = recommended[setting.name]
            unmasked = _unmasked(trials, setting, recommended)
            effects.append(Effect(setting, chosen, changes, unmasked, _verdict(changes, relevant)))
    return effects


def _unmasked(
    trials: Trials, setting: Setting, recommended: Candidate
) -> tuple[str, str, float, float] | None:
    masking = mask(setting.name, recommended, trials.settings)
    if masking is None:
        return None
    without = recommended.having(masking.name, "off")
    others = [without.having(setting.name, value) for value in setting.values]
    trials.measure(
        f"{setting.name} without {masking.name}", others, len(trials.values[recommended])
    )
    best = trials.best(others)[0]
    unmasked = without.having(setting.name, recommended[setting.name])
    if best == unmasked:
        return None
    return masking.name, best[setting.name], *trials.difference(best, unmasked)


def _verdict(changes: Mapping[str, tuple[float, float]], relevant: float) -> str:
    if any(math.isnan(mean) for mean, _ in changes.values()):  # some runs fail
        return "matters"
    found = {verdicts.of_difference(*change, relevant) for change in changes.values()}
    if "resolved" in found:
        return "matters"
    return "undecided" if "open" in found else "none"
