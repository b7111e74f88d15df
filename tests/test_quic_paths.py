"""Several paths of QUIC (RFC 10069) between two ends of ours, over loopback addresses."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from anabranch import _engine, quic
from anabranch.errors import AnabranchError, LiveError
from conftest import HANGS_S
from support.live import LOOPBACK, run
from support.processes import killed_at_the_end

pytestmark = [
    pytest.mark.skipif(not _engine.QUIC, reason="this engine was built without QUIC"),
    pytest.mark.skipif(sys.platform != "linux", reason="one loopback address elsewhere"),
]

ALPN = ["test"]
SECOND = "127.0.1.2"


@asynccontextmanager
async def pair(
    paths: Sequence[str] = (LOOPBACK, SECOND), *, server: bool = True, **settings: object
) -> AsyncIterator[tuple[quic.Connection, quic.Connection]]:
    """The end that connects, over these paths, and the one that was waited for."""
    made = quic.self_signed([LOOPBACK])
    several: dict[str, object] = {"multipath": server, **(settings if server else {})}
    async with (
        quic.Endpoint([LOOPBACK]) as host,
        host.listen(made, protocols=ALPN, settings=several) as listener,
        quic.Endpoint([path.partition("=")[0] for path in paths]) as client,
    ):
        connection = await client.connect(
            LOOPBACK,
            host.port,
            protocols=ALPN,
            trust=made.chain,
            settings={"multipath": True, **settings},
            paths=paths,
        )
        yield connection, await listener.accept()


async def changed(connection: quic.Connection, path: int, change: str) -> quic.PathChanged:
    """Waits until that has happened to a path."""
    async for event in connection.events():
        if isinstance(event, quic.PathChanged) and (event.path, event.change) == (path, change):
            return event
    raise AssertionError(f"the connection has ended: {connection.reason}")


async def exchange(ours: quic.Connection, theirs: quic.Connection, size: int) -> None:
    """Sends so much, and the same back."""
    content = bytes(range(256)) * (size // 256)
    stream = await ours.open()
    writing = asyncio.create_task(stream.write(content, end=True))
    heard = await theirs.accept()
    assert await heard.read_all() == content
    await writing
    writing = asyncio.create_task(heard.write(content, end=True))
    assert await stream.read_all() == content
    await writing


def test_two_paths_carry_data() -> None:
    async def work() -> None:
        # As much as both first windows: a busy machine that drops nothing has room on both paths.
        async with pair(scheduler="round_robin", max_data="24 kB") as (ours, theirs):
            for end in (ours, theirs):
                event = await changed(end, 1, "validated")
                assert LOOPBACK in {event.local, event.remote}
            await exchange(ours, theirs, 2_560_000)
            for end in (ours, theirs):
                first, second = end.paths()
                assert (first.number, second.number) == (0, 1)
                assert {first.state, second.state} == {"active"}
                assert min(first.sent, second.sent) > 300_000
                assert min(first.received, second.received) > 300_000
                assert second.srtt_ms > 0 < second.cwnd
            assert (ours.paths()[1].local, theirs.paths()[1].remote) == (SECOND, SECOND)
            await ours.shutdown()
            await theirs.ended()
            assert ours.paths() == []

    run(work)


def test_paths_come_and_go() -> None:
    async def work() -> None:
        async with pair([LOOPBACK]) as (ours, theirs):
            assert [path.number for path in ours.paths()] == [0]
            assert await ours.add_path(SECOND) == 1
            with pytest.raises(LiveError, match=r"the connection has a path from .* already"):
                await ours.add_path(SECOND)
            await exchange(ours, theirs, 256_000)
            ours.abandon_path(0)
            await changed(theirs, 0, "abandoned")
            with pytest.raises(LiveError, match="path = 1 is not one of several that are open"):
                ours.abandon_path(1)
            await exchange(ours, theirs, 256_000)
            assert [path.state for path in theirs.paths()] == ["abandoned", "active"]
            assert await ours.add_path("127.0.1.3", LOOPBACK) == 2
            theirs.abandon_path(1)
            await changed(ours, 1, "abandoned")
            await exchange(ours, theirs, 256_000)
            for path in range(3, 8):
                assert await ours.add_path(SECOND) == path
                ours.abandon_path(path)
            with pytest.raises(LiveError, match="has used all of its path IDs"):
                await ours.add_path(SECOND)
            await exchange(ours, theirs, 256_000)

    run(work)


def test_a_backup_carries_nothing_until_it_is_none() -> None:
    async def work() -> None:
        # A probe timeout is longer than this: no busy machine looks like a silent path.
        async with pair(backup=[1], max_ack_delay="2 s") as (ours, theirs):
            await changed(theirs, 1, "backup")
            await changed(ours, 1, "validated")
            await exchange(ours, theirs, 512_000)
            second = ours.paths()[1]
            assert second.is_backup
            assert second.sent + second.received < 50_000
            ours.set_path_status(1, backup=False)
            ours.set_path_status(0, backup=True)
            await changed(theirs, 1, "available")
            await exchange(ours, theirs, 512_000)
            assert ours.paths()[1].sent > 500_000
            assert ours.paths()[1].received > 500_000
            with pytest.raises(LiveError, match="path = 5 is not one that is open"):
                ours.set_path_status(5, backup=True)

    run(work)


def test_all_paths_move_to_other_ports() -> None:
    async def work() -> None:
        made = quic.self_signed([LOOPBACK])
        several = {"multipath": True, "scheduler": "round_robin"}
        async with (
            quic.Endpoint([LOOPBACK]) as host,
            host.listen(made, protocols=ALPN, settings=several) as listener,
            quic.Endpoint([LOOPBACK, SECOND]) as client,
        ):
            ours = await client.connect(
                LOOPBACK,
                host.port,
                protocols=ALPN,
                trust=made.chain,
                settings=several,
                paths=[LOOPBACK, SECOND],
            )
            theirs = await listener.accept()
            await changed(ours, 1, "validated")
            await exchange(ours, theirs, 256_000)
            client.rebind()
            await exchange(ours, theirs, 1_024_000)
            client.rebind([LOOPBACK, "127.0.1.4"])
            await exchange(ours, theirs, 1_024_000)
            assert [path.remote for path in theirs.paths()] == [LOOPBACK, "127.0.1.4"]
            assert ours.scalars()["quic.migrations"] == 4

    run(work)


def test_keys_are_updated_over_both_paths() -> None:
    async def work() -> None:
        async with pair(scheduler="round_robin") as (ours, theirs):
            await changed(ours, 1, "validated")
            for end in (ours, theirs, ours):
                while not end.update_keys():
                    await exchange(ours, theirs, 2_560)
                await exchange(ours, theirs, 512_000)
            assert ours._host.key_updates(ours._number) == 3

    run(work)


def test_who_can_have_no_path_is_told() -> None:
    async def work() -> None:
        async with pair([LOOPBACK], server=False) as (ours, _):
            with pytest.raises(LiveError, match="the other end does not use several paths"):
                await ours.add_path(SECOND)
        async with pair([LOOPBACK]) as (_, theirs):
            with pytest.raises(LiveError, match="the end that has opened the connection opens"):
                await theirs.add_path(LOOPBACK)
        for paths, sentence in (
            (["nowhere"], "address = `nowhere` is not an address"),
            ([f"{LOOPBACK}=x"], "paths: REMOTE = `x` is not an address"),
            ([LOOPBACK, "::1"], "has two versions of IP"),
            (["192.0.2.1"], "cannot be bound"),
        ):
            with pytest.raises(AnabranchError, match=sentence):
                async with (
                    pair([LOOPBACK]),
                    quic.connect(
                        LOOPBACK, 9, protocols=ALPN, trust=quic.ANYONE, paths=paths, patience=1
                    ),
                ):
                    pass

    run(work)


def test_a_file_goes_over_two_paths_on_the_command_line(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 8_000)
    start = [sys.executable, "-m", "anabranch", "--progress", "json", "quic"]
    pipe = subprocess.PIPE
    options = ["--multipath", "--scheduler", "round_robin"]
    receives = [*start, "receive", "0", str(target), "--write-cert", f"{tmp_path}/c.pem", *options]
    with killed_at_the_end(subprocess.Popen(receives, stderr=pipe, text=True)) as receiver:
        assert receiver.stderr is not None
        port = json.loads(receiver.stderr.readline())["port"]
        paths = ["--path", LOOPBACK, "--path", f"{SECOND}={LOOPBACK}"]
        words = [LOOPBACK, str(port), str(source), "--trust", f"{tmp_path}/c.pem", *paths, *options]
        sent = subprocess.run(
            [*start, "send", *words], capture_output=True, text=True, timeout=HANGS_S, check=True
        )
        said = [json.loads(line) for line in sent.stderr.splitlines()]
        changes = [(each["path"], each["change"]) for each in said if each["event"] == "path"]
        assert changes[:2] == [(1, "opened"), (1, "validated")]
        receiver.communicate(timeout=HANGS_S)
        assert receiver.returncode == 0
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--backup", "1"], "--backup 1 is no path; --path is given 0 times"),
        (["--path", "here"], "address = `here` is not an address of IPv4 or IPv6"),
        (["--scheduler", "min_rtt"], "scheduler has an effect with multipath = true only"),
        (["--multipath", "--scheduler", "best"], "best"),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], sentence: str) -> None:
    command = [
        sys.executable,
        "-m",
        "anabranch",
        "quic",
        "send",
        LOOPBACK,
        "9",
        "--insecure",
        *words,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_S, check=False, input=""
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3
