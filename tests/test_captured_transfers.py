"""Transfers whose truth is known, as captures show them: the kernel's, emulated, and our own."""

import math
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
@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("devices", ["veth"], indirect=True)
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
    truth = captured_transfers.Truth(drawn, 100, 40, 40, 0.0, has_overflowed=True, late_p99_ms=0.0)
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
    told = [one for one in flow["sentences"] if "The scale of 10.0.0.2's receive window" in one]
    assert len(told) == (from_s > 0)


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


BURSTS = {
    "links.link.rate": "'8 Mbit/s'",
    "links.link.delay": "'30 ms'",
    "links.link.queue": "{ kind = 'drop_tail', packets = 60 }",
    "links.link.loss": "{ kind = 'gilbert', p = 0.002, r = 0.33, loss_in_bad = 1 }",
    "run.duration": "'12 s'",
}
"""Several packets of a window are lost one after the other."""


def bursty(folder: Path, sack: str = "true") -> Path:
    """A capture of both ends."""
    file = folder / "bursty.pcapng"
    scenario = anabranch.load(SLOW, set=BURSTS | {"flows.f.transport.sack": sack})
    anabranch.run(scenario, pcap=file, pcap_at="all")
    return file


def missed(whole: Path) -> tuple[list[float], list[float]]:
    """When the receiver misses each lost packet, and when it gets what is sent again.

    It misses a packet when the next one comes. In s after the first packet.
    """
    near, far = (capture_kinds.at(whole, f"link@{end}") for end in ("a", "b"))
    came = {frame.data: frame.time_s for frame in far}
    found, next_s = [], math.inf  # the last ones are still on their way
    for frame in reversed([frame for frame in near if len(frame.data) > 1000]):
        if frame.data not in came and next_s < math.inf:
            found.append(next_s - near[0].time_s)
        next_s = came.get(frame.data, next_s)
    highest, again = 0, []
    for frame in (frame for frame in far if len(frame.data) > 1000):
        number = int.from_bytes(frame.data[24:28])
        if number < highest:
            again.append(frame.time_s - near[0].time_s)
        highest = max(highest, number)
    return sorted(found), again


def since(folder: Path, whole: Path, node: str, from_s: float) -> Path:
    """What one end sees from then on."""
    near, own = (capture_kinds.at(whole, f"link@{end}") for end in ("a", node))
    kept = [frame for frame in own if frame.time_s - near[0].time_s >= from_s]
    return capture_kinds.save(folder / f"{node}.pcap", kept)


@pytest.mark.parametrize("sack", ["true", "false"])
@pytest.mark.parametrize("from_s", [0.0, 4.0])
def test_a_rate_is_not_more_than_the_links(tmp_path: Path, sack: str, from_s: float) -> None:
    """An acknowledgement that jumps when a hole is filled reports what had arrived before."""
    file = since(tmp_path, bursty(tmp_path, sack), "a", from_s)
    found = estimate(measure([file]))
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value <= 8e6 * (1.01 if sack == "true" else 1.05)


@pytest.mark.parametrize("from_s", [0.0, 4.0])
def test_a_rate_where_the_options_of_acknowledgements_are_cut_off(
    tmp_path: Path, from_s: float
) -> None:
    """As with `tcpdump -s 68`: several holes are filled one after the other."""
    frames = capture_kinds.at(bursty(tmp_path), "link@a")
    kept = [frame for frame in frames if frame.time_s - frames[0].time_s >= from_s]
    file = capture_kinds.save(tmp_path / "short.pcap", kept, snap=54)
    found = estimate(measure([file]))
    assert found.rate_bit_per_s is not None
    assert 0.9 * 8e6 <= found.rate_bit_per_s.value <= 1.05 * 8e6


@pytest.mark.parametrize("node", ["a", "b"])
@pytest.mark.parametrize("last_first", [False, True])
def test_a_packet_in_fragments_is_one_packet(
    tmp_path: Path, node: str, *, last_first: bool
) -> None:
    frames = capture_kinds.at(bursty(tmp_path), f"link@{node}")
    whole = capture_kinds.save(tmp_path / "whole.pcap", frames)
    parts = capture_kinds.fragmented(frames, 576, last_first=last_first)
    cut = capture_kinds.save(tmp_path / "cut.pcap", parts)
    one, other = (estimate(measure([file])) for file in (whole, cut))
    assert one.losses is not None
    assert other.losses is not None
    assert (other.losses.count, other.losses.sent) == (one.losses.count, one.losses.sent)
    assert other.rate_bit_per_s == one.rate_bit_per_s is not None
    assert other.delay_s == one.delay_s is not None
    assert captured.explain(cut).as_json()["flows"] == captured.explain(whole).as_json()["flows"]


def test_holes_from_before_the_capture_are_none_of_its_losses(tmp_path: Path) -> None:
    """It begins with what fills the first of several: what fills the others was lost before."""
    whole = bursty(tmp_path)
    times_s, again = missed(whole)
    assert len(again) > 5
    for at_s in again[0:6:2]:
        from_s = at_s - 1e-5
        file = since(tmp_path, whole, "b", from_s)
        lost = sum(time_s > from_s for time_s in times_s)
        losses = measure([file]).losses
        assert losses is not None
        assert int(losses.lost.sum()) == lost > 40
        (flow,) = captured.explain(file).as_json()["flows"]
        counted = [
            way["losses"]["lost"] for end in flow["ends"].values() for way in end["paths"].values()
        ]
        assert max(counted) == lost


def test_no_timer_is_shorter_than_a_round_trip(tmp_path: Path) -> None:
    whole = bursty(tmp_path)
    moments = missed(whole)[0][1::12]
    assert len(moments) > 2
    for from_s in moments:
        file = since(tmp_path, whole, "a", from_s)
        (flow,) = captured.explain(file).as_json()["flows"]
        assert all(one["waited_s"] >= 0.06 for one in flow["timeouts"])
