"""Emulations with real namespaces: what programs in them see, and that nothing is left of them."""

import json
import os
import pty
import random
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anabranch import cli
from anabranch.compare import compare
from anabranch.emulate import Emulator, running, scenario_text
from anabranch.errors import AnabranchError, LiveError, ScenarioError
from anabranch.support.files import path_atomically
from conftest import CALL, ROOT, SCENARIOS, no_emulation

LACKS = no_emulation()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")

ECHO = """
import socket, sys
line = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
line.bind(("::", 7))
print("ready", flush=True)
while True:
    data, where = line.recvfrom(65535)
    line.sendto(data, where)
"""

PING = """
import socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(2)
for number in range(int(sys.argv[2])):
    began = time.perf_counter()
    line.sendto(b"x" * 56, (sys.argv[1], 7))
    line.recv(100)
    print((time.perf_counter() - began) * 1000)
    time.sleep(0.01)
"""

# Receives for this many seconds, then prints how many bytes and seconds that were.
SINK = """
import socket, sys, time
listener = socket.create_server(("", 5001))
print("ready", flush=True)
line, _ = listener.accept()
line.recv(65536)
began, count = time.monotonic(), 0
while time.monotonic() < began + float(sys.argv[1]):
    count += len(line.recv(65536))
print(count, time.monotonic() - began)
"""

SOURCE = """
import socket, sys
line = socket.create_connection((sys.argv[1], 5001))
try:
    while True:
        line.sendall(bytes(65536))
except OSError:
    pass
"""


DEVICES = "ANABRANCH_EMULATE_DEVICES"


@pytest.fixture(params=["tun", "veth"])
def devices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The nodes' devices; a test with this fixture runs with either kind."""
    kind = str(request.param)
    if kind == "tun" and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("left out, since /dev/net/tun cannot be opened")
    monkeypatch.setenv(DEVICES, kind)
    return kind


def python(text: str, *words: object) -> list[str]:
    return [sys.executable, "-c", text, *map(str, words)]


