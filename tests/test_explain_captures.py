"""`anabranch explain CAPTURE` says of a capture what `explain` says of the run that it is of."""

import gzip
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
import captures
from anabranch import explain
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.explain.captured import Explained
from anabranch.support import terminal
from capture_kinds import Frame, Talk, save
from conftest import ROOT, Command, one_error

SCENARIO = """\
name = "one-path"
seed = 1
run.duration = "20 s"
[links.wan]
ends = ["a", "b"]
rate = "8 Mbit/s"
delay = "25 ms"
queue = { kind = "drop_tail", packets = 60 }
[paths.only]
via = ["wan"]
[flows.load]
from = "a"
to = "b"
paths = ["only"]
transport = { kind = "tcp", send_buffer = "2 MB", receive_buffer = "2 MB" }
app = { kind = "bulk" }
"""

LOSS = "{ kind = 'bernoulli', probability = '%s' }"


class Both:
    """A run, its capture, and what `explain` says of either."""

    def __init__(self, folder: Path, sets: dict[str, str], scenario: str | Path = SCENARIO) -> None:
        self.file = folder / "run.pcapng"
        loaded = anabranch.load(scenario, set=sets)
        self.summary = anabranch.run(loaded, pcap=self.file, pcap_at="all").summary
        self.run = explain.explain(scenario, set=sets, alone=False)

    def flow(self, **others: Any) -> Explained:
        return captured.explain(self.file, **others).flows[0]


def share(explained: Explained, limit: str, path: int = 0) -> float:
    assert explained.account is not None
    return explained.account.sender.paths[path].share(limit)


def test_losses_and_what_repaired_them(tmp_path: Path) -> None:
    """Every retransmission, recovery and loss of the run, and its shares of time."""
    both = Both(tmp_path, {"links.wan.loss": LOSS % "0.5 %"})
    found = both.flow()
    (way,) = found.ways[0]
    assert found.ways[1] == []
    assert way.losses.lost == both.summary["link.wan.forward.lost_packets"] > 10
    assert way.losses.reasons == {"lost on the link (wan@a)": way.losses.lost}
    assert way.again == both.summary["load.tcp.a.data_segments_retransmitted"]
    (track,) = found.senders[0].tracks  # type: ignore[union-attr]
    assert track.recoveries == both.summary["load.tcp.a.fast_retransmits"]
    assert track.timeouts == both.summary["load.tcp.a.timeouts"]
    for limit in ("in_recovery", "in_timeout", "handshake"):
        theirs = both.run.flow.sender.paths[0].share(limit)
        assert share(found, limit) == pytest.approx(theirs, abs=0.002)
    assert share(found, "under_way") == pytest.approx(
        both.run.flow.sender.paths[0].share("cwnd_limited"), abs=0.002
    )
    assert found.main is not None
    assert (found.main.kind, found.main.path) == (both.run.main.kind, "only") == ("losses", "only")
    assert f"{way.losses.lost} lost on the link (wan@a)" in found.sentences()[2]


@pytest.mark.parametrize(
    ("sets", "kind"),
    [
        ({}, "capacity"),
        ({"flows.load.transport.receive_buffer": "16 kB"}, "receive_window"),
        ({"flows.load.transport": "{ kind = 'sctp' }", "links.wan.loss": LOSS % "8 %"}, "losses"),
    ],
)
def test_the_same_main_cause(tmp_path: Path, sets: dict[str, str], kind: str) -> None:
    both = Both(tmp_path, sets)
    found = both.flow()
    assert found.main is not None
    assert found.main.kind == both.run.main.kind == kind
    if kind == "receive_window":
        theirs = both.run.flow.sender.paths[0].share("receive_window_limited")
        assert share(found, "receive_window_limited") == pytest.approx(theirs, abs=0.01)
    if kind == "losses":
        (way,) = found.ways[0]
        assert way.losses.lost == both.summary["link.wan.forward.lost_packets"]
        assert way.again == both.summary["load.sctp.a.data_chunks_retransmitted"]
        (track,) = found.senders[0].tracks  # type: ignore[union-attr]
        assert track.timeouts == both.summary["load.sctp.a.timeouts"]
        # The same bits are sent again, and are not taken for those that were lost.
        assert way.waits is not None
        assert way.waits.most_ms < 100


