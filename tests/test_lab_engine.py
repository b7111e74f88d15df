"""The engine as WebAssembly gives the same results as the native one, to the bit."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch import _engine
from conftest import ROOT

ENGINE = ROOT / "python/anabranch/lab/static/engine.wasm"
SCENARIOS = sorted(ROOT.glob("scenarios/*.toml"))
RANDOM = 200

WHOLE = "ANABRANCH_LAB_WHOLE" in os.environ
"""Whole runs and all of the random ones, as `make validate` wants them."""

pytestmark = [
    pytest.mark.skipif(not ENGINE.is_file(), reason="needs the engine as WebAssembly: make lab"),
    pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js"),
]

Sets = list[tuple[str, str]]


class Peer:
    """The engine as WebAssembly, in Node.js."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.cpu_s = 0.0

    def ask(self, **question: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.cpu_s += answer.pop("cpu_s")
        return answer


@contextmanager
def started() -> Iterator[Peer]:
    command = ["node", str(ROOT / "tests/wasm_peer.mjs"), str(ENGINE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        yield Peer(run)
        assert run.stdin is not None
        run.stdin.close()


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with started() as running:
        version = running.ask(ask="version")["version"]
        if version != _engine.ENGINE_VERSION:
            pytest.skip(
                f"the engine for pages is {version}, not {_engine.ENGINE_VERSION}: make lab"
            )
        yield running


def hashed(column: list[Any]) -> tuple[int, str]:
    """The length of a column and the hash of its bytes."""
    if column and isinstance(column[0], str):
        content = "".join(f"{value}\n" for value in column).encode()
    elif column and isinstance(column[0], bool):
        content = np.array(column, np.uint8).tobytes()
    elif column and isinstance(column[0], int):
        content = np.array(column, np.int64).tobytes()
    else:
        content = np.array(column, np.float64).tobytes()
    return len(column), hashlib.sha256(content).hexdigest()


def compare(peer: Peer, path: Path, sets: Sets, cell: int, replication: int) -> float:
    """Runs on both sides and compares; returns the native side's CPU time in seconds."""
    text = path.read_text("utf-8")
    scenario = _engine.Scenario.parse(text, sets)
    if not scenario.cell_count:
        # A design without points: its scenario without the sweep.
        text, sets = scenario.to_toml().partition("\n[sweep")[0], []
        scenario = _engine.Scenario.parse(text, sets)
    opened = peer.ask(ask="open", text=text, sets=sets)
    assert "error" not in opened, opened
    start = time.process_time()
    native = _engine.run(scenario, cell=cell, replication=replication, trace=True)
    took = time.process_time() - start
    tables = list(native["traces"])
    other = peer.ask(ask="run", cell=cell, replication=replication, tables=tables)
    assert "error" not in other, (path.name, sets, other)
    scalars = {
        name: None if np.isnan(value) else value for name, value in native["summary"].items()
    }
    assert other["scalars"] == scalars, (path.name, sets)
    assert list(other["tables"]) == tables
    for name, columns in native["traces"].items():
        seen = {column: tuple(found[1:]) for column, found in other["tables"][name].items()}
        assert seen == {column: hashed(values) for column, values in columns.items()}, (
            path.name,
            sets,
            name,
        )
    return took


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_gives_the_same_bytes(peer: Peer, path: Path) -> None:
    sets = [] if WHOLE else [("run.duration", "4 s"), ("run.warm_up", "0 s"), ("run.phases", "[]")]
    compare(peer, path, sets, 0, 0)


def random_case(case: int) -> tuple[Path, Sets, int, int]:
    """A scenario with links, seed and cell of its own."""
    draw = random.Random(case)
    path = draw.choice(SCENARIOS)
    sets: Sets = [
        ("run.duration", f"{draw.uniform(1, 12):.3f} s"),
        ("run.warm_up", "0 s"),
        ("run.phases", "[]"),
        ("seed", str(draw.randrange(1, 10**9))),
    ]
    scenario = _engine.Scenario.parse(path.read_text("utf-8"), sets)
    for name, link in tomllib.loads(scenario.to_toml())["links"].items():
        if "radio" in link:
            continue
        key = f"links.{name}"
        sets.append((f"{key}.delay", f"{10 ** draw.uniform(-4, -0.5):.6f} s"))
        sets.append((f"{key}.jitter", f"{draw.uniform(0, 20):.3f} ms"))
        if link["loss"]["kind"] == "none":
            share = draw.choice(["0.1 %", "1 %", "5 %"])
            sets.append((f"{key}.loss", f'{{ kind = "bernoulli", probability = "{share}" }}'))
    scenario = _engine.Scenario.parse(path.read_text("utf-8"), sets)
    return path, sets, draw.randrange(max(1, scenario.cell_count)), draw.randrange(1000)


def test_random_scenarios_give_the_same_bytes(peer: Peer) -> None:
    before, native = peer.cpu_s, 0.0
    for case in range(RANDOM if WHOLE else 20):
        native += compare(peer, *random_case(case))
    ratio = (peer.cpu_s - before) / native
    print(f"CPU time, opening included: {ratio:.2f} times the native engine's")


def test_a_mistake_is_the_same_sentence(peer: Peer) -> None:
    text = SCENARIOS[0].read_text("utf-8")
    for sets in ([("run.duration", "20 km")], [("links.nowhere.delay", "1 s")], [("seed", "-1")]):
        with pytest.raises(_engine.ScenarioError) as native:
            _engine.Scenario.parse(text, sets)
        assert peer.ask(ask="open", text=text, sets=sets) == {"error": str(native.value)}
