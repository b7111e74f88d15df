"""Path profiles recover what was simulated: the interval contains the true value, nearly always."""

import itertools
import json
import re
import shutil
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import dpkt
import numpy as np
import pytest
from scipy import stats

import captures
from anabranch.errors import AnabranchError
from anabranch.profile import estimate, measure, output
from anabranch.profile.intervals import block_interval, minimum_interval
from anabranch.profile.loss import Losses, _kolmogorov
from anabranch.profile.numbers import Data
from anabranch.profile.sent_again import at_receiver
from anabranch.studies import result
from anabranch.support.capture import Capture
from conftest import ROOT, Command, one_error, written
from support.profiles import LOSSES, WIFI, engine_loss, holds, lost, profile_of


def test_a_profile_is_no_measurement(tmp_path: Path) -> None:
    times = captures.round_trips('delay = "20 ms"', 8, 200)
    found = profile_of(captures.ping_csv(tmp_path / "p.csv", times))
    file = tmp_path / "p.toml"
    file.write_text(output.toml(found, "x", ("a", "b")))
    with pytest.raises(AnabranchError, match="a path profile or a scenario, not a measurement"):
        profile_of(file)


def test_the_file_is_written_before_anything_is_printed(tmp_path: Path) -> None:
    captures.ping_csv(tmp_path / "p.csv", captures.round_trips('delay = "20 ms"', 8, 200))
    command = f"{sys.executable} -m anabranch profile p.csv --out p.toml | true"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "p.toml").exists()


def test_delay_and_jitter_of_pings_are_recovered(tmp_path: Path) -> None:
    link = 'delay = "20 ms"\njitter = "3 ms"\nreorder = true'
    trials, count = 40, 300
    times = captures.round_trips(link, 3, trials * count)
    covered = {"delay": 0, "jitter": 0}
    for trial in range(trials):
        part = times[trial * count : (trial + 1) * count]
        found = profile_of(captures.ping_csv(tmp_path / "ping.csv", part))
        covered["delay"] += holds(found.delay_s, 0.020)
        covered["jitter"] += holds(found.jitter_s, 0.003)
        assert found.rate_bit_per_s is None
        assert found.loss is not None
        assert found.mean_loss is not None
        assert found.mean_loss.interval[1] == pytest.approx(3.84 / (300 + 3.84), rel=0.01)
    assert min(covered.values()) >= 34, covered


def test_every_way_to_write_pings_says_the_same(tmp_path: Path) -> None:
    link = 'delay = "30 ms"\njitter = "2 ms"\nreorder = true\n'
    link += 'loss = { kind = "gilbert", clock = "packet", p = 0.02, r = 0.3 }'
    times = captures.round_trips(link, 4, 3000)
    first = profile_of(captures.ping_csv(tmp_path / "ping.csv", times))
    assert isinstance(first.losses, Losses)
    assert first.losses.count == sum(time is None for time in times)
    files = [
        captures.ping_text(tmp_path / "ping.txt", times),
        captures.write(tmp_path / "ping.pcapng", captures.echoes(times)),
        captures.write(tmp_path / "ping.pcap", captures.echoes(times)),
    ]
    for file in files:
        found = profile_of(file)
        assert isinstance(found.losses, Losses)
        assert found.losses.lost.tolist() == first.losses.lost.tolist()
        assert found.measurement.losses is not None
        assert found.measurement.losses.spacing_s == pytest.approx(0.02, rel=1e-3)
        assert holds(found.delay_s, 0.030)
        assert found.jitter_s is not None
        assert found.jitter_s.value == pytest.approx(0.002, rel=0.1)


