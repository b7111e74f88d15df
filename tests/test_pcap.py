"""`anabranch run --pcap`: what Wireshark would open, and what `anabranch profile` makes of it."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

import anabranch
from anabranch import profile
from anabranch.errors import AnabranchError
from anabranch.studies import result
from anabranch.support.capture import Capture
from conftest import Command, one_error

SCENARIO = """\
run.duration = "60 s"
[links.wan]
ends = ["a", "b"]
rate = "8 Mbit/s"
delay = "25 ms"
queue = { kind = "drop_tail", packets = 60 }
loss = { kind = "bernoulli", probability = "0.3 %" }
[paths.only]
via = ["wan"]
[flows.load]
from = "a"
to = "b"
paths = ["only"]
transport.kind = "tcp"
app = { kind = "bulk" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario and a capture of it."""
    folder = tmp_path_factory.mktemp("pcap")
    (folder / "load.toml").write_text(SCENARIO, encoding="utf-8")
    anabranch.run(folder / "load.toml", pcap=folder / "load.pcapng", pcap_at="all")
    return folder


def test_the_command_writes_what_the_function_does(folder: Path, anabranch: Command) -> None:
    out = folder / "again.pcapng"
    words = ["run", folder / "load.toml", "--pcap", out, "--pcap-at", "all"]
    done = anabranch(*words, "--json", folder / "run.json")
    assert done.returncode == 0, done.stderr
    assert f"wrote {out}" in done.stdout
    assert out.read_bytes() == (folder / "load.pcapng").read_bytes()
    plain = anabranch("run", folder / "load.toml", "--json", folder / "plain.json")
    assert plain.returncode == 0
    summaries = [
        json.loads((folder / name).read_text(encoding="utf-8"))["summary"]
        for name in ("run.json", "plain.json")
    ]
    for summary in summaries:
        del summary["run.events"]  # how it was computed
    assert summaries[0] == summaries[1]


def test_one_node_sees_no_packet_twice(folder: Path, anabranch: Command) -> None:
    out = folder / "a.pcapng"
    done = anabranch("run", folder / "load.toml", "--pcap", out, "--pcap-at", "a")
    assert done.returncode == 0, done.stderr
    own, both = Capture(out), Capture(folder / "load.pcapng", interface="wan@a")
    names = ("time_ns", "identity", "octets", "direction", "content")
    columns = [
        [np.concatenate([getattr(batch, name) for batch in batches]).tolist() for name in names]
        for batches in (list(own.batches()), list(both.batches()))
    ]
    assert columns[0] == columns[1]
    assert set(own.interfaces) == {"wan@a"}
    # Without --pcap-at it is the node that the first flow comes from.
    plain = folder / "plain.pcapng"
    done = anabranch("run", folder / "load.toml", "--pcap", plain)
    assert "plain.pcapng: what a sends and receives" in " ".join(done.stdout.split())
    assert plain.read_bytes() == out.read_bytes()
    message = one_error(
        anabranch("run", folder / "load.toml", "--pcap", out, "--pcap-at", "nowhere")
    )
    assert 'no link ends at "nowhere"; links end at a, b' in message
    message = one_error(anabranch("run", folder / "load.toml", "--pcap-at", "a"))
    assert "pcap_at = a goes with pcap, which is not given" in message


def test_both_ends_of_a_link_are_a_measurement_of_it(folder: Path) -> None:
    """The capture shows the delay, loss and rate of the scenario."""
    file = folder / "load.pcapng"
    estimated = profile.estimate(profile.measure([file], interfaces=["wan@a", "wan@b"]))
    delay, loss = estimated.delay_s, estimated.mean_loss
    assert delay is not None
    assert delay.value == pytest.approx(0.025, abs=0.0002)
    assert loss is not None
    assert loss.interval[0] <= 0.003 <= loss.interval[1]


def test_one_end_is_a_capture_at_the_sender(folder: Path) -> None:
    file = folder / "load.pcapng"
    measured = profile.measure([file], interfaces=["wan@a"])
    assert "captured at the sender, as its delays tell" in measured.notes
    capture = Capture(file, interface="wan@a")
    octets = [octets for packets in capture.batches() for octets in packets.octets.tolist()]
    assert set(capture.interfaces) == {"wan@a", "wan@b"}
    assert len(octets) == capture.interfaces["wan@a"]
    assert set(octets) <= set(range(40, 1501))
    assert not capture.left_out


@pytest.mark.parametrize(
    ("interfaces", "message"),
    [
        ([], "there are packets of 2 interfaces (wan@a, wan@b); name one with --interface, or two"),
        (["wan@c"], "--interface wan@c: there is none of this name that has packets"),
        (["wan@a", "wan@b", "wan@a"], "3 interfaces; give one or two of a capture"),
    ],
)
def test_interfaces_are_asked_for(folder: Path, interfaces: list[str], message: str) -> None:
    with pytest.raises(AnabranchError) as error:
        profile.measure([folder / "load.pcapng"], interfaces=interfaces)
    assert message in str(error.value)


def test_interfaces_go_with_captures(folder: Path, anabranch: Command) -> None:
    pings = folder / "pings.csv"
    pings.write_text("sent_s,rtt_ms\n0,1\n1,2\n", encoding="utf-8")
    message = one_error(anabranch("profile", pings, "--interface", "eth0"))
    assert "not a capture; --interface does not go with it" in message


def test_what_cannot_be_written_is_said_before_the_run(folder: Path, anabranch: Command) -> None:
    scenario = folder / "load.toml"
    out = folder / "x.pcapng"
    assert "--json" in one_error(anabranch("run", scenario, "--pcap", out, "--json", out))
    assert not out.exists()
    message = one_error(anabranch("run", scenario, "--pcap", folder))
    assert str(folder) in message


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk(folder: Path, anabranch: Command) -> None:
    message = one_error(anabranch("run", folder / "load.toml", "--pcap", "/dev/full"))
    assert message.endswith(f"/dev/full: {os.strerror(28)}")


def test_a_signal_that_comes_while_a_packet_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(io.BytesIO):
        def write(self, _: object) -> int:
            raise KeyboardInterrupt

    monkeypatch.setattr(result, "opened_atomically", lambda _, **__: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        anabranch.run(folder / "load.toml", pcap=folder / "never.pcapng")
