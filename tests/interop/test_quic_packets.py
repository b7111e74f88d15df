"""aioquic's connections through packets of ours: each datagram is opened, read, written and sealed.

The program in the middle (crates/anabranch-transport/examples/quic_reseal.rs) is told the secrets.
What either end gets is our own emitter's, and what it sends our parser reads, in virtual time.
"""

import datetime
import io
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import peers
import pytest

connection = pytest.importorskip(
    "aioquic.quic.connection", reason="aioquic is not installed: pip install --group interop"
)
from aioquic.quic import events  # noqa: E402 - there is nothing to import without it
from aioquic.quic import packet as packets  # noqa: E402
from aioquic.quic.configuration import QuicConfiguration  # noqa: E402
from aioquic.tls import CipherSuite  # noqa: E402
from cryptography import x509  # noqa: E402
from cryptography.hazmat.primitives import hashes  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

ADDRESSES = {"client": ("192.0.2.1", 49152), "server": ("192.0.2.2", 443)}
DELAY_S = 0.01
MOST_STEPS = 2000
"""Of a connection: more than any of these needs."""


@pytest.fixture(scope="module")
def program() -> Path:
    """The program in the middle."""
    try:
        return peers.example(
            "quic_reseal", "--package", "anabranch-transport", "--features", "quic"
        )
    except peers.MissingError as error:
        pytest.skip(str(error))


def _configurations() -> Iterator[QuicConfiguration]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    for is_client in (True, False):
        one = QuicConfiguration(
            is_client=is_client,
            alpn_protocols=["test"],
            cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256],
            max_datagram_frame_size=65536,
            secrets_log_file=io.StringIO(),
            verify_mode=ssl.CERT_NONE,
        )
        if not is_client:
            one.certificate, one.private_key = certificate, key
        yield one


