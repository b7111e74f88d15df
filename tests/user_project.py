"""A program of a user, with every name that `anabranch` hands on; tests/test_reference.py runs it
and has mypy check it as users do, with `--strict` and no other setting.
"""

from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

import anabranch
from anabranch import stats

CALL = Path("scenarios/two-path-call.toml")
SWEEP = Path("scenarios/rto-sweep.toml")


def one_run() -> float:
    scenario: anabranch.Scenario = anabranch.load(CALL, {"flows.call.transport.rto_max": "0.1 s"})
    result: anabranch.Result = anabranch.run(scenario, seed=2, trace=True)
    summary: dict[str, float] = result.summary
    frames: pl.DataFrame = result.traces["frames"]
    return summary["call.mos"] + frames.height


def one_study() -> pl.DataFrame:
    for share in (1, 2):
        study: anabranch.Study = anabranch.Study(SWEEP, f"shares/{share}", replications=2)
        study.run(progress=False, shard=(share, 2))
    new: int = anabranch.merge("all", ["shares/1", "shares/2"])
    print(new, study.compare({"pmr": 0}, {"pmr": 1}, "call.mos").sentence)
    return anabranch.read("all", columns=["call.mos"])


def estimated(rows: pl.DataFrame) -> None:
    stats.check_level(0.9)
    interval: stats.Interval = stats.mean_interval(rows["call.mos"].to_list(), 0.9)
    ninth: stats.Estimator = partial(stats.quantile, probability=0.9)
    print(interval.text(), stats.cells(rows, ["rto_max"], "call.mos"))
    for estimator in (ninth, stats.bca):
        print(stats.estimates(rows, ["pmr"], "call.mos", estimator))
    print(stats.paired(rows, "pmr", 0.0, "call.mos", by=["rto_max"]))
    print(stats.per_replication(rows, ["pmr"], "call.mos"))
    samples: np.ndarray = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    print(stats.share(samples), stats.p_values(samples), stats.are_equal(samples))
    print(stats.RESAMPLES, stats.SEED, stats.batch(len(samples)))


def refused() -> list[str]:
    sentences = []
    for text in ("", 'name = "a"\nseed = -1\n'):
        try:
            anabranch.run(anabranch.load(text), set={"seed": 1})
        except anabranch.ScenarioError as error:
            sentences.append(str(error))
        except (anabranch.RunError, anabranch.StoreError):
            raise
        except anabranch.AnabranchError as error:
            sentences.append(str(error))
    return sentences


if __name__ == "__main__":
    print(anabranch.__version__, one_run())
    estimated(one_study())
    print(refused())
