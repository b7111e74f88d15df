"""Transfers whose truth is known, as captures show them: the kernel's, emulated, and our own."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import anabranch
import capture_kinds
import captured_transfers
import kernel_transfer
from anabranch.explain import captured
from anabranch.profile import estimate, measure, output
from captured_transfers import BOUNDS, Found, errors, judged
from conftest import no_emulation
from kernel_transfer import Drawn

LACKS = no_emulation() or (None if shutil.which("dumpcap") else "there is no program `dumpcap`")

SLOW = """
name = "slow"
seed = 1
run.duration = "5 s"
paths.link.via = ["link"]

[links.link]
ends = ["a", "b"]
rate = "2 Mbit/s"
delay = "6 ms"
queue = { kind = "drop_tail", packets = 20 }

[flows.f]
from = "a"
to = "b"
paths = ["link"]
transport = { kind = "tcp" }
app = { kind = "bulk" }
"""
"""A full packet takes as long to be sent as it travels."""


@pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")
@pytest.mark.parametrize("ends", ["none", "sender", "receiver"])
def test_what_the_kernel_sent_is_read_right(tmp_path: Path, ends: str) -> None:
    drawn = Drawn(
        number=1,
        rate=8e6,
        delay=0.01,
        loss=0.01,
        burst=3.0,
        queue=40,
        control="cubic",
        seconds=3.0,
        sender_has_offload=ends == "sender",
        receiver_has_offload=ends == "receiver",
    )
    kernel_transfer.carry(drawn, tmp_path)
    truth, found = judged(tmp_path)
    assert truth.lost > 0
    kinds = {one.kind: one for one in found if not one.refused}
    assert kinds.keys() == {*captured_transfers.PROFILES, *captured_transfers.EXPLAINED}
    for kind, one in kinds.items():
        assert one.lost is not None, kind
        # The receiver misses what was lost before a pause.
        if "receiver" not in kind:
            assert abs(errors(truth, one)["losses"]) <= BOUNDS["losses"], kind
    for kind in ("at the link, both ends", "at the sender", "at both hosts", "at the receiver"):
        assert abs(errors(truth, kinds[kind])["delay"]) <= 2 * BOUNDS["delay"], kind


def test_errors_count_beyond_what_is_free() -> None:
    drawn = replace(Drawn.of(0), delay=0.01, receiver_has_offload=False)
    truth = captured_transfers.Truth(drawn, 100, 40, 0.0, has_overflowed=True, late_p99_ms=0.0)
    found = Found(0, "at the sender", lost=104, delay=0.0097, rate=drawn.rate * 1.02)
    assert errors(truth, found) == pytest.approx({"losses": 0.02, "delay": 0.0, "rate": 0.02})
    half = Found(0, "at the sender, second half", lost=30, rate=1.0, rate_is_bound=True)
    assert errors(truth, half) == pytest.approx({"losses": -0.2, "rate": 0.0})


def simulated(folder: Path) -> Path:
    file = folder / "slow.pcapng"
    anabranch.run(anabranch.load(SLOW), pcap=file, pcap_at="all")
    return file


def test_a_handshake_is_short_beside_a_packet_at_the_receiver(tmp_path: Path) -> None:
    found = estimate(measure([simulated(tmp_path)], interfaces=["link@b"]))
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(0.006, rel=0.05)


def test_the_clocks_of_an_end_with_offload_are_aligned_by_small_packets(tmp_path: Path) -> None:
    file = simulated(tmp_path)
    near, far = (capture_kinds.at(file, f"link@{end}") for end in "ab")
    files = [
        capture_kinds.save(tmp_path / "near.pcap", capture_kinds.offloaded(near, 10)),
        capture_kinds.save(tmp_path / "far.pcap", far),
    ]
    found = estimate(measure(files))
    assert any("segmentation offload" in note for note in found.measurement.notes)
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(0.006, rel=0.05)


@pytest.mark.parametrize("from_s", [0.0, 2.0])
def test_a_window_whose_scale_was_not_captured_limits_nothing(
    tmp_path: Path, from_s: float
) -> None:
    """Without the handshake, a window of 512 may be one of 64 kB (RFC 7323 section 2.2)."""
    frames = capture_kinds.at(simulated(tmp_path), "link@a")
    late = [frame for frame in frames if frame.time_s - frames[0].time_s >= from_s]
    said = captured.explain(capture_kinds.save(tmp_path / "late.pcap", late)).as_json()
    (flow,) = said["flows"]
    seconds = flow["ends"][flow["sender"]]["paths"]["path"]["seconds"]
    assert seconds["receive_window_limited"] == 0
    assert seconds["under_way"] > 2


def routed(frames: capture_kinds.Frames) -> capture_kinds.Frames:
    """As their sender's router has passed them on."""
    return [
        capture_kinds.Frame(time_s + 2e-5, data[:8] + bytes([data[8] - 1]) + data[9:])
        for time_s, data in frames
    ]


@pytest.mark.parametrize("joined", [1, 10])
def test_a_router_shows_large_packets_and_their_segments(tmp_path: Path, joined: int) -> None:
    near = capture_kinds.at(simulated(tmp_path), "link@a")
    plain = capture_kinds.save(tmp_path / "near.pcap", near)
    lan = capture_kinds.cooked(capture_kinds.offloaded(near, joined), 1)
    both = sorted([*lan, *capture_kinds.cooked(routed(near), 2)], key=lambda frame: frame.time_s)
    file = capture_kinds.save(tmp_path / "any.pcap", both, capture_kinds.COOKED)
    wanted, found = (measure([each]).losses for each in (plain, file))
    assert wanted is not None
    assert found is not None
    assert int(wanted.lost.sum()) == int(found.lost.sum()) > 0
    assert found.sent == wanted.sent
    lost = []
    for each in (plain, file):
        (flow,) = captured.explain(each).as_json()["flows"]
        lost.append(flow["ends"][flow["sender"]]["paths"]["path"]["losses"]["lost"])
    assert lost[0] == lost[1] > 0


@pytest.mark.parametrize("from_s", [0.0, 2.0])
def test_a_queue_that_never_empties_is_not_the_paths_delay(tmp_path: Path, from_s: float) -> None:
    frames = capture_kinds.at(simulated(tmp_path), "link@a")
    late = [frame for frame in frames if frame.time_s - frames[0].time_s >= from_s]
    found = estimate(measure([capture_kinds.save(tmp_path / "late.pcap", late)]))
    text = output.toml(found, "late", ("a", "b"))
    assert found.delay_s is not None
    assert found.delay_is_bound == (from_s > 0)
    if from_s:
        assert found.delay_s.value > 2 * 0.006
        assert "\ndelay" not in text
        assert "delay" not in "".join(line for line in output.netem(found) if "netem" in line)
    else:
        assert found.delay_s.value == pytest.approx(0.006, rel=0.05)


def test_a_flow_before_the_clock_was_set_is_none_of_the_part_after_it(tmp_path: Path) -> None:
    talk = capture_kinds.Talk(0.02)
    for _ in range(10):
        talk.data(100)
    early = [capture_kinds.Frame(time_s + 1000, data) for time_s, data in talk.frames]
    file = simulated(tmp_path)
    files = [
        capture_kinds.save(tmp_path / f"{end}.pcap", early + capture_kinds.at(file, f"link@{end}"))
        for end in "ab"
    ]
    found = estimate(measure(files))
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(0.006, rel=0.05)
