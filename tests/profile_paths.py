"""Profiles of simulated paths whose truth is known, and advice from them compared with the truth's.

python tests/profile_paths.py FILE

Writes the record docs/validation/profile.md: the goals over two paths, twenty random pairs of
paths, and how often the intervals of captures' losses cover the truth. Exit status 1 where any of
it is worse than promised. About ten minutes on two cores; the same numbers each time.
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy import stats

import captures
from anabranch import advise
from anabranch.advise import numbers, search
from anabranch.advise.goals import GOALS, Goal
from anabranch.advise.paths import read
from anabranch.advise.settings import TRANSPORTS, Candidate, settings_of
from anabranch.errors import AnabranchError
from anabranch.profile import Estimate, Profile, estimate, measure, output
from anabranch.profile.timed import TimedFit
from anabranch.stats import mean_interval

ENDS = ("phone", "server")
EFFORT = search.Effort(screened=12, first=2, last=8)
JUDGED = 32
"""Replications, other ones than the advice has seen."""

CASES = 20
PROMISED = 18
"""In this many cases the advice from profiles is as good as from the truth, or is called unsure."""

CAPTURED_S = 40
PINGS = 15_000
"""Every 20 ms: five minutes."""

COVERED = 40
"""Captures whose intervals are looked at."""

IN_TURN = ("mos", "goodput", "failover", "latency")
"""The goals of random pairs of paths, in the order of the record."""
BY_PINGS = ("mos", "failover")
"""Goals that do not hang on the rate, which pings do not tell."""


@dataclass(frozen=True)
class TruePath:
    """A path as it is; its losses are those of the way from phone to server."""

    name: str
    link: str
    mean_loss: float
    mean_bad_s: float
    words: str

    @property
    def toml(self) -> str:
        """A path file of the truth."""
        return (
            f'[links.{self.name}]\nends = ["{ENDS[0]}", "{ENDS[1]}"]\n{self.link}\n'
            f'[paths.{self.name}]\nvia = ["{self.name}"]\n'
        )


@dataclass(frozen=True)
class Loss:
    """A Gilbert chain in slots."""

    mean: float
    in_bad: float
    bad_ms: float
    slot_ms: float = 5


def true_path(name: str, rate: float, delay: float, queue: str, loss: Loss) -> TruePath:
    """A link with this rate in Mbit/s and delay in ms; `queue` has its further keys."""
    lines = [
        f'rate = "{rate:.3f} Mbit/s"',
        f'delay = "{delay:.2f} ms"',
        queue,
        f'loss = {{ kind = "gilbert", clock = "slot", slot = "{loss.slot_ms} ms", '
        f"mean_loss = {loss.mean:.5f}, "
        f'loss_in_bad = {loss.in_bad:.3f}, mean_bad = "{loss.bad_ms:.2f} ms" }}',
        'reverse = { loss = { kind = "none" } }',
    ]
    words = f"{rate:.1f} Mbit/s, {delay:.0f} ms, {100 * loss.mean:.2g} %, {loss.bad_ms:.0f} ms"
    return TruePath(name, "\n".join(lines), loss.mean, loss.bad_ms / 1e3, words)


def _drop_tail(packets: int) -> str:
    return f'queue = {{ kind = "drop_tail", packets = {packets} }}'


OWN = (
    true_path(
        "wifi",
        20,
        8,
        f'jitter = "3 ms"\n{_drop_tail(120)}',
        Loss(mean=0.0164, in_bad=0.8, bad_ms=16),
    ),
    true_path(
        "lte", 6, 30, f'jitter = "8 ms"\n{_drop_tail(200)}', Loss(mean=0.002, in_bad=0.8, bad_ms=16)
    ),
)


def random_path(rng: np.random.Generator, name: str, slot_ms: float = 5) -> TruePath:
    """2 to 20 Mbit/s, 5 to 50 ms, 0.2 to 3 % of losses in bad states of 10 to 100 ms."""
    rate = float(np.exp(rng.uniform(np.log(2), np.log(20))))
    delay = float(rng.uniform(5, 50))
    # Half to one and a half of what flies in a round trip, at least 20 packets.
    queue = max(round(rng.uniform(0.5, 1.5) * rate * 1e3 * 2 * delay / 12_000), 20)
    mean = float(np.exp(rng.uniform(np.log(0.002), np.log(0.03))))
    bad = float(np.exp(rng.uniform(np.log(10), np.log(100))))
    loss = Loss(mean, float(rng.uniform(0.5, 0.95)), bad, slot_ms)
    return true_path(name, rate, delay, _drop_tail(queue), loss)


def captured(path: TruePath, seed: int, folder: Path, seconds: float = CAPTURED_S) -> Profile:
    """From a TCP transfer, captured at its sender."""
    seen = captures.simulate(path.link, '{ kind = "tcp" }', '{ kind = "bulk" }', seed, seconds)
    file = captures.write(folder / f"{path.name}.pcap", captures.transfer(seen, "a"))
    return estimate(measure([file]))


def pinged(path: TruePath, seed: int, folder: Path, count: int = PINGS) -> Profile:
    """From what ping prints with `-D`, every 20 ms."""
    times = captures.round_trips(path.link, seed, count)
    return estimate(measure([captures.ping_text(folder / f"{path.name}.txt", times)]))


Way = Callable[[TruePath, int, Path], Profile]
"""Measures a path, with a seed, in a folder."""

MEASURED: dict[str, Way] = {
    "captures": captured,
    "pings": pinged,
}


@dataclass(frozen=True)
class Judged:
    """Advice from profiles, on the true paths."""

    settings: str | None
    """None if there is no advice."""
    loss: float = 0.0
    """Against the advice from the truth, in the goal's unit; negative where it is better."""
    half_width: float = 0.0
    """The half-width of its 95 % interval."""
    limit: float = 0.0
    """A loss up to this is none."""
    unknown: tuple[str, ...] = ()
    """What was reported as not known well enough."""

    @property
    def is_good(self) -> bool:
        """Whether it is as good as the truth's."""
        return self.settings is not None and self.loss <= self.limit

    @property
    def is_fair(self) -> bool:
        """That, or it says that too little is known."""
        return self.is_good or bool(self.unknown)


