"""The imports within the package, and the modules that an import loads."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from conftest import ROOT

PACKAGE = ROOT / "python" / "anabranch"
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


@pytest.mark.skipif(not LINT_IMPORTS.exists(), reason="needs import-linter")
def test_arrows_between_folders_point_downwards() -> None:
    # Their order is in pyproject.toml.
    command = [str(LINT_IMPORTS), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_only_the_command_line_takes_names_from_the_package_itself() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if file.parent.name != "cli"]
    assert len(files) > 100
    found = {str(file.relative_to(PACKAGE)): names for file in files if (names := [*taken(file)])}
    assert found == {}


def taken(file: Path) -> Iterator[str]:
    """The modules that a file imports from the package outside of its own folders."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name == "anabranch")
        elif isinstance(node, ast.ImportFrom) and node.module == "anabranch":
            for name in node.names:
                if name.name != "_engine" and not list(PACKAGE.glob(f"{name.name}*")):
                    yield name.name


def test_the_package_shows_its_public_names() -> None:
    assert dir(anabranch) == sorted(anabranch.__all__)
    for name in anabranch.__all__:
        assert getattr(anabranch, name) is not None


def test_statistics_load_nothing_that_shows_them() -> None:
    program = """\
import sys
import anabranch.stats, anabranch.stats.comparison
print(sorted({"duckdb", "jinja2", "matplotlib", "rich", "scipy"} & set(sys.modules)))"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
