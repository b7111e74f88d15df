"""`anabranch advise` on a call's video over RTP: control, repair, paths, queue, and their bytes."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anabranch import advise, cli
from anabranch.advise import search, tables, video
from anabranch.advise.paths import Paths
from anabranch.advise.settings import COPIES, DIVIDED, ONE_PATH, Candidate, Setting, settings_of
from anabranch.errors import AnabranchError
from conftest import ROOT
from support.advising import written
from test_tutorials import matches

SMALL = search.Effort(screened=24, first=2, last=8)

LOSSY = """
[links.wan]
rate = "5 Mbit/s"
delay = "20 ms"
loss = { kind = "gilbert", mean_loss = "3 %", mean_bad = "60 ms" }
"""

# What fits falls to a fifth, and the queue holds 300 ms of it.
STEPS = """
[links.wan]
rate = { timetable = [["0 s", "2 Mbit/s"], ["20 s", "400 kbit/s"], ["45 s", "2 Mbit/s"]] }
delay = "40 ms"
queue = { kind = "drop_tail", bytes = "15 kB" }
"""

# Each path is gone for a time, never both.
OUTAGES = """
[links.wifi]
rate = "6 Mbit/s"
delay = "12 ms"
down = "drop"
up = { timetable = [["0 s", true], ["10 s", false], ["13 s", true], ["30 s", false]] }

[links.lte]
rate = "4 Mbit/s"
delay = "35 ms"
down = "drop"
up = { timetable = [["0 s", true], ["20 s", false], ["23 s", true]] }
"""

# What is sent again is there after 3 x 150 ms at the earliest: too late for a conversation.
FAR = """
[links.first]
rate = "5 Mbit/s"
delay = "150 ms"
loss = { kind = "gilbert", mean_loss = "3 %", mean_bad = "60 ms" }

[links.second]
rate = "5 Mbit/s"
delay = "160 ms"
loss = { kind = "gilbert", mean_loss = "3 %", mean_bad = "60 ms" }
"""

UPLINK = """
[links.dsl]
rate = "2 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 200 }
"""


def advised(folder: Path, text: str, **options: Any) -> advise.Advice:
    return advise.advise(written(folder, text), "video", effort=SMALL, **options)


def measured(found: advise.Advice, way: str) -> dict[str, float]:
    """What a way to use the paths costs and brings, by the names of the measures."""
    cost = next(
        one for one in found.costs if one.candidate == found.recommended.having("paths", way)
    )
    return {one.name: mean for one, (mean, _) in zip(found.beside, cost.measured, strict=True)}


def points(**scalars: float) -> float:
    """The points of a run of 1,000 frames that were all shown in time, but for what is given."""
    run = {
        "frames_made": 1000.0,
        "frames_shown": 1000.0,
        "frames_late": 0.0,
        "frozen_percent": 0.0,
        "goodput_kbit_per_s": 1500.0,
    } | scalars
    frame = pl.DataFrame({f"call.{name}": [value] for name, value in run.items()})
    app = {"min_rate": "150 kbit/s", "max_rate": "1.5 Mbit/s"}
    value: float = frame.select(video.points(app)).item()
    return value


def test_points_are_the_logarithm_of_the_rate_less_what_is_not_seen() -> None:
    assert points() == pytest.approx(100)
    assert points(goodput_kbit_per_s=2000) == pytest.approx(100)
    assert points(goodput_kbit_per_s=150) == pytest.approx(0)
    assert points(goodput_kbit_per_s=474.3) == pytest.approx(50, abs=0.01)
    assert points(frozen_percent=10) == pytest.approx(80)
    assert points(frozen_percent=10, goodput_kbit_per_s=150) == pytest.approx(-10)
    # A freeze whose frames are late as well counts once.
    assert points(frozen_percent=10, frames_late=50) == pytest.approx(80)
    assert points(frozen_percent=2, frames_late=100) == pytest.approx(80)
    # The rate is that of the frames which were shown.
    assert points(frames_shown=900, goodput_kbit_per_s=1350) == pytest.approx(80)
    assert points(frames_late=1000) == pytest.approx(-100)
    assert points(frames_shown=0, goodput_kbit_per_s=0) == -100
    assert points(goodput_kbit_per_s=150) < points(goodput_kbit_per_s=750, frozen_percent=5)


def test_a_control_that_sends_next_to_nothing_does_not_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is hardly ever frozen, and gets nothing for that."""
    low = {"transport.cc.kind": "cbr", "transport.cc.rate": "150 kbit/s"}

    def with_low(transport: str, goal: str, paths: Paths, profile: str) -> list[Setting]:
        found = settings_of(transport, goal, paths, profile)
        controls = next(one for one in found if one.name == "cc")
        controls.values["low"] = low
        return found

    monkeypatch.setattr(advise, "settings_of", with_low)
    found = advised(tmp_path, STEPS)
    assert found.recommended["cc"] != "low"
    control = next(one for one in found.effects if one.setting.name == "cc")
    mean, half_width = control.changes["low"]
    assert mean + half_width < -20
    # Freezes alone would have made it the best.
    trials = search.Trials(
        scenario=advise.GOALS["video"].scenario(found.paths, "rtp"),
        flows=["call"],
        goal=advise.GOALS["video"],
        metric="call.frozen_percent",
        within={},
        settings={one.name: one for one in with_low("rtp", "video", found.paths, "webrtc")},
        searched=[],
        folder=tmp_path / "low",
        sets={},
        jobs=None,
        rounds=advise._silent,
    )
    low_one = Candidate.of("webrtc", {"cc": "low"})
    trials.measure("", [found.recommended, low_one], 8)
    assert max(trials.values[low_one]) == 0 < min(trials.values[found.recommended])


