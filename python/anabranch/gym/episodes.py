"""What environments share: a run of a scenario as an episode, continued interval by interval."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from anabranch._engine import Scenario, ScenarioError, SteppedRun

Observation: TypeAlias = NDArray[np.float32]
Action = TypeVar("Action")

LONGEST_RTT_MS = 60_000.0
"""Where round-trip times in observations end: the longest retransmission timeout of RFC 9260."""


class EpisodeEnv(gymnasium.Env[Observation, Action]):
    """An episode is a run of a scenario. Derived classes say what is seen, done and rewarded.

    The run is an object of the engine that goes on for an interval and comes back: there is no
    thread, so nothing has to be ended when an environment is closed or left lying, and what fails
    in a step raises there.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        scenario: Scenario | str | Path,
        flow: str | None,
        interval_ms: float,
        sets: Mapping[str, str] | None,
    ) -> None:
        if isinstance(scenario, Scenario):
            if sets:
                raise ValueError(
                    "sets belong to the file of a scenario; this one is loaded already"
                )
            self.scenario = scenario
        else:
            self.scenario = Scenario.load(str(scenario), list((sets or {}).items()))
        if not interval_ms > 0:
            raise ValueError(f"interval_ms = {interval_ms} is too short; it must be more than 0")
        self.interval_ns = round(interval_ms * 1e6)
        self.flow = flow or self._only_flow()
        self.render_mode = None
        self._run: SteppedRun | None = None
        self._until = 0

    def _only_flow(self) -> str:
        names = list(tomllib.loads(self.scenario.to_toml())["flows"])
        if len(names) != 1:
            raise ScenarioError(f"flow: name one of the scenario's flows, {', '.join(names)}")
        return str(names[0])

    def _begin(self, seed: int | None) -> SteppedRun:
        """A new run, whose seed comes from the generator that `seed` begins anew."""
        super().reset(seed=seed)
        self._run = SteppedRun(self.scenario, seed=int(self.np_random.integers(1 << 53)))
        self._until = 0
        return self._run

    def _advance(self) -> bool:
        """Goes on for an interval; whether the run is over."""
        self._until += self.interval_ns
        return self._current().advance(self._until)

    def _current(self) -> SteppedRun:
        if self._run is None:
            raise gymnasium.error.ResetNeeded("call reset before step, and after close")
        return self._run

    def close(self) -> None:
        """Gives the run up, wherever it is."""
        self._run = None

    def summary(self) -> dict[str, float]:
        """The scalars of the run so far, by the names that `anabranch run --all` prints."""
        return self._current().summary()
