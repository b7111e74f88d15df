"""Emulations with real namespaces: what programs in them see, and that nothing is left of them."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from anabranch import _engine
from anabranch.emulate import Emulator, scenario_text
from anabranch.errors import AnabranchError, LiveError, ScenarioError
from anabranch.support.interruption import Interruption, interruptible
from conftest import DEVICES, HANGS_S, ROOT, SCENARIOS
from support.emulation import ECHO, IN_VAIN, LACKS, PING, anabranch, of_paths, python, stop
from support.processes import below, until

pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")


# Receives for this many seconds, then prints how many bytes had come in how many seconds. The
# kernel has room for as many as come while a busy machine does not get to the program, and for what
# goes meanwhile: SO_RCVBUFFORCE is 33, SO_SNDBUFFORCE is 32.
SINK = """
import array, fcntl, socket, sys, termios, time
def waiting():
    found = array.array("i", [0])
    while True:
        now = time.monotonic()
        fcntl.ioctl(line, termios.FIONREAD, found)
        if time.monotonic() < now + 1e-3:
            return found[0], now
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
listener.bind(("", 5001))
listener.listen()
print("ready", flush=True)
line, _ = listener.accept()
line.recv(65536)
before, began = waiting()
count = -before
while time.monotonic() < began + float(sys.argv[1]):
    count += len(line.recv(65536))
after, ended = waiting()
print(count + after, ended - began)
"""

SOURCE = """
import socket, sys
line = socket.socket()
line.setsockopt(socket.SOL_SOCKET, 32, 1 << 24)
line.connect((sys.argv[1], 5001))
try:
    while True:
        line.sendall(bytes(65536))
except OSError:
    pass
"""


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


def round_trips(
    emulator: Emulator, node: str, peer: str, count: int = 10, enough: float = math.inf
) -> list[float]:
    """In ms: so many, and until one takes less than `enough`."""
    command = python(PING, peer, count, enough)
    with started(emulator, peer.partition(".")[0], python(ECHO)):
        done = emulator.run(node, command, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def goodput(emulator: Emulator, node: str, peer: str, seconds: float) -> float:
    """The rate of TCP, in Mbit/s."""
    with started(emulator, peer, python(SINK, seconds)) as sink:
        source = emulator.start(node, python(SOURCE, peer))
        said, _ = sink.communicate(timeout=HANGS_S)
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
        trips = round_trips(emulator, "here", "peer", enough=43)
        summary = emulator.summary
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
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
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
            stop(process)
            print("go", file=process.stdin, flush=True)
            assert process.stdout.readline() == "sent\n"
            process.send_signal(signal.SIGCONT)
            said, told = process.communicate("go\n", timeout=HANGS_S)
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
line.settimeout(100)
line.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER
for size in (8972, 12000):
    data = bytes(range(250)) * (size // 250)
    line.sendto(data, ("peer", 7))
    assert line.recv(65535) == data
"""
    with Emulator(text) as emulator, started(emulator, "peer", python(ECHO)):
        emulator.run("here", python(large), check=True)
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
        assert 10 <= min(round_trips(emulator, "phone", "server", enough=13)) < 13
        assert 60 <= min(round_trips(emulator, "phone", "server.lte", enough=63)) < 63
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

        def sent() -> dict[str, int]:
            return {
                link.link: link.packets
                for link in emulator.counters()
                if link.direction == "forward"
            }

        until(lambda: any(sent().values()))
        assert sent() == {"wifi": 0, "lte": 1}


@pytest.mark.usefixtures("devices")
def test_two_emulations_do_not_meet() -> None:
    text = scenario_text(delay="10ms")
    with (
        Emulator(text) as one,
        Emulator(scenario_text(delay="30ms")) as other,
        started(other, "peer", python(ECHO)),
    ):
        in_vain = python(PING, "peer", *IN_VAIN)
        refused = one.run("here", in_vain, capture_output=True, text=True)
        assert "timed out" in refused.stderr
        trips = round_trips(one, "here", "peer", enough=23)
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
        seen = [*dpkt.pcapng.Reader(stream)]
    assert len(seen) == 20
    # One packet after the other, each at the one end and at the other one.
    ways = [*zip(seen[::2], seen[1::2], strict=True)]
    assert all(first == second for (_, first), (_, second) in ways)
    took = [float(second - first) for (first, _), (second, _) in ways]
    assert 0.009 < min(took) < 0.05
    assert abs(float(seen[0][0]) - time.time()) < 600


def test_a_capture_that_cannot_be_begun_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "packets.pcapng"
    with pytest.raises(ScenarioError, match=r"links\.link\.delay"):
        Emulator(scenario_text(delay="soon"), pcap=file)
    with pytest.raises(FileNotFoundError):
        Emulator(scenario_text(delay="10ms"), pcap=tmp_path / "none" / "packets.pcapng")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which emulations of other tests are not found."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path
    left = [file.name for file in tmp_path.rglob("anabranch-emulate-*/*")]
    assert left == []


def test_many_paths_have_routes_in_proportion_and_keep_their_ways() -> None:
    """Four times as many paths: sixteen times as many routes, if each were told of each."""
    lines = {}
    for count in (40, 160):
        with Emulator(of_paths(count)) as emulator:

            def shown(*words: str, emulator: Emulator = emulator) -> list[str]:
                command = ["ip", *words]
                done = emulator.run("a", command, capture_output=True, text=True, check=True)
                return list(done.stdout.splitlines())

            for version in ("-4", "-6"):
                [*ways] = shown(version, "route", "show", "table", "1003")
                assert 1 <= len(ways) <= 2, ways
                assert any(" dev p3" in way for way in ways)
            lines[count] = [
                len(shown(version, what, "show", *which))
                for version in ("-4", "-6")
                for what, which in (("route", ("table", "all")), ("rule", ()))
            ]
    for few, many in zip(lines[40], lines[160], strict=True):
        assert 40 <= few < many <= 4 * few, lines


def test_a_signal_while_a_program_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is known to nobody yet, and a namespace ends only once all of its are gone."""
    enter = _engine.enter_namespaces

    def entered(*places: str) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.2)
        enter(*places)

    with Emulator(scenario_text(delay="1ms")) as emulator:
        monkeypatch.setattr(_engine, "enter_namespaces", entered)
        before = {*threading.enumerate()}
        with pytest.raises(KeyboardInterrupt):
            emulator.start("here", ["sleep", "1234567"])
        for thread in {*threading.enumerate()} - before:
            thread.join(HANGS_S)
        commands = []
        for process in below(os.getpid()):
            with suppress(OSError):
                commands.append(Path(f"/proc/{process}/cmdline").read_bytes())
        assert b"sleep\0" + b"1234567\0" not in commands


def test_a_signal_right_after_a_program_has_started_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The emulation knows the program by then, and ends it; its namespace would not end else."""

    @contextmanager
    def signalled() -> Iterator[Interruption]:
        with interruptible() as interruption:
            yield interruption
        raise KeyboardInterrupt

    with Emulator(scenario_text(delay="1ms")) as emulator:
        monkeypatch.setattr("anabranch.emulate.emulator.interruptible", signalled)
        before = below(os.getpid())
        with pytest.raises(KeyboardInterrupt):
            emulator.start("here", ["sleep", "1000"])
        started = below(os.getpid()) - before
        known = [*emulator._started]
        for process in started - {one.pid for one in known}:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        assert [one.pid for one in known] == [*started]
    assert [one.returncode for one in known] == [-signal.SIGKILL]


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
        timeout=HANGS_S,
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
