"""A searched policy of path choice beside fixed ones: prints the table of docs/learning.md.

The cross-entropy method looks for the three weights of a linear policy on a few seeds; others,
which the search has not seen, judge it.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from anabranch.gym import PathChoiceEnv

_BURSTS = (
    '{ kind = "gilbert", clock = "slot", slot = "5 ms", mean_loss = "8 %", loss_in_bad = 0.85,'
    ' mean_bad = "800 ms" }'
)
_SETS = {
    "flows.call.transport.policy": '{ kind = "failover" }',
    "flows.call.transport.path_max_retrans": "5",  # the standard's: failover comes late
    "links.first.loss": _BURSTS,
    "links.second.loss": _BURSTS,
}
_SAMPLES, _BEST = 16, 4

Weights = NDArray[np.float64]


def environment() -> PathChoiceEnv:
    """A call over two paths that both lose packets in bursts of 800 ms."""
    return PathChoiceEnv("scenarios/two-path-call.toml", interval_ms=50, sets=_SETS)


def frames(env: PathChoiceEnv, weights: Weights, seed: int) -> float:
    """The frames heard in an episode in which a linear policy decides between two paths."""
    seen, _ = env.reset(seed=seed)
    total, is_over, path = 0.0, False, 0
    while not is_over:
        here, other = (seen[:5], seen[5:]) if path == 0 else (seen[5:], seen[:5])
        # A constant, timeouts here, and whether this path is less active than the other one.
        if weights @ np.array([1.0, here[4], other[0] - here[0]]) > 0:
            path = 1 - path
        seen, reward, _, is_over, _ = env.step(path)
        total += reward
    return total


def fixed(env: PathChoiceEnv, path: int, seed: int) -> float:
    """The frames heard in an episode whose primary path never changes."""
    env.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        _, reward, _, is_over, _ = env.step(path)
        total += reward
    return total


def search(env: PathChoiceEnv, rounds: int, seeds: range) -> Weights:
    """The weights that the cross-entropy method finds."""
    draws = np.random.default_rng(1)
    mean, spread = np.array([-1.0, 0.0, 0.0]), np.ones(3)
    for _ in range(rounds):
        tried = draws.normal(mean, spread, (_SAMPLES, 3))
        heard = [np.mean([frames(env, weights, seed) for seed in seeds]) for weights in tried]
        best = tried[np.argsort(heard)[-_BEST:]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.05
    return mean


def main(rounds: int = 6, training: int = 12, held_out: int = 400) -> None:
    """Prints frames heard, and what the searched policy has more on the same seeds."""
    env = environment()
    weights = search(env, rounds, range(training))
    seeds = range(20_000, 20_000 + held_out)
    own = np.array([frames(env, weights, seed) for seed in seeds])
    print("weights:", " ".join(f"{weight:.2f}" for weight in weights))
    print(f"searched: {own.mean():.1f} of 1500 frames heard")
    for path in (0, 1):
        other = np.array([fixed(env, path, seed) for seed in seeds])
        more = own - other
        half = 1.96 * more.std(ddof=1) / np.sqrt(held_out)
        difference = f"searched minus fixed: {more.mean():.1f} ± {half:.1f}"
        print(f"path {path} fixed: {other.mean():.1f}; {difference}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
