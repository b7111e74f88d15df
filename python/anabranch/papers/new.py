"""Begins a paper: a folder whose files say everything, and work at once."""

import re
from importlib.resources import files
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.support.files import write_atomically

from .description import FILE, PUBLISHED

SCENARIO = "scenario.toml"
OWN = Path(__file__).parent
"""The folder of the package's own papers."""
MODULE = '''\
"""{title}."""

from importlib.resources import files

from anabranch.papers.described import described

__all__ = ["PAPER"]

PAPER = described("{name}", files(__package__))
'''


def create(name: str, folder: Path) -> Path:
    """Writes the folder of a new paper; never over an existing one.

    Parameters
    ----------
    name
        As `anabranch reproduce` will name it: small letters, digits and `-`.
    folder
        Where the paper's folder goes. In the package's own there is a module too, so that the paper
        is found by its name.

    Returns
    -------
    The paper's folder.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise AnabranchError(f"`{name}` is not a name for a paper; use small letters, digits, `-`")
    is_own = folder.resolve() == OWN
    made = folder / (name.replace("-", "_") if is_own else name)
    try:
        made.mkdir(parents=True)
        for file in (FILE, SCENARIO, PUBLISHED):
            text = files(__package__).joinpath("template", file).read_text(encoding="utf-8")
            write_atomically(made / file, text.replace('"PAPER"', f'"{name}"').encode())
        if is_own:
            text = MODULE.format(title=name.replace("-", " ").capitalize(), name=name)
            write_atomically(made / "__init__.py", text.encode())
    except FileExistsError:
        raise AnabranchError(f"{made} exists already") from None
    except OSError as error:
        raise AnabranchError(f"cannot write {made}: {error.strerror or error}") from error
    return made
