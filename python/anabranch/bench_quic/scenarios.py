"""The scenarios of bench-cc and one more, in which each tested flow is a transfer over QUIC."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.bench_cc import scenarios as of_controls
from anabranch.bench_cc.scenarios import Keep, TransferScenario
from anabranch.support.toml_text import inline

LIMIT_S = 60
"""The longest that a transfer may take: the scenarios' duration."""

COMPLETES = Keep("completion_s", at_most=LIMIT_S)
"""What every scenario requires: that everything arrives."""

_OWN = Path(__file__).parent


@dataclass(frozen=True)
class QuicScenario(TransferScenario):
    """One of the scenarios; the profile is the last axis of its sweep."""

    size: int
    """Bytes of each transfer."""
    outage_ms: float
    """For how long the link carries nothing; 0 where it always does."""


def profiles() -> tuple[str, ...]:
    """The names of QUIC's profiles, in the order of the schema."""
    kinds = json.loads(_engine.schema())["$defs"]["QuicProfile"]["oneOf"]
    return tuple(kind["const"] for kind in kinds)


def load(names: tuple[str, ...]) -> list[QuicScenario]:
    """The scenarios of these names, all of them if there are none."""
    about = tomllib.loads((_OWN / "bench.toml").read_text("utf-8"))
    controls = tomllib.loads((of_controls.FOLDER.parent / "bench.toml").read_text("utf-8"))
    of_controls.check_names(names, about)
    chosen = [name for name in about if not names or name in names]
    return [_load(name, controls.get(name, {}) | about[name]) for name in chosen]


def _transport(profile: str) -> dict[str, str]:
    return {"kind": "quic", "profile": profile}


def _load(name: str, about: dict[str, Any]) -> QuicScenario:
    folder = _OWN if "outage_ms" in about else of_controls.FOLDER
    text = (folder / f"{name}.toml").read_text("utf-8")
    flows = tomllib.loads(text)["flows"]
    tested = [flow for flow in flows if flow.startswith("test")]
    known = profiles()
    cases = [
        f"{profile} = {inline({f'flows.{flow}.transport': _transport(profile) for flow in tested})}"
        for profile in known
    ]
    axis = "\n".join(["[sweep.axes.control.cases]", *cases])
    app = {"kind": "bulk", "bytes": about["size"]}
    return QuicScenario(
        name=name,
        title=about["title"],
        capacity_mbit_per_s=about["capacity_mbit_per_s"],
        delay_ms=about["delay_ms"],
        tested=tuple(tested),
        rival=None,
        keeps=(COMPLETES,),
        known={},
        controls=known,
        folder=name,
        scenario=Scenario.parse(
            f"{text}\n{axis}\n",
            [(f"flows.{flow}.app", inline(app)) for flow in tested],
            str(of_controls.FOLDER),
        ),
        size=round(float(about["size"].removesuffix(" MB")) * 1e6),
        outage_ms=about.get("outage_ms", 0),
    )
