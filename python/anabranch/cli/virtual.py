"""Runs a command of ours again in the virtual kernel."""

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
    """Run `anabranch COMMAND`, shown as if it ran here.

    Parameters
    ----------
    command
        Its name.
    options
        By name; those that are None or False are left out, and True is an option without a value.
    sets
        Values of `--set`.
    words
        What comes behind the options.
    files, folders
        Where it writes, beside the current folder; None where it does not.
    seed
        Of the kernel's random numbers.
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
    """Virtual time and CPU, on standard error."""
    say(f"{done.virtual_seconds:.1f} s of virtual time took {done.cpu_seconds:.1f} s of CPU")
