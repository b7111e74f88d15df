"""`explain` of the captures that people have: each case with its right answer, and each kind."""

import math
import random
from pathlib import Path

import dpkt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import anabranch
from anabranch import explain
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.explain.captured import Explained
from anabranch.explain.captured.sender import Sender
from anabranch.profile import estimate, measure
from capture_kinds import (
    ACK,
    COOKED,
    ETHERNET,
    PSH,
    Call,
    Frame,
    Frames,
    Talk,
    at,
    cooked,
    in_vlan,
    mirrored,
    offloaded,
    payload_of,
    save,
    set_back,
)
from conftest import ROOT, Command, one_error

CASES = Path(__file__).parent / "cases" / "captures"

LINK = """\
name = "kinds"
seed = {seed}
run.duration = "{seconds} s"
[links.wan]
ends = ["a", "b"]
rate = "8 Mbit/s"
delay = "{delay} ms"
loss = {{ kind = "bernoulli", probability = "{loss} %" }}
queue = {{ kind = "drop_tail", packets = 100 }}
[paths.only]
via = ["wan"]
[flows.load]
from = "a"
to = "b"
paths = ["only"]
transport = {transport}
app = {app}
"""


def run(folder: Path, **others: object) -> tuple[Path, dict[str, float]]:
    """A run's capture and its scalars."""
    values = {
        "seed": 1, "seconds": 4, "delay": 20, "loss": 1,
        "transport": "{ kind = 'tcp' }", "app": "{ kind = 'bulk' }",
    }  # fmt: skip
    file = folder / f"run-{len(list(folder.iterdir()))}.pcapng"
    scenario = anabranch.load(LINK.format(**values | others))
    return file, anabranch.run(scenario, pcap=file, pcap_at="all").summary


def case(name: str) -> list[Explained]:
    return captured.explain(CASES / f"{name}.pcap").flows


def lost(flow: Explained, side: int = 0) -> tuple[int, int]:
    (way,) = flow.ways[side]
    return way.losses.lost, way.losses.packets


def share(flow: Explained, limit: str, path: int = 0) -> float:
    assert flow.account is not None
    return flow.account.sender.paths[path].share(limit)


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_receiver_waits_for_was_lost_behind_this_place(
    tmp_path: Path, *, waits: bool
) -> None:
    """What comes again although it is here counts if the receiver still asks for it."""
    talk = Talk(0.03)
    ends = iter(range(6001, 100_000, 1000))
    for burst in range(10):
        first = 5001 + 4000 * burst
        for number in range(4):
            talk.wait(1e-4)
            talk.packet(ACK, first + 1000 * number, 1001, 1000, forward=False)
            talk.wait(1e-4)
            end = next(ends)
            # In every second burst the first packet does not get to the receiver.
            talk.packet(ACK, 1001, first if waits and burst % 2 else end)
        talk.wait(0.03)
        if burst % 2:
            talk.packet(ACK, first, 1001, 1000, forward=False)
            talk.wait(1e-4)
            talk.packet(ACK, 1001, first + 4000)
    (flow,) = captured.explain(save(tmp_path / "behind.pcap", talk.frames)).flows
    assert any(note.startswith("Captured at 192.0.2.1, which got the data") for note in flow.notes)
    assert lost(flow, 1) == ((5, 45) if waits else (0, 45))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clean-base-v4", (5, 405)),
        ("clean-base-v6", (5, 405)),
        ("clock-step-back", (5, 405)),
        ("clock-step-back-v6", (5, 405)),
        ("dup-20us-v4", (5, 405)),
        ("dup-20us-v6", (5, 405)),
        ("dup-3ms-v4", (5, 405)),
        ("dup-4x-id0", (0, 120)),
        ("interactive-crash", (0, 74)),
        ("keepalive-1-byte", (0, 35)),
        ("mpls", (1, 61)),
        ("pppoe", (1, 61)),
        ("reordered-at-receiver", (0, 300)),
        ("sctp-dup-208us", (0, 30)),
        ("sctp-signalling-delayed-sack", (0, 30)),
        ("sctp-signalling-hb", (0, 30)),
        ("sctp-zero-tail", (0, 30)),
        ("short-request", (0, 2)),
        ("sll-vlan", (1, 61)),
        ("tso-10mss", (12, 1212)),
        ("tso-base-1mss", (12, 1212)),
        ("tso-far-1mss", (12, 1212)),
        ("zero-window-linux", (0, 41)),
        ("zero-window-windows", (0, 41)),
    ],
)
def test_the_losses_of_each_case(name: str, expected: tuple[int, int]) -> None:
    (flow,) = case(name)
    assert lost(flow) == expected


