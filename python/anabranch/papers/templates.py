"""Scenarios of reproduced papers to start from: the network as it is, with a small sweep."""

import tomllib
from importlib.resources import files

_NETWORKS = {"sctp-handover": ("network.toml", "experiment1.toml")}
"""The files of papers whose network is not `scenario.toml`."""

_SWEEP = "\n[sweep]\n"


def text(name: str) -> str:
    """The scenario of a paper: its files with their comments, and the sweep of `template.toml`.

    What `template.toml` has before the first comment, such as a name, comes first.
    """
    # Not `files` of the paper's own package, which would import all of it.
    folder = files(__package__).joinpath(name.replace("-", "_"))
    parts = [
        folder.joinpath(file).read_text("utf-8") for file in _NETWORKS.get(name, ("scenario.toml",))
    ]
    network = "\n".join(parts).partition(_SWEEP)[0]
    template = folder.joinpath("template.toml").read_text("utf-8")
    first, comment, rest = template.partition("#")
    # Comments of the paper's own sweep would stand above another one.
    lines = network.rstrip().splitlines()
    while lines and lines[-1].startswith("#"):
        lines.pop()
    kept = "\n".join(lines).rstrip()
    return f"{first}{kept}\n\n{comment}{rest}"


def described(name: str) -> str:
    """The description of a paper's scenario."""
    description: str = tomllib.loads(text(name))["description"]
    return description
