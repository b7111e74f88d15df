"""What a scenario may say and hardly means: notes of `validate` and `run`, which are no errors."""

import tomllib
from collections.abc import Mapping
from typing import Any

from anabranch._engine import Scenario


def of(scenario: Scenario, cell: int = 0) -> list[str]:
    """Notes on one cell: flows with Prague whose paths have no queue that marks."""
    content = tomllib.loads(scenario.cell_toml(cell))
    return [
        f"note: flows.{name}: prague answers to marks, and no queue on its paths marks packets;"
        " dualpi2 does"
        for name, flow in content["flows"].items()
        if flow["transport"].get("cc", {}).get("kind") == "prague"
        and not any(_marks_on(content["links"][link]) for link in _links(content, flow))
    ]


def _links(content: Mapping[str, Any], flow: Mapping[str, Any]) -> set[str]:
    steps = (step for path in flow["paths"] for step in content["paths"][path]["via"])
    return {step for step in steps if step in content["links"]}


def _marks_on(link: Mapping[str, Any]) -> bool:
    """Whether a queue of the link marks, in either direction; acknowledgements matter little."""
    if "rate" not in link and "radio" not in link:
        return False
    forward = link.get("queue", {})
    return any(map(_marks, (forward, link.get("reverse", {}).get("queue", forward))))


def _marks(queue: Mapping[str, Any]) -> bool:
    kind = queue.get("kind", "drop_tail")
    if kind == "token_bucket":
        return _marks(queue.get("child", {}))
    if kind in {"cake", "dualpi2", "python"}:
        return True
    by_default = kind in {"cobalt", "fq_codel"}
    thresholds = {"mark_bytes", "mark_packets"}
    return bool(queue.get("ecn", by_default)) or not thresholds.isdisjoint(queue)
