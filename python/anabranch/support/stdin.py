"""Standard input in the place of a file: `tcpdump -U -w - | anabranch explain -`.

What is read may be read twice, so it is kept on the disk meanwhile, and the memory does not grow
with it.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.errors import AnabranchError, Terminated

STANDARD = Path("-")
"""Stands for standard input or output where a file is named."""

_FOLDER, _FILE = "standard input", "stdin"
"""The names of the file in its temporary folder."""

_AT_A_TIME = 1 << 20
"""Bytes."""


@contextmanager
def on_disk(file: Path) -> Iterator[Path]:
    """The file itself; for `-` one with what comes from standard input, up to its end.

    Ctrl-C ends the reading, and what has come by then is used: the same key ends the program that
    writes into the pipe.

    Raises
    ------
    AnabranchError
        Where standard input is a terminal, closed or empty. In errors of the caller, the file's
        name is that of standard input.
    """
    if file != STANDARD:
        yield file
        return
    source = None if sys.stdin is None else getattr(sys.stdin, "buffer", None)
    if source is None or source.closed:
        raise AnabranchError("`-` is standard input, which is closed: pipe a file into it")
    if source.isatty():
        raise AnabranchError(
            "`-` is standard input, which is a terminal: pipe a file into it, as in "
            "`tcpdump -U -w - | anabranch explain -`"
        )
    with tempfile.TemporaryDirectory(prefix="anabranch-", ignore_cleanup_errors=True) as folder:
        kept = Path(folder, _FOLDER, _FILE)
        kept.parent.mkdir()
        with kept.open("wb") as out:
            try:
                # Not `read`, which waits for as many bytes as it is asked for.
                while part := source.read1(_AT_A_TIME):
                    out.write(part)
            except KeyboardInterrupt as interrupt:
                if isinstance(interrupt, Terminated):
                    raise
        if not kept.stat().st_size:
            raise AnabranchError("standard input is empty: nothing was piped into it")
        try:
            yield kept
        except AnabranchError as error:
            error.args = (str(error).replace(str(kept), "standard input"), *error.args[1:])
            raise


def shown(file: Path) -> str:
    """What names the file in a command: `-` for that of standard input."""
    return str(STANDARD if file.name == _FILE and file.parent.name == _FOLDER else file)
