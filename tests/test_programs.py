"""Programs of `tools/` and `tests/` find their modules where they are run as their help says.

Those of `tests/interop` need what other implementations install.
"""

import re
import subprocess
import sys

from conftest import HANGS_S, ROOT

# What most of them import is imported once; each begins in a copy of this process.
_BEGIN = """
import os, runpy, sys
import matplotlib.figure, numpy, polars, scipy.stats
import anabranch

for program in sys.argv[1:]:
    if os.fork() == 0:
        try:
            sys.path[0] = os.path.dirname(program)
            runpy.run_path(program, run_name="begun")
        except BaseException as error:
            print(f"{program}: {error!r}", flush=True)
        os._exit(0)
    os.wait()
"""


def test_programs_find_their_modules() -> None:
    programs = [
        str(path.relative_to(ROOT))
        for folder in ("tools", "tests")
        for path in sorted((ROOT / folder).glob("*.py"))
        if re.search('^if __name__ == "__main__":$', path.read_text("utf-8"), re.MULTILINE)
    ]
    assert "tools/comparison_pages.py" in programs
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN, *programs],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout == "", done.stdout
