"""Anabranch: a laboratory for transport over several paths at once.

>>> import anabranch
>>> scenario = anabranch.load("scenarios/two-path-call.toml")
>>> result = anabranch.run(scenario, seed=1, trace=True)
>>> result.summary["call.mos"], result.traces["frames"]
"""

from anabranch._engine import RunError, Scenario, ScenarioError, __version__
from anabranch.errors import AnabranchError, StoreError
from anabranch.store import read
from anabranch.study import Result, Study, load, run

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
    "read",
    "run",
]
