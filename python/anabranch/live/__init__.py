"""What `anabranch.sctp` and `anabranch.quic` share: endpoints over sockets of the system."""

from .connection import Connection
from .endpoint import Endpoint, Listener

__all__ = ["Connection", "Endpoint", "Listener"]
