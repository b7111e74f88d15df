"""What a control has to achieve: thresholds of the scenarios, and an earlier result."""

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anabranch.bench_cc.measures import CONTROLS, Bench, Cell, is_worse
from anabranch.bench_cc.scenarios import MOVES
from anabranch.errors import AnabranchError
from anabranch.stats import Interval
from anabranch.support.files import read_text

Verdict = Literal["passed", "failed", "known", "skipped"]
"""`known` is what a built-in control does not keep for a reason that is known."""


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    cell: Cell
    what: str
    verdict: Verdict
    message: str
    """What was found, and what was required."""


class Baseline:
    """The JSON file of an earlier bench."""

    def __init__(
        self, path: Path, profile: str, replications: int, bench: Bench = CONTROLS
    ) -> None:
        if replications < 2:
            raise AnabranchError("a comparison with a baseline needs at least 2 replications")
        try:
            content: dict[str, Any] = json.loads(read_text(path))
            self._cells = {
                (cell["case"], cell[bench.what]): {
                    name: Interval(_number(value["mean"]), _number(value["half_width"]), value["n"])
                    for name, value in cell["metrics"].items()
                }
                for cell in content["cells"]
            }
            own_profile, count = content["profile"], int(content["replications"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise AnabranchError(
                f"{path} is not a JSON file of `anabranch {bench.command}`"
            ) from error
        if own_profile != profile:
            raise AnabranchError(
                f"{path} is about the profile {own_profile}, this run about {profile}:"
                " choose that one"
            )
        if count < 2:
            raise AnabranchError(f"{path} has one replication, so no intervals to compare with")
        self._path = path

    def check_cells(self, cells: Collection[tuple[str, str]]) -> None:
        """Raises where the baseline lacks one of these cases and controls."""
        if self._cells.keys().isdisjoint(cells):
            known = dict.fromkeys(f"{control} in {case}" for case, control in self._cells)
            names = ", ".join(known) or "nothing"
            raise AnabranchError(f"{self._path} has none of what is compared; it has {names}")

    def checks(self, cell: Cell) -> Iterator[Check]:
        """Checks that no metric is worse than the baseline's by more than both intervals."""
        before = self._cells.get((cell.case, cell.control))
        for metric in cell.bench.metrics:
            now = cell.values[metric.name]
            if not metric.better or math.isnan(now.mean):
                continue
            what = f"{metric.name} is no worse than before"
            was = before.get(metric.name) if before else None
            if was is None or math.isnan(was.mean):
                yield Check(cell, what, "skipped", "not in the baseline")
                continue
            verdict: Verdict = "failed" if is_worse(metric, now, was) else "passed"
            yield Check(cell, what, verdict, f"{_text(now)}, was {_text(was)}")


def run(cells: Sequence[Cell], baseline: Baseline | None) -> list[Check]:
    """All checks, in the order of the cells."""
    checks = []
    for cell in cells:
        for keep in cell.scenario.keeps:
            value = cell.values[keep.metric]
            verdict: Verdict = "passed" if keep.holds(value.mean) else "failed"
            message = f"{_text(value)}, it has to be {keep}"
            reason = cell.scenario.known.get(cell.control)
            if verdict == "failed" and keep is not MOVES and reason is not None:
                verdict, message = "known", f"{message}: {reason}"
            checks.append(Check(cell, f"{keep.metric} is {keep}", verdict, message))
        if baseline is not None:
            checks += baseline.checks(cell)
    return checks


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _text(value: Interval) -> str:
    if math.isnan(value.half_width):
        return f"{value.mean:.4g}"
    return f"{value.mean:.4g} ± {value.half_width:.2g}"
