"""Environments for learning: Gymnasium's checker, equal episodes, and what goes wrong."""

import copy
import pickle
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from anabranch._engine import RunError, Scenario, ScenarioError, SteppedRun, run
from anabranch.gym import CongestionControlEnv, MediaRateEnv, PathChoiceEnv
from conftest import ROOT
from searched_path_choice import environment, frames, search

CALL = ROOT / "scenarios" / "two-path-call.toml"
VIDEO = ROOT / "scenarios" / "video-call.toml"
FAILOVER = {"flows.call.transport.policy": '{ kind = "failover" }'}
BULK = """
run.duration = "5 s"
links.a = { ends = ["x", "y"], rate = "10 Mbit/s", delay = "15 ms" }
paths.p.via = ["a"]
[flows.f]
from = "x"
to = "y"
paths = ["p"]
app.kind = "bulk"
transport.kind = "tcp"
"""


@pytest.mark.filterwarnings("ignore:.*render modes:UserWarning")
def test_the_environments_pass_the_checker() -> None:
    check_env(CongestionControlEnv(Scenario.parse(BULK)))
    check_env(PathChoiceEnv(CALL, sets=FAILOVER))
    check_env(MediaRateEnv(VIDEO))


def test_a_rate_of_media_is_followed_and_a_higher_one_fills_the_queue() -> None:
    def episode(exponent: float) -> tuple[list[float], dict[str, float]]:
        """The means of 5 s, once the target is no longer changed."""
        env = MediaRateEnv(VIDEO, sets={"flows.call.app.max_rate": "4 Mbit/s"})
        env.reset(seed=1)
        seen = []
        for step in range(100):
            action = np.array([exponent if step < 16 else 0.0], np.float32)
            observation, _, _, is_over, _ = env.step(action)
            seen.append(observation)
            assert not is_over
        return np.mean(seen[50:], axis=0).tolist(), env.summary()

    (_, _, delay, least, target), row = episode(0.125)
    # Two doublings of 0.3 Mbit/s are too much for 1 Mbit/s.
    assert target == pytest.approx(1.2, rel=1e-4)
    assert delay > least + 100
    assert row["call.rtp.a.packets_lost"] > 0
    (arrived, lost, delay, least, target), row = episode(0.05)
    assert target == pytest.approx(0.3 * 2**0.8, rel=1e-3)
    assert arrived == pytest.approx(target, rel=0.1)
    assert (lost, row["call.rtp.a.packets_lost"]) == (0, 0)
    assert delay < least + 50


@pytest.mark.parametrize(
    ("file", "sets"), [(CALL, {}), (VIDEO, {"flows.call.app.direction": "b_to_a"})]
)
def test_a_flow_without_media_of_its_first_end_is_a_mistake(
    file: Path, sets: dict[str, str]
) -> None:
    with pytest.raises(ScenarioError, match="rates are set for media over rtp"):
        MediaRateEnv(file, sets=sets)
    with pytest.raises(ScenarioError, match="has no congestion control of media"):
        SteppedRun(Scenario.parse(BULK)).drive_media("f", 1)


def test_equal_seeds_and_actions_give_equal_episodes() -> None:
    def episode(seed: int) -> list[float]:
        env = PathChoiceEnv(CALL, sets=FAILOVER)
        env.reset(seed=seed)
        values: list[float] = []
        is_over, step = False, 0
        while not is_over:
            seen, reward, _, is_over, _ = env.step(step // 20 % 2)
            values += [*seen.tolist(), reward]
            step += 1
        return values

    before = threading.active_count()
    first = episode(1)
    assert first == episode(1)
    assert first != episode(2)
    assert threading.active_count() <= before  # a watchdog of another test may have ended


def test_a_run_in_pieces_has_the_scalars_of_a_whole_one() -> None:
    scenario = Scenario.load(str(CALL))
    pieces = SteppedRun(scenario, seed=3)
    until = 0
    while not pieces.advance(until):
        until += 37_000_000
    whole = run(scenario, seed=3)["summary"]
    np.testing.assert_equal(pieces.summary(), whole)


def test_limits_of_the_scenario_end_an_episode() -> None:
    env = CongestionControlEnv(Scenario.parse(BULK, [("run.max_events", "1000")]))
    env.reset(seed=1)
    steps = (env.step(np.array([0.0], np.float32)) for _ in range(50))
    with pytest.raises(RunError, match=r"run\.max_events = 1000 is reached"):
        list(steps)


def test_a_larger_window_fills_the_link() -> None:
    env = CongestionControlEnv(Scenario.parse(BULK))
    env.reset(seed=1)
    for _ in range(20):
        seen, *_ = env.step(np.array([0.1], np.float32))
    assert seen[0] > 9
    assert seen[2] > seen[3] > 30
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.array([0.0], np.float32))


def test_a_flow_that_cannot_be_driven_is_a_mistake() -> None:
    with pytest.raises(ScenarioError, match=r"flows\.f: paths are chosen for a flow of sctp"):
        PathChoiceEnv(Scenario.parse(BULK))
    with pytest.raises(ScenarioError, match="windows are set for a flow of tcp"):
        CongestionControlEnv(CALL)
    with pytest.raises(ScenarioError, match=r"scalar = 'call\.x': the run has none"):
        PathChoiceEnv(CALL, scalar="call.x")


