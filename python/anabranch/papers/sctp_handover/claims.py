"""The paper's claims: rows of `claims.toml`, and functions for what no row can say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import polars as pl

from anabranch.papers import rows
from anabranch.papers.intervals import interval
from anabranch.papers.rows import Judgement
from anabranch.papers.verdicts import Claim, above

from .factors import EXPERIMENTS, REVERTED_S, Runs
from .traced import ABOUT_S, Traced, values

PROFILE = "as inferred"
"""There is one reading of the paper."""
MOST = 0.5
"""Share of runs from which on most show something."""
FALLS_PERCENT = 40.0
"""Plain SCTP's throughput falls clearly when it falls by more than this."""


@dataclass(frozen=True)
class Material(rows.Evidence):
    """What the claims are judged on."""

    runs: dict[int, Runs]
    """The two senders in each experiment, as `samples.tidy` gives them."""
    traced: dict[int, list[Traced]]
    """Runs of the proposed sender in each experiment."""
    death: Runs
    """How long plain SCTP took to declare path 1 inactive after it had died, as failover_s."""

    @cached_property
    def studies(self) -> Mapping[str, Runs]:
        """The runs that rows read: both experiments, their traced runs, and path 1's death."""
        made = {f"experiment{number}": runs for number, runs in self.runs.items()}
        for number, runs in self.traced.items():
            found = pl.DataFrame(list(map(values, runs))).with_row_index("replication")
            made[f"traced{number}"] = Runs(found, PROFILE)
        return made | {"death": self.death}

    def replications(self, study: str) -> int:
        """The fewest of both experiments, or of both with traces, or of the path's death."""
        if study == "death":
            return self.death.frame.height
        if study.startswith("traced"):
            return min(map(len, self.traced.values()))
        proposed = (self.runs[number].where(policy="proposed") for number in EXPERIMENTS)
        return min(len(runs.per_replication()) for runs in proposed)


def plain_stays(material: Material) -> Iterator[Judgement]:
    """Claim 1: four counts that are 0 in one part; and a fall, each run's against itself."""
    plain = {number: material.runs[number].where(policy="plain") for number in EXPERIMENTS}
    switches, failures = (
        [plain[number].mean(name).mean for number in EXPERIMENTS]
        for name in ("switches", "failures")
    )
    before, after = (plain[1].per_replication(f"mbps_{phase}") for phase in (1, 2))
    fall = interval([100 * (1 - after[key] / before[key]) for key in before])
    stays = not any((*switches, *failures))
    yield stays, {"switches": switches, "failures": sum(failures)}
    yield above(fall, FALLS_PERCENT), {"fall": fall}


def timeouts_mislead(material: Material) -> Iterator[Judgement]:
    """Claim 9: shares of handovers, of which a run may have none or several."""
    runs = material.traced[2]
    spurious = interval([float(len(run.reverted())) for run in runs])
    after_timeout = interval(
        [float(run.follows_timeout(handover)) for run in runs for handover in run.reverted()]
    )
    waits = [
        after.time_s - before.time_s
        for run in runs
        for before, after in pairwise(run.handovers)
        if after.time_s - before.time_s <= REVERTED_S + ABOUT_S and run.follows_timeout(before)
    ]
    periodic = interval([float(abs(wait - 10.0) < 1.0) for wait in waits])
    share = rows.share_text
    said = {"spurious": spurious, "reverted_s": REVERTED_S, "about_s": REVERTED_S + ABOUT_S}
    yield above(spurious), {"share": share(after_timeout), **said}
    yield above(periodic, MOST), {"share": share(periodic), **said}


CLAIMS: list[Claim[Material]] = rows.load(__name__)
