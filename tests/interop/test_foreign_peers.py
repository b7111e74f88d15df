"""The other stacks among themselves: what the tests of our own stack rest on.

A peer, a relay or a check that is wrong shows here, where none of ours takes part. 1 MB each way;
with INTEROP=full (`make validate`) 100 MB.
"""

import dataclasses
import time

import namespaces
import peers
import pytest
from namespaces import Network
from peers import AIORTC, DCSCTP, IS_FULL, PION, USRSCTP, Load, Peer, available, slow
from running import Running

BULK = Load(messages=100_000 if IS_FULL else 1000)

# A relay that loses; with it, ends wait for what must be said again.
LOSSES = {
    "clean": (),
    "1 %": ("--loss", "0.01", "--reorder", "0.01", "--duplicate", "0.01", "--delay", "0.5"),
    "5 %": ("--loss", "0.05", "--reorder", "0.02", "--duplicate", "0.02", "--delay", "0.5"),
}
LINGER = ("--linger", "2500")

PAIRS = [
    (listen, connect)
    for listen in peers.PEERS
    for connect in peers.PEERS
    if USRSCTP in (listen, connect) and listen is not connect
] + [(DCSCTP, PION)]


def closing(load: Load, listen: Peer, connect: Peer) -> Load:
    """The same load; the end is begun by a peer that can begin it."""
    if connect.has_shutdown or not listen.has_shutdown:
        return load
    return dataclasses.replace(load, closer="listen")


@pytest.fixture
def root() -> None:
    """Namespaces can be made."""
    lacks = namespaces.missing()
    if lacks:
        pytest.skip(f"left out, since {lacks}")


@slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("listen", "connect"), PAIRS, ids=str)
def test_bulk_both_ways(listen: Peer, connect: Peer, loss: str) -> None:
    available(listen, connect)
    load = closing(
        dataclasses.replace(BULK, options=LINGER if loss != "clean" else ()), listen, connect
    )
    if connect.lists_addresses and not listen.takes_addresses:
        load = dataclasses.replace(load, timeout=5)
        outcome = peers.over_loopback(listen, connect, load, LOSSES[loss])
        # RFC 9260, 3.2.1: what is not known is skipped, or ends the reading of the chunk; pion
        # drops the packet, and so never answers usrsctp, whose INIT lists addresses.
        assert not outcome.listen.established
        return
    outcome = peers.over_loopback(listen, connect, load, LOSSES[loss])
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []
    assert (outcome.listen.end, outcome.connect.end) == ("shutdown", "shutdown")
    counted = outcome.relays[0]["forward"]
    assert (counted["lost"] > 0) == (loss != "clean")


@pytest.mark.parametrize("sender", peers.PEERS, ids=str)
def test_a_wrong_octet_is_found(sender: Peer) -> None:
    receiver = DCSCTP if sender is USRSCTP else USRSCTP
    available(sender, receiver)
    load = Load(messages=200, back=0, options=("--wrong-byte", "77"))
    outcome = peers.over_loopback(receiver, sender, closing(load, receiver, sender))
    assert outcome.listen.corrupt == 1
    assert outcome.listen.received_messages == 200
    # Digests are those of the sent data, so only the wrong octet shows.
    assert peers.wrong(outcome.connect, outcome.listen) == ["1 messages are corrupt"]


@pytest.mark.parametrize("receiver", peers.PEERS, ids=str)
def test_a_wrong_octet_is_found_by(receiver: Peer) -> None:
    sender = DCSCTP if receiver in (USRSCTP, PION) else USRSCTP
    available(sender, receiver)
    load = Load(messages=200, back=0, size="8-3000", options=("--wrong-byte", "77"))
    outcome = peers.over_loopback(receiver, sender, load)
    assert (outcome.listen.corrupt, outcome.listen.received_messages) == (1, 200)


def test_checksums_find_what_the_relay_corrupts() -> None:
    available(USRSCTP, DCSCTP)
    load = dataclasses.replace(BULK, options=LINGER)
    outcome = peers.over_loopback(USRSCTP, DCSCTP, load, ("--corrupt", "0.02"))
    assert outcome.relays[0]["forward"]["corrupted"] > 0
    assert outcome.listen.more["checksum_errors"] > 0
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []


@slow
@pytest.mark.parametrize("other", [DCSCTP, PION, AIORTC], ids=str)
def test_unordered_messages_of_all_sizes(other: Peer) -> None:
    available(USRSCTP, other)
    load = dataclasses.replace(BULK, messages=1000, size="8-5000", options=("--unordered", *LINGER))
    outcome = peers.over_loopback(USRSCTP, other, closing(load, USRSCTP, other), LOSSES["5 %"])
    assert peers.wrong(outcome.connect, outcome.listen, is_ordered=False) == []
    assert peers.wrong(outcome.listen, outcome.connect, is_ordered=False) == []
    assert outcome.listen.out_of_order > 0


