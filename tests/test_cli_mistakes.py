"""Mistakes on the command line and in scenario files, each a sentence."""

import os
import re
from pathlib import Path

import pytest

from conftest import CALL, ROOT, SWEEP, Command, one_error, written

HINTS = {
    "flows.call.transport.rto_maxx=1 s": (
        "`rto_maxx`; did you mean `rto_max`? `anabranch list transport sctp` has all"
    ),
    "flows.call.app.codec=g711+pcl": (
        "`g711+pcl`; did you mean `g711+plc`? `anabranch list codec` has all"
    ),
    "links.frist.delay=1 s": "`frist` in `links`; did you mean `first`?",
    "flows.call.transport.rto_max=1": 'did you mean "1 s" or "1 ms"?',
    "links.first.rate=2.5": 'did you mean "2.5 Mbit/s" or "2.5 kbit/s"?',
    "flows.call.transport.receive_buffer=1000": 'did you mean "1000 B" or "1000 kB"?',
}


def test_each_mistake_of_a_file_has_its_line(anabranch: Command, tmp_path: Path) -> None:
    text = (ROOT / "scenarios" / "two-path-call.toml").read_text("utf-8")
    wrong = text.replace("rate = ", "rat = ", 1).replace("delay = ", "dealy = ", 1)
    (tmp_path / "wrong.toml").write_text(wrong, "utf-8")
    for command in ("run", "validate"):
        done = anabranch(command, tmp_path / "wrong.toml")
        first, *rest = done.stderr.splitlines()
        assert done.returncode == 2
        assert first == f"anabranch: error: {tmp_path / 'wrong.toml'}: {len(rest)} mistakes"
        assert len(rest) >= 2
        assert all(re.match(r"  line \d+: links\.", line) for line in rest), rest
        assert "did you mean `rate`?" in done.stderr


@pytest.mark.parametrize("change", HINTS)
def test_mistakes_in_a_scenario_say_what_was_probably_meant(
    anabranch: Command, call_file: Path, change: str
) -> None:
    assert HINTS[change] in one_error(anabranch("run", call_file, "--set", change))


