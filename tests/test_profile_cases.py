"""Each case of tests/cases/captures has its right answer in `profile`."""

from pathlib import Path

import pytest

import anabranch
import capture_kinds
from anabranch.errors import AnabranchError
from anabranch.profile import Profile, estimate, measure, output
from support.written_transfers import delay_ms, is_valid, lost, note

CASES = Path(__file__).parent / "cases" / "captures"


def case(*names: str) -> Profile:
    return estimate(measure([CASES / f"{name}.pcap" for name in names]))


BASES = ["clean-base-v4", "clean-base-v6"]


COPIES = ["dup-20us-v4", "dup-20us-v6", "dup-3ms-v4"]


STEPS = ["clock-step-back", "clock-step-back-v6"]


@pytest.mark.parametrize("name", [*BASES, *COPIES, *STEPS])
def test_five_of_405_packets_are_lost(name: str) -> None:
    """Packets near the end, which may be sent again after it, do not count."""
    found = case(name)
    count, sent = lost(found)
    assert count == 5
    assert 395 <= sent <= 405
    assert delay_ms(found) == pytest.approx(10, abs=0.1)
    assert found.jitter_s is not None
    assert found.jitter_s.value == 0  # all differ by less than a nanosecond
    assert note(found, "copies of one that was captured before") == (name in COPIES)
    assert note(found, "the clock was set back once") == (name in STEPS)


@pytest.mark.parametrize(
    ("name", "delay"), [("dup-4x-id0", 10), ("keepalive-1-byte", 10), ("interactive-crash", 10),
                        ("zero-window-linux", 10), ("zero-window-windows", 10),
                        ("reordered-at-receiver", 10), ("mptcp-v0-two-subflows", 10),
                        ("mptcp-v1-two-subflows", 10), ("sctp-dup-208us", 5),
                        ("sctp-signalling-hb", 5), ("sctp-zero-tail", 5)]
)  # fmt: skip
def test_nothing_is_lost(name: str, delay: float) -> None:
    found = case(name)
    assert lost(found)[0] == 0
    assert delay_ms(found) == pytest.approx(delay, abs=0.1)
    assert not found.delay_is_bound
    assert found.rate_bit_per_s is None or found.rate_is_bound
    assert found.queue_packets is None


@pytest.mark.parametrize("name", ["pppoe", "mpls", "sll-vlan"])
def test_one_of_61_is_lost_behind_another_link_layer(name: str) -> None:
    count, sent = lost(case(name))
    assert count == 1
    assert sent >= 55


def test_probes_and_closed_windows_are_told() -> None:
    assert note(case("keepalive-1-byte"), "12 keep-alives")
    for name in ("zero-window-linux", "zero-window-windows"):
        assert note(case(name), "5 keep-alives and probes")
        assert note(case(name), "window was closed for 90 % of the time")


def test_datagrams_without_numbers_have_no_losses() -> None:
    with pytest.raises(AnabranchError, match="UDP without RTP, whose packets have no numbers"):
        case("bacnet-is-not-rtp")


def test_an_answer_belongs_to_the_last_question() -> None:
    found = case("icmp-same-number")
    assert lost(found) == (3, 60)
    assert delay_ms(found) == pytest.approx(10, abs=0.01)
    assert note(found, "60 questions have one number")


def test_a_timer_bounds_the_delay() -> None:
    found = case("sctp-signalling-delayed-sack")
    assert found.delay_is_bound
    assert found.delay_s is not None
    assert found.delay_s.interval == pytest.approx((0, 0.105))
    assert found.jitter_s is None
    assert note(found, "delayed by up to 200 ms")
    assert "delay" not in " ".join(output.netem(found))
    assert "\ndelay" not in output.toml(found, "x", ("a", "b"))
    assert output.rows(found)[0][1] == "≤ 105 ms"
    assert output.as_json(found, "x")["delay_is_upper_bound"]


def test_a_few_delays_are_not_extrapolated() -> None:
    assert delay_ms(case("short-request")) == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("loss", [1, 4])
def test_what_an_association_sends_again_on_another_path_was_lost(
    tmp_path: Path, loss: int
) -> None:
    """SCTP sends again where it was not lost (RFC 9260 section 6.4.1)."""
    file = tmp_path / "two.pcapng"
    scenario = anabranch.load(TWO_PATHS.format(loss=loss))
    scalars = anabranch.run(scenario, pcap=file).summary
    frames = capture_kinds.at(file, "one@a") + capture_kinds.at(file, "two@a")
    frames.sort(key=lambda frame: frame.time_s)
    whole = capture_kinds.save(tmp_path / "whole.pcap", frames)
    count, sent = lost(estimate(measure([whole])))
    dropped = scalars["link.one.forward.lost_packets"]
    assert dropped > 20
    # Packets near the end, which may be sent again after it, do not count.
    assert dropped * 0.95 - 2 <= count <= dropped
    assert sent <= scalars["link.one.forward.delivered_packets"] + dropped


TWO_PATHS = """\
name = "two"
run.duration = "20 s"
[links.one]
ends = ["a", "b"]
rate = "8 Mbit/s"
delay = "20 ms"
loss = "{loss} %"
[links.two]
ends = ["a", "b"]
rate = "8 Mbit/s"
delay = "40 ms"
[paths.one]
via = ["one"]
[paths.two]
via = ["two"]
[flows.load]
from = "a"
to = "b"
paths = ["one", "two"]
transport = "sctp"
app = "bulk"
"""


def test_a_path_of_a_multipath_connection_says_so() -> None:
    for name in ("mptcp-v0-two-subflows", "mptcp-v1-two-subflows"):
        found = case(name)
        assert note(found, "Multipath TCP connection, which has 2")
        assert "192.0.2.1:5001" in found.measurement.title


@pytest.mark.parametrize("name", ["tso-base-1mss", "tso-10mss", "tso-far-1mss"])
def test_twelve_of_1212_segments_are_lost(name: str) -> None:
    found = case(name)
    count, sent = lost(found)
    assert count == 12
    assert 1190 <= sent <= 1212
    assert delay_ms(found) == pytest.approx(10, abs=0.1)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(10e6, rel=0.01)
    assert note(found, "segmentation offload") == (name == "tso-10mss")


@pytest.mark.parametrize("near", ["tso-base-1mss", "tso-10mss"])
@pytest.mark.parametrize("exchanged", [False, True])
def test_offload_at_one_end_of_two_captures(near: str, *, exchanged: bool) -> None:
    found = case(*(["tso-far-1mss", near] if exchanged else [near, "tso-far-1mss"]))
    count, sent = lost(found)
    assert count == 12
    assert sent in (1212, 1214)  # with SYN and the handshake's last packet
    assert delay_ms(found) == pytest.approx(10, abs=0.01)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(10e6, rel=0.01)
    assert found.jitter_s is not None
    assert found.jitter_s.value < 1e-3


@pytest.mark.parametrize("file", sorted(CASES.glob("*.pcap")), ids=lambda file: file.stem)
def test_every_case_has_a_valid_profile_or_a_sentence(file: Path) -> None:
    try:
        found = estimate(measure([file]))
    except AnabranchError:
        assert file.stem == "bacnet-is-not-rtp"
        return
    is_valid(found)
