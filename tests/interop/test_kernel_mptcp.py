"""Our MPTCP against that of the kernel of this machine, over two TUN devices.

A path takes 5 ms each way, so that both are worth using. Root only.
"""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tunnels
from peers import IS_FULL, KERNEL, LIMIT_S, Cell, slow
from running import Running
from test_kernel_tcp import MEGABYTE, assert_exact, both, mb_per_s, named, scalar
from tunnels import Tunnels

from support.processes import until

__all__ = ["named"]

BULK = 100 * MEGABYTE if IS_FULL else 4 * MEGABYTE
SLOW = ("--delay", 5)

Meanwhile = Callable[[Tunnels, Running, Running], None]


@pytest.fixture(scope="module")
def host() -> Iterator[Tunnels]:
    """A kernel with MPTCP, and our end next to it."""
    tunnels.available()
    if not Path("/proc/sys/net/mptcp/enabled").exists():
        pytest.skip("left out, since this kernel has no MPTCP")
    with Tunnels(paths=2).running() as made:
        made.sysctl(net__mptcp__enabled=1)
        made.mptcp("limits", "set", "subflows", "4", "add_addr_accepted", "4")
        yield made


@contextlib.contextmanager
def endpoint(host: Tunnels, *words: str) -> Iterator[None]:
    """The kernel has an address that it may use."""
    # The kernel itself notes the addresses that were joined.
    host.mptcp("endpoint", "flush")
    host.mptcp("endpoint", "add", *words)
    try:
        yield
    finally:
        host.mptcp("endpoint", "flush")


def exchange(
    host: Tunnels,
    opens: str,
    *,
    up: int = BULK,
    down: int = BULK,
    remotes: int = 1,
    version: int = 4,
    ours: tuple[object, ...] = SLOW,
    kernel: tuple[object, ...] = ("--mptcp",),
    settings: dict[str, object] | None = None,
    meanwhile: Meanwhile | None = None,
) -> tuple[dict[str, Any], dict[str, Any], Running]:
    """Sends this much to the kernel and back; gives both ends' last reports."""
    ours_words = (
        "--protocol",
        "mptcp",
        "--send",
        up,
        "--receive",
        down,
        "--timeout",
        LIMIT_S,
        *ours,
    )
    kernel_words = ("--send", down, "--receive", up, "--timeout", LIMIT_S, *kernel)
    if opens == "ours":
        theirs = host.kernel(
            "listen", "--address", "::" if version == 6 else "0.0.0.0", *kernel_words
        )
        theirs.wait_for("listening")
        remote = ",".join(tunnels.kernel(path, version) for path in range(remotes))
        mine = host.ours(
            "connect", "--remote", remote, *ours_words, version=version, settings=settings
        )
    else:
        mine = host.ours("listen", *ours_words, version=version, settings=settings)
        mine.wait_for("listening")
        theirs = host.kernel("connect", "--address", tunnels.ours(0, version), *kernel_words)
    with both(mine, theirs):
        if meanwhile is not None:
            mine.wait_for("connected")
            meanwhile(host, mine, theirs)
        return mine.ended(LIMIT_S + 10), theirs.ended(LIMIT_S + 10), mine


def carried(mine: Running, path: int) -> tuple[float, float]:
    """Octets up and down on a path; none on one that was never joined."""
    if path >= scalar(mine, "subflows"):
        return (0, 0)
    return (
        scalar(mine, f"subflow_{path}.bytes_sent"),
        scalar(mine, f"subflow_{path}.bytes_delivered"),
    )


