"""An environment in which an agent sets the congestion window of a TCP flow."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from anabranch._engine import Interval, Scenario, ScenarioError, SteppedRun
from anabranch.gym.episodes import LONGEST_RTT_MS, EpisodeEnv, Observation, number

_PACKET = 1500
_FIRST_WINDOW = 10 * _PACKET
_LARGEST_WINDOW = 1 << 30
_MOST_MBIT_PER_S = 1e6


class CongestionControlEnv(EpisodeEnv[NDArray[np.float32]]):
    """Sets the congestion window of the sender of a TCP flow, once per interval.

    The window holds in every state of the connection, also after losses and timeouts: there is no
    other control. What was lost is retransmitted as always.

    *Action*, `Box(-1, 1, (1,))`: the logarithm to base 2 of the factor by which the window changes,
    from half to double. The window stays between 2 and about 715,000 packets of 1500 bytes.

    *Observation*, `Box` of five numbers: acknowledged data in the interval in Mbit/s; the share of
    it and of lost data that was lost, from 0 to 1; the mean round-trip time in the interval in ms
    (the last one if none was measured, 0 before the first); the least mean of the episode in ms;
    the window in packets of 1500 bytes.

    *Reward*: acknowledged Mbit/s, less `delay_weight` for each millisecond of mean round-trip time
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
        If the scenario is wrong, or the flow has no congestion control that can be set.
    RunError
        From `step`: if the run is stopped, by its limits or by a plug-in that fails.

    Examples
    --------
    >>> from anabranch.gym import CongestionControlEnv
    >>> env = CongestionControlEnv("my-transfer.toml")  # doctest: +SKIP
    >>> observation, info = env.reset(seed=1)  # doctest: +SKIP
    >>> observation, reward, terminated, truncated, info = env.step([0.5])  # doctest: +SKIP
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        flow: str | None = None,
        *,
        interval_ms: float = 100.0,
        delay_weight: float = 0.02,
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
        most = [_MOST_MBIT_PER_S, 1, LONGEST_RTT_MS, LONGEST_RTT_MS, _LARGEST_WINDOW / _PACKET]
        self.observation_space = spaces.Box(
            np.zeros(5, np.float32), np.array(most, np.float32), dtype=np.float32
        )
        if f"{self.flow}.tcp.a.packets_sent" not in self._begin(0).summary():
            raise ScenarioError(
                f"flows.{self.flow}: windows are set for a flow of tcp, not for this one"
            )
        self.close()
        self._window = _FIRST_WINDOW
        self._rtt = self._least_rtt = 0.0

    def _first(self, run: SteppedRun) -> Observation:
        self._window = _FIRST_WINDOW
        self._rtt = self._least_rtt = 0.0
        run.drive(self.flow, self._window)
        return self._see(run.interval())

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the window and goes on for an interval.

        `action` is one number; one below -1 is taken for -1, one above 1 for 1.
        """
        exponent = min(max(number("action", action), -1.0), 1.0)
        self._window = round(min(max(self._window * 2**exponent, 2 * _PACKET), _LARGEST_WINDOW))
        is_over = self._advance(lambda run: run.set_limit(self._window))
        run = self._current()
        interval = run.interval()
        seen = self._see(interval)
        if self._reward:
            reward = number("the value of reward", self._reward(interval, seen))
        else:
            reward = self._weigh(interval, seen)
        return seen, reward, False, is_over, {"now_s": run.now / 1e9}

    def _see(self, interval: Interval) -> Observation:
        if interval.rtt is not None:
            self._rtt = interval.rtt
            self._least_rtt = min(self._least_rtt or interval.rtt, interval.rtt)
        share = interval.lost / max(interval.acked + interval.lost, 1)
        packets = self._window / _PACKET
        goodput = mbit_per_s(interval.acked, interval)
        seen = np.array([goodput, share, self._rtt, self._least_rtt, packets], np.float32)
        return np.clip(seen, self.observation_space.low, self.observation_space.high)  # type: ignore[attr-defined]

    def _weigh(self, interval: Interval, seen: Observation) -> float:
        delay = float(seen[2] - seen[3])
        lost = mbit_per_s(interval.lost, interval)
        return float(seen[0]) - self.delay_weight * delay - self.loss_weight * lost


def mbit_per_s(amount: int, interval: Interval) -> float:
    """So many bytes in an interval as a rate."""
    return amount * 8 / interval.seconds / 1e6 if interval.seconds > 0 else 0.0