def test_the_search_of_the_page_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    env = environment()
    weights = search(env, 1, range(1))
    np.testing.assert_array_equal(search(env, 1, range(1)), weights)
    assert 0 < frames(env, weights, 1000) <= 1500


def test_environments_step_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    def rewards(vector: Any) -> list[list[float]]:
        vector.reset(seed=5)
        found = [vector.step(np.array([0, 1]))[1].tolist() for _ in range(60)]
        vector.close()
        return found

    makers = [partial(PathChoiceEnv, CALL, interval_ms=700.0)] * 2
    alone = rewards(SyncVectorEnv(makers))
    assert sum(alone[20]) > 0
    for context in ("fork", "spawn"):
        assert rewards(AsyncVectorEnv(makers, context=context)) == alone


WRONG = {
    "interval_ms": (float("nan"), float("inf"), 1e-9, 1e300, -1, "100", None, 10**400),
    "delay_weight": (float("nan"), "a", None),
    "loss_weight": (float("inf"), [1, 2], True),
    "reward": (5, "x"),
    "sets": ({"run.duration": 5}, [("run.duration", "5 s")], "run.duration=5 s"),
    "flow": ("g", 5, ""),
    "scenario": (None, 5, {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_by_their_names(name: str) -> None:
    for value in WRONG[name]:
        given: dict[str, Any] = {"scenario": Scenario.parse(BULK), name: value}
        with pytest.raises((ValueError, TypeError, ScenarioError), match=f"^{name} = "):
            CongestionControlEnv(**given)


@pytest.mark.parametrize("action", [float("nan"), None, "x", [], [1, 2], np.array([np.inf]), {}])
def test_what_is_no_action_is_refused(action: Any) -> None:
    window, path = CongestionControlEnv(Scenario.parse(BULK)), PathChoiceEnv(CALL)
    window.reset(seed=1)
    with pytest.raises(ValueError, match=r"^action = .*: allowed is a finite number$"):
        window.step(action)
    path.reset(seed=1)
    wrongs: list[Any] = [action, 2, -1, 0.5, "1", 1 << 70]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"^action = .* is no path; paths are 0 to 1$"):
            path.step(wrong)
    path.step(np.int64(1))  # the episode goes on


def test_a_reward_that_is_no_number_is_refused() -> None:
    env = CongestionControlEnv(Scenario.parse(BULK), reward=lambda *_: float("nan"))
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"^the value of reward = nan: allowed is a finite number"):
        env.step(np.zeros(1, np.float32))


def test_an_episode_begins_with_reset_and_can_be_left_at_any_time() -> None:
    env = PathChoiceEnv(CALL, interval_ms=20_000)
    with pytest.raises(gymnasium.error.ResetNeeded, match="there is no run"):
        env.step(0)
    env.reset(seed=1)
    assert not env.step(0)[3]
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        with pytest.raises(gymnasium.error.ResetNeeded, match="there is no run"):
            copied.step(0)
        copied.reset(seed=1)
        copied.step(0)
        np.testing.assert_equal(copied.summary(), env.summary())
    assert env.step(0)[3]
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode is over"):
        env.step(0)
    assert env.summary()["call.played"] > 0
    env.close()
    env.close()


POLICY = """
import signal, time
from anabranch.plugins import PathPolicy


class Breaks(PathPolicy):
    def select(self, event, paths, selection):
        if event.kind == "primary_requested":
            raise ValueError("no")
        super().select(event, paths, selection)


class Interrupts(PathPolicy):
    def select(self, event, paths, selection):
        if event.kind == "primary_requested":
            signal.raise_signal(signal.SIGINT)
            time.sleep(1)
"""


def with_policy(folder: Path, name: str, **sets: str) -> Scenario:
    """The call with a policy of `POLICY`."""
    (folder / "mine.py").write_text(POLICY, "utf-8")
    (folder / "call.toml").write_text(CALL.read_text("utf-8"), "utf-8")
    policy = f'{{ kind = "python", class = "mine:{name}" }}'
    given = {"flows.call.transport.policy": policy, **sets}
    return Scenario.load(str(folder / "call.toml"), list(given.items()))


def test_a_policy_that_fails_ends_its_own_episode_only(tmp_path: Path) -> None:
    breaks, works = PathChoiceEnv(with_policy(tmp_path, "Breaks")), PathChoiceEnv(CALL)
    breaks.reset(seed=1)
    works.reset(seed=1)
    with pytest.raises(RunError, match=r"the hook select of mine\.py:Breaks raised ValueError: no"):
        breaks.step(1)
    works.step(1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        breaks.step(1)


def test_ctrl_c_ends_an_episode(tmp_path: Path) -> None:
    env = PathChoiceEnv(with_policy(tmp_path, "Interrupts"))
    for _ in range(2):
        env.reset(seed=1)
        with pytest.raises(KeyboardInterrupt):
            env.step(1)
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(1)


def test_the_wall_time_is_that_of_the_episode() -> None:
    run = SteppedRun(Scenario.parse(BULK, [("run.max_wall_time", "5 ms"), ("run.duration", "1 h")]))
    steps = (run.advance(second * 100_000_000) for second in range(36_000))
    with pytest.raises(RunError, match=r"run\.max_wall_time = 5 ms is over"):
        list(steps)


def test_without_gymnasium_a_sentence_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import anabranch.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: anabranch.gym needs Gymnasium: pip install 'anabranch[gym]'"
