"""The lab: a page for playing with a network, which the engine computes in the browser.

It is made from `lab/` at the top of the sources; `make lab` puts it into `static` here.
"""

import base64
import tomllib
import zlib
from pathlib import Path

import anabranch._engine as engine
from anabranch import store
from anabranch.errors import AnabranchError
from anabranch.support.files import read_text, write_atomically

from .results import Results
from .server import TYPES, serving

__all__ = ["Results", "files", "fragment", "serving", "write_site"]

_STATIC = Path(__file__).parent / "static"


def files() -> dict[str, bytes]:
    """The files of the page, by name.

    Raises
    ------
    AnabranchError
        If the page has not been built.
    """
    found = sorted(_STATIC.iterdir()) if _STATIC.is_dir() else []
    page = {file.name: file.read_bytes() for file in found if file.suffix in TYPES}
    if not {"index.html", "engine.wasm"} <= page.keys():
        raise AnabranchError(
            "the page of the lab is not part of this installation; `make lab` builds it"
        )
    return page


def fragment(scenario: Path, cell: int | None = None) -> str:
    """What an address of the page ends with so that it opens this scenario.

    Files that the scenario includes become a part of it.

    Parameters
    ----------
    scenario
        A scenario file, or a study folder.
    cell
        Of its sweep: the scenario of this cell.

    Raises
    ------
    AnabranchError
        If it is none of both, or has no such cell.
    """
    is_study = scenario.is_dir()
    if is_study:
        checked = store.read_definition(scenario)
    else:
        checked = engine.Scenario.load(str(scenario), [])
    if cell is not None:
        if cell >= checked.cell_count:
            raise AnabranchError(
                f"--cell {cell}: the sweep of {scenario} has cells 0 to {checked.cell_count - 1}"
            )
        text = checked.cell_toml(cell)
    elif is_study or "include" in tomllib.loads(text := read_text(scenario)):
        text = checked.to_toml()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(text.encode()) + deflate.flush()
    return "#scenario=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def write_site(folder: Path) -> list[Path]:
    """Writes the page as a static site; returns its files."""
    page = files()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in page.items():
        write_atomically(folder / name, content)
    return [folder / name for name in page]
