"""Emulation by somebody who is not root."""

import json
import os
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anabranch.emulate import running
from anabranch.errors import LiveError
from conftest import DEVICES, HANGS_S, ROOT
from support.emulation import ECHO, IN_VAIN, LACKS, PING

pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")


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
def nobody() -> Iterator[Nobody]:
    if os.geteuid() != 0:
        pytest.skip("left out, since only root can become somebody else")
    # Not in pytest's folder, which the next pytest that begins on this machine closes to others.
    with tempfile.TemporaryDirectory() as made:
        yield in_folder(Path(made))


def in_folder(folder: Path) -> Nobody:
    """Somebody with a folder below this one."""
    # Longer than the address of a socket may be.
    mine = folder / ("runtime" * 20)
    mine.mkdir()
    folder.chmod(0o755)
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
    # What the system lets him open is asked of it right before, in namespaces like the emulation's.
    opens = shlex.join([*AS_NOBODY, *SPACES, "sh", "-c", "exec 3<>/dev/net/tun"])
    script = f"mount --bind {device} /dev/net/tun && if {opens}; then echo opens; fi && {inner}"
    outer = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(
        outer, check=False, capture_output=True, text=True, timeout=HANGS_S, **nobody.options
    )
    if not can(*AS_NOBODY, *SPACES, "true"):
        assert done.returncode == 2
        assert "an emulation needs root, or a system where users may make namespaces" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "peer" in done.stdout
    can_open = done.stdout.startswith("opens\n")
    assert may_open or not can_open
    kind = json.loads(result.read_text())["devices"]
    assert kind == ("tun" if can_open else "veth"), done.stderr


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

            def ping(*how: str) -> tuple[str, str]:
                words = [nobody.python, "-c", PING, "peer", *how]
                with nobody.start("emulate", "exec", "here", "--", *words) as program:
                    return program.communicate(timeout=HANGS_S)

            said, told = ping("3")
            assert len(said.split()) == 3, told
            # Another one does not meet it.
            with nobody.start("emulate", "--delay", "1ms", "--", "true") as other:
                _, told = other.communicate(timeout=HANGS_S)
            assert "link forward: 0 packets" in told
            with nobody.start("emulate", "set", "link", "loss=100%") as change:
                assert change.communicate(timeout=HANGS_S) == ("", "")
            assert "timed out" in ping(*IN_VAIN)[1]
            process.kill()
            assert echo.wait(HANGS_S) != 0
    assert [*nobody.folder.rglob("*.json")]
    # Only one that is whole has its name.
    (part,) = nobody.folder.glob(".packets.pcapng*")
    assert part.stat().st_uid == NOBODY
    assert not capture.exists()
    with nobody.start("emulate", "--delay", "1ms", "--", "true") as process:
        process.communicate(timeout=HANGS_S)
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
