"""An environment in which an agent chooses the primary path of an SCTP flow."""

import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from anabranch._engine import Scenario, ScenarioError, SteppedRun
from anabranch.gym.episodes import LONGEST_RTT_MS, EpisodeEnv, Observation

_VALUES_PER_PATH = 5
_MOST = (1.0, 1.0, LONGEST_RTT_MS, 1e6, 1e3)


class PathChoiceEnv(EpisodeEnv[np.int64]):
    """Chooses the primary path of the sender of an SCTP flow, once per interval.

    The choice is a request to the scenario's path policy. The standard's failover makes it the
    primary path, and sends elsewhere only while that has failed.

    *Action*, `Discrete(n)`: the number of the path that is to be the primary one.

    *Observation*, `Box` of five numbers for each path, one path after another: whether it is active
    (1) or not (0); whether new data is sent there; the smoothed round-trip time in ms, 0 before the
    first sample; outstanding data in kB; timeouts in the interval.

    *Reward*: by how much a scalar of the run has grown in the interval, by itself the frames that
    the listener of a call has heard.

    An episode ends, truncated, when the run of the scenario is over.

    Parameters
    ----------
    scenario
        A scenario, or the name of its file.
    flow
        The flow, from which the path's end `from` is taken; it may be left out where there is only
        one.
    interval_ms
        Length of a step in simulated milliseconds.
    scalar
        The scalar whose growth is the reward; `FLOW.played` by itself.
    sets
        Settings changed in the file, as `--set` of the command line does: path to value.

    Raises
    ------
    ScenarioError
        If the scenario is wrong, the flow is not one of SCTP, or the run has no such scalar.
    RunError
        From `step`: if the run is stopped, by its limits or by a plug-in that fails.

    Examples
    --------
    >>> from anabranch.gym import PathChoiceEnv
    >>> env = PathChoiceEnv("scenarios/two-path-call.toml")  # doctest: +SKIP
    >>> observation, info = env.reset(seed=1)  # doctest: +SKIP
    >>> observation, reward, terminated, truncated, info = env.step(1)  # doctest: +SKIP
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        flow: str | None = None,
        *,
        interval_ms: float = 100.0,
        scalar: str | None = None,
        sets: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scenario, flow, interval_ms, sets)
        self.scalar = scalar or f"{self.flow}.played"
        run = self._begin(0)
        names = run.summary()
        if f"{self.flow}.sctp.a.packets_sent" not in names:
            raise ScenarioError(
                f"flows.{self.flow}: paths are chosen for a flow of sctp, not for this one"
            )
        if self.scalar not in names:
            raise ScenarioError(f"scalar = {self.scalar!r}: the run has none of this name")
        self._count = len(run.paths(self.flow))
        self.close()
        self._timeouts = [0] * self._count
        self._before = 0.0
        self.action_space = spaces.Discrete(self._count)
        self.observation_space = spaces.Box(
            np.zeros(_VALUES_PER_PATH * self._count, np.float32),
            np.array(_MOST * self._count, np.float32),
            dtype=np.float32,
        )

    def _first(self, run: SteppedRun) -> Observation:
        self._timeouts = [0] * self._count
        self._before = 0.0
        return self._see(run)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Asks for a primary path and goes on for an interval."""
        try:
            path = operator.index(action)
        except TypeError:
            path = -1
        if not 0 <= path < self._count:
            raise ValueError(f"action = {action!r} is no path; paths are 0 to {self._count - 1}")
        is_over = self._advance(lambda run: run.set_primary(self.flow, path))
        run = self._current()
        value = run.summary()[self.scalar]
        reward, self._before = value - self._before, value
        return self._see(run), float(reward), False, is_over, {"now_s": run.now / 1e9}

    def _see(self, run: SteppedRun) -> Observation:
        seen: list[float] = []
        for path, (state, is_used, srtt, outstanding, timeouts) in enumerate(run.paths(self.flow)):
            news = timeouts - self._timeouts[path]
            self._timeouts[path] = timeouts
            seen += [state == "active", is_used, srtt or 0.0, outstanding / 1e3, news]
        return np.clip(np.array(seen, np.float32), 0, np.array(_MOST * self._count, np.float32))
