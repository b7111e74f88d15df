"""What the tests of profiles share."""

from pathlib import Path

import captures
from anabranch.profile import Estimate, Profile, estimate, measure
from anabranch.profile.loss import Flags


def profile_of(*files: Path) -> Profile:
    return estimate(measure(list(files)))


def holds(found: Estimate | None, truth: float) -> bool:
    assert found is not None
    low, high = found.interval
    assert low <= found.value <= high or abs(found.value - high) <= 1e-9 * high
    return low - 1e-12 <= truth <= high + 1e-12


def lost(loss: str, seed: int, count: int) -> Flags:
    """The packets, out of this many, that the engine's model loses."""
    return captures.probes(f"loss = {loss}", seed, count)["delay_s"].is_null().to_numpy()


# Model, its parameters, the packets that it takes to see them.
LOSSES = [
    ("bernoulli", {"probability": 0.03}, 3000),
    ("simple_gilbert", {"p": 0.01, "r": 0.4}, 6000),
    ("simple_gilbert", {"p": 0.05, "r": 0.2}, 3000),
    ("gilbert", {"p": 0.02, "r": 0.2, "loss_in_bad": 0.6}, 12_000),
    ("gilbert_elliott", {"p": 0.01, "r": 0.1, "loss_in_bad": 0.6, "loss_in_good": 0.01}, 20_000),
]


def engine_loss(model: str, values: dict[str, float]) -> str:
    keys = "".join(f", {key} = {value}" for key, value in values.items())
    if model == "bernoulli":
        return f'{{ kind = "bernoulli"{keys} }}'
    return f'{{ kind = "gilbert", clock = "packet"{keys} }}'


WIFI = (
    'rate = "20 Mbit/s"\ndelay = "8 ms"\nqueue = { kind = "drop_tail", packets = 120 }\n'
    'loss = { kind = "gilbert", clock = "slot", slot = "5 ms", mean_loss = "1.64 %", '
    'loss_in_bad = 0.8, mean_bad = "16 ms" }\nreverse = { loss = { kind = "none" } }'
)