MISTAKES = {
    "unknown key": ("delay =", "dealy =", "dealy"),
    "misspelt kind": ('kind = "gilbert"', 'kind = "gilbet"', "gilbet"),
    "negative rate": ('rate = "1 Mbit/s"', 'rate = "-1 Mbit/s"', "rate"),
    "loss of 120 %": ('mean_loss = "5 %"', 'mean_loss = "120 %"', "120 %"),
    "RTO.Min above RTO.Max": ('rto_min = "0.02 s"', 'rto_min = "2 s"', "rto_min"),
    "path to nowhere": ('to = "callee"', 'to = "nobody"', "nobody"),
    "path over an unknown link": ('via = ["second"]', 'via = ["third"]', "third"),
    "not TOML": ("[run]", "[run", "line 4"),
    "jitter buffer of an age": ('depth = "100 ms"', 'depth = "1e9 s"', "from 0 s to 3600 s"),
    "packets of a minute": ('start = "1 s"', 'packetisation = "60 s"', "up to 200 ms"),
    "Ie beyond the scale": ('start = "1 s"', "ie = 1e300", "from 0 to 95"),
    "quantity without a unit": ('delay = "20 ms"', "delay = 20", "delay"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_scenario_is_one_sentence(
    anabranch: Command, tmp_path: Path, mistake: str
) -> None:
    right, wrong, word = MISTAKES[mistake]
    assert right in CALL
    bad = written(tmp_path / "bad.toml", CALL.replace(right, wrong, 1))
    assert word in one_error(anabranch("run", bad))


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_run_that_a_guard_stops_is_one_sentence(
    anabranch: Command, call_file: Path, command: str
) -> None:
    options = ("--out", "out") if command == "sweep" else ()
    result = anabranch(command, call_file, "--set", "run.max_events=10", *options)
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert result.stderr.splitlines()[-1].startswith("anabranch: error: ")
    assert "max_events" in result.stderr


def test_a_setting_that_an_axis_sets_is_a_mistake(anabranch: Command, sweep_file: Path) -> None:
    setting = "flows.call.transport.rto_max=2 s"
    for words in (["sweep", sweep_file, "--out", "out"], ["run", sweep_file, "--cell", "1"]):
        said = one_error(anabranch(*words, "--set", setting))
        assert "flows.call.transport.rto_max" in said
        assert "sweep.axes.rto_max" in said


def test_an_empty_sweep_axis_is_a_mistake(anabranch: Command, tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.toml", SWEEP.replace('["1 s", "0.1 s", "0.05 s"]', "[]"))
    assert "rto_max" in one_error(anabranch("sweep", bad, "--out", "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["rn", "x.toml"], '"run"'),
        (["run", "call.toml", "--sed", "3"], "--seed"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["run"], "SCENARIO"),
        (["run", "call.toml", "--seed", "three"], "three"),
        (["run", "call.toml", "--seed", "1.9"], "1.9"),
        (["run", "call.toml", "--seed", "-1"], "from 0 on"),
        (["run", "call.toml", "--seed", "99999999999999999999"], "whole number"),
        (["run", "call.toml", "--set", "name=../x"], "name"),
        (["new", "/"], "letters"),
        (["sweep", "call.toml", "--out", "out", "--jobs", "1.5"], "1.5"),
        (["sweep", "call.toml", "--out", "out", "--replications", "999999999999"], "at most"),
        (["run", "call.toml", "--set", "seed"], "PATH=VALUE"),
        (["run", "call.toml", "--set", "sed=3"], "sed"),
        (["run", "call.toml", "--json", "nowhere/x.json"], "nowhere/x.json"),
        (["run", "call.toml", "--trace", "call.toml/traces"], "call.toml"),
        (["sweep", "call.toml", "--out", "call.toml/out"], "call.toml"),
        (["sweep", "call.toml", "--out", "out", "--jobs", "0"], "jobs"),
        (["sweep", "call.toml", "--out", "out", "--replications", "0"], "replications"),
        (["sweep", "call.toml", "--out", "out", "--metric", "call.moss"], "call.mos"),
        (["reproduce", "no-such-paper"], "no-such-paper"),
        (["reproduce", "voip-sctp", "--quick", "--full"], "exclude"),
        (["reproduce", "voip-sctp", "--quick", "--smoke"], "exclude"),
        (["--log-level", "loud", "list"], "loud"),
        (["sweep", "call.toml", "--out", "out", "--jobs", "100000"], "jobs is 100000"),
        (["list", "codecs", "loss", "more"], "`more` is one argument too many"),
        (["run", "call.toml", "--json", ""], "is empty: the one after `--json`"),
        ([""], "is empty: the one after `anabranch`"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(
    anabranch: Command, call_file: Path, arguments: list[str], word: str
) -> None:
    assert call_file.name == "call.toml"
    if arguments[0] == "sweep" and "--metric" in arguments:
        result = anabranch(*arguments)
        assert (result.returncode, "Traceback" in result.stderr) == (2, False)
        assert f"did you mean `{word}`?" in result.stderr.splitlines()[-1]
    else:
        assert word in one_error(anabranch(*arguments))


@pytest.mark.parametrize("command", ["validate", "run", "sweep"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/dev/zero", "a device or a pipe"),
        ("pipe", "a device or a pipe"),
        ("folder", "a folder"),
        ("huge.toml", "more than 16 MB"),
        ("latin.toml", "not UTF-8 text (line 2)"),
    ],
)
def test_what_is_no_text_file_is_no_scenario(
    anabranch: Command, tmp_path: Path, command: str, name: str, words: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(10**9)  # without a block on the disk
    (tmp_path / "latin.toml").write_bytes(b'name = "a"\ndescription = "\xe9"\n')
    options = ("--out", "out") if command == "sweep" else ()
    message = one_error(anabranch(command, name, *options))
    assert f"cannot read `{name}`" in message
    assert words in message