@pytest.mark.parametrize(("rate", "delay", "packets"), [(10, 20, 60), (4, 40, 30)])
def test_rate_delay_and_queue_of_a_transfer_are_recovered(
    tmp_path: Path, rate: float, delay: float, packets: int
) -> None:
    link = (
        f'rate = "{rate} Mbit/s"\ndelay = "{delay} ms"\n'
        f'queue = {{ kind = "drop_tail", packets = {packets} }}'
    )
    seen = captures.simulate(link, '{ kind = "tcp" }', '{ kind = "bulk" }', 1, 8)
    for side in "ab":
        found = profile_of(
            captures.write(tmp_path / f"{side}.pcapng", captures.transfer(seen, side))
        )
        assert (
            f"captured at the {'sender' if side == 'a' else 'receiver'}"
            in found.measurement.notes[0]
        )
        assert not found.rate_is_bound
        assert found.rate_bit_per_s is not None
        assert found.rate_bit_per_s.value == pytest.approx(rate * 1e6, rel=0.02)
        assert found.delay_s is not None
        assert found.delay_s.value == pytest.approx(delay / 1e3, rel=0.005)
        assert holds(found.queue_packets, packets)
        # All of its losses are those of the full queue.
        assert found.mean_loss is not None
        assert found.mean_loss.value < 1e-3
        assert found.packet_octets == 1500


def test_a_transfer_over_sctp(tmp_path: Path) -> None:
    link = 'rate = "2 Mbit/s"\ndelay = "30 ms"\nqueue = { kind = "drop_tail", packets = 20 }'
    seen = captures.simulate(link, '{ kind = "sctp" }', '{ kind = "bulk" }', 1, 12)
    for side in "ab":
        frames = captures.transfer(seen, side, "sctp")
        found = profile_of(captures.write(tmp_path / "s.pcapng", frames))
        assert found.measurement.title.startswith("SCTP from")
        assert ("receiver" in found.measurement.notes[0]) == (side == "b")
        assert found.delay_s is not None
        assert found.delay_s.value == pytest.approx(0.030, rel=0.03)
        if side == "a":
            assert not found.rate_is_bound
            assert found.rate_bit_per_s is not None
            assert found.rate_bit_per_s.value == pytest.approx(2e6, rel=0.02)
            assert holds(found.queue_packets, 20)


def test_a_window_that_does_not_fill_the_link_says_only_a_bound(tmp_path: Path) -> None:
    """A window of 64 KiB comes as a burst each round trip; the link is idle in between."""
    link = 'rate = "20 Mbit/s"\ndelay = "30 ms"'
    seen = captures.simulate(link, '{ kind = "sctp" }', '{ kind = "bulk" }', 1, 8)
    frames = captures.transfer(seen, "a", "sctp")
    found = profile_of(captures.write(tmp_path / "s.pcapng", frames))
    assert found.rate_bit_per_s is not None
    assert found.rate_is_bound
    assert found.queue_packets is None
    assert "\nrate" not in output.toml(found, "x", ("a", "b"))
    assert "rate" not in " ".join(output.netem(found))


def test_heartbeats_and_time_stamps_of_other_formats(tmp_path: Path) -> None:
    """Heartbeats in a pcapng with ns, two interfaces and unknown blocks, in either byte order."""
    for order in "<>":
        file = tmp_path / "h.pcapng"
        file.write_bytes(_heartbeats(order))
        found = profile_of(file)
        assert found.delay_s is not None
        assert found.delay_s.value == pytest.approx(0.0125, abs=1e-6)
        assert found.losses is None


