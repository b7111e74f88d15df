"""TCP and MPTCP of the kernel and gVisor's TCP among themselves: peers for the tests of ours."""

import contextlib
import dataclasses
import subprocess
from collections.abc import Iterator

import namespaces
import peers
import pytest
from namespaces import Network
from peers import GVISOR, KERNEL, Load

LOAD = Load(messages=2000, size="8-3000", streams=1)
LOSS = ("--loss", "0.02", "--reorder", "0.01", "--delay", "2")


@pytest.fixture(autouse=True)
def root() -> None:
    lacks = namespaces.missing()
    if lacks:
        pytest.skip(f"left out, since {lacks}")


def exact(outcome: peers.Outcome) -> None:
    assert peers.wrong(outcome.connect, outcome.listen) == []
    assert peers.wrong(outcome.listen, outcome.connect) == []
    assert (outcome.listen.end, outcome.connect.end) == ("shutdown", "shutdown")


def kernel(network: Network, *options: str, load: Load = LOAD) -> peers.Outcome:
    """The kernel with itself, from host 0 to host 1."""
    commands = []
    for host, role in ((1, "listen"), (0, "connect")):
        ends = (network.addresses(host)[:1], network.addresses(1 - host)[:1])
        line = [*KERNEL.command(), *peers.words(load, role, ends), *options]
        commands.append(network.command(host, line))
    return peers.run_pair(commands[0], commands[1], load)


@pytest.mark.parametrize("congestion", ["reno", "cubic", "bbr"])
def test_tcp_of_the_kernel(congestion: str) -> None:
    with Network(1, peers.relay(), [LOSS]).running() as network:
        outcome = kernel(network, "--congestion", congestion, "--buffer", "1000000")
    exact(outcome)
    assert outcome.connect.more["congestion"] == congestion
    assert outcome.connect.more["retransmitted"] > 0


def test_mptcp_of_the_kernel_joins_a_second_path() -> None:
    with Network(2, peers.relay(), [("--delay", "2")]).running() as network:
        for host in (0, 1):
            limits = ["ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2"]
            subprocess.run(network.command(host, limits), check=True)
        # The server tells its second address; the way there begins at the client's second one.
        second = ["ip", "mptcp", "endpoint", "add", network.addresses(1)[1], "signal"]
        subprocess.run(network.command(1, second), check=True)
        # So much that a join on a busy machine comes before the end.
        load = dataclasses.replace(LOAD, messages=10_000)
        outcome = kernel(network, "--protocol", "mptcp", load=load)
    exact(outcome)
    assert (outcome.connect.more["subflows"], outcome.connect.more["fallback"]) == (2, False)
    assert all(report["forward"]["carried"] > 10 for report in network.reports)


@contextlib.contextmanager
def tun(network: Network) -> Iterator[str]:
    """A TUN device in host 0, whose kernel has 10.78.0.1 on it."""
    space = network.hosts[0]
    for words in (
        ["tuntap", "add", "tun0", "mode", "tun"],
        ["addr", "add", "10.78.0.1/24", "dev", "tun0"],
        ["link", "set", "tun0", "up"],
    ):
        subprocess.run(["ip", "-n", space, *words], check=True)
    yield "tun0"


@pytest.mark.parametrize("congestion", ["reno", "cubic"])
@pytest.mark.parametrize("listener", ["kernel", "gvisor"])
def test_tcp_of_gvisor(listener: str, congestion: str) -> None:
    peers.available(GVISOR)
    addresses = {"kernel": ["10.78.0.1"], "gvisor": ["10.78.0.2"]}
    connector = "gvisor" if listener == "kernel" else "kernel"
    with Network(1).running() as network, tun(network) as device:
        extra = {"kernel": ["--congestion", congestion]}
        extra["gvisor"] = [*extra["kernel"], "--tun", device]
        commands = []
        for name, role, other in (
            (listener, "listen", connector),
            (connector, "connect", listener),
        ):
            peer = KERNEL if name == "kernel" else GVISOR
            line = peers.words(LOAD, role, (addresses[name], addresses[other]))
            commands.append(network.command(0, [*peer.command(), *line, *extra[name]]))
        outcome = peers.run_pair(commands[0], commands[1], LOAD)
    exact(outcome)
