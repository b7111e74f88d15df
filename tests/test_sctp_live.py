"""SCTP between two ends of ours on the loopback address: from Python, and on the command line."""

import asyncio
import math
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from anabranch import sctp
from anabranch.errors import AnabranchError, LiveError, ScenarioError
from conftest import HANGS_S
from support.live import LOOPBACK, run


@asynccontextmanager
async def pair(
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[tuple[sctp.Association, sctp.Association]]:
    """The end that connects, and the one that was waited for."""
    async with (
        sctp.Endpoint([LOOPBACK]) as server,
        server.listen(5001, settings=settings) as listener,
        sctp.Endpoint([LOOPBACK]) as client,
    ):
        assert server.udp_port
        association = await client.connect(
            LOOPBACK, 5001, udp_port=server.udp_port, settings=settings
        )
        yield association, await listener.accept()


def test_messages_arrive_with_what_was_said_of_them() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            await ours.send(b"one", stream=3, ppid=51)
            await ours.send(b"two", unordered=True, retransmissions=0)
            assert await theirs.receive() == sctp.Message(b"one", 3, 51, unordered=False)
            assert await theirs.receive() == sctp.Message(b"two", 0, 0, unordered=True)
            (path,) = ours.paths()
            assert (path.remote, path.state, path.is_primary) == (LOOPBACK, "active", True)
            await ours.shutdown()
            assert ours.reason == "shutdown"
            assert [message async for message in theirs] == []
            assert theirs.reason == "shutdown"
            assert theirs.scalars()["sctp.messages_delivered"] == 2
            with pytest.raises(sctp.AssociationClosedError, match="has been shut down"):
                await ours.send(b"three")

    run(work)


def test_bulk_both_ways_waits_for_who_reads_slowly() -> None:
    count, size = 200, 20_000
    settings = {"send_buffer": "200 kB", "receive_buffer": "200 kB"}

    async def work() -> None:
        async with pair(settings) as ends:

            async def speak(end: sctp.Association) -> None:
                for number in range(count):
                    await end.send(number.to_bytes(4, "big") * (size // 4))

            async def hear(end: sctp.Association) -> None:
                for number in range(count):
                    message = await end.receive()
                    assert message.data == number.to_bytes(4, "big") * (size // 4)
                    if number % 50 == 0:
                        await asyncio.sleep(0.05)

            await asyncio.gather(*(task(end) for end in ends for task in (speak, hear)))

    run(work)


@pytest.mark.parametrize("interleaving", [False, True])
def test_messages_larger_than_the_receive_buffer_come_in_parts(*, interleaving: bool) -> None:
    settings = {"receive_buffer": "20 kB", "interleaving": interleaving}
    sent = [bytes([number]) * size for number, size in enumerate((50_000, 10, 120_000))]

    async def work() -> None:
        async with pair(settings) as (ours, theirs):
            for message in sent:
                await ours.send(message)
            received: list[bytes] = []
            begun = b""
            while len(received) < len(sent):
                piece = await theirs.receive()
                begun += piece.data
                if not isinstance(piece, sctp.Part) or piece.is_last:
                    received.append(begun)
                    begun = b""
            assert received == sent

    run(work)


def test_an_end_that_aborts_is_an_exception_to_the_other() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            await ours.abort()
            with pytest.raises(sctp.AssociationClosedError, match="has been aborted"):
                await theirs.receive()

    run(work)


def test_streams_begin_anew() -> None:
    async def work() -> None:
        async with pair() as (ours, theirs):
            for number in range(3):
                await ours.send(bytes([number]), stream=2)
            waiting = asyncio.create_task(ours.reset_streams([5, 2]))
            await asyncio.sleep(0)
            # It waits for the reset, so that the peer learns of that first.
            await ours.send(b"new", stream=2)
            await waiting
            heard = [(await theirs.receive()).data for _ in range(4)]
            assert heard == [b"\x00", b"\x01", b"\x02", b"new"]
            events = theirs.events()
            assert {await anext(events), await anext(events)} == {
                sctp.StreamReset(2),
                sctp.StreamReset(5),
            }
            with pytest.raises(LiveError, match="there is no stream 10; they are numbered 0 to 9"):
                await ours.reset_streams([10])
            with pytest.raises(AnabranchError, match="stream is -1"):
                await ours.reset_streams([-1])
            await asyncio.gather(ours.reset_streams([1]), ours.reset_streams([1, 3]))
            await ours.shutdown()
            with pytest.raises(sctp.AssociationClosedError):
                await ours.reset_streams([1])

    run(work)


def test_a_peer_that_restarts_is_known_again() -> None:
    async def work() -> None:
        async with (
            sctp.Endpoint([LOOPBACK]) as server,
            server.listen(5001) as listener,
        ):
            udp_port = server.udp_port
            assert udp_port

            async def call(client: sctp.Endpoint) -> sctp.Association:
                return await client.connect(LOOPBACK, 5001, local_port=4000, udp_port=udp_port)

            async with sctp.Endpoint([LOOPBACK]) as client:
                first = await call(client)
                ours = await listener.accept()
                await first.send(b"before")
                assert (await ours.receive()).data == b"before"
                # Nothing more is to come here that nobody would be there for.
                while first.paths()[0].outstanding:
                    await asyncio.sleep(0.01)
                own_port = client.udp_port
            # The end has not been reported yet.
            async with sctp.Endpoint([LOOPBACK], udp_port=own_port) as client:
                second = await call(client)
                assert await anext(ours.events()) == sctp.Restarted()
                await second.send(b"after")
                assert (await ours.receive()).data == b"after"
                await ours.shutdown()
                await second.ended()
                assert (ours.reason, second.reason) == ("shutdown", "shutdown")

    run(work)


def test_an_end_moves_to_another_address() -> None:
    before, after = "127.0.0.11", "127.0.0.12"

    async def work() -> None:
        async with (
            sctp.Endpoint([LOOPBACK], shared_key=b"ours") as server,
            server.listen(5001) as listener,
            sctp.Endpoint([before], shared_key=b"ours") as client,
        ):
            assert server.udp_port
            ours = await client.connect(LOOPBACK, 5001, udp_port=server.udp_port)
            theirs = await listener.accept()
            await ours.add_address(after)
            ours.set_peer_primary(after)
            await ours.remove_address(before)
            seen: list[sctp.Event] = []
            async for event in theirs.events():
                seen.append(event)
                if event == sctp.AddressRemoved(before):
                    break
            assert sctp.AddressAdded(after) in seen
            await theirs.send(b"to where you are")
            assert (await ours.receive()).data == b"to where you are"
            await ours.send(b"thanks")
            assert (await theirs.receive()).data == b"thanks"
            with pytest.raises(LiveError, match="is the only one of the association"):
                await ours.remove_address(after)
            with pytest.raises(LiveError, match=r"192\.0\.2\.77.*cannot be bound"):
                await ours.add_address("192.0.2.77")
            await ours.shutdown()

    run(work)


def test_an_endpoint_connects_to_itself() -> None:
    here, there, more = LOOPBACK, "127.0.0.21", "127.0.0.22"

    async def work() -> None:
        async with sctp.Endpoint([here, there]) as endpoint, endpoint.listen(5001) as listener:
            assert endpoint.udp_port
            ours = await endpoint.connect(here, 5001, udp_port=endpoint.udp_port)
            theirs = await listener.accept()
            assert len(theirs.paths()) == 2
            await ours.add_address(more)
            await ours.send(b"to myself")
            assert (await theirs.receive()).data == b"to myself"
            await ours.shutdown()

    run(work)


def test_nobody_waits_at_the_port() -> None:
    async def work() -> None:
        async with sctp.Endpoint([LOOPBACK]) as server, sctp.Endpoint([LOOPBACK]) as client:
            assert server.udp_port
            with pytest.raises(sctp.AssociationClosedError, match="aborted"):
                await client.connect(LOOPBACK, 5001, udp_port=server.udp_port)

    run(work)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rto_max": "1"}, "rto_max: `1` is not a length of time"),
        ({"rto_maximum": "1 s"}, "unknown field `rto_maximum`"),
        ({"policy": {"kind": "best"}}, "policy"),
        ({"rto_max": object()}, "rto_max = .*: settings are texts, finite numbers"),
        ({"policy": {"kind": math.nan}}, r"policy\.kind = nan: settings are"),
    ],
)
def test_settings_that_are_none(settings: dict[str, object], sentence: str) -> None:
    async def work() -> None:
        async with sctp.Endpoint([LOOPBACK]) as client:
            with pytest.raises((ScenarioError, AnabranchError), match=sentence):
                await client.connect(LOOPBACK, 5001, settings=settings)

    run(work)


def test_arguments_that_are_none() -> None:
    async def work() -> None:
        with pytest.raises(AnabranchError, match="mtu is 500; it must be from 576 to 65535"):
            sctp.Endpoint(mtu=500)
        with pytest.raises(LiveError, match=r"192\.0\.2\.77.*cannot be bound"):
            async with sctp.Endpoint(["192.0.2.77"]):
                pass
        with pytest.raises(LiveError, match="address = `here` is not an address"):
            async with sctp.Endpoint(["here"]):
                pass
        with pytest.raises(LiveError, match="is not open"):
            await sctp.Endpoint().connect(LOOPBACK, 5001)
        async with pair() as (ours, _):
            with pytest.raises(AnabranchError, match="stream is 65536; it must be from 0 to 65535"):
                await ours.send(b"x", stream=65_536)
            with pytest.raises(LiveError, match="0 bytes on stream 0 cannot be sent"):
                await ours.send(b"")
            with pytest.raises(AnabranchError, match="retransmissions and lifetime are both given"):
                await ours.send(b"x", retransmissions=1, lifetime_ms=5)
            with pytest.raises(AnabranchError, match="path is 1; it must be from 0 to 0"):
                ours.set_primary(1)

    run(work)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"addresses": 5}, "addresses is 5; it must be a text or a sequence of texts"),
        ({"addresses": b"::1"}, "addresses is b'::1'; it must be a text or a sequence of texts"),
        ({"addresses": ["::1", None]}, r"addresses\[1\] is None; it must be a text"),
        ({"udp_port": "any"}, "udp_port is 'any'; it must be a whole number"),
        ({"tun": 1}, "tun is 1; it must be a text or a sequence of texts"),
        ({"mtu": 1500.0}, "mtu is 1500.0; it must be a whole number"),
        ({"mtu": 10**5000}, "mtu is a value of type int that is too long to write; it must be"),
        ({"most_accepted": None}, "most_accepted is None; it must be a whole number"),
        (
            {"shared_key": 10**10},
            "shared_key is 10000000000; it must be bytes of at most 65535 bytes",
        ),
        (
            {"shared_key": "secret"},
            "shared_key is 'secret'; it must be bytes of at most 65535 bytes",
        ),
        ({"shared_key": bytes(65_536)}, "it must be bytes of at most 65535 bytes"),
        ({"shared_key": bytearray(65_536)}, "it must be bytes of at most 65535 bytes"),
    ],
)
def test_arguments_of_an_endpoint_of_another_type(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AnabranchError, match=sentence):
        sctp.Endpoint(**arguments)
    sctp.Endpoint(LOOPBACK, shared_key=memoryview(b"secret"))


