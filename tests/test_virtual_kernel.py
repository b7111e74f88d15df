"""The virtual kernel, where `make kernel` has built it: what comes back from it and repeats."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

import anabranch
from anabranch import cli
from anabranch.cli.reproduce import stack_of
from anabranch.emulate import testbed, usrsctp
from anabranch.errors import AnabranchError, LiveError
from anabranch.papers import tcp_wimax
from anabranch.papers.real import Bench
from anabranch.papers.studies import Key
from anabranch.papers.tcp_wimax.real import EFFORTS
from anabranch.virtual import Finished, kernel_file, run_in_kernel
from conftest import HANGS_S, no_kernel
from support.processes import until

lacks = no_kernel()
built = pytest.mark.skipif(lacks is not None, reason=f"left out: {lacks}")


# Echo requests as `ping` sends them; says how long each took in ns.
PING = """
import socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
line.settimeout(5)
for number in range(int(sys.argv[2])):
    began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    # Type 8, its checksum, identifier 0, the number.
    line.sendto(bytes([8, 0, *(0xF7FF - number).to_bytes(2), 0, 0, 0, number]), (sys.argv[1], 0))
    line.recv(100)
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - began)
    time.sleep(0.1)
"""

# Sends TCP to the other node for this many seconds. Prints bytes and seconds at the receiver.
TRANSFER = """
import os, socket, subprocess, sys, time
from anabranch.emulate import Emulator, scenario_text
SINK = '''
import socket, time
listener = socket.create_server(("", 5001))
print("ready", flush=True)
line, _ = listener.accept()
began, count, last = time.monotonic(), 0, 0
while data := line.recv(65536):
    count, last = count + len(data), time.monotonic()
print(count, last - began)
'''
SOURCE = '''
import socket, sys, time
line = socket.create_connection(("peer", 5001))
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    line.sendall(bytes(65536))
'''
link = scenario_text(delay="20ms", rate="10Mbit/s", queue=100)
with Emulator(link, pcap=sys.argv[2]) as emulator:
    sink = emulator.start("peer", [sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True)
    assert sink.stdout.readline() == "ready\\n"
    emulator.run("here", [sys.executable, "-c", SOURCE, sys.argv[1]], check=True)
    print(sink.stdout.read(), end="")
    for name, value in emulator.summary.items():
        print(name, value)
"""

CONTROLS = {
    "reno", "cubic", "bic", "westwood", "vegas", "veno", "hybla", "highspeed", "scalable", "htcp",
    "illinois", "yeah", "bbr",
}  # fmt: skip


def shell(text: str, folder: Path, **options: object) -> Finished:
    return run_in_kernel(["sh", "-c", text], folder=folder, timeout=120, **options)  # type: ignore[arg-type]


def test_without_a_kernel_a_sentence_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_KERNEL", str(tmp_path / "linux"))
    with pytest.raises(LiveError, match=r"no virtual kernel in .*linux; `make kernel`"):
        run_in_kernel(["true"])


@built
def test_status_output_and_files_come_back(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from outside")
    outside = tmp_path.parent / "not-there"
    text = "cat in; echo and back > out; echo complaint >&2; "
    done = shell(f"{text} echo x > {outside}; cat {outside}; exit 7", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"from outsidex\n", b"complaint\n")
    assert (tmp_path / "out").read_text() == "and back\n"
    assert not outside.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@built
def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "a name, ro, with \"quotes\" and 'others', $HOME, \\ and é"
    folder.mkdir()
    (folder / "in").write_text("from outside")
    done = shell("cat in; echo back > out", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"from outside", b"")
    assert (folder / "out").read_text() == "back\n"


@built
def test_a_signal_is_a_status_as_in_a_shell(tmp_path: Path) -> None:
    assert shell("kill -TERM $$", tmp_path).returncode == 143
    done = run_in_kernel(["/no/such/program"], folder=tmp_path, timeout=60)
    assert done.returncode == 127
    assert b"/no/such/program" in done.stderr


@built
def test_idle_time_costs_nothing(tmp_path: Path) -> None:
    done = shell("sleep 10000", tmp_path)
    assert 10_000 <= done.virtual_seconds < 10_001
    assert done.cpu_seconds < 60


@built
def test_there_is_what_studies_need(tmp_path: Path) -> None:
    done = shell("cat /proc/sys/net/ipv4/tcp_available_congestion_control", tmp_path)
    assert set(done.stdout.decode().split()) >= CONTROLS
    opened = (
        "import socket\n"
        "for family in socket.AF_INET, socket.AF_INET6:\n"
        "    for protocol in 132, 262:\n"
        "        socket.socket(family, socket.SOCK_STREAM, protocol)\n"
        "    socket.socket(family, socket.SOCK_SEQPACKET, 132)\n"
    )
    assert run_in_kernel([sys.executable, "-c", opened], folder=tmp_path).returncode == 0
    queues = (
        "netem rate 1mbit delay 1ms",
        "tbf rate 1mbit burst 3k latency 9ms",
        "fq_codel",
        "pie",
        "cake",
    )
    for queue in queues:
        done = shell(f"ip link add nic type dummy && tc qdisc add dev nic root {queue}", tmp_path)
        assert (done.returncode, done.stderr) == (0, b""), queue


@built
def test_a_round_trip_is_exact_to_the_microsecond(tmp_path: Path) -> None:
    done = emulated(tmp_path, "--delay=20ms", "--", sys.executable, "-c", PING, "peer", "20")
    trips = [int(line) for line in done.stdout.split()]
    assert len(trips) == 20
    # Each look at the clock takes time; the first round trip has more of them.
    assert 40_000_000 <= trips[0] < 40_005_000, trips
    assert all(40_000_000 <= trip < 40_001_000 for trip in trips[1:]), trips


def emulated(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "anabranch", "emulate", "--kernel", "virtual", *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@built
def test_what_the_emulation_writes_is_here(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    files = ["--json=there/row.json", "--pcap=there/packets.pcapng"]
    emulated(tmp_path, "--delay=5ms", *files, "--", sys.executable, "-c", PING, "peer", "3")
    row = json.loads((tmp_path / "there" / "row.json").read_text())["summary"]
    assert row["emulation.written_packets"] == 6
    assert row["emulation.lateness_max_ms"] < 0.002
    assert (tmp_path / "there" / "packets.pcapng").stat().st_size > 6 * 84


@built
def test_nobody_can_join_what_has_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["emulate", "--delay=1ms", "--kernel=virtual"]) == 2
    assert "needs a command, or --duration" in capsys.readouterr().err


@built
def test_a_transfer_fills_the_link_and_two_are_equal_to_the_byte(tmp_path: Path) -> None:
    def transfer(name: str, seed: int, length: int = 30) -> tuple[Finished, bytes]:
        command = [sys.executable, "-c", TRANSFER, str(length), "packets.pcapng"]
        folder = tmp_path / name
        folder.mkdir()
        done = run_in_kernel(command, folder=folder, seed=seed, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        return done, (folder / "packets.pcapng").read_bytes()

    first, captured = transfer("first", 1)
    # 1448 of a packet's 1500 B are data.
    count, seconds = map(float, first.stdout.splitlines()[0].split())
    assert count * 8 / seconds == pytest.approx(10e6 * 1448 / 1500, rel=0.01)
    assert first.cpu_seconds < 60
    second, captured_again = transfer("a-longer-name", 1)
    assert second.stdout == first.stdout
    assert captured_again == captured
    # The numbers with which TCP's sequences begin are drawn.
    _, with_other_numbers = transfer("other", 2, length=1)
    assert with_other_numbers[:4000] != captured[:4000]


@built
@pytest.mark.parametrize(
    "case", ["a long name", "another umask", "other variables", "another home", "one processor"]
)
def test_what_is_of_no_concern_to_a_run_changes_no_byte(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second of TCP, its times in ns, and random numbers before and after it."""
    urandom = "head -c 8 /dev/urandom | od -An -tx1"
    transfer = f'"{sys.executable}" -c "$TRANSFER" 0.5 packets.pcapng'

    def run(name: str) -> tuple[bytes, bytes]:
        folder = tmp_path / name
        folder.mkdir()
        environment = {"TRANSFER": TRANSFER}
        done = shell(f"{urandom}; {transfer}; {urandom}", folder, environment=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout, (folder / "packets.pcapng").read_bytes()

    first = run("first")
    name, before = "other", os.umask(0o022)
    processors = os.sched_getaffinity(0)
    try:
        os.umask(0o077 if case == "another umask" else before)
        if case == "a long name":
            name = "x" * 200
        elif case == "other variables":
            monkeypatch.setenv("TZ", "Asia/Tokyo")
            monkeypatch.setenv("SOMETHING", "else" * 1000)
        elif case == "another home":
            monkeypatch.setenv("HOME", "/somewhere/else")
        elif case == "one processor":
            os.sched_setaffinity(0, {min(processors)})
        assert run(name) == first
    finally:
        os.umask(before)
        os.sched_setaffinity(0, processors)


@built
def test_random_numbers_repeat_and_differ_by_seed(tmp_path: Path) -> None:
    # The kernel mixes new ones into its pool as it goes.
    text = (
        "for pause in 1 10 30 100 300; do sleep $pause; head -c 8 /dev/urandom | od -An -tx1; done"
    )
    first, again, other = (shell(text, tmp_path, seed=seed).stdout for seed in (5, 5, 6))
    assert len(set(first.splitlines())) == 5
    assert again == first
    assert not set(other.splitlines()) & set(first.splitlines())


@built
def test_two_at_once_do_not_meet(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom anabranch.virtual import run_in_kernel\n"
        "text = f'ip link add nic{sys.argv[1]} type dummy; sleep 50; ls /sys/class/net'\n"
        "sys.stdout.buffer.write(run_in_kernel(['sh', '-c', text], timeout=100).stdout)\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", script, name], cwd=tmp_path, stdout=subprocess.PIPE)
        for name in "12"
    ]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert b"nic1" in said[0]
    assert b"nic2" not in said[0]
    assert b"nic2" in said[1]


