"""Reading captures: what is read, what is left out and reported, and that no content is a bug."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import dpkt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import captures
from anabranch.errors import AnabranchError
from anabranch.profile import Profile, estimate, measure, output
from anabranch.support.capture import Capture
from anabranch.support.packets import Packets
from conftest import Command

NS = 1_000_000_000
START_NS = int(captures.START) * NS

Frames = list[tuple[int, bytes]]
"""When in ns since the start, and what."""


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(resolution: int = 9) -> bytes:
    return block(1, struct.pack("<HHIHHB3xHH", 1, 0, 0, 9, 1, resolution, 0, 0))


def enhanced(ticks: int, data: bytes) -> bytes:
    """A packet block that has a time."""
    head = (0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(6, struct.pack("<IIIII", *head) + data)


def pcapng(frames: Frames) -> bytes:
    return SECTION + interface() + b"".join(enhanced(START_NS + at, data) for at, data in frames)


def pcap(frames: Frames) -> bytes:
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
    return head + b"".join(
        struct.pack("<IIII", *divmod(START_NS + at, NS), len(data), len(data)) + data
        for at, data in frames
    )


def ipv6(protocol: int, rest: bytes) -> bytes:
    """An Ethernet frame with an IPv6 packet."""
    addresses = b"\0" * 15 + b"\1" + b"\0" * 15 + b"\2"
    header = struct.pack(">IHBB", 0x60000000, len(rest), protocol, 64) + addresses
    return b"\0" * 12 + b"\x86\xdd" + header + rest


def read(tmp_path: Path, content: bytes) -> tuple[list[Packets], Capture]:
    """The packets of a capture, as one batch unless it has none."""
    file = tmp_path / "c"
    file.write_bytes(content)
    capture = Capture(file)
    return list(capture.batches()), capture


UDP = struct.pack(">HHHH", 1, 2, 12, 0) + b"data"

# Number of the header, and the header: what follows is its first octet, to be filled in.
OPTIONS = b"\0\0\1\4\0\0\0\0"
EXTENSIONS = {
    0: OPTIONS,
    43: b"\0\2\4\0" + bytes(20),
    60: b"\0\1" + OPTIONS[2:] + bytes(8),
    44: b"\0\0\0\1" + struct.pack(">I", 77),
    51: b"\0\4" + bytes(22),
    135: b"\0\0\0\0" + bytes(4),
}


@pytest.mark.parametrize("order", [[0], [43], [60], [44], [51], [135], [0, 60, 43, 44, 51, 60]])
def test_extension_headers_of_ipv6_are_passed(tmp_path: Path, order: list[int]) -> None:
    follows = [*order[1:], 17]
    headers = b"".join(
        bytes([after]) + EXTENSIONS[kind][1:] for kind, after in zip(order, follows, strict=True)
    )
    (packets,), capture = read(tmp_path, pcapng([(0, ipv6(order[0], headers + UDP))]))
    assert packets.protocol.tolist() == [17]
    assert packets.payload.tolist() == packets.datagrams.captured.tolist() == [len(UDP) - 8]
    assert bytes(packets.datagrams.head[0, :4]) == UDP[8:]
    assert packets.octets.tolist() == [40 + len(headers) + len(UDP)]
    assert packets.identification.tolist() == [77 if 44 in order else -1]
    assert capture.notes == []


def test_a_flow_behind_extension_headers_is_measured(tmp_path: Path) -> None:
    frames: Frames = []
    for i in range(30):
        for at, kind in ((0, 128), (20_000_000, 129)):
            echo = struct.pack(">BBHHH", kind, 0, 0, 7, i) + bytes(8)
            frames.append((i * NS + at, ipv6(0, bytes([58]) + OPTIONS[1:] + echo)))
    found = measured(tmp_path, pcapng(frames))
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(0.010, abs=1e-9)


def measured(tmp_path: Path, content: bytes) -> Profile:
    file = tmp_path / "m"
    file.write_bytes(content)
    return estimate(measure([file]))


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    good = captures.frame(UDP, 17, 20 + len(UDP), 1)
    short = bytearray(good)
    short[16:18] = (10).to_bytes(2)  # the total length of IPv4
    options = bytearray(good)
    options[14] = 0x41
    later = bytearray(good)
    later[20:22] = (100).to_bytes(2)  # the fragment's offset
    frames = [
        good,
        bytes(short),
        bytes(options),
        bytes(later),
        ipv6(44, b"\x11\0\0\x09" + bytes(4) + UDP),
        good[:12] + b"\x08\x06" + bytes(28),  # ARP
        good[:30],
        ipv6(0, b""),
        ipv6(0, b"\x11\x05" + UDP),
    ]
    simple = block(3, struct.pack("<I", len(good)) + good)
    content = pcapng([(i, data) for i, data in enumerate(frames)]) + simple * 3
    content += block(7, bytes(8)) + block(5, bytes(12))
    (packets,), capture = read(tmp_path, content)
    assert packets.payload.tolist() == [len(UDP) - 8]
    assert capture.notes == [
        "c: left out: 1 blocks of the unknown type 0x7",
        "c: left out: 2 fragments other than the first of their packet, but for their lengths",
        "c: left out: 1 frames without an IP packet",
        "c: left out: 1 packets whose headers are cut off",
        "c: left out: 4 packets whose lengths contradict each other",
        "c: left out: 3 packets without a time (simple packet blocks)",
    ]
    # Fibre Channel has no packets of IP.
    other = SECTION + block(1, struct.pack("<HHI", 224, 0, 0)) + enhanced(1, good) * 2
    batches, capture = read(tmp_path, other)
    assert batches == []
    assert capture.notes == ["c: left out: 2 frames of link type 224, which is not read"]


def test_what_is_left_out_is_said_on_the_terminal(tmp_path: Path, anabranch: Command) -> None:
    frames = [(round(at * 1e9), data) for at, data in captures.echoes([0.02] * 30)]
    simple = block(3, struct.pack("<I", 60) + bytes(60))
    gre = [(NS, captures.frame(bytes(8), 47, 28, 1))] * 2
    unreachable = [(NS, captures.frame(b"\3\1" + bytes(30), 1, 52, 1))]
    (tmp_path / "s.pcapng").write_bytes(pcapng(frames + gre + unreachable) + simple * 5)
    done = anabranch("profile", "s.pcapng", "--json", "s.json")
    assert done.returncode == 0, done.stderr
    said = (
        "s.pcapng: left out: 5 packets without a time (simple packet blocks)",
        "left out: 2 packets of IP protocol 47",
        "left out: 1 ICMP messages other than echoes",
    )
    shown = " ".join(done.stdout.split())
    for note in said:
        assert note in shown
        assert note in json.loads((tmp_path / "s.json").read_text())["notes"]
    # It may be the only content.
    (tmp_path / "n.pcapng").write_bytes(SECTION + interface() + simple * 5)
    done = anabranch("profile", "n.pcapng")
    assert done.returncode == 2
    assert "5 packets without a time" in done.stderr


def test_chunks_that_are_cut_off_are_counted(tmp_path: Path) -> None:
    def bundle(number: int, kept: int) -> bytes:
        chunks = [struct.pack(">BBHIHHI", 0, 3, 116, 2 * number + i, 0, 0, 0) for i in (0, 1)]
        payload = bytes(12) + b"".join(chunk + bytes(100) for chunk in chunks)
        sack = bytes(12) + struct.pack(">BBHIIHH", 3, 0, 16, 2 * number, 65_535, 0, 0)
        if kept == 0:
            return captures.frame(sack, 132, 48, number, forward=False)
        return captures.frame(payload, 132, 20 + len(payload), number)[:kept]

    frames = [
        (i * 100_000_000 + back * 20_000_000, bundle(i, 0 if back else 128))
        for i in range(20)
        for back in (0, 1)
    ]
    notes = measured(tmp_path, pcapng(frames)).measurement.notes
    assert "left out: 20 packets' last SCTP chunks, which are cut off" in notes


def test_times_are_whole_nanoseconds(tmp_path: Path) -> None:
    data = captures.frame(UDP, 17, 20 + len(UDP), 1)
    at = [0, 150, 300, 451]
    for content in (pcap([(t, data) for t in at]), pcapng([(t, data) for t in at])):
        (packets,), _ = read(tmp_path, content)
        assert (packets.time_ns - START_NS).tolist() == at
    # Powers of two, and finer than ns.
    for resolution, ticks, ns in (
        (0x80 | 30, 3 << 29, 1_500_000_000),
        (12, 2_999, 2),
        (0, 5, 5 * NS),
    ):
        (packets,), _ = read(tmp_path, SECTION + interface(resolution) + enhanced(ticks, data))
        assert packets.time_ns.tolist() == [ns]


def test_delays_of_nanoseconds_survive(tmp_path: Path) -> None:
    """A round trip and a one-way delay of 150 ns, at a time of day of today."""
    frames: Frames = []
    for i in range(30):
        asked, answered = echo(i)
        frames += [(i * 1_000_003, asked), (i * 1_000_003 + 150, answered)]
    found = measured(tmp_path, pcapng(frames)).measurement
    assert found.delays is not None
    assert [round(delay * 1e12) for delay in found.delays.seconds] == [150_000] * 30
    (tmp_path / "far").write_bytes(pcapng([(at + 150, data) for at, data in frames[::2]]))
    (tmp_path / "near").write_bytes(pcapng(frames[::2]))
    both = measure([tmp_path / "near", tmp_path / "far"])
    assert both.delays is not None
    assert both.delays.seconds.tolist() == [150e-9] * 30


def echo(i: int, octets: int = 8) -> tuple[bytes, bytes]:
    """A question and its answer."""
    asked, answered = (
        captures.frame(
            struct.pack(">BBHHH", kind, 0, 0, 7, i) + bytes(octets),
            1,
            28 + octets,
            i,
            forward=kind == 8,
        )
        for kind in (8, 0)
    )
    return asked, answered


def pings(folder: Path) -> list[Path]:
    """60 questions, 6 of which are lost; all answers arrive, so that both ways have 54 packets."""
    near: Frames = []
    far: Frames = []
    for i in range(60):
        asked, answered = echo(i)
        at = i * 20_000_000
        near.append((at, asked))
        if i % 10 == 5:
            continue
        far += [(at + 10_000_000, asked), (at + 10_000_000, answered)]
        near.append((at + 20_000_000, answered))
    (folder / "near.pcap").write_bytes(pcap(near))
    (folder / "far.pcap").write_bytes(pcap(far))
    return [folder / "near.pcap", folder / "far.pcap"]


def heartbeats(folder: Path) -> list[Path]:
    """Heartbeats, and their answers in another order."""
    frames: Frames = []
    for i in range(40):
        for kind in (4, 5):
            chunk = struct.pack(">BBHHHI", kind, 0, 12, 1, 8, i * 7919)
            data = captures.frame(bytes(12) + chunk, 132, 44, i, forward=kind == 4)
            frames.append((i * 5_000_000 + (kind - 4) * (i % 7 + 1) * 4_000_000, data))
    (folder / "beats.pcapng").write_bytes(pcapng(sorted(frames)))
    return [folder / "beats.pcapng"]


def call(folder: Path) -> list[Path]:
    """RTP of the same size both ways, which both captures have all of."""
    near: Frames = []
    far: Frames = []
    for i in range(50):
        for forward in (False, True):
            header = struct.pack(">BBHII", 0x80, 0, i, i * 160, 9 + forward) + bytes(20)
            datagram = struct.pack(">HHHH", 4000, 4000, 8 + len(header), 0) + header
            data = captures.frame(datagram, 17, 20 + len(datagram), i, forward=forward)
            at = i * 20_000_000 + 3_000_000 * forward
            late = 10_000_000 + i % 3 * 1_000_000 * (1 + forward)
            near.append((at, data) if forward else (at + late, data))
            far.append((at + late, data) if forward else (at, data))
    (folder / "call-near.pcap").write_bytes(pcap(sorted(near)))
    (folder / "call-far.pcap").write_bytes(pcap(sorted(far)))
    return [folder / "call-near.pcap", folder / "call-far.pcap"]


SCRIPT = """
import json, pathlib, sys
from anabranch.profile import Profile, estimate, measure, output
for files in json.loads(sys.argv[1]):
    print(json.dumps(output.as_json(estimate(measure([pathlib.Path(f) for f in files])), "x")))
