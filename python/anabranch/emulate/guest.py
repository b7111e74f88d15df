"""Runs of a study in the virtual kernel, each from a file of TOML to one of JSON.

It imports as little as possible: in the virtual kernel, where each system call and each new page is
work for two kernels, the command line's imports cost more than many a run.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch import _engine
from anabranch.errors import AnabranchError

_LOOK_EVERY = 0.1
"""Seconds; a finished run ends by itself, so results do not depend on this."""


def main(words: Sequence[str]) -> None:
    """Runs the runs that the command line names.

    `words` are the interval in ms, the program for SCTP ends on usrsctp (empty if they are not
    used), the traces to keep, and the runs' names, `CELL-REPLICATION`.
    """
    interval_ms, usrsctp, tables, *names = words
    for name in names:
        scenario = _engine.Scenario.parse(Path(f"{name}.toml").read_text(encoding="utf-8"))
        replication = int(name.partition("-")[2])
        kept = tables.split(",") if tables else []
        seed = scenario.seed
        setup = (0, seed, replication, bool(kept), int(interval_ms), None, usrsctp or None)
        found = _run(scenario, setup, kept)
        Path("part").write_text(json.dumps(found), encoding="utf-8")
        Path("part").rename(f"{name}.json")


def _run(
    scenario: _engine.Scenario,
    setup: tuple[int, int, int, bool, int, str | None, str | None],
    tables: Sequence[str],
) -> dict[str, Any]:
    try:
        bed = _engine.Testbed(scenario, *setup)
        while not bed.is_over():
            time.sleep(_LOOK_EVERY)
        found = bed.finish()
    except AnabranchError as error:
        return {"error": str(error), "summary": {}, "traces": {}}
    kept = {name: found["traces"][name] for name in tables}
    return {"error": None, "summary": found["summary"], "traces": kept}


if __name__ == "__main__":
    main(sys.argv[1:])
