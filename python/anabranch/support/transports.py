"""What each transport can do, as the engine declares it beside the transport."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from anabranch import _engine


@dataclass(frozen=True)
class Capabilities:
    """What a kind of transport can do."""

    title: str
    """Its name for people."""
    flow_control: bool
    """Whether it is a connection, whose sender waits for the network and for its peer."""
    messages: Literal["always", "never"] | dict[str, str]
    """Whether messages stay apart, or with which setting."""
    several_paths: bool
    """Whether one connection uses several paths."""
    changing_addresses: bool
    rebinding: bool
    """Whether addresses come and go while a connection lives."""
    pauses_reading: bool
    """Whether an application can stop reading."""
    choice_of_control: bool
    """Whether the congestion control can be chosen."""
    numbering: Literal["bytes", "chunks", "nothing", "packets"]
    """What the numbers of its packets count."""
    numbers_by_path: bool
    """Whether every path has numbers of its own."""

    @property
    def keeps_messages(self) -> bool:
        """Whether messages stay apart whatever the settings are."""
        return self.messages == "always"


@cache
def capabilities() -> dict[str, Capabilities]:
    """What each transport can do, by its `kind` in scenario files."""
    declared: dict[str, Any] = json.loads(_engine.transports())
    return {kind: Capabilities(**can) for kind, can in declared.items()}


def can(kind: str) -> Capabilities:
    """What the transport of this kind can do."""
    return capabilities()[kind]
