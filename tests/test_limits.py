"""The limit of the tests' own commands."""

import signal
import subprocess
import sys
import time

import pytest

import conftest


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_the_limit_is_of_processor_time_not_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "CPU_S", 1)

    def run(program: str) -> int:
        return subprocess.run(
            conftest.limited([sys.executable, "-c", program]), check=False
        ).returncode

    begun = time.monotonic()
    assert run("import time; time.sleep(2)") == 0  # as on a machine that has others to serve
    assert time.monotonic() > begun + 2
    assert run("while True: pass") == -signal.SIGXCPU