@slow
@pytest.mark.parametrize("limit", ["--retransmissions=0", "--lifetime=5"])
@pytest.mark.parametrize("sender", peers.PEERS, ids=str)
def test_partial_reliability_gives_up_messages(sender: Peer, limit: str) -> None:
    if sender is PION and "lifetime" in limit:
        pytest.xfail(
            "pion 1.12.1 counts a message's age from when it was sent last, so it never ends"
        )
    receiver = DCSCTP if sender is USRSCTP else USRSCTP
    available(sender, receiver)
    options = (*limit.split("="), *LINGER)
    # A loss is known after 20 ms or more, when no message is worth sending again.
    load = Load(messages=2000, back=0, rate=1000, options=options, is_counted=False)
    if not sender.has_shutdown:
        load = dataclasses.replace(load, close="abort")
    outcome = peers.over_loopback(receiver, sender, load, ("--loss", "0.05", "--delay", "10"))
    assert peers.damaged(outcome.listen) == []
    # dcsctp drops messages that are too old to be sent at all, which with a lifetime of 5 ms is
    # most.
    assert 100 < outcome.listen.received_messages < 2000


@pytest.mark.parametrize("other", [DCSCTP, AIORTC], ids=str)
def test_streams_are_reset_in_the_middle(other: Peer) -> None:
    available(USRSCTP, other)
    load = Load(messages=600, back=1000, options=("--reset-streams",))
    outcome = peers.over_loopback(USRSCTP, other, closing(load, USRSCTP, other))
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []
    for end in (outcome.listen, outcome.connect):
        assert (end.resets_sent, end.resets_received, end.resets_failed) == (4, 4, 0)


def test_pion_resets_streams_at_the_end() -> None:
    # One way only: after a reset by usrsctp, pion 1.12.1 delivers nothing more in one run of three.
    available(USRSCTP, PION)
    load = Load(messages=600, back=0, options=("--reset-streams",))
    outcome = peers.over_loopback(USRSCTP, PION, load)
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert (outcome.connect.resets_sent, outcome.listen.resets_received) == (4, 4)


@slow
@pytest.mark.parametrize(("listen", "connect"), [(USRSCTP, DCSCTP), (USRSCTP, PION)], ids=str)
def test_interleaved_messages(listen: Peer, connect: Peer) -> None:
    available(listen, connect)
    load = Load(messages=300, size="8-50000", options=("--interleaving", *LINGER))
    outcome = peers.over_loopback(listen, connect, load, LOSSES["1 %"])
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []


@pytest.mark.parametrize("aborting", peers.PEERS, ids=str)
def test_an_abort_is_seen(aborting: Peer) -> None:
    other = DCSCTP if aborting is USRSCTP else USRSCTP
    available(aborting, other)
    outcome = peers.over_loopback(other, aborting, Load(messages=100, close="abort"))
    assert (outcome.listen.end, outcome.connect.end) == ("aborted", "aborted")


def test_what_the_network_does_is_borne() -> None:
    available(USRSCTP, DCSCTP)
    load = dataclasses.replace(BULK, options=LINGER)
    outcome = peers.over_loopback(USRSCTP, DCSCTP, load, LOSSES["5 %"])
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []
    counted = outcome.relays[0]["forward"]
    assert min(counted["lost"], counted["reordered"], counted["duplicated"]) > 0


def test_echoes_come_back() -> None:
    available(USRSCTP, DCSCTP)
    load = Load(back=0, is_counted=False, of_client=("--receive", "1000"), of_server=("--echo",))
    outcome = peers.over_loopback(USRSCTP, DCSCTP, load)
    assert outcome.listen.sent_messages == 1000
    assert outcome.connect.received_digests == outcome.connect.sent_digests


@slow
@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("is_raw", [True, False], ids=["raw IP", "UDP"])
@pytest.mark.parametrize("loss", LOSSES)
def test_bulk_between_hosts(loss: str, is_raw: bool) -> None:  # noqa: FBT001
    available(USRSCTP)
    load = dataclasses.replace(BULK, options=LINGER if loss != "clean" else ())
    network = Network(1, peers.relay(), [LOSSES[loss]])
    with network.running():
        outcome = peers.over_network(network, USRSCTP, USRSCTP, load, is_raw=is_raw)
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []
    assert (network.reports[0]["forward"]["lost"] > 0) == (loss != "clean")


FAILOVER = ("--rto-min", "100", "--heartbeat", "200", "--path-max-retrans", "2")


@slow
@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("is_relayed", [True, False], ids=["silent", "no carrier"])
@pytest.mark.parametrize("is_raw", [True, False], ids=["raw IP", "UDP"])
def test_a_transfer_survives_its_path(is_raw: bool, is_relayed: bool) -> None:  # noqa: FBT001
    available(USRSCTP)
    load = Load(messages=7500, rate=1500, options=(*FAILOVER, *LINGER))
    network = Network(2, peers.relay() if is_relayed else None)

    def cut(server: Running, client: Running) -> None:
        client.wait_for("established")
        server.wait_for("received", messages=1200)
        network.cut(0)
        server.wait_for("received", messages=3000)
        time.sleep(1.0)
        network.restore(0)

    with network.running():
        outcome = peers.over_network(network, USRSCTP, USRSCTP, load, is_raw=is_raw, meanwhile=cut)
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []
    lost = [event for event in outcome.connect.path_events if "10.77.0.2 unreachable" in event]
    back = [event for event in outcome.connect.path_events if "10.77.0.2 available" in event]
    assert lost
    assert back
