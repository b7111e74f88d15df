"""The engine's reader of captures as Python has it: columns, tables, what is said of a file."""

import gzip
import hashlib
import struct
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.profile import measure
from anabranch.support import clocks
from anabranch.support.capture import Capture, is_capture
from anabranch.support.packets import ACK, MOST, SCTP, SYN, TCP, UDP, Packets
from capture_kinds import Talk
from conftest import ROOT

CASES = ROOT / "tests" / "cases" / "captures"


def read(file: Path, interface: str | None = None) -> tuple[Capture, Packets]:
    """A capture of one batch."""
    capture = Capture(file, interface=interface)
    (packets,) = capture.batches()
    return capture, packets


@pytest.mark.parametrize("file", sorted(CASES.glob("*.pcap")), ids=lambda file: file.stem)
def test_every_frame_of_the_cases_is_a_packet(file: Path) -> None:
    capture, packets = read(file)
    octets = file.read_bytes()
    at, frames = 24, 0
    while at < len(octets):
        at += 16 + struct.unpack_from("<I", octets, at + 8)[0]
        frames += 1
    assert len(packets) == frames == capture.interfaces["0"]
    assert (packets.index == np.arange(frames)).all()
    assert not packets.fault.any()
    assert not capture.left_out
    assert capture.damage is None
    assert len(capture.places) == 1
    assert packets.place.max() == 0
    assert {packets.source.max(), packets.destination.max()} <= set(range(len(capture.addresses)))


@pytest.mark.parametrize(
    ("name", "place"), [("mpls", "0"), ("pppoe", "0"), ("sll-vlan", "0.5"), ("clean-base-v6", "0")]
)
def test_tcp_behind_other_layers(name: str, place: str) -> None:
    capture, packets = read(CASES / f"{name}.pcap")
    assert capture.places[0].name == place
    assert set(packets.protocol.tolist()) == {TCP}
    assert packets.flags[0] == SYN
    assert packets.acknowledgement[0] == -1
    assert packets.flags[1] == SYN | ACK
    assert packets.acknowledgement[1] == packets.sequence[0] + 1
    data = packets.payload > 0
    # What each segment carries is acknowledged in the end.
    ends = (packets.sequence + packets.payload)[data]
    assert packets.acknowledgement.max() >= ends.max()
    assert packets.octets.min() >= 40


def test_zeros_behind_the_last_chunk_of_sctp() -> None:
    _, clean = read(CASES / "sctp-signalling-hb.pcap")
    capture, packets = read(CASES / "sctp-zero-tail.pcap")
    assert not capture.notes
    for column in ("packet", "kind", "octets", "number", "window", "identity", "data"):
        np.testing.assert_array_equal(
            getattr(packets.chunks, column), getattr(clean.chunks, column)
        )
    assert (packets.payload - clean.payload == 44).all()
    # Each heartbeat's information comes back.
    kind, identity = packets.chunks.kind, packets.chunks.identity
    assert set(identity[kind == 4].tolist()) == set(identity[kind == 5].tolist()) != {0}


@pytest.mark.parametrize(("name", "step"), [("clock-step-back", "30"), ("clock-step-back-v6", "1")])
def test_a_clock_that_is_set_back(name: str, step: str) -> None:
    capture, packets = read(CASES / f"{name}.pcap")
    assert capture.steps_back == 1
    assert capture.largest_step_back_ns / 1e9 == pytest.approx(float(step), abs=0.5)
    assert not capture.notes
    clock = clocks.clocks(packets.time_ns)
    assert sorted(set(clock.tolist())) == [0, 1]
    steps = np.diff(packets.time_ns)
    assert (np.flatnonzero(steps < 0) == np.flatnonzero(np.diff(clock))).all()


@pytest.mark.parametrize(("version", "hash_of"), [(0, "sha1"), (1, "sha256")])
def test_subflows_of_multipath_tcp_are_found_by_tokens(version: int, hash_of: str) -> None:
    _, packets = read(CASES / f"mptcp-v{version}-two-subflows.pcap")
    options = packets.multipath
    capable = options.kind == 0
    assert set(options.version[capable].tolist()) == {version}
    for key, token in zip(options.key, options.token, strict=True):
        if key:
            digest = hashlib.new(hash_of, int(key).to_bytes(8), usedforsecurity=False).digest()
            assert token == int.from_bytes(digest[:4])
    joins = (options.kind == 1) & (options.token >= 0)
    known = set(options.token[capable].tolist()) | set(options.peer_token[capable].tolist())
    assert joins.any()
    assert set(options.token[joins].tolist()) <= known - {-1}


def test_copies_have_equal_hashes_and_what_is_sent_again_has_not() -> None:
    for name, copies in [("dup-20us-v4", 2), ("dup-20us-v6", 2), ("dup-4x-id0", 4)]:
        _, packets = read(CASES / f"{name}.pcap")
        both = np.stack([packets.identity, packets.content])
        _, counts = np.unique(both, axis=1, return_counts=True)
        assert (counts % copies == 0).all()
        assert set(packets.identification.tolist()) in ({-1}, {0}) or copies == 2
    _, once = read(CASES / "clean-base-v4.pcap")
    assert len(np.unique(once.identity)) == len(once)


