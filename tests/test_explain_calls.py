"""What a call lost quality to: the known cause comes first, and the costs add up."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch import explain
from anabranch.explain import calls
from conftest import ROOT, Command

CLEAN = """\
name = "known-call"
seed = 2

[run]
duration = "30 s"

[links.first]
ends = ["caller", "callee"]
rate = "1 Mbit/s"
delay = "20 ms"

[links.second]
ends = ["caller", "callee"]
rate = "1 Mbit/s"
delay = "30 ms"

[paths.p0]
via = ["first"]

[paths.p1]
via = ["second"]

[flows.call]
from = "caller"
to = "callee"
paths = ["p0", "p1"]
app = { kind = "voip", start = "1 s", duration = "20 s" }
transport = { kind = "sctp", profile = "rfc9260" }
"""

LOSSY = {"links.first.loss": "{ kind = 'bernoulli', probability = 0.05 }"}
SLOW = {"links.first.delay": "320 ms"}
# Other traffic makes frames wait 60 ms on average; the buffer gives them 40 ms.
QUEUED = {
    "links.first.cross_traffic": "[{ kind = 'poisson', direction = 'forward', packet = '1500 B', "
    "mean_wait = '60 ms' }]",
    "flows.call.app.jitter_buffer": "{ kind = 'fixed', depth = '40 ms' }",
}
# All is lost for 0.6 s, more than the window holds; the timer runs for 3 s.
STALL = {
    "links.first.corrupt": "{ timetable = [['0 s', 0], ['5 s', 1], ['5.6 s', 0]] }",
    "flows.call.transport.rto_min": "3 s",
    "flows.call.transport.rto_initial": "3 s",
}


def explained(sets: Mapping[str, str], **others: Any) -> explain.Explanation:
    found = explain.explain(CLEAN, set=sets, **others)
    assert found.call is not None
    call = found.call
    # The costs are all that the call is short of its best, and each frame is counted once.
    assert sum(cost.mos for cost in call.costs) == pytest.approx(call.best - call.mos, abs=1e-9)
    assert call.remainder == pytest.approx(0, abs=1e-9)
    summary = found.result.summary
    missing = summary[f"{call.section}.late"] + summary[f"{call.section}.lost"]
    assert sum(cost.frames for cost in call.costs) == missing
    basis = found.flow.settings["app"]["delay"]
    delay = {"network": "mean_delay_ms", "mouth_to_ear": "mouth_to_ear_ms"}[basis]
    total = sum(cost.delay_ms for cost in call.costs)
    assert total == pytest.approx(summary[f"{call.section}.{delay}"], abs=1e-6)
    return found


def test_a_clean_call_has_nothing_to_mend() -> None:
    found = explained({})
    assert found.main.kind == "nothing"
    assert "Main cause: none" in found.sentences()[0]


def test_a_lossy_path_is_the_cause_and_the_other_path_the_advice() -> None:
    found = explained(LOSSY)
    assert (found.main.kind, found.main.path) == ("loss", "p0")
    assert "together worse than p1 alone" in found.sentences()[1]
    assert "Prefer p1, which alone reaches" in found.main.advice
    # Without its losses the call gains what the cause is said to cost: there is no other loss.
    clean = explained({}, alone=False).call
    assert found.call is not None
    assert clean is not None
    assert found.call.costs[0].mos == pytest.approx(clean.mos - found.call.mos, abs=0.02)


def test_a_path_of_much_delay() -> None:
    found = explained(SLOW)
    assert (found.main.kind, found.main.path) == ("delay", "p0")
    assert "Prefer p1" in found.main.advice


def test_frames_that_come_too_late() -> None:
    found = explained(QUEUED)
    assert (found.main.kind, found.main.path) == ("late", "p0")
    assert "Prefer p1" in found.main.advice


def test_a_link_that_is_down_and_keeps_its_packets() -> None:
    found = explained(
        {"links.first.up": "{ timetable = [['0 s', true], ['5 s', false], ['5.4 s', true]] }"}
    )
    assert (found.main.kind, found.main.path) == ("late", "p0")


def test_a_stall_until_the_timer_expires() -> None:
    found = explained(STALL)
    assert (found.main.kind, found.main.path) == ("timeout", "p0")
    assert "rto_max" in found.main.advice
    assert found.call is not None
    # Frames lost on the way are another, smaller cause.
    loss = next(cost for cost in found.call.costs if cost.kind == "loss")
    assert 0 < loss.mos < found.call.costs[0].mos / 3
    # Its advice helps.
    sets = {f"flows.call.transport.rto_{name}": "0.1 s" for name in ("min", "initial", "max")}
    again = explained({**STALL, **sets}, alone=False)
    assert again.value > found.value + 0.1


def test_a_connection_that_opens_late() -> None:
    found = explained({"flows.call.app.connect": "0.99 s", "links.first.delay": "300 ms"})
    assert found.call is not None
    early = next(cost for cost in found.call.costs if cost.kind == "not_open")
    assert early.frames == found.result.summary["call.unsent"]


@pytest.mark.parametrize(
    "sets",
    [
        {"flows.call.app.emodel": "g107", "flows.call.app.delay": "mouth_to_ear"},
        {"flows.call.app.burst_ratio": "measured", "flows.call.app.codec": "g729a+vad"},
        {"flows.call.app.direction": "both", "flows.call.app.talk_spurts": "{}"},
        {"flows.call.app.reliability": "{ limited_retransmissions = 3 }"},
    ],
    ids=["g107", "bursts", "both", "repairs"],
)
def test_costs_add_up_for_every_kind_of_call(sets: dict[str, str]) -> None:
    explained({**LOSSY, **sets}, alone=False)


def test_the_worse_direction_is_explained() -> None:
    found = explained(
        {"flows.call.app.direction": "both"}
        | {"links.first.loss": "{ kind = 'bernoulli', probability = 0.05 }"}
        | {"links.first.reverse": "{ loss = { kind = 'bernoulli', probability = 0.2 } }"},
        alone=False,
    )
    assert found.call is not None
    assert found.call.section == "call.b_to_a"
    assert found.metric == "b_to_a.mos"


def test_costs_do_not_depend_on_an_order() -> None:
    # Three players of a game whose worth is known: 1 for any two of them, 2 for all.
    worth = -np.array([0.0, 0, 0, 1, 0, 1, 1, 2])
    assert [calls.shapley(worth, 3, i) for i in range(3)] == pytest.approx([2 / 3] * 3)


def test_the_command_and_its_json(anabranch: Command, tmp_path: Path) -> None:
    file = tmp_path / "call.toml"
    file.write_text(CLEAN, encoding="utf-8")
    lossy = "links.first.loss={ kind = 'bernoulli', probability = 0.05 }"
    result = anabranch("explain", file, "--set", lossy, "--json", tmp_path / "why.json")
    assert result.returncode == 0, result.stderr
    assert "frames lost on the way, p0" in result.stdout
    assert "Main cause: loss, on p0." in result.stdout
    assert "application sets the pace" not in result.stdout
    call = json.loads((tmp_path / "why.json").read_text("utf-8"))["call"]
    total = sum(cost["mos"] for cost in call["costs"])
    assert total == pytest.approx(call["best_mos"] - call["mos"], abs=1e-9)


def test_the_page_lists_all_kinds() -> None:
    page = (ROOT / "docs" / "explain.md").read_text("utf-8")
    for kind in [*calls.KINDS, "nothing"]:
        assert f"`{kind}`" in page
    found = explain.explain(ROOT / "scenarios" / "two-path-call.toml")
    for sentence in found.sentences():
        assert sentence in page
