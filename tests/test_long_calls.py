"""Calls of the engine that large input makes long heed signals."""

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from anabranch import _engine
from anabranch.errors import ScenarioError
from conftest import COMMAND, HANGS_S, limited
from support.processes import until_it_has_worked, until_it_hears

NETWORK = """
links.wan = { ends = ["x", "y"], rate = "1 Mbit/s" }
paths.p.via = ["wan"]
flows.f = { from = "x", to = "y", paths = ["p"], transport.kind = "tcp", app.kind = "bulk" }
"""


def axis(path: str, values: range, unit: str = "") -> str:
    listed = ", ".join(f'"{value}{unit}"' if unit else str(value) for value in values)
    return f'sweep.axes.{path.rpartition(".")[2]} = {{ set = "{path}", values = [{listed}] }}\n'


LONG_TEXT = f"a = [{'1,' * 1_500_000}]\n"
MANY_FLOWS = NETWORK + axis("flows.f.count", range(2000, 2300))
MANY_CONDITIONS = (
    f"{NETWORK}sweep.where = ['delay * 1000 < rate', 'delay > rate']\n"
    + axis("links.wan.delay", range(2000), " us")
    + axis("links.wan.rate", range(1, 1001), " kbit/s")
)
MANY_CELLS = NETWORK + axis("links.wan.delay", range(20_000), " us")
MANY_LINKS = NETWORK + "".join(
    f'links.l{number} = {{ ends = ["x", "y"], rate = "1 Mbit/s" }}\n' for number in range(15_000)
)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda: lambda: _engine.toml_tree(LONG_TEXT),
        lambda: lambda: _engine.Scenario.parse(LONG_TEXT + NETWORK),
        lambda: lambda: _engine.Scenario.parse(MANY_FLOWS),
        lambda: lambda: _engine.Scenario.parse(MANY_CONDITIONS),
        lambda: _engine.Scenario.parse(MANY_CELLS).cell_hashes,
        lambda: _engine.Scenario.parse(MANY_LINKS).to_toml,
    ],
    ids=["text", "scenario", "flows", "conditions", "cells", "links"],
)
def test_a_signal_ends_a_long_call(prepare: Callable[[], Callable[[], object]]) -> None:
    class Heard(BaseException):
        pass

    def hear(*_: object) -> None:
        raise Heard

    # All in processor time of this process: what else the machine does counts for nothing.
    call = prepare()
    began = time.process_time()
    with suppress(ScenarioError):
        call()
    whole = time.process_time() - began
    before = signal.signal(signal.SIGPROF, hear)
    try:
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, whole / 10)
        with pytest.raises(Heard):
            call()
        # The handler runs at the end of a call that does not heed signals.
        assert time.process_time() - began < 0.6 * whole + 0.2
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_validate_ends_at_a_signal(tmp_path: Path, number: int, code: int) -> None:
    file = tmp_path / "large.toml"
    # Minutes of work.
    file.write_text(NETWORK + axis("flows.f.count", range(30_000, 32_000)))
    with subprocess.Popen(
        # One that does not heed the signal has no time for all of the work.
        limited([*COMMAND, "validate", str(file)]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            until_it_hears(process)
            until_it_has_worked(process, 0.3)
            process.send_signal(number)
            output, errors = process.communicate(timeout=HANGS_S)
        finally:
            process.kill()
    assert (process.returncode, output, errors) == (code, "", "anabranch: stopped\n")
