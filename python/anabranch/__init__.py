"""Anabranch: a laboratory for transport over several paths at once.

>>> import anabranch
>>> scenario = anabranch.load("scenarios/two-path-call.toml")
>>> result = anabranch.run(scenario, seed=1, trace=True)
>>> result.summary["call.mos"], result.traces["frames"]
"""

from importlib import import_module
from typing import TYPE_CHECKING

from anabranch._engine import RunError, Scenario, ScenarioError, __version__
from anabranch.errors import AnabranchError, StoreError

if TYPE_CHECKING:
    from anabranch.store import merge, migrate, read
    from anabranch.study import Result, Study, load, run
else:
    # Polars takes longer to import than most commands to run: not before somebody needs it.
    _LATE = dict.fromkeys(("Result", "Study", "load", "run"), "study") | dict.fromkeys(
        ("merge", "migrate", "read"), "store"
    )

    def __getattr__(name: str) -> object:
        if name not in _LATE:
            raise AttributeError(f"module `anabranch` has no attribute `{name}`")
        return getattr(import_module(f"anabranch.{_LATE[name]}"), name)


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
    "migrate",
    "read",
    "run",
]