@built
def test_a_panic_is_a_sentence(tmp_path: Path) -> None:
    text = "echo 1 > /proc/sys/vm/panic_on_oom; head -c 1G /dev/zero | tail"
    with pytest.raises(
        LiveError, match="has ended early: Kernel panic - not syncing: Out of memory"
    ):
        shell(text, tmp_path, memory_mib=128)


@built
def test_what_hangs_is_ended_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(LiveError, match="did not end within 3 s of real time"):
        run_in_kernel(["sh", "-c", "while :; do :; done"], folder=tmp_path, timeout=3)
    assert not processes(os.getpid())


@built
def test_who_is_killed_leaves_no_kernel(tmp_path: Path) -> None:
    loop = "run_in_kernel(['sh', '-c', 'while :; do :; done'])"
    script = f"from anabranch.virtual import run_in_kernel\n{loop}"
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path) as process:
        until(lambda: processes(process.pid), process)
        kernels = processes(process.pid)
        process.kill()
    assert kernels
    until(lambda: not kernels & processes())


def test_the_next_start_removes_what_a_kill_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in place of the kernel that says where its job's folder is and goes on."""
    fake = tmp_path / "fake"
    monkeypatch.setenv("ANABRANCH_KERNEL", str(fake))
    script = "from anabranch.virtual import run_in_kernel\nrun_in_kernel(['true'])"

    def started(name: str) -> tuple["subprocess.Popen[bytes]", Path]:
        said = tmp_path / name
        fake.write_text(f"#!/bin/sh\npwd > {said}.new\nmv {said}.new {said}\nexec sleep 1000\n")
        fake.chmod(0o755)
        process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
        until(said.exists, process)
        return process, Path(said.read_text().strip())

    killed, left = started("killed")
    with killed:
        killed.kill()
    assert left.is_dir()
    living, held = started("living")
    with living:
        try:
            assert not left.exists()
            assert held.is_dir()
            fake.write_text("#!/bin/sh\nexit 1\n")
            with pytest.raises(LiveError, match="has ended early"):
                run_in_kernel(["true"], folder=tmp_path)
            assert held.is_dir()
        finally:
            # The kernel removes its folder itself.
            living.send_signal(signal.SIGINT)
    assert not held.exists()


