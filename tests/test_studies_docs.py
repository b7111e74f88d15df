"""docs/studies.md: its commands and its Python work as described."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import anabranch
from conftest import ROOT


def test_the_examples_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in blocks} == {"sh", "python"}
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    # `anabranch` is the one under test.
    shell = f'set -e\nanabranch() {{ "{sys.executable}" -m anabranch "$@"; }}\n'
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for kind, code in blocks:
        if kind == "sh":
            command = ["bash", "-c", shell + code]
            result = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert result.returncode == 0, result.stderr
        else:
            with contextlib.chdir(tmp_path):
                exec(code, {})
    assert anabranch.read(tmp_path / "results" / "rto").height == 3 * 4 * 8
    assert anabranch.read(tmp_path / "results" / "whole").height == 9 * 20
