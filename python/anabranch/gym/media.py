"""An environment in which an agent sets the rate of media over RTP."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from anabranch._engine import Interval, Scenario, ScenarioError, SteppedRun
from anabranch.gym.congestion import mbit_per_s
from anabranch.gym.episodes import LONGEST_RTT_MS, EpisodeEnv, Observation, number

_FIRST_RATE = 300_000
_LEAST_RATE, _LARGEST_RATE = 10_000, 10**9
_MOST_MBIT_PER_S = 1e6


class MediaRateEnv(EpisodeEnv[NDArray[np.float32]]):
    """Sets the target of the media that the first end of an RTP flow sends, once per interval.

    There is no other control: the encoder of a video makes the target less what is sent again, and
    packets leave at one and a half times the target.

    *Action*, `Box(-1, 1, (1,))`: the logarithm to base 2 of the factor by which the target changes,
    from half to double. The target begins with 0.3 Mbit/s and stays between 0.01 and 1000.

    *Observation*, `Box` of five numbers: what arrived, by the feedback in the interval, in Mbit/s;
    the share of the packets' bytes in it that was lost, from 0 to 1; their mean one-way delay in ms
    (the last one if there was no feedback, 0 before the first); the least mean of the episode in
    ms; the target in Mbit/s.

    *Reward*: Mbit/s that arrived, less `delay_weight` for each millisecond of mean one-way delay
    above the least of the episode, less `loss_weight` for each lost Mbit/s; or what `reward` says.

    An episode ends, truncated, when the run of the scenario is over.

    Parameters
    ----------
    scenario
        A scenario, or the name of its file. Its `cc` has no meaning for this flow.
    flow
        The flow; it may be left out where there is only one.
    interval_ms
        Length of a step in simulated milliseconds.
    delay_weight, loss_weight
        Of the reward: Mbit/s for a millisecond of delay, and for each Mbit/s lost.
    reward
        Another reward, from the engine's `Interval` and the observation.
    sets
        Settings changed in the file, as `--set` of the command line does: path to value.

    Raises
    ------
    ScenarioError
        If the scenario is wrong, or the flow is not one of RTP over one path whose first end sends.
    RunError
        From `step`: if the run is stopped, by its limits or by a plug-in that fails.

    Examples
    --------
    >>> from anabranch.gym import MediaRateEnv
    >>> env = MediaRateEnv("scenarios/video-call.toml")  # doctest: +SKIP
    >>> observation, info = env.reset(seed=1)  # doctest: +SKIP
    >>> observation, reward, terminated, truncated, info = env.step([0.5])  # doctest: +SKIP
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        flow: str | None = None,
        *,
        interval_ms: float = 100.0,
        delay_weight: float = 0.01,
        loss_weight: float = 1.0,
        reward: Callable[[Interval, Observation], float] | None = None,
        sets: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scenario, flow, interval_ms, sets)
        self.delay_weight = number("delay_weight", delay_weight)
        self.loss_weight = number("loss_weight", loss_weight)
        if reward is not None and not callable(reward):
            raise TypeError(f"reward = {reward!r}: allowed is a function of two arguments")
        self._reward = reward
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        most = [_MOST_MBIT_PER_S, 1, LONGEST_RTT_MS, LONGEST_RTT_MS, _LARGEST_RATE / 1e6]
        self.observation_space = spaces.Box(
            np.zeros(5, np.float32), np.array(most, np.float32), dtype=np.float32
        )
        settings = self._settings()
        kind, paths = settings.get("transport", {}).get("kind"), settings["paths"]
        if kind != "rtp" or len(paths) > 1 or settings["app"].get("direction") == "b_to_a":
            raise ScenarioError(
                f"flows.{self.flow}: rates are set for media over rtp on one path, which the first "
                "end sends, not for this one"
            )
        self._target = _FIRST_RATE
        self._delay = self._least_delay = 0.0

    def _first(self, run: SteppedRun) -> Observation:
        self._target = _FIRST_RATE
        self._delay = self._least_delay = 0.0
        run.drive_media(self.flow, self._target)
        return self._see(run.interval())

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the target and goes on for an interval.

        `action` is one number; one below -1 is taken for -1, one above 1 for 1.
        """
        exponent = min(max(number("action", action), -1.0), 1.0)
        self._target = round(min(max(self._target * 2**exponent, _LEAST_RATE), _LARGEST_RATE))
        is_over = self._advance(lambda run: run.set_limit(self._target))
        run = self._current()
        interval = run.interval()
        seen = self._see(interval)
        if self._reward:
            reward = number("the value of reward", self._reward(interval, seen))
        else:
            reward = self._weigh(interval, seen)
        return seen, reward, False, is_over, {"now_s": run.now / 1e9}

    def _see(self, interval: Interval) -> Observation:
        if interval.delay is not None:
            self._delay = interval.delay
            self._least_delay = min(self._least_delay or interval.delay, interval.delay)
        share = interval.lost / max(interval.acked + interval.lost, 1)
        arrived = mbit_per_s(interval.acked, interval)
        target = self._target / 1e6
        seen = np.array([arrived, share, self._delay, self._least_delay, target], np.float32)
        return np.clip(seen, self.observation_space.low, self.observation_space.high)  # type: ignore[attr-defined]

    def _weigh(self, interval: Interval, seen: Observation) -> float:
        delay = float(seen[2] - seen[3])
        lost = mbit_per_s(interval.lost, interval)
        return float(seen[0]) - self.delay_weight * delay - self.loss_weight * lost
