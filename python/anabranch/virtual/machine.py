"""Boots the virtual kernel, runs one command in it, and brings back the results.

The kernel is an ordinary process in a folder of its own. Its command line is the same on every
machine and in every run except for the seed, because the kernel mixes it into its random numbers:
everything that differs is in that folder, which the kernel finds as `/proc/self/cwd`.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from anabranch.errors import AnabranchError, LiveError

_EPOCH = 1_767_225_600
"""The time of day at boot, in every run: 2026-01-01."""
_LOOK_EVERY = 0.02
"""Seconds of real time between two looks at whether the kernel has ended."""
_MEMORY_MIB = 1024
"""The kernel's memory; the host provides only what is used of it."""
_KEPT = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "VIRTUAL_ENV")
"""Variables that a command gets from this environment; others would make runs differ."""
_NAME = "ANABRANCH_KERNEL"
_JOB = "anabranch-kernel-"
"""The prefix of the names of jobs' folders."""


@dataclass(frozen=True)
class Finished:
    """The result of a command in the virtual kernel."""

    returncode: int
    """The exit status as a shell has it: 128 plus the signal's number if a signal ended it."""
    stdout: bytes
    stderr: bytes
    virtual_seconds: float
    """Seconds from boot to the command's end, by the kernel's clock."""
    cpu_seconds: float
    """Seconds of the host's CPU for all of it."""


def kernel_file() -> Path:
    """The virtual kernel's program.

    It is `target/kernel/linux` of the source tree, or the file in the variable ANABRANCH_KERNEL.

    Raises
    ------
    LiveError
        The file does not exist.
    """
    named = os.environ.get(_NAME)
    file = Path(named) if named else Path(__file__).parents[3] / "target" / "kernel" / "linux"
    if not os.access(file, os.X_OK):
        made = f"`make kernel` in the source tree builds it, and {_NAME} says where it is"
        raise LiveError(f"there is no virtual kernel in {file}; {made}")
    return file.absolute()


def run_in_kernel(
    command: Sequence[str | Path],
    *,
    folder: str | Path | None = None,
    writable: Sequence[str | Path] = (),
    seed: int = 0,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    memory_mib: int = _MEMORY_MIB,
    is_shown: bool = False,
    cancelled: Event | None = None,
) -> Finished:
    """Run a command as root of a Linux in virtual time.

    It sees the host's files at their usual places. What it writes is lost at the end, except in
    `folder` and `writable`. It has no network to the outside and no standard input. Two runs with
    the same command, seed and files give the same bytes.

    Parameters
    ----------
    command
        The program and its arguments.
    folder
        The folder in which it runs, where its files are kept. By default the current one.
    writable
        Other folders in which its files are kept.
    seed
        The seed of all random numbers in the kernel, from 0 to 2⁶⁴ - 1.
    timeout
        Seconds of real time after which it is ended.
    environment
        Variables of the command besides HOME, LANG, LC_ALL, PATH, PYTHONPATH and VIRTUAL_ENV.
    memory_mib
        The kernel's memory in MiB.
    is_shown
        Whether its output is also printed as it comes.
    cancelled
        Ends the command once this is set.

    Raises
    ------
    LiveError
        There is no kernel, it has panicked, the time was over, or it was cancelled.
    """
    kernel = kernel_file()
    place = Path.cwd() if folder is None else Path(folder).absolute()
    if not command:
        raise AnabranchError("the virtual kernel needs a command")
    if not 0 <= seed < 1 << 64:
        raise AnabranchError(f"seed is {seed}; it must be from 0 to 2^64 - 1")
    # A folder comes before those inside it, so that none is hidden.
    folders = sorted({place, *(Path(other).absolute() for other in writable)})
    for one in folders:
        if not one.is_dir():
            raise AnabranchError(f"there is no folder {one}")
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # In memory, as hostfs does not support files without a name, which programs create there.
    variables["TMPDIR"] = "/run/tmp"
    variables |= environment or {}
    with _job_folder() as job:
        shutil.copy(Path(__file__).with_name("init.sh"), job / "init")
        (job / "job").write_text(_job(command, place, folders, variables))
        for number, one in enumerate(folders):
            (job / f"folder-{number}").symlink_to(one)
        for name in ("stdout", "stderr", "boot"):
            (job / name).touch()
        output = _Output(job, is_shown=is_shown)
        cpu = _boot(
            kernel,
            job,
            output,
            seed=seed,
            memory_mib=memory_mib,
            timeout=timeout,
            cancelled=cancelled,
        )
        code, uptime = _text(job / "status"), _text(job / "uptime")
        if not code:
            raise LiveError(f"the virtual kernel has ended early: {_last_words(job)}")
        stdout, stderr = ((job / name).read_bytes() for name in ("stdout", "stderr"))
        return Finished(int(code), stdout, stderr, float(uptime), cpu)