def test_arguments_of_another_type() -> None:
    wrong: Any = 5

    async def work() -> None:
        async with pair() as (ours, _):
            endpoint = sctp.Endpoint()
            for call, sentence in [
                (ours.send(wrong), "data is 5; it must be bytes"),
                (ours.send("text"), "data is 'text'; it must be bytes"),  # type: ignore[arg-type]
                (ours.send(b"x", stream="1"), "stream is '1'; it must be a whole number"),  # type: ignore[arg-type]
                (ours.send(b"x", ppid=1.5), "ppid is 1.5; it must be a whole number"),  # type: ignore[arg-type]
                (ours.send(b"x", unordered="no"), "unordered is 'no'; it must be True or False"),  # type: ignore[arg-type]
                (ours.send(b"x", lifetime_ms="1 s"), "lifetime_ms is '1 s'; it must be a whole"),  # type: ignore[arg-type]
                (ours.add_address(wrong), "address is 5; it must be the text of an address"),
                (ours.remove_address("here"), "address = `here` is not an address"),
                (ours.remove_address("a\x1b"), r"address = `a\\x1b` is not an address"),
                (endpoint.connect("a\nb", 1), r"host = `a\\nb` is neither an address"),
                (endpoint.connect(LOOPBACK, 1, patience=10**400), "patience is 1000.*above 0 that"),
                (endpoint.connect(LOOPBACK, 1, patience=10**5000), "patience is a value of type"),
                (ours.reset_streams(wrong), "streams is 5; it must be a sequence of the numbers"),
                (ours.reset_streams("1"), "stream is '1'; it must be a whole number"),  # type: ignore[arg-type]
                (endpoint.connect(wrong, 1), "host is 5; it must be a name or an address"),
                (endpoint.connect([LOOPBACK, wrong], 1), r"host\[1\] is 5; it must be a text"),
                (endpoint.connect(LOOPBACK, "1"), "port is '1'; it must be a whole number"),  # type: ignore[arg-type]
                (endpoint.connect(LOOPBACK, 1, settings=wrong), "settings is 5; it must be a map"),
                (endpoint.connect(LOOPBACK, 1, settings={1: 2}), r"settings is \{1: 2\}; it must"),  # type: ignore[dict-item]
            ]:
                with pytest.raises(AnabranchError, match=sentence):
                    await call
            with pytest.raises(AnabranchError, match="path is None; it must be a whole number"):
                ours.set_primary(None)  # type: ignore[arg-type]
            with pytest.raises(AnabranchError, match="address is 5; it must be the text of an"):
                ours.set_peer_primary(wrong)
            with pytest.raises(AnabranchError, match="settings is 5; it must be a mapping"):
                sctp.Talk(ours, wrong, calls=True)
        with pytest.raises(AnabranchError, match="settings is 5; it must be a mapping"):
            sctp.check_call(wrong)

    run(work)


