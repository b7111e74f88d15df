"""An endpoint: sockets, and the associations over them."""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from anabranch import live
from anabranch._engine import LiveHost
from anabranch.errors import whole
from anabranch.live.resolving import resolved
from anabranch.support.arguments import keys, octets, positive, texts
from anabranch.support.settings_text import settings_text

from .association import Association

ENCAPSULATION_PORT = 9899
"""The UDP port at which hosts receive SCTP (RFC 6951 section 5.1)."""

DEFAULTS: Mapping[str, object] = {"send_buffer": "1 MB", "receive_buffer": "1 MB"}
"""Defaults of live associations where they differ from a scenario's."""

_MOST_KEY = 65_535
"""Bytes of a shared key: what a length of 16 bits can say, as in Linux (`SCTP_AUTH_KEY`)."""


class Endpoint(live.Endpoint[LiveHost, Association]):
    """Sockets, a thread that serves them, and any number of associations.

    Use it in `async with`: leaving the block closes the sockets, and peers of associations that
    have not been shut down will notice.

    Parameters
    ----------
    addresses
        Addresses to bind to, for the paths of a multi-homed end; none for all addresses of the
        system.
    udp_port
        The port of UDP that packets travel in; 0 for any, None for SCTP in IP itself, which needs
        root or the capability CAP_NET_RAW.
    tun
        TUN devices that packets travel through in IP itself, instead of sockets (Linux, root or the
        capability CAP_NET_ADMIN): `NAME=ADDRESS[,ADDRESS]` for each, the addresses of this end that
        the system routes to it and does not have itself. So the peer may be on the same machine,
        or in a network namespace of it.
    mtu
        The largest IP packet in bytes, from 576 to 65535.
    most_accepted
        Associations that peers may have open at the same time; further ones are refused.
    shared_key
        A secret that this end shares with its peers. Changes of addresses are signed with it and
        with what both ends sent when the association was opened (RFC 4895). At most 65535 bytes.

    Raises
    ------
    LiveError
        A socket cannot be bound; or a process uses an endpoint that the process from which it was
        forked has opened.
    """

    def __init__(
        self,
        addresses: Sequence[str] = (),
        *,
        udp_port: int | None = 0,
        tun: Sequence[str] = (),
        mtu: int = 1500,
        most_accepted: int = 10_000,
        shared_key: bytes | bytearray | memoryview = b"",
    ) -> None:
        super().__init__()
        self._addresses = texts("addresses", addresses)
        self._carrier = None if udp_port is None else whole("udp_port", udp_port, 0, 65_535)
        self._devices = texts("tun", tun)
        if self._devices:
            self._carrier = None
        self._mtu = whole("mtu", mtu, 576, 65_535)
        self._shared_key = octets("shared_key", shared_key, _MOST_KEY)
        self._most = whole("most_accepted", most_accepted, 0, 2**32)

    def _bound(self, announce_at: int) -> LiveHost:
        return LiveHost(
            self._addresses,
            self._carrier,
            self._mtu,
            self._most,
            announce_at,
            self._shared_key,
            self._devices,
        )

    def _made(self, host: LiveHost, number: int) -> Association:
        return Association(host, number)

    @property
    def udp_port(self) -> int | None:
        """The UDP port that it is bound to; None if packets travel directly in IP."""
        return self._live().udp_port

    async def connect(
        self,
        host: str | Sequence[str],
        port: int,
        *,
        local_port: int = 0,
        udp_port: int = ENCAPSULATION_PORT,
        settings: Mapping[str, object] | None = None,
        patience: float = math.inf,
    ) -> Association:
        """Opens an association.

        Parameters
        ----------
        host
            The peer's name or address, or several of its addresses; the peer itself tells its
            others.
        port
            The peer's SCTP port.
        local_port
            This end's SCTP port; 0 for any.
        udp_port
            The peer's UDP port; ignored if packets travel directly in IP.
        settings
            The keys of a scenario's `transport` of kind `sctp`, such as `{"rto_max": "1 s"}`;
            buffers have 1 MB by default.
        patience
            Seconds after which a peer that does not answer is given up; by default when the
            transport gives it up (`max_init_retransmits`), after some minutes.

        Raises
        ------
        AssociationClosedError
            The peer refuses, or does not answer; or an ICMP message says that its host has nobody
            at the UDP port, or no SCTP.
        LiveError
            It has not answered within `patience`.
        ScenarioError
            A setting does not exist, or its value is impossible.
        """
        whole("port", port, 1, 65_535)
        whole("local_port", local_port, 0, 65_535)
        whole("udp_port", udp_port, 1, 65_535)
        patience = positive("patience", patience)
        carrier = None if self._carrier is None else udp_port
        given = _json(settings)
        names = texts("host", host, "a name or an address, or a sequence of them")
        remote = [(await resolved(name), carrier) for name in names]
        number = self._live().connect(remote, port, local_port, given)
        return await self._opened(number, patience)

    @asynccontextmanager
    async def listen(
        self, port: int, *, settings: Mapping[str, object] | None = None
    ) -> AsyncIterator["Listener"]:
        """Waits for peers at an SCTP port while the block lasts; gives a `Listener`.

        At the end of the block, associations that it has not returned are aborted.
        """
        whole("port", port, 1, 65_535)
        self._live().listen(port, _json(settings))
        listener = Listener()
        with self._listening(port, listener, lambda host: host.stop_listening(port)):
            yield listener


class Listener(live.Listener[Association]):
    """The associations that peers open; each is returned once."""


@asynccontextmanager
async def connect(
    host: str | Sequence[str],
    port: int,
    *,
    addresses: Sequence[str] = (),
    local_port: int = 0,
    udp_port: int | None = ENCAPSULATION_PORT,
    mtu: int = 1500,
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[Association]:
    """An association from an endpoint of its own, which is shut down at the end of the block.

    The parameters are those of `Endpoint` and `Endpoint.connect`; `udp_port` is the peer's, and
    None means SCTP directly in IP.
    """
    own = None if udp_port is None else 0
    async with Endpoint(addresses, udp_port=own, mtu=mtu) as endpoint:
        peer = ENCAPSULATION_PORT if udp_port is None else udp_port
        association = await endpoint.connect(
            host, port, local_port=local_port, udp_port=peer, settings=settings
        )
        async with association:
            yield association


def _json(settings: Mapping[str, object] | None) -> str:
    return settings_text({**DEFAULTS, **keys("settings", settings)})