@contextmanager
def started(emulator: Emulator, node: str, command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """A program that has said that it is ready; it ends with this."""
    with emulator.start(node, command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def round_trips(emulator: Emulator, node: str, peer: str, count: int = 40) -> list[float]:
    """In ms."""
    with started(emulator, peer.partition(".")[0], python(ECHO)):
        done = emulator.run(
            node, python(PING, peer, count), capture_output=True, text=True, timeout=60, check=True
        )
    return [float(line) for line in done.stdout.split()]


def goodput(emulator: Emulator, node: str, peer: str, seconds: float) -> float:
    """The rate of TCP, in Mbit/s."""
    with started(emulator, peer, python(SINK, seconds)) as sink:
        source = emulator.start(node, python(SOURCE, peer))
        said, _ = sink.communicate(timeout=60)
        source.kill()
        source.wait()
    count, took = map(float, said.split())
    return count * 8 / took / 1e6


def test_programs_that_nobody_has_waited_for_end_with_it() -> None:
    with Emulator(scenario_text(delay="1ms")) as emulator:
        running_on = emulator.start("peer", ["sleep", "100"])
        emulator.start("here", ["true"])
    assert running_on.returncode == -signal.SIGKILL


def test_a_round_trip_is_twice_the_delay(devices: str) -> None:
    with Emulator(scenario_text(delay="20ms")) as emulator:
        assert emulator.devices == devices
        trips = round_trips(emulator, "here", "peer")
        summary = emulator.summary
    # On a busy machine the programs themselves are late, so only the quickest tells.
    assert 40 <= min(trips) < 43
    assert summary["link.link.forward.delivered_packets"] == len(trips)
    assert summary["emulation.written_packets"] == 2 * len(trips)
    assert 0 < summary["emulation.lateness_p50_ms"] <= summary["emulation.lateness_max_ms"]


@pytest.mark.usefixtures("devices")
def test_tcp_gets_what_the_link_carries_and_what_it_is_changed_to() -> None:
    with Emulator(scenario_text(delay="5ms", rate="20Mbit/s", queue=20)) as emulator:
        # 1448 of 1500 bytes are the application's.
        assert 16 < goodput(emulator, "here", "peer", 3) < 19.4
        emulator.set("link", rate="5 Mbit/s")
        assert 3.5 < goodput(emulator, "here", "peer", 3) < 4.9
        forward, _ = emulator.counters()
        summary = emulator.summary
    assert forward.rate == 5_000_000
    assert forward.drops["queue_full"] > 0
    # Large pieces that TCP hands down come out of the device split, with their checksums.
    assert summary["emulation.unfinished_packets"] == summary["emulation.too_large_packets"] == 0


def test_the_thread_that_carries_packets_sleeps_while_something_is_always_due() -> None:
    # A packet each 0.12 ms and its acknowledgement: without a limit, the thread would never sleep
    # and run for 0.9 of the time. A busy machine can only make this less.
    with Emulator(scenario_text(delay="5ms", rate="100Mbit/s", queue=200)) as emulator:
        before, began = run_time("emulation"), time.monotonic()
        goodput(emulator, "here", "peer", 2)
        ran, took = run_time("emulation") - before, time.monotonic() - began
    assert 0 < ran < 0.75 * took


def run_time(thread: str) -> float:
    """How long the threads of this process with that name have run, in seconds."""
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        head, _, tail = (task / "stat").read_text().rpartition(")")
        if head.endswith(f"({thread}"):
            ticks += sum(map(int, tail.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


# Sends so many packets once it is told to; then one by one until an echo says that what had been
# sent before was read. Says how many these were in all.
FLOOD = """
import socket, sys
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("ready", flush=True)
sys.stdin.readline()
count = int(sys.argv[1])
for _ in range(count):
    line.sendto(bytes(100), ("10.177.0.2", 9))
print("sent", flush=True)
sys.stdin.readline()
line.settimeout(1)
while True:
    line.sendto(b"x", ("10.177.0.2", 7))
    count += 1
    try:
        line.recv(100)
        break
    except TimeoutError:
        pass
print(count, flush=True)
"""


@pytest.mark.usefixtures("runtime", "devices")
def test_what_nobody_reads_in_time_is_counted(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    words = ["--delay", "1ms", "--json", result, "--", *python(FLOOD, 25_000)]
    with anabranch("emulate", *words, cwd=ROOT, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        with anabranch("emulate", "exec", "peer", "--", *python(ECHO)) as echo:
            assert echo.stdout is not None
            assert echo.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGSTOP)
            # Until all of its threads have stopped.
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            print("go", file=process.stdin, flush=True)
            assert process.stdout.readline() == "sent\n"
            process.send_signal(signal.SIGCONT)
            said, told = process.communicate("go\n", timeout=60)
            echo.kill()
    summary = json.loads(result.read_text())["summary"]
    overruns = summary["emulation.overrun_packets"]
    assert 14_000 <= overruns <= 15_100
    assert summary["link.link.forward.delivered_packets"] + overruns == int(said)
    assert f"{overruns:.0f} packets were dropped by the device of the node that sent them" in told


@pytest.mark.usefixtures("devices")
def test_large_packets_are_carried_whole(tmp_path: Path) -> None:
    text = tmp_path / "large.toml"
    text.write_text(
        "links.link = { ends = ['here', 'peer'], delay = '1 ms' }\n"
        "paths.link = { via = ['link'], mtu = '9000 B' }\n"
    )
    # One packet, and two fragments of another one.
    large = """
import socket, sys
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(10)
line.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER
for size in (8972, 12000):
    data = bytes(range(250)) * (size // 250)
    line.sendto(data, ("peer", 7))
    assert line.recv(65535) == data
"""
    with Emulator(text) as emulator, started(emulator, "peer", python(ECHO)):
        emulator.run("here", python(large), check=True, timeout=60)
        assert [link.packets for link in emulator.counters()] == [3, 3]


# From an address to another one.
DATAGRAM = """
import socket, sys
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind((sys.argv[1], 0))
line.sendto(b"x", (sys.argv[2], 7))
"""


TWO_PATHS = """
links.wifi = { ends = ["phone", "server"], delay = "5 ms", rate = "50 Mbit/s" }
links.lte = { ends = ["phone", "server"], delay = "30 ms", rate = "20 Mbit/s" }
paths.wifi.via = ["wifi"]
paths.lte.via = ["lte"]
"""


@pytest.mark.usefixtures("devices")
def test_nodes_have_names_and_an_address_on_each_path() -> None:
    with Emulator(TWO_PATHS) as emulator:
        interfaces = emulator.nodes["phone"]
        assert [(one.path, one.device, one.peer) for one in interfaces] == [
            ("wifi", "wifi", "server"),
            ("lte", "lte", "server"),
        ]
        assert 10 <= min(round_trips(emulator, "phone", "server")) < 13
        assert 60 <= min(round_trips(emulator, "phone", "server.lte")) < 63
        with pytest.raises(AnabranchError, match=r"there is no node `phne`.*did you mean `phone`"):
            emulator.run("phne", ["true"])


@pytest.mark.usefixtures("devices")
def test_what_comes_from_an_address_leaves_by_its_path() -> None:
    with Emulator(TWO_PATHS) as emulator:
        phone = {one.path: one for one in emulator.nodes["phone"]}
        # From the address of one path to that of the other one.
        emulator.run(
            "phone", python(DATAGRAM, phone["lte"].addresses[0], phone["wifi"].peer_addresses[0])
        )
        time.sleep(0.3)
        sent = {
            link.link: link.packets for link in emulator.counters() if link.direction == "forward"
        }
    assert sent == {"wifi": 0, "lte": 1}


@pytest.mark.usefixtures("devices")
def test_two_emulations_do_not_meet() -> None:
    text = scenario_text(delay="10ms")
    with (
        Emulator(text) as one,
        Emulator(scenario_text(delay="30ms")) as other,
        started(other, "peer", python(ECHO)),
    ):
        refused = one.run(
            "here", python(PING, "peer", 1), capture_output=True, text=True, timeout=30
        )
        assert "timed out" in refused.stderr
        trips = round_trips(one, "here", "peer", 10)
    assert 20 <= min(trips) < 23


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_every_scenario_can_be_emulated(file: Path) -> None:
    with Emulator(file) as emulator:
        assert emulator.nodes
        time.sleep(0.05)
    assert emulator.summary["run.simulated_s"] > 0


def test_a_mistake_is_the_scenarios_sentence() -> None:
    with pytest.raises(ScenarioError, match="`fast` is not a rate"):
        Emulator(scenario_text(rate="fast"))
    with Emulator(scenario_text(rate="1Mbit/s")) as emulator:
        with pytest.raises(ScenarioError, match="there is no link `wan`; there is `link`"):
            emulator.set("wan", rate="1 Mbit/s")
        with pytest.raises(ScenarioError, match="`rate`, `delay` and `loss` can"):
            emulator.set("link", queue={"packets": 3})
    with pytest.raises(LiveError, match="the emulation has ended"):
        emulator.set("link", rate="1 Mbit/s")


def test_a_trace_of_mahimahi_is_a_rate(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    # 1500 bytes every 2 ms: 6 Mbit/s.
    trace.write_text("2\n4\n6\n8\n")
    with Emulator(scenario_text(delay="5ms", trace=trace, queue=50)) as emulator:
        assert 4.5 < goodput(emulator, "here", "peer", 3) < 5.9


@pytest.mark.usefixtures("devices")
def test_a_capture_shows_each_packet_at_both_ends(tmp_path: Path) -> None:
    dpkt = pytest.importorskip("dpkt")
    file = tmp_path / "packets.pcapng"
    with Emulator(scenario_text(delay="10ms"), pcap=file) as emulator:
        round_trips(emulator, "here", "peer", 5)
        assert not file.exists()
    assert list(tmp_path.iterdir()) == [file]
    with file.open("rb") as stream:
        seen = [(at, dpkt.ip.IP(data)) for at, data in dpkt.pcapng.Reader(stream)]
    assert len(seen) == 20
    times = [
        at for at, packet in seen if packet.id == seen[0][1].id and packet.src == seen[0][1].src
    ]
    assert 0.009 < float(times[1] - times[0]) < 0.05
    assert abs(float(seen[0][0]) - time.time()) < 600


def test_a_capture_that_cannot_be_begun_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "packets.pcapng"
    with pytest.raises(ScenarioError, match=r"links\.link\.delay"):
        Emulator(scenario_text(delay="soon"), pcap=file)
    with pytest.raises(FileNotFoundError):
        Emulator(scenario_text(delay="10ms"), pcap=tmp_path / "none" / "packets.pcapng")
    assert not list(tmp_path.iterdir())


def anabranch(*words: object, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "anabranch", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which emulations of other tests are not found."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path
    left = [file.name for file in tmp_path.rglob("anabranch-emulate-*/*")]
    assert left == []


@pytest.mark.usefixtures("runtime")
def test_the_exit_status_is_the_commands(capfd: pytest.CaptureFixture[str]) -> None:
    def run(*command: str) -> int:
        return cli.main(["emulate", "--delay", "1ms", "--", *command])

    assert run("sh", "-c", "exit 7") == 7
    assert run("sh", "-c", "kill -TERM $$") == 128 + signal.SIGTERM
    capfd.readouterr()
    assert run("sh", "-c", "getent hosts peer; ip -o link") == 0
    said, told = capfd.readouterr()
    assert "10.177.0.2" in said or "fd61:6e61::2" in said
    assert re.search(r"link(@\w+)?: <.*NOARP,UP", said)
    assert "link forward: 0 packets, 0 B, dropped none" in told
    assert run("no-such-program") == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "`no-such-program` cannot be started: no program of this name is installed" in said


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "emulate needs a scenario file, or a link"),
        (["no-such.toml"], "no-such.toml"),
        (["--rate", "fast", "--", "true"], "`fast` is not a rate"),
        (["--delay", "1ms", "--in", "there", "--", "true"], "there is no node `there`"),
        (["--delay", "1ms", "--duration", "0"], "--duration is 0.0; it must be from more than 0"),
        (["--delay", "1ms", "--pcap", "x", "--json", "./x"], "--pcap and --json are both"),
        (["exec", "here", "true"], "no emulation of yours runs"),
        (["set", "link", "rate=1Mbit/s"], "no emulation of yours runs"),
        (["set", "link"], "set needs KEY=VALUE"),
        (["exec", "here"], "exec needs a command"),
    ],
)
def test_a_mistake_is_a_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["emulate", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_other_commands_join_and_change_it(runtime: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    words = ["--rate", "10Mbit/s", "--delay", "5ms", "--json", result]
    with anabranch("emulate", *words, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here: 10.177.0.1 (link to peer)\n"
        assert process.stdout.readline() == "peer: 10.177.0.2 (link to here)\n"
        assert "anabranch emulate exec here COMMAND" in process.stdout.readline()
        assert len([*runtime.rglob("*.socket")]) == 1
        with anabranch("emulate", "exec", "peer", "--", *python(ECHO)) as echo:
            assert echo.stdout is not None
            assert echo.stdout.readline() == "ready\n"
            with anabranch("emulate", "exec", "here", "--", *python(PING, "peer", 5)) as ping:
                said, told = ping.communicate(timeout=60)
            assert len(said.split()) == 5, told
            with anabranch("emulate", "set", "link", "rate=2Mbit/s", "loss=100%") as change:
                assert change.communicate(timeout=60) == ("", "")
            assert change.returncode == 0
            with anabranch("emulate", "exec", "here", "--", *python(PING, "peer", 1)) as ping:
                _, told = ping.communicate(timeout=60)
            assert "timed out" in told
            assert ping.returncode == 1
            with anabranch("emulate", "set", "link", "rate=fast") as change:
                _, told = change.communicate(timeout=60)
            assert "links.link.rate: `fast` is not a rate" in told
            assert change.returncode == 2
            process.send_signal(signal.SIGINT)
            said, told = process.communicate(timeout=60)
            # A command that has joined ends with it.
            assert echo.wait(60) != 0
    assert process.returncode == 0, told
    assert "link forward: 5 packets" in said
    assert "(1 lost)" in said
    record = json.loads(result.read_text())
    assert record["summary"]["link.link.forward.lost_packets"] == 1
    assert (record["kind"], record["scenario"]) == ("emulation", "link")
    assert record["settings"]["links"]["link"]["delay"] == "5 ms"


def test_a_change_is_made_as_a_whole_or_not_at_all() -> None:
    with Emulator(scenario_text(rate="1Mbit/s", delay="5ms")) as emulator:
        with pytest.raises(ScenarioError, match=r"links\.link\.delay: `soon`"):
            emulator.set("link", rate="2 Mbit/s", delay="soon")
        assert emulator.counters()[0].rate == 1_000_000
        emulator.set("link", rate="2 Mbit/s", reverse={"rate": "3 Mbit/s"})
        assert [link.rate for link in emulator.counters()] == [2_000_000, 3_000_000]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("command", [[], ["--", "sleep", "1000"]], ids=["shown", "command"])
def test_a_closed_terminal_ends_it_and_leaves_nothing(command: list[str], tmp_path: Path) -> None:
    capture = tmp_path / "packets.pcapng"
    words = ["emulate", "--delay", "1ms", "--pcap", str(capture), *command]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "anabranch", *words])
    deadline = time.monotonic() + 60
    while not [*tmp_path.rglob("*.json")]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.close(terminal)
    while not (done := os.waitpid(pid, os.WNOHANG))[0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    code = os.waitstatus_to_exitcode(done[1])
    # The kernel also tells the command, which ends by that or by the emulator's SIGTERM.
    assert code in ({129, 143} if command else {129})
    assert capture.stat().st_size > 0
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("option", ["--pcap", "--json", "the runtime folder"])
def test_a_full_disk_is_a_sentence(option: str, tmp_path: Path) -> None:
    """Files that cannot be written: the name or the cause is said, and no part of them stays."""
    disk = tmp_path / "disk"
    disk.mkdir()
    inner = [sys.executable, "-m", "anabranch", "emulate", "--delay", "1ms"]
    if option.startswith("--"):
        inner += [option, str(disk / "file")]
    else:
        inner = ["env", f"XDG_RUNTIME_DIR={disk}", *inner]
    filled = f"mount -t tmpfs -o size=64k tmpfs {disk} && (cat /dev/zero > {disk}/all 2> /dev/null;"
    script = f"{filled} {shlex.join(inner)} -- true; code=$?; ls -A {disk}; exit $code)"
    outer = ["unshare", "--mount", "sh", "-c", script]
    if os.geteuid() != 0:
        outer[1:1] = ["--user", "--map-root-user"]
    done = subprocess.run(outer, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("anabranch: error: ")
    assert line.endswith(("No space left on device", "No space left on device (os error 28)"))
    assert {name for name in done.stdout.split() if not name.startswith("anabranch")} == {"all"}


@pytest.mark.usefixtures("runtime")
def test_its_result_says_which_scenario_it_is_of(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(CALL)
    simulated, emulated = tmp_path / "run.json", tmp_path / "emulated.json"
    assert cli.main(["run", str(scenario), "--json", str(simulated)]) == 0
    words = ["emulate", str(scenario), "--duration", "0.3", "--json", str(emulated)]
    assert cli.main(words) == 0
    outcome = compare(simulated, emulated)
    assert outcome.settings == []
    assert outcome.a.scenario == outcome.b.scenario == "small"
    assert not outcome.b.is_simulated
    assert "link.first.forward.lost_packets" in outcome.b.scalars


def inodes() -> set[str]:
    """The network namespaces that there are."""
    found = set()
    for space in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(space.readlink()))
        except OSError:
            continue
    return found


def interfaces() -> str:
    """Network devices of this namespace, as `ip` lists them."""
    command = ["ip", "-o", "link"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("devices")
def test_nothing_is_left_after_kill_9(runtime: Path) -> None:
    before = inodes()
    devices = interfaces()
    sleep = "import os, time; os.setsid(); print('ready', flush=True); time.sleep(1000)"
    # Also the command's own child, which has left its session.
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    with anabranch("emulate", "--delay", "1ms", "--", *python(nested), cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        during = inodes() - before
        assert during
        process.kill()
    deadline = time.monotonic() + 20
    while inodes() & during and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not inodes() & during, "a program is left"
    assert interfaces() == devices
    # Files that say where it was go when the next one starts.
    assert [*runtime.rglob("*.json")]
    with anabranch("emulate", "--delay", "1ms", "--", "true", cwd=ROOT) as process:
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not [*runtime.rglob("*.json")]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("moment", ["begun", "running"])
def test_a_capture_of_a_killed_emulation_goes_with_the_next_one(
    moment: str, tmp_path: Path
) -> None:
    """Also if it was killed before it had told anybody of the file."""
    capture = tmp_path / "packets.pcapng"
    words = ["emulate", "--delay", "1ms", "--pcap", str(capture)]
    with anabranch(*words, cwd=ROOT) as process:
        deadline = time.monotonic() + 60
        while not (
            [*tmp_path.glob(".packets*")] if moment == "begun" else [*tmp_path.rglob("*.json")]
        ):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.kill()
    (left,) = tmp_path.glob(".packets*")
    other = tmp_path / ".packets.pcapng.note"
    other.touch()
    # One that writes the same file at this moment loses nothing.
    with path_atomically(capture) as part:
        with anabranch(*words, "--", "true", cwd=ROOT) as process:
            process.communicate(timeout=60)
        assert process.returncode == 0
        assert not left.exists()
        assert set(tmp_path.glob(".packets*")) == {other, part}
        assert capture.stat().st_size > 0


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_writes_the_result(number: signal.Signals, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    words = ["emulate", "--delay", "1ms", "--json", str(result)]
    with anabranch(*words, cwd=ROOT) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("join with"):
            pass
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == (0 if number == signal.SIGINT else 128 + number)
    assert json.loads(result.read_text())["kind"] == "emulation"


def of_paths(count: int) -> str:
    """Two nodes with this many paths between them."""
    one = "links.l{0} = {{ ends = ['a', 'b'], delay = '1 ms' }}\npaths.p{0}.via = ['l{0}']\n"
    return "".join(one.format(number) for number in range(count))


def test_many_paths_begin_in_proportion_and_keep_their_ways() -> None:
    took = {}
    for count in (40, 160):
        begun = time.monotonic()
        with Emulator(of_paths(count)) as emulator:
            took[count] = time.monotonic() - begun
            for version, network in (("-4", "10.177.0.0/{}"), ("-6", "fd61:6e61::/{}")):
                done = emulator.run("a", ["ip", version, "route", "show", "table", "1003"],
                                    capture_output=True, text=True)  # fmt: skip
                assert " dev p3" in done.stdout
                assert len(done.stdout.splitlines()) <= 2, (done.stdout, network)
    # Four times as many; sixteen times as long if each were told of each.
    assert took[160] < 8 * max(took[40], 0.1), took


def test_many_veth_devices_share_the_memory_of_their_rings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel clears all of it, which is most of what a start takes."""
    monkeypatch.setenv(DEVICES, "veth")

    def rings() -> list[int]:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        spans = [line.split()[0].split("-") for line in maps if "socket:[" in line]
        return [int(end, 16) - int(begin, 16) for begin, end in spans]

    with Emulator(of_paths(4)):
        assert rings() == [16 << 20] * 8
    with Emulator(of_paths(40)):
        found = rings()
        assert len(found) == 80
        assert min(found) >= 1 << 20
        assert sum(found) <= 128 << 20
    assert rings() == []


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_it_begins(number: signal.Signals, tmp_path: Path) -> None:
    scenario = tmp_path / "many.toml"
    scenario.write_text(of_paths(200))
    devices = interfaces()
    words = ["emulate", str(scenario), "--pcap", str(tmp_path / "c.pcapng")]
    with anabranch(*words, cwd=ROOT) as process:
        deadline = time.monotonic() + 60
        while not [*tmp_path.glob(".c.pcapng*")]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.1)
        begun = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, (out, err)
    # Most of it is the end of the devices made so far.
    assert time.monotonic() - begun < 20
    assert "Traceback" not in err
    assert {file.name for file in tmp_path.iterdir() if "pcapng" in file.name} == set()
    assert interfaces() == devices


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("localhost", "programs find it by this name"),
        ("10.0.0.1", "neither an address"),
        ("a b", "must be one of a host"),
        ("b", "the same name of a host"),
        ("a\\n127.0.0.1 evil", "links.l.ends: `a\\n127.0.0.1 evil` is not the name of a node"),
        ("a\\u2028b", "is not the name of a node"),
        ("", "is not the name of a node"),
        ("x" * 101, "is not the name of a node; use 1 to 100 characters"),
    ],
)
def test_a_node_has_a_name_of_a_host(node: str, words: str) -> None:
    text = f'links.l = {{ ends = ["{node}", "B"] }}\npaths.p.via = ["l"]\n'
    with pytest.raises(AnabranchError, match=re.escape(words)):
        Emulator(text)


def test_units_of_tc_are_taken() -> None:
    with Emulator(scenario_text(rate="10Mbit", delay="20msec")) as emulator:
        (forward, _) = emulator.counters()
        assert forward.rate == 10_000_000
        emulator.set("link", rate="500kbit", delay="100usecs")
        assert emulator.counters()[0].rate == 500_000
        with pytest.raises(AnabranchError, match="also tc's bit, kbit, mbit, gbit, tbit"):
            emulator.set("link", rate="1mbps")


def commands() -> list[str]:
    """The ids of all processes."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_text(errors="replace"))
    return found


@pytest.mark.usefixtures("runtime")
def test_kill_9_at_random_moments_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, while and after it makes its namespaces; the next start removes what files say."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    devices = interfaces()
    moments = random.Random(1)
    mark = f"1000.{os.getpid()}"
    for _ in range(20):
        with anabranch("emulate", "--delay", "1ms", "--", "sleep", mark, cwd=ROOT) as process:
            time.sleep(moments.uniform(0, 1.2))
            process.kill()
    deadline = time.monotonic() + 20
    while left := [command for command in commands() if mark in command]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert interfaces() == devices
    with anabranch("emulate", "--delay", "1ms", "--", "true", cwd=ROOT) as process:
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert list(temporary.iterdir()) == []


def test_the_duration_ends_it(capfd: pytest.CaptureFixture[str], runtime: Path) -> None:
    began = time.monotonic()
    words = ["emulate", "--delay", "1ms", "--duration", "0.5"]
    assert cli.main([*words, "--", "sleep", "100"]) == 128 + signal.SIGTERM
    assert cli.main(words) == 0
    assert time.monotonic() - began < 30
    assert "dropped none" in capfd.readouterr().out
    assert not [*runtime.rglob("*.json")]


NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def can(*command: str, **options: Any) -> bool:
    return subprocess.run(command, check=False, capture_output=True, **options).returncode == 0


@dataclass(frozen=True)
class Nobody:
    """A user other than root, with a folder to write to."""

    folder: Path
    python: str
    """A Python that he can run."""
    options: dict[str, Any]

    def command(self, *words: object) -> list[str]:
        """`anabranch` with these words."""
        return [*AS_NOBODY, self.python, "-m", "anabranch", *map(str, words)]

    def start(self, *words: object) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command(*words), stdout=pipe, stderr=pipe, text=True, **self.options
        )


SPACES = ["unshare", "--user", "--map-root-user", "--net", "--mount"]


@pytest.fixture
def nobody(tmp_path: Path) -> Nobody:
    if os.geteuid() != 0:
        pytest.skip("left out, since only root can become somebody else")
    # Longer than the address of a socket may be.
    mine = tmp_path / ("runtime" * 20)
    mine.mkdir()
    for folder in (mine, tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    os.chown(mine, NOBODY, NOBODY)
    path = os.pathsep.join([str(ROOT / "python"), *filter(None, sys.path)])
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(mine), "HOME": "/", "PYTHONPATH": path}
    options: dict[str, Any] = {"cwd": "/", "env": environment}
    # If Python is in root's home, other users cannot run it.
    run = [*AS_NOBODY, *(SPACES if can(*AS_NOBODY, *SPACES, "true") else [])]
    for program in (sys.executable, "/usr/bin/python3"):
        if can(*run, program, "-c", "import anabranch.cli", **options):
            return Nobody(mine, program, options)
    pytest.skip("left out, since nobody but root can run this Python")


@pytest.mark.parametrize("may_open", [True, False], ids=["tun", "no-tun"])
def test_without_root_it_works_or_says_what_is_missing(nobody: Nobody, *, may_open: bool) -> None:
    device = nobody.folder.parent / "tun"
    os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(10, 200))
    device.chmod(0o666 if may_open else 0o600)
    result = nobody.folder / "result.json"
    words = ["emulate", "--delay", "10ms", "--json", result, "--", "getent", "hosts", "peer"]
    inner = shlex.join(nobody.command(*words))
    outer = ["unshare", "--mount", "sh", "-c", f"mount --bind {device} /dev/net/tun && {inner}"]
    done = subprocess.run(
        outer, check=False, capture_output=True, text=True, timeout=120, **nobody.options
    )
    if not can(*AS_NOBODY, *SPACES, "true"):
        assert done.returncode == 2
        assert "an emulation needs root, or a system where users may make namespaces" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "peer" in done.stdout
    assert json.loads(result.read_text())["devices"] == ("tun" if may_open else "veth")


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("devices", ["veth"], indirect=True)
def test_without_root_others_join_it_and_a_kill_leaves_nothing(nobody: Nobody) -> None:
    if not can(*AS_NOBODY, *SPACES, "true"):
        pytest.skip("left out, since users may not make namespaces here")
    capture = nobody.folder / "packets.pcapng"
    nobody.options["env"][DEVICES] = "veth"
    words = ["--rate", "10Mbit/s", "--delay", "5ms", "--pcap", capture]
    with nobody.start("emulate", *words) as process:
        assert process.stdout is not None
        began = process.stdout.readline()
        assert began == "here: 10.177.0.1 (link to peer)\n", process.communicate()[1]
        with nobody.start("emulate", "exec", "peer", "--", nobody.python, "-c", ECHO) as echo:
            assert echo.stdout is not None
            assert echo.stdout.readline() == "ready\n"

            def ping() -> tuple[str, str]:
                words = [nobody.python, "-c", PING, "peer", 3]
                with nobody.start("emulate", "exec", "here", "--", *words) as program:
                    return program.communicate(timeout=60)

            said, told = ping()
            assert len(said.split()) == 3, told
            # Another one does not meet it.
            with nobody.start("emulate", "--delay", "1ms", "--", "true") as other:
                _, told = other.communicate(timeout=60)
            assert "link forward: 0 packets" in told
            with nobody.start("emulate", "set", "link", "loss=100%") as change:
                assert change.communicate(timeout=60) == ("", "")
            assert "timed out" in ping()[1]
            process.kill()
            assert echo.wait(60) != 0
    assert [*nobody.folder.rglob("*.json")]
    # Only one that is whole has its name.
    (part,) = nobody.folder.glob(".packets.pcapng*")
    assert part.stat().st_uid == NOBODY
    assert not capture.exists()
    with nobody.start("emulate", "--delay", "1ms", "--", "true") as process:
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not [*nobody.folder.rglob("*.json")]
    assert not part.exists()


def test_what_is_not_its_own_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / f"anabranch-emulate-{os.geteuid()}").symlink_to("/tmp")
    with pytest.raises(LiveError, match="set XDG_RUNTIME_DIR"):
        running.folder()


FORKS = """
import gc, os, sys
from anabranch.emulate import Emulator
from anabranch.errors import LiveError

with Emulator(sys.argv[1]) as network:
    name = next(iter(network.nodes))
    program = network.start(name, ["sleep", "1000"])
    child = os.fork()
    if child == 0:
        asked = [
            network.counters, lambda: network.nodes, lambda: network.devices,
            lambda: network.set("wan", delay="1 ms"), lambda: network.run(name, ["true"]),
        ]
        for ask in asked:
            try:
                ask()
            except LiveError as error:
                print(error, flush=True)
        network.close()
        del network._engine
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert program.poll() is None, "it goes on"
    assert network.counters() and network.run(name, ["true"]).returncode == 0
"""


def test_a_forked_process_leaves_the_emulation_alone(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text('links.wan = { ends = ["x", "y"], delay = "1 ms" }\npaths.p.via = ["wan"]\n')
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done
    told = done.stdout.splitlines()
    assert len(told) == 5, done
    assert all("make another emulation here" in line for line in told), done


def test_a_link_of_the_command_line_has_jitter_reordering_and_duplicates() -> None:
    """As a scenario that the engine accepts, and only what was given."""
    text = scenario_text(delay="20ms", jitter="5ms", reorder=True, duplicate="1%")
    link = tomllib.loads(text)["links"]["link"]
    assert link == {
        "ends": ["here", "peer"], "delay": "20ms", "jitter": "5ms", "reorder": True,
        "duplicate": "1%",
    }  # fmt: skip
    assert "reorder" not in scenario_text(delay="20ms")