FORKS = """
import asyncio, gc, os, sys
from anabranch import sctp
from anabranch.errors import AnabranchError

async def again():
    # An endpoint of its own.
    async with sctp.Endpoint(["127.0.0.1"]) as endpoint, endpoint.listen(5001) as listener:
        await endpoint.connect("127.0.0.1", 5001, udp_port=endpoint.udp_port)
        await (await listener.accept()).abort()
    print("again", flush=True)

def child(endpoint, ours, listener):
    async def exits():
        await endpoint.__aexit__(None, None, None)
    async def iterates():
        return [event async for event in ours.events()]
    async def leaves():
        async with ours:
            pass
    calls = [
        lambda: ours.send_now(b"x"), ours.paths, ours.scalars, lambda: ours.set_primary(0),
        lambda: endpoint.udp_port, lambda: ours.send(b"x"), ours.receive, ours.shutdown, ours.abort,
        ours.ended, iterates, leaves, lambda: ours.reset_streams([1]),
        lambda: ours.add_address("127.0.0.2"), listener.accept,
        lambda: endpoint.connect("127.0.0.1", 5001), exits,
    ]
    for call in calls:
        try:
            answer = call()
            if asyncio.iscoroutine(answer):
                async def bounded(answer=answer):
                    async with asyncio.timeout(200):
                        await answer
                asyncio.run(bounded())
        except AnabranchError as error:
            assert "which this one was forked from" in str(error), error
            print("refused", flush=True)
    endpoint._host = None
    gc.collect()
    asyncio.run(again())
    os._exit(0)

async def main():
    async with (
        sctp.Endpoint(["127.0.0.1"]) as endpoint,
        endpoint.listen(5001) as listener,
    ):
        ours = await endpoint.connect("127.0.0.1", 5001, udp_port=endpoint.udp_port)
        theirs = await listener.accept()
        process = os.fork()
        if process == 0:
            try:
                asyncio._set_running_loop(None)
                child(endpoint, ours, listener)
            finally:
                os._exit(1)
        while os.waitpid(process, os.WNOHANG) == (0, 0):
            await asyncio.sleep(0.05)
        # The parent's goes on.
        await ours.send(b"still there")
        print((await theirs.receive()).data.decode(), flush=True)

asyncio.run(main())
"""