def test_a_standing_queue_has_its_length(tmp_path: Path) -> None:
    """60 packets of 1500 B at 8 Mbit/s are 90 ms."""
    (way,) = Both(tmp_path, {}).flow().ways[0]
    assert way.waits is not None
    assert way.waits.is_one_way
    assert way.waits.least_ms == pytest.approx(26.5, abs=0.1)
    assert way.waits.most_ms == pytest.approx(90, abs=2)


def test_a_failover(tmp_path: Path) -> None:
    both = Both(tmp_path, {}, ROOT / "scenarios" / "failover.toml")
    found = both.flow()
    assert [path.name for path in found.flow.paths] == ["p0", "p1"]
    sender = found.senders[0]
    assert sender is not None
    assert sum(t.timeouts for t in sender.tracks) == both.summary["call.sctp.a.timeouts"] == 4
    first, back = sender.moves
    assert (first.source, first.target, first.is_failover) == ("p0", "p1", True)
    assert first.silent_s == pytest.approx(0.7, abs=0.02)  # 0.1, 0.2 and 0.4 s
    assert [one.row for one in sender.expiries[:3]] == [1, 2, 3]
    assert not back.is_failover
    theirs = both.run.flow.sender.paths[0].share("path_down")
    assert share(found, "path_down") == pytest.approx(theirs, abs=0.01)
    assert found.main is not None
    assert (found.main.kind, found.main.path) == ("path_down", "p0")
    assert "At 10.68 s data moved from p0 to p1" in "\n".join(found.sentences())


def test_subflows_of_multipath_tcp(tmp_path: Path) -> None:
    sets = {"run.duration": "'10 s'"}
    both = Both(tmp_path, sets, ROOT / "scenarios" / "mptcp-phone.toml")
    found = both.flow()
    assert found.flow.protocol == "MPTCP"
    assert [way.path for way in found.ways[0]] == ["wifi", "lte"]
    for number, way in enumerate(found.ways[0]):
        section = f"upload.mptcp.a.subflow_{number}"
        assert way.again == both.summary[f"{section}.data_segments_retransmitted"]
    theirs = {
        link: both.summary[f"link.{link}.forward.queue_full_packets"] for link in ("wifi", "lte")
    }
    seen = {
        w.path: w.losses.reasons.get(f"the queue is full ({w.path}@phone)", 0)
        for w in found.ways[0]
    }
    assert seen == theirs


def test_one_end_sees_what_it_can(tmp_path: Path) -> None:
    """As tcpdump would have captured it there: at the sender and at the receiver."""
    both = Both(tmp_path, {"links.wan.loss": LOSS % "2 %"})
    sender = both.flow(interfaces=["wan@a"])
    (way,) = sender.ways[0]
    assert way.losses.known_by == "repeats"
    assert way.losses.lost == way.again == both.summary["load.tcp.a.data_segments_retransmitted"]
    assert way.waits is not None
    assert not way.waits.is_one_way
    assert sender.main is not None
    assert sender.main.kind == "losses"
    receiver = both.flow(interfaces=["wan@b"])
    (way,) = receiver.ways[0]
    assert way.losses.known_by == "holes"
    lost = both.summary["link.wan.forward.lost_packets"]
    assert way.losses.lost == pytest.approx(lost, rel=0.1)
    assert receiver.account is None
    assert receiver.sentences()[0].startswith("Captured at b, which got the data")


def test_rtp(tmp_path: Path) -> None:
    sets = {
        "flows.load.transport": "{ kind = 'udp', rtp = true }",
        "flows.load.app": "{ kind = 'voip' }",
        "links.wan.loss": LOSS % "3 %",
        "run.duration": "60 s",
    }
    file = tmp_path / "call.pcapng"
    loaded = anabranch.load(SCENARIO, set=sets)
    summary = anabranch.run(loaded, pcap=file, pcap_at="all").summary
    (whole,) = captured.explain(file).flows[0].ways[0]
    assert whole.losses.lost == summary["link.wan.forward.lost_packets"] > 10
    explained = captured.explain(file, interfaces=["wan@b"]).flows[0]
    (way,) = explained.ways[0]
    assert way.losses.known_by == "numbers"
    # Those before the first and after the last that came have no number there.
    assert 0 <= whole.losses.lost - way.losses.lost <= 3
    # The payload type says the codec.
    assert explained.main is not None
    assert explained.main.kind == "loss"
    assert "missing by RTP's numbers" in explained.sentences()[1]