def processes(under: int | None = None) -> set[int]:
    """The processes that run the virtual kernel, of all or of those below a process."""
    found, parents = set(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
            if (folder / "exe").readlink() == kernel_file().resolve():
                found.add(int(folder.name))
        except OSError:
            continue

    def is_under(process: int) -> bool:
        return process == under or (process in parents and is_under(parents[process]))

    return {process for process in found if under is None or is_under(process)}


@built
def test_mistakes_are_sentences(tmp_path: Path) -> None:
    for wrong, sentence in (
        ({"command": []}, "needs a command"),
        ({"seed": -1}, "from 0 to 2"),
        ({"folder": tmp_path / "none"}, "there is no folder"),
    ):
        with pytest.raises(AnabranchError, match=sentence):
            run_in_kernel(**{"command": ["true"], **wrong})  # type: ignore[arg-type]


@built
def test_who_is_not_root_has_it_too() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    script = (
        "from anabranch.virtual import run_in_kernel\n"
        "print(run_in_kernel(['sh', '-c', 'id -u; echo x > file'], timeout=60).stdout)\n"
    )
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    # The folder of a test is not for others.
    with tempfile.TemporaryDirectory() as ours:
        os.chown(ours, 65534, 65534)
        done = subprocess.run(
            [*prefix, sys.executable, "-c", script],
            cwd=ours,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "b'0\\n'\n", done.stderr
        assert (Path(ours) / "file").read_text() == "x\n"


BULK = """
name = "bulk"
seed = 1
run.duration = "2 s"
paths.only.via = ["link"]

[links.link]
ends = ["a", "b"]
rate = "10 Mbit/s"
delay = "20 ms"
loss = { kind = "bernoulli", probability = "0.5 %" }

[flows.bulk]
from = "a"
to = "b"
paths = ["only"]
transport = { kind = "tcp" }
app = { kind = "bulk" }

[sweep.axes]
cc = { set = "flows.bulk.transport.cc.kind", values = ["reno", "cubic"] }
"""


@built
def test_a_study_on_it_repeats_and_differs_by_replication(tmp_path: Path) -> None:
    scenario = tmp_path / "bulk.toml"
    scenario.write_text(BULK)
    studies = []
    for jobs in ("1", "2"):
        out = tmp_path / f"jobs-{jobs}"
        words = ["testbed", str(scenario), "--kernel", "virtual", "--out", str(out)]
        assert cli.main([*words, "--replications", "2", "--jobs", jobs, "--quiet"]) == 0
        studies.append(anabranch.read(out).sort("cell", "replication"))
    first, second = studies
    assert first.equals(second, null_equal=True)
    assert set(first["engine_version"].str.extract("on Linux (.*) in virtual time$")) == {
        testbed.virtual_release()
    }
    goodput = first["bulk.goodput_kbit_per_s"].to_list()
    assert len(set(goodput)) == 4
    assert all(1000 < value < 10_000 for value in goodput)


@built
def test_a_run_on_it_has_its_files_and_says_whose_kernel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "bulk.toml"
    scenario.write_text(BULK)
    files = {"--json": tmp_path / "run.json", "--trace": tmp_path / "traces"}
    words = [str(word) for pair in files.items() for word in pair]
    assert cli.main(["testbed", str(scenario), "--kernel", "virtual", "--cell", "1", *words]) == 0
    said = json.loads(files["--json"].read_text())
    release = testbed.virtual_release()
    assert said["kernel"] == {"kind": "virtual", "release": release, "sctp": "kernel"}
    assert said["key"] == {"cc": "cubic"}
    assert (files["--trace"] / "paths.parquet").exists()
    assert "s of virtual time took" in capfd.readouterr().err


def test_jobs_are_for_virtual_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "bulk.toml"
    scenario.write_text(BULK)
    assert cli.main(["testbed", str(scenario), "--jobs", "2"]) == 2
    assert "--jobs is for --kernel virtual with --out" in capsys.readouterr().err


@built
def test_runs_may_share_a_kernel() -> None:
    scenario = anabranch.load(BULK)
    runs = [(0, 0), (1, 0), (0, 1), (1, 1)]
    name = "bulk.goodput_kbit_per_s"
    found = []
    for each in (1, 4, 4):
        workers = testbed.VirtualKernel(scenario, runs_per_boot=each)
        batches = [workers.compute(runs[at : at + each]) for at in range(0, len(runs), each)]
        workers.close()
        found.append([value for batch in batches for value in batch.columns[name]])
    alone, *together = found
    assert together[0] == together[1]
    # The kernel's random numbers, and where a run begins between its ticks, differ.
    assert together[0] == pytest.approx(alone, rel=0.05)


@built
def test_a_paper_runs_on_it_beside_the_simulation(tmp_path: Path) -> None:
    stack = stack_of("virtual", 2)
    bench = Bench(stack, tmp_path, 2, "runs")
    (_, good) = tcp_wimax.real.works("real", tcp_wimax.real.LINUX, EFFORTS["smoke"])

    def few(key: Key) -> int:
        return good.replications(key) if key["control"] in {"reno", "westwood"} else 0

    works = [replace(good, replications=few)]
    rows, left_out = bench.real(works)
    assert left_out == []
    own = tcp_wimax.real.runs_of(rows, "real")["nlos30"]
    beside = tcp_wimax.real.runs_of(bench.simulated(works), "simulated")["nlos30"]
    assert own.frame["control"].to_list() == ["reno", "westwood"]
    assert own.mean().mean == pytest.approx(beside.mean().mean, rel=0.1)
    assert own.mean("air_lost_percent").mean == 0


@built
def test_runs_on_it_can_be_given_up(tmp_path: Path) -> None:
    scenario = tmp_path / "bulk.toml"
    scenario.write_text(BULK.replace('"2 s"', '"100000 s"'))
    workers = testbed.VirtualKernel(anabranch.load(scenario))
    workers.begin([(0, 0)])
    until(lambda: processes(os.getpid()))
    workers.cancel()
    batch = workers.wait(HANGS_S)
    workers.close()
    assert batch is not None
    assert (len(batch), batch.failures) == (0, [])
    assert not processes(os.getpid())


# Linux's receiver answers by the second path once it has confirmed that (RFC 9260 section 5.4) by a
# heartbeat, after 1.5 to 4.5 s, as its random numbers have it: the first path fails later.
CALL = """
name = "call"
seed = 1
run.duration = "10 s"
paths.one.via = ["first"]
paths.other.via = ["second"]
links.second = { ends = ["a", "b"], rate = "2 Mbit/s", delay = "20 ms" }

[links.first]
ends = ["a", "b"]
rate = "2 Mbit/s"
delay = "20 ms"
up = { timetable = [["0 s", true], ["6 s", false]] }

[flows.call]
from = "a"
to = "b"
paths = ["one", "other"]
transport = { kind = "sctp", profile = "freebsd_10", rto_min = "200 ms", path_max_retrans = 1 }
app = { kind = "voip", codec = "g711", start = "4 s", duration = "4 s", reliability = "reliable" }
"""


@built
@pytest.mark.parametrize("stack", ["kernel", "usrsctp"])
def test_both_stacks_of_sctp_fail_over_and_repeat(tmp_path: Path, stack: testbed.SctpStack) -> None:
    if stack == "usrsctp":
        try:
            usrsctp.program()
        except LiveError as error:
            pytest.skip(f"left out: {error}")
    loaded = anabranch.load(CALL)
    rows = []
    for name in ("first", "again"):
        workers = testbed.VirtualKernel(loaded, stack=stack)
        study = anabranch.Study(loaded, tmp_path / name, replications=1, jobs=1)
        study.run(workers=workers)
        rows.append(anabranch.read(tmp_path / name))
    assert rows[0].equals(rows[1], null_equal=True)
    (row,) = rows[0].iter_rows(named=True)
    assert (" with usrsctp on " in row["engine_version"]) == (stack == "usrsctp")
    assert row["call.sent"] == 200
    # Frames that have waited share packets.
    assert row["link.second.forward.delivered_packets"] > 10
    assert row["call.received"] > 150