def test_a_forked_process_is_told_that_an_endpoint_is_not_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=False, timeout=HANGS_S
    )
    assert done.stdout.split("\n") == [*["refused"] * 16, "again", "still there", ""], done
    assert done.returncode == 0, done


def test_a_call_has_the_scalars_of_a_simulated_one() -> None:
    lateness = []

    async def look() -> None:
        """How late a busy machine gets to this event loop, in ms."""
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.02)
            lateness.append((time.monotonic() - begun - 0.02) * 1e3)

    async def work() -> None:
        async with pair() as (ours, theirs):
            settings = {"duration": "1 s", "codec": "gsm-efr"}
            caller = sctp.Talk(ours, settings, calls=True)
            called = sctp.Talk(theirs, calls=False)
            looking = asyncio.create_task(look())
            outcomes = await asyncio.gather(caller.run(), called.run())
            looking.cancel()
            most = 100 + 10 * max(lateness)
            assert outcomes[0].scalars.keys() == outcomes[1].scalars.keys()
            for outcome in outcomes:
                for way in ("a_to_b", "b_to_a"):
                    assert outcome.scalars[f"{way}.sent"] == 50
                    assert outcome.scalars[f"{way}.received"] >= 40
                    assert 0 <= outcome.scalars[f"{way}.mean_delay_ms"] < most
                    assert 1 <= outcome.scalars[f"{way}.mos"] <= 4.5
                assert outcome.round_trip_ms < 900 + most
                worst = min(outcome.scalars[f"{way}.mos"] for way in ("a_to_b", "b_to_a"))
                assert f"the MOS is {worst:.2f}, " in outcome.sentence

    run(work)


