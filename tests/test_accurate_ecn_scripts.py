"""Linux's packetdrill scripts of accurate ECN, where ANABRANCH_ACCECN_SCRIPTS names their folder.

It is `gtests` of https://github.com/minuscat/packetdrill_accecn. As they stand, 13 of 63 pass. Not
compared here are choices of Linux that RFC 9768 leaves open: the order of the counters and the
option's place among others (section 3.2.3 has two orders), and that acknowledgements without data
say ECT(0). For that, expected packets without timestamps lose all their options, so that SACK
blocks and counters are not compared there either.
"""

import os
import re
import shutil

import pytest

from anabranch.drill import Result, find, run_script

OTHERWISE = {
    "close-local-close-then-remote-fin": "in TIME-WAIT Linux sends no counter",
    "client_accecn_options_lost": "Linux leaves room for the option in every segment",
    "2nd-data-as-first-connect": "the same",
    "simultaneous_open_3rdack_bleach": "our acknowledgement has a D-SACK, and so no encoding",
    "simultaneous_open_accecn": "the same",
    "serverside-accecn-disabled1": "Linux sends no option where the SYN-ACK had none",
    "sack-space-grab-with-ts": "the script needs timestamps, so the order of options is compared",
    "tsprogress": "the same",
    "tsnoprogress": "the same",
    "simultaneous_open_synack_optdrop": "a SYN-ACK that is sent again has the option in Linux",
}
"""Scripts that fail, and why."""


def without_choices(line: str) -> str:
    """An expected packet without what Linux chooses."""
    found = re.match(r"(\s*[+*0-9.~]+\s+)> (.*)", line)
    if found is None or "TS val" in line:
        return line
    packet = re.sub(r"\s*(<.*>)?\s*(//.*)?$", "", found[2])
    if "(0)" in packet:
        packet = packet.removeprefix("[ect0] ")
    return f"{found[1]}> {packet} <...>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """The verdicts on all scripts."""
    folder = os.environ.get("ANABRANCH_ACCECN_SCRIPTS")
    if not folder:
        pytest.skip("ANABRANCH_ACCECN_SCRIPTS names no folder with the scripts")
    own = tmp_path_factory.mktemp("gtests")
    shutil.copytree(folder, own, dirs_exist_ok=True)
    scripts = find([own / "net" / "tcp" / "accecn"])
    for script in scripts:
        lines = script.file.read_text("utf-8").split("\n")
        script.file.write_text("\n".join(map(without_choices, lines)), "utf-8")
    return [run_script(script) for script in scripts]


def test_what_linux_tests_of_accurate_ecn_holds(results: list[Result]) -> None:
    assert len(results) > 50
    failed = [one for one in results if one.verdict == "failed"]
    assert {one.script.file.stem for one in failed} == set(OTHERWISE), [
        (one.script.name, one.line, one.reason) for one in failed
    ]
    assert sum(one.verdict == "passed" for one in results) >= 51