def assert_both_used(host: Tunnels, opens: str, **options: Any) -> None:
    """Both paths carry data both ways, and all of it arrives.

    On a busy machine a short transfer may end before the second path is there; a long one does not.
    """
    for size in (BULK, 10 * BULK):
        mine, theirs, running = exchange(host, opens, up=size, down=size, **options)
        assert_exact(mine, theirs, size, size)
        if min(*carried(running, 0), *carried(running, 1)) > 0:
            break
    assert scalar(running, "subflows") == 2
    for path in (0, 1):
        up, down = carried(running, path)
        assert up > 0, path
        assert down > 0, path


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_one_path(host: Tunnels, opens: str, version: int) -> None:
    """`MP_CAPABLE`, one path, IPv4 and IPv6"""
    # Its further addresses are not joined, as the kernel accepts no more.
    host.mptcp("limits", "set", "subflows", "0", "add_addr_accepted", "0")
    try:
        mine, theirs, running = exchange(host, opens, version=version, ours=())
    finally:
        host.mptcp("limits", "set", "subflows", "4", "add_addr_accepted", "4")
    assert_exact(mine, theirs, BULK, BULK)
    assert scalar(running, "subflows") == 1
    assert scalar(running, "fallbacks") == 0


@pytest.mark.parametrize("version", [4, 6])
def test_we_join_what_we_know(host: Tunnels, version: int) -> None:
    """`MP_JOIN` of ours to an address that it knows; both paths used"""
    assert_both_used(host, "ours", remotes=2, version=version)


# Of version 6 an address with a port and its code has no room beside timestamps: Linux does not
# send it.
@pytest.mark.parametrize(("version", "port"), [(4, ()), (6, ()), (4, ("port", "7777"))])
def test_we_join_what_the_kernel_announces(
    host: Tunnels, port: tuple[str, ...], version: int
) -> None:
    """`ADD_ADDR` of the peer (over IPv4 with a port, too), `MP_JOIN` of ours"""
    with endpoint(host, tunnels.kernel(1, version), *port, "dev", "t1", "signal"):
        assert_both_used(host, "ours", version=version)


@pytest.mark.parametrize("version", [4, 6])
def test_the_kernel_joins_what_we_announce(host: Tunnels, version: int) -> None:
    """`ADD_ADDR` of ours, `MP_JOIN` of the peer"""
    assert_both_used(host, "kernel", version=version)


def test_the_kernel_joins_from_another_address(host: Tunnels) -> None:
    """`MP_JOIN` of the peer from another address"""
    host.mptcp("limits", "set", "subflows", "4", "add_addr_accepted", "0")
    try:
        with endpoint(host, tunnels.kernel(1), "dev", "t1", "subflow"):
            assert_both_used(host, "kernel")
    finally:
        host.mptcp("limits", "set", "subflows", "4", "add_addr_accepted", "4")


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_checksums(host: Tunnels, opens: str) -> None:
    """checksums of mappings"""
    host.sysctl(net__mptcp__checksum_enabled=1)
    try:
        assert_both_used(host, opens, remotes=2)
    finally:
        host.sysctl(net__mptcp__checksum_enabled=0)


@pytest.mark.parametrize("profile", ["rfc8684", "linux_6"])
@pytest.mark.parametrize(
    "loss", [pytest.param(0, marks=slow), 0.01, pytest.param(0.05, marks=slow)]
)
@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_losses_reordering_duplicates(
    host: Tunnels, loss: float, opens: str, profile: str, cell: Cell
) -> None:
    feature = f"bulk both ways, {loss:.0%} loss, profile `{profile}`"
    cell(feature, KERNEL)
    weather = ("--loss", loss, "--reorder", 0.01, "--duplicate", 0.01, "--delay", 2)
    mine, theirs, running = exchange(
        host,
        opens,
        remotes=2,
        ours=weather,
        settings={"profile": profile},
    )
    cell(feature, KERNEL, mb_per_s(mine, theirs))
    assert_exact(mine, theirs, BULK, BULK)
    sums = [carried(running, 0)[way] + carried(running, 1)[way] for way in (0, 1)]
    assert min(sums) >= BULK