def test_what_is_said_of_the_cases() -> None:
    for name, said in [
        ("clock-step-back", "The clock was set back once, by up to 30 s, first 0.269 s after"),
        ("clock-step-back-v6", "The clock was set back once, by up to 1 s, first 0.269 s after"),
    ]:
        assert said in "\n".join(captured.explain(CASES / f"{name}.pcap").notes)
    for name, said in [
        ("dup-3ms-v4", "Left out: 808 copies of packets"),
        ("dup-4x-id0", "Left out: 729 copies of packets"),
        ("sctp-dup-208us", "Left out: 72 copies of packets"),
        ("tso-10mss", "of up to 14,600 bytes are cut into segments of at most 1,460"),
        ("keepalive-1-byte", "12 keep-alives asked whether the peer is still there"),
        ("reordered-at-receiver", "15 came out of order"),
        ("sctp-signalling-delayed-sack", "its round trip is at most 210 ms"),
        ("sctp-signalling-hb", "that of what is answered at once, 10 ms at least"),
    ]:
        (flow,) = case(name)
        assert said in "\n".join(flow.sentences()), name


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_a_closed_window_of_each_system(system: str) -> None:
    (flow,) = case(f"zero-window-{system}")
    assert share(flow, "receive_window_limited") == pytest.approx(0.905, abs=0.01)
    assert flow.main is not None
    assert flow.main.kind == "slow_reader"
    assert "5 probes asked whether it still was: the receiver reads slowly" in flow.main.text
    assert flow.senders[0] is not None
    assert flow.senders[0].expiries == []


@pytest.mark.parametrize("name", ["sctp-signalling-hb", "sctp-dup-208us", "sctp-zero-tail"])
def test_heartbeats_measure_and_a_second_path_stands_by(name: str) -> None:
    (flow,) = case(name)
    assert flow.account is not None
    first, second = flow.account.sender.paths
    assert [first.srtt_ms, second.srtt_ms] == pytest.approx([10, 30])
    assert share(flow, "standby", 1) == 1.0
    assert share(flow, "handshake", 0) == 0.0


def test_a_delayed_acknowledgement_measures_nothing() -> None:
    (flow,) = case("sctp-signalling-delayed-sack")
    assert flow.account is not None
    assert math.isnan(flow.account.sender.paths[0].srtt_ms)
    assert flow.ways[0][0].waits is None
    (flow,) = case("short-request")
    assert flow.account is not None
    assert flow.account.sender.paths[0].srtt_ms == pytest.approx(40)


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_of_multipath_tcp_are_one_connection(version: int) -> None:
    (flow,) = case(f"mptcp-v{version}-two-subflows")
    assert flow.flow.protocol == "MPTCP"
    assert [way.losses.lost for way in flow.ways[0]] == [0, 0]
    assert "attempts" not in "\n".join(flow.sentences())


@pytest.mark.parametrize("name", ["interactive-crash", "mptcp-v0-two-subflows"])
def test_the_window_does_not_hold_what_went_beyond_it(name: str) -> None:
    """These have windows of 500 bytes without a scale, and more under way than that."""
    (flow,) = case(name)
    assert flow.main is not None
    assert flow.main.kind == "application"
    assert share(flow, "receive_window_limited") < 0.01


def test_what_held_the_far_end_back_is_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    (flow,) = case("short-request")
    assert flow.seen == (0,)
    ends = flow.as_json()["ends"]
    assert "srtt_ms" in ends["a"]["paths"]["path"]
    assert ends["b"]["paths"]["path"].keys() == {"losses", "waits", "packets_sent_again"}
    Console(width=200).print(*flow.parts(200))
    assert "(side a) back" in (text := capsys.readouterr().out)
    assert "(side b) back" not in text


def test_datagrams_without_numbers() -> None:
    (flow,) = case("bacnet-is-not-rtp")
    assert {way.losses.known_by for ways in flow.ways for way in ways} == {"nothing"}
    assert flow.calls == ()


def test_echoes_are_named_with_what_reads_them() -> None:
    with pytest.raises(AnabranchError, match=r"117 packets of ICMP, .* `anabranch profile` reads"):
        case("icmp-same-number")


