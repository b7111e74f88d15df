"""Messages of the command line on standard error."""

from anabranch.support import terminal

USER_ERROR = 2


def complain(error: object) -> int:
    """Prints what went wrong in one line; gives the exit code."""
    say("error: " + " ".join(str(error).split()))
    return USER_ERROR


def say(sentence: str) -> None:
    """Prints a sentence on standard error; does nothing if it is empty."""
    terminal.say_on_error(f"anabranch: {sentence}")
