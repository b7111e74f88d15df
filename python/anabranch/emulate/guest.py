"""One run of a study in the virtual kernel, from `scenario.toml` to `result.json`.

It imports next to nothing: there, where each system call and each new page is work for two
kernels, the command line's imports cost more than many a run.
"""

import json
import sys
import time
from pathlib import Path

from anabranch import _engine
from anabranch.errors import AnabranchError

_LOOK_EVERY = 0.1
"""Seconds; a run that is over ends by itself, so what it gives does not depend on this."""


def main(words: list[str]) -> int:
    """Runs it.

    The words are seed, replication, interval in ms, the program of ends on usrsctp, or `-`, and the
    traces that are kept.
    """
    seed, replication, interval_ms = map(int, words[:3])
    usrsctp = None if words[3] == "-" else words[3]
    tables = words[4:]
    try:
        scenario = _engine.Scenario.parse(Path("scenario.toml").read_text(encoding="utf-8"))
        setup = (0, seed, replication, bool(tables), interval_ms, None, usrsctp)
        bed = _engine.Testbed(scenario, *setup)
        while not bed.is_over():
            time.sleep(_LOOK_EVERY)
        found = bed.finish()
    except AnabranchError as error:
        print(error, file=sys.stderr)
        return 2
    kept = {name: found["traces"][name] for name in tables}
    result = {"summary": found["summary"], "traces": kept}
    Path("result.json").write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
