"""The distribution: its files, its extras, and how to cite it."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

import anabranch
from conftest import ROOT


def project() -> dict[str, Any]:
    """The metadata of pyproject.toml."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    metadata: dict[str, Any] = content["project"]
    return metadata


def test_the_citation_is_of_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"(?m)^version: (.*)$", citation) == [anabranch.__version__]
    licences = re.findall(r"(?m)^  - (MIT|Apache-2\.0)$", citation)
    assert " OR ".join(licences) == project()["license"]


def test_the_package_has_the_citation() -> None:
    package = Path(anabranch.__file__).parent
    assert (package / "CITATION.cff").read_text("utf-8") == (ROOT / "CITATION.cff").read_text(
        "utf-8"
    )


def test_the_extra_all_has_every_extra() -> None:
    extras = project()["optional-dependencies"]
    (everything,) = extras.pop("all")
    names = ",".join(sorted(extras))
    assert everything == f"anabranch[{names}]"
    assert f"--extras {names} " in (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.skipif(
    importlib.util.find_spec("maturin") is None or shutil.which("cargo") is None,
    reason="needs maturin and cargo",
)
def test_a_distribution_has_every_file_of_the_package(tmp_path: Path) -> None:
    # The wheel follows the same rules, and is built from this one (`make wheel`).
    command = [sys.executable, "-m", "maturin", "sdist", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
        top = f"anabranch-{anabranch.__version__}/"
        packed = {name.removeprefix(top) for name in files.getnames()}
        assert files.getmember(top + "python/anabranch/scenarios/two-path-call.toml").isfile()
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "python", "crates"]
    kept = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    missing = {
        name
        for name in kept.splitlines()
        # Behind the link are the scenarios, as files; see above.
        if (ROOT / name).is_file() and name not in packed
    }
    assert missing == set()
    scenarios = {
        f"python/anabranch/scenarios/{file.name}" for file in ROOT.glob("scenarios/*.toml")
    }
    strays = {name for name in packed if name.startswith("python/")} - set(kept.splitlines())
    # The results of `make lab`, if it was run.
    static = ROOT.glob("python/anabranch/lab/static/*")
    page = {file.relative_to(ROOT).as_posix() for file in static}
    assert strays == scenarios | page
    # Its Cargo.lock is that of its crates; it can be built by no other.
    manifest = tmp_path / top / "crates/anabranch-py/Cargo.toml"
    read = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    subprocess.run([*read, "--manifest-path", manifest], check=True, stdout=subprocess.DEVNULL)
