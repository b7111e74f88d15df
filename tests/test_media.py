"""Media over RTP: what a run says of it, and what tshark reads in its capture."""

import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import anabranch

CALL = """
run.duration = "12 s"
[links.wan]
ends = ["a", "b"]
rate = "1 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", bytes = "30 kB" }
loss = { kind = "bernoulli", probability = "1 %" }
[paths.only]
via = ["wan"]
[flows.call]
from = "a"
to = "b"
paths = ["only"]
transport = { kind = "rtp" }
app = { kind = "video", rate = "150 kbit/s", duration = "10 s" }
"""


@pytest.fixture(scope="module", name="capture")
def _capture(tmp_path_factory: pytest.TempPathFactory) -> tuple[anabranch.Result, Path]:
    file = tmp_path_factory.mktemp("media") / "call.pcapng"
    return anabranch.run(CALL, trace=True, pcap=file), file


def test_the_rate_grows_to_that_of_the_link(capture: tuple[anabranch.Result, Path]) -> None:
    result, _ = capture
    media = result.traces["media"].filter(pl.col("side") == "a")
    target = pl.col("target_bit_per_s")
    assert media.select(target.first()).item() < 300_000
    assert 500_000 < media.filter(pl.col("time_s") > 4).select(target.mean()).item() < 1_000_000
    assert media.select(pl.col("one_way_delay_ms").min()).item() > 20
    assert result.summary["call.rtp.a.packets_lost"] > 0
    assert result.summary["call.rtp.b.packets_recovered"] > 0
    assert result.summary["call.frames_shown"] > 0.9 * result.summary["call.frames_made"]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_rtp_and_rtcp(capture: tuple[anabranch.Result, Path]) -> None:
    result, file = capture
    sent = result.traces["packets"]
    kinds = dict(sent.group_by("kind").len().iter_rows())
    filters = {
        "rtp.p_type == 96": kinds["datagram"],
        "rtp.p_type == 97": kinds["retransmission"],
        "rtcp.rtpfb.fmt == 11": kinds["feedback"],
        "rtcp.rtpfb.fmt == 1": kinds["nack"],
        "rtcp.pt == 201": kinds["receiver_report"],
        "_ws.malformed": 0,
    }
    found = {}
    for words in filters:
        command = ["tshark", "-r", str(file), "-d", "udp.port==5004,rtp", "-Y", words]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        found[words] = len(answer.stdout.splitlines())
    # At the node `a`, what was lost on the way to it is not seen; each packet of its own is.
    assert found["_ws.malformed"] == 0
    assert found["rtp.p_type == 96"] == kinds["datagram"]
    assert found["rtp.p_type == 97"] == kinds["retransmission"]
    for words in ("rtcp.rtpfb.fmt == 11", "rtcp.rtpfb.fmt == 1", "rtcp.pt == 201"):
        assert 0.9 * filters[words] <= found[words] <= filters[words]
