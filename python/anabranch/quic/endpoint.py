"""An endpoint: a socket of UDP, and the connections over it."""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anabranch import _engine, live
from anabranch.errors import AnabranchError, LiveError, whole
from anabranch.live.resolving import resolved
from anabranch.support.arguments import keys, positive, text, texts
from anabranch.support.settings_text import settings_text

from .certificate import Anyone, Certificate, roots_of
from .connection import Connection, check_protocols
from .engine import check_engine, check_secrets_file
from .paths import pairs

if TYPE_CHECKING:
    from anabranch._engine import QuicHost

DEFAULTS: Mapping[str, object] = {
    "send_buffer": "1 MB",
    "max_data": "4 MB",
    "max_stream_data": "2 MB",
    "datagrams": True,
}
"""Defaults of live connections where they differ from a scenario's."""


class Endpoint(live.Endpoint["QuicHost", Connection]):
    """A socket, a thread that serves it, and any number of connections.

    Use it in `async with`: leaving the block closes the socket, and peers of connections that have
    not been closed will notice.

    Parameters
    ----------
    addresses
        Addresses to bind to; none for all addresses of the system.
    port
        The port of UDP; 0 for any.
    mtu
        The largest IP packet in bytes, from 1280 to 65535.
    most_accepted
        Connections that peers may have open at the same time; further ones are not answered.

    Raises
    ------
    LiveError
        A socket cannot be bound, or the file that SSLKEYLOGFILE names cannot be written; or the
        engine was built without QUIC.
    """

    def __init__(
        self,
        addresses: Sequence[str] = (),
        *,
        port: int = 0,
        mtu: int = 1500,
        most_accepted: int = 10_000,
    ) -> None:
        super().__init__()
        self._addresses = texts("addresses", addresses)
        self._port = whole("port", port, 0, 65_535)
        self._mtu = whole("mtu", mtu, 1280, 65_535)
        self._most = whole("most_accepted", most_accepted, 0, 2**32)

    def _bound(self, announce_at: int) -> "QuicHost":
        check_engine()
        check_secrets_file()
        return _engine.QuicHost(self._addresses, self._port, self._mtu, self._most, announce_at)

    def _made(self, host: "QuicHost", number: int) -> Connection:
        return Connection(host, number)

    def _place(self, particulars: object) -> None:
        """There is one listener, whatever protocol was agreed on."""

    @property
    def port(self) -> int:
        """The port of UDP."""
        return self._live().udp_port or 0

    def rebind(
        self, addresses: Sequence[str] | None = None, *, port: int = 0, quietly: bool = False
    ) -> None:
        """Goes on from another port, with the connections that this end has opened.

        Servers are told by the way (RFC 9000 section 9.2): packets go to another connection ID and
        ask for a proof that answers come (PATH_CHALLENGE).

        Parameters
        ----------
        addresses
            Addresses to bind to instead of those of before.
        port
            The port of UDP; 0 for any other.
        quietly
            Servers are not told, and find out as behind a NAT that has forgotten the endpoint.

        Raises
        ------
        LiveError
            A socket cannot be bound, and nothing has changed; or the endpoint waits for clients or
            has connections of some, who would not find it.
        """
        wanted = None if addresses is None else texts("addresses", addresses)
        self._live().rebind(wanted, whole("port", port, 0, 65_535), quietly)

    async def connect(
        self,
        host: str,
        port: int,
        *,
        protocols: Sequence[str],
        trust: bytes | Anyone | None = None,
        server_name: str | None = None,
        settings: Mapping[str, object] | None = None,
        paths: Sequence[str] = (),
        patience: float = math.inf,
    ) -> Connection:
        """Opens a connection.

        Parameters
        ----------
        host
            The server's name or address.
        port
            Its port of UDP.
        protocols
            Protocols above QUIC (ALPN), of which the server takes one.
        trust
            The certificates in PEM of whom the client believes; by default those that the system
            trusts. `ANYONE` takes every certificate.
        server_name
            The name or address for which the certificate must be; by default `host`.
        settings
            The keys of a scenario's `transport` of kind `quic`, such as `{"idle_timeout": "5 s"}`.
        paths
            The paths, each `LOCAL=REMOTE` or `LOCAL`, whose remote address is that of `host`; the
            handshake goes on the first one. With several, `multipath` is set, and the others are
            opened once the server permits them; `Connection.events` tells of them.
        patience
            Seconds after which a server that does not answer is given up; by default after the idle
            timeout.

        Raises
        ------
        ConnectionClosedError
            The server refuses, does not answer, or is not believed.
        LiveError
            It has not answered within `patience`; or what is to be trusted is no certificate.
        ScenarioError
            A setting does not exist, or its value is impossible.
        """
        whole("port", port, 1, 65_535)
        patience = positive("patience", patience)
        names = check_protocols(texts("protocols", protocols))
        name = text("server_name", host if server_name is None else server_name)
        wanted = await pairs(texts("paths", paths), text("host", host, "a name or an address"))
        roots, given = roots_of(trust), _json(settings, several=len(wanted) > 1)
        local, remote = wanted[0] if wanted else (None, await resolved(host))
        live = self._live()
        number = live.connect(remote, port, name, given, roots, names, local)
        try:
            for local, remote in wanted[1:]:
                live.add_path(number, local, remote, False)  # noqa: FBT003 - the engine's
        except LiveError:
            live.close_connection(number, 1)
            raise
        return await self._opened(number, patience)

    @asynccontextmanager
    async def listen(
        self,
        certificate: Certificate,
        *,
        protocols: Sequence[str],
        settings: Mapping[str, object] | None = None,
    ) -> AsyncIterator["Listener"]:
        """Waits for clients while the block lasts; gives a `Listener`.

        At the end of the block, connections that it has not returned are closed.

        Parameters
        ----------
        certificate
            What the server shows of itself.
        protocols
            Protocols above QUIC (ALPN), the most wanted first.
        settings
            As in `connect`.
        """
        if not isinstance(certificate, Certificate):
            raise AnabranchError("certificate: a `Certificate` is wanted, with chain and key")
        names = check_protocols(texts("protocols", protocols))
        chain, key = certificate.chain, certificate.key
        self._live().listen(_json(settings), chain, key, names)
        listener = Listener()
        with self._listening(None, listener, lambda host: host.stop_listening()):
            yield listener


class Listener(live.Listener[Connection]):
    """The connections that clients open; each is returned once."""


@asynccontextmanager
async def connect(
    host: str,
    port: int,
    *,
    protocols: Sequence[str],
    trust: bytes | Anyone | None = None,
    server_name: str | None = None,
    settings: Mapping[str, object] | None = None,
    paths: Sequence[str] = (),
    patience: float = math.inf,
) -> AsyncIterator[Connection]:
    """A connection from an endpoint of its own, which is closed at the end of the block.

    The parameters are those of `Endpoint.connect`.
    """
    locals_ = [path.partition("=")[0] for path in texts("paths", paths)]
    async with Endpoint([*dict.fromkeys(locals_)]) as endpoint:
        connection = await endpoint.connect(
            host,
            port,
            protocols=protocols,
            trust=trust,
            server_name=server_name,
            settings=settings,
            paths=paths,
            patience=patience,
        )
        async with connection:
            yield connection


def _json(settings: Mapping[str, object] | None, *, several: bool = False) -> str:
    own: dict[str, object] = {"multipath": True} if several else {}
    return settings_text({**DEFAULTS, **own, **keys("settings", settings)})
