"""Files that commands write: targets that cannot be written, rights, links and devices."""

import json
import os
import shlex
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from anabranch import papers
from anabranch.errors import AnabranchError
from anabranch.support import files, terminal
from conftest import COMMAND, HANGS_S, Command, one_error, written


def test_a_full_disk_is_one_sentence(anabranch: Command, call_file: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    assert "No space left" in one_error(anabranch("run", call_file, "--json", "/dev/full"))


def test_a_reader_that_goes_away_is_no_error(call_file: Path) -> None:
    run = subprocess.Popen(
        [*COMMAND, "run", str(call_file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait(HANGS_S) == 0


TARGETS = {
    "in no folder": ["run", "call.toml", "--json", "nowhere/x.json"],
    "a folder": ["run", "call.toml", "--json", "folder"],
    "below a file": ["run", "call.toml", "--json", "call.toml/x.json"],
    "too long a name": ["run", "call.toml", "--json", "x" * 254],
    "traces into a file": ["run", "call.toml", "--trace", "call.toml"],
    "figures below a file": ["run", "call.toml", "--plot", "call.toml/figures"],
    "a study that is a file": ["sweep", "call.toml", "--out", "call.toml"],
    "a comparison": ["compare", "a", "b", "--csv", "nowhere/x.csv"],
    "a page": ["reproduce", "voip-sctp", "--out", "call.toml/page"],
    "the folder of the traces": ["run", "call.toml", "--json", "new", "--trace", "new"],
    "below that folder": ["run", "call.toml", "--json", "new/a/x.json", "--trace", "new"],
    "verdicts": ["reproduce", "voip-sctp", "--out", "out", "--json", "nowhere/x.json"],
}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_that_cannot_be_written_is_found_before_the_work(
    anabranch: Command, call_file: Path, tmp_path: Path, target: str
) -> None:
    (tmp_path / "folder").mkdir()
    before = contents(tmp_path)
    arguments = TARGETS[target]
    if arguments[0] in ("run", "sweep"):
        # Whatever runs ends in another error.
        arguments = [*arguments, "--set", "run.max_events=10"]
    message = one_error(anabranch(*arguments))
    assert "max_events" not in message
    assert arguments[3].split("/")[0] in message or arguments[-1] in message, message
    assert contents(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {call_file.name, "folder"}


def test_a_run_that_fails_writes_nothing(
    anabranch: Command, call_file: Path, tmp_path: Path
) -> None:
    written(tmp_path / "old.json", "old")
    before = contents(tmp_path)
    targets = ("--json", "old.json", "--trace", "new", "--plot", "new")
    message = one_error(anabranch("run", call_file, "--set", "run.max_events=10", *targets))
    assert "max_events" in message
    assert contents(tmp_path) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("trace", ["new", "new/deeper", "new/../new"])
def test_a_file_goes_into_the_folder_that_the_run_makes(
    anabranch: Command, call_file: Path, tmp_path: Path, trace: str
) -> None:
    result = anabranch("run", call_file, "--trace", trace, "--json", "new/r.json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads((tmp_path / "new/r.json").read_text())["scenario"] == "small"


def test_a_file_in_a_folder_that_will_be_made_is_checked(tmp_path: Path) -> None:
    out = tmp_path / "new"
    files.check_file(out / "r.json", made=out)
    files.check_file(tmp_path / "r.json", made=out / "deeper")
    for path in (out / "other/r.json", out / ("x" * 254), out):
        with pytest.raises(OSError, match=path.name):
            files.check_file(path, made=out)
    assert list(tmp_path.iterdir()) == []


def test_verdicts_go_into_the_folder_that_reproduce_makes(tmp_path: Path) -> None:
    def compute(*_: object) -> Any:
        raise AnabranchError("all targets are fine")

    # The work after the checks takes minutes.
    paper = replace(papers.load("voip-sctp"), compute=compute)
    out = tmp_path / "new"
    with pytest.raises(AnabranchError, match="all targets are fine"):
        paper.reproduce("quick", 1, out, out / "v.json", terminal.console())


def test_a_protected_file_is_not_replaced(tmp_path: Path) -> None:
    protected = written(tmp_path / "old.json", "old")
    protected.chmod(0o444)
    if os.access(protected, os.W_OK):
        pytest.skip("this user may write everything")
    with pytest.raises(PermissionError, match=r"may not be written: .*old\.json"):
        files.check_file(protected)
    with pytest.raises(PermissionError, match=r"may not be written: .*old\.json"):
        files.write_atomically(protected, b"new")
    assert contents(tmp_path) == {protected: b"old"}


@pytest.mark.skipif(sys.platform == "win32", reason="there, rights come from the folder")
@pytest.mark.parametrize("rights", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rights: int
) -> None:
    old = written(tmp_path / "old.json", "old")
    old.chmod(rights)
    link = tmp_path / "link"
    link.symlink_to(old)
    before = os.umask(0o022)
    try:
        with files.opened_atomically(link) as file:
            file.write(b"new")
            # No one else may read it, even before it is complete.
            assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {rights}
        files.write_atomically(tmp_path / "new.json", b"new")
        assert stat.S_IMODE(old.stat().st_mode) == rights
        assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o644
        # Where the group cannot be kept, its rights do not go to our own group.
        real, groups = Path.stat, [old.stat().st_gid + 1]
        refuse = mock.Mock(side_effect=PermissionError)
        monkeypatch.setattr(os, "fchown", refuse)

        def of_another(path: Path, **options: bool) -> os.stat_result:
            found = list(real(path, **options))
            found[5:6] = groups if path == old else found[5:6]
            return os.stat_result(found)

        monkeypatch.setattr(Path, "stat", of_another)
        files.write_atomically(old, b"newer")
        monkeypatch.undo()
        assert stat.S_IMODE(old.stat().st_mode) == rights & ~0o070
    finally:
        os.umask(before)
    assert old.read_text() == "newer"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
def test_a_file_that_is_replaced_keeps_its_owner(tmp_path: Path) -> None:
    old = written(tmp_path / "old.json", "old")
    os.chown(old, 1234, 5678)
    files.write_atomically(old, b"new")
    assert (old.stat().st_uid, old.stat().st_gid, old.read_text()) == (1234, 5678, "new")


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for name in ("old.txt", "fresh.txt"):
        target, link = tmp_path / "far" / name, tmp_path / name
        if name == "old.txt":
            written(target, "old")
        link.symlink_to(Path("far") / name)
        files.check_file(link)
        files.write_atomically(link, b"new")
        assert (link.is_symlink(), target.read_text()) == (True, "new")
    assert len(list(tmp_path.rglob("*"))) == 5


@pytest.mark.parametrize("target", ["nowhere/x", "far", "loop"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "far").mkdir()
    link = tmp_path / "loop"
    link.symlink_to(target)
    with pytest.raises(OSError, match="loop"):
        files.check_file(link)
    with pytest.raises(OSError, match="loop"):
        files.write_atomically(link, b"new")
    assert link.is_symlink()


@pytest.mark.parametrize(
    "words",
    [
        ["run", "call.toml", "--json", "call.toml"],
        ["run", "call.toml", "--json", "link.toml"],
        ["run", "call.toml", "--pcap", "./call.toml"],
        ["explain", "call.toml", "--json", "call.toml"],
        ["testbed", "call.toml", "--json", "call.toml"],
        ["drill", "script.pkt", "--junit", "script.pkt"],
        ["advise", "--paths", "call.toml", "--goal", "mos", "--json", "call.toml"],
        ["profile", "pings.csv", "--json", "pings.csv"],
        ["profile", "pings.csv", "--out", "pings.csv"],
        ["emulate", "--trace", "trace", "--json", "trace"],
    ],
)
def test_a_file_that_is_read_is_not_overwritten(
    words: list[str], call_file: Path, monkeypatch: pytest.MonkeyPatch, anabranch: Command
) -> None:
    monkeypatch.chdir(call_file.parent)
    assert call_file.name == "call.toml"
    Path("link.toml").symlink_to("call.toml")
    Path("pings.csv").write_text("seq,rtt\n" + "".join(f"{n},20\n" for n in range(30)))
    Path("script.pkt").write_text("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n")
    Path("trace").write_text("1\n2\n")
    before = {file: file.read_bytes() for file in Path().iterdir()}
    option = next(word for word in words if word in {"--json", "--pcap", "--junit", "--out"})
    said = one_error(anabranch(*words))
    assert f"{option} is " in said
    assert "which is read: name another file" in said
    assert {file: file.read_bytes() for file in Path().iterdir()} == before


def test_a_loop_of_links_is_no_file_named_twice(tmp_path: Path) -> None:
    for name, target in (("one", "two"), ("two", "one")):
        (tmp_path / name).symlink_to(target)
    files.check_different(csv=tmp_path / "one", json=tmp_path / "other.json")
    with pytest.raises(AnabranchError, match="--csv and --json are both"):
        files.check_different(csv=tmp_path / "one", json=tmp_path / "one")


def test_a_device_behind_a_link_is_written(tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    files.check_file(link)
    files.write_atomically(link, b"new")
    assert (link.is_symlink(), list(tmp_path.iterdir())) == (True, [link])


@pytest.mark.parametrize("redirected", ["> out.txt", ">> out.txt", "| cat > out.txt"])
def test_standard_output_can_be_the_target(
    call_file: Path, tmp_path: Path, redirected: str
) -> None:
    if not Path("/dev/stdout").exists():
        pytest.skip("this system has no /dev/stdout")
    link = tmp_path / "link"  # never the system's own, should this fail
    link.symlink_to("/dev/stdout")
    words = [*COMMAND, "run", str(call_file), "--all", "--json", str(link)]
    command = f"{shlex.join(words)} {redirected}"
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    text = (tmp_path / "out.txt").read_text()
    tables, _, rest = text.partition("\n{\n")
    content, _, last = rest.partition("\n}\n")
    assert "call.sent" in tables
    assert json.loads(f"{{{content}}}")["scenario"] == "small"
    assert last == f"wrote {link}\n"
    assert link.is_symlink()