def test_the_outcome_of_a_call_is_a_sentence() -> None:
    good = {"mos": 4.36, "lost": 1.0, "late": 2.0, "sent": 1500.0, "mean_delay_ms": 31.25}
    bad = good | {"mos": 3.2, "lost": 60.0}

    def sentence(**ways: dict[str, float]) -> str:
        scalars = {
            f"{way}.{name}": value for way, own in ways.items() for name, value in own.items()
        }
        return sctp.CallOutcome(scalars).sentence

    assert sentence(a_to_b=good, b_to_a=bad) == (
        "From the called end to the caller the MOS is 3.20, so many users are dissatisfied: 62 of"
        " 1,500 frames were not played, and they took 31.2 ms one way; from the caller to the"
        " called end it is 4.36."
    )
    assert sentence(a_to_b=good) == (
        "From the caller to the called end the MOS is 4.36, so users are very satisfied: 3 of 1,500"
        " frames were not played, and they took 31.2 ms one way; nothing is known of the other"
        " direction."
    )
    assert "2.00, which is not recommended" in sentence(a_to_b=good | {"mos": 2.0})
    assert sentence() == "Neither end heard enough of the other to rate the call."
    assert sentence(a_to_b={"mos": math.nan}) == sentence()


def test_an_endpoint_that_fails_says_why_to_everybody() -> None:
    """The engine's reports when its thread has ended; nothing is known that makes it end."""
    sentence = "the endpoint's thread has ended: this is a bug: a state that cannot be"

    class Failed:
        def __init__(self, host: object) -> None:
            self._host = host

        def __getattr__(self, name: str) -> object:
            return getattr(self._host, name)

        def news(self) -> list[object]:
            raise LiveError(sentence)

    async def work() -> None:
        async with (
            sctp.Endpoint([LOOPBACK]) as server,
            server.listen(5001) as listener,
            sctp.Endpoint([LOOPBACK]) as client,
        ):
            assert server.udp_port
            ours = await client.connect(LOOPBACK, 5001, udp_port=server.udp_port)
            theirs = await listener.accept()
            receiving = asyncio.create_task(theirs.receive())
            accepting = asyncio.create_task(listener.accept())
            await asyncio.sleep(0)
            server._host = Failed(server._host)  # type: ignore[assignment]
            failed = pytest.raises(sctp.AssociationClosedError, match=r"has failed: .* cannot be")
            with failed as told:
                await receiving
            assert told.value.reason == theirs.reason == "failed"
            with pytest.raises(LiveError, match=sentence):
                await accepting
            await ours.abort()

    run(work)


def test_associations_that_nobody_accepts_are_no_more_than_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anabranch.live.endpoint.BACKLOG", 3)

    async def work() -> None:
        async with (
            sctp.Endpoint([LOOPBACK]) as server,
            server.listen(5001) as listener,
            sctp.Endpoint([LOOPBACK]) as client,
        ):
            assert server.udp_port
            opened = [
                await client.connect(LOOPBACK, 5001, udp_port=server.udp_port) for _ in range(5)
            ]
            await opened[3].ended()
            await opened[4].ended()
            assert [end.reason for end in opened] == [None, None, None, "aborted", "aborted"]
            for _ in range(3):
                await (await listener.accept()).abort()

    run(work)


