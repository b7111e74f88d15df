"""QUIC in captures: of others known by its first packets, of our own opened with its secrets."""

from pathlib import Path

import pytest

import anabranch
from anabranch import Result, _engine
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.profile import main_flow
from anabranch.support.capture import Capture
from capture_kinds import Frame, save
from support.two_links import two_links

CLIENT, SERVER = "0a000001", "0a000002"
PORTS = "c000", "01bb"
LONG = "c3 00000001 08 0102030405060708 08 1112131415161718 00 449e"


def packet(
    time_s: float, payload: bytes, *, back: bool = False, ports: tuple[str, str] = PORTS
) -> Frame:
    """A datagram between the ports of the client and of the server."""
    hosts = (CLIENT, SERVER)
    if back:
        ports, hosts = ports[::-1], hosts[::-1]
    udp = bytes.fromhex("".join(ports)) + (8 + len(payload)).to_bytes(2) + bytes(2) + payload
    head = bytes.fromhex("4500") + (20 + len(udp)).to_bytes(2) + bytes.fromhex("0000400040110000")
    return Frame(time_s, head + bytes.fromhex("".join(hosts)) + udp)


def connection(first: bytes) -> list[Frame]:
    """A connection that begins with this packet; later ones are RTP but for two bits."""
    frames = [packet(0, first), packet(0.03, first, back=True)]
    for number in range(1, 40):
        later = bytes([0x40, 0, *number.to_bytes(2), *(160 * number).to_bytes(4), 0, 0, 0, 7])
        frames.append(packet(0.03 + number / 50, later + bytes(200), back=number % 3 > 0))
    return frames


def test_a_connection_is_known_by_its_first_packet(tmp_path: Path) -> None:
    first = bytes.fromhex(LONG).ljust(1200, b"\0")
    file = save(tmp_path / "quic.pcap", connection(first))
    (flow,) = captured.explain(file).flows
    assert flow.flow.protocol == "QUIC"
    assert flow.flow.name == "QUIC from 10.0.0.1:49152 to 10.0.0.2:443"
    assert not flow.calls
    said = " ".join(flow.sentences())
    assert "QUIC encrypts its packet numbers" in said
    assert "10.0.0.2 answered the first packet 30 ms after it was seen here." in said
    with pytest.raises(AnabranchError, match="the main flow is QUIC, which encrypts"):
        main_flow.measure(Capture(file))


@pytest.mark.parametrize(
    "first",
    [
        bytes.fromhex(LONG).ljust(1199, b"\0"),
        bytes.fromhex(LONG.replace("c3", "40")).ljust(1200, b"\0"),
        bytes.fromhex(LONG.replace("00000001", "0000000a", 1)).ljust(1200, b"\0"),
        bytes.fromhex(LONG.replace("c3", "e3")).ljust(1200, b"\0"),
        bytes.fromhex(LONG.replace("08", "15", 1)).ljust(1200, b"\0"),
    ],
    ids=["too short", "short header", "another version", "no Initial packet", "too long an ID"],
)
def test_what_is_not_sure_stays_udp(tmp_path: Path, first: bytes) -> None:
    (flow,) = captured.explain(save(tmp_path / "udp.pcap", connection(first))).flows
    assert flow.flow.protocol == "UDP"


def moved(ports: tuple[str, str] = ("c001", "01bb"), first_byte: int = 0x41) -> list[Frame]:
    """What follows a connection from another port, after 1 s."""
    return [
        packet(1 + number / 50, bytes([first_byte]) + bytes(100), back=number % 3 > 0, ports=ports)
        for number in range(30)
    ]


def stays() -> list[Frame]:
    """A connection that is used on while another flow begins."""
    return [packet(1 + number / 10, bytes([0x41]) + bytes(100)) for number in range(30)]


@pytest.mark.parametrize(
    ("later", "is_one"),
    [
        (moved(), True),
        (moved(first_byte=0x80), False),
        (moved(("c001", "01bc")), False),
        (sorted([*moved(), *stays()], key=lambda frame: frame.time_s), False),
    ],
    ids=["moved", "no QUIC", "another server", "beside it"],
)
def test_a_client_that_moves_keeps_its_connection(
    tmp_path: Path, later: list[Frame], *, is_one: bool
) -> None:
    """Behind its move there are short headers alone (RFC 9000 section 9)."""
    first = bytes.fromhex(LONG).ljust(1200, b"\0")
    frames = [*connection(first), *later]
    flows = captured.explain(save(tmp_path / "moved.pcap", frames)).flows
    assert len(flows) == (1 if is_one else 2)
    if is_one:
        (flow,) = flows
        assert flow.flow.packets == len(frames)
        assert [len(way) for way in flow.ways] == [2, 2]
        assert "10.0.0.1 goes on over" in " ".join(flow.sentences())


ONE = '["p"]', '{ kind = "quic" }'
BOTH = '["p", "q"]', '{ kind = "quic", multipath = true }'
FIRST = '["p", "q"]', '{ kind = "quic", multipath = true, ack_path = "first", key_update = 400 }'


def captured_run(folder: Path, paths: str, transport: str) -> tuple[Path, Result]:
    """A transfer of 8 s with losses, captured at all links."""
    file = folder / "run.pcapng"
    scenario = anabranch.load(two_links(paths, transport))
    return file, anabranch.run(scenario, trace=True, pcap=file, pcap_at="all")


needs_quic = pytest.mark.skipif(
    not _engine.QUIC, reason="this engine was built without QUIC, and opens no packets"
)


@needs_quic
@pytest.mark.parametrize(("paths", "transport"), [ONE, BOTH, FIRST], ids=["one", "two", "first"])
def test_a_capture_of_ours_and_its_run_agree(tmp_path: Path, paths: str, transport: str) -> None:
    """Path by path: packets, losses, bytes of streams (RFC 10069; tshark 4.0 does not know it)."""
    file, result = captured_run(tmp_path, paths, transport)
    (flow,) = captured.explain(file).flows
    assert flow.flow.protocol == "QUIC"
    names = [path.name for path in flow.flow.paths]
    sender = next(end for end in flow.inside if end.connection.side == "client")
    summary = result.summary
    told = sender.connection
    assert told.lost.total() == summary["load.quic.a.packets_lost"] > 10
    assert told.spurious == summary["load.quic.a.spurious_losses"]
    # Of packets that leave just before the end, the capture shows no arrival.
    goodput = summary["load.goodput_kbit_per_s"] * 1e3
    assert told.out.octets * 8 / 8.0 == pytest.approx(goodput, rel=0.01)
    packets = result.traces["packets"].filter(side="a", is_copy=False)
    # Packets under keys of a phase that begins in the capture behind their own stay closed.
    assert told.sent == pytest.approx(summary["load.quic.a.packets_sent"], abs=8)
    if len(names) == 1:
        return
    for number, name in enumerate(("p", "q")):
        own = packets.filter(path=number)
        assert told.paths[name].sent == pytest.approx(own.height, abs=3)
    said = " ".join(flow.sentences())
    assert "The connection has several paths (RFC 10069): p, q." in said


@needs_quic
def test_profile_finds_the_losses_of_a_path(tmp_path: Path) -> None:
    file, result = captured_run(tmp_path, *BOTH)
    sent = result.traces["packets"].filter(side="a", is_copy=False, path=0)
    lost = sent.filter(~sent["fate"].is_in(["delivered", "in_flight"]))
    measured = main_flow.measure(Capture(file, interface="one@b"))
    assert measured.losses is not None
    assert int(measured.losses.lost.sum()) == pytest.approx(lost.height, abs=2)
