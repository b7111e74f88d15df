"""Calls in RTP: frames that later packets repeat (RFC 2198), and what a call waits behind."""

import random
import re
import shlex
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch
from anabranch import advise, cli
from anabranch.advise import search
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.support import redundancy, rtp
from capture_kinds import Frame, save
from conftest import Command

STEP_MS = 20
FRAME_BYTES = 33


def red_packet(
    number: int, kinds: tuple[int, int], repeats: int, step: int, extension: bytes = b""
) -> bytes:
    """A packet of RTP by RFC 2198 section 3: oldest block first, the frame's own last."""
    kind, primary = kinds
    flags = 128 | 16 * bool(extension)
    head = bytes([flags, kind, *number.to_bytes(2), *(step * number).to_bytes(4), 0, 0, 0, 7])
    count = min(repeats, number)
    blocks = b"".join(
        bytes([128 | primary]) + ((step * back) << 10 | FRAME_BYTES).to_bytes(3)
        for back in range(count, 0, -1)
    )
    own = random.Random(number).randbytes(FRAME_BYTES * (count + 1))
    return head + extension + blocks + bytes([primary]) + own


def on_wire(payload: bytes, number: int) -> bytes:
    udp = bytes.fromhex("138c138c") + (len(payload) + 8).to_bytes(2) + bytes(2) + payload
    head = bytes.fromhex("4500") + (20 + len(udp)).to_bytes(2) + number.to_bytes(2)
    return head + bytes.fromhex("4000401100000a0000010a000002") + udp


def explained(
    folder: Path, packets: dict[int, bytes], late_s: dict[int, float], codec: str | None = None
) -> captured.calls.Rated:
    frames = [
        Frame(number * STEP_MS / 1e3 + late_s.get(number, 0.0), on_wire(payload, number))
        for number, payload in packets.items()
    ]
    frames.sort(key=lambda frame: frame.time_s)
    (flow,) = captured.explain(save(folder / "call.pcap", frames), codec=codec).flows
    (rated,) = flow.calls
    return rated


@pytest.mark.parametrize("extension", ["", "bede0001aabbccdd"])
@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize(("kind", "primary", "step"), [(63, 111, 960), (96, 0, 160), (127, 8, 160)])
def test_frames_that_are_repeated_are_not_lost(  # noqa: PLR0917 - parameters
    tmp_path: Path, kind: int, primary: int, step: int, repeats: int, extension: str
) -> None:
    chance = random.Random(repeats)
    lost = {number for number in range(2, 598) if chance.random() < 0.2}
    packets = {
        number: red_packet(number, (kind, primary), repeats, step, bytes.fromhex(extension))
        for number in range(600)
        if number not in lost
    }
    again = {n for n in lost if not lost.issuperset(range(n + 1, n + repeats + 1))}
    rated = explained(tmp_path, packets, {})
    assert (rated.frames, rated.lost, rated.repeats) == (600, len(lost), repeats)
    assert rated.repaired == len(again) > 50
    assert rated.codec == (None if primary == 111 else "g711+plc")
    said = "\n".join(rated.sentences(["call.pcap"]))
    assert f"{len(lost)} were lost without that" in said
    assert f"and {len(lost - again)} with it" in said
    assert "once more in the next packet" not in said
    if primary == 111:
        assert "which codec payload type 111 is" in said
        rated = explained(tmp_path, packets, {}, codec="g711+plc")
    assert rated.call is not None
    of_loss = [cost.frames for cost in rated.call.costs if cost.kind == "loss"]
    assert of_loss == [len(lost - again)]


def test_a_repetition_that_comes_too_late_does_not_help(tmp_path: Path) -> None:
    packets = {number: red_packet(number, (96, 0), 1, 160) for number in range(500)}
    del packets[100], packets[200]
    # Frame 200 is in packet 201, which comes 90 ms late, so that the frame is 110 ms late.
    rated = explained(tmp_path, packets, {201: 0.09})
    assert (rated.lost, rated.repaired, rated.late) == (2, 2, 1)
    rated = explained(tmp_path, packets, {201: 0.07})
    assert (rated.lost, rated.repaired, rated.late) == (2, 2, 0)


@pytest.mark.parametrize("first", [0x78, 0xFC, 0x80, 0xFF, None])
def test_other_payloads_are_not_redundant(tmp_path: Path, first: int | None) -> None:
    """Of Opus the first byte is a TOC (RFC 6716 section 3.1), the same in most packets."""
    packets = {}
    for number in range(300):
        head = red_packet(number, (111, 0), 0, 960)[:12]
        body = random.Random(number).randbytes(80)
        packets[number] = head + (body if first is None else bytes([first]) + body)
    rated = explained(tmp_path, packets, {}, codec="g711+plc")
    assert (rated.repeats, rated.repaired) == (0, 0)