@dataclass(frozen=True)
class Comparison:
    """Advice for a goal over two paths, from the truth and from the measurements."""

    goal: str
    paths: tuple[TruePath, ...]
    true: str
    """The settings that the truth leads to."""
    judged: dict[str, Judged]
    """By how the paths were measured."""


def limit(goal: Goal, value: float) -> float:
    """What a recommendation may lose: 0.1 MOS, 5 %, or at least what advice ignores."""
    if goal.name == "mos":
        return goal.relevant
    return max(0.05 * abs(value), 0.0 if goal.relative else goal.relevant)


def compare(
    goal: str,
    paths: tuple[TruePath, ...],
    seed: int,
    folder: Path,
    *,
    effort: search.Effort = EFFORT,
    ways: Mapping[str, Way] = MEASURED,
) -> Comparison:
    """Measures the paths, asks for advice, and runs the recommendation over the true paths."""
    true = [_written(folder, path.name, path.toml) for path in paths]
    best = advise.advise(true, goal, effort=effort, jobs=1)
    advised: dict[str, advise.Advice | str] = {}
    for way, found_by in ways.items():
        of_way = folder / way
        of_way.mkdir()
        files = []
        for i, path in enumerate(paths):
            found = found_by(path, 2 * seed + i, of_way)
            text = output.toml(found, path.name, ENDS)
            files.append(_written(of_way, path.name, text))
        try:
            advised[way] = advise.advise(files, goal, effort=effort, jobs=1)
        except AnabranchError as error:
            if not str(error).startswith("not enough known"):
                raise
            advised[way] = str(error)
    judged = _judged(best, true, advised)
    return Comparison(goal, paths, best.recommended.name, judged)


