"""Reproduced papers, one package each: scenario, published numbers, claims, figures and page."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from .reproduction import Paper


def names() -> list[str]:
    """The papers that can be reproduced, as the command line names them."""
    found = Path(__file__).parent.glob("*/__init__.py")
    return sorted(path.parent.name.replace("_", "-") for path in found)


def load(name: str) -> "Paper[Any, Any]":
    """The paper of this name; its package is slow to import."""
    if name not in names():
        raise AnabranchError(f"there is no paper `{name}`; known: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    paper: Paper[Any, Any] = module.PAPER
    return paper
