"""What a bench reads and writes besides its table, checked before the work starts."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.bench_cc import reports
from anabranch.bench_cc.checks import Baseline, Check
from anabranch.bench_cc.measures import Bench
from anabranch.support.files import check_different, check_file, check_folder, write_atomically


@dataclass(frozen=True)
class Files:
    """The folder of a bench, and the files that were asked for."""

    out: Path
    """For runs, figures and the page."""
    baseline: Path | None = None
    """The JSON file of an earlier bench."""
    junit: Path | None = None
    json: Path | None = None

    def check(self) -> None:
        """Raises where something cannot be written."""
        check_different(out=self.out, junit=self.junit, json=self.json)
        check_folder(self.out)
        for file in (self.junit, self.json):
            check_file(file, made=self.out)

    def compared(
        self, bench: Bench, profile: str, replications: int, cells: Collection[tuple[str, str]]
    ) -> Baseline | None:
        """The baseline, if there is one; raises where it has none of these cases and controls."""
        if self.baseline is None:
            return None
        baseline = Baseline(self.baseline, profile, replications, bench)
        baseline.check_cells(cells)
        return baseline

    def write(self, content: dict[str, Any], checks: Collection[Check], bench: Bench) -> list[Path]:
        """Writes the files that were asked for; gives their names."""
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        junit = reports.junit([*checks], bench)
        written = []
        for path, data in ((self.json, text.encode()), (self.junit, junit)):
            if path is not None:
                write_atomically(path, data)
                written.append(path)
        return written