class _Output:
    """What a command has written so far, passed on as it comes."""

    def __init__(self, job: Path, *, is_shown: bool) -> None:
        pairs = [("stdout", sys.stdout), ("stderr", sys.stderr)] if is_shown else []
        self._streams = [(job / name, stream) for name, stream in pairs]
        self._done = [0] * len(pairs)

    def hand_on(self) -> None:
        for index, (file, stream) in enumerate(self._streams):
            if file.stat().st_size == self._done[index]:
                continue
            with file.open("rb") as source:
                source.seek(self._done[index])
                new = source.read()
            self._done[index] += len(new)
            stream.flush()
            stream.buffer.write(new)
            stream.flush()


@contextmanager
def _job_folder() -> Iterator[Path]:
    """A folder for a job, in memory, as each write of the command's output is waited for.

    Folders of killed processes are removed first: a process holds its folder by a lock.
    """
    base = Path("/dev/shm")
    if not os.access(base, os.W_OK):
        base = Path(tempfile.gettempdir())
    for left in base.glob(f"{_JOB}*"):
        if (lock := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    lock = None
    while lock is None:
        # Until it is locked, another process may take it for an abandoned one.
        job = Path(tempfile.mkdtemp(prefix=_JOB, dir=base))
        lock = _locked(job)
    try:
        yield job
    finally:
        shutil.rmtree(job, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder of ours; None if another process holds it, or it is gone."""
    import fcntl  # noqa: PLC0415 - not on systems that have no such kernel anyway

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with suppress(OSError):
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The folder may have been removed before it was locked.
            if folder.exists():
                return descriptor
    os.close(descriptor)
    return None


def _job(
    command: Sequence[str | Path],
    place: Path,
    folders: Sequence[Path],
    variables: Mapping[str, str],
) -> str:
    """The part of `init.sh` that differs from run to run."""
    paths = [str(one) for one in folders]
    words = [f"{name}={value}" for name, value in variables.items()]
    # busybox has no `env --chdir`.
    words += ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(place)]
    words += [os.fspath(word) for word in command]
    return f'folders() {{ "$@" {shlex.join(paths)}; }}\nprogram() {{ "$@" {shlex.join(words)}; }}\n'


def _boot(
    kernel: Path,
    job: Path,
    output: _Output,
    *,
    seed: int,
    memory_mib: int,
    timeout: float | None,
    cancelled: Event | None,
) -> float:
    """Runs the kernel to its end; gives the CPU seconds that it took."""
    # Newer tools would pass the folder in a form that hostfs reads differently.
    first = (
        "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        " && export LIBMOUNT_FORCE_MOUNT2=always"
        " && mount -t tmpfs -o mode=1777 tmpfs /tmp && mkdir /tmp/job"
        " && mount -t hostfs -o sync,/proc/self/cwd/. none /tmp/job && exec /bin/sh /tmp/job/init"
    )
    line = [
        # The kernel ends with the thread that started it.
        "setpriv", "--pdeathsig", "KILL",
        str(kernel),
        f"mem={memory_mib}M", f"seed={seed}",
        "time-travel=inf-cpu", f"time-travel-start={_EPOCH}000000000",
        "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        "con=null", "con0=null,fd:2", "norandmaps",
        "init=/bin/sh", "--", "-c", f'"{first}"',
    ]  # fmt: skip
    # The kernel has its own files under HOME.
    own = {"HOME": str(job), "PATH": os.environ.get("PATH", os.defpath)}
    with (job / "console").open("wb") as console:
        try:
            process = subprocess.Popen(
                line,
                cwd=job,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        except OSError as error:
            raise LiveError(f"`{line[0]}` cannot be started: {error.strerror}") from None
    end = None if timeout is None else time.monotonic() + timeout
    try:
        while True:
            pid, _, usage = os.wait4(process.pid, os.WNOHANG)
            output.hand_on()
            if pid:
                # Popen then does not wait for the process again.
                process.returncode = 0
                return usage.ru_utime + usage.ru_stime
            if cancelled is not None and cancelled.is_set():
                raise LiveError("the command in the virtual kernel was given up")
            if end is not None and time.monotonic() > end:
                late = f"the command in the virtual kernel did not end within {timeout:g} s"
                raise LiveError(f"{late} of real time")
            time.sleep(_LOOK_EVERY)
    finally:
        # The kernel's processes form a group of their own.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            process.wait()


def _text(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""


def _last_words(job: Path) -> str:
    """Why the kernel has ended without a status."""
    boot = _text(job / "boot").splitlines()
    if boot:
        return boot[-1]
    lines = (job / "console").read_text(errors="replace").splitlines()
    told = [line for line in lines if "panic" in line.lower()] or lines or ["it said nothing"]
    return told[0].strip()
