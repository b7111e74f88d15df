"""The command `anabranch`, also `python -m anabranch`."""

import contextlib
import os
import signal
import sys

from anabranch.errors import ENDING


def main() -> int:
    """Run the command line (see `anabranch.cli.main`).

    During its imports, Ctrl-C ends it quietly.
    """
    for number in ENDING.values():
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    from anabranch import cli  # noqa: PLC0415 - the signals come first

    code = cli.main()
    if code > cli.USER_ERROR:
        _leave(code)
    return code


def _leave(code: int) -> None:
    # With `python -m`, a process that met a signal within an `exec` of text ends by that signal,
    # whatever it returns (CPython: `unhandled_keyboard_interrupt`).
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    os._exit(code)


def _stop(number: int, _: object) -> None:
    # An exception would not do: one raised during an import may come out as another.
    os.write(2, b"anabranch: stopped\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