@pytest.mark.parametrize("profile", ["rfc8684", "linux_6"])
@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_a_path_is_cut(host: Tunnels, opens: str, cut: int, profile: str) -> None:
    """a path is cut in mid-transfer"""
    # The first one carries most; with all of it gone the other one carries the rest.
    weather = ("--delay", 10, "--cut", tunnels.ours(cut), "--cut-after", 250)
    size = 30 * MEGABYTE
    mine, theirs, running = exchange(
        host,
        opens,
        up=size,
        down=size,
        remotes=2,
        ours=weather,
        settings={"profile": profile},
    )
    assert running.events("cut"), "it was over before"
    assert_exact(mine, theirs, size, size)


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_a_path_comes_back(host: Tunnels, opens: str) -> None:
    """a path is cut and comes back"""
    weather = ("--delay", 10, "--cut", tunnels.ours(0), "--cut-after", 250, "--restore-after", 1350)
    size = 30 * MEGABYTE
    mine, theirs, running = exchange(host, opens, up=size, down=size, remotes=2, ours=weather)
    assert running.events("cut")
    assert_exact(mine, theirs, size, size)


def test_the_kernel_removes_an_address(host: Tunnels) -> None:
    """`REMOVE_ADDR` of the peer"""

    def joined() -> int:
        """Subflows of which the kernel has the last acknowledgement."""
        command = host.command(["cat", "/proc/net/netstat"])
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names, values = (line for line in said.splitlines() if line.startswith("MPTcpExt:"))
        return int(dict(zip(names.split(), values.split(), strict=True))["MPJoinAckRx"])

    def remove(host: Tunnels, mine: Running, _theirs: Running) -> None:
        mine.wait_for("path")
        until(lambda: joined() > before)
        host.mptcp("endpoint", "delete", "id", "7")

    before = joined()
    with endpoint(host, tunnels.kernel(1), "id", "7", "dev", "t1", "signal"):
        mine, theirs, running = exchange(
            host,
            "ours",
            up=20 * MEGABYTE,
            down=20 * MEGABYTE,
            ours=("--delay", 10),
            meanwhile=remove,
        )
    assert_exact(mine, theirs, 20 * MEGABYTE, 20 * MEGABYTE)
    assert [event["path"] for event in running.events("address_deleted")] == [1]
    assert scalar(running, "subflows_lost") == 1


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_we_remove_an_address(host: Tunnels, opens: str) -> None:
    """`REMOVE_ADDR` of ours"""
    # Nothing acknowledges REMOVE_ADDR, and a full queue of a device loses it as any other packet.
    for _ in range(3):
        with endpoint_monitor(host) as seen:
            mine, theirs, running = exchange(
                host,
                opens,
                up=20 * MEGABYTE,
                down=20 * MEGABYTE,
                remotes=2,
                ours=("--delay", 20, "--at", "300:delete_address:1"),
            )
            assert_exact(mine, theirs, 20 * MEGABYTE, 20 * MEGABYTE)
            assert scalar(running, "subflows") == 2
            assert running.events("command"), "it was over before"
            until(lambda: " CLOSED]" in seen())
            told = seen()
        if "SF_CLOSED]" in told and "REMOVED]" in told:
            return
    pytest.fail(told)


@contextlib.contextmanager
def endpoint_monitor(host: Tunnels) -> Iterator[Callable[[], str]]:
    """The reports of the kernel's path manager meanwhile."""
    monitor = Running(host.command(["ip", "mptcp", "monitor"]))
    sockets = Path(f"/proc/{monitor.process.pid}/net/netlink")

    def hears() -> bool:
        """Whether a socket of it is in a group: the columns are protocol, id and groups."""
        rows = (line.split()[1:4] for line in sockets.read_text().splitlines()[1:])
        return any(protocol == "16" and int(groups, 16) for protocol, _, groups in rows)

    try:
        until(hears, monitor.process)
        yield lambda: "".join(monitor.errors())
    finally:
        monitor.stop()


