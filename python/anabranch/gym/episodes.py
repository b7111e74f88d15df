"""What environments share: a run of a scenario as an episode, continued interval by interval."""

import numbers
import sys
import tomllib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from anabranch._engine import Scenario, ScenarioError, SteppedRun

Observation: TypeAlias = NDArray[np.float32]
Action = TypeVar("Action")

LONGEST_RTT_MS = 60_000.0
"""Where round-trip times in observations end: the longest retransmission timeout of RFC 9260."""


_LONGEST_INTERVAL_MS = 1e12
"""Longer than any run: a duration is at most 1e9 s."""


class EpisodeEnv(gymnasium.Env[Observation, Action]):
    """An episode is a run of a scenario. Derived classes say what is seen, done and rewarded.

    The run is an object of the engine that goes on for an interval and comes back: there is no
    thread, so nothing has to be ended when an environment is closed or left lying, and what fails
    in a step raises there. After that, and after the end, an episode has to be begun with `reset`;
    so does a copy, also one that pickle makes.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        scenario: Scenario | str | Path,
        flow: str | None,
        interval_ms: float,
        sets: Mapping[str, str] | None,
    ) -> None:
        self.scenario = _scenario(scenario, sets)
        interval_ms = number("interval_ms", interval_ms)
        if not 1e-6 <= interval_ms <= _LONGEST_INTERVAL_MS:
            raise ValueError(
                f"interval_ms = {interval_ms:g}: allowed is 1e-6 (a nanosecond)"
                f" to {_LONGEST_INTERVAL_MS:g}"
            )
        self.interval_ns = round(interval_ms * 1e6)
        self.flow = self._flow(flow)
        self.render_mode = None
        self._run: SteppedRun | None = None
        self._until = 0
        self._is_over = False

    def _flow(self, name: str | None) -> str:
        names: list[str] = list(tomllib.loads(self.scenario.to_toml()).get("flows", {}))
        if name is None and len(names) == 1:
            return names[0]
        if name is None or name not in names:
            asked = "flow" if name is None else f"flow = {name!r} is not there"
            raise ScenarioError(f"{asked}: name one of the scenario's flows, {', '.join(names)}")
        return name

    def _settings(self) -> dict[str, Any]:
        """The settings of the flow."""
        settings: dict[str, Any] = tomllib.loads(self.scenario.to_toml())["flows"][self.flow]
        return settings

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a run; its seed follows from `seed` or the last one. `options` are ignored."""
        del options
        return self._first(self._begin(seed)), {"now_s": 0.0}

    @abstractmethod
    def _first(self, run: SteppedRun) -> Observation:
        """Prepares a run that begins; what is seen of it."""

    def _begin(self, seed: int | None) -> SteppedRun:
        """A new run, whose seed comes from the generator that `seed` begins anew."""
        super().reset(seed=seed)
        self._run = SteppedRun(self.scenario, seed=int(self.np_random.integers(1 << 53)))
        self._until = 0
        self._is_over = False
        return self._run

    def _advance(self, decide: Callable[[SteppedRun], None]) -> bool:
        """Decides and goes on for an interval; whether it is over. A run that fails is given up."""
        if self._is_over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset before step")
        run = self._current()
        self._until += self.interval_ns
        try:
            decide(run)
            self._is_over = run.advance(self._until)
        except BaseException:
            self.close()
            raise
        return self._is_over

    def _current(self) -> SteppedRun:
        if self._run is None:
            raise gymnasium.error.ResetNeeded(
                "there is no run: call reset, first and after close or an error"
            )
        return self._run

    def close(self) -> None:
        """Gives the run up, wherever it is."""
        self._run = None
        self._is_over = False

    def summary(self) -> dict[str, float]:
        """The scalars of the run so far, by the names that `anabranch run --all` prints."""
        return self._current().summary()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_run": None, "_is_over": False}


def _scenario(scenario: object, sets: object) -> Scenario:
    if sets is not None and not (
        isinstance(sets, Mapping)
        and all(isinstance(word, str) for pair in sets.items() for word in pair)
    ):
        raise TypeError(
            f"sets = {sets!r}: allowed is a mapping from paths to values, both texts,"
            ' such as {"run.duration": "5 s"}'
        )
    if isinstance(scenario, Scenario):
        if sets:
            raise ValueError("sets belong to the file of a scenario; this one is loaded already")
        return scenario
    if not isinstance(scenario, str | Path):
        raise TypeError(f"scenario = {scenario!r}: allowed is a Scenario, or the name of its file")
    pairs = list((sets or {}).items())
    loaded = Scenario.load(str(scenario), pairs)
    loaded.check_reached(pairs)
    return loaded


def number(name: str, value: object) -> float:
    """A finite number that a user has given, by itself or in an array, as a float.

    Raises
    ------
    ValueError
        If it is something else; in a sentence that begins with its name.
    """
    found: Any = value
    if isinstance(value, np.ndarray) and value.size == 1:
        found = value.item()
    elif isinstance(value, list | tuple) and len(value) == 1:
        found = value[0]
    is_number = isinstance(found, numbers.Real) and not isinstance(found, bool | np.bool)
    if not is_number or not abs(found) <= sys.float_info.max:
        raise ValueError(f"{name} = {value!r}: allowed is a finite number")
    return float(found)
