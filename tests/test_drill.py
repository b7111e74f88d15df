"""`anabranch drill`, and the verdicts on the suites of others where they are at hand."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import conformance
from anabranch import _engine, cli, drill
from anabranch.errors import AnabranchError
from conftest import HANGS_S, ROOT
from support.processes import until_it_has_worked, until_it_hears

SCRIPTS = ROOT / "crates/anabranch-drill/tests/scripts"
# Beside the project; a working tree of its own may lie deeper.
SUITES = next(
    (found for up in ROOT.parents if (found := up / "shared/suites").is_dir()),
    ROOT.parent / "shared/suites",
)
OPENING = """\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A script of each verdict."""
    suite = tmp_path / "ours"
    suite.mkdir()
    (suite / "good.pkt").write_text(f"{OPENING}+0 > S. 0:0(0) ack 1 <mss 1460>\n")
    (suite / "bad.pkt").write_text(f"{OPENING}+0 > S. 0:0(0) ack 1 <mss 1200>\n")
    (suite / "other.pkt").write_text(f"{OPENING}+0 pipe([4, 5]) = 0\n")
    return suite


def test_each_script_has_its_line_and_each_suite_its_totals(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tmp_path / "verdicts.json", tmp_path / "verdicts.xml"
    code = cli.main(
        ["drill", "--suite", str(folder), "--json", str(files[0]), "--junit", str(files[1])]
    )
    assert code == 1
    out = capsys.readouterr().out
    assert "passed         ours/good.pkt" in out
    assert "FAILED         ours/bad.pkt (line 5)" in out
    assert "expected +0 > S. 0:0(0) ack 1 <mss 1200>" in out
    assert "seen     > S. 0:0(0) ack 1 win" in out
    assert "not applicable ours/other.pkt (line 5): needs the system call pipe" in out
    assert "50.0%" in out
    content = json.loads(files[0].read_text())
    assert set(content) >= {"profile", "version", "scripts"}
    verdicts = {script["script"]: script["verdict"] for script in content["scripts"]}
    assert verdicts == {"good.pkt": "passed", "bad.pkt": "failed", "other.pkt": "not_applicable"}
    bad = next(script for script in content["scripts"] if script["script"] == "bad.pkt")
    assert (bad["line"], bad["reason"]) == (5, "options are <mss 1460>, not <mss 1200>")
    suites = ET.parse(files[1]).getroot()
    counts = suites.get("tests"), suites.get("failures"), suites.get("skipped")
    assert counts == ("3", "1", "1")


def test_files_that_scripts_name_are_beside_them_or_at_the_root(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    (suite / "tcp").mkdir(parents=True)
    script = "`common/defaults.sh`\n" + OPENING + ("+0 > S. 0:0(0) ack 1 <mss 1460>\n")
    (suite / "tcp/one.pkt").write_text(script)
    found = drill.find([], [suite])
    assert drill.run_script(found[0]).verdict == "not_applicable"
    (suite / "common").mkdir()
    # It names another one, from its own folder on.
    (suite / "common/defaults.sh").write_text("sysctl -q net.ipv4.tcp_sack=0\n./more.sh\n")
    assert (drill.run_script(found[0]).reason or "").endswith("the file common/./more.sh")
    (suite / "common/more.sh").write_text("sysctl -q net.ipv4.tcp_timestamps=0\n")
    assert drill.run_script(found[0]).verdict == "passed"
    # What is beside the script comes first; a setting that there is not is named.
    (suite / "tcp/common").mkdir()
    (suite / "tcp/common/defaults.sh").write_text("sysctl -q net.ipv4.no_such_thing=1\n")
    assert drill.run_script(found[0]).verdict == "not_applicable"


def test_scripts_that_pass_give_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["drill", str(SCRIPTS)]) == 0
    assert "FAILED" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no script was named"),
        (["nowhere.pkt"], "there is no script or folder nowhere.pkt"),
        (["--suite", "nowhere"], "--suite nowhere is not a folder"),
        ([str(SCRIPTS), "--profile", "linux_9"], "profile = `linux_9` is not one of"),
    ],
)
def test_misuse_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["drill", *arguments]) == cli.USER_ERROR
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error


def test_what_is_no_script_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.pkt"
    file.write_text("0 close(3) = 0\n+x close(3) = 0\n")
    with pytest.raises(AnabranchError, match=r"wrong\.pkt: line 2: .*a time in seconds"):
        drill.run_script(drill.find([file])[0])
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(AnabranchError, match="is not text in UTF-8"):
        drill.run_script(drill.find([file])[0])


def test_a_file_that_is_no_script_does_not_end_the_others(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a-wrong.pkt").write_text("0 close(3) = 0\n+x close(3) = 0\n")
    (folder / "b-bytes.pkt").write_bytes(b"\xff\xfe")
    (folder / "c-folder.pkt").mkdir()
    (folder / "d-gone.pkt").symlink_to("nowhere")
    file = tmp_path / "verdicts.xml"
    assert cli.main(["drill", str(folder), "--junit", str(file)]) == 1
    out = capsys.readouterr().out
    assert "FAILED         ours/a-wrong.pkt (line 2)" in out
    assert '"x close(3) = 0" stands where a time in seconds' in out
    assert "b-bytes.pkt is not text in UTF-8" in out
    assert "c-folder" not in out
    assert "FAILED         ours/d-gone.pkt" in out
    assert "None" not in out
    assert "passed         ours/good.pkt" in out
    assert ET.parse(file).getroot().get("failures") == "4"
    # A mistake in the command is none of a script.
    assert cli.main(["drill", str(folder), "--profile", "linux_9"]) == cli.USER_ERROR


@pytest.mark.parametrize("name", ["/dev/zero", "large.pkt"])
def test_what_has_no_end_is_not_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    if file.parent == tmp_path:
        with file.open("wb") as made:
            made.truncate(10**12)
    assert cli.main(["drill", str(file)]) == 1
    assert f"cannot read `{file}`: it " in capsys.readouterr().out


def test_what_a_script_says_does_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, report = tmp_path / "bad.pkt", tmp_path / "verdicts.xml"
    steering = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e"
    scripts = (
        f"0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3 // x\n+0 `{steering}`\n",
        f"0 socket(..., SOCK_STREAM, {steering}) = 3\n",
        f"0 %{{ assert 1 == 2, '{steering}' }}%\n",
    )
    for script in scripts:
        file.write_text(script)
        cli.main(["drill", str(file), "--junit", str(report)])
        out = capsys.readouterr().out
        assert "\N{REPLACEMENT CHARACTER}" in out
        assert all(letter == "\n" or letter.isprintable() for letter in out)
        ET.parse(report)
    with pytest.raises(AnabranchError):
        drill.find([Path(steering)])
    assert cli.main(["drill", steering]) == cli.USER_ERROR
    assert "\x1b" not in capsys.readouterr().err


LONG = """\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 0 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+.1 < . 1:1(0) ack 1 win 0
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 100) = 100
"""
"""A connection whose window stays closed, so that it is probed for ever."""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_long_script(number: int, code: int, tmp_path: Path) -> None:
    file = tmp_path / "long.pkt"
    file.write_text(
        LONG + "+0 < . 1:1(0) ack 1 win 0\n" + "+900000 bind(3, ..., ...) = 0\n" * 10_000
    )
    command = [sys.executable, "-m", "anabranch", "drill", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until_it_hears(process)
        until_it_has_worked(process, 1)
        process.send_signal(number)
        assert process.wait(HANGS_S) == code


def test_the_profile_counts() -> None:
    script = f"{OPENING}+0 > S. 0:0(0) ack 1 <mss 1460>\n"
    for profile in ("linux_6", "linux_2_6_20", "rfc"):
        assert json.loads(_engine.drill(script, profile))["verdict"] == "passed"
    other = json.loads(_engine.drill(script, "freebsd_10"))
    assert other["verdict"] == "not_applicable"


@pytest.mark.parametrize(
    "suite", ["etsi-sctp", "google-packetdrill", "mptcp-packetdrill", "pr-sctp"]
)
def test_verdicts_are_those_of_the_table(suite: str) -> None:
    if not (SUITES / suite).is_dir():
        pytest.skip(f"the suite {suite} is not there")
    table = conformance.read(ROOT / "docs/conformance.csv")
    expected = {name: row for (of, name), row in table.items() if of == suite}
    results = conformance.run(SUITES / suite)
    found = {
        name: (verdict, reason) for _, name, verdict, reason in conformance.rows(results, table)
    }
    assert found == expected, "run tools/conformance.py, and give every failure its cause"


def test_every_failure_of_the_table_has_its_cause() -> None:
    table = conformance.read(ROOT / "docs/conformance.csv")
    assert table
    for (_, name), (verdict, reason) in table.items():
        assert verdict in ("passed", "failed", "not_applicable")
        assert (verdict == "passed") == (reason == ""), name
        assert reason != conformance.UNKNOWN, name
