"""The command `anabranch emulate`: its exit status, who joins it, and what is left after it."""

import json
import os
import pty
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from anabranch import cli
from anabranch.compare import compare
from anabranch.emulate import Emulator, scenario_text
from anabranch.errors import AnabranchError, ScenarioError
from anabranch.support.files import path_atomically
from conftest import CALL, HANGS_S, ROOT
from support.emulation import ECHO, IN_VAIN, LACKS, PING, anabranch, of_paths, python, stop
from support.processes import below, until, until_it_has_worked

pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")


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
                said, told = ping.communicate(timeout=HANGS_S)
            assert len(said.split()) == 5, told
            with anabranch("emulate", "set", "link", "rate=2Mbit/s", "loss=100%") as change:
                assert change.communicate(timeout=HANGS_S) == ("", "")
            assert change.returncode == 0
            in_vain = python(PING, "peer", *IN_VAIN)
            with anabranch("emulate", "exec", "here", "--", *in_vain) as ping:
                _, told = ping.communicate(timeout=HANGS_S)
            assert "timed out" in told
            assert ping.returncode == 1
            with anabranch("emulate", "set", "link", "rate=fast") as change:
                _, told = change.communicate(timeout=HANGS_S)
            assert "links.link.rate: `fast` is not a rate" in told
            assert change.returncode == 2
            process.send_signal(signal.SIGINT)
            said, told = process.communicate(timeout=HANGS_S)
            # A command that has joined ends with it.
            assert echo.wait(HANGS_S) != 0
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
    until(lambda: [*tmp_path.rglob("*.json")])
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
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
    done = subprocess.run(outer, capture_output=True, text=True, check=False)
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


def inodes(processes: Iterable[object]) -> set[str]:
    """The network namespaces of these processes."""
    found = set()
    for process in processes:
        with suppress(OSError):
            found.add(str(Path(f"/proc/{process}/ns/net").readlink()))
    return found


def all_inodes() -> set[str]:
    """The network namespaces that there are."""
    return inodes(space.name for space in Path("/proc").glob("[0-9]*"))


def interfaces() -> str:
    """Network devices of this namespace, as `ip` lists them."""
    command = ["ip", "-o", "link"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("devices")
def test_nothing_is_left_after_kill_9(runtime: Path) -> None:
    devices = interfaces()
    sleep = "import os, time; os.setsid(); print('ready', flush=True); time.sleep(1000)"
    # Also the command's own child, which has left its session.
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    with anabranch("emulate", "--delay", "1ms", "--", *python(nested), cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        during = inodes(below(process.pid)) - inodes(["self"])
        assert during
        process.kill()
    until(lambda: not all_inodes() & during)
    assert interfaces() == devices
    # Files that say where it was go when the next one starts.
    assert [*runtime.rglob("*.json")]
    with anabranch("emulate", "--delay", "1ms", "--", "true", cwd=ROOT) as process:
        process.communicate(timeout=HANGS_S)
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
    parts: list[Path] = []
    sign = ".packets*" if moment == "begun" else "**/*.json"
    # What is seen first may be the file by which the command tries whether it can write.
    for _ in range(100):
        with anabranch(*words, cwd=ROOT) as process:
            until(lambda: [*tmp_path.glob(sign)], process)
            process.kill()
        if parts := [*tmp_path.glob(".packets*")]:
            break
    (left,) = parts
    other = tmp_path / ".packets.pcapng.note"
    other.touch()
    # One that writes the same file at this moment loses nothing.
    with path_atomically(capture) as part:
        with anabranch(*words, "--", "true", cwd=ROOT) as process:
            process.communicate(timeout=HANGS_S)
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
        process.communicate(timeout=HANGS_S)
    assert process.returncode == (0 if number == signal.SIGINT else 128 + number)
    assert json.loads(result.read_text())["kind"] == "emulation"


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_it_begins(number: signal.Signals, tmp_path: Path) -> None:
    scenario = tmp_path / "many.toml"
    devices = interfaces()
    words = ["emulate", str(scenario), "--pcap", str(tmp_path / "c.pcapng")]
    # On a busy machine it may have begun before it stops: more paths take it longer.
    for paths in (200, 400, 800, 1600):
        scenario.write_text(of_paths(paths))
        with anabranch(*words, cwd=ROOT) as process:
            until(lambda: [*tmp_path.glob(".c.pcapng*")], process)
            until_it_has_worked(process, 0.05)
            stop(process)
            was_early = not [*tmp_path.rglob("*.json")]
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
            out, err = process.communicate(timeout=HANGS_S)
        if was_early:
            break
        for file in tmp_path.glob("*.pcapng"):
            file.unlink()
    assert was_early
    assert process.returncode == 128 + number, (out, err)
    assert "Traceback" not in err
    # Where the nodes were there already, and nobody had been told of them, it is a whole capture.
    left = [file for file in tmp_path.iterdir() if "pcapng" in file.name]
    assert [file.name for file in left] in ([], ["c.pcapng"])
    assert all(file.read_bytes().startswith(b"\n\r\r\n") for file in left)
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
    until(lambda: not [command for command in commands() if mark in command])
    assert interfaces() == devices
    with anabranch("emulate", "--delay", "1ms", "--", "true", cwd=ROOT) as process:
        process.communicate(timeout=HANGS_S)
    assert process.returncode == 0
    assert list(temporary.iterdir()) == []


def test_the_duration_ends_it(capfd: pytest.CaptureFixture[str], runtime: Path) -> None:
    words = ["emulate", "--delay", "1ms", "--duration", "0.5"]
    assert cli.main([*words, "--", "sleep", "100000"]) == 128 + signal.SIGTERM
    assert cli.main(words) == 0
    assert "dropped none" in capfd.readouterr().out
    assert not [*runtime.rglob("*.json")]