def test_where_the_longest_burst_of_rtp_was(tmp_path: Path) -> None:
    """Many lost packets before it: their numbers are no packets of the capture."""
    lost = {*range(8, 808, 8), *range(900, 920)}
    frames = []
    for number in range(1000):
        rtp = bytes([128, 0, *number.to_bytes(2), *(160 * number).to_bytes(4), 0, 0, 0, 7])
        udp = bytes.fromhex("138c138c") + (len(rtp) + 168).to_bytes(2) + bytes(2) + rtp + bytes(160)
        head = bytes.fromhex("4500") + (20 + len(udp)).to_bytes(2) + number.to_bytes(2)
        head += bytes.fromhex("4000401100000a0000010a000002")
        if number not in lost:
            frames.append(Frame(number / 50, head + udp))
    (flow,) = captured.explain(save(tmp_path / "call.pcap", frames)).flows
    (way,) = flow.ways[0]
    assert (way.losses.lost, way.losses.longest) == (120, 20)
    assert way.losses.longest_s == pytest.approx(899 / 50)


def test_flows_of_one_name_can_be_told_apart(tmp_path: Path) -> None:
    both = Both(tmp_path, {"flows.load.count": "3", "run.duration": "3 s"})
    names = [one.flow.name for one in captured.explain(both.file, interfaces=["wan@a"]).flows]
    assert len(set(names)) == 3
    for name in names:
        assert [one.flow.name for one in captured.explain(both.file, flow=name).flows] == [name]


def test_text_of_files_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.console().print("[/red] [link=x]y[/link] :smile:")
    assert capsys.readouterr().out == "[/red] [link=x]y[/link] :smile:\n"


def test_the_command(tmp_path: Path, anabranch: Command) -> None:
    both = Both(tmp_path, {"links.wan.loss": LOSS % "0.5 %", "run.duration": "5 s"})
    done = anabranch(
        "explain", both.file, "--plot", tmp_path / "figures", "--json", tmp_path / "out.json"
    )
    assert done.returncode == 0, done.stderr
    assert "Main cause: losses, on only." in done.stdout
    assert (tmp_path / "figures" / "run-explain.png").stat().st_size > 10_000
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    (flow,) = content["flows"]
    assert flow["protocol"] == "TCP"
    way = flow["ends"]["a"]["paths"]["only"]
    assert way["losses"]["lost"] == both.summary["link.wan.forward.lost_packets"]
    assert math.isclose(sum(way["seconds"].values()), flow["end_s"] - flow["start_s"], rel_tol=1e-6)
    assert flow["sentences"][0].startswith("Main cause")


def test_mistakes_are_one_sentence(tmp_path: Path, anabranch: Command) -> None:
    file = Both(tmp_path, {"run.duration": "1 s"}).file
    text = tmp_path / "text.pcap"
    text.write_text("no capture", encoding="utf-8")
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(file.read_bytes()[:70])
    scenario = tmp_path / "one.toml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    empty, pings = tmp_path / "empty", tmp_path / "pings"
    empty.touch()
    captures.ping_text(pings, [0.02, 0.021, None, 0.02])
    for arguments, said in [
        ((text,), "text.pcap: neither pcap, pcapng, snoop nor ERF"),
        ((cut,), "cut.pcapng: the file is cut off in a packet"),
        ((tmp_path / "none.pcapng",), "none.pcapng"),
        ((file, "--seed", 3), "--seed is for scenarios"),
        ((file, "--no-alone"), "--no-alone is for scenarios"),
        ((file, "--interface", "wlan0"), "--interface wlan0: there is none of this name"),
        ((file, "--flow", "5060"), "no flow's name has `5060` in it; there are TCP from a:"),
        ((file, "--codec", "zz"), "codec = `zz` is not one of amr-4.75, "),
        ((scenario, "--interface", "wan@a"), "--interface is for captures"),
        ((empty,), "empty: the file is empty"),
        ((pings,), "pings: a log, of which `anabranch profile` makes a path"),
        (
            (Path(__file__).parent / "cases/captures/mahimahi-one-line.trace",),
            "a log, of which `anabranch profile` makes a path",
        ),
    ]:
        assert said in one_error(anabranch("explain", *arguments))
    half = tmp_path / "half.pcapng"
    half.write_bytes(file.read_bytes()[:-700])
    found = captured.explain(half)
    assert found.notes == [
        "half.pcapng: the file is cut off in a packet; what comes before it is used"
    ]
    assert found.flows[0].main is not None
    few = tmp_path / "few.pcapng"
    few.write_bytes(file.read_bytes()[:700])
    with pytest.raises(AnabranchError, match="no flow of SCTP, TCP or UDP has 10 packets"):
        captured.explain(few)


