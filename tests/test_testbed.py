"""Scenarios on this machine's kernel: the scalars of simulations, and what a kernel lacks."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import anabranch
from anabranch import cli
from anabranch.emulate import testbed
from anabranch.errors import LiveError, ScenarioError
from anabranch.support.capture import Capture
from conftest import HANGS_S, no_emulation
from support.processes import until

LACKS = no_emulation()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")

LINK = """
name = "bench"
run.duration = "3 s"
paths.only.via = ["wan"]

[links.wan]
ends = ["here", "there"]
rate = "10 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 100 }
"""

DOWNLOAD = f"""{LINK}
[flows.bulk]
from = "here"
to = "there"
paths = ["only"]
transport = {{ kind = "tcp", cc.kind = "reno" }}
app = {{ kind = "bulk", bytes = "1 MB" }}
"""

CALL = f"""{LINK}
[flows.call]
from = "here"
to = "there"
paths = ["only"]
transport = {{ kind = "udp", rtp = true }}
app = {{ kind = "voip", start = "0 s", duration = "2 s", codec = "g711" }}
"""

MARKED = """
name = "marked"
run.duration = "3 s"
paths.only.via = ["wan"]

[links.wan]
ends = ["here", "there"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = {{ kind = "dualpi2" }}

[flows.load]
from = "here"
to = "there"
paths = ["only"]
ip = "{ip}"
transport = {{ kind = "udp", ecn = "{ecn}" }}

[flows.load.app]
kind = "datagrams"
rate = "1.2 Mbit/s"
size = "1200 B"
intervals = {{ kind = "cbr" }}
duration = "2 s"
"""

TWO_PATHS = """
name = "two-paths"
run.duration = "5 s"
paths.wifi.via = ["wifi"]
paths.lte.via = ["lte"]

[links.wifi]
ends = ["phone", "server"]
rate = "8 Mbit/s"
delay = "10 ms"
queue = { kind = "drop_tail", packets = 50 }

[links.lte]
ends = ["phone", "server"]
rate = "4 Mbit/s"
delay = "30 ms"
queue = { kind = "drop_tail", packets = 50 }

[flows.bulk]
from = "phone"
to = "server"
paths = ["wifi", "lte"]
transport = { kind = "mptcp", profile = "linux_6" }
app = { kind = "bulk", bytes = "4 MB" }
"""


def both(text: str, **options: Any) -> tuple[dict[str, float], dict[str, float]]:
    """The scalars of the kernel and of a simulation."""
    return testbed.run(text, **options).summary, anabranch.run(text, **options).summary


def check_names(kernel: dict[str, float], simulated: dict[str, float], protocol: str) -> None:
    """Everything but what an endpoint counts within itself has the same names."""

    def of_all(names: dict[str, float]) -> set[str]:
        own = (f".{protocol}.", ".kernel.", "emulation.")
        return {name for name in names if not any(part in name for part in own)}

    assert of_all(simulated) == of_all(kernel)


def test_a_download_takes_as_long_as_simulated() -> None:
    kernel, simulated = both(DOWNLOAD)
    check_names(kernel, simulated, "tcp")
    assert kernel["bulk.received_bytes"] == 1_000_000
    assert kernel["bulk.completion_s"] == pytest.approx(simulated["bulk.completion_s"], rel=0.15)
    assert kernel["bulk.tcp.a.bytes_sent"] == 1_000_000
    assert kernel["bulk.tcp.b.bytes_delivered"] == 1_000_000
    # The kernel also counts the FIN.
    assert kernel["bulk.tcp.b.kernel.bytes_received"] in {1_000_000, 1_000_001}
    assert kernel["bulk.tcp.a.connections"] == kernel["bulk.tcp.b.connections"] == 1
    # There is no other traffic on the link.
    on_link = kernel["link.wan.forward.arrived_packets"]
    assert on_link == pytest.approx(kernel["bulk.tcp.a.packets_sent"], abs=3)
    assert kernel["emulation.corrupted_reads"] == 0
    assert kernel["run.simulated_s"] < 3


def test_a_call_is_rated_as_simulated() -> None:
    kernel, simulated = both(CALL)
    check_names(kernel, simulated, "udp")
    assert set(simulated) <= set(kernel)
    assert kernel["call.sent"] == simulated["call.sent"] == 100
    assert kernel["call.udp.b.datagrams_received"] == kernel["call.udp.a.datagrams_sent"] == 100
    # Sizes on the link are those of a simulation, headers and all.
    for name in ("delivered_packets", "delivered_bytes"):
        of_link = f"link.wan.forward.{name}"
        assert kernel[of_link] == simulated[of_link]
    assert kernel["call.mos"] == pytest.approx(simulated["call.mos"], abs=0.05)
    assert kernel["call.mean_delay_ms"] == pytest.approx(simulated["call.mean_delay_ms"], abs=1)


@pytest.mark.parametrize(
    ("ecn", "ip"), [("off", "ipv4"), ("ect0", "ipv4"), ("ect1", "ipv4"), ("ect1", "ipv6")]
)
def test_udp_says_of_ecn_what_a_simulated_end_says(ecn: str, ip: str) -> None:
    """The kernel does not tell which marks arrive; the queue counts those that it gives."""
    kernel, simulated = both(MARKED.format(ecn=ecn, ip=ip))
    at = "link.wan.forward."
    for name in ("l4s.packets", "classic.packets", "marked_packets", "delivered_packets"):
        assert kernel[at + name] == pytest.approx(simulated[at + name], abs=8), name
    assert (kernel[f"{at}l4s.packets"] > 100) == (ecn == "ect1")
    assert (kernel[f"{at}marked_packets"] > 0) == (ecn != "off")


@pytest.mark.parametrize(
    ("kind", "ip"),
    [("tcp", "ipv4"), ("tcp", "ipv6"), ("mptcp", "ipv4"), ("udp", "ipv4"), ("udp", "ipv6")],
)
def test_sockets_ask_for_the_treatment_that_the_flow_asks_for(kind: str, ip: str) -> None:
    """All packets of a marked flow are in the first band, both ways, as in a simulation."""
    is_call = kind == "udp"
    flow = "flows.call" if is_call else "flows.bulk"
    sets: dict[str, Any] = {
        f"{flow}.dscp": "ef",
        f"{flow}.ip": ip,
        "links.wan.queue": {"kind": "prio"},
        "links.wan.reverse.queue": {"kind": "prio"},
    }
    if not is_call:
        sets["flows.bulk.transport"] = {"kind": kind}
    scenario = anabranch.load(CALL if is_call else DOWNLOAD, sets)
    for found in (testbed.run(scenario).summary, anabranch.run(scenario).summary):
        for way in ("forward",) if is_call else ("forward", "reverse"):
            assert found[f"link.wan.{way}.band_0.packets"] > 20
            assert found[f"link.wan.{way}.band_1.packets"] <= 4


def test_a_mark_that_sockets_cannot_set_is_refused() -> None:
    sets: dict[str, Any] = {"flows.bulk.transport": {"kind": "mptcp"}, "flows.bulk.dscp": "ef"}
    with pytest.raises(ScenarioError, match=r"flows\.bulk\.dscp is ef: .* have no IPV6_TCLASS"):
        testbed.run(anabranch.load(DOWNLOAD, sets | {"flows.bulk.ip": "ipv6"}))


@pytest.mark.parametrize(("codec", "payload_type", "step"), [("g722", 9, 160), ("g711", 0, 160)])
def test_rtp_is_that_of_the_codec(codec: str, payload_type: int, step: int, tmp_path: Path) -> None:
    """Payload type, numbers and time stamps are those of the simulation, to the tick."""
    # A wideband codec has no impairment on the narrowband scale.
    rated = {"flows.call.app.ie": 10, "flows.call.app.bpl": 10}
    scenario = anabranch.load(CALL, {"flows.call.app.codec": codec, **rated})
    files = [tmp_path / "kernel.pcapng", tmp_path / "simulated.pcapng"]
    testbed.run(scenario, pcap=files[0])
    anabranch.run(scenario, pcap=files[1])
    kernel, simulated = (headers(file) for file in files)
    assert kernel == simulated
    assert len(kernel) == 100
    assert {kind for kind, _, _ in kernel} == {payload_type}
    assert set(np.diff([number for _, number, _ in kernel])) == {1}
    assert set(np.diff([stamp for _, _, stamp in kernel])) == {step}


def headers(file: Path) -> list[tuple[int, int, int]]:
    """Payload type, number and time stamp of each packet in RTP, once."""
    found: list[tuple[int, int, int]] = []
    for packets in Capture(file).batches():
        head = packets.datagrams.head
        numbers = head[:, 2:4].copy().view(">u2")[:, 0].tolist()
        stamps = head[:, 4:8].copy().view(">u4")[:, 0].tolist()
        found += zip((head[:, 1] & 127).tolist(), numbers, stamps, strict=True)
    return sorted(set(found))


def test_losses_are_the_scenarios_own() -> None:
    sets = {"links.wan.loss": "{ kind = 'bernoulli', probability = 0.1 }"}
    kernel, simulated = both(CALL, set=sets)
    # The same packets in the same order meet the same random numbers.
    assert kernel["call.lost"] == simulated["call.lost"] > 0
    assert testbed.run(CALL, set=sets, seed=7).summary["call.lost"] != kernel["call.lost"]


def test_traces_have_the_tables_and_columns_of_a_simulation() -> None:
    kernel = testbed.run(DOWNLOAD, trace=True, interval_ms=10).traces
    simulated = anabranch.run(DOWNLOAD, trace=True).traces
    assert set(kernel) == set(simulated)
    for name, table in simulated.items():
        assert kernel[name].columns == table.columns, name
    paths = kernel["paths"].filter(pl.col("side") == "a")
    assert paths.height > 20
    windows = paths["cwnd_bytes"].to_list()
    assert max(windows) > 3 * windows[0]
    trips = paths["srtt_ms"].drop_nans().to_list()
    assert 40 <= min(trips) < 60
    assert max(trips) > 60
    assert kernel["intervals"]["bytes"].sum() == 1_000_000
    assert kernel["events"]["event"].to_list().count("connected") == 2
    assert kernel["queues"].height > 100


def test_sockets_have_what_the_scenario_says() -> None:
    sets = {
        "flows.bulk.transport": "{ kind = 'tcp', mss = '500 B', cc.kind = 'cubic', nagle = 'off',"
        " sack = false, timestamps = false, receive_autotuning = false, receive_buffer = '20 kB',"
        " syn_retries = 3, pacing = true, send_buffer = '100 kB' }",
    }
    kernel, simulated = both(DOWNLOAD, set=sets)
    # 2000 segments of 500 B of data, each with 40 B of headers.
    assert kernel["bulk.tcp.a.data_segments_sent"] == pytest.approx(2000, abs=20)
    assert kernel["link.wan.forward.delivered_bytes"] == pytest.approx(1_080_000, rel=0.01)
    # A window of 20 kB for each round trip of 40 ms and more.
    assert kernel["bulk.goodput_kbit_per_s"] < 4100
    assert kernel["bulk.tcp.a.kernel.receive_window_limited_us"] > 500_000
    assert kernel["bulk.goodput_kbit_per_s"] == pytest.approx(
        simulated["bulk.goodput_kbit_per_s"], rel=0.2
    )


def test_marks_are_answered_where_ecn_is_asked_for() -> None:
    sets = {
        "links.wan.queue": "{ kind = 'codel', ecn = true }",
        "flows.bulk.app.bytes": "3 MB",
        "flows.bulk.transport.ecn": "rfc3168",
    }
    kernel = testbed.run(DOWNLOAD, set=sets).summary
    assert kernel["bulk.tcp.a.kernel.segments_delivered_ce"] > 0
    assert kernel["bulk.tcp.a.data_segments_retransmitted"] == 0


def test_requests_open_connections_one_after_another() -> None:
    requests = "kind = 'requests', connection = 'per_request', count = 5, response_size = '20 kB'"
    sets = {"flows.bulk.app": f"{{ {requests} }}"}
    kernel, simulated = both(DOWNLOAD, set=sets)
    assert kernel["bulk.completed"] == 5
    assert kernel["bulk.failed"] == 0
    assert kernel["bulk.tcp.a.connections"] == kernel["bulk.tcp.b.connections"] == 5
    assert kernel["bulk.tcp.b.bytes_sent"] == 100_000
    assert kernel["bulk.mean_completion_ms"] == pytest.approx(
        simulated["bulk.mean_completion_ms"], rel=0.1
    )


def test_a_warm_up_and_phases_are_cut_as_in_a_simulation() -> None:
    sets = {"run.warm_up": "1 s", "run.phases": "['2 s']", "flows.bulk.app": "{ kind = 'bulk' }"}
    kernel, simulated = both(DOWNLOAD, set=sets)
    check_names(kernel, simulated, "tcp")
    assert kernel["run.simulated_s"] == 3
    # Two seconds of 10 Mbit/s, less headers.
    assert kernel["bulk.received_bytes"] == pytest.approx(2.4e6, rel=0.05)
    assert kernel["run.phase_1.bulk.received_bytes"] == pytest.approx(1.2e6, rel=0.1)
    assert (
        kernel["bulk.tcp.a.data_segments_sent"]
        == kernel["run.phase_1.bulk.tcp.a.data_segments_sent"]
        + kernel["run.phase_2.bulk.tcp.a.data_segments_sent"]
    )


def test_flows_of_all_kinds_run_beside_each_other() -> None:
    text = f"""{CALL}
[flows.load]
from = "there"
to = "here"
paths = ["only"]
count = 3
transport = {{ kind = "tcp" }}
app = {{ kind = "bulk", bytes = "200 kB", direction = "both" }}
"""
    kernel, simulated = both(text)
    check_names(kernel, simulated, "tcp")
    for number in (1, 2, 3):
        for way in ("a_to_b", "b_to_a"):
            assert kernel[f"load_{number}.{way}.received_bytes"] == 200_000
    assert kernel["load.a_to_b.jain"] > 0.5


def test_ipv6_is_as_good() -> None:
    kernel = testbed.run(DOWNLOAD, set={"flows.bulk.ip": "ipv6", "flows.bulk.app.bytes": "100 kB"})
    assert kernel.summary["bulk.received_bytes"] == 100_000
    sets = {"flows.bulk.ip": "ipv6", "paths.only.mtu": "1000 B"}
    with pytest.raises(
        LiveError, match=r"flows.bulk.ip = \"ipv6\": the path `only` carries 1000 B"
    ):
        testbed.run(DOWNLOAD, set=sets)


def test_multipath_uses_both_paths() -> None:
    if not Path("/proc/sys/net/mptcp").exists():
        pytest.skip("left out, since this kernel has no Multipath TCP")
    result = testbed.run(TWO_PATHS, trace=True)
    kernel, simulated = result.summary, anabranch.run(TWO_PATHS).summary
    check_names(kernel, simulated, "mptcp")
    assert kernel["bulk.received_bytes"] == 4_000_000
    # More than the faster path alone carries.
    assert kernel["bulk.goodput_kbit_per_s"] > 8000
    for path in (0, 1):
        assert kernel[f"bulk.mptcp.a.subflow_{path}.bytes_sent"] > 500_000
    paths = result.traces["paths"].filter(pl.col("side") == "a")
    assert set(paths["path"]) == {0, 1}
    trips = [
        paths.filter(pl.col("path") == path)["srtt_ms"].drop_nans().to_list() for path in (0, 1)
    ]
    assert 20 <= min(trips[0]) < 30
    assert 60 <= min(trips[1]) < 75


def test_a_path_that_stands_by_is_not_used() -> None:
    if not Path("/proc/sys/net/mptcp").exists():
        pytest.skip("left out, since this kernel has no Multipath TCP")
    sets = {"flows.bulk.transport.backup": "[1]", "flows.bulk.app.bytes": "1 MB"}
    kernel = testbed.run(TWO_PATHS, set=sets).summary
    assert kernel["bulk.received_bytes"] == 1_000_000
    assert kernel["bulk.mptcp.a.subflow_1.packets_sent"] > 0
    assert kernel["bulk.mptcp.a.subflow_1.bytes_sent"] == 0


def has_sctp() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP):
            return True
    except OSError:
        return False


SCTP_CALL = (
    TWO_PATHS[: TWO_PATHS.index("[flows.bulk]")]
    + """
[flows.call]
from = "phone"
to = "server"
paths = ["wifi", "lte"]
app = { kind = "voip", start = "0 s", duration = "3 s", codec = "g711", reliability = "reliable" }

[flows.call.transport]
kind = "sctp"
profile = "linux"
rto_min = "100 ms"
path_max_retrans = 1
sack_frequency = 1
nagle = false
"""
)


def test_sctp_fails_over_where_the_kernel_has_it() -> None:
    sets = {"links.wifi.up": "{ timetable = [['0 s', true], ['1 s', false]] }"}
    if not has_sctp():
        with pytest.raises(LiveError, match=r"transport.kind = \"sctp\": this kernel .* has none"):
            testbed.run(SCTP_CALL, set=sets)
        return
    result = testbed.run(SCTP_CALL, set=sets, trace=True)
    kernel, simulated = result.summary, anabranch.run(SCTP_CALL, set=sets).summary
    check_names(kernel, simulated, "sctp")
    assert kernel["call.sent"] == simulated["call.sent"]
    assert kernel["call.mos"] == pytest.approx(simulated["call.mos"], abs=0.3)
    assert kernel["call.sctp.b.messages_delivered"] == kernel["call.received"]
    assert kernel["link.lte.forward.delivered_packets"] > 10
    paths = result.traces["paths"].filter(pl.col("side") == "a")
    assert set(paths.filter(pl.col("path") == 0)["state"]) >= {"active", "inactive"}


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("transport.ack_every", "4", r"transport.ack_every = 4: a kernel always has 2"),
        ("transport.cc.kind", "ledbat", r"transport.cc.kind = \"ledbat\": this kernel .* has reno"),
        ("transport.cc", "{ kind = 'cubic', beta = 0.5 }", "takes no settings here"),
        (
            "transport",
            "{ kind = 'sctp', rto_alpha = 0.5 }",
            r"transport.rto_alpha = 0.5: .* no such",
        ),
        ("transport.nagle", "rfc896", r"a kernel has \"minshall\" and \"off\""),
    ],
)
def test_what_a_kernel_lacks_is_a_sentence(key: str, value: str, sentence: str) -> None:
    with pytest.raises((LiveError, ScenarioError), match=sentence) as refused:
        testbed.run(DOWNLOAD, set={f"flows.bulk.{key}": value})
    assert len(str(refused.value).splitlines()) == 1


def test_sysctls_stay_in_their_namespaces() -> None:
    files = ["ipv4/tcp_sack", "ipv4/tcp_ecn", "ipv4/tcp_rmem"]
    before = [Path("/proc/sys/net", file).read_text() for file in files]
    sets = {
        "flows.bulk.transport.sack": "false",
        "flows.bulk.transport.ecn": "off",
        "flows.bulk.transport.receive_buffer": "1 MiB",
        "flows.bulk.app.bytes": "10 kB",
    }
    testbed.run(DOWNLOAD, set=sets)
    assert [Path("/proc/sys/net", file).read_text() for file in files] == before


def test_the_command_says_what_a_simulation_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "download.toml"
    scenario.write_text(DOWNLOAD)
    result, traces, packets = (tmp_path / name for name in ("a.json", "traces", "packets.pcapng"))
    words = ["--json", result, "--trace", traces, "--pcap", packets]
    assert cli.main(["testbed", str(scenario), "--kernel", "host", *map(str, words)]) == 0
    said = capsys.readouterr().out
    assert f"s on Linux {testbed.release()}" in said
    assert "bulk, tcp from here to there over only: goodput" in said
    assert "lateness: p50" in said
    found = json.loads(result.read_text())
    assert found["kernel"] == {"kind": "host", "release": testbed.release(), "sctp": "kernel"}
    assert found["summary"]["bulk.received_bytes"] == 1_000_000
    assert pl.read_parquet(traces / "paths.parquet").height > 10
    assert packets.stat().st_size > 1_000_000


def test_a_sweep_is_a_study_that_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "sweep.toml"
    axis = "[sweep.axes.delay]\nset = 'links.wan.delay'\nvalues = ['5 ms', '30 ms']\n"
    scenario.write_text(DOWNLOAD.replace("1 MB", "50 kB") + axis)
    out = tmp_path / "out"
    assert cli.main(["testbed", str(scenario), "--out", str(out), "--replications", "2"]) == 0
    assert "4 runs in" in capsys.readouterr().out
    rows = anabranch.read(out)
    assert rows["delay"].to_list() == [0.005, 0.005, 0.03, 0.03]
    times = rows["bulk.completion_s"]
    assert times[0] < times[2]
    assert set(rows["engine_version"].str.split(" on ").list.last()) == {
        f"Linux {testbed.release()}"
    }
    # Finished runs are not computed again, and rows of simulations are refused there.
    assert cli.main(["testbed", str(scenario), "--out", str(out), "--replications", "2"]) == 0
    assert anabranch.read(out).equals(rows)
    capsys.readouterr()
    assert cli.main(["sweep", str(scenario), "--out", str(out)]) == 2
    assert f"on Linux {testbed.release()}" in capsys.readouterr().err


def _await_packets(folder: Path) -> None:
    """Waits until the part of a capture in a folder has 10 kB."""
    until(lambda: [one for one in folder.glob(".packets*") if one.stat().st_size >= 10_000])


def test_nothing_is_left_when_it_is_stopped(tmp_path: Path) -> None:
    scenario = tmp_path / "long.toml"
    scenario.write_text(DOWNLOAD.replace("1 MB", "1 GB").replace("3 s", "1000 s"))
    before = set(Path("/sys/class/net").iterdir())
    words = ["testbed", str(scenario), "--pcap", str(tmp_path / "packets.pcapng")]
    with subprocess.Popen(
        [sys.executable, "-m", "anabranch", *words], stderr=subprocess.PIPE
    ) as process:
        _await_packets(tmp_path)
        process.terminate()
        assert process.wait(HANGS_S) == 143
    assert set(Path("/sys/class/net").iterdir()) == before


def test_a_capture_of_a_killed_testbed_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    scenario, capture = tmp_path / "download.toml", tmp_path / "packets.pcapng"
    words = ["testbed", str(scenario), "--kernel", "host", "--pcap", str(capture)]
    scenario.write_text(DOWNLOAD.replace("1 MB", "1 GB").replace("3 s", "1000 s"))
    with subprocess.Popen(
        [sys.executable, "-m", "anabranch", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        _await_packets(tmp_path)
        process.kill()
    assert not capture.exists()
    assert len([*tmp_path.glob(".packets*")]) == 1
    scenario.write_text(DOWNLOAD)
    assert cli.main(words) == 0
    assert [*tmp_path.glob(".packets*")] == []
    assert capture.stat().st_size > 1_000_000
