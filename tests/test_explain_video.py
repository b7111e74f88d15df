"""What a video stood still for: the known cause comes first, the freezes are the engine's."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from anabranch import explain
from anabranch.explain import video
from anabranch.studies.result import load, run
from conftest import ROOT, Command

SCENARIO = """\
name = "known-video"
seed = 3

[run]
duration = "22 s"

[links.wan]
ends = ["sender", "viewer"]
rate = "4 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 100 }

[links.lte]
ends = ["sender", "viewer"]
rate = "4 Mbit/s"
delay = "40 ms"

[paths.near]
via = ["wan"]

[paths.far]
via = ["lte"]

[flows.call]
from = "sender"
to = "viewer"
paths = ["near"]
app = { kind = "video", duration = "20 s", max_rate = "1 Mbit/s" }
transport = { kind = "rtp", cc = { kind = "cbr", rate = "1 Mbit/s" } }
"""

# Everything that is sent within 0.4 s is lost, and packets are asked for again.
CORRUPT = {"links.wan.corrupt": "{ timetable = [['0 s', 0], ['5 s', 1], ['5.4 s', 0]] }"}
NO_NACK = {"flows.call.transport.nack": "false"}
TWO_PATHS = {"flows.call.paths": "['near', 'far']", "flows.call.transport.path": "0"}
SLOW = {
    "links.wan.rate": "{ timetable = [['0 s', '4 Mbit/s'], ['5 s', '0.3 Mbit/s'], "
    "['7 s', '4 Mbit/s']] }"
}
CASES = {
    "loss": CORRUPT,
    "queue": {**SLOW, "links.wan.queue": "{ kind = 'drop_tail', packets = 10 }"},
    "down": {"links.wan.up": "{ timetable = [['0 s', true], ['5 s', false], ['5.6 s', true]] }"},
    "late": {
        "links.wan.delay": "{ timetable = [['0 s', '20 ms'], ['5 s', '600 ms'], ['6 s', '20 ms']] }"
    },
    # Full key frames of 40 mean ones, which the control's pace lets leave in more than a second.
    "pacer": {"flows.call.app.key_frame_ratio": "40", "flows.call.app.key_frame_interval": "5 s"},
    # An encoder that makes more than its control lets leave.
    "refused": {
        "flows.call.app.min_rate": "1 Mbit/s",
        "flows.call.transport.cc.rate": "0.6 Mbit/s",
        "flows.call.transport.send_buffer": "30 kB",
    },
    # A source whose frames come seldom and irregularly.
    "source": {"flows.call.app.frame_interval": "150 ms", "flows.call.app.interval_deviation": "1"},
}


def explained(sets: Mapping[str, str], **others: Any) -> tuple[explain.Explanation, video.Video]:
    found = explain.explain(SCENARIO, set=sets, **others)
    seen = found.video
    assert seen is not None
    summary = found.result.summary
    assert len(seen.freezes) == summary["call.freezes"]
    frozen = sum(freeze.seconds for freeze in seen.freezes)
    longest = max((freeze.seconds for freeze in seen.freezes), default=0)
    assert longest * 1e3 == pytest.approx(summary["call.longest_freeze_ms"])
    assert frozen == pytest.approx(summary["call.frozen_percent"] / 100 * 20, rel=0.02)
    return found, seen


@pytest.mark.parametrize("kind", CASES)
def test_the_known_cause_comes_first(kind: str) -> None:
    found, seen = explained(CASES[kind])
    assert found.main.kind == seen.parts[0].kind == kind
    assert found.main.advice
    link, path = seen.parts[0].link, seen.parts[0].path
    if kind in {"loss", "queue", "down", "late"}:
        assert (link, path) == ("wan", "near")
    else:
        assert link == ""


def test_a_link_that_is_down_and_drops_its_packets() -> None:
    found, seen = explained(CASES["down"] | {"links.wan.down": "drop"})
    assert found.main.kind == "down"
    assert {freeze.ended_by for freeze in seen.freezes} <= {"retransmission", "key_frame"}


def test_what_ends_a_freeze() -> None:
    _, seen = explained(CORRUPT)
    assert {freeze.ended_by for freeze in seen.freezes} == {"retransmission"}
    found, seen = explained(CORRUPT | NO_NACK)
    assert {freeze.ended_by for freeze in seen.freezes} == {"key_frame"}
    assert "ended with a key frame" in found.causes[0].text
    assert found.main.advice.startswith("With `nack`")
    _, seen = explained(CASES["late"])
    assert {freeze.ended_by for freeze in seen.freezes} == {"itself"}


def test_a_clean_video_has_nothing_to_mend() -> None:
    found, seen = explained({})
    assert (found.main.kind, seen.parts) == ("nothing", ())
    assert found.sentences()[1] == (
        f"call: frozen for 0.00 % of the time; {seen.shown} of {seen.made} frames were shown."
    )


def test_the_better_path_is_the_advice() -> None:
    found, _ = explained(CORRUPT | TWO_PATHS)
    assert [one.path for one in found.alone] == ["near", "far"]
    assert found.metric == "frozen_percent"
    assert "Prefer far, alone frozen for 0.00 %" in found.main.advice
    assert "retransmit_on = 'alternate'" in found.main.advice
    assert "together as good as" not in " ".join(found.sentences())
    assert "near + far reach" in found.sentences()[1]
    assert "worse than far alone" in found.sentences()[1]


def test_copies_on_both_paths_hide_the_losses() -> None:
    _, seen = explained(CORRUPT | TWO_PATHS | {"flows.call.transport.scheduler": "redundant"})
    assert seen.parts == ()


def test_over_udp_and_both_ways() -> None:
    _, seen = explained(
        CORRUPT
        | {"flows.call.transport": "{ kind = 'udp' }", "flows.call.app.direction": "b_to_a"}
        | {"links.wan.reverse.corrupt": "0"}
    )
    assert (seen.section, seen.side, seen.parts) == ("call", "b", ())
    found = explain.explain(SCENARIO, set=CORRUPT | {"flows.call.app.direction": "both"})
    assert found.video is not None
    assert found.video.section in {"call.a_to_b", "call.b_to_a"}
    assert found.metric == found.video.section.removeprefix("call.") + ".frozen_percent"


def test_a_call_over_udp_is_explained() -> None:
    call = {"flows.call.app": "{ kind = 'voip', start = '0 s', duration = '20 s' }"}
    for transport in ("udp", "rtp"):
        lost = {"links.wan.corrupt": "{ timetable = [['0 s', 0], ['5 s', 1], ['8 s', 0]] }"}
        sets = call | lost | {"flows.call.transport": f"{{ kind = '{transport}' }}"}
        found = explain.explain(SCENARIO, set=sets)
        assert found.call is not None
        assert {cost.kind for cost in found.call.costs} == {"loss", "delay"} | (
            {"again"} if transport == "rtp" else set()
        )
        assert found.main.kind == ("again" if transport == "rtp" else "loss")
        assert found.main.path == "near"
        assert found.call.remainder == pytest.approx(0, abs=1e-9)


def test_frames_and_packets_of_the_trace_belong_together() -> None:
    result = run(load(SCENARIO, CORRUPT), trace=True)
    frames = result.traces["frames"]
    assert frames["bytes"].sum() == pytest.approx(20e6 / 8, rel=0.1)
    first = result.traces["packets"].filter(pl.col("kind") == "datagram")
    # The payloads follow each other without a gap.
    assert (first["tsn"] + first["payload_bytes"])[:-1].equals(first["tsn"][1:], check_names=False)
    assert first["payload_bytes"].sum() == frames["bytes"].sum()
    shown = frames.filter(pl.col("status") == "played")
    assert (shown["played_s"] >= shown["arrived_s"]).all()


def test_the_command(anabranch: Command, tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    sets = [word for key, value in CASES["queue"].items() for word in ("--set", f"{key}={value}")]
    result = anabranch(
        "explain", file, *sets, "--plot", tmp_path / "figures", "--json", tmp_path / "why.json"
    )
    assert result.returncode == 0, result.stderr
    assert "Main cause: queue, on near." in result.stdout
    assert "packets dropped by a queue, wan on near" in result.stdout
    assert (tmp_path / "figures" / "known-video-explain.png").stat().st_size > 10_000
    content = json.loads((tmp_path / "why.json").read_text("utf-8"))
    assert content["video"]["freezes"][0]["kind"] == "queue"
    assert content["call"] is None


def test_the_page_lists_all_kinds() -> None:
    page = (ROOT / "docs" / "explain.md").read_text("utf-8")
    for kind in video.KINDS:
        assert f"| `{kind}` |" in page