def test_on_a_lossy_path_retransmissions_win(tmp_path: Path) -> None:
    found = advised(tmp_path, LOSSY)
    assert found.recommended["repair"] in ("default", "NACK, all"), tables.conclusion(found)
    repair = next(one for one in found.effects if one.setting.name == "repair")
    assert repair.verdict == "matters"
    mean, half_width = repair.changes["none"]
    assert mean + half_width < -10
    # One path has no ways to use several.
    assert {effect.setting.name for effect in found.effects}.isdisjoint(
        {"paths", "retransmissions"}
    )
    assert [one.name for one in found.beside][:2] == ["sent_mb", "freezes"]


def test_over_two_paths_with_outages_both_are_used(tmp_path: Path) -> None:
    found = advised(tmp_path, OUTAGES)
    way = found.recommended["paths"]
    assert way in (COPIES, DIVIDED) or way.endswith(ONE_PATH), tables.conclusion(found)
    gain, half_width = found.gain
    assert gain - half_width > 15
    alone, copies, divided = (measured(found, one) for one in ("default", COPIES, DIVIDED))
    assert copies["frozen_percent"] < 0.5
    assert alone["frozen_percent"] > 5
    # What the copies cost stands beside that, on each path.
    assert 1.2 < copies["sent_mb"] / divided["sent_mb"] < 2
    for one in (alone, copies, divided):
        assert one["sent_mb"] == pytest.approx(one["sent_wifi_mb"] + one["sent_lte_mb"])
    assert alone["sent_lte_mb"] == 0
    # What is as good for half of the bytes is recommended.
    assert way != COPIES
    assert "It sends " in tables.conclusion(found)


def test_what_comes_too_late_again_is_sent_twice(tmp_path: Path) -> None:
    found = advised(tmp_path, FAR)
    assert found.recommended["paths"] == COPIES, tables.conclusion(found)
    gain, half_width = found.gain
    assert gain - half_width > 10
    copies, alone = measured(found, COPIES), measured(found, "default")
    assert copies["sent_mb"] > 1.5 * alone["sent_mb"]
    assert any("RFC 7198" in sentence for sentence in found.paste.without)


def test_beside_an_upload_the_queue_decides(tmp_path: Path) -> None:
    found = advised(tmp_path, UPLINK, beside_bulk=True)
    assert found.recommended["queue"] != "default"
    gain, half_width = found.gain
    assert gain - half_width > 50
    queue = next(one for one in found.effects if one.setting.name == "queue")
    assert queue.changes["default"][0] < -50
    if found.recommended["queue"] == "prio, af41":
        assert any("dsfield 0x88" in line for line in found.paste.commands)
        assert "# DSCP of RTP, both ends: 34, AF41 (RFC 8837)" in found.paste.call