def _heartbeats(order: str) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = struct.pack(f"{order}I", len(body) + 12)
        return struct.pack(f"{order}I", kind) + length + body + length

    def packet(time: float, kind: int, number: int, *, forward: bool) -> bytes:
        chunk = struct.pack(">BBHHHI", kind, 0, 12, 1, 8, number)
        data = captures.frame(bytes(12) + chunk, 132, 44, number, forward=forward)
        ticks = round((captures.START + time) * 1e9)
        head = (1, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
        return block(6, struct.pack(f"{order}IIIII", *head) + data)

    start = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    micro = block(1, struct.pack(f"{order}HHI", 101, 0, 0))
    nano = block(1, struct.pack(f"{order}HHIHHB3xHH", 1, 0, 0, 9, 1, 9, 0, 0))
    beats = b"".join(
        packet(i, 4, i, forward=True) + packet(i + 0.025, 5, i, forward=False) for i in range(20)
    )
    return start + micro + nano + block(4, b"names") + beats


def test_losses_of_a_transfer_are_estimated_from_retransmissions(tmp_path: Path) -> None:
    link = 'delay = "10 ms"\nloss = { kind = "bernoulli", probability = 0.01 }\n'
    link += 'reverse = { loss = { kind = "none" } }'
    seen = captures.simulate(link, '{ kind = "tcp" }', '{ kind = "bulk" }', 2, 15)
    data = seen.filter(side="a", kind="data")
    lost = data.filter(fate="lost")
    assert len(lost) > 0.005 * len(data)
    # A second loss of the same octets leaves no second hole at the receiver.
    for side, losses in (("a", len(lost)), ("b", lost["tsn"].n_unique())):
        truth = losses / len(data)
        found = profile_of(captures.write(tmp_path / "t.pcapng", captures.transfer(seen, side)))
        assert found.loss is not None
        assert found.loss.model == "bernoulli"
        assert found.mean_loss is not None
        assert found.mean_loss.value == pytest.approx(truth, rel=0.04)
        # A link without a limit has no rate to find.
        assert found.rate_bit_per_s is None or found.rate_is_bound
        assert found.measurement.losses is not None
        assert found.measurement.losses.is_estimate


def test_late_answers_and_missing_beginnings_are_no_losses(tmp_path: Path) -> None:
    def replies(numbers: Iterable[int]) -> str:
        line = "64 bytes from 10.0.0.2: icmp_seq={} ttl=64 time=10.5 ms\n"
        return "".join(line.format(number % 65536) for number in numbers)

    # The 16 bits start over, and two answers are late.
    numbers = [*range(1, 65533), 65537, 65534, 65538, 65535, *range(65539, 65600), 65599]
    file = tmp_path / "ping.txt"
    file.write_text("PING b (10.0.0.2)\n" + replies(numbers))
    found = profile_of(file).losses
    assert isinstance(found, Losses)
    assert (np.flatnonzero(found.lost) + 1).tolist() == [65533, 65536]
    # The last lines of an output: what came before them is not known.
    file.write_text(replies([*range(5000, 5100), *range(5101, 5200)]))
    found = profile_of(file).losses
    assert isinstance(found, Losses)
    assert (len(found.lost), found.count) == (200, 1)
    # An answer from before the first line, and one after an outage of more than half the numbers.
    file.write_text(replies([65541, 65535, *range(65542, 65550)]))
    found = profile_of(file).losses
    assert isinstance(found, Losses)
    assert (len(found.lost), found.count) == (15, 5)
    file.write_text("PING b (10.0.0.2)\n" + replies([1, 2, 40000]))
    found = profile_of(file).losses
    assert isinstance(found, Losses)
    assert (len(found.lost), found.count) == (40000, 39997)


def test_rtp_with_pauses_keeps_the_time_between_packets(tmp_path: Path) -> None:
    def packet(i: int, stamp: int) -> bytes:
        header = dpkt.rtp.RTP(
            version=2, p=0, x=0, cc=0, m=0, pt=0, seq=i, ts=stamp, ssrc=9, data=b"v" * 44
        )
        return captures.frame(bytes(dpkt.udp.UDP(ulen=64, data=bytes(header))), 17, 84, i)

    def spacing(times: list[float], ticks: int = 8000) -> float | None:
        sent = [(time, packet(i, round(time * ticks))) for i, time in enumerate(times) if i % 9]
        losses = profile_of(captures.write(tmp_path / "rtp.pcap", sent)).measurement.losses
        assert losses is not None
        return losses.spacing_s

    # Silence of 2 s after each 50 packets, and the ten packets that each picture of a video has.
    assert spacing([i * 0.02 + i // 50 * 2.0 for i in range(1000)]) == pytest.approx(0.02, rel=1e-3)
    assert spacing([i // 10 * 0.04 for i in range(1000)], 90000) is None


def test_tags_of_vlans_and_offsets_of_time_stamps(tmp_path: Path) -> None:
    (_, plain), *_ = captures.echoes([0.01])
    tagged = plain[:12] + b"\x88\xa8\0\5\x81\0\0\7" + plain[12:]
    file = captures.write(tmp_path / "tagged.pcap", [(0.0, plain), (1.0, tagged)])
    capture = Capture(file)
    (both,) = capture.batches()
    assert [capture.places[number].name for number in both.place] == ["0", "0.5.7"]
    assert both.identity[0] == both.identity[1]
    assert both.content[0] == both.content[1]

    def block(kind: int, body: bytes) -> bytes:
        length = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + length + body + length

    interface = struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHqHH", 14, 8, 1000, 0, 0)
    padded = plain + b"\0" * (-len(plain) % 4)
    packet = struct.pack("<IIIII", 0, 0, 2_500_000, len(plain), len(plain)) + padded
    head = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    file.write_bytes(block(0x0A0D0D0A, head) + block(1, interface) + block(6, packet))
    (found,) = Capture(file).batches()
    assert found.identity.tolist() == [both.identity[0]]
    assert found.time_ns.tolist() == [1_002_500_000_000]


def test_a_segment_that_is_late_at_the_receiver_is_not_lost() -> None:
    order = [(0, 0.0), (1, 0.01), (3, 0.03), (2, 0.031), (5, 0.05), (4, 0.2)]
    numbers, times = np.array(order).T
    start = numbers.astype(np.int64) * 100
    yes = np.ones(len(order), dtype=bool)
    sizes = np.full(len(order), 140.0)
    data = Data(np.arange(6), times, start, start + 100, sizes, sizes, yes, ~yes)
    fates = at_receiver(data, 0.1, None)
    assert fates.lost.sum() == 1  # only the one that came a round-trip time after its hole
    assert fates.seen_s[fates.lost] == pytest.approx([0.0405])


@pytest.mark.parametrize("count", [10, 30, 100, 10_000])
@pytest.mark.parametrize("chance", [0.001, 0.01, 0.05, 0.5, 0.9])
def test_the_p_value_of_gaps_is_that_of_kolmogorov_and_smirnov(count: int, chance: float) -> None:
    distance = float(stats.kstwo.isf(chance, count))
    assert _kolmogorov(distance, count) == pytest.approx(chance, abs=0.003)


def test_the_goodness_of_fit_counts_its_parameters() -> None:
    losses = Losses(lost(engine_loss("gilbert", {"p": 0.02, "r": 0.2}), 5, 20_000))
    degrees = [losses.fit(model).goodness.degrees for model in ("simple_gilbert", "gilbert")]
    lengths = len(np.unique(losses.bursts))
    assert 0 < degrees[1] < degrees[0] <= lengths - 2


def test_a_large_ipv6_packet_of_segmentation_offload(tmp_path: Path) -> None:
    header = dpkt.ip6.IP6(src=b"\0" * 15 + b"\1", dst=b"\0" * 15 + b"\2", nxt=17, plen=0)
    frame = dpkt.ethernet.Ethernet(type=dpkt.ethernet.ETH_TYPE_IP6, data=bytes(header) + b"x" * 60)
    file = captures.write(tmp_path / "large.pcap", [(0.0, bytes(frame))])
    (packets,) = Capture(file).batches()
    assert packets.octets.tolist() == packets.captured.tolist() == [100]
    assert packets.fault.tolist() == [0]


def test_rtp_and_two_captures(tmp_path: Path) -> None:
    link = 'delay = "25 ms"\njitter = "4 ms"\nreorder = true\n'
    link += 'loss = { kind = "bernoulli", probability = 0.03 }'
    seen = captures.probes(link, 6, 3000)
    far = captures.write(tmp_path / "far.pcap", captures.rtp(seen))
    near = captures.write(tmp_path / "near.pcap", captures.rtp(seen, arrived=False))
    inside = seen["delay_s"].is_null().to_numpy()
    inside = inside[np.flatnonzero(~inside)[0] : np.flatnonzero(~inside)[-1] + 1]
    for files in ((far,), (near, far), (far, near)):
        found = profile_of(*files)
        assert isinstance(found.losses, Losses)
        assert found.losses.lost.tolist() == inside.tolist()
        assert found.jitter_s is not None
        assert found.jitter_s.value == pytest.approx(0.004, rel=0.1)
        assert found.measurement.losses is not None
        assert found.measurement.losses.spacing_s == pytest.approx(0.02, rel=1e-3)
        assert (found.delay_s is None) == (len(files) == 1)
        if found.delay_s is not None:
            assert found.delay_s.value == pytest.approx(0.025, rel=0.01)


def test_one_capture_named_twice_is_refused(tmp_path: Path) -> None:
    """It would have no delay and no losses."""
    file = captures.write(tmp_path / "a.pcap", captures.echoes([0.02] * 20))
    (tmp_path / "b.pcap").symlink_to("a.pcap")
    with pytest.raises(AnabranchError, match="one file, named twice"):
        measure([file, tmp_path / "b.pcap"])


@pytest.mark.parametrize("start", [b"\xfd7zXZ\0", b"PK\3\4", b"BZh9"])
def test_what_is_packed_otherwise_is_to_be_unpacked(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "a").write_bytes(start + bytes(range(200)))
    with pytest.raises(AnabranchError, match="compressed; unpack it first"):
        measure([tmp_path / "a"])


def test_clocks_of_two_captures_need_not_agree(tmp_path: Path) -> None:
    times = [time for time in captures.round_trips('delay = "15 ms"', 1, 200) if time]
    asked = captures.echoes(list(times))
    near = captures.write(tmp_path / "near.pcap", asked)
    # The far end sees questions 15 ms later and answers 15 ms earlier, by a clock of its own.
    moved = [
        (time + (0.015 if index % 2 == 0 else -0.015) + 77.0, data)
        for index, (time, data) in enumerate(asked)
    ]
    far = captures.write(tmp_path / "far.pcap", moved)
    for files in ((near, far), (far, near)):
        found = profile_of(*files)
        assert found.delay_s is not None
        assert found.delay_s.value == pytest.approx(0.015, abs=1e-5)


def test_a_packet_delivery_trace_becomes_the_links_rate(tmp_path: Path) -> None:
    steps = np.concatenate([np.arange(1, 4001), np.arange(5001, 9001), np.arange(9001, 10001, 4)])
    trace = written(tmp_path / "lte.up", "".join(f"{step}\n" for step in steps))
    found = profile_of(trace)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(len(steps) * 12_000 / steps[-1] * 1e3)
    assert [(round(a, 3), round(b, 3)) for a, b in found.outages] == [(4.0, 1.001)]
    text = output.toml(found, "lte", ("a", "b"), tmp_path / "sub" / "lte.toml")
    assert tomllib.loads(text)["links"]["lte"]["rate"] == {"mahimahi": "../lte.up"}


FLOW = """
[flows.flow]
from = "client"
to = "server"
paths = ["wifi"]
transport = { kind = "udp" }
app = { kind = "datagrams", rate = "100 kbit/s", intervals = { kind = "cbr" } }
"""


def test_what_is_written_is_what_the_engine_reads(tmp_path: Path, anabranch: Command) -> None:
    """The command, the file in a scenario, and a simulation that has the measured numbers again."""
    loss = 'loss = { kind = "gilbert", clock = "packet", p = 0.02, r = 0.25 }'
    times = captures.round_trips(
        f'delay = "20 ms"\njitter = "3 ms"\nreorder = true\n{loss}', 8, 4000
    )
    captures.ping_text(tmp_path / "ping.txt", times)
    done = anabranch(
        "profile", "ping.txt", "--name", "wifi", "--out", "wifi.toml", "--ends", "client", "server",
        "--plot", "figures", "--json", "wifi.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (line, other) = [line for line in done.stdout.splitlines() if line.startswith("tc qdisc")]
    assert "loss gemodel" in line
    assert "loss" not in other
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "wifi-bursts.png",
        "wifi-delays.png",
    ]
    found = json.loads((tmp_path / "wifi.json").read_text())
    assert found["chosen_model"] == "simple_gilbert"
    assert found["packets"] == 4000
    scenario = written(
        tmp_path / "s.toml", f'include = ["wifi.toml"]\n[run]\nduration = "800 s"\n{FLOW}'
    )
    assert anabranch("validate", scenario).returncode == 0
    link = tomllib.loads((tmp_path / "wifi.toml").read_text())["links"]["wifi"]
    assert link["loss"]["clock"] == "slot"
    assert link["loss"]["slot"] == "20 ms"
    summary = result.run(scenario).summary
    sent, arrived = (summary[f"flow.{name}"] for name in ("sent", "received"))
    assert 1 - arrived / sent == pytest.approx(found["mean_loss"]["value"], rel=0.25)


def test_netem_has_the_kernels_meaning(tmp_path: Path) -> None:
    """Uniform jitter around the delay, losses of the states, and a limit that counts what flies."""
    seen = captures.simulate(
        'rate = "10 Mbit/s"\ndelay = "20 ms"\nqueue = { kind = "drop_tail", packets = 60 }',
        '{ kind = "tcp" }', '{ kind = "bulk" }', 1, 10,
    )  # fmt: skip
    found = profile_of(captures.write(tmp_path / "t.pcapng", captures.transfer(seen, "a")))
    (_, line, _, _) = output.netem(found)
    words = line.split()
    assert words[:7] == ["tc", "qdisc", "replace", "dev", "DEVICE", "root", "netem"]
    assert words[words.index("rate") + 1] == "10000kbit"
    # 20 ms at 10 Mbit/s are 16.7 packets of 1500 bytes.
    assert 74 <= int(words[words.index("limit") + 1]) <= 79
    model = Losses(lost(engine_loss(*LOSSES[4][:2]), 5, 20_000)).fit("gilbert_elliott")
    words = output.netem_loss(model).split()
    assert words[:2] == ["loss", "gemodel"]
    shares = [float(word.rstrip("%")) / 100 for word in words[2:]]
    assert shares == pytest.approx(
        [model.values[key] for key in ("p", "r", "loss_in_bad", "loss_in_good")], rel=5e-3
    )  # three digits, more than is known


def test_tc_parses_the_netem_lines(tmp_path: Path) -> None:
    """And takes them twice and undoes them, where the kernel has netem."""
    if shutil.which("tc") is None:
        pytest.skip("needs tc")
    link = WIFI.replace('delay = "8 ms"', 'delay = "8 ms"\njitter = "3 ms"')
    pings = captures.ping_csv(tmp_path / "p.csv", captures.round_trips(link, 1, 2000))
    seen = captures.simulate(WIFI, '{ kind = "tcp" }', '{ kind = "bulk" }', 1, 10)
    capture = captures.write(tmp_path / "t.pcap", captures.transfer(seen, "a"))
    lines = [
        line for file in (pings, capture) for line in output.netem(profile_of(file), device="lo")
    ]
    roots = [line for line in lines if line.startswith("tc ")]
    undo = [line.partition("undo: ")[2] for line in lines if "undo: " in line]
    assert len(roots) == len(undo) == 4
    assert any(" delay " in line and " loss gemodel " in line for line in roots)
    assert any(" rate " in line and " limit " in line for line in roots)
    for line, back in zip(roots, undo, strict=True):
        done = in_namespace(line)
        # What tc cannot parse ends with 1 before it asks the kernel, whose refusal gives 2.
        assert done.returncode in (0, 2), (line, done.stderr)
        assert "Usage" not in done.stderr
        if done.returncode == 2:
            assert "Error: Specified qdisc kind is unknown" in done.stderr or (
                "RTNETLINK answers" in done.stderr
            )
        else:
            done = in_namespace(f"{line}; {line}; tc qdisc show dev lo; {back}")
            assert done.returncode == 0, done.stderr
            assert "netem" in done.stdout
    # This tells the two apart.
    assert in_namespace(roots[0].replace("delay", "dilay")).returncode == 1
    assert in_namespace(roots[0].replace("ms", "mq")).returncode == 1


def in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """The output of a shell in a network of its own."""
    command = ["unshare", "-n", "bash", "-ec", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"needs a network namespace: {done.stderr.strip()}")
    return done


def test_the_page_has_the_real_output(tmp_path: Path, anabranch: Command) -> None:
    """docs/profile.md, whose pings are these; numbers to a per cent, as on other processors."""
    link = (
        'delay = "18 ms"\njitter = "4 ms"\nloss = { kind = "gilbert", clock = "packet", '
        "p = 0.01, r = 0.2, loss_in_bad = 0.7, loss_in_good = 0.002 }"
    )
    captures.ping_text(tmp_path / "wifi.txt", captures.round_trips(link, 6, 15_000))
    done = anabranch("profile", "wifi.txt", "--ends", "phone", "server", "--out", "wifi.toml")
    page = (ROOT / "docs/profile.md").read_text("utf-8")
    block = page.partition("```text\n")[2].partition("```")[0]
    said, shown = (
        [line.split() for line in text.splitlines() if not line.startswith(("wrote", " ───"))]
        for text in (done.stdout, block)
    )
    assert [len(line) for line in said] == [len(line) for line in shown]
    for one, other in zip(*map(itertools.chain.from_iterable, (said, shown)), strict=True):
        numbers = [re.fullmatch(r"(-?[0-9.]+)(%?|ms)", word) for word in (one, other)]
        if all(numbers):
            values = [float(number[1]) for number in numbers if number]
            assert values[0] == pytest.approx(values[1], rel=0.01, abs=0.011)
        else:
            assert one == other


def test_the_least_delay_is_bounded_from_what_is_seen() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    errors = []
    for _ in range(400):
        values = 1.0 + rng.random(200) + rng.random(200)
        value, (low, high) = minimum_interval(values, 2)
        covered += low <= 1.0 <= high
        errors.append(value > 1.0)
    assert 0.92 <= covered / 400 <= 0.98
    assert 0.4 <= np.mean(errors) <= 0.6  # median-unbiased


@pytest.mark.parametrize("step_s", [1e-4, 1e-3, 0.012])
def test_a_queue_that_grows_is_no_sample_of_the_least_delay(step_s: float) -> None:
    """As in slow start: the first packet finds it empty, and each one waits a bit longer."""
    ramp = np.array([0.04 + step_s * nth for nth in range(100)])
    value, (low, high) = minimum_interval(ramp, 2)
    assert value == high == ramp[0]
    assert low < value
    # In another order the same values are a sample.
    shuffled = np.random.default_rng(1).permutation(ramp)
    assert minimum_interval(shuffled, 1)[0] < ramp[0]


def test_bursts_make_the_interval_of_a_mean_wider() -> None:
    flags = lost(engine_loss(*LOSSES[2][:2]), 3, 4000).astype(float)
    low, high = block_interval(flags)
    shuffled = np.random.default_rng(1).permutation(flags)
    narrow = block_interval(shuffled)
    assert high - low > 1.5 * (narrow[1] - narrow[0])


def bad_files(folder: Path) -> Iterator[tuple[str, bytes, str]]:
    good = captures.write(folder / "good.pcapng", captures.echoes([0.02] * 50)).read_bytes()
    pcap = captures.write(folder / "good.pcap", captures.echoes([0.02] * 50)).read_bytes()
    yield "empty", b"", "the file is empty"
    yield "noise", bytes(range(256)) * 20, "neither a capture"
    yield "gzip", b"\x1f\x8b" + good, "compressed; unpack it first"
    yield "only-header.pcap", pcap[:24], "no packets of TCP, SCTP, RTP or ICMP echoes"
    yield "half-header.pcap", pcap[:10], "cut off"
    yield (
        "huge-block.pcapng",
        good[:4] + b"\xff\xff\xff\x7f" + good[8:],
        "a block cannot have 2147483647 bytes; the file is damaged",
    )
    yield (
        "huge.pcap",
        pcap[:24] + struct.pack("<IIII", 1, 1, 2**31, 2**31),
        "a packet cannot have 2147483648 bytes; the file is damaged",
    )
    yield (
        "none.txt",
        b"PING b (10.0.0.2)\n3 packets transmitted, 0 received\n",
        "no ping was answered",
    )
    yield "huge.csv", b"seq,rtt\n1,1e300\n", "is not a round-trip time"
    yield "nan.csv", b"seq,rtt\n1,infinity\n", "is not a round-trip time"
    yield "far.csv", b"seq,rtt\n1,5\n999999999999,5\n", "pings"
    yield "columns.csv", b"a,b\n1,2\n", "needs the columns `seq` and `rtt`"
    yield "short.csv", b"seq,rtt\n1,5\n2\n", "line 3: 1 cells, not 2"
    yield "back.mahi", b"5\n3\n7\n", "must not decrease"
    yield "zero.mahi", b"0\n", "a time above 0"


def test_bad_files_give_one_sentence(tmp_path: Path) -> None:
    for name, content, message in bad_files(tmp_path):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(AnabranchError) as error:
            profile_of(path)
        assert message in str(error.value), (name, str(error.value))
        assert str(error.value).startswith(str(path)), str(error.value)
        assert "\n" not in str(error.value)


def test_a_capture_that_was_cut_off_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    for name in ("t.pcapng", "t.pcap"):
        whole = captures.write(tmp_path / name, captures.echoes([0.02] * 50))
        whole.write_bytes(whole.read_bytes()[:-31])
        found = profile_of(whole)
        assert isinstance(found.losses, Losses)
        assert 48 <= len(found.losses.lost) <= 50
        assert found.losses.count == 0
        assert any("cut off" in note for note in found.measurement.notes)


def test_arbitrary_damage_is_no_traceback(tmp_path: Path) -> None:
    whole = captures.write(tmp_path / "t.pcapng", captures.echoes([0.02] * 30)).read_bytes()
    rng = np.random.default_rng(2)
    for _ in range(100):
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=5):
            damaged[at] = rng.integers(256)
        (tmp_path / "d.pcapng").write_bytes(damaged)
        try:
            profile_of(tmp_path / "d.pcapng")
        except AnabranchError:
            continue


def test_a_capture_with_times_backwards_is_read(tmp_path: Path) -> None:
    """Acknowledgements come before the data; only the receiver's side shows a delay."""
    seen = captures.simulate(WIFI, '{ kind = "tcp" }', '{ kind = "bulk" }', 1, 2)
    packets = list(captures.transfer(seen, "a"))
    # Without time stamps; the file's times go back.
    backwards = [(3000 - time, frame) for time, frame in packets]
    found = profile_of(captures.write(tmp_path / "b.pcap", backwards))
    assert "captured at the" in found.measurement.notes[0]


def test_the_command_refuses_what_is_wrong(tmp_path: Path, anabranch: Command) -> None:
    written(tmp_path / "p.csv", "seq,rtt\n1,20\n2,21\n")
    assert "needs a measurement" in one_error(anabranch("profile"))
    assert "nothere" in one_error(anabranch("profile", "nothere.pcap"))
    assert "is not a name" in one_error(anabranch("profile", "p.csv", "--name", "a b"))
    long = written(tmp_path / f"{'n' * 150}.csv", "seq,rtt\n1,20\n2,21\n")
    assert f"[links.{'n' * 100}]" in anabranch("profile", long.name).stdout
    assert "1 to 100 letters" in one_error(anabranch("profile", "p.csv", "--name", "n" * 101))
    assert "a link joins two nodes" in one_error(anabranch("profile", "p.csv", "--ends", "a", "a"))
    assert "unknown option" in one_error(anabranch("profile", "p.csv", "--empty-ends"))
    twice = anabranch("profile", "p.csv", "--json", "x", "--plot", "x")
    assert "--json and --plot are both x" in one_error(twice)
    assert "captures of the same traffic" in one_error(anabranch("profile", "p.csv", "p.csv"))
    assert "a folder" in one_error(anabranch("profile", "p.csv", "--out", "."))


def test_a_calls_own_pace_is_not_the_rate_of_a_link_that_others_fill(tmp_path: Path) -> None:
    """Its packets wait behind those of others for a tenth of the time, and come in a row then."""
    capture = tmp_path / "call.pcapng"
    scenario = ROOT / "scenarios" / "two-path-call.toml"
    run = result.run(scenario, pcap=capture, pcap_at="all")
    measured = measure([capture], interfaces=["first@caller", "first@callee"])
    found = estimate(measured)
    assert measured.delays is not None
    assert len(measured.delays.seconds) == run.summary["link.first.forward.delivered_packets"]
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(0.03, rel=0.02)
    assert found.rate_is_bound
