"""An environment in which an agent sets the congestion window of a TCP flow."""

from collections.abc import Callable, Mapping
from pathlib import Path

from anabranch._engine import Interval, Scenario, ScenarioError, SteppedRun
from anabranch.gym.episodes import Observation
from anabranch.gym.limits import LimitEnv

_PACKET = 1500


class CongestionControlEnv(LimitEnv):
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

    _first_limit = 10 * _PACKET
    _limits = (2 * _PACKET, 1 << 30)
    _unit = _PACKET

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
        super().__init__(
            scenario,
            flow,
            interval_ms=interval_ms,
            delay_weight=delay_weight,
            loss_weight=loss_weight,
            reward=reward,
            sets=sets,
        )
        if f"{self.flow}.tcp.a.packets_sent" not in self._begin(0).summary():
            raise ScenarioError(
                f"flows.{self.flow}: windows are set for a flow of tcp, not for this one"
            )
        self.close()

    def _drive(self, run: SteppedRun, limit: int) -> None:
        run.drive(self.flow, limit)

    def _delay_in(self, interval: Interval) -> float | None:
        return interval.rtt