"""


def test_a_profile_is_the_same_in_every_process(tmp_path: Path) -> None:
    asked = [
        pings(tmp_path), pings(tmp_path)[::-1], heartbeats(tmp_path), call(tmp_path),
        call(tmp_path)[:1],
    ]  # fmt: skip
    names = json.dumps([[str(file) for file in files] for files in asked])
    said = []
    for seed in ("0", "1", "2", "3", "4"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, names],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout)
    assert said == [said[0]] * len(said)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_directions_with_as_many_packets_the_first_is_measured(
    tmp_path: Path, order: int
) -> None:
    found = measure(pings(tmp_path)[::order])
    assert found.losses is not None
    assert (len(found.losses.lost), found.losses.lost.sum()) == (60, 6)
    assert found.delays is not None
    assert set(found.delays.seconds) == {0.010}
    # The first sender in the capture counts, not the lower address.
    near, _ = call(tmp_path)
    single = measure([near])
    assert single.losses is not None
    swapped = [near, near.with_name("other.pcap")]
    swapped[1].write_bytes(near.read_bytes().replace(captures.A, b"\x0b\0\0\1"))
    delays = [measure([file]).delays for file in swapped]
    assert delays[0] is not None
    assert delays[1] is not None
    assert delays[0].seconds.tolist() == delays[1].seconds.tolist()


def small_captures() -> list[bytes]:
    """One of each kind of traffic."""
    echoes = [(round(at * 1e9), data) for at, data in captures.echoes([0.02] * 15)]
    tcp: Frames = []
    for i in range(15):
        options = b"\1\1\x08\x0a" + struct.pack(">II", i, i)
        for forward in (True, False):
            header = dpkt.tcp.TCP(
                sport=1 + forward, dport=2 - forward, seq=100 * i if forward else 1,
                ack=1 if forward else 100 * i + 100, flags=16, opts=options,
            )  # fmt: skip
            header.off = 8
            data = bytes(header) + bytes(100 * forward)
            frame = captures.frame(data, 6, 20 + len(data), i, forward=forward)
            tcp.append((i * 10_000_000 + (not forward) * 5_000_000, frame))
    sctp: Frames = []
    rtp: Frames = []
    for i in range(15):
        chunk = struct.pack(">BBHIHHI", 0, 3, 20, i, 0, 0, 0) + bytes(4)
        sack = struct.pack(">BBHIIHH", 3, 0, 16, i, 65_535, 0, 0)
        sctp.append((i * 9_000_000, captures.frame(bytes(12) + chunk, 132, 52, i)))
        sctp.append(
            (i * 9_000_000 + 4, captures.frame(bytes(12) + sack, 132, 48, i, forward=False))
        )
        header = struct.pack(">HHHHBBHII", 4, 4, 28, 0, 0x80, 0, i, i * 160, 9) + bytes(8)
        data = ipv6(0, b"\x11" + OPTIONS[1:] + header)
        rtp.append((i * 20_000_000, data))
    return [form(frames) for frames in (echoes, tcp, sctp, rtp) for form in (pcap, pcapng)]


CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(
            st.binary(min_size=1, max_size=8),
            st.sampled_from(
                [b"\0", b"\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"]
            ),
        ),
        st.sampled_from(["over", "in", "out"]),
    ),
    max_size=6,
)


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(which=5, changes=[(0.080078125, b"\x01", "over")], kept=1.0, files=1)
@given(
    which=st.integers(0, 7), changes=CHANGES, kept=st.floats(0, 1), files=st.integers(1, 2),
)  # fmt: skip
def test_whatever_is_in_a_capture_gives_a_sentence_or_a_result(
    tmp_path: Path, which: int, changes: list[tuple[float, bytes, str]], kept: float, files: int
) -> None:
    content = bytearray(SMALL[which])
    for place, data, how in changes:
        at = int(place * len(content))
        end = at + (0 if how == "in" else len(data))
        content[at:end] = b"" if how == "out" else data
    content = content[: max(round(kept * len(content)), 4)] if kept < 0.5 else content
    (tmp_path / "whole").write_bytes(SMALL[which])
    (tmp_path / "damaged").write_bytes(content)
    try:
        found = estimate(measure([tmp_path / "damaged", tmp_path / "whole"][:files]))
    except AnabranchError as error:
        said = str(error)
    else:
        said = output.as_json(found, "x")["measured"]
        output.toml(found, "x", ("a", "b"))
        output.netem(found)
    assert "\n" not in said


SMALL = small_captures()