def test_a_capture_that_begins_and_lacks_packets_anywhere(tmp_path: Path) -> None:
    """Whatever is missing, what is there is explained or refused in a sentence."""
    blocks = list(_blocks(Both(tmp_path, {"run.duration": "3 s"}).file.read_bytes()))
    heads = [block for block in blocks if block[:4] != PACKET]
    packets = [block for block in blocks if block[:4] == PACKET]
    source = random.Random(1)
    explained = 0
    for _ in range(60):
        start = source.randrange(len(packets))
        part = source.choice([0.5, 1])
        kept = [p for p in packets[start : start + 200] if source.random() < part]
        file = tmp_path / "part.pcapng"
        file.write_bytes(b"".join(heads + kept))
        try:
            found = captured.explain(file)
        except AnabranchError:
            assert len(kept) < 40
            continue
        explained += 1
        for flow in found.flows:
            assert flow.sentences()
            seconds = flow.account.sender.connection.total if flow.account else 0.0
            assert 0 <= seconds <= flow.flow.end_s + 1e-9
            if start > 10 and flow.account is not None:
                assert share(flow, "handshake") == 0
    assert explained > 40


PACKET = b"\x06\x00\x00\x00"


def _blocks(data: bytes) -> Iterator[bytes]:
    """Those of a pcapng file."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        yield data[at : at + length]
        at += length


def test_a_compressed_capture_is_read_as_it_is(tmp_path: Path) -> None:
    both = Both(tmp_path, {"run.duration": "1 s"})
    packed = tmp_path / "packed.pcapng.gz"
    packed.write_bytes(gzip.compress(both.file.read_bytes()))
    assert captured.is_capture(packed)
    assert captured.explain(packed).flows[0].sentences() == both.flow().sentences()


def test_packets_of_sctp_that_the_system_cuts_apart_later(tmp_path: Path) -> None:
    """Several packets in one datagram (UDP_SEGMENT): each of their chunks was sent."""

    def packet(*tsns: int) -> bytes:
        chunks = (bytes([0, 3, 0, 20]) + tsn.to_bytes(4) + bytes(12) for tsn in tsns)
        return bytes.fromhex("138813890000000700000000") + b"".join(chunks)

    frames = []
    for number in range(20):
        payload = packet(3 * number) + packet(3 * number + 1, 3 * number + 2)
        udp = bytes.fromhex("26ab26ab") + (len(payload) + 8).to_bytes(2) + bytes(2) + payload
        head = bytes.fromhex("4500") + (20 + len(udp)).to_bytes(2) + number.to_bytes(2)
        head += bytes.fromhex("4000401100000a0000010a000002")
        frames.append(Frame(number / 10, head + udp))
    (flow,) = captured.explain(save(tmp_path / "large.pcap", frames)).flows
    assert flow.flow.protocol == "SCTP"
    (direction,) = flow.flow.directions(0)
    chunks = direction.packets.chunks
    assert direction.sent.row[chunks.packet].tolist() == [n // 3 for n in range(60)]
    assert chunks.number.tolist() == list(range(60))
    (track,) = flow.senders[0].tracks  # type: ignore[union-attr]
    assert (track.packets, track.again) == (20, 0)
    assert flow.ways[0][0].losses.lost == 0


def test_packets_of_one_time_are_drawn(tmp_path: Path) -> None:
    """As a capture whose clock stands has them: there is no time that an axis could show."""
    talk = Talk(0.05)
    for _ in range(20):
        talk.data(1000)
    file = save(tmp_path / "one.pcap", [Frame(0.0, data) for _, data in talk.frames])
    (found,) = captured.explain(file).flows
    figure = found.figure()
    assert figure is not None
    figure.canvas.draw()
