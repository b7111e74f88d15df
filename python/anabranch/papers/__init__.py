"""Reproduced papers, one package each: scenario, published numbers, claims, figures and page."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from .reproduction import Paper


def names() -> list[str]:
    """The papers that can be reproduced, as the command line names them."""
    modules = Path(__file__).parent.glob("*/__init__.py")
    return sorted(path.parent.name.replace("_", "-") for path in modules)


def load(name: str) -> "Paper[Any, Any]":
    """The paper of this name, or the one described in the folder of this path.

    Imported only when it is asked for: it takes a while.
    """
    if name not in names():
        folder = Path(name)
        if folder.is_dir():
            from .described import described  # noqa: PLC0415 - slow to import

            return described(folder.resolve().name, folder)
        raise AnabranchError(
            f"there is no paper `{name}`; known: {', '.join(names())}, or the path of a folder"
        )
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    paper: Paper[Any, Any] = module.PAPER
    return paper
