"""The program that runs a flow's end on usrsctp, built from our source when it is first needed."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from anabranch.errors import LiveError

_SOURCE = Path(__file__).with_name("usrsctp_end.c")
_CACHE = Path(".cache", "anabranch")
"""A folder in the home folder, which is also visible to the virtual kernel's programs."""


def program() -> Path:
    """The program's file; it is built with `cc` if it is not there or its source has changed.

    Raises
    ------
    LiveError
        There is no compiler, or no libusrsctp to build it with.
    """
    source = _SOURCE.read_bytes()
    folder = Path.home() / _CACHE
    file = folder / f"usrsctp_end-{hashlib.sha256(source).hexdigest()[:16]}"
    if os.access(file, os.X_OK):
        return file
    needs = "flows on usrsctp need a C compiler (cc) and libusrsctp with its header"
    how_to = "Debian and Ubuntu have them in gcc and libusrsctp-dev"
    compiler = shutil.which("cc")
    if compiler is None:
        raise LiveError(f"{needs}, and there is no `cc`; {how_to}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as base:
            built = Path(base) / "program"
            command = [compiler, "-O2", "-std=c11", "-o", str(built), str(_SOURCE), "-lusrsctp"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                told = [line for line in done.stderr.splitlines() if "error" in line]
                why = (told or done.stderr.splitlines() or ["it said nothing"])[0].strip()
                raise LiveError(f"{needs}; {how_to}, and `cc` says: {why}")
            # Another process that builds it at the same time produces the same file.
            built.replace(file)
    except OSError as error:
        raise LiveError(f"cannot build {file}: {error.strerror or error}") from None
    return file
