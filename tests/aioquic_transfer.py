"""A transfer between two ends of aioquic in one process, in a time of its own, with its qlog."""

import datetime
from typing import Any
from unittest import mock

from aioquic.quic import events, logger
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

DELAY_S = 0.01
"""One way."""

_PEER = ("192.0.2.1", 1)

_MOST_STEPS = 20_000


def transfer(size: int, *, drop_every: int) -> tuple[dict[str, Any], int]:
    """The qlog of a server that sends so many bytes, and how many of its datagrams were dropped."""
    clock = mock.Mock(return_value=1_700_000_000.0)
    log = logger.QuicLogger()
    with mock.patch.object(logger.time, "time", clock):
        client, server = _ends(log)
        client.connect(_PEER, now=clock())
        dropped = _run(client, server, clock, size, drop_every)
        server.close(error_code=3, reason_phrase="all sent")
        server.datagrams_to_send(clock())
    return log.to_dict(), dropped


def _run(
    client: QuicConnection, server: QuicConnection, clock: mock.Mock, size: int, drop_every: int
) -> int:
    """Carries datagrams until the client has everything; gives how many were dropped."""
    dropped = by_server = by_client = 0
    pairs = ((client, server), (server, client))
    is_done = False
    pending: list[tuple[float, QuicConnection, bytes]] = []
    for _ in range(_MOST_STEPS):
        for end, other in pairs if by_client else pairs[:1]:
            for datagram, _ in end.datagrams_to_send(clock()):
                by_client += end is client
                by_server += end is server
                if end is server and by_server % drop_every == drop_every - 1:
                    dropped += 1
                else:
                    pending.append((clock() + DELAY_S, other, datagram))
            while (event := end.next_event()) is not None:
                if end is server and isinstance(event, events.HandshakeCompleted):
                    server.send_stream_data(3, bytes(size), end_stream=True)
                if end is client and isinstance(event, events.StreamDataReceived):
                    is_done |= event.end_stream
        if is_done and not pending:
            return dropped
        timers = [end.get_timer() for end in (client, server)]
        times = [at_s for at_s, _, _ in pending] + [at_s for at_s in timers if at_s is not None]
        clock.return_value = max(clock(), min(times))
        due = [one for one in pending if one[0] <= clock()]
        pending = [one for one in pending if one[0] > clock()]
        for _, end, datagram in due:
            end.receive_datagram(datagram, _PEER, now=clock())
        for end in (client, server):
            at_s = end.get_timer()
            if at_s is not None and at_s <= clock():
                end.handle_timer(now=clock())
    raise AssertionError("the transfer did not end")


def _ends(log: logger.QuicLogger) -> tuple[QuicConnection, QuicConnection]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    made = made.public_key(key.public_key()).not_valid_before(begin)
    made = made.not_valid_after(begin.replace(year=2100))
    # The client asks for no certificate that it trusts (ssl.CERT_NONE).
    client = QuicConnection(
        configuration=QuicConfiguration(is_client=True, verify_mode=0, server_name="here")
    )
    server = QuicConnection(
        configuration=QuicConfiguration(
            is_client=False,
            certificate=made.sign(key, hashes.SHA256()),
            private_key=key,
            quic_logger=log,
        ),
        original_destination_connection_id=client.original_destination_connection_id,
    )
    return client, server
