"""An environment in which an agent sets the rate of media over RTP."""

from collections.abc import Callable, Mapping
from pathlib import Path

from anabranch._engine import Interval, Scenario, ScenarioError, SteppedRun
from anabranch.gym.episodes import Observation
from anabranch.gym.limits import LimitEnv


class MediaRateEnv(LimitEnv):
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

    _first_limit = 300_000
    _limits = (10_000, 10**9)
    _unit = 1e6

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
        super().__init__(
            scenario,
            flow,
            interval_ms=interval_ms,
            delay_weight=delay_weight,
            loss_weight=loss_weight,
            reward=reward,
            sets=sets,
        )
        settings = self._settings()
        kind, paths = settings.get("transport", {}).get("kind"), settings["paths"]
        if kind != "rtp" or len(paths) > 1 or settings["app"].get("direction") == "b_to_a":
            raise ScenarioError(
                f"flows.{self.flow}: rates are set for media over rtp on one path, which the first "
                "end sends, not for this one"
            )

    def _drive(self, run: SteppedRun, limit: int) -> None:
        run.drive_media(self.flow, limit)

    def _delay_in(self, interval: Interval) -> float | None:
        return interval.delay