def _written(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def _judged(
    best: advise.Advice, true: list[Path], advised: dict[str, advise.Advice | str]
) -> dict[str, Judged]:
    """Every recommendation on the true paths, on common random numbers that are new to all."""
    paths, goal, transport = read(true), best.goal, best.transport
    profile = TRANSPORTS[transport]["linux"]
    settings = {s.name: s for s in settings_of(transport, goal.name, paths, profile)}
    with tempfile.TemporaryDirectory() as folder:
        trials = search.Trials(
            scenario=goal.scenario(paths, transport),
            flows=list(goal.flows(paths, transport)),
            goal=goal,
            metric=goal.metric(transport),
            within=goal.within(transport),
            settings=settings,
            searched=list(settings),
            folder=Path(folder),
            sets={"seed": 2},
            jobs=1,
            rounds=advise._silent,
        )
        others = [one.recommended for one in advised.values() if not isinstance(one, str)]
        trials.measure("", [Candidate(profile), best.recommended, *others], JUDGED)
        own = trials.values[best.recommended]
        allowed = limit(goal, float(np.nanmean(own)))
        found = {}
        for way, one in advised.items():
            if isinstance(one, str):
                found[way] = Judged(None, unknown=(one,))
                continue
            loss, half_width = _loss(goal, trials.values[one.recommended], own)
            found[way] = Judged(one.recommended.name, loss, half_width, allowed, one.unknown)
    return found


def _loss(goal: Goal, values: list[float], own: list[float]) -> tuple[float, float]:
    """How much worse the values are, and half the width of the 95 % interval; NaN is a failed run.

    Infinite where more runs fail than with the truth's advice, which has seen fewer of them: one in
    twenty is no difference.
    """
    both = np.array([values, own])
    if np.isnan(both[0]).sum() > np.isnan(both[1]).sum() + len(own) / 20:
        return math.inf, math.nan
    worse = (both[1] - both[0]) * (1 if goal.higher_is_better else -1)
    mean, half_width, _ = mean_interval(worse.tolist())
    return mean, half_width


def case(
    number: int, folder: Path, effort: search.Effort = EFFORT, ways: Iterable[str] | None = None
) -> Comparison:
    """Two random paths of this number, a goal in turn."""
    rng = np.random.default_rng(number)
    paths = (random_path(rng, "one"), random_path(rng, "two"))
    goal = IN_TURN[number % len(IN_TURN)]
    folder.mkdir(parents=True, exist_ok=True)
    if ways is None:
        ways = [way for way in MEASURED if way != "pings" or goal in BY_PINGS]
    measured = {way: MEASURED[way] for way in ways}
    return compare(goal, paths, number + 1, folder, effort=effort, ways=measured)


@dataclass(frozen=True)
class Covered:
    """The losses of a random path, as a capture shows them."""

    path: TruePath
    mean_loss: Estimate
    mean_bad: tuple[float, float, float] | None
    """Value and interval in s; None where the model has no bad state."""

    @property
    def has_mean(self) -> bool:
        """Whether the interval of the mean loss covers the truth."""
        low, high = self.mean_loss.interval
        return low <= self.path.mean_loss <= high

    @property
    def has_length(self) -> bool:
        """Whether that of the bad state's mean length does."""
        return (
            self.mean_bad is not None
            and self.mean_bad[1] <= self.path.mean_bad_s <= self.mean_bad[2]
        )


def coverage(trial: int, folder: Path) -> Covered:
    """A random path, a capture of it, and what the fit in time says.

    In short slots: a chain in long ones has no state that is shorter.
    """
    path = random_path(np.random.default_rng(1000 + trial), f"path-{trial}", slot_ms=1)
    found = captured(path, 1 + trial, folder)
    (folder / f"{path.name}.pcap").unlink()
    assert found.mean_loss is not None
    length = None
    if isinstance(found.loss, TimedFit) and found.loss.model != "bernoulli":
        length = (found.loss.values["mean_bad"], *found.loss.intervals["mean_bad"])
    return Covered(path, found.mean_loss, length)


def least(trials: int) -> int:
    """With this many 95 % intervals, fewer cover the truth only once in 200 times."""
    return int(stats.binom.ppf(0.005, trials, 0.95))


def report(
    own: list[Comparison], cases: list[Comparison], covered: list[Covered]
) -> tuple[str, bool]:
    """The record, and whether all is as promised."""
    judged = [one for each in own for one in each.judged.values()]
    of_cases, is_fair = _cases(cases)
    of_losses, covers = _coverage(covered)
    parts = [_HEAD, _own(own), of_cases, of_losses]
    return "\n\n".join(parts) + "\n", all(one.is_fair for one in judged) and is_fair and covers


_HEAD = f"""\
# Profiles, and the advice from them

Written by `make validate` (`python tests/profile_paths.py docs/validation/profile.md`). Paths whose
truth is known are simulated and measured as an engineer would: a TCP transfer of {CAPTURED_S} s,
captured at its sender, and pings every 20 ms for {PINGS // 3000} minutes. `anabranch profile` makes
paths of that, `anabranch advise` gives advice over them, and what it recommends runs over the true
paths beside what the truth would give: {JUDGED} replications on common random numbers, other ones
than the advice has seen. The advice is a small one: {EFFORT.screened} candidates in its first
round, {EFFORT.last} replications in its last.

A loss against the truth's advice is none up to 0.1 MOS, 5 % of the goodput or of the response time,
and for an interruption up to 5 % or the 20 ms that `advise` takes for no difference. "Not enough
known" is what the advice said itself, with what would have to be measured: that at an end of the
interval of a measured loss something else was better, or that a rate was missing."""


def _own(own: list[Comparison]) -> str:
    rows = [
        [GOALS[each.goal].what, f"`{each.true}`", *(_words(each, way) for way in MEASURED)]
        for each in own
    ]
    wifi, lte = (path.words for path in own[0].paths)
    text = (
        "Rate, delay each way, mean loss and mean length of the bad state: wifi has "
        f"{wifi}, 3 ms of jitter and a queue of 120 packets, lte {lte}, 8 ms and 200 packets. "
        "Losses are those of a chain in slots of 5 ms, from phone to server only."
    )
    heads = ["goal", "from the truth", "from captures", "from pings"]
    return "\n\n".join(["## Wi-Fi and LTE", text, _table(heads, rows)])


def _words(found: Comparison, way: str) -> str:
    """The value of the advice from a measurement, in a cell."""
    one = found.judged.get(way)
    if one is None:
        return "–"
    if one.settings is None:
        return one.unknown[0].partition(",")[0]
    goal = GOALS[found.goal]
    gain = -one.loss if goal.higher_is_better else one.loss
    said = "the same"
    if one.settings != found.true:
        good = "" if one.is_good else " **worse**:"
        change = "more runs fail"
        if math.isfinite(gain):
            change = numbers.change(gain, one.half_width, goal.unit)
        said = f"`{one.settings}`:{good} {change}"
    return f"{said}; not enough known" if one.unknown else said


def _cases(cases: list[Comparison]) -> tuple[str, bool]:
    lines, is_fair = ["## Random pairs of paths"], True
    for way in MEASURED:
        judged = [one.judged[way] for one in cases if way in one.judged]
        fair, good = sum(one.is_fair for one in judged), sum(one.is_good for one in judged)
        given = sum(one.settings is not None for one in judged)
        sure = [one.is_good for one in judged if not one.unknown]
        promised = len(judged) * PROMISED // CASES
        is_fair &= fair >= promised
        lines.append(
            f"**From {way}**, {len(judged)} cases: in {fair} the advice is as good as the truth's "
            f"or is said to be unsure (promised: {promised}). It is as good in {good} of {given} "
            f"in which there is any. It is said to be sure in {len(sure)}, of which {sum(sure)} "
            f"are as good."
        )
    lines.append(
        "A path is its rate, delay each way, mean loss and mean length of the bad state; queues "
        "hold half to one and a half times what flies in a round trip. Pings tell no rate: they "
        "are asked about calls and failover only."
    )
    rows = [
        [
            str(i), found.goal, *(path.words for path in found.paths), f"`{found.true}`",
            *(_words(found, way) for way in MEASURED),
        ]
        for i, found in enumerate(cases)
    ]  # fmt: skip
    heads = ["", "goal", "first", "second", "from the truth", "from captures", "from pings"]
    return "\n\n".join([*lines, _table(heads, rows)]), is_fair


def _coverage(covered: list[Covered]) -> tuple[str, bool]:
    lengths = [one for one in covered if one.mean_bad is not None]
    means, bursts = sum(one.has_mean for one in covered), sum(one.has_length for one in lengths)
    least_means, least_bursts = least(len(covered)), least(len(lengths))
    text = (
        f"{len(covered)} random paths, a capture of {CAPTURED_S} s of each; the chain is in slots "
        "of 1 ms here, since one in long slots has no shorter state. The 95 % interval of "
        f"the mean loss covers the truth in {means}; {len(lengths)} have a model with a bad state, "
        f"and the interval of its mean length covers the truth in {bursts}. Were the intervals "
        f"exact, fewer than {least_means} and {least_bursts} would come once in 200 times."
    )
    rows = [
        [
            one.path.words,
            _interval(one.mean_loss.value, one.mean_loss.interval, 100),
            "" if one.has_mean else "no",
            "–" if one.mean_bad is None else _interval(one.mean_bad[0], one.mean_bad[1:], 1e3),
            "" if one.mean_bad is None or one.has_length else "no",
        ]
        for one in covered
    ]
    heads = ["path", "mean loss, %", "covers", "bad state, ms", "covers"]
    parts = ["## Losses from captures", text, _table(heads, rows)]
    return "\n\n".join(parts), means >= least_means and bursts >= least_bursts


def _interval(value: float, interval: Iterable[float], scale: float) -> str:
    known, low, high = (f"{float(f'{scale * x:.2g}'):g}" for x in (value, *interval))
    return f"{known} [{low}, {high}]"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _of_own(goal: str, folder: Path) -> Comparison:
    (folder / goal).mkdir()
    return compare(goal, OWN, 1, folder / goal)


def _of_case(number: int, folder: Path) -> Comparison:
    return case(number, folder / str(number))


def main() -> int:
    """Writes the record."""
    target = Path(sys.argv[1])
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(2, get_context("spawn")) as pool,
    ):
        folder = Path(name)
        own = pool.map(partial(_of_own, folder=folder), IN_TURN)
        cases = pool.map(partial(_of_case, folder=folder), range(CASES))
        covered = pool.map(partial(coverage, folder=folder), range(COVERED))
        text, is_good = report(list(own), list(cases), list(covered))
    target.write_text(text, encoding="utf-8")
    print(f"wrote {target}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
