"""The command line: it turns arguments into calls of the package, and results into tables.

Nothing is computed here. Each command has a module; `app.py` has what they share.
"""

import _thread
import io
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cyclopts import CycloptsError, UnusedCliTokensError

from anabranch.errors import ENDING, AnabranchError, HungUp, TemplateError, shortened

from . import (  # noqa: F401 - each adds its command
    advise,
    bench_cc,
    bench_quic,
    bench_rtc,
    compare,
    drill,
    emodel,
    emulate,
    explain,
    lab,
    list_,
    methods,
    new,
    plot,
    profile,
    query,
    quic,
    report,
    reproduce,
    run,
    sctp,
    sweep,
    testbed,
    trace,
    validate,
)
from .app import app
from .messages import USER_ERROR, complain, say

NARROWEST = 20
"""The fewest characters of a line that tables and help are laid out for."""

RENAMED = {
    "array": "sweep SCENARIO --out DIR --array TASKS",
    "difference": "compare DIR --a AXIS=VALUE --b AXIS=VALUE --metric NAME",
    "merge": "sweep SCENARIO --out DIR --merge OTHER",
    "schema": "list schema",
}
"""Commands that there were, and what does their work."""

__all__ = ["USER_ERROR", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    The exit code: 0, 1 if a check of bench-cc or a script of drill failed, 2 for a user's mistake,
    130 after Ctrl-C, 143 after SIGTERM, 129 when the terminal was closed.
    """
    columns = shutil.get_terminal_size().columns
    if columns < NARROWEST or os.environ.get("COLUMNS") == "0":
        # Rich hangs on very narrow terminals, and takes 0, which means "unknown", literally.
        os.environ["COLUMNS"] = str(max(columns, NARROWEST))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Where the locale has no dash or ±, a question mark in its place is better than no result.
        sys.stdout.reconfigure(errors="replace")
    # The `try` includes setting the handlers: a signal may come as soon as the first one is set.
    try:
        with _signals():
            return _run(arguments)
    except KeyboardInterrupt as interrupt:
        say(f"stopped{f': {interrupt}' if interrupt.args else ''}")
        # Shells use 128 plus the number of the signal.
        return 128 + ENDING.get(type(interrupt), signal.SIGINT)


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if "" in words:
            # An empty word as a file name would mean the current folder.
            before = ["anabranch", *words][words.index("")]
            raise AnabranchError(f"an argument is empty: the one after `{shortened(before)}`")
        if words[:1] and (now := RENAMED.get(words[0])) is not None:
            raise AnabranchError(f"`{words[0]}` is `anabranch {now}` now")
        code = app.meta(
            words,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        usage = shortened(_usage(error))
        if words[0] == "emulate" and "--" not in words:
            usage = emulate.misplaced(words[1:]) or usage
        return complain(usage)
    except TemplateError as error:
        name = error.template
        return complain(f"{error}: `anabranch new {name} --template {name}` writes it")
    except AnabranchError as error:
        return complain(error)
    except BrokenPipeError:
        # The reader has gone; without this, Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, UnicodeError) as error:
        if isinstance(error.__context__, HungUp):
            # It was to be printed on the terminal that was closed.
            raise error.__context__ from None
        return complain(_sentence(error))
    return code if isinstance(code, int) else 0


@contextmanager
def _signals() -> Iterator[None]:
    """Within this context these signals raise exceptions, unless the caller ignores them.

    Python drops an exception that is raised where nothing can handle it, such as in a callback at
    the end of an import: the signal is then given again.
    """
    raised = {number: kind for kind, number in ENDING.items()}

    def hear(number: int, _: object) -> None:
        raise raised[signal.Signals(number)]

    def dropped(what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type not in ENDING:
            hook(what)
            return
        again = threading.Timer(0.01, _send_to_main_thread, [ENDING[what.exc_type]])
        again.daemon = True
        again.start()

    hook = sys.unraisablehook
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        sys.unraisablehook = dropped
        before = {
            number: signal.signal(number, hear)
            for number in raised
            if signal.getsignal(number) != signal.SIG_IGN
        }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if sys.unraisablehook is dropped:
            sys.unraisablehook = hook


def _send_to_main_thread(number: signal.Signals) -> None:
    if hasattr(signal, "pthread_kill"):
        # This also ends a call that waits, which `interrupt_main` does not.
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(number)


def _usage(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"`{error.unused_tokens[0]}` is one argument too many"
    error.verbose = False
    return str(error)


def _sentence(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError):
        return "an argument or a name is not valid UTF-8"
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror or error}"