@pytest.mark.parametrize("apart_s", [3e-6, 208e-6, 3e-3])
@pytest.mark.parametrize(("times", "identified"), [(2, True), (2, False), (4, False)])
def test_seen_several_times_is_sent_once(
    tmp_path: Path,
    times: int,
    apart_s: float,
    identified: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Whatever the copies, what is found is what is found without them."""
    file, _ = run(tmp_path)
    frames = at(file, "wan@a")
    (once,) = captured.explain(save(tmp_path / "once.pcap", frames)).flows
    copied = mirrored(frames, times, apart_s / times, identified=identified)
    (often,) = captured.explain(save(tmp_path / "often.pcap", copied)).flows
    assert lost(once)[0] > 5
    assert lost(often) == lost(once)
    assert often.flow.packets == once.flow.packets == len(frames)
    assert often.flow.copies == len(copied) - len(frames)
    assert often.main is not None
    assert once.main is not None
    assert often.main.kind == once.main.kind


@pytest.mark.parametrize("apart_s", [0.0, 0.013, 0.7, -0.7])
def test_captures_of_both_ends_merged_into_one_file(tmp_path: Path, apart_s: float) -> None:
    """Without interfaces, and with clocks that do not agree: time stamps tell what is a copy."""
    file, scalars = run(tmp_path, seconds=6)
    near, far = at(file, "wan@a"), at(file, "wan@b")
    late = [Frame(time_s + apart_s, data) for time_s, data in far]
    merged = sorted(near + late, key=lambda frame: frame.time_s)
    (flow,) = captured.explain(save(tmp_path / "merged.pcap", merged)).flows
    dropped = scalars["link.wan.forward.lost_packets"]
    assert dropped > 10
    assert lost(flow)[0] == pytest.approx(dropped, abs=2)
    count = sum(payload_of(data) > 0 for _, data in near)
    # Where the receiver's clock is behind, what was lost comes after what was sent in its place.
    assert lost(flow)[1] == pytest.approx(count, abs=dropped if apart_s < 0 else 0)
    assert any("copies of packets" in note for note in flow.notes)
    profile = estimate(measure([tmp_path / "merged.pcap"]))
    assert profile.losses is not None
    assert profile.losses.count == pytest.approx(dropped, abs=3)


def in_ticks(frames: list[Frame], tick_s: float) -> list[Frame]:
    """As seen by a clock that has only whole ticks."""
    return [frame._replace(time_s=int(frame.time_s / tick_s) * tick_s) for frame in frames]


@pytest.mark.parametrize("tick_s", [1e-9, 1e-3, 0.01])
@pytest.mark.parametrize(("seed", "loss"), [(1, 1), (2, 0.3), (3, 0)])
def test_both_ends_of_an_association_in_one_file(
    tmp_path: Path, seed: int, loss: float, tick_s: float
) -> None:
    """Copies wait in the queue for more than a round trip, and SCTP has no time stamps."""
    file, _ = run(tmp_path, seed=seed, loss=loss, transport="{ kind = 'sctp' }", seconds=8)
    near, far = at(file, "wan@a"), at(file, "wan@b")
    merged = in_ticks(sorted(near + far, key=lambda frame: frame.time_s), tick_s)
    (alone,) = captured.explain(save(tmp_path / "a.pcap", in_ticks(near, tick_s))).flows
    (flow,) = captured.explain(save(tmp_path / "merged.pcap", merged)).flows
    assert lost(flow) == lost(alone)
    assert (lost(flow)[0] > 10) == (loss == 1)
    wanted, found = (
        estimate(measure([tmp_path / f"{name}.pcap"])).losses for name in ("a", "merged")
    )
    assert wanted is not None
    assert found is not None
    assert found.count == wanted.count


@pytest.mark.parametrize("tick_s", [1e-3, 4e-3, 0.01, 1 / 64])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_clock_in_ticks_makes_no_loss_an_overtaking(
    tmp_path: Path, seed: int, tick_s: float
) -> None:
    """At a receiver: what is sent again may seem to come up to a tick sooner than a round trip."""
    file, _ = run(tmp_path, seed=seed, transport="{ kind = 'sctp' }", seconds=8)
    frames = at(file, "wan@b")
    (fine,) = captured.explain(save(tmp_path / "fine.pcap", frames)).flows
    (ticks,) = captured.explain(save(tmp_path / "t.pcap", in_ticks(frames, tick_s))).flows
    (way,) = ticks.ways[0]
    assert way.losses.known_by == "holes"
    assert lost(ticks) == lost(fine)
    assert lost(fine)[0] > 10
    assert way.losses.out_of_order == 0


@pytest.mark.parametrize("transport", ["{ kind = 'sctp' }", "{ kind = 'tcp' }"])
@pytest.mark.parametrize("has_data", [True, False])
def test_one_direction_does_not_show_what_held_the_sender_back(
    tmp_path: Path, transport: str, *, has_data: bool
) -> None:
    file, scalars = run(tmp_path, transport=transport)
    frames = at(file, "wan@a")
    first = frames[0].data[12:16]
    one = [frame for frame in frames if (frame.data[12:16] == first) is has_data]
    (flow,) = captured.explain(save(tmp_path / "one.pcap", one)).flows
    assert flow.account is None
    assert flow.main is None
    far = "10.0.0.2" if has_data else "10.0.0.1"
    why = f"The capture has nothing that {far} sent: what held the sender back is not seen."
    assert why in flow.notes
    assert ("No packet carries data." in flow.notes) is not has_data
    if has_data:
        assert lost(flow)[0] == scalars["link.wan.forward.lost_packets"]
    with pytest.raises(AnabranchError, match=r"only what one end of the .* flow sent"):
        measure([tmp_path / "one.pcap"])


@pytest.mark.parametrize("by_s", [0.6, 1.0, 3600.0])
def test_a_clock_that_is_set_back(tmp_path: Path, by_s: float) -> None:
    file, _ = run(tmp_path)
    frames = at(file, "wan@a")
    (plain,) = captured.explain(save(tmp_path / "plain.pcap", frames)).flows
    found = captured.explain(save(tmp_path / "back.pcap", set_back(frames, by_s)))
    assert lost(found.flows[0]) == lost(plain)
    assert "The clock was set back once" in "\n".join(found.notes)
    (way,), (other,) = found.flows[0].ways[0], plain.ways[0]
    assert way.waits is not None
    assert other.waits is not None
    assert way.waits.least_ms >= other.waits.least_ms - 0.01
    assert way.waits.most_ms <= other.waits.most_ms + 0.01


@pytest.mark.parametrize("most", [2, 10, 44])
def test_offload_at_the_sender_is_counted_in_segments(tmp_path: Path, most: int) -> None:
    app = "{ kind = 'bulk' }"
    file, summary = run(tmp_path, transport="{ kind = 'tcp', cc = { kind = 'reno' } }", app=app)
    frames = at(file, "wan@a")
    joined = offloaded(frames, most)
    assert len(joined) < len(frames)
    (flow,) = captured.explain(save(tmp_path / "offload.pcap", joined, snap=96)).flows
    again = summary["load.tcp.a.data_segments_retransmitted"]
    assert lost(flow) == (again, lost_of(frames, tmp_path)[1])
    assert "(segmentation offload): segments are counted" in "\n".join(flow.sentences())


def lost_of(frames: Frames, folder: Path) -> tuple[int, int]:
    (flow,) = captured.explain(save(folder / "plain.pcap", frames)).flows
    return lost(flow)


@pytest.mark.parametrize("seed", range(6))
def test_random_paths_at_either_end(tmp_path: Path, seed: int) -> None:
    """What the sender sent again, to the packet; at the receiver, what was lost before it."""
    source = random.Random(seed)
    file, summary = run(
        tmp_path,
        seed=seed,
        delay=source.randrange(2, 120),
        loss=round(10 ** source.uniform(-1, 0.7), 2),
        seconds=10,
    )
    (sender,) = captured.explain(save(tmp_path / "a.pcap", at(file, "wan@a"))).flows
    assert lost(sender)[0] == summary["load.tcp.a.data_segments_retransmitted"]
    (receiver,) = captured.explain(save(tmp_path / "b.pcap", at(file, "wan@b"))).flows
    (way,) = receiver.ways[0]
    truth = (
        summary["link.wan.forward.lost_packets"] + summary["link.wan.forward.queue_full_packets"]
    )
    assert way.losses.known_by == "holes"
    assert way.losses.out_of_order == 0
    # Of what is sent again some is lost again, which no hole shows twice.
    assert way.losses.lost <= truth
    assert way.losses.lost == pytest.approx(truth, abs=max(3, 0.12 * truth))


@pytest.mark.parametrize("loss", [0, 1])
def test_reordering_at_the_receiver_is_no_loss(tmp_path: Path, loss: int) -> None:
    """Every tenth packet of data comes 1 ms late, overtaken by others or not."""
    file, summary = run(tmp_path, loss=loss)
    frames = [
        frame._replace(time_s=frame.time_s + 2e-3 * (number % 10 == 9 and len(frame.data) > 500))
        for number, frame in enumerate(at(file, "wan@b"))
    ]
    frames.sort(key=lambda frame: frame.time_s)
    (flow,) = captured.explain(save(tmp_path / "late.pcap", frames)).flows
    (way,) = flow.ways[0]
    assert way.losses.known_by == "holes"
    assert way.losses.out_of_order > 50
    truth = summary["link.wan.forward.lost_packets"] + summary.get(
        "link.wan.forward.queue_full_packets", 0
    )
    assert way.losses.lost == pytest.approx(truth, abs=max(1, 0.1 * truth))


def test_equal_addresses_in_two_vlans_are_two_flows(tmp_path: Path) -> None:
    frames: Frames = []
    expected = []
    for vlan, seed in ((5, 1), (6, 2)):
        file, _ = run(tmp_path, seed=seed)
        own = at(file, "wan@a")
        expected.append(lost_of(own, tmp_path))
        frames += in_vlan(own, vlan)
    frames.sort(key=lambda frame: frame.time_s)
    flows = captured.explain(save(tmp_path / "vlans.pcap", frames, ETHERNET)).flows
    assert sorted(lost(flow) for flow in flows) == sorted(expected)
    assert expected[0] != expected[1]
    assert len({flow.flow.name for flow in flows}) == 2


def test_one_flow_that_a_router_shows_in_two_vlans(tmp_path: Path) -> None:
    file, _ = run(tmp_path)
    own = at(file, "wan@a")
    late = [frame._replace(time_s=frame.time_s + 1e-4) for frame in own]
    frames = sorted(in_vlan(own, 5) + in_vlan(late, 6), key=lambda frame: frame.time_s)
    (flow,) = captured.explain(save(tmp_path / "routed.pcap", frames, ETHERNET)).flows
    assert lost(flow) == lost_of(own, tmp_path)
    assert flow.flow.copies == len(own)


def test_a_router_shows_each_packet_at_two_of_its_interfaces(tmp_path: Path) -> None:
    """`tcpdump -i any`: in at one, out at the other, and back; both are one place on the path."""
    file, _ = run(tmp_path)
    own = at(file, "wan@a")
    forward = [frame for frame in own if frame.data[12:16] == own[0].data[12:16]]
    back = [frame for frame in own if frame.data[12:16] != own[0].data[12:16]]
    late = [[f._replace(time_s=f.time_s + 2e-4) for f in frames] for frames in (forward, back)]
    frames = cooked(forward, 2) + cooked(late[0], 3) + cooked(back, 3) + cooked(late[1], 2)
    frames.sort(key=lambda frame: frame.time_s)
    (flow,) = captured.explain(save(tmp_path / "any.pcap", frames, COOKED)).flows
    assert lost(flow) == lost_of(own, tmp_path)
    assert flow.flow.copies == len(own)
    assert flow.ways[0][0].losses.known_by == "repeats"


def test_two_ends_that_one_capture_has(tmp_path: Path) -> None:
    """Both ends' captures merged: what does not come to the other end is lost, and delays are one
    way."""
    file, summary = run(tmp_path)
    frames = cooked(at(file, "wan@a"), 2) + cooked(at(file, "wan@b"), 3)
    frames.sort(key=lambda frame: frame.time_s)
    (flow,) = captured.explain(save(tmp_path / "both.pcap", frames, COOKED)).flows
    (way,) = flow.ways[0]
    assert way.losses.known_by == "places"
    truth = summary["link.wan.forward.lost_packets"] + summary.get(
        "link.wan.forward.queue_full_packets", 0
    )
    assert way.losses.lost == truth
    assert way.waits is not None
    assert way.waits.is_one_way
    assert way.waits.least_ms == pytest.approx(21.5, abs=0.1)
    assert flow.flow.copies == 0


@pytest.mark.parametrize("octets", [0, 1])
def test_keepalives(tmp_path: Path, octets: int) -> None:
    talk = Talk(0.03)
    for _ in range(20):
        talk.data(200)
        talk.wait(45)
        talk.ask(octets)
    (flow,) = captured.explain(save(tmp_path / "alive.pcap", talk.frames)).flows
    assert lost(flow) == (0, 20)
    assert flow.main is not None
    assert flow.main.kind == "application"
    assert "20 keep-alives asked" in flow.main.text
    assert share(flow, "application_limited") > 0.99


@pytest.mark.parametrize("probe", ["none", "before", "next", "taken"])
def test_probes_of_a_closed_window(tmp_path: Path, probe: str) -> None:
    """Of Linux, of others with the byte before, of BSD and Windows with the next one."""
    talk = Talk(0.03)
    for _ in range(20):
        talk.data(500)
    for _ in range(3):
        talk.window = 0
        talk.data(500)
        for time in range(4):
            talk.wait(0.3 * 2**time)
            talk.ask(int(probe != "none"), is_new=probe in {"next", "taken"})
        talk.window = 50_000
        talk.sent += probe == "taken"
        talk.answer()
        talk.data(500)
    (flow,) = captured.explain(save(tmp_path / "closed.pcap", talk.frames)).flows
    assert lost(flow) == (0, 26)
    closed_s = 3 * (0.3 * 15 + 5 * 0.03)
    whole_s = talk.frames[-1].time_s
    assert share(flow, "receive_window_limited") == pytest.approx(closed_s / whole_s, abs=0.02)
    assert flow.main is not None
    assert flow.main.kind == "slow_reader"
    assert "12 probes asked" in flow.main.text
    assert flow.senders[0] is not None
    assert flow.senders[0].expiries == []


@pytest.mark.parametrize("window", [500, 1500, 2500, 3999, 4000, 4500])
def test_a_window_that_data_goes_beyond(tmp_path: Path, window: int) -> None:
    """The capture lacks acknowledgements, or something took the window's scale out of the SYN."""
    talk = Talk(0.03)
    talk.window = window
    talk.data(1000)  # sent by the window of the handshake
    for _ in range(20):
        for _ in range(4):
            talk.packet(ACK | PSH, talk.sent, 5001, 1000)
            talk.sent += 1000
        talk.answer()
        talk.wait(1e-3)
    (flow,) = captured.explain(save(tmp_path / "beyond.pcap", talk.frames)).flows
    beyond = 20 * max(0, 4 - window // 1000)
    words = "beyond 192.0.2.2's receive window as it is in the capture"
    said = [note for note in flow.notes if words in note]
    assert len(said) == bool(beyond)
    assert all(one.startswith(f"{beyond} packets went {words}") for one in said)
    held = share(flow, "receive_window_limited")
    assert held < 0.1 if beyond else held > 0.8


def test_a_closed_window_that_nothing_waited_for(tmp_path: Path) -> None:
    """The application had sent what it had; the window opens, and nothing comes for long."""
    talk = Talk(0.03)
    for _ in range(20):
        talk.data(500)
    talk.window = 0
    talk.data(500)
    talk.wait(10)
    talk.window = 50_000
    talk.answer()
    talk.wait(5)
    talk.data(500)
    (flow,) = captured.explain(save(tmp_path / "idle.pcap", talk.frames)).flows
    assert share(flow, "receive_window_limited") < 0.01
    assert flow.main is not None
    assert flow.main.kind == "application"


def test_packets_that_all_have_one_time(tmp_path: Path) -> None:
    """As programs write them that make captures of bytes."""
    talk = Talk(0.0)
    for _ in range(20):
        talk.data(500)
    (flow,) = captured.explain(save(tmp_path / "made.pcap", talk.frames)).flows
    assert lost(flow) == (0, 20)
    assert flow.ways[1] == []
    assert flow.as_json()["sender"] == "a"
    assert "No packet carries data." not in flow.notes
    assert not any(note.startswith("Captured at 192.0.2.1") for note in flow.notes)


def test_a_recovery_at_one_time_takes_no_part_of_it(tmp_path: Path) -> None:
    """Also one that found losses has no time of which it could be a part."""
    with (CASES / "clean-base-v4.pcap").open("rb") as file:
        capture = dpkt.pcap.Reader(file)
        frames = [Frame(0.0, data) for _, data in capture]
        made = save(tmp_path / "made.pcap", frames, capture.datalink())
    (flow,) = captured.explain(made).flows
    assert lost(flow)[0] == 5
    assert "1 fast recovery took 0 s (0 % of the time)" in str(flow.as_json())


def test_a_syn_that_is_sent_again_is_no_data(tmp_path: Path) -> None:
    talk = Talk(0.03)
    asked = talk.frames[0]
    again = [asked._replace(time_s=asked.time_s - wait_s) for wait_s in (3.0, 1.0)]
    for _ in range(20):
        talk.data(500)
    (flow,) = captured.explain(save(tmp_path / "syn.pcap", again + talk.frames)).flows
    assert lost(flow) == (0, 20)
    assert "with 3 attempts" in "\n".join(flow.sentences())
    assert flow.account is not None
    # What answers one of several is no round trip.
    assert flow.account.sender.paths[0].srtt_ms != flow.account.sender.paths[0].srtt_ms


@pytest.mark.parametrize("transport", ["{ kind = 'sctp' }", "{ kind = 'tcp' }"])
@pytest.mark.parametrize("begins", [0, 100])
def test_ports_that_are_used_again(tmp_path: Path, transport: str, begins: int) -> None:
    """As a host of signalling does whose association has failed: each is a flow of its own."""
    frames: Frames = []
    expected = []
    app = "{ kind = 'bulk', bytes = '300 kB' }"
    for seed in (1, 2, 3):
        file, _ = run(tmp_path, transport=transport, app=app, seed=seed)
        part = at(file, "wan@a")
        # The first one may have begun before the capture.
        part = part[begins:] if seed == 1 else part
        (alone,) = captured.explain(save(tmp_path / "alone.pcap", part)).flows
        expected.append((*lost(alone), len(sender_of(alone).expiries)))
        after_s = frames[-1].time_s + 1 if frames else 0.0
        frames += [Frame(time_s + after_s, data) for time_s, data in part]
    found = captured.explain(save(tmp_path / "again.pcap", frames)).flows
    found.sort(key=lambda flow: flow.flow.start_s)
    assert [(*lost(one), len(sender_of(one).expiries)) for one in found] == expected
    assert [one.flow.name.partition(" (")[2][1:] for one in found] == [" of 3)"] * 3
    profile = estimate(measure([tmp_path / "again.pcap"]))
    assert any("2 more are not looked at" in note for note in profile.measurement.notes)
    assert profile.losses is not None
    assert profile.losses.count in {count for count, _, _ in expected}
    assert profile.losses.sent < 250


def sender_of(flow: Explained) -> Sender:
    assert flow.senders[0] is not None
    return flow.senders[0]


def test_an_association_that_began_before_the_capture(tmp_path: Path) -> None:
    scenario = anabranch.load(ROOT / "scenarios" / "failover.toml", set={"run.duration": "'9 s'"})
    file = tmp_path / "run.pcapng"
    anabranch.run(scenario, pcap=file, pcap_at="all")
    both = sorted(at(file, "first@caller") + at(file, "second@caller"), key=lambda one: one.time_s)
    frames = [frame for frame in both if frame.time_s > 2]
    (flow,) = captured.explain(save(tmp_path / "later.pcap", frames)).flows
    assert [share(flow, "handshake", path) for path in range(len(flow.flow.paths))] == [0.0] * len(
        flow.flow.paths
    )
    assert [share(flow, "standby", path) for path in range(1, len(flow.flow.paths))] == [1.0] * (
        len(flow.flow.paths) - 1
    )


CALL = (
    "{{ kind = 'voip', codec = '{codec}', emodel = 'g107', delay = 'mouth_to_ear', "
    "burst_ratio = 'measured', jitter_buffer = {{ kind = 'fixed', depth = '100 ms' }} }}"
)


@pytest.mark.parametrize("codec", ["g711+plc", "g711"])
def test_a_call_is_worth_what_the_run_says(tmp_path: Path, codec: str) -> None:
    file, summary = run(
        tmp_path,
        seconds=120,
        loss=4,
        transport="{ kind = 'udp', rtp = true }",
        app=CALL.format(codec=codec),
    )
    (flow,) = captured.explain(file, codec=codec).flows
    (rated,) = flow.calls
    assert rated.call is not None
    assert rated.call.mos == pytest.approx(summary["load.mos"], abs=0.05)
    assert sum(cost.mos for cost in rated.call.costs) == pytest.approx(
        rated.call.best - rated.call.mos
    )
    # At one end the delay is not known, but the losses are.
    (one,) = captured.explain(file, codec=codec, interfaces=["wan@b"]).flows
    (heard,) = one.calls
    assert heard.call is not None
    assert heard.lost == pytest.approx(rated.lost, abs=2)
    assert dict(heard.delayed)[50.0] < heard.call.mos
    assert one.main is not None
    assert one.main.kind == "loss"
    assert "RFC 2198" in "\n".join(one.sentences())


def test_a_call_whose_codec_nothing_says(tmp_path: Path, anabranch: Command) -> None:
    file, _ = run(
        tmp_path,
        seconds=20,
        transport="{ kind = 'udp', rtp = true }",
        app="{ kind = 'voip', codec = 'amr-12.2' }",
    )
    (flow,) = captured.explain(file).flows
    assert flow.calls[0].call is None
    assert "--codec CODEC rates the call" in "\n".join(flow.sentences())
    done = anabranch("explain", file, "--codec", "g711")
    assert done.returncode == 0, done.stderr
    assert "MOS" in done.stdout
    assert "g999" in one_error(anabranch("explain", file, "--codec", "g999"))
    # G.113 has no Bpl of it.
    (flow,) = captured.explain(file, codec="g722").flows
    assert flow.calls[0].call is None
    assert "no MOS for g722 (ITU-T G.113" in "\n".join(flow.sentences())
    (wide,) = captured.explain(file, codec="amr-wb-12.65").flows
    assert wide.calls[0].call is not None


def test_sctp_gets_no_advice_that_its_stacks_lack(tmp_path: Path) -> None:
    file, _ = run(tmp_path, transport="{ kind = 'sctp' }", loss=3)
    (flow,) = captured.explain(file).flows
    assert flow.main is not None
    assert flow.main.kind == "losses"
    assert "bbr" not in flow.main.advice
    assert "anabranch advise" in flow.main.advice
    sets = {"transport": "{ kind = 'sctp' }", "loss": 3, "seed": 1, "seconds": 20, "delay": 20}
    scenario = tmp_path / "one.toml"
    scenario.write_text(LINK.format(**sets, app="{ kind = 'bulk' }"), encoding="utf-8")
    said = explain.explain(scenario, alone=False)
    assert said.main.kind == "losses"
    assert "bbr" not in said.main.advice


@pytest.mark.parametrize("above", [0, 1])
def test_reports_of_rtcp_measure_the_path(tmp_path: Path, above: int) -> None:
    """At the ports of RTP (RFC 5761) or above them: a round trip, and what the far end missed."""
    call = Call(0.18, 60, set(range(100, 3000, 50)), above=above)
    flows = captured.explain(save(tmp_path / "call.pcap", call.frames)).flows
    (flow,) = [one for one in flows if one.calls]
    sent, heard = flow.calls
    for rated in (sent, heard):
        assert rated.codec == "g711+plc"
        assert rated.reported is not None
        assert rated.reported.round_trip_s == pytest.approx(0.18, abs=1e-3)
        assert rated.reported.samples == 29
    assert sent.reported is not None
    assert (sent.reported.lost, sent.reported.expected) == (3 * 28, 100 * 28)
    assert "by RTCP its listener missed 84 of 2,800 packets (3 %)" in "\n".join(flow.sentences())
    assert (heard.lost, heard.frames) == (58, 3000)
    assert heard.call is not None
    assert heard.delayed == ()
    delay_ms = sum(cost.delay_ms for cost in heard.call.costs if cost.kind == "delay")
    assert delay_ms == pytest.approx(90, abs=1)


def test_reports_that_contradict_themselves_say_nothing(tmp_path: Path) -> None:
    call = Call(0.1, 20, set(), above=0)
    for number, frame in enumerate(call.frames):
        if frame.data[29] == 200:
            broken = bytearray(frame.data)
            broken[30:32] = (1).to_bytes(2)  # its length has no room for its block
            call.frames[number] = frame._replace(data=bytes(broken))
    (flow,) = captured.explain(save(tmp_path / "broken.pcap", call.frames)).flows
    assert [rated.reported.samples for rated in flow.calls if rated.reported] == [0, 0]
    assert [rated.reported.expected for rated in flow.calls if rated.reported] == [0, 0]


SMALL = sorted(file.name for file in CASES.glob("*.pcap") if file.stat().st_size < 12_000)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(SMALL),
    changes=st.lists(st.tuples(st.integers(24, 12_000), st.integers(0, 255)), max_size=30),
    length=st.integers(200, 12_000),
)
def test_whatever_a_capture_has_is_explained_or_refused(
    tmp_path: Path, name: str, changes: list[tuple[int, int]], length: int
) -> None:
    data = bytearray((CASES / name).read_bytes()[:length])
    for place, value in changes:
        if place < len(data):
            data[place] = value
    file = tmp_path / "changed.pcap"
    file.write_bytes(data)
    try:
        found = captured.explain(file)
    except AnabranchError:
        return
    for flow in found.flows:
        assert all(sentence for sentence in flow.sentences())
        for way in (*flow.ways[0], *flow.ways[1]):
            assert 0 <= way.losses.lost <= way.losses.packets
            assert way.waits is None or way.waits.least_ms >= 0
        if flow.account is not None:
            for path in flow.account.sender.paths:
                assert min(path.seconds.values()) >= 0
