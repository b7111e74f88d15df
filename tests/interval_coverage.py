"""How often intervals cover what they should: the table in docs/statistics.md, and what tests ask.

python tests/interval_coverage.py
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import anabranch
from anabranch import _engine, stats
from anabranch.report.sensitivity import saltelli_indices
from anabranch.stats import comparison
from anabranch.studies import designs, stopping

sys.path.append(str(Path(__file__).parent.parent / "tools"))

from synthetic import ISHIGAMI, ishigami

TRIALS = 2000

QUEUE = """\
name = "md1"
[run]
duration = "1 s"
warm_up = "0.1 s"
[links.q]
ends = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = { kind = "drop_tail", packets = 100000 }
[paths.p]
via = ["q"]
[flows.f]
from = "a"
to = "b"
paths = ["p"]
transport = { kind = "udp" }
app = { kind = "datagrams", size = "472 B", rate = "4720 kbit/s", intervals = { kind = "poisson" } }
"""
SERVICE_MS = 0.4  # 500 B with headers, at 10 Mbit/s
LOAD = 0.5
WAIT_MS = SERVICE_MS * LOAD / (2 * (1 - LOAD))
"""The mean of the M/D/1 queue, by Pollaczek and Khinchine."""


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    method: str
    model: str
    n: str
    covered: Callable[[np.random.Generator], float]
    """The share of trials whose interval has the true value in it."""
    holds: bool = True
    """Whether theory promises the level for this n, so that a test may ask for it."""

    def share(self) -> float:
        return self.covered(np.random.default_rng(20))


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(1, 2, (TRIALS, n))


def exponential(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(1, (TRIALS, n))


def queue(_: np.random.Generator, n: int) -> np.ndarray:
    jobs = [(0, replication) for replication in range(TRIALS * n)]
    runs = _engine.run_batch(anabranch.load(QUEUE), jobs, 2)
    return np.array(runs["link.q.forward.mean_wait_ms"]).reshape(TRIALS, n)


def rows(samples: np.ndarray) -> pl.DataFrame:
    trials, n = samples.shape
    trial, replication = np.repeat(np.arange(trials), n), np.tile(np.arange(n), trials)
    return pl.DataFrame({"trial": trial, "replication": replication, "x.mos": samples.ravel()})


Samples = Callable[[np.random.Generator, int], np.ndarray]


def student(samples: Samples, n: int, mean: float, rng: np.random.Generator) -> float:
    cells = stats.cells(rows(samples(rng, n)), ["trial"], "x.mos")
    return float(((cells["mean"] - mean).abs() <= cells["half_width"]).mean())  # type: ignore[arg-type]


def estimated(
    samples: Samples, n: int, true: float, rng: np.random.Generator, estimator: stats.Estimator
) -> float:
    _, low, high = estimator(samples(rng, n), 0.95)
    return float(((low <= true) & (true <= high)).mean())


def zeros_and_ones(p: float, rng: np.random.Generator, n: int) -> np.ndarray:
    return (rng.random((TRIALS, n)) < p).astype(float)


def stopped(
    half_width: float, rng: np.random.Generator, draw: Callable[..., np.ndarray], mean: float
) -> list[tuple[int, float, float]]:
    """For each trial: replications, half-width of the interval in the end, error of the mean."""
    found = []
    until = {"half_width": half_width}
    for _ in range(TRIALS):
        values = draw(rng)
        n = stopping.replications_needed(values, until)
        assert n is not None
        interval = stats.mean_interval(values[:n].tolist())
        found.append((n, interval.half_width, abs(interval.mean - mean)))
    return found


def sequential(
    half_width: float, rng: np.random.Generator, draw: Callable[..., np.ndarray], mean: float
) -> float:
    trials = stopped(half_width, rng, draw, mean)
    return sum(error <= width for _, width, error in trials) / TRIALS


def one_normal(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(1, 2, 1000)


def one_exponential(rng: np.random.Generator) -> np.ndarray:
    return rng.exponential(1, 1000)


def one_share(rng: np.random.Generator) -> np.ndarray:
    return (rng.random(1000) < 0.1).astype(float)


def welch(sizes: tuple[int, int], rng: np.random.Generator) -> float:
    covered = 0
    for _ in range(TRIALS):
        first, second = rng.normal(2, 1, sizes[0]), rng.normal(1, 3, sizes[1])
        found, _, _ = comparison.welch(first, second, 0.95)
        covered += abs(found.mean - 1) <= found.half_width
    return covered / TRIALS


def world(rng: np.random.Generator, means: list[float], n: int) -> pl.DataFrame:
    """Cells with these means, on common random numbers: most of the noise is shared."""
    common = rng.normal(0, 3, n)
    values = [mean + common + rng.normal(0, 1, n) for mean in means]
    return rows(np.array(values)).rename({"trial": "cell"})


def in_best_set(means: list[float], n: int, rng: np.random.Generator) -> float:
    true, trials = int(np.argmax(means)), 500
    found = 0
    for _ in range(trials):
        ranking = comparison.best_set(world(rng, means, n), ["cell"], "x.mos")
        found += true in ranking.filter("best")["cell"]
    return found / trials


def of_indices(n: int) -> dict[str, float]:
    """Coverage of Sobol indices of Ishigami's function from n base points of Saltelli's design."""
    trials = 500
    names = [f"x{i}" for i in range(3)]
    covered = dict.fromkeys(ISHIGAMI, 0)
    for seed in range(trials):
        shares = designs.points("saltelli", n, 3, seed)
        y = ishigami((2 * shares - 1) * math.pi).reshape(n, 5)
        for index in saltelli_indices(names, y):
            first, total = (ISHIGAMI[order][names.index(index.name)] for order in ISHIGAMI)
            covered["first"] += abs(index.first_order - first) <= index.half_width
            covered["total"] += abs(index.total_order - total) <= index.total_half_width
    return {order: count / trials / len(names) for order, count in covered.items()}


def _estimator(samples: Samples, n: int, true: float, estimator: Any) -> Callable[..., float]:
    return partial(estimated, samples, n, true, estimator=estimator)


MEDIAN = partial(stats.quantile, probability=0.5)
P90 = partial(stats.quantile, probability=0.9)

CASES = (
    Case("t", "normal", "8", partial(student, normal, 8, 1.0)),
    Case("t", "M/D/1 queue of the engine", "4", partial(student, queue, 4, WAIT_MS)),
    Case("t", "exponential", "10", partial(student, exponential, 10, 1.0), holds=False),
    Case("t", "exponential", "50", partial(student, exponential, 50, 1.0), holds=False),
    Case("BCa", "normal", "50", _estimator(normal, 50, 1.0, stats.bca)),
    Case("BCa", "exponential", "10", _estimator(exponential, 10, 1.0, stats.bca), holds=False),
    Case("BCa", "exponential", "50", _estimator(exponential, 50, 1.0, stats.bca), holds=False),
    Case("BCa", "exponential", "100", _estimator(exponential, 100, 1.0, stats.bca)),
    Case("quantile 0.5", "exponential", "100", _estimator(exponential, 100, math.log(2), MEDIAN)),
    Case("quantile 0.9", "exponential", "100", _estimator(exponential, 100, math.log(10), P90)),
    Case(
        "Wilson",
        "share 0.1",
        "100",
        _estimator(partial(zeros_and_ones, 0.1), 100, 0.1, stats.share),
    ),
    Case("Welch", "normal, deviations 1 and 3", "10 and 20", partial(welch, (10, 20))),
    Case("until", "normal", "about 25", partial(sequential, 0.9, draw=one_normal, mean=1.0)),
    Case("until", "normal", "about 110", partial(sequential, 0.4, draw=one_normal, mean=1.0)),
    Case(
        "until",
        "exponential",
        "about 110",
        partial(sequential, 0.2, draw=one_exponential, mean=1.0),
        holds=False,
    ),
    Case(
        "until",
        "share 0.1",
        "about 110",
        partial(sequential, 0.06, draw=one_share, mean=0.1),
        holds=False,
    ),
)


def main() -> None:
    print("| method | model | n | covered |\n|---|---|---|---|")
    for case in CASES:
        print(f"| {case.method} | {case.model} | {case.n} | {100 * case.share():.1f} % |")
    for means, n in (([1.0] * 8, 10), ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 20)):
        found = in_best_set(means, n, np.random.default_rng(20))
        model = f"{len(means)} cells, {means[0]:g} to {means[-1]:g}"
        print(f"| best set | {model} | {n} | {100 * found:.1f} % |")
    for n in (64, 256):
        for order, found in of_indices(n).items():
            print(f"| Sobol, {order} order | Ishigami | {n} base points | {100 * found:.1f} % |")


if __name__ == "__main__":
    main()
