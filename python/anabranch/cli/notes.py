"""What a scenario may say and hardly means: notes of `validate` and `run`, which are no errors."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch._engine import Scenario


def of(scenario: Scenario, cell: int = 0) -> list[str]:
    """Notes on one cell.

    They are on flows with Prague without a queue that marks, or in the wrong one, on others in
    Prague's queue, and on settings of ECN that nothing reads.
    """
    content = tomllib.loads(scenario.cell_toml(cell))
    return [
        f"note: flows.{name}: {said}"
        for name, flow in content["flows"].items()
        for said in _of_flow(content, flow)
    ]


def _of_flow(content: Mapping[str, Any], flow: Mapping[str, Any]) -> Iterator[str]:
    transport = flow["transport"]
    is_prague = transport.get("cc", {}).get("kind") == "prague"
    # Those of its subflows are in a table of Multipath TCP.
    own = transport.get("tcp", {}) if transport["kind"] == "mptcp" else transport
    ecn = own.get("ecn", "l4s" if is_prague else "off")
    if own.get("ecn_option") and ecn not in {"accurate", "l4s"}:
        yield (
            f'with ecn = "{ecn}" no segment has the option that ecn_option is about;'
            ' ecn = "accurate" or "l4s" has it'
        )
    links = [content["links"][link] for link in _links(content, flow)]
    if not is_prague:
        control = transport.get("cc", {}).get("kind", "reno")
        if ecn == "l4s" and control not in _SCALABLE and any(_has(it, "dualpi2") for it in links):
            yield (
                f'with ecn = "l4s" {control} is in the queue of dualpi2 that marks early and often,'
                " and answers each mark as a loss; prague and dctcp are for that queue"
            )
        return
    if not any(map(_marks_on, links)):
        yield "prague answers to marks, and no queue on its paths marks packets; dualpi2 does"
    is_classic = ecn in {"accurate", "dctcp", "rfc3168"}
    if is_classic and any(_has(link, "dualpi2") for link in links):
        yield (
            f'with ecn = "{ecn}" prague waits in the classic queue of dualpi2; ecn = "l4s" has'
            " the other one"
        )


def of_cells(scenario: Scenario) -> list[str]:
    """The notes on the cells, each once; of a larger sweep on its first ones."""
    cells = range(min(scenario.cell_count, _MOST_CELLS))
    return list(dict.fromkeys(note for cell in cells for note in of(scenario, cell)))


_MOST_CELLS = 1000
_SCALABLE = {"bbr3", "dctcp", "prague", "python"}
"""Controls that answer a mark by less than a loss, or may."""


def _links(content: Mapping[str, Any], flow: Mapping[str, Any]) -> set[str]:
    steps = (step for path in flow["paths"] for step in content["paths"][path]["via"])
    return {step for step in steps if step in content["links"]}


def _marks_on(link: Mapping[str, Any]) -> bool:
    """Whether a queue of the link marks, in either direction; acknowledgements matter little."""
    if "rate" not in link and "radio" not in link:
        return False
    return any(_marks(queue) for queue in _queues(link))


def _has(link: Mapping[str, Any], kind: str) -> bool:
    return any(queue.get("kind") == kind for queue in _queues(link))


def _queues(link: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The queues of both directions, with those within them."""
    forward = link.get("queue", {})
    left = [forward, link.get("reverse", {}).get("queue", forward)]
    while left:
        queue = left.pop()
        yield queue
        left += [queue["child"]] if "child" in queue else []
        left += [band.get("queue", {}) for band in queue.get("bands", [])]


def _marks(queue: Mapping[str, Any]) -> bool:
    kind = queue.get("kind", "drop_tail")
    if kind in {"cake", "dualpi2", "python"}:
        return True
    by_default = kind in {"cobalt", "fq_codel"}
    thresholds = {"mark_bytes", "mark_packets"}
    return bool(queue.get("ecn", by_default)) or not thresholds.isdisjoint(queue)