@dataclass
class Between:
    """Two ends of aioquic, and the program between them."""

    program: Path
    now: float = 0.0
    got: dict[str, list[events.QuicEvent]] = field(
        default_factory=lambda: {"client": [], "server": []}
    )
    frames: Counter[str] = field(default_factory=Counter)
    """Names of frames that were opened, with the level of their packets."""
    changed: int = 0
    """Datagrams that are not the octets that aioquic sent."""

    def __post_init__(self) -> None:
        client, server = _configurations()
        self.logs = [client.secrets_log_file, server.secrets_log_file]
        self.told: set[str] = set()
        first = connection.QuicConnection(configuration=client)
        self.ends = {"client": first}
        self.server = server
        self.running = subprocess.Popen(
            [self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        first.connect(ADDRESSES["server"], now=0.0)

    def _say(self, line: str) -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(line + "\n")
        self.running.stdin.flush()

    def resealed(self, name: str, datagram: bytes) -> bytes:
        """What the program makes of a datagram that an end has sent."""
        for log in self.logs:
            assert isinstance(log, io.StringIO)
            for line in log.getvalue().splitlines():
                if line not in self.told:
                    self.told.add(line)
                    self._say(line)
        self._say(f"{name} {datagram.hex()}")
        assert self.running.stdout is not None
        answer = self.running.stdout.readline().split()
        if not answer:
            assert self.running.stderr is not None
            raise AssertionError(self.running.stderr.read())
        for packet in answer[1:]:
            level, _, frames = packet.partition(":")
            self.frames.update(f"{level} {frame}" for frame in frames.split(","))
        sealed = bytes.fromhex(answer[0])
        assert len(sealed) == len(datagram)
        self.changed += sealed != datagram
        return sealed

    def step(self) -> bool:
        """Carries what both ends send now to the other; whether there was anything."""
        carried = [
            (name, self.resealed(name, datagram))
            for name, end in self.ends.items()
            for datagram, _ in end.datagrams_to_send(now=self.now)
        ]
        self.now += DELAY_S
        for name, datagram in carried:
            peer = "server" if name == "client" else "client"
            if peer not in self.ends:
                first = self.ends["client"].original_destination_connection_id
                self.ends[peer] = connection.QuicConnection(
                    configuration=self.server, original_destination_connection_id=first
                )
            self.ends[peer].receive_datagram(datagram, ADDRESSES[name], self.now)
        for name, end in self.ends.items():
            timer = end.get_timer()
            if timer is not None and timer <= self.now:
                end.handle_timer(self.now)
            while (event := end.next_event()) is not None:
                self.got[name].append(event)
        return bool(carried)

    def run(self) -> None:
        """Carries on until neither end has anything to say for a second."""
        idle = 0
        for _ in range(MOST_STEPS):
            idle = 0 if self.step() else idle + 1
            if idle * DELAY_S > 1:
                return
        raise AssertionError(f"they go on after {MOST_STEPS} steps")

    def data(self, name: str, stream: int) -> bytes:
        """What an end got on a stream."""
        got = (one for one in self.got[name] if isinstance(one, events.StreamDataReceived))
        return b"".join(one.data for one in got if one.stream_id == stream)


@pytest.fixture
def between(program: Path) -> Iterator[Between]:
    both = Between(program)
    try:
        yield both
    finally:
        both.running.kill()
        both.running.communicate()


def test_a_connection_of_aioquic_in_packets_of_ours(between: Between) -> None:
    """Handshake, streams both ways, datagrams, key updates, new connection IDs, close."""
    between.run()
    client, server = between.ends["client"], between.ends["server"]
    there, back = bytes(range(256)) * 400, bytes(reversed(range(256))) * 300
    stream = client.get_next_available_stream_id()
    for part in range(4):
        client.send_stream_data(stream, there[part::4], end_stream=part == 3)
        client.send_datagram_frame(bytes([part]) * 100)
        between.run()
        (client if part % 2 else server).request_key_update()
        (server if part % 2 else client).send_ping(part)
        between.run()
    client.change_connection_id()
    server.send_stream_data(stream, back, end_stream=True)
    between.run()
    client.close(error_code=0, reason_phrase="done")
    between.run()
    assert between.data("server", stream) == b"".join(there[part::4] for part in range(4))
    assert between.data("client", stream) == back
    datagrams = [
        one for one in between.got["server"] if isinstance(one, events.DatagramFrameReceived)
    ]
    assert [one.data for one in datagrams] == [bytes([part]) * 100 for part in range(4)]
    (end,) = [one for one in between.got["server"] if isinstance(one, events.ConnectionTerminated)]
    assert (end.error_code, end.reason_phrase) == (0, " " * 4)
    seen = set(between.frames)
    assert "Phase 1" in seen
    for level in ("Initial", "Handshake"):
        assert {f"{level} crypto", f"{level} ack"} <= seen
    named = "ack stream datagram new_connection_id retire_connection_id handshake_done ping"
    assert {f"OneRtt {name}" for name in named.split()} <= seen
    assert "OneRtt connection_close" in seen
    # aioquic writes some numbers longer than they need be, so that not all are the same octets.
    assert between.changed > 0


def test_packets_of_aioquic_without_numbers(between: Between) -> None:
    """Retry and Version Negotiation: what is written is what was read, the tag included."""
    client = between.ends["client"]
    (first, _), *_ = client.datagrams_to_send(now=0.0)
    between.resealed("client", first)
    original = client.original_destination_connection_id
    retry = packets.encode_quic_retry(
        version=1, source_cid=bytes(8), destination_cid=client.host_cid,
        original_destination_cid=original, retry_token=b"a token", unused=15,
    )  # fmt: skip
    assert between.resealed("server", retry) == retry
    negotiation = packets.encode_quic_version_negotiation(
        bytes(8), client.host_cid, [1, 0x6B3343CF]
    )
    # Of the first byte only one bit counts (RFC 9000 section 17.2.1).
    assert between.resealed("server", negotiation)[1:] == negotiation[1:]
    assert between.frames["Whole "] == 2
