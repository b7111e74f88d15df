"""`anabranch merge`."""

from pathlib import Path

from anabranch.support import terminal

from .app import app


@app.command(
    help_epilogue="""\
Examples:
  anabranch merge results/rto machine-2/rto machine-3/rto
  anabranch merge all half-1 half-2"""
)
def merge(into: Path, /, *others: Path) -> None:
    """Copy the runs that other study folders have into one that lacks them.

    The others stay unchanged. A run that several folders have counts once. If
    the command was stopped, the same command continues.

    Parameters
    ----------
    into
        The study folder; a new one gets the definition of the first other.
    others
        Study folders with the same metrics, made by the same version.
    """
    from anabranch import store  # noqa: PLC0415 - slow to import

    runs = store.merge(into, others)
    terminal.say(f"{runs} runs are new in {into}")
