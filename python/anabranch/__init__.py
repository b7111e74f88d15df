"""Anabranch: a laboratory for transport over several paths at once.

>>> import anabranch
>>> scenario = anabranch.load("scenarios/two-path-call.toml")
>>> result = anabranch.run(scenario, seed=1, trace=True)
>>> 1 <= result.summary["call.mos"] <= 4.5
True
>>> result.traces["frames"].columns[:6]
['flow', 'side', 'index', 'created_s', 'arrived_s', 'delay_ms']
"""

from importlib import import_module
from typing import TYPE_CHECKING

from anabranch._engine import RunError, Scenario, ScenarioError, __version__
from anabranch.errors import AnabranchError, StoreError
from anabranch.support.views import drawn_by

if TYPE_CHECKING:
    from anabranch import stats
    from anabranch.store import merge, read
    from anabranch.studies.result import Result, load, run
    from anabranch.studies.study import Study
else:
    # Polars takes longer to import than most commands take to run, so it is imported when needed.
    _LATE = {
        "Study": "studies.study",
        **dict.fromkeys(("Result", "load", "run"), "studies.result"),
        **dict.fromkeys(("merge", "read"), "store"),
    }

    def __getattr__(name: str) -> object:
        if name == "stats":
            return import_module("anabranch.stats")
        if name not in _LATE:
            raise AttributeError(f"module `anabranch` has no attribute `{name}`")
        return getattr(import_module(f"anabranch.{_LATE[name]}"), name)


drawn_by("anabranch.figures.notebook")

__all__ = [
    "AnabranchError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "StoreError",
    "Study",
    "__version__",
    "load",
    "merge",
    "read",
    "run",
    "stats",
]


def __dir__() -> list[str]:
    return __all__