def test_associations_that_a_listener_leaves_behind_are_aborted() -> None:
    async def work() -> None:
        async with sctp.Endpoint([LOOPBACK]) as server, sctp.Endpoint([LOOPBACK]) as client:
            assert server.udp_port
            async with server.listen(5001) as listener:
                connect = [client.connect(LOOPBACK, 5001, udp_port=server.udp_port) for _ in "ab"]
                one, other = await asyncio.gather(*connect)
                given = await listener.accept()
                while not listener._accepted:
                    await asyncio.sleep(0.01)
            with pytest.raises(LiveError, match="the listener has been closed"):
                await listener.accept()
            await asyncio.wait(
                [asyncio.create_task(end.ended()) for end in (one, other)],
                return_when=asyncio.FIRST_COMPLETED,
            )
            assert {one.reason, other.reason} == {None, "aborted"}
            assert given.reason is None

    run(work)


def test_what_an_association_says_after_its_end() -> None:
    async def work() -> None:
        endpoint = sctp.Endpoint([LOOPBACK])
        for _ in range(2):  # it may be opened again
            async with endpoint, endpoint.listen(5001):
                assert endpoint.udp_port
                ours = await endpoint.connect(LOOPBACK, 5001, udp_port=endpoint.udp_port)
                assert ours.reason is None
            assert not ours.paths()
            assert not ours.scalars()
            await ours.shutdown()
            await ours.abort()
            with pytest.raises(sctp.AssociationClosedError, match="aborted"):
                ours.set_primary(0)
        async with pair() as (ours, theirs):
            await theirs.send(b"so that it has an end to wait for")
            theirs._host.command(theirs._number, "shutdown")
            with pytest.raises(sctp.AssociationClosedError, match="is closing") as closed:
                await theirs.send(b"too late")
            assert closed.value.reason == "closing"
            await ours.receive()
            await theirs.ended()

    run(work)


def test_a_transfer_goes_on_beside_noise() -> None:
    """Datagrams from an unrelated socket to the server's port."""

    async def work() -> None:
        async with pair() as (ours, theirs):
            port = theirs._host.udp_port
            assert port
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
                for number in range(300):
                    for length in range(10):
                        noise = (number * length).to_bytes(4, "big") * (8 * length)
                        attacker.sendto(noise, (LOOPBACK, port))
                    await ours.send(number.to_bytes(4, "big") * 500)
                    assert (await theirs.receive()).data == number.to_bytes(4, "big") * 500
            associations, malformed = theirs._host.counts()
            assert associations == 1
            assert malformed > 0

    run(work)


def test_what_is_no_call_is_said() -> None:
    async def asks(settings: bytes) -> None:
        async with pair() as (ours, theirs):
            await ours.send(b'{"call": ' + settings + b"}", stream=1)
            with pytest.raises(LiveError, match=r"an impossible call: .*codec"):
                await sctp.Talk(theirs, calls=False).run()

    async def ends() -> None:
        async with pair() as (ours, theirs):
            call = asyncio.create_task(sctp.Talk(theirs, calls=False).run())
            await asyncio.sleep(0.3)
            await ours.abort()
            with pytest.raises(sctp.AssociationClosedError, match="aborted"):
                await call

    async def heard(what: bytes) -> None:
        async with pair() as (ours, theirs):
            caller = sctp.Talk(ours, {"duration": "0.2 s"}, calls=True)
            called = sctp.Talk(theirs, calls=False)
            _, outcome = await asyncio.gather(caller.run(), said(ours, what, called))
            assert not [value for value in outcome.scalars.values() if abs(value) >= 1e15]
            assert not [name for name in outcome.scalars if "[" in name]

    async def said(end: sctp.Association, what: bytes, call: sctp.Talk) -> sctp.CallOutcome:
        await end.send(what, stream=1)
        return await call.run()

    run(lambda: asks(b'{"codec": "tin can"}'))
    run(ends)
    run(lambda: heard(b"[" * 100_000))
    run(lambda: heard(b'{"heard": {"[/x]": 1, "mos": 1' + b"0" * 400 + b"}}"))
