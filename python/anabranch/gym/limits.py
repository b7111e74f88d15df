"""What environments share in which an agent sets a limit of a flow: a window, or a rate."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from anabranch._engine import Interval, Scenario, SteppedRun
from anabranch.gym.episodes import LONGEST_RTT_MS, EpisodeEnv, Observation, number

_MOST_MBIT_PER_S = 1e6


class LimitEnv(EpisodeEnv[NDArray[np.float32]]):
    """Sets a limit of a flow once per interval: an action is the logarithm of a factor."""

    _first_limit: ClassVar[int]
    _limits: ClassVar[tuple[int, int]]
    """The least and the largest."""
    _unit: ClassVar[float]
    """The unit in which the limit is seen."""

    def __init__(
        self,
        scenario: Scenario | str | Path,
        flow: str | None,
        *,
        interval_ms: float,
        delay_weight: float,
        loss_weight: float,
        reward: Callable[[Interval, Observation], float] | None,
        sets: Mapping[str, str] | None,
    ) -> None:
        super().__init__(scenario, flow, interval_ms, sets)
        self.delay_weight = number("delay_weight", delay_weight)
        self.loss_weight = number("loss_weight", loss_weight)
        if reward is not None and not callable(reward):
            raise TypeError(f"reward = {reward!r}: allowed is a function of two arguments")
        self._reward = reward
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        largest = self._limits[1] / self._unit
        most = [_MOST_MBIT_PER_S, 1, LONGEST_RTT_MS, LONGEST_RTT_MS, largest]
        self.observation_space = spaces.Box(
            np.zeros(5, np.float32), np.array(most, np.float32), dtype=np.float32
        )
        self._limit = self._first_limit
        self._delay = self._least_delay = 0.0

    @abstractmethod
    def _drive(self, run: SteppedRun, limit: int) -> None:
        """Lets the flow have this limit, which is set from outside."""

    @abstractmethod
    def _delay_in(self, interval: Interval) -> float | None:
        """The mean delay that is seen, in ms; None if none was measured."""

    def _first(self, run: SteppedRun) -> Observation:
        self._limit = self._first_limit
        self._delay = self._least_delay = 0.0
        self._drive(run, self._limit)
        return self._see(run.interval())

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the limit and goes on for an interval.

        `action` is one number; one below -1 is taken for -1, one above 1 for 1.
        """
        exponent = min(max(number("action", action), -1.0), 1.0)
        least, largest = self._limits
        self._limit = round(min(max(self._limit * 2**exponent, least), largest))
        is_over = self._advance(lambda run: run.set_limit(self._limit))
        run = self._current()
        interval = run.interval()
        seen = self._see(interval)
        if self._reward:
            reward = number("the value of reward", self._reward(interval, seen))
        else:
            reward = self._weigh(interval, seen)
        return seen, reward, False, is_over, {"now_s": run.now / 1e9}

    def _see(self, interval: Interval) -> Observation:
        delay = self._delay_in(interval)
        if delay is not None:
            self._delay = delay
            self._least_delay = min(self._least_delay or delay, delay)
        share = interval.lost / max(interval.acked + interval.lost, 1)
        goodput = mbit_per_s(interval.acked, interval)
        limit = self._limit / self._unit
        seen = np.array([goodput, share, self._delay, self._least_delay, limit], np.float32)
        return np.clip(seen, self.observation_space.low, self.observation_space.high)  # type: ignore[attr-defined]

    def _weigh(self, interval: Interval, seen: Observation) -> float:
        delay = float(seen[2] - seen[3])
        lost = mbit_per_s(interval.lost, interval)
        return float(seen[0]) - self.delay_weight * delay - self.loss_weight * lost


def mbit_per_s(amount: int, interval: Interval) -> float:
    """So many bytes in an interval as a rate."""
    return amount * 8 / interval.seconds / 1e6 if interval.seconds > 0 else 0.0
