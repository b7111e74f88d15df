"""A scenario of one link, described on the command line, in the manner of Mahimahi's shells."""

import json
from pathlib import Path

HERE = "here"
"""The node in which the command runs."""
PEER = "peer"
"""The node at the other end."""


def scenario_text(
    *,
    delay: str | None = None,
    jitter: str | None = None,
    reorder: bool = False,
    duplicate: str | None = None,
    rate: str | None = None,
    loss: str | None = None,
    queue: int | None = None,
    trace: Path | None = None,
) -> str:
    """The scenario of one link between `here` and `peer`.

    Parameters
    ----------
    delay
        One-way delay, in both directions.
    jitter
        Random part of the delay, uniform from 0 to this, in both directions.
    reorder
        Whether packets may overtake each other where their delays differ.
    duplicate
        Probability that a packet arrives twice, in both directions.
    rate
        Rate, in both directions.
    loss
        Probability of loss, in both directions.
    queue
        Packets that may wait in front of the rate limit.
    trace
        A trace in Mahimahi's format instead of a rate.
    """
    link: dict[str, object] = {"ends": [HERE, PEER]}
    if delay is not None:
        link["delay"] = delay
    if jitter is not None:
        link["jitter"] = jitter
    if reorder:
        link["reorder"] = True
    if duplicate is not None:
        link["duplicate"] = duplicate
    if rate is not None:
        link["rate"] = rate
    if trace is not None:
        link["rate"] = {"mahimahi": str(trace.absolute())}
    if loss is not None:
        link["loss"] = {"kind": "bernoulli", "probability": loss}
    if queue is not None:
        link["queue"] = {"kind": "drop_tail", "packets": queue}
    lines = [f"links.link.{key} = {_toml(value)}" for key, value in link.items()]
    return "\n".join(["name = 'link'", *lines, "paths.link.via = ['link']", ""])


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    # JSON's strings, numbers and lists are also valid TOML.
    return json.dumps(value)
