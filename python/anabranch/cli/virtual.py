"""Runs a command of the command line again in the virtual kernel."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch.virtual import Finished, run_in_kernel

from .messages import say


def again(
    command: str,
    options: Mapping[str, object],
    sets: Mapping[str, str],
    words: Sequence[str],
    *,
    files: Sequence[Path | None],
    folders: Sequence[Path | None] = (),
    seed: int,
    is_quiet: bool,
) -> Finished:
    """Runs `anabranch COMMAND` in the virtual kernel, with the output that it would have here.

    Parameters
    ----------
    command
        The command's name.
    options
        Options by name; those that are None or False are left out, and True is an option without a
        value.
    sets
        Values of `--set`.
    words
        The words after the options.
    files, folders
        Where the command writes besides the current folder; None for an output that is not wanted.
    seed
        The seed of the kernel's random numbers.
    is_quiet
        Whether `--quiet` is among the options.
    """
    flags = {**options, "--quiet": is_quiet}
    line = [name for name, value in flags.items() if value is True]
    line += [
        f"{name}={value}"
        for name, value in flags.items()
        if value is not None and not isinstance(value, bool)
    ]
    line += [f"--set={path}={value}" for path, value in sets.items()]
    places = [file.absolute().parent for file in files if file is not None]
    return run_in_kernel(
        [sys.executable, "-m", "anabranch", command, *line, "--", *words],
        writable=[*places, *(folder for folder in folders if folder is not None)],
        seed=seed,
        is_shown=True,
    )


def say_what_it_took(done: Finished) -> None:
    """Prints virtual time and CPU time on standard error."""
    say(f"{done.virtual_seconds:.1f} s of virtual time took {done.cpu_seconds:.1f} s of CPU")
