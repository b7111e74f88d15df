"""QUIC between two ends of ours on the loopback address: from Python, and on the command line."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Self

import pytest

from anabranch import _engine, quic
from anabranch.errors import AnabranchError, LiveError, ScenarioError
from conftest import HANGS_S
from support.live import LOOPBACK, deserted_port, run
from support.processes import killed_at_the_end

pytestmark = pytest.mark.skipif(not _engine.QUIC, reason="this engine was built without QUIC")

ALPN = ["test"]


@asynccontextmanager
async def pair(
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[tuple[quic.Connection, quic.Connection]]:
    """The end that connects, and the one that was waited for."""
    made = quic.self_signed([LOOPBACK])
    async with (
        quic.Endpoint([LOOPBACK]) as server,
        server.listen(made, protocols=ALPN, settings=settings) as listener,
        quic.Endpoint() as client,
    ):
        connection = await client.connect(
            LOOPBACK, server.port, protocols=ALPN, trust=made.chain, settings=settings
        )
        yield connection, await listener.accept()


def test_streams_of_both_kinds_arrive_and_end() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            assert (ours.protocol, theirs.protocol) == ("test", "test")
            first, second = await ours.open(), await ours.open(bidirectional=False)
            assert (first.number, second.number) == (0, 2)
            await first.write(b"question", end=True)
            await second.write(b"one ")
            await second.write(b"way", end=True)
            heard = {}
            for _ in range(2):
                stream = await theirs.accept()
                heard[stream.number] = await stream.read_all()
                if stream.writes:
                    await stream.write(b"answer", end=True)
            assert heard == {0: b"question", 2: b"one way"}
            assert await first.read_all() == b"answer"
            with pytest.raises(quic.StreamClosedError, match="stream 0 takes nothing more"):
                await first.write(b"more")
            theirs_first = await theirs.open()
            assert theirs_first.number == 1
            await theirs_first.write(b"x")
            assert await (await ours.accept()).read() == b"x"
            await ours.shutdown()
            await theirs.ended()
            assert (ours.reason, theirs.reason) == ("shutdown", "shutdown")
            assert ours.scalars()["quic.bytes_delivered"] == 7
            with pytest.raises(quic.ConnectionClosedError, match="has been closed"):
                await ours.open()

    run(work)


def test_every_stream_has_all_its_bytes_and_ends_once() -> None:
    """Small ones, whose only bytes come with their end, and ones of many packets."""
    contents = {4 * number: b"x" * (1 if number % 2 else 20_000 + number) for number in range(40)}

    async def work() -> None:
        async with pair({"max_streams": 100}) as (ours, theirs):
            for number, content in contents.items():
                stream = await ours.open()
                assert stream.number == number
                await stream.write(content, end=True)
            heard: dict[int, bytes] = {}
            for _ in contents:
                stream = await theirs.accept()
                assert stream.number not in heard
                heard[stream.number] = await stream.read_all()
                await stream.end()
            assert heard == contents
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(theirs.accept(), 0.3)

    run(work)


def test_what_was_not_delivered_is_said() -> None:
    """A peer that gives up while data waits: closing in order fails, in one sentence.

    It reads nothing, and more is written than it keeps for who does not read (4 MiB).
    """

    async def work() -> None:
        async with pair({"max_stream_data": "10 kB", "send_buffer": "10 MB"}) as (ours, theirs):
            stream = await ours.open()
            await stream.write(bytes(8_000_000), end=True)
            closing = asyncio.create_task(ours.shutdown())
            await theirs.accept()
            await theirs.close(7)
            with pytest.raises(quic.ConnectionClosedError):
                await closing

    run(work)


def test_bulk_both_ways_waits_for_who_reads_slowly() -> None:
    size = 3_000_000
    content = bytes(range(256)) * (size // 256 + 1)
    settings = {"send_buffer": "100 kB", "max_stream_data": "200 kB"}

    async def work() -> None:
        async with pair(settings) as (ours, theirs):

            async def hear(stream: quic.Stream) -> bytes:
                heard = b""
                async for piece in stream:
                    heard += piece
                    if len(heard) % 7 == 0:
                        await asyncio.sleep(0.001)
                return heard

            out = await ours.open()
            speaking = asyncio.create_task(out.write(content[:size], end=True))
            back = await theirs.accept()
            answering = asyncio.create_task(back.write(content[1 : size + 1], end=True))
            forward, backward = await asyncio.gather(hear(back), hear(out))
            assert (forward, backward) == (content[:size], content[1 : size + 1])
            await asyncio.gather(speaking, answering)

    run(work)


def test_an_end_that_reads_nothing_holds_its_peer_back() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            stream = await ours.open(bidirectional=False)
            writing = asyncio.create_task(stream.write(bytes(40_000_000), end=True))
            heard = await theirs.accept()
            await asyncio.sleep(1)
            assert not writing.done()
            assert ours.scalars()["quic.bytes_acknowledged"] < 15_000_000
            assert len(await heard.read_all()) == 40_000_000
            await writing

    run(work)


def test_more_streams_than_the_peer_permits_wait_their_turn() -> None:
    async def work() -> None:
        async with pair({"max_streams": 3}) as (ours, theirs):
            for number in range(20):
                stream = await ours.open()
                await stream.write(b"%d" % number, end=True)
                heard = await theirs.accept()
                assert await heard.read_all() == b"%d" % number
                await heard.end()
                assert await stream.read_all() == b""
            for _ in range(3):
                await ours.open()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await ours.open()

    run(work)


def test_datagrams_arrive_whole_and_have_a_limit() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            for size in (0, 1, 1000):
                ours.send_datagram(bytes(size))
                assert await theirs.receive_datagram() == bytes(size)
            with pytest.raises(LiveError, match=r"a datagram to this peer has at most 1\d\d\d byt"):
                ours.send_datagram(bytes(1500))
        async with pair({"datagrams": False}) as (ours, _):
            with pytest.raises(LiveError, match="the peer takes no datagrams"):
                ours.send_datagram(b"x")

    run(work)


def test_keys_are_updated() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            stream = await ours.open()
            await stream.write(b"before")
            back = await theirs.accept()
            assert await back.read() == b"before"
            updates = 0
            for turn in range(100):
                updates += (ours, theirs)[turn % 2].update_keys()
                await stream.write(b"x")
                assert await back.read() == b"x"
                await back.write(b"y")
                assert await stream.read() == b"y"
                await asyncio.sleep(0.002)
            assert updates > 10
            assert ours._host.key_updates(ours._number) == theirs._host.key_updates(theirs._number)

    run(work)


def test_streams_are_given_up() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            stream = await ours.open()
            await stream.write(b"x")
            back = await theirs.accept()
            assert await back.read() == b"x"
            stream.reset(7)
            with pytest.raises(quic.StreamClosedError, match="the peer has given up stream 0"):
                await back.read()
            stream.stop(8)

            async def write_on() -> None:
                for _ in range(1000):
                    await back.write(b"y")
                    await asyncio.sleep(0.001)

            with pytest.raises(quic.StreamClosedError, match="takes nothing more"):
                await write_on()

    run(work)


def test_a_connection_is_closed_with_a_code() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            await ours.close(0x1234)
            with pytest.raises(
                quic.ConnectionClosedError, match="by the peer with its application's code 0x1234"
            ) as caught:
                await theirs.accept()
            assert (caught.value.reason, caught.value.code) == ("aborted", 0x1234)

    run(work)


def test_certificates_are_looked_at() -> None:
    async def work() -> None:
        made, other = quic.self_signed([LOOPBACK]), quic.self_signed([LOOPBACK])
        async with (
            quic.Endpoint([LOOPBACK]) as server,
            server.listen(made, protocols=ALPN) as listener,
            quic.Endpoint() as client,
        ):

            async def ask(**options: object) -> quic.Connection:
                given = {"protocols": ALPN, "trust": made.chain} | options
                return await client.connect(LOOPBACK, server.port, **given)  # type: ignore[arg-type]

            refusals: tuple[tuple[dict[str, object], str], ...] = (
                ({"trust": other.chain}, "aborted: invalid peer certificate"),
                ({"trust": None}, "aborted: invalid peer certificate: UnknownIssuer"),
                ({"server_name": "other.example"}, "not valid for name"),
                ({"protocols": ["none"]}, r"TLS alert no_application_protocol"),
            )
            for options, sentence in refusals:
                with pytest.raises(quic.ConnectionClosedError, match=sentence):
                    await ask(**options)
            for connection in (
                await ask(),
                await ask(trust=quic.ANYONE, server_name="other.example"),
            ):
                assert connection.reason is None
            assert await listener.accept()
            mistakes: tuple[tuple[dict[str, object], str], ...] = (
                ({"trust": b"no certificate"}, "there is no certificate"),
                ({"server_name": "a b"}, "server_name = `a b` is neither a name nor an address"),
                ({"protocols": []}, "protocols: there is none"),
                ({"settings": {"max_data": "1 B"}}, "max_data = 1 B is out of range"),
                ({"settings": {"maxdata": 1}}, "maxdata"),
                ({"patience": 0}, "patience is 0; it must be a number above 0"),
            )
            for options, sentence in mistakes:
                with pytest.raises(AnabranchError, match=sentence):
                    await ask(**options)

    run(work)


def test_what_cannot_be_is_one_sentence() -> None:
    made = quic.self_signed(["localhost"])

    async def work() -> None:
        for options, sentence in (
            ({"mtu": 1000}, "mtu"),
            ({"port": 70_000}, "port"),
            ({"addresses": ["x"]}, "address = `x` is not an address"),
        ):
            with pytest.raises(AnabranchError, match=sentence):
                async with quic.Endpoint(**options):
                    pass
        with pytest.raises(LiveError, match="names: there is none"):
            quic.self_signed([])
        async with quic.Endpoint([LOOPBACK]) as endpoint:
            with pytest.raises(ScenarioError, match="is for simulations"):
                async with endpoint.listen(
                    made, protocols=ALPN, settings={"cc": {"kind": "python", "class": "x:Y"}}
                ):
                    pass
            broken = quic.Certificate(made.chain, b"no key")
            with pytest.raises(LiveError, match="the certificate's key cannot be read"):
                async with endpoint.listen(broken, protocols=ALPN):
                    pass
            with pytest.raises(LiveError, match="there is no certificate"):
                async with endpoint.listen(quic.Certificate(b"", made.key), protocols=ALPN):
                    pass
            async with endpoint.listen(made, protocols=ALPN):
                with pytest.raises(LiveError, match="waits for connections already"):
                    async with endpoint.listen(made, protocols=ALPN):
                        pass
        with pytest.raises(LiveError, match="the endpoint is closed"):
            await endpoint.connect(LOOPBACK, 1, protocols=ALPN)

    run(work)


def test_nobody_at_the_port_is_told_at_once() -> None:
    async def work() -> None:
        with deserted_port() as port:
            async with quic.Endpoint() as client:
                with pytest.raises(
                    quic.ConnectionClosedError, match="nobody has the UDP port there"
                ):
                    await client.connect(LOOPBACK, port, protocols=ALPN, trust=quic.ANYONE)

    run(work)


def test_noise_and_replays_harm_nobody() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            port = int(ours.peer.rpartition(":")[2])
            noise = [os.urandom(length) for length in range(0, 1400, 7)]
            noise += [bytes([first]) + os.urandom(1199) for first in range(256)]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for each in noise:
                    stranger.sendto(each, (LOOPBACK, port))
            stream = await ours.open()
            await stream.write(b"still here", end=True)
            assert await (await theirs.accept()).read_all() == b"still here"
            connections, opening, _ = theirs._host.counts()
            assert (connections, opening) == (1, 0)

    run(work)


# On the command line.


def command(*words: object, **options: object) -> "subprocess.Popen[bytes]":
    line = [sys.executable, "-m", "anabranch", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, **options)  # type: ignore[call-overload,no-any-return]


@contextmanager
def listening(*words: object) -> "Iterator[tuple[subprocess.Popen[bytes], int]]":
    """A program that waits for a peer, and its port."""
    with killed_at_the_end(command("--progress", "json", "quic", *words)) as program:
        assert program.stderr
        said = json.loads(program.stderr.readline())
        assert said["event"] == "listening"
        assert said["addresses"] == [LOOPBACK]
        yield program, said["port"]


class Relay:
    """Sends datagrams on between a client and the server at a port, and keeps them."""

    def __init__(self, server: int) -> None:
        self._server = (LOOPBACK, server)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.bind((LOOPBACK, 0))
        self.port = int(self._socket.getsockname()[1])
        self.datagrams: list[tuple[bool, bytes]] = []
        """Whether each is the client's, and its bytes."""
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"", (LOOPBACK, self.port))
        self._thread.join()
        self._socket.close()

    def _work(self) -> None:
        client = None
        while True:
            # Nobody is at the client's port any more once it has ended.
            with contextlib.suppress(ConnectionRefusedError):
                datagram, source = self._socket.recvfrom(65_536)
                if not datagram:
                    return
                is_clients = source != self._server
                client = source if is_clients else client
                self.datagrams.append((is_clients, datagram))
                if to := self._server if is_clients else client:
                    self._socket.sendto(datagram, to)

    def captured(self) -> bytes:
        """The datagrams as a file of libpcap, in packets of IPv4."""
        file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)
        for at, (is_clients, datagram) in enumerate(self.datagrams):
            hosts = (b"\x0a\0\0\x01", b"\x0a\0\0\x02")
            ports = (40_000, 4_433)
            step = 1 if is_clients else -1
            length = 28 + len(datagram)
            internet = struct.pack(">BBHIBBH", 0x45, 0, length, 0, 64, socket.IPPROTO_UDP, 0)
            udp = struct.pack(">HHHH", *ports[::step], length - 20, 0)
            packet = internet + b"".join(hosts[::step]) + udp + datagram
            file += struct.pack("<IIII", at // 1000, at % 1000 * 1000, len(packet), len(packet))
            file += packet
        return file


def test_a_file_is_sent_and_received(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "from").write_bytes(content)
    counters = tmp_path / "counters.json"
    words = ("receive", 0, tmp_path / "to", "--write-cert", tmp_path / "server.pem")
    with listening(*words) as (receiver, port):
        log = tmp_path / "keys"
        sender = command(
            *("quic", "send", "localhost", port, tmp_path / "from"),
            *("--trust", tmp_path / "server.pem", "--json", counters),
            env=os.environ | {"SSLKEYLOGFILE": str(log)},
        )
        _, said = sender.communicate(timeout=HANGS_S)
        assert sender.returncode == 0, said.decode()
        assert f"sent {len(content)} bytes" in said.decode()
        _, said = receiver.communicate(timeout=HANGS_S)
        assert receiver.returncode == 0, said.decode()
    events = [json.loads(line) for line in said.splitlines()]
    assert [event["event"] for event in events] == ["connected", "received"]
    assert events[-1]["bytes"] == len(content)
    assert (tmp_path / "to").read_bytes() == content
    assert json.loads(counters.read_text())["quic.bytes_acknowledged"] == len(content)
    labels = {line.split()[0] for line in log.read_text().splitlines()}
    assert {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"} <= labels


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_decrypts_a_transfer(tmp_path: Path) -> None:
    """With the secrets that a client writes, and finds nothing malformed."""
    content = bytes(range(256)) * 4000
    (tmp_path / "from").write_bytes(content)
    words = ("receive", 0, tmp_path / "to", "--write-cert", tmp_path / "server.pem")
    with listening(*words) as (receiver, port), Relay(port) as relay:
        sender = command(
            *("quic", "send", LOOPBACK, relay.port, tmp_path / "from"),
            *("--trust", tmp_path / "server.pem"),
            env=os.environ | {"SSLKEYLOGFILE": str(tmp_path / "keys")},
        )
        for program in (sender, receiver):
            _, said = program.communicate(timeout=HANGS_S)
            assert program.returncode == 0, said.decode()
    (tmp_path / "capture.pcap").write_bytes(relay.captured())

    def count(condition: str) -> int:
        done = subprocess.run(
            [
                *("tshark", "-r", tmp_path / "capture.pcap", "-Y", condition),
                *("-o", f"tls.keylog_file:{tmp_path / 'keys'}", "-d", "udp.port==4433,quic"),
            ],
            capture_output=True,
            check=True,
            timeout=HANGS_S,
        )
        return done.stdout.count(b"\n")

    assert count("_ws.malformed") == 0
    assert count("quic.frame_type") == len(relay.datagrams), "each has frames that are read"
    assert count("quic.stream.stream_id == 2") > len(content) / 1200


def test_lines_and_datagrams_come_back() -> None:
    with listening("listen", 0, "--echo", "--keep") as (server, port):
        for options in ((), ("--datagrams",)):
            client = command("quic", "connect", LOOPBACK, port, "--insecure", *options)
            out, said = client.communicate(b"one\ntwo\n", timeout=HANGS_S)
            assert (out, client.returncode) == (b"one\ntwo\n", 0), said.decode()
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=HANGS_S)
        assert server.returncode == 130, said.decode()


def test_two_ends_talk() -> None:
    with listening("listen", 0) as (server, port):
        client = command("quic", "connect", LOOPBACK, port, "--insecure")
        assert client.stdin is not None
        assert client.stdout is not None
        assert server.stdin is not None
        assert server.stdout is not None
        client.stdin.write(b"hello\n")
        client.stdin.flush()
        assert server.stdout.readline() == b"hello\n"
        server.stdin.write(b"hi\n")
        server.stdin.close()
        assert client.stdout.readline() == b"hi\n"
        client.stdin.close()
        assert (client.wait(HANGS_S), server.wait(HANGS_S)) == (0, 0)
        for pipe in (client.stdout, client.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("connect", "localhost", 1, "--insecure", "--trust", "x"), "--insecure and --trust are"),
        (("listen", 0, "--cert", "x"), "--cert is given without --key; give both, or none"),
        (("listen", 0, "--key", "x"), "--key is given without --cert; give both, or none"),
        (("connect", "localhost", 1, "--patience", 0), "--patience is 0.0; it must be more than 0"),
        (("connect", "no.such.invalid", 1, "--insecure"), "neither an address nor a known name"),
        (("listen", 0, "--set", "max_data=1"), "max_data"),
        (("connect", LOOPBACK, 1, "--insecure"), "nobody has the UDP port there"),
        (("send", LOOPBACK, 1, "/no/such/file", "--insecure"), "/no/such/file"),
    ],
)
def test_mistakes_are_one_sentence(words: tuple[object, ...], sentence: str) -> None:
    program = command("quic", *words)
    with program:
        _, said = program.communicate(b"", timeout=HANGS_S)
    text = said.decode()
    assert program.returncode == 2, text
    assert sentence in text
    assert "Traceback" not in text


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    none.write_text("no certificate")
    keys = tmp_path / "no" / "keys"
    for words, log, sentence in (
        (("connect", LOOPBACK, 1, "--trust", none), "", f"{none}: there is no certificate"),
        (("listen", 0, "--cert", none, "--key", none), "", f"{none}: there is no certificate"),
        (("connect", LOOPBACK, 1, "--insecure"), str(keys), f"{keys} cannot be written"),
    ):
        program = command("quic", *words, env=os.environ | {"SSLKEYLOGFILE": log})
        with program:
            _, said = program.communicate(b"", timeout=60)
        assert sentence in said.decode()
        assert (program.returncode, said.count(b"\n")) == (2, 1), said.decode()


def test_a_signal_ends_a_talk_with_a_word() -> None:
    with listening("listen", 0, "--echo") as (_, port):
        client = command("quic", "connect", LOOPBACK, port, "--insecure")
        with client:
            assert client.stdin is not None
            assert client.stdout is not None
            # The thread that reads waits for more, and has pieces that nobody has taken.
            for number in range(100):
                client.stdin.write(f"{number}\n".encode())
                client.stdin.flush()
            assert client.stdout.readline() == b"0\n"
            client.terminate()
            _, said = client.communicate(timeout=60)
        assert (client.returncode, said) == (143, b"anabranch: stopped\n")


def test_help_has_examples() -> None:
    for name in ("listen", "connect", "send", "receive"):
        program = command("quic", name, "--help")
        with program:
            out, _ = program.communicate(timeout=HANGS_S)
        assert b"Examples:" in out


def test_an_engine_without_quic_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch._engine.QUIC", False)

    async def work() -> None:
        with pytest.raises(LiveError, match="this engine was built without QUIC"):
            async with quic.Endpoint():
                pass

    with contextlib.suppress(ValueError):
        run(work)
    with pytest.raises(LiveError, match="this engine was built without QUIC"):
        quic.self_signed(["localhost"])