CALL = """
[links.wan]
ends = ["phone", "office"]
rate = "{rate}"
delay = "20 ms"

[paths.wan]
via = ["wan"]

[flows.meeting]
from = "phone"
to = "office"
paths = ["wan"]
transport = { kind = "rtp" }

[flows.meeting.app]
kind = "video"
direction = "{direction}"
rate = "300 kbit/s"
max_rate = "600 kbit/s"
duration = "20 s"
"""


def call(rate: str = "5 Mbit/s", direction: str = "a_to_b") -> str:
    return CALL.replace("{rate}", rate).replace("{direction}", direction)


@pytest.mark.parametrize("direction", ["a_to_b", "b_to_a"])
def test_the_video_of_a_scenario_is_the_one_that_is_rated(tmp_path: Path, direction: str) -> None:
    found = advised(tmp_path, call(direction=direction))
    assert found.keep_defaults, tables.conclusion(found)
    (reference,) = (one for one in found.ranked if one.candidate == found.reference)
    # Its highest rate is 600 kbit/s, which the path carries.
    assert reference.mean > 90
    sent, *_ = (mean for mean, _ in found.costs[0].measured)
    assert sent == pytest.approx(600e3 / 8 * 20 * 1e-6, rel=0.15)
    wider = advised(
        tmp_path, call(direction=direction), set={"flows.call.app.max_rate": "6 Mbit/s"}
    )
    (reference,) = (one for one in wider.ranked if one.candidate == wider.reference)
    assert reference.mean < 90


def test_a_call_over_rtp_has_its_settings(tmp_path: Path) -> None:
    """Copies repair losses of a call, as they do over UDP; a control hardly matters for it."""
    text = OUTAGES.replace("4 Mbit/s", "6 Mbit/s")
    found = advise.advise(written(tmp_path, text), "mos", transport="rtp", effort=SMALL)
    assert found.recommended["paths"] in (COPIES, DIVIDED) or found.recommended["paths"].endswith(
        ONE_PATH
    )
    gain, half_width = found.gain
    assert gain - half_width > 0.1
    names = {effect.setting.name for effect in found.effects}
    assert names >= {"cc", "repair", "codec", "jitter_buffer", "paths", "queue"}
    assert [one.name for one in found.beside] == ["sent_mb", "sent_wifi_mb", "sent_lte_mb"]


def test_the_guide_has_what_is_printed_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(ROOT)
    guide = (ROOT / "docs/advise.md").read_text("utf-8")
    block = r"<!-- anabranch (advise [^\n]*--goal video[^\n]*) -->\n```text\n(.*?)```"
    found = re.search(block, guide, re.DOTALL)
    assert found is not None
    command, shown = found.groups()
    assert max(len(line) for line in shown.splitlines()) <= 80
    file = tmp_path / "advice.json"
    assert cli.main([*shlex.split(command), "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert matches(printed.partition("\nwrote")[0], shown)
    told = json.loads(file.read_text("utf-8"))
    assert (told["goal"], told["unit"], told["metric"]) == ("video", "points", "points")
    ways = {
        cost["settings"].get("paths", "wifi"): cost["sent_mb"]["mean"] for cost in told["costs"]
    }
    assert {"wifi", "lte", COPIES, DIVIDED} <= ways.keys()
    assert ways[COPIES] > 1.8 * ways["lte"]


@pytest.mark.parametrize(
    ("goal", "options", "message"),
    [
        ("video", {"transport": "udp"}, "transport is udp; for the goal video it must be rtp"),
        ("goodput", {"transport": "rtp"}, "transport is rtp; for the goal goodput it must be"),
        ("goodput", {"beside_bulk": True}, "--beside-bulk is for --goal mos and video, not for"),
        ("video", {"profile": "linux"}, "unknown field `profile`"),
        ("video", {"set": {"flows.call.app.max_rate": "1 kbit/s"}}, "max_rate"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    tmp_path: Path, goal: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AnabranchError, match=message) as mistake:
        advise.advise(written(tmp_path, LOSSY), goal, effort=SMALL, **options)
    assert "\n" not in str(mistake.value)


def test_a_video_in_both_directions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnabranchError, match='direction = "both", which must be a_to_b or b_to_a'):
        advised(tmp_path, call(direction="both"))
