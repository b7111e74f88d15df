"""Messages of the command line on standard error."""

import sys
from contextlib import suppress

from anabranch.support.wording import harmless

USER_ERROR = 2


def complain(error: object) -> int:
    """Prints what went wrong in one line; gives the exit code."""
    say("error: " + " ".join(str(error).split()))
    return USER_ERROR


def say(sentence: str) -> None:
    """Prints a sentence on standard error; does nothing if it is empty."""
    # Where standard error is closed or full, the exit code still tells of the error.
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"anabranch: {harmless(sentence)}", file=sys.stderr, flush=True)
