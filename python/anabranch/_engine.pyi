"""The compiled engine: everything that computes. Times in results are in the unit that their name ends with."""

from collections.abc import Sequence
from typing import Any, TypedDict, final, type_check_only

__all__ = [
    "RunError",
    "Scenario",
    "ScenarioError",
    "__version__",
    "codecs",
    "emodel",
    "models",
    "run",
    "run_batch",
    "schema",
]

__version__: str

class ScenarioError(ValueError):
    """A scenario that cannot be run: one sentence with the key, what was found and what is allowed."""

class RunError(RuntimeError):
    """A run that was stopped by one of its guards (events, wall time, memory)."""

@type_check_only
class Axis(TypedDict):
    name: str
    """The axis's name, which is its column's name in results."""
    labels: list[str]
    """The values as the scenario writes them."""
    values: list[float] | list[str] | list[bool]
    """The values as results have them: numbers in base units (s, bit/s, B, share) where all are quantities."""

@final
class Scenario:
    """A checked scenario, with its sweep if it has one."""

    @staticmethod
    def load(path: str, sets: Sequence[tuple[str, str]] = ...) -> Scenario:
        """Reads a TOML file and applies `--set path=value` pairs. Raises ScenarioError (also for a file that cannot be read)."""
    @staticmethod
    def parse(text: str, sets: Sequence[tuple[str, str]] = ..., folder: str = ...) -> Scenario:
        """The same for TOML text; `folder` is where relative file names in it start."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def replications(self) -> int:
        """Replications per cell that the sweep asks for; 1 without a sweep."""
    @property
    def axes(self) -> list[Axis]:
        """The sweep's axes; empty without a sweep."""
    @property
    def cell_count(self) -> int:
        """Cells of the sweep: the product of the axes; 1 without a sweep. The last axis varies fastest."""
    @property
    def hash(self) -> str:
        """16 hexadecimal digits that identify everything in the scenario that can change a result, the seed and the axes
        included, replications, names and descriptions excluded.
        """
    def cell_key(self, cell: int) -> dict[str, float | str | bool]:
        """The value of each axis in this cell."""
    def cell_toml(self, cell: int) -> str:
        """This cell as a scenario of its own, without a sweep."""
    def to_toml(self) -> str:
        """The scenario with every default filled in."""

@type_check_only
class Result(TypedDict):
    summary: dict[str, float]
    """Every scalar of the run: `call.mos`, `link.p0-middle.forward.mean_wait_ms`, ..."""
    traces: dict[str, dict[str, list[Any]]]
    """Table -> column -> values; empty unless asked for. Tables: `frames`, `packets`, `paths`, `queues`, `events`."""

def run(
    scenario: Scenario,
    cell: int = 0,
    seed: int | None = None,
    replication: int = 0,
    trace: bool = False,
) -> Result:
    """One run. Releases the GIL; hears Ctrl-C and other signals while it runs."""

def run_batch(
    scenario: Scenario, jobs: Sequence[tuple[int, int]], threads: int, seed: int | None = None
) -> dict[str, list[float]]:
    """Many runs, `jobs` being (cell, replication) pairs, on so many threads: column -> one value per job, in the order of the
    jobs. The first columns are `cell` and `replication`. Bytes equal for any number of threads. Releases the GIL; call it with
    batches of about a second so that progress can be shown, from another thread than the one that hears Ctrl-C.
    """

def schema() -> str:
    """The JSON Schema of scenario files."""

def models() -> dict[str, list[tuple[str, str]]]:
    """What can be chosen: category (`loss`, `queue`, `app`, ...) -> (kind, one line about it)."""

def emodel(terms: dict[str, float | str]) -> list[tuple[str, float | str, str]]:
    """The E-model, term by term: (name, value, what it is). Raises ScenarioError.

    `terms`: `form` (`g107`, `simplified` or `g107_1`), `codec` (name) or `ie` and `bpl`, `delay_ms`, `loss` (share),
    `burst_ratio`, and any parameter of G.107 by its name in the recommendation.
    """

def codecs() -> list[dict[str, float | str | None]]:
    """The codec table: name, kbit_per_s, frame_ms, ie, bpl, source."""