def test_a_capture_of_ours_has_interfaces_names_and_reasons(tmp_path: Path) -> None:
    file = tmp_path / "call.pcapng"
    anabranch.run("scenarios/two-path-call.toml", pcap=file, pcap_at="all")
    capture, packets = read(file)
    assert len(capture.places) > 2
    assert {place.name for place in capture.places} == set(capture.interfaces)
    assert set(capture.names) <= {address.packed for address in capture.addresses}
    said = packets.comment[packets.comment >= 0]
    assert all(capture.comments[number].startswith("dropped here: ") for number in said.tolist())
    with pytest.raises(AnabranchError, match="name one with --interface"):
        capture.check_interface()
    name = capture.places[1].name
    one, of_one = read(file, name)
    one.check_interface()
    assert one.interfaces == capture.interfaces
    assert len(of_one) == int((packets.place == 1).sum()) == capture.interfaces[name]
    other = Capture(file, interface="other")
    assert list(other.batches()) == []
    with pytest.raises(AnabranchError, match="there is none of this name that has packets"):
        other.check_interface()


def test_the_place_of_a_vlan_can_be_wanted() -> None:
    capture, packets = read(CASES / "sll-vlan.pcap", "0.5")
    capture.check_interface()
    assert len(packets) == 124


def test_compressed_and_in_several_batches(tmp_path: Path) -> None:
    octets = (CASES / "clean-base-v4.pcap").read_bytes()
    whole = octets[:24] + octets[24:] * 200
    file, packed = tmp_path / "whole.pcap", tmp_path / "whole.pcap.gz"
    file.write_bytes(whole)
    packed.write_bytes(gzip.compress(whole, 1))
    assert is_capture(file)
    assert is_capture(packed)
    positions: list[int] = []
    sizes = [len(batch) for batch in Capture(packed, positions.append).batches()]
    assert sizes == [MOST, MOST, 808 * 200 - 2 * MOST]
    assert positions[-1] == packed.stat().st_size
    plain, unpacked = (
        np.concatenate([batch.identity for batch in Capture(of).batches()]) for of in (file, packed)
    )
    np.testing.assert_array_equal(plain, unpacked)
    capture = Capture(file)
    assert sum(len(batch) for batch in capture.batches()) == 808 * 200
    assert len(capture.addresses) == 2
    assert capture.steps_back == 199


def test_what_is_no_capture(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for octets in (b"", b"PING 192.0.2.1", b"\x1f\x8b\x08\0nonsense", bytes(100)):
        file.write_bytes(octets)
        assert not is_capture(file)
        with pytest.raises(AnabranchError, match=f"^{file}: "):
            list(Capture(file).batches())
    with pytest.raises(FileNotFoundError):
        list(Capture(tmp_path / "missing").batches())


def test_what_readers_of_some_protocols_cannot_use(tmp_path: Path) -> None:
    def ip(protocol: int, octets: bytes, length: int) -> bytes:
        addresses = ip_address("192.0.2.1").packed + ip_address("192.0.2.2").packed
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 1, 0x4000, 9, protocol, 0)
        return head + addresses + octets

    frames = [
        ip(TCP, bytes(20), 20),  # its header says that it has none
        ip(TCP, bytes(10), 20),
        ip(UDP, struct.pack(">HHHH", 1, 2, 8, 0), 8),
        ip(SCTP, bytes(12) + b"\x0b\0\0\4", 40),
        ip(47, bytes(4), 4),
        ip(47, bytes(4), 4),
    ]
    file = tmp_path / "some.pcap"
    records = (
        struct.pack("<IIII", 1, 0, len(frame), struct.unpack_from(">H", frame, 2)[0]) + frame
        for frame in frames
    )
    file.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101) + b"".join(records)
    )
    capture, packets = read(file)
    assert not capture.left_out
    assert packets.unused({TCP, SCTP}) == {
        "packets of IP protocol 17": 1,
        "packets of IP protocol 47": 2,
        "packets whose headers are cut off": 1,
        "packets whose lengths contradict each other": 1,
        "packets' last SCTP chunks, which are cut off": 1,
    }
    assert packets.datagrams.head.shape == (1, 52)


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(sorted(file.name for file in CASES.glob("*.pcap"))),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=20),
    length=st.integers(0, 6000),
)
def test_no_content_is_a_bug(
    name: str, changes: list[tuple[int, int]], length: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    octets = bytearray((CASES / name).read_bytes()[:length])
    for at, value in changes:
        if at < len(octets):
            octets[at] = value
    file = tmp_path_factory.getbasetemp() / "changed.pcap"
    file.write_bytes(octets)
    capture = Capture(file)
    with suppress(AnabranchError):
        for packets in capture.batches():
            assert 0 < len(packets) <= MOST
            assert packets.captured.max() <= packets.octets.max()
    assert all(note.startswith("changed.pcap: ") for note in capture.notes)


def test_of_many_interfaces_the_first_are_named(tmp_path: Path) -> None:
    """A sentence stays one that people read."""
    file = tmp_path / "many.pcapng"
    talk = Talk(0.05)
    for _ in range(40):
        talk.data(1000)
    names = [f"eth{number}" for number in range(60)]
    blocks = [(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for name in names:
        option = struct.pack("<HH8s", 2, len(name), name.encode())
        blocks.append((1, struct.pack("<HHI", 101, 0, 0) + option))
    for number, (_, data) in enumerate(talk.frames):
        head = struct.pack("<IIIII", number % 60, 0, number, len(data), len(data))
        blocks.append((6, head + data + bytes(-len(data) % 4)))
    file.write_bytes(
        b"".join(
            struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))
            for kind, body in blocks
        )
    )
    with pytest.raises(AnabranchError, match=r"of 60 interfaces \(eth0, .*, eth9 and 50 more\)"):
        measure([file])
    with pytest.raises(AnabranchError, match=r"those are eth0, .*, eth9 and 50 more$"):
        measure([file], interfaces=["other"])
    with pytest.raises(AnabranchError, match=r"those are eth0, .*, eth9 and 50 more$"):
        captured.explain(file, interfaces=["other"])
