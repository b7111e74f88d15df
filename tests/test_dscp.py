"""Codepoints of differentiated services: what a call asks for, and what queues make of it."""

import math
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch.errors import ScenarioError

FILE = Path(__file__).parents[1] / "scenarios" / "marked-call.toml"
MARKED_CALL = FILE.read_text().partition("[sweep]")[0]


def call(dscp: str | int, queue: str, **settings: object) -> dict[str, float]:
    """The scalars of a call beside a download."""
    sets = {"flows.call.dscp": dscp, "links.access.queue": {"kind": queue, **settings}}
    summary = anabranch.run(MARKED_CALL, set=sets).summary
    return {name: value for name, value in summary.items() if not math.isnan(value)}


def test_a_mark_is_worth_what_the_queue_makes_of_it() -> None:
    """One queue does not look at it, bands do, and queues of flows do without it."""
    bloated = call("ef", "drop_tail", packets=200)
    assert bloated == call("cs0", "drop_tail", packets=200)
    marked, plain = call("ef", "prio"), call("cs0", "prio")
    # A packet of 1500 B takes 2.4 ms, and one is being sent; the other direction is idle.
    assert marked["call.p99_delay_ms"] < 20 + 2.4 + 0.5
    assert marked["link.access.forward.band_0.max_sojourn_ms"] < 2.4
    assert plain["call.p99_delay_ms"] > 100
    assert marked["link.access.forward.band_0.packets"] > 1000
    assert plain["link.access.forward.band_0.packets"] == 0
    assert call("cs0", "fq_codel")["call.p99_delay_ms"] < 25


@pytest.mark.parametrize(
    ("diffserv", "tin"), [("diffserv3", "voice"), ("diffserv4", "voice"), ("diffserv8", "tin_6")]
)
def test_a_marked_call_has_a_tin(diffserv: str, tin: str) -> None:
    found = call("ef", "cake", bandwidth="4.9 Mbit/s", diffserv=diffserv)
    assert found[f"link.access.forward.{tin}.packets"] > 1000
    assert found[f"link.access.forward.{tin}.p99_sojourn_ms"] < 3
    # 46 is EF.
    assert found == call(46, "cake", bandwidth="4.9 Mbit/s", diffserv=diffserv)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("flows.call.dscp", "af44", 'flows.call.dscp: invalid value: string "af44"'),
        ("flows.call.dscp", 64, "flows.call.dscp: invalid value: integer `64`"),
        ("links.access.queue", {"kind": "prio", "bands": []}, "queue.bands has 0 of them"),
        (
            "links.access.queue",
            {"kind": "prio", "bands": [{"dscp": ["ef"]}]},
            "allowed is exactly one band without `dscp`",
        ),
    ],
)
def test_mistakes_are_named(key: str, value: Any, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        anabranch.run(MARKED_CALL, set={key: value})
    assert message in " ".join(str(caught.value).split())
