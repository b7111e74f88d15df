"""What `anabranch` hands on: each name is explained, has an example that runs, and has types.

Examples run in a folder with the scenarios of the library; `np`, `pl` and `stats` are there.
"""

import ast
import doctest
import inspect
import re
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import anabranch
from anabranch import (
    advise,
    bench_cc,
    bench_rtc,
    compare,
    drill,
    emulate,
    explain,
    lab,
    plugins,
    profile,
    sctp,
    stats,
    virtual,
)
from anabranch.emulate import testbed
from anabranch.profile import traces
from conftest import ROOT, no_emulation, no_kernel

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (anabranch, stats)
    for name in module.__all__
}

NO_EXAMPLE = {
    "anabranch.__version__": "a text",
    "anabranch.stats": "a module: what it hands on is in PUBLIC",
    "anabranch.stats.Estimator": "a type, of which `bca`, `quantile` and `share` are examples",
    "anabranch.stats.RESAMPLES": "a number",
    "anabranch.stats.SEED": "a number",
}
"""Names without an example of their own, each with the reason."""

RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def examples(name: str, thing: object) -> list[doctest.DocTest]:
    """The examples of `thing` and of its methods."""
    names = {"anabranch": anabranch, "np": np, "pl": pl, "stats": stats}
    found = doctest.DocTestFinder().find(thing, name, module=False, globs=names)
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in NO_EXAMPLE])
@pytest.mark.usefixtures("folder")
def test_a_name_has_examples_that_run(name: str) -> None:
    tests = examples(name, PUBLIC[name])
    assert any(test.name == name for test in tests), f"{name} has no example of its own"
    for test in tests:
        assert_runs(test)


ENTRIES = (
    advise.advise,
    compare.compare,
    drill.run_script,
    explain.explain,
    profile.measure,
    traces.import_trace,
)
"""What the other folders of the package are entered by. Their folders are no part of `anabranch`'s
own names, and their objects come from these functions. `plugins` has tests/test_plugins.py.
"""


def assert_runs(test: doctest.DocTest) -> None:
    """Runs an example, which shows some output."""
    assert any(each.want for each in test.examples), f"the example of {test.name} shows no output"
    said: list[str] = []
    failed = doctest.DocTestRunner(optionflags=RULES).run(test, out=said.append).failed
    assert not failed, "".join(said)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__module__)
@pytest.mark.usefixtures("folder")
def test_the_example_of_an_entry_runs(entry: object) -> None:
    (test,) = examples("entry", entry)
    assert_runs(test)


SYSTEMS = {
    "emulate": (emulate, no_emulation),
    "testbed": (testbed.run, no_emulation),
    "virtual": (virtual, no_kernel),
    "sctp": (sctp, lambda: None),
}
"""What is entered by objects of a system: where the example is, and what a machine may lack."""


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.usefixtures("folder")
def test_the_example_of_what_needs_a_system_runs(name: str) -> None:
    thing, lacks = SYSTEMS[name]
    if (reason := lacks()) is not None:
        pytest.skip(f"left out: {reason}")
    (test,) = [each for each in examples(name, thing) if each.name == name]
    # Tests of pages leave an event loop in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(assert_runs, test).result()


FOLDERS = (
    advise,
    bench_cc,
    bench_rtc,
    compare,
    drill,
    emulate,
    lab,
    plugins,
    profile,
    sctp,
    traces,
    virtual,
)


@pytest.mark.parametrize("module", FOLDERS, ids=lambda module: module.__name__)
def test_every_name_of_a_folder_is_explained_and_typed(module: types.ModuleType) -> None:
    for name in module.__all__:
        thing = getattr(module, name)
        if not callable(thing) or getattr(thing, "__module__", "") == "anabranch._engine":
            continue  # a number, a table, a type; or explained in `_engine.pyi`
        assert inspect.getdoc(thing), f"{module.__name__}.{name} has no text"
        for member, value in members(thing).items():
            if inspect.isfunction(value):
                assert inspect.getdoc(value), f"{name}{member} has no text"
                named = {each for each in inspect.signature(value).parameters if each != "self"}
                assert set(value.__annotations__) >= {*named, "return"}, f"{name}{member}"


@pytest.mark.usefixtures("folder")
def test_the_example_of_the_package_runs() -> None:
    (test,) = examples("anabranch", types.ModuleType("anabranch", anabranch.__doc__))
    assert_runs(test)


def test_names_without_an_example_are_still_there() -> None:
    assert set(NO_EXAMPLE) <= set(PUBLIC)


def members(thing: object) -> dict[str, Any]:
    """A function, or the public methods and properties of a class that it defines itself."""
    if not isinstance(thing, type):
        return {"": thing}
    return {
        f".{name}": value
        for name, value in vars(thing).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }


# mypy.stubtest compares `_engine.pyi`, which explains all of `Scenario`.
EXPLAINED = [
    name
    for name, thing in PUBLIC.items()
    if callable(thing) and thing is not anabranch.Scenario and name not in NO_EXAMPLE
]


@pytest.mark.parametrize("name", EXPLAINED)
def test_every_function_and_method_is_explained(name: str) -> None:
    for member, value in members(PUBLIC[name]).items():
        assert inspect.getdoc(value), f"{name}{member} has no text"
        if inspect.isfunction(value):
            sections = inspect.getdoc(value) or ""
            named = [each for each in inspect.signature(value).parameters if each != "self"]
            assert set(value.__annotations__) >= {*named, "return"}, f"{name}{member}"
            if len(named) > 3:  # fewer are explained by the text
                missing = [
                    each
                    for each in named
                    if not re.search(rf"^({each}|.*, {each}|{each}, .*)\n    ", sections, re.M)
                ]
                assert not missing, f"{name}{member} does not explain {missing}"


USER = ROOT / "tests" / "user_project.py"


def test_a_program_that_uses_every_name_passes_mypy(tmp_path: Path) -> None:
    used = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(USER.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    used |= {f"anabranch.{name}" for name in used} | {"anabranch.stats"}
    assert set(PUBLIC) <= used, "tests/user_project.py does not use all of it"
    (tmp_path / "project.py").write_text(USER.read_text("utf-8"), "utf-8")
    # What mypy has read of other packages is kept: it takes half a minute.
    cache = ROOT / ".mypy_cache" / "user"
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "project.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_program_of_a_user_runs(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, USER], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(anabranch.__version__)
