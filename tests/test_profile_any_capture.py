"""Whatever was captured, a profile is one that a scenario takes."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpkt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import captures
from anabranch.errors import AnabranchError
from anabranch.profile import estimate, measure
from support.written_transfers import ENDS, Frames, Writer, in_order, is_valid, sctp


def tcp_packets(draw: Callable[[Any], Any], count: int) -> Frames:
    writer = Writer(draw(ENDS))
    time = 0.0
    for _ in range(count):
        time += draw(WAITS)
        writer.segment(
            max(time, 0.0), forward=draw(st.booleans()), number=draw(NUMBERS),
            acknowledged=draw(NUMBERS), length=draw(st.sampled_from([0, 0, 1, 100, 1460, 14_600])),
            flags=draw(st.sampled_from([16, 16, 16, 24, 2, 18, 17, 4])),
            window=draw(st.sampled_from([0, 500])),
        )  # fmt: skip
    return writer.frames


def sctp_packets(draw: Callable[[Any], Any], count: int) -> Frames:
    frames, time = [], 0.0
    for _ in range(count):
        time = max(time + draw(WAITS), 0.0)
        frames.append((time, sctp(4, draw(st.integers(0, 30)), forward=draw(st.booleans()))))
    return frames


def other_packets(draw: Callable[[Any], Any], count: int) -> Frames:
    """Echoes, and datagrams that look like RTP."""
    frames, time = [], 0.0
    is_rtp = draw(st.booleans())
    for nth in range(count):
        time = max(time + draw(WAITS), 0.0)
        forward = draw(st.booleans())
        number = draw(st.sampled_from([nth, nth + 1, 7, 65_535]))
        if is_rtp:
            head = struct.pack(">BBHII", 128, 0, number, nth * 160, 1) + bytes(20)
            data, protocol = bytes(dpkt.udp.UDP(sport=9, dport=9, ulen=40, data=head)), 17
        else:
            echo = dpkt.icmp.ICMP.Echo(id=7, seq=number, data=b"x")
            data, protocol = bytes(dpkt.icmp.ICMP(type=8 * forward, data=echo)), 1
        frames.append((time, captures.frame(data, protocol, 20 + len(data), nth, forward=forward)))
    return frames


WAITS = st.sampled_from([0.0, 1e-6, 0.001, 0.02, 0.02, 0.5, 30.0, -0.01, -2.0])


NUMBERS = st.sampled_from([0, 1, 2, 101, 1461, 2921, 14_601, 29_201, 2**31, 2**32 - 1])


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_was_captured_a_profile_is_valid(tmp_path: Path, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([tcp_packets, sctp_packets, other_packets]))
    frames = kind(data.draw, data.draw(st.integers(1, 60)))
    files = [in_order(tmp_path / "c.pcap", frames)]
    if data.draw(st.booleans()):
        files.append(in_order(tmp_path / "d.pcap", frames[data.draw(st.integers(0, 3)) :]))
    try:
        found = estimate(measure(files))
    except AnabranchError:
        return
    is_valid(found)
