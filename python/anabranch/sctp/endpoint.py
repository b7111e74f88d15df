"""An endpoint: sockets, and the associations over them."""

import asyncio
import math
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

from anabranch._engine import LiveHost
from anabranch.errors import AnabranchError, LiveError, whole

from .arguments import escaped, keys, octets, positive, texts
from .association import Association
from .settings import settings_text
from .waiting import Changed, until

ENCAPSULATION_PORT = 9899
"""The UDP port at which hosts receive SCTP (RFC 6951 section 5.1)."""

DEFAULTS: Mapping[str, object] = {"send_buffer": "1 MB", "receive_buffer": "1 MB"}
"""Defaults of live associations where they differ from a scenario's."""

_BACKLOG = 1024
"""The most associations of each port that peers have opened and `accept` has not returned yet;
further ones are aborted.
"""

_MOST_KEY = 65_535
"""Bytes of a shared key: what a length of 16 bits can say, as in Linux (`SCTP_AUTH_KEY`)."""

_LOOK_EVERY = 0.5
"""Seconds after which the engine is asked for events even if none were announced."""


class Endpoint:
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
        self._addresses = texts("addresses", addresses)
        self._carrier = None if udp_port is None else whole("udp_port", udp_port, 0, 65_535)
        self._devices = texts("tun", tun)
        if self._devices:
            self._carrier = None
        self._mtu = whole("mtu", mtu, 576, 65_535)
        self._shared_key = octets("shared_key", shared_key, _MOST_KEY)
        self._most = whole("most_accepted", most_accepted, 0, 2**32)
        self._host: LiveHost | None = None
        self._process = os.getpid()
        self._bell: asyncio.DatagramTransport | None = None
        self._look: asyncio.TimerHandle | None = None
        self._associations: dict[int, Association] = {}
        self._listeners: dict[int, Listener] = {}

    async def __aenter__(self) -> Self:
        """Binds the sockets."""
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():
            # What a process has opened that this one was forked from stays that process's.
            self._associations.clear()
            self._listeners.clear()
            self._process = os.getpid()
        self._bell, _ = await loop.create_datagram_endpoint(
            lambda: _Bell(self), local_addr=("127.0.0.1", 0)
        )
        port = self._bell.get_extra_info("sockname")[1]
        try:
            self._host = LiveHost(
                self._addresses,
                self._carrier,
                self._mtu,
                self._most,
                port,
                self._shared_key,
                self._devices,
            )
        except BaseException:
            self._bell.close()
            raise
        self._look = loop.call_later(_LOOK_EVERY, self._look_again)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Closes the sockets."""
        if self._process != os.getpid():
            return
        if self._look is not None:
            self._look.cancel()
        if self._bell is not None:
            self._bell.close()
        if self._host is not None:
            self._host.close()
        for association in self._associations.values():
            association._take("closed", ("aborted", {}))
        for listener in self._listeners.values():
            listener._close()
        # The endpoint may be opened again, and its associations are then numbered anew.
        self._associations.clear()
        self._listeners.clear()

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
        remote = [(address, carrier) for address in await _resolved(host)]
        number = self._live().connect(remote, port, local_port, given)
        association = self._association(number)
        try:
            await association._opened(patience)
        except asyncio.CancelledError:
            self._live().command(number, "abort")
            raise
        return association

    @asynccontextmanager
    async def listen(
        self, port: int, *, settings: Mapping[str, object] | None = None
    ) -> AsyncIterator["Listener"]:
        """Waits for peers at an SCTP port while the block lasts; gives a `Listener`.

        At the end of the block, associations that it has not returned are aborted.
        """
        whole("port", port, 1, 65_535)
        self._live().listen(port, _json(settings))
        listener = self._listeners[port] = Listener()
        try:
            yield listener
        finally:
            self._listeners.pop(port, None)
            with suppress(LiveError):  # the endpoint is closed, or has failed
                self._live().stop_listening(port)
                for association in listener._close("the listener has been closed"):
                    association._begin_abort()

    def _live(self) -> LiveHost:
        if self._host is None:
            raise LiveError("the endpoint is not open; use it in `async with`")
        self._host.check_process()
        return self._host

    def _fail(self, sentence: str) -> None:
        """Stops all sending and receiving; all who wait get this reason."""
        for association in self._associations.values():
            association._fail(sentence)
        self._associations.clear()
        for listener in self._listeners.values():
            listener._close(sentence)

    def _association(self, number: int) -> Association:
        if number not in self._associations:
            self._associations[number] = Association(self._live(), number)
        return self._associations[number]

    def _look_again(self) -> None:
        self._take_news()
        self._look = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look_again)

    def _take_news(self) -> None:
        if self._host is None:
            return
        try:
            news = self._host.news()
        except LiveError as failure:
            self._fail(str(failure))
            return
        for number, kind, particulars in news:
            association = self._association(number)
            if kind == "accepted":
                listener = self._listeners.get(particulars)
                if listener is None or listener._is_full():
                    self._host.command(number, "abort")
                else:
                    listener._take(association)
            association._take(kind, particulars)
            if kind == "closed":
                del self._associations[number]


class Listener:
    """The associations that peers open; each is returned once."""

    def __init__(self) -> None:
        self._accepted: deque[Association] = deque()
        self._changed = Changed()
        self._closed: str | None = None

    async def accept(self) -> Association:
        """Waits for the next association.

        Raises
        ------
        LiveError
            The endpoint has been closed, or has failed; the message says why.
        """
        await until(self._changed, lambda: self._accepted or self._closed is not None)
        if not self._accepted:
            raise LiveError(self._closed or "the endpoint is closed")
        return self._accepted.popleft()

    async def __aiter__(self) -> AsyncIterator[Association]:
        """The associations in the order in which they are opened."""
        while True:
            yield await self.accept()

    def _take(self, association: Association) -> None:
        self._accepted.append(association)
        self._changed.set()

    def _is_full(self) -> bool:
        return len(self._accepted) >= _BACKLOG

    def _close(self, sentence: str = "the endpoint is closed") -> list[Association]:
        """Wakes all who wait with this reason; gives the associations that were not returned."""
        self._closed = self._closed or sentence
        self._changed.set()
        left = [*self._accepted]
        self._accepted.clear()
        return left


class _Bell(asyncio.DatagramProtocol):
    """Wakes the event loop when the engine has events."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def datagram_received(self, _data: bytes, _address: tuple[Any, ...]) -> None:
        self._endpoint._take_news()


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


async def _resolved(host: str | Sequence[str]) -> list[str]:
    """Resolves these names, one address for each."""
    names = texts("host", host, "a name or an address, or a sequence of them")
    loop = asyncio.get_running_loop()
    addresses = []
    for name in names:
        try:
            found = await loop.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError):
            sentence = f"host = `{escaped(name)}` is neither an address nor a known name"
            raise AnabranchError(sentence) from None
        addresses.append(str(found[0][4][0]))
    return addresses


def _json(settings: Mapping[str, object] | None) -> str:
    return settings_text({**DEFAULTS, **keys("settings", settings)})
