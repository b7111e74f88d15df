"""The watchdog: a thread that interrupts calls of plug-ins that take too long.

The engine says which calls are in progress (`_engine.plugin_calls`). A call that is seen for longer
than it may take is interrupted by an exception in its thread. Python raises that between two of its
instructions, so that a call which waits within a function of C, such as `time.sleep`, goes on until
that returns.
"""

import ctypes
import os
import threading
import time
from collections.abc import Collection
from functools import partial

from anabranch import _engine

_LONGEST_PAUSE_S = 0.25
_SHORTEST_PAUSE_S = 0.005

_lock = threading.Lock()
_is_running = False


class HookTimeoutError(BaseException):
    """Raised within a hook that takes too long; not an `Exception`, which a hook may catch."""


def start() -> None:
    """Starts the watchdog unless it is at work. It ends once there are no objects of plug-ins."""
    global _is_running  # noqa: PLW0603 - one watchdog for the process
    with _lock:
        if not _is_running:
            _is_running = True
            threading.Thread(target=_watch, name="anabranch-watchdog", daemon=True).start()


def _begin_anew() -> None:
    """In a process that fork has made: the thread of its parent is not in it."""
    global _lock, _is_running  # noqa: PLW0603 - one watchdog for the process
    _lock = threading.Lock()
    # Objects of the parent's runs are there, too, and may be used.
    _is_running = False
    if _engine.plugin_calls() is not None:
        start()


os.register_at_fork(after_in_child=_begin_anew)


def interrupt(threads: Collection[int]) -> None:
    """Interrupts the calls in progress in threads of these numbers; their runs are given up."""
    for thread, call, _ in _engine.plugin_calls() or ():
        if thread in threads:
            _interrupt(thread, call)


def take_back(thread: int) -> None:
    """Takes back an exception that has not reached its thread, which calls this, yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)


def _watch() -> None:
    global _is_running  # noqa: PLW0603 - one watchdog for the process
    since: dict[int, float] = {}
    pause = _SHORTEST_PAUSE_S
    while True:
        time.sleep(pause)
        with _lock:
            calls = _engine.plugin_calls()
            if calls is None:
                _is_running = False
                return
        now = time.monotonic()
        since = {call: since.get(call, now) for _, call, _ in calls}
        for thread, call, limit in calls:
            if now - since[call] >= limit:
                _interrupt(thread, call)
        pause = min([_LONGEST_PAUSE_S, *(limit / 4 for _, _, limit in calls)])
        pause = max(pause, _SHORTEST_PAUSE_S)


def _interrupt(thread: int, call: int) -> None:
    # The engine looks whether the call is still in progress and has the exception raised in one
    # step, in which no other thread gets Python's lock: none is left behind for what comes later.
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    exception = ctypes.py_object(HookTimeoutError)
    _engine.plugin_interrupt(call, partial(raise_in, ctypes.c_ulong(thread), exception))
