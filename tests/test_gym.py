"""Environments for learning: Gymnasium's checker, equal episodes, and what goes wrong."""

import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from anabranch._engine import RunError, Scenario, ScenarioError, SteppedRun, run
from anabranch.gym import CongestionControlEnv, PathChoiceEnv
from conftest import ROOT
from searched_path_choice import environment, frames, search

CALL = ROOT / "scenarios" / "two-path-call.toml"
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
    assert threading.active_count() == before


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
