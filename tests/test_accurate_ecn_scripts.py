"""Linux's packetdrill scripts of accurate ECN, where ANABRANCH_ACCECN_SCRIPTS names their folder.

It is `gtests` of https://github.com/minuscat/packetdrill_accecn, from which the kernel's own
selftests are made. They are run as they stand.
"""

import os
import shutil

import pytest

from anabranch.drill import Result, find, run_script

OTHERWISE = {
    "close-local-close-then-remote-fin": "in TIME-WAIT Linux sends no counter",
    "delivered-falseoverflow-detect": "a setting of the system changes an open connection",
    "client_accecn_options_lost": "the script's kernel has timers of 4 ms",
    "simultaneous_open_rfc3168": "the acknowledgement has a D-SACK of the SYN, as in Linux 6.18",
    "simultaneous_open_3rdack_bleach": "the same",
    "simultaneous_open_accecn": "the same",
}
"""Scripts that fail, and why."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """The verdicts on all scripts."""
    folder = os.environ.get("ANABRANCH_ACCECN_SCRIPTS")
    if not folder:
        pytest.skip("ANABRANCH_ACCECN_SCRIPTS names no folder with the scripts")
    own = tmp_path_factory.mktemp("gtests")
    shutil.copytree(folder, own, dirs_exist_ok=True)
    return [run_script(script) for script in find([own / "net" / "tcp" / "accecn"])]


def test_what_linux_tests_of_accurate_ecn_holds(results: list[Result]) -> None:
    assert len(results) > 50
    failed = [one for one in results if one.verdict == "failed"]
    assert {one.script.file.stem for one in failed} == set(OTHERWISE), [
        (one.script.name, one.line, one.reason) for one in failed
    ]
    assert sum(one.verdict == "passed" for one in results) >= 55
