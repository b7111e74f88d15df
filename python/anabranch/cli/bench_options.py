"""The options that `anabranch bench-cc` and other benches share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from anabranch.errors import AnabranchError

from .app import Flag, Whole

if TYPE_CHECKING:
    from anabranch.bench_cc.files import Files

_REPLICATIONS, _QUICK_REPLICATIONS = 10, 3


@Parameter(name="*")
@dataclass(frozen=True)
class Benching:
    """Options of all benches."""

    scenario: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    """Only run this scenario; may be given several times."""
    quick: Annotated[bool, Flag] = False
    """3 replications instead of 10."""
    replications: Whole | None = None
    """Runs of each cell."""
    jobs: Whole | None = None
    """Threads of the simulations; all cores if not given. Never changes a result."""
    baseline: Path | None = None
    """An earlier --json file: no metric may be worse by more than both 95 % intervals and 1 %."""
    junit: Path | None = None
    """Write the checks to this file, as JUnit XML."""
    json_file: Annotated[Path | None, Parameter(name="--json")] = None
    """Write every mean with its interval, and the checks, to this file."""

    def count(self) -> int:
        """How many runs each cell has."""
        if self.quick and self.replications is not None:
            raise AnabranchError("--quick and --replications exclude each other")
        if self.replications is not None:
            return self.replications
        return _QUICK_REPLICATIONS if self.quick else _REPLICATIONS

    def files(self, out: Path) -> "Files":
        """What is read and written, with this folder."""
        from anabranch.bench_cc.files import Files

        return Files(out, self.baseline, self.junit, self.json_file)
