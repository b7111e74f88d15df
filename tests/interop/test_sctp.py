"""Our SCTP against stacks that nobody here wrote: every octet arrives, whatever the network does.

1 MB each way; with INTEROP=full (`make validate`) 100 MB. Each test is a cell of docs/interop.md,
where `tools/interop_page.py` writes what came of it; the fixture `cell` says which.
"""

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
import time

import namespaces
import payload
import peers
import pytest
import tunnels
from namespaces import Network
from peers import (
    ANABRANCH,
    DCSCTP,
    IS_FULL,
    LIMIT_S,
    PION,
    USRSCTP,
    Cell,
    Load,
    Outcome,
    Peer,
    slow,
)
from running import PATIENCE_S, Running

from anabranch import sctp

BULK = Load(messages=100_000 if IS_FULL else 1000)

LOSSES = {
    "0 %": (),
    "1 %": ("--loss", "0.01", "--reorder", "0.01", "--duplicate", "0.01", "--delay", "0.5"),
    "5 %": ("--loss", "0.05", "--reorder", "0.02", "--duplicate", "0.02", "--delay", "0.5"),
}
# How long, in ms, an end waits for what the network lost of the other's shutdown.
LINGER = ("--linger", "2500")

SACK_DELAY = 0.2  # seconds that our end waits before it acknowledges a single packet

# Timers are short enough for 100 MB at 5 % loss, where retransmissions are lost, too; pion alone
# has 1 s at least all the same.
TIMERS = ("--rto-min", "100")
FAILOVER = ("--rto-min", "100", "--heartbeat", "200", "--path-max-retrans", "2")


@pytest.fixture
def root() -> None:
    """Namespaces can be made."""
    lacks = namespaces.missing()
    if lacks:
        pytest.skip(f"left out, since {lacks}")


def ends(ours: str, other: Peer) -> tuple[Peer, Peer]:
    """Which end listens and which one connects."""
    return (ANABRANCH, other) if ours == "listens" else (other, ANABRANCH)


def exact(outcome: Outcome, *, is_ordered: bool = True) -> None:
    """Both ways every octet has arrived, once and in order."""
    assert peers.wrong(outcome.connect, outcome.listen, is_ordered=is_ordered) == []
    assert peers.wrong(outcome.listen, outcome.connect, is_ordered=is_ordered) == []


def lingering(load: Load, loss: str) -> Load:
    if not LOSSES[loss]:
        return load
    return dataclasses.replace(load, options=(*load.options, *TIMERS, *LINGER))


EACH_LOSS = pytest.mark.parametrize(
    "loss", [pytest.param("0 %"), pytest.param("1 %", marks=slow), pytest.param("5 %")]
)
BOTH = pytest.mark.parametrize("ours", ["listens", "connects"])
ALL = pytest.mark.parametrize("other", peers.PEERS, ids=str)


@EACH_LOSS
@BOTH
@ALL
def test_bulk_both_ways(other: Peer, ours: str, loss: str, cell: Cell) -> None:
    feature = f"bulk over UDP, {loss} loss, ours {ours}"
    cell(feature, other)
    peers.available(ANABRANCH, other)
    # Stacks that cannot begin a shutdown can answer it, so ours always begins.
    closer = "listen" if ours == "listens" else "connect"
    load = lingering(dataclasses.replace(BULK, closer=closer), loss)
    outcome = peers.over_loopback(*ends(ours, other), load, LOSSES[loss])
    cell(feature, other, outcome.mb_per_s)
    exact(outcome)
    assert (outcome.listen.end, outcome.connect.end) == ("shutdown", "shutdown")


@pytest.mark.usefixtures("root")
@EACH_LOSS
@BOTH
def test_bulk_over_raw_ip(ours: str, loss: str, cell: Cell) -> None:
    feature = f"bulk over IP, {loss} loss, ours {ours}"
    cell(feature, USRSCTP)
    peers.available(ANABRANCH, USRSCTP)
    network = Network(1, peers.relay(), [LOSSES[loss]])
    with network.running():
        load = lingering(BULK, loss)
        outcome = peers.over_network(network, *ends(ours, USRSCTP), load, is_raw=True)
    cell(feature, USRSCTP, outcome.mb_per_s)
    exact(outcome)
    assert (outcome.listen.end, outcome.connect.end) == ("shutdown", "shutdown")
    assert (network.reports[0]["forward"]["lost"] > 0) == (loss != "0 %")


