"""`anabranch quic`: a socket tool in the manner of netcat, for QUIC."""

from typing import Annotated

from cyclopts import App

from anabranch.support.files import check_file
from anabranch.support.stdin import STANDARD

from .app import REAL, File, Flag, Natural, app
from .peers import PATIENCE, check_patience
from .quic_options import Serving, Sockets, Trusting

quic = App(
    name="quic",
    group=REAL,
    sort_key=4,
    help="""QUIC on the network, with TLS 1.3: listen, connect, send, receive.

An end that waits is reached from this machine alone unless --address says
otherwise. An end that connects looks at the certificate unless --insecure
says otherwise. The variable SSLKEYLOGFILE names a file for secrets, with
which Wireshark decrypts captures. With --progress json, what happens is said
as one JSON object a line.""",
    help_format="plaintext",
)
app.command(quic)


@quic.command(
    help_epilogue="""\
Examples:
  anabranch quic listen 4433 --write-cert server.pem
  anabranch quic listen 4433 --cert chain.pem --key key.pem --keep --echo"""
)
def listen(
    port: Natural,
    /,
    *,
    serving: Serving | None = None,
    sockets: Sockets | None = None,
    echo: Annotated[bool, Flag] = False,
    keep: Annotated[bool, Flag] = False,
) -> None:
    """Wait for a peer, print what it sends, and send it the lines of standard input.

    Parameters
    ----------
    port
        The port of UDP.
    echo
        Send every stream and every datagram back instead.
    keep
        Wait for the next peer after one has left; with --echo, serve any number at the same time.
    """
    from . import quic_work

    serving, sockets = serving or Serving(), sockets or Sockets()
    quic_work.run(quic_work.listen(serving, sockets, port, echo=echo, keep=keep))


@quic.command(
    help_epilogue="""\
Examples:
  anabranch quic connect localhost 4433 --trust server.pem
  anabranch quic connect 192.0.2.1 4433 --name server.example --alpn echo
  anabranch quic connect localhost 4433 --insecure --datagrams
  anabranch quic connect 10.0.1.2 4433 --path 10.0.1.1 --path 10.0.2.1=10.0.2.2"""
)
def connect(
    host: str,
    port: Natural,
    /,
    *,
    trusting: Trusting | None = None,
    sockets: Sockets | None = None,
    datagrams: Annotated[bool, Flag] = False,
    patience: float = PATIENCE,
) -> None:
    """Connect, send the lines of standard input on a stream and print what comes back.

    Parameters
    ----------
    host
        The server's name or address.
    port
        Its port of UDP.
    datagrams
        Send each line as a datagram instead, which may be lost, and print those that come.
    patience
        Seconds for which the server's answer is awaited; inf until the transport gives it up.
    """
    from . import quic_work

    trusting, sockets = trusting or Trusting(), sockets or Sockets()
    check_patience(patience)
    quic_work.run(quic_work.connect(trusting, sockets, host, port, patience, datagrams=datagrams))


@quic.command(
    help_epilogue="""\
Examples:
  anabranch quic send localhost 4433 video.ts --trust server.pem
  tar c folder | anabranch quic send 192.0.2.1 4433 --name server.example"""
)
def send(
    host: str,
    port: Natural,
    file: File = STANDARD,
    /,
    *,
    trusting: Trusting | None = None,
    sockets: Sockets | None = None,
    patience: float = PATIENCE,
) -> None:
    """Send a file, or standard input, on a stream, and close once the peer has all of it.

    Parameters
    ----------
    host
        The server's name or address.
    port
        Its port of UDP.
    file
        What to send; `-` is standard input.
    patience
        Seconds for which the server's answer is awaited; inf until the transport gives it up.
    """
    from . import quic_work

    trusting, sockets = trusting or Trusting(), sockets or Sockets()
    check_patience(patience)
    quic_work.run(quic_work.send(trusting, sockets, host, port, file, patience))


@quic.command(
    help_epilogue="""\
Examples:
  anabranch quic receive 4433 video.ts --write-cert server.pem
  anabranch quic receive 4433 --cert chain.pem --key key.pem | tar x"""
)
def receive(
    port: Natural,
    file: File = STANDARD,
    /,
    *,
    serving: Serving | None = None,
    sockets: Sockets | None = None,
) -> None:
    """Wait for a peer and write what it sends on its first stream to a file or standard output.

    Parameters
    ----------
    port
        The port of UDP.
    file
        Where to write; `-` is standard output.
    """
    from . import quic_work

    serving, sockets = serving or Serving(), sockets or Sockets()
    if file != STANDARD:
        check_file(file)
    quic_work.run(quic_work.receive(serving, sockets, port, file))