def test_no_frame_is_repeated_of_a_static_type(tmp_path: Path) -> None:
    packets = {number: red_packet(number, (8, 0), 1, 160) for number in range(300)}
    assert explained(tmp_path, packets, {}).repeats == 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_bytes_are_read_without_a_fault(data: st.DataObject) -> None:
    count = 20
    head = np.frombuffer(
        data.draw(st.binary(min_size=52 * count, max_size=52 * count)), dtype=np.uint8
    ).reshape(count, 52)
    captured_ = np.array(data.draw(st.lists(st.integers(0, 52), min_size=count, max_size=count)))
    numbers = np.arange(count)
    stream = rtp.Stream(7, 96, numbers, numbers, numbers * 160, 8000)
    found = redundancy.found(stream, head, captured_, captured_ + 100)
    if found is not None:
        places = redundancy.copies(stream, found, np.where(numbers % 3, numbers * 160.0, np.nan))
        assert ((places >= -1) & (places < count)).all()


UPLOAD = """\
seed = 3
[run]
duration = "45 s"
[links.dsl]
ends = ["phone", "pbx"]
rate = "1 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 60 }
loss = { kind = "bernoulli", probability = "1 %" }
[paths.dsl]
via = ["dsl"]
[flows.call]
from = "phone"
to = "pbx"
paths = ["dsl"]
transport = { kind = "udp", rtp = true }
app = { kind = "voip", codec = "g711", duration = "40 s", direction = "both", start = "1 s" }
[flows.upload]
from = "phone"
to = "pbx"
paths = ["dsl"]
transport = { kind = "tcp" }
app = { kind = "bulk", start = "10 s", bytes = "1 MB" }
"""


@pytest.fixture
def beside_an_upload(tmp_path: Path) -> Path:
    """A capture where the call is heard, and the upload arrives."""
    (tmp_path / "beside.toml").write_text(UPLOAD, encoding="utf-8")
    file = tmp_path / "beside.pcapng"
    anabranch.run(tmp_path / "beside.toml", pcap=file, pcap_at="pbx")
    return file


def test_what_a_call_waits_behind_is_named(beside_an_upload: Path) -> None:
    flows = captured.explain(beside_an_upload).flows
    (flow,) = [one for one in flows if one.calls]
    from_pbx, from_phone = flow.calls
    assert from_pbx.beside is None
    beside = from_phone.beside
    assert beside is not None
    assert (beside.name, beside.protocol) == ("TCP from phone:49152", "TCP")
    assert 9 < beside.from_s < 13
    assert 17 < beside.until_s < 25
    assert beside.rate > 500_000
    assert beside.otherwise < 50_000
    assert flow.main is not None
    assert flow.main.kind == "late"
    assert flow.sentences()[0].startswith(
        "Main cause: late, on dsl, from phone. A queue of its own"
    )
    helps = dict(from_phone.others)
    assert from_phone.call is not None
    assert helps["no waiting (a queue of its own at the slowest link)"] > from_phone.call.mos + 1
    # What was lost behind this place is known by the file, and counts in both numbers.
    assert flow.ways[0][0].losses.lost == from_pbx.lost > 0


def test_a_clock_that_jumps_far_costs_no_memory(tmp_path: Path) -> None:
    """A time stamp of pcap has 32 bits of seconds."""
    packets = {number: red_packet(number, (0, 0), 0, 160)[:12] + bytes(160) for number in range(99)}
    frames = [Frame(number / 50, on_wire(data, number)) for number, data in packets.items()]
    frames[-1] = frames[-1]._replace(time_s=2.5e9)
    other = on_wire(bytes(1000), 7)
    other = other[:12] + bytes([10, 0, 9, 1]) + other[16:]
    frames += [Frame(2.5e9 + number / 100, other) for number in range(50)]
    tracemalloc.start()
    captured.explain(save(tmp_path / "jump.pcap", frames))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 200e6


def test_its_advice_is_a_queue(
    beside_an_upload: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the capture to the setting that mends it, by the commands that are printed."""
    monkeypatch.setattr(advise, "QUICK", search.Effort(12, 2, 6))
    monkeypatch.chdir(beside_an_upload.parent)
    monkeypatch.setenv("COLUMNS", "1000")
    assert cli.main(["explain", beside_an_upload.name]) == 0
    printed = capsys.readouterr().out.split("from phone: RTP of payload type 0")[1]
    commands = re.findall(r"`anabranch ((?:profile|advise) [^`]*)`", printed)
    assert commands[1].endswith("--beside-bulk")
    for command in commands:
        assert cli.main(shlex.split(command)) == 0, command
    advice = capsys.readouterr().out
    assert "MOS of a G.711 call of 60 s beside a bulk transfer over udp" in advice
    assert re.search(r"Recommended: .*queue = (fq_codel|cake|prio)", advice)


def test_only_a_call_is_rated_beside_a_transfer(anabranch: Command) -> None:
    with pytest.raises(
        AnabranchError, match="--beside-bulk is for --goal mos and video, not for goodput"
    ):
        advise.advise("lossy-two-paths", "goodput", beside_bulk=True)
    done = anabranch("advise", "--paths", "wifi-and-lte", "--goal", "latency", "--beside-bulk")
    assert (done.returncode, done.stdout) == (2, "")
    assert "not for latency" in done.stderr
