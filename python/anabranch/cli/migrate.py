"""`anabranch migrate`."""

from pathlib import Path

from anabranch.support import terminal

from .app import app


@app.command(
    help_epilogue="""\
Examples:
  anabranch migrate results/rto
  anabranch migrate results/*"""
)
def migrate(folder: Path, /, *folders: Path) -> None:
    """Bring study folders that an older anabranch has written up to date.

    Nothing is computed, and rows keep every bit. If the command was stopped,
    the same command continues.

    Parameters
    ----------
    folder
        A study folder.
    folders
        Further study folders.
    """
    from anabranch import store  # noqa: PLC0415 - slow to import

    for each in (folder, *folders):
        if store.migrate(each):
            terminal.say(f"{each} has schema version {store.SCHEMA_VERSION} now")
        else:
            terminal.say(f"{each} is up to date")
