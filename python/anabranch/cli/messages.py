"""Messages of the command line on standard error."""

from anabranch.support import terminal

USER_ERROR = 2


def complain(error: object) -> int:
    """Prints what went wrong in a line, or in one for each mistake; gives the exit code."""
    first, *rest = str(error).split("\n")
    if first.endswith(" mistakes"):
        say("\n".join(["error: " + first, *rest]))
    else:
        say("error: " + " ".join(str(error).split()))
    return USER_ERROR


def say(sentence: str) -> None:
    """Prints a sentence on standard error; does nothing if it is empty."""
    terminal.say_on_error(f"anabranch: {sentence}")
