"""The scenarios that come with the package, and new ones made from them."""

import keyword
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from anabranch.errors import AnabranchError, suggestion
from anabranch.support.files import write_atomically

_NONE: Mapping[str, Callable[[], str]] = MappingProxyType({})
_FOLDER = Path(__file__).parents[1] / "scenarios"
_PLUGINS = {
    name: Path(__file__).parents[1] / "plugins" / file
    for name, file in (("congestion_control", "starter.py"), ("media_control", "starter_media.py"))
}
"""Classes of Python to start from, by what they are."""


def scenarios() -> dict[str, Path]:
    """The scenarios of the package, by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}


def described() -> list[tuple[str, str]]:
    """Name and description of each scenario."""
    return [
        (name, tomllib.loads(path.read_text("utf-8")).get("description", ""))
        for name, path in scenarios().items()
    ]


def create(target: Path, template: str, others: Mapping[str, Callable[[], str]] = _NONE) -> Path:
    """Writes a copy of a template under a new name; an existing file is never overwritten.

    `others` are further templates, by name.

    Returns
    -------
    The path, with `.toml` added when it had no suffix.
    """
    known: dict[str, Callable[[], str]] = {
        **{name: partial(path.read_text, "utf-8") for name, path in scenarios().items()},
        **others,
    }
    if template not in known:
        hint = suggestion(template, known)
        raise AnabranchError(
            f"there is no template `{template}`{hint}; there are {', '.join(known)}"
        )
    if not re.fullmatch(r"[\w-][\w .-]*", target.name):
        raise AnabranchError(
            f"`{target}` is not a name for a scenario; use letters, digits, spaces, `-`, `_`"
            " and `.`"
        )
    path = target if target.suffix else target.with_suffix(".toml")
    text = known[template]()
    text, count = re.subn(r'(?m)^name = ".*"$', f'name = "{path.stem}"', text, count=1)
    if count != 1:
        raise AnabranchError(f"the template `{template}` has no name to replace")
    if path.exists():
        raise AnabranchError(f"{path} exists already: choose another name")
    write_atomically(path, text.encode())
    return path


def create_plugin(path: Path, template: str = "congestion_control") -> tuple[Path, str]:
    """Writes a class of Python to start from; gives its file and class."""
    if template not in _PLUGINS:
        raise AnabranchError(
            f"there is no class `{template}` to start from; there are {' and '.join(_PLUGINS)}"
        )
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem):
        raise AnabranchError(
            f"`{path}` is not a name for a module of Python; use letters, digits and `_`, with a"
            " letter first"
        )
    if path.exists():
        raise AnabranchError(f"{path} exists already: choose another name")
    made = "".join(part[:1].upper() + part[1:] for part in path.stem.split("_")) or "Mine"
    text = _PLUGINS[template].read_text("utf-8")
    text = text.replace("class Mine(", f"class {made}(").replace('"mine"', f'"{path.stem}"')
    write_atomically(path, text.encode())
    return path, made
