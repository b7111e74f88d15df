"""Signals that wait until what may not be cut in two is done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anabranch.errors import ENDING


class Interruption:
    """A first signal of those that end a command, which waits until it is delivered."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def is_heard(self) -> bool:
        """Whether a signal has come."""
        return self.number is not None

    def deliver(self) -> None:
        """Lets the signal take effect, if one has come."""
        if self.number is not None:
            signal.raise_signal(self.number)


@contextmanager
def interruptible(cancel: Callable[[], None] | None = None) -> Iterator[Interruption]:
    """Within this context, a first such signal calls `cancel` and waits to be delivered."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # only the main thread gets signals
        return
    before = {
        number: handler
        for number in ENDING.values()
        if (handler := signal.getsignal(number)) not in (None, signal.SIG_IGN)
    }

    def hear(number: int, _: object) -> None:
        interruption.number = number
        restore()  # a second signal takes effect at once
        if cancel is not None:
            cancel()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, hear)
    try:
        yield interruption
    finally:
        restore()
