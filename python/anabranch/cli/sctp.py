"""`anabranch sctp`: a socket tool in the manner of netcat, for SCTP."""

import math
from typing import Annotated

from cyclopts import App, Parameter

from anabranch.errors import AnabranchError
from anabranch.support.files import check_file
from anabranch.support.stdin import STANDARD

from .app import REAL, File, Flag, Natural, Sets, app, pairs
from .peers import PATIENCE, check_patience, value
from .sctp_options import Messages, Sockets

sctp = App(
    name="sctp",
    group=REAL,
    sort_key=3,
    help="""SCTP on the network: listen, connect, send, receive, call.

Packets travel in UDP (RFC 6951), which needs no rights; with --raw in IP
itself, with --tun through a TUN device, so that the peer may be on the same
machine.""",
    help_format="plaintext",
)
app.command(sctp)

_CHUNK = 16_384


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp listen 5001
  anabranch sctp listen 5001 --echo --address 192.0.2.1 --address 198.51.100.1
  anabranch sctp listen 5001 --raw --profile linux"""
)
def listen(
    port: Natural,
    /,
    *,
    sockets: Sockets | None = None,
    messages: Messages | None = None,
    echo: Annotated[bool, Flag] = False,
    keep: Annotated[bool, Flag] = False,
) -> None:
    """Wait for a peer, print the messages it sends, and send it the lines of standard input.

    Parameters
    ----------
    port
        The SCTP port.
    echo
        Send every message back instead.
    keep
        Wait for the next peer after one has left; with --echo, serve any number at the same time.
    """
    sockets, messages = sockets or Sockets(), messages or Messages()

    from . import sctp_work

    sctp_work.run(sctp_work.listen(sockets, messages, port, echo=echo, keep=keep))


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp connect 192.0.2.1 5001
  anabranch sctp connect 192.0.2.1,198.51.100.1 5001 --set rto_min='200 ms' \\
      --set path_max_retrans=2
  anabranch sctp connect server.example 5001 --stream 3 --unordered \\
      --lifetime 500"""
)
def connect(
    host: str,
    port: Natural,
    /,
    *,
    sockets: Sockets | None = None,
    messages: Messages | None = None,
    remote_udp: Natural = 9899,
    patience: float = PATIENCE,
) -> None:
    """Connect, send the lines of standard input as messages and print what comes back.

    Parameters
    ----------
    host
        The peer's name or address, or several of its addresses with commas between them.
    port
        The peer's SCTP port.
    remote_udp
        The peer's UDP port.
    patience
        Seconds for which the peer's answer is awaited; inf until the transport gives it up.
    """
    sockets, messages = sockets or Sockets(), messages or Messages()
    check_patience(patience)

    from . import sctp_work

    sctp_work.run(sctp_work.connect(sockets, messages, host, port, remote_udp, patience))


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp send 192.0.2.1 5001 video.ts
  tar c folder | anabranch sctp send 192.0.2.1 5001 --size 65536"""
)
def send(
    host: str,
    port: Natural,
    file: File = STANDARD,
    /,
    *,
    sockets: Sockets | None = None,
    messages: Messages | None = None,
    remote_udp: Natural = 9899,
    size: Natural = _CHUNK,
    patience: float = PATIENCE,
) -> None:
    """Send a file, or standard input, and shut down once the peer has all of it.

    Parameters
    ----------
    host
        The peer's name or address, or several of its addresses with commas between them.
    port
        The peer's SCTP port.
    file
        What to send; `-` is standard input.
    remote_udp
        The peer's UDP port.
    size
        Bytes in each message, at least 1.
    patience
        Seconds for which the peer's answer is awaited; inf until the transport gives it up.
    """
    sockets, messages = sockets or Sockets(), messages or Messages()
    if size < 1:
        raise AnabranchError("--size is 0; it must be at least 1")
    check_patience(patience)

    from . import sctp_work

    sctp_work.run(sctp_work.send(sockets, messages, host, port, remote_udp, file, size, patience))


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp receive 5001 video.ts
  anabranch sctp receive 5001 | tar x"""
)
def receive(
    port: Natural,
    file: File = STANDARD,
    /,
    *,
    sockets: Sockets | None = None,
    patience: float = PATIENCE,
) -> None:
    """Wait for a peer and write what it sends to a file or to standard output.

    Parameters
    ----------
    port
        The SCTP port.
    file
        Where to write; `-` is standard output.
    patience
        Seconds without a packet of the peer, not even the answer to a heartbeat, after which it
        is given up; inf for no limit but that of the transport.
    """
    sockets = sockets or Sockets()
    check_patience(patience)
    if file != STANDARD:
        check_file(file)

    from . import sctp_work

    sctp_work.run(sctp_work.receive(sockets, port, file, patience))


@sctp.command(
    help_epilogue="""\
Examples:
  anabranch sctp call --listen 5001
  anabranch sctp call 192.0.2.1 5001 --duration 60
  anabranch sctp call 192.0.2.1,198.51.100.1 5001 --app codec=gsm-efr"""
)
def call(
    host: str | None = None,
    port: Natural | None = None,
    /,
    *,
    listen: Natural | None = None,
    sockets: Sockets | None = None,
    remote_udp: Natural = 9899,
    patience: float = PATIENCE,
    duration: float = 60.0,
    app_: Annotated[Sets, Parameter(name="--app", consume_multiple=False)] = (),
) -> None:
    """Talk in both directions, show the paths and the quality, and rate the call at its end.

    One-way delays are computed from the clocks of both ends, which round trips
    compare; this assumes that both directions take equally long.

    Parameters
    ----------
    host
        The peer's name or address, or several of its addresses with commas between them.
    port
        The peer's SCTP port.
    listen
        Wait for a call at this SCTP port instead.
    remote_udp
        The peer's UDP port.
    patience
        Seconds for which the peer's answer is awaited; inf until the transport gives it up.
    duration
        Seconds of talk; the calling end decides.
    app_
        A setting of a scenario's app of kind voip, KEY=VALUE, such as codec=gsm-efr; may be given
        several times.
    """
    if (listen is None) == (host is None or port is None):
        raise AnabranchError("a call needs either HOST and PORT, or --listen PORT")
    check_patience(patience)
    sockets = sockets or Sockets()
    settings = {name: value(text) for name, text in pairs(app_, "--app KEY=VALUE").items()}
    if not 0 < duration < math.inf:
        raise AnabranchError(f"--duration is {duration}; it must be more than 0 seconds")
    settings.setdefault("duration", f"{duration} s")

    from . import sctp_work

    if listen is not None:
        sctp_work.run(sctp_work.answer(sockets, settings, listen))
    elif host is not None and port is not None:
        sctp_work.run(sctp_work.call(sockets, settings, host, port, remote_udp, patience))