@BOTH
@pytest.mark.parametrize("paths", [1, 2])
def test_bulk_over_tun(ours: str, paths: int, cell: Cell) -> None:
    """Ours behind TUN devices, libusrsctp on raw IP in the same namespace."""
    feature = f"bulk over TUN, {paths} path{'s' * (paths > 1)}, ours {ours}"
    cell(feature, USRSCTP)
    lacks = tunnels.missing()
    if lacks:
        pytest.skip(f"left out, since {lacks}")
    peers.available(ANABRANCH, USRSCTP)
    with tunnels.Tunnels(paths).running() as space:
        outcome = tunnels.sctp_pair(space, USRSCTP, BULK, ours_listens=ours == "listens")
    cell(feature, USRSCTP, outcome.mb_per_s)
    exact(outcome)
    assert (outcome.listen.end, outcome.connect.end) == ("shutdown", "shutdown")


def test_the_command_over_tun() -> None:
    """`--tun` at one end, `--raw` at the other."""
    lacks = tunnels.missing()
    if lacks:
        pytest.skip(f"left out, since {lacks}")
    command = [sys.executable, "-m", "anabranch", "sctp"]
    device = f"t0={tunnels.ours()}"
    with tunnels.Tunnels(1).running() as space, contextlib.ExitStack() as stack:
        waiting = space.command([*command, "listen", "5001", "--echo", "--tun", device])
        server = stack.enter_context(subprocess.Popen(waiting, stderr=subprocess.PIPE, text=True))
        stack.callback(server.kill)
        assert server.stderr is not None
        said = server.stderr.readline()
        assert "5001" in said
        line = [*command, "connect", tunnels.ours(), "5001", "--raw", "--address", tunnels.kernel()]
        done = subprocess.run(
            space.command(line),
            input="hello\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "hello\n"
        assert server.wait(PATIENCE_S) == 0


@ALL
def test_messages_of_all_sizes_on_many_streams(other: Peer, cell: Cell) -> None:
    cell("64 streams, messages of 8 to 60,000 octets", other)
    peers.available(ANABRANCH, other)
    count = 3400 if IS_FULL else 200
    load = Load(count, size="8-60000", streams=64, options=LINGER)
    exact(peers.over_loopback(other, ANABRANCH, load, LOSSES["1 %"]))


@ALL
def test_unordered_messages(other: Peer, cell: Cell) -> None:
    cell("unordered", other)
    peers.available(ANABRANCH, other)
    load = dataclasses.replace(BULK, size="8-3000", options=("--unordered", *TIMERS, *LINGER))
    if IS_FULL:
        load = dataclasses.replace(load, messages=67_000)
    outcome = peers.over_loopback(other, ANABRANCH, load, LOSSES["5 %"])
    exact(outcome, is_ordered=False)
    assert min(outcome.listen.out_of_order, outcome.connect.out_of_order) > 0


@pytest.mark.parametrize("limit", ["--retransmissions=0", "--lifetime=5"])
@pytest.mark.parametrize("sender", ["ours", pytest.param("theirs", marks=slow)])
@ALL
def test_partial_reliability(other: Peer, sender: str, limit: str, cell: Cell) -> None:
    way = "to them" if sender == "ours" else "from them"
    cell(f"PR-SCTP, {limit.strip('-').split('=')[0]}, {way}", other)
    if other is PION and sender == "theirs" and "lifetime" in limit:
        # association.go: `since` is set anew before the age is looked at.
        pytest.xfail("pion 1.12.1 never gives up by time")
    peers.available(ANABRANCH, other)
    # Two timeouts of a second in two seconds of sending would leave next to no message in time.
    options = (*limit.split("="), *TIMERS, *LINGER)
    # Losses are known after 20 ms and more: no message is worth sending again then.
    load = Load(messages=2000, back=0, rate=1000, options=options, is_counted=False)
    pair = (other, ANABRANCH) if sender == "ours" else (ANABRANCH, other)
    if not pair[1].has_shutdown:
        load = dataclasses.replace(load, close="abort")
    outcome = peers.over_loopback(*pair, load, ("--loss", "0.05", "--delay", "10"))
    assert peers.damaged(outcome.listen) == []
    assert 100 < outcome.listen.received_messages < 2000
    if sender == "ours":
        # An abandoned message may have arrived all the same.
        lost = 2000 - outcome.listen.received_messages
        assert lost <= outcome.connect.abandoned


@pytest.mark.parametrize("other", [USRSCTP, DCSCTP, PION], ids=str)
def test_interleaved_messages(other: Peer, cell: Cell) -> None:
    cell("I-DATA (RFC 8260)", other)
    peers.available(ANABRANCH, other)
    count = 3400 if IS_FULL else 200
    options = ("--interleaving", *LINGER)
    load = Load(count, size="8-60000", options=options)
    exact(peers.over_loopback(other, ANABRANCH, load, LOSSES["1 %"]))


@BOTH
def test_nr_sacks(ours: str, cell: Cell) -> None:
    cell(f"NR-SACK, ours {ours}", USRSCTP)
    peers.available(ANABRANCH, USRSCTP)
    load = Load(2000, size="8-3000", options=("--nr-sack", *TIMERS, *LINGER))
    exact(peers.over_loopback(*ends(ours, USRSCTP), load, LOSSES["5 %"]))


@pytest.mark.parametrize("interleaving", [False, True], ids=["", "I-DATA"])
@pytest.mark.parametrize("by", ["us", "them"])
@ALL
def test_stream_resets(other: Peer, by: str, interleaving: bool, cell: Cell) -> None:  # noqa: FBT001
    words = ", I-DATA" if interleaving else ""
    cell(f"streams reset by {by} (RFC 6525){words}", other)
    if interleaving and not other.has_interleaving:
        pytest.skip(f"{other} has no I-DATA")
    peers.available(ANABRANCH, other)
    options = (*(["--interleaving"] if interleaving else []), *LINGER)
    pair = (other, ANABRANCH) if by == "us" else (ANABRANCH, other)
    # Ours begins the end: not all can, and dcsctp drops what has to be sent again. pion resets when
    # all has arrived, where ours would end already: so it begins the end itself.
    closer = "connect" if by == "us" or other == PION else "listen"
    of_client = ("--reset-streams",)
    load = Load(1000, back=0, streams=4, options=options, of_client=of_client, closer=closer)
    outcome = peers.over_loopback(*pair, load, LOSSES["1 %"])
    exact(outcome)
    for end in (outcome.connect, outcome.listen):
        assert (end.resets_failed, end.errors) == (0, [])
    assert (outcome.connect.resets_sent, outcome.listen.resets_received) == (4, 4)


@pytest.mark.parametrize("other", [USRSCTP], ids=str)
def test_a_peer_that_restarts(other: Peer, cell: Cell) -> None:
    """It is killed and opens the association again, which still lives at our end (5.2.4)."""
    cell("restart of the peer", other)
    peers.available(ANABRANCH, other)
    server, client = peers.free_ports(2)
    load = Load(1000, back=0, rate=500, options=LINGER)
    listens = peers.on_loopback(ANABRANCH, "listen", load, (server, client))
    connects = peers.on_loopback(other, "connect", load, (client, server))
    with contextlib.ExitStack() as stack:
        ours = peers.PeerAtWork(listens)
        stack.callback(ours.stop)
        ours.wait_for("listening")
        first = peers.PeerAtWork(connects)
        stack.callback(first.stop)
        ours.wait_for("received", messages=200)
        first.stop()
        # Our last SACK is sent by then. If it met the second program before that asks to open the
        # association, it would be answered with an ABORT, and nothing would restart.
        time.sleep(5 * SACK_DELAY)
        second = peers.PeerAtWork(connects)
        stack.callback(second.stop)
        ours.wait_for("restarted")
        outcome = Outcome(connect=second.report(PATIENCE_S), listen=ours.report(PATIENCE_S))
    exact(outcome)
    assert outcome.listen.more["restarts"] == 1
    assert (outcome.listen.end, outcome.connect.end) == ("shutdown", "shutdown")


def test_addresses_that_come_and_go(cell: Cell) -> None:
    """Ours moves to another address, and theirs reports the result (RFC 5061, 4895)."""
    cell("addresses that come and go", USRSCTP)
    peers.available(USRSCTP)
    before, after = "127.0.0.1", "127.0.0.2"
    [port] = peers.free_ports(1)

    async def work() -> peers.Report:
        async with sctp.Endpoint([before]) as endpoint:
            assert endpoint.udp_port
            load = Load(20, back=0, streams=1, closer="listen", options=LINGER)
            theirs = peers.PeerAtWork(
                peers.on_loopback(USRSCTP, "listen", load, (port, endpoint.udp_port))
            )
            with contextlib.ExitStack() as stack:
                stack.callback(theirs.stop)
                theirs.wait_for("listening")
                ours = await endpoint.connect(before, 5000, udp_port=port)
                for index in range(20):
                    if index == 5:
                        await ours.add_address(after)
                        ours.set_peer_primary(after)
                    if index == 10:
                        await ours.remove_address(before)
                    await ours.send(payload.filled(0, index, payload.sizes("1000")))
                await ours.ended()
                assert ours.reason == "shutdown"
                return theirs.report(PATIENCE_S)

    report = asyncio.run(asyncio.wait_for(work(), LIMIT_S))
    assert (report.received_messages, report.corrupt, report.errors) == (20, 0, [])
    events = [event.partition(" ")[2] for event in report.path_events]
    assert [f"{after} added", f"{after} primary", f"{before} removed"] == [
        event for event in events if "confirmed" not in event
    ]


@BOTH
@ALL
def test_a_shutdown_of_theirs(other: Peer, ours: str, cell: Cell) -> None:
    cell(f"shutdown by them, ours {ours}", other)
    if not other.has_shutdown:
        pytest.skip(f"{other} cannot begin one")
    peers.available(ANABRANCH, other)
    closer = "connect" if ours == "listens" else "listen"
    outcome = peers.over_loopback(*ends(ours, other), Load(closer=closer))
    exact(outcome)
    assert (outcome.listen.end, outcome.connect.end) == ("shutdown", "shutdown")


@pytest.mark.parametrize("by", ["us", "them"])
@ALL
def test_an_abort(other: Peer, by: str, cell: Cell) -> None:
    cell(f"abort by {by}", other)
    peers.available(ANABRANCH, other)
    pair = (other, ANABRANCH) if by == "us" else (ANABRANCH, other)
    outcome = peers.over_loopback(*pair, Load(messages=100, close="abort"))
    assert (outcome.listen.end, outcome.connect.end) == ("aborted", "aborted")


@ALL
def test_corruption_costs_time_only(other: Peer, cell: Cell) -> None:
    cell("2 % of the packets with a flipped bit", other)
    peers.available(ANABRANCH, other)
    load = dataclasses.replace(BULK, messages=min(BULK.messages, 10_000), options=LINGER)
    outcome = peers.over_loopback(other, ANABRANCH, load, ("--corrupt", "0.02"))
    assert outcome.relays[0]["forward"]["corrupted"] > 0
    exact(outcome)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("cut", ["silent", pytest.param("no carrier", marks=slow)])
@pytest.mark.parametrize("carrier", ["IP", "UDP"])
@BOTH
def test_a_transfer_survives_its_path(ours: str, carrier: str, cut: str, cell: Cell) -> None:
    cell(f"failover over {carrier}, {cut}, ours {ours}", USRSCTP)
    peers.available(ANABRANCH, USRSCTP)
    # A path that is restored is heard of within RTO.Max and a half, and the interval of heartbeats.
    seconds = 67 if IS_FULL else 10
    load = Load(messages=1500 * seconds, rate=1500, options=(*FAILOVER, *LINGER))
    network = Network(2, peers.relay() if cut == "silent" else None)

    def meanwhile(server: Running, _client: Running) -> None:
        server.wait_for("received", messages=load.messages // 5)
        network.cut(0)
        server.wait_for("received", messages=load.messages // 5 * 2)
        time.sleep(1.0)
        network.restore(0)

    with network.running():
        pair = ends(ours, USRSCTP)
        is_raw = carrier == "IP"
        outcome = peers.over_network(network, *pair, load, is_raw=is_raw, meanwhile=meanwhile)
    exact(outcome)
    for end, lost in ((outcome.connect, "10.77.0.2"), (outcome.listen, "10.77.0.1")):
        events = [event.split(" ", 1)[1] for event in end.path_events]
        assert f"{lost} unreachable" in events
        after = events[events.index(f"{lost} unreachable") :]
        assert f"{lost} available" in after
