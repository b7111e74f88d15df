"""What the command line says on standard error."""

import sys
from contextlib import suppress

USER_ERROR = 2


def complain(error: object) -> int:
    """Says what went wrong, in one line; gives the exit code."""
    say("error: " + " ".join(str(error).split()))
    return USER_ERROR


def say(sentence: str) -> None:
    """Prints a sentence on standard error, if there is one."""
    # The exit code says it, too, where standard error is closed or full.
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"anabranch: {sentence}", file=sys.stderr, flush=True)