def test_the_kernel_calls_a_path_a_backup(host: Tunnels) -> None:
    """a backup by `MP_JOIN`"""
    # Its address is a backup from the beginning (MP_JOIN, flag B): nothing goes there while the
    # other one works.
    with endpoint(host, tunnels.kernel(1), "dev", "t1", "signal", "backup"):
        mine, theirs, running = exchange(host, "ours")
    assert_exact(mine, theirs, BULK, BULK)
    assert scalar(running, "subflows") == 2
    assert carried(running, 1)[0] == 0


def test_we_ask_the_kernel_for_a_path(host: Tunnels) -> None:
    """`MP_PRIO` of ours"""
    # MP_PRIO: from then on the kernel sends on path 1 only.
    size = 20 * MEGABYTE
    mine, theirs, running = exchange(
        host,
        "ours",
        up=0,
        down=size,
        remotes=2,
        ours=("--delay", 10, "--at", "150:set_peer_primary:1"),
    )
    assert_exact(mine, theirs, 0, size)
    assert carried(running, 1)[1] > carried(running, 0)[1]


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_the_kernel_gives_up(host: Tunnels, opens: str) -> None:
    """`MP_FASTCLOSE` of the peer"""
    # MP_FASTCLOSE, as close() with SO_LINGER 0 sends it.
    mine, _, _ = exchange(
        host,
        opens,
        up=10_000,
        down=10_000,
        remotes=2,
        kernel=("--mptcp", "--reset"),
        ours=("--close", "wait", *SLOW),
    )
    assert (mine["reason"], mine["received"]) == ("aborted", 10_000)


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_we_give_up(host: Tunnels, opens: str) -> None:
    """`MP_FASTCLOSE` of ours"""
    mine, theirs, _ = exchange(
        host,
        opens,
        up=10_000,
        down=10_000,
        remotes=2,
        kernel=("--mptcp", "--receive", 20_000),
        ours=("--close", "abort", "--linger", 300, *SLOW),
    )
    assert (mine["reason"], mine["received"]) == ("aborted", 10_000)
    assert theirs["error"] == "ConnectionResetError"


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_half_closed(host: Tunnels, opens: str) -> None:
    """half-close by `DATA_FIN`"""
    mine, theirs, running = exchange(
        host, opens, up=3 * MEGABYTE, down=1000, remotes=2, kernel=("--mptcp", "--half-close")
    )
    assert_exact(mine, theirs, 3 * MEGABYTE, 1000)
    assert running.events("peer_finished")


def test_our_reader_pauses(host: Tunnels) -> None:
    """our window closes"""
    pause = ("--pause-at", MEGABYTE, "--pause-for", 1500, *SLOW)
    mine, theirs, running = exchange(
        host,
        "ours",
        up=0,
        down=20 * MEGABYTE,
        remotes=2,
        ours=pause,
        settings={"receive_buffer": "300 kB"},
    )
    assert_exact(mine, theirs, 0, 20 * MEGABYTE)
    assert running.events("resumed")[0]["received"] < 2 * MEGABYTE
    assert scalar(running, "window_updates") > 0


def test_the_kernel_reads_nothing_for_a_while(host: Tunnels) -> None:
    """the peer's window closes"""
    pause = ("--mptcp", "--pause-at", MEGABYTE, "--pause-for", 1.5, "--receive-buffer", 100_000)
    mine, theirs, _ = exchange(host, "ours", up=10 * MEGABYTE, down=0, remotes=2, kernel=pause)
    assert_exact(mine, theirs, 10 * MEGABYTE, 0)


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_the_kernel_speaks_tcp_only(host: Tunnels, opens: str) -> None:
    """fallback to TCP, since the peer has no MPTCP"""
    mine, theirs, running = exchange(host, opens, kernel=())
    assert_exact(mine, theirs, BULK, BULK)
    assert scalar(running, "fallbacks") == 1
