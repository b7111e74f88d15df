"""Finds the emulations that run on this machine, and sends them orders.

Each emulation has a file in the user's runtime folder that says where its namespaces are, and a
socket beside it that takes orders. Files of emulations that ended without removing them are removed
when the next one starts.
"""

import json
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from glob import escape
from pathlib import Path

from anabranch.errors import AnabranchError, LiveError
from anabranch.support.files import remove_temporaries

from .emulator import Emulator

_MOST_BYTES = 65_536
"""Bytes of an order or an answer at most."""


@dataclass(frozen=True)
class Running:
    """A running emulation of this user."""

    pid: int
    started: str
    """When its process started, in the kernel's count; a later process with the same id has
    another.
    """
    uid: int
    """The user who started it; inside a user namespace this differs from the id there."""
    name: str
    """The scenario's name."""
    links: list[str]
    nodes: dict[str, list[str]]
    """The files for the namespaces of each node."""
    part: str | None = None
    """The file of a capture that is being written, if there is one."""

    @property
    def is_there(self) -> bool:
        """Whether the emulation still runs."""
        return _start_of(self.pid) == self.started

    def ask(self, link: str, values: Mapping[str, str]) -> None:
        """Changes a link of the emulation."""
        order = {"link": link, "values": dict(values)}
        try:
            with socket.socket(socket.AF_UNIX) as line, _short(_socket_of(self.pid)) as place:
                line.settimeout(10)
                line.connect(place)
                line.sendall(json.dumps(order).encode() + b"\n")
                answer = json.loads(_line_of(line))
        except (OSError, ValueError) as error:
            raise LiveError(f"the emulation {self.pid} does not answer: {error}") from None
        if answer["error"]:
            raise AnabranchError(answer["error"])


def find(pid: int | None = None) -> Running:
    """Gives the running emulation, or the one of this process id."""
    found = [running for running in _listed() if running.is_there]
    if pid is not None:
        found = [running for running in found if running.pid == pid]
    if not found:
        which = "" if pid is None else f" with --pid {pid}"
        raise LiveError(
            f"no emulation of yours runs{which}; `anabranch emulate SCENARIO` starts one"
        )
    if len(found) > 1:
        several = ", ".join(f"{running.pid} ({running.name})" for running in found)
        raise LiveError(f"several emulations run: {several}; name one with --pid")
    return found[0]


@contextmanager
def announced(emulator: Emulator) -> Iterator[None]:
    """Lets other commands find this emulation while the context lasts."""
    remove_stale()
    pid = os.getpid()
    nodes = {node: list(emulator.places(node)) for node in emulator.nodes}
    running = Running(
        pid, _start_of(pid), user(), emulator.name, emulator.links, nodes, emulator.part
    )
    place, file = _socket_of(pid), _file_of(pid)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            with _short(place) as name:
                line.bind(name)
            line.listen()
            try:
                file.write_text(json.dumps(asdict(running)))
            except OSError as error:
                raise LiveError(f"{file} cannot be written: {error.strerror}") from None
            threading.Thread(target=_serve, args=(line, emulator), daemon=True).start()
            try:
                yield
            finally:
                # Wakes the thread that waits in `accept`.
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
    finally:
        for left in (file, place):
            left.unlink(missing_ok=True)


def remove_stale() -> None:
    """Removes the files of emulations that have ended, also captures that they had not finished."""
    for running in _listed():
        if not running.is_there:
            if running.part is not None:
                part = Path(running.part)
                with suppress(OSError):
                    remove_temporaries(part.parent, escape(part.name))
            for left in (_file_of(running.pid), _socket_of(running.pid)):
                with suppress(OSError):
                    left.unlink(missing_ok=True)


def folder() -> Path:
    """The folder for such files; other users cannot write to it."""
    name = f"anabranch-emulate-{user()}"
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir()):
        if not base or not os.access(base, os.W_OK):
            continue
        path = Path(base) / name
        with suppress(OSError):
            path.mkdir(mode=0o700, exist_ok=True)
            # A folder that another user has put there is refused.
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                return path
    raise LiveError("no folder for the files of emulations; set XDG_RUNTIME_DIR to one of yours")


USER = "ANABRANCH_EMULATE_UID"
"""Holds the user who started the emulation, for use inside the user namespace, where all are root.
"""


def user() -> int:
    """The user who started this command, by the system's user id."""
    return int(os.environ.get(USER, os.geteuid()))


def _file_of(pid: int) -> Path:
    return folder() / f"{pid}.json"


def _socket_of(pid: int) -> Path:
    return folder() / f"{pid}.socket"


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for this file that is short enough for a socket's address (108 bytes)."""
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{parent}/{path.name}"
    finally:
        os.close(parent)


def _listed() -> Iterator[Running]:
    for file in sorted(folder().glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            yield Running(**json.loads(file.read_text()))


def _start_of(pid: int) -> str:
    """A process's start time in ticks since boot; empty if there is no such process."""
    with suppress(OSError):
        # The name in brackets may contain any characters, also brackets and spaces.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _line_of(line: socket.socket) -> bytes:
    text = b""
    while not text.endswith(b"\n") and len(text) < _MOST_BYTES:
        part = line.recv(4096)
        if not part:
            break
        text += part
    return text


def _serve(line: socket.socket, emulator: Emulator) -> None:
    while True:
        try:
            caller, _ = line.accept()
        except OSError:
            return
        with caller, suppress(OSError):
            caller.settimeout(10)
            caller.sendall(
                json.dumps({"error": _obey(_line_of(caller), emulator)}).encode() + b"\n"
            )


def _obey(text: bytes, emulator: Emulator) -> str:
    try:
        order = json.loads(text)
        emulator.set(str(order["link"]), **{str(k): str(v) for k, v in order["values"].items()})
    except AnabranchError as error:
        return str(error)
    except (ValueError, KeyError, TypeError, AttributeError):
        return "the order was not understood"
    return ""
