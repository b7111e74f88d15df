"""Our TCP against that of the kernel of this machine, over a TUN device.

1 MB each way; with INTEROP=full (`make validate`) 100 MB, with losses. Root only.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from platform import release
from typing import Any

import pytest
import tunnels
from peers import IS_FULL, KERNEL, LIMIT_S, Cell, slow
from running import Running
from tunnels import Tunnels

from anabranch.emulate.testbed import virtual_release
from anabranch.errors import LiveError
from anabranch.virtual import run_in_kernel

MEGABYTE = 1_000_000

IN_VIRTUAL = "INTEROP_IN_VIRTUAL_KERNEL"
"""Set where a test runs in the virtual kernel, since the machine's own cannot be its peer."""

CONTROLS = [
    "bbr",
    "bbr3",
    "bic",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "ledbat",
    "prague",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
]


@pytest.fixture(scope="module")
def host() -> Iterator[Tunnels]:
    """A kernel, and our end next to it."""
    tunnels.available()
    with Tunnels().running() as made:
        yield made


@pytest.fixture(autouse=True)
def named(request: pytest.FixtureRequest, cell: Cell) -> None:
    """A test's own sentence is its row."""
    if request.function.__doc__ is not None:
        cell(request.function.__doc__, KERNEL)


@contextlib.contextmanager
def both(*pair: Running) -> Iterator[None]:
    """They are gone afterwards."""
    try:
        yield
    finally:
        for one in pair:
            one.stop()


def exchange(
    host: Tunnels,
    opens: str = "ours",
    *,
    up: int = MEGABYTE,
    down: int = MEGABYTE,
    version: int = 4,
    ours: tuple[object, ...] = (),
    kernel: tuple[object, ...] = (),
    settings: dict[str, object] | None = None,
) -> tuple[dict[str, Any], dict[str, Any], Running, Running]:
    """Sends this much to the kernel and back; gives both ends' last reports, and the ends
    themselves.
    """
    ours_words = ("--send", up, "--receive", down, "--timeout", LIMIT_S, *ours)
    kernel_words = ("--send", down, "--receive", up, "--timeout", LIMIT_S, *kernel)
    place = ("--address", "::" if version == 6 else "0.0.0.0")
    if opens == "ours":
        theirs = host.kernel("listen", *place, *kernel_words)
        theirs.wait_for("listening")
        remote = ("--remote", tunnels.kernel(0, version))
        mine = host.ours("connect", *remote, *ours_words, version=version, settings=settings)
    else:
        mine = host.ours("listen", *ours_words, version=version, settings=settings)
        mine.wait_for("listening")
        theirs = host.kernel("connect", "--address", tunnels.ours(0, version), *kernel_words)
    with both(mine, theirs):
        return mine.ended(LIMIT_S + 10), theirs.ended(LIMIT_S + 10), mine, theirs


def assert_exact(mine: dict[str, Any], theirs: dict[str, Any], up: int, down: int) -> None:
    """Every octet arrived, in its place, and both ended in order."""
    assert (mine["event"], mine.get("reason")) == ("closed", "shutdown"), (mine, theirs)
    assert (mine["sent"], theirs["received"], theirs["wrong_at"]) == (up, up, None)
    assert (theirs["sent"], mine["received"], mine["wrong_at"]) == (down, down, None)
    assert (theirs["has_end"], theirs["error"]) == (True, "")


def mb_per_s(mine: dict[str, Any], theirs: dict[str, Any]) -> float:
    """Both ways together, until the end that waits longer has its last octet."""
    seconds = max(float(mine["seconds"]), float(theirs["seconds"]))
    return float(mine["sent"] + mine["received"]) / 1e6 / max(seconds, 1e-9)


def scalar(mine: Running, name: str) -> float:
    """A counter of our end, as it was when the peer had nothing more to say or later."""
    said = [one["scalars"][f"end.{name}"] for one in mine.said if one.get("scalars")]
    return float(said[-1])


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_both_ways_with_every_option(host: Tunnels, opens: str, version: int) -> None:
    """both ways at once with every option, IPv4 and IPv6"""
    mine, theirs, *_ = exchange(host, opens, version=version)
    assert_exact(mine, theirs, MEGABYTE, MEGABYTE)
    info = theirs["info"]
    assert info["has_timestamps"]
    assert info["has_sack"]
    assert info["has_window_scale"]
    # 6 MiB of receive buffer, and 12 octets of timestamps in every segment.
    assert info["send_scale"] == 7
    assert info["send_mss"] == 1500 - (20 if version == 4 else 40) - 20 - 12


@pytest.mark.parametrize("control", CONTROLS)
def test_congestion_control(host: Tunnels, control: str, cell: Cell) -> None:
    feature = f"bulk to the peer, `{control}`"
    cell(feature, KERNEL)
    size = 100 * MEGABYTE if IS_FULL else MEGABYTE
    settings: dict[str, object] = {"cc": {"kind": control}}
    # DCTCP halves by the share of marks, and needs an echo of each.
    if control == "dctcp":
        settings["ecn"] = "dctcp"
    mine, theirs, *_ = exchange(host, up=size, down=0, settings=settings)
    cell(feature, KERNEL, mb_per_s(mine, theirs))
    assert_exact(mine, theirs, size, 0)


@pytest.mark.parametrize("profile", ["linux_6", pytest.param("linux_2_6_20", marks=slow), "rfc"])
@pytest.mark.parametrize("opens", ["ours", "kernel"])
@pytest.mark.parametrize(
    "loss", [pytest.param(0, marks=slow), pytest.param(0.01, marks=slow), 0.05]
)
def test_losses_reordering_duplicates(
    host: Tunnels, loss: float, opens: str, profile: str, cell: Cell
) -> None:
    feature = f"bulk both ways, {loss:.0%} loss, profile `{profile}`"
    cell(feature, KERNEL)
    size = 100 * MEGABYTE if IS_FULL else MEGABYTE
    weather = ("--loss", loss, "--reorder", 0.01, "--duplicate", 0.01, "--delay", 1)
    mine, theirs, running, _ = exchange(
        host,
        opens,
        up=size,
        down=size,
        ours=weather,
        settings={"profile": profile},
    )
    cell(feature, KERNEL, mb_per_s(mine, theirs))
    assert_exact(mine, theirs, size, size)
    if loss > 0:
        assert scalar(running, "data_segments_retransmitted") > 0
        assert theirs["info"]["retransmissions"] > 0


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("tcp_sack", "has_sack"),
        ("tcp_timestamps", "has_timestamps"),
        ("tcp_window_scaling", "has_window_scale"),
    ],
)
@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_without_an_option(host: Tunnels, opens: str, name: str, has: str) -> None:
    """timestamps, SACK or window scale left out, 1 % loss"""
    host.sysctl(**{f"net__ipv4__{name}": 0})
    try:
        mine, theirs, *_ = exchange(host, opens, ours=("--loss", 0.01))
    finally:
        host.sysctl(**{f"net__ipv4__{name}": 1})
    assert_exact(mine, theirs, MEGABYTE, MEGABYTE)
    assert not theirs["info"][has]


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_ecn(host: Tunnels, opens: str) -> None:
    """ECN (RFC 3168): agreed, marks echoed and heeded both ways"""
    host.sysctl(net__ipv4__tcp_ecn=1)
    try:
        mine, theirs, running, _ = exchange(
            host, opens, up=5 * MEGABYTE, settings={"ecn": "rfc3168"}, ours=("--mark", 0.02)
        )
    finally:
        host.sysctl(net__ipv4__tcp_ecn=2)
    assert_exact(mine, theirs, 5 * MEGABYTE, MEGABYTE)
    assert theirs["info"]["has_ecn"]
    assert theirs["info"]["ecn_seen"]
    assert scalar(running, "ce_received") > 0
    assert scalar(running, "ecn_reductions") > 0


def in_virtual_kernel(test: pytest.Item, folder: Path, lacks: str) -> None:
    """Runs a test again with the virtual kernel as the peer, where this one lacks what it needs."""
    lacks = lacks.strip()
    if IN_VIRTUAL in os.environ:
        pytest.skip(lacks)
    try:
        virtual = virtual_release()
    except LiveError as error:
        pytest.skip(f"{lacks}; {error}")
    line = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    line += [f"--rootdir={test.config.rootpath}", f"{test.path}::{test.name}"]
    done = run_in_kernel(line, folder=folder, environment={IN_VIRTUAL: "1"}, timeout=LIMIT_S)
    said = done.stdout.decode() + done.stderr.decode()
    if "1 skipped" in said:
        pytest.skip(f"{lacks}; nor does the virtual kernel, Linux {virtual}")
    assert (done.returncode, "1 passed" in said) == (0, True), said


@pytest.mark.parametrize("opens", ["ours", "kernel"])
@pytest.mark.parametrize("option", [0, 2])
def test_accurate_ecn(
    host: Tunnels, option: int, opens: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """accurate ECN (RFC 9768): agreed, every mark counted alike, with the option and without"""
    try:
        host.sysctl(net__ipv4__tcp_ecn=3, net__ipv4__tcp_ecn_option=option)
    except RuntimeError as error:
        in_virtual_kernel(request.node, tmp_path, f"Linux {release()} takes no tcp_ecn=3: {error}")
        return
    settings: dict[str, object] = {"ecn": "l4s", "ecn_option": option > 0}
    try:
        mine, theirs, running, _ = exchange(
            host, opens, up=5 * MEGABYTE, settings=settings, ours=("--mark", 0.02)
        )
    finally:
        host.sysctl(net__ipv4__tcp_ecn=2, net__ipv4__tcp_ecn_option=2)
    assert_exact(mine, theirs, 5 * MEGABYTE, MEGABYTE)
    info = theirs["info"]
    assert info["has_ecn"]
    assert info["accecn_fails"] == 0
    # A virtual kernel's device is not ready for the first SYN; what is sent again has no option.
    has_option = option > 0 and info["retransmissions"] == 0
    assert (info["accecn_option_seen"] > 0) == has_option
    # The marks that the kernel has counted are those that we have heard of, but for the last ones.
    # Without the option an acknowledgement of many segments stands for the most marks that it can
    # mean (RFC 9768 appendix A.2).
    assert info["received_ce"] > 20
    heard = scalar(running, "ce_reported") - info["received_ce"]
    assert heard >= -2
    assert heard <= 2 or not has_option
    # The kernel heeds no report that neither acknowledges anything nor has a later time stamp.
    assert 0 < info["delivered_ce"] <= scalar(running, "ce_received")
    if has_option:
        assert info["delivered_ceb"] == pytest.approx(
            info["delivered_ce"] * info["receive_mss"], abs=2 * info["receive_mss"]
        )
    assert scalar(running, "ecn_reductions") > 0


@pytest.mark.usefixtures("host")
def test_a_small_mtu() -> None:
    """an MTU of 600"""
    with Tunnels(mtu=600).running() as small:
        mine, theirs, *_ = exchange(small)
    assert_exact(mine, theirs, MEGABYTE, MEGABYTE)
    assert theirs["info"]["send_mss"] == 600 - 20 - 20 - 12


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_the_kernel_finishes_first(host: Tunnels, opens: str) -> None:
    """half-close, the peer first"""
    # All goes up after the kernel's FIN has come down.
    mine, theirs, running, _ = exchange(
        host, opens, down=1000, kernel=("--half-close",), up=3 * MEGABYTE
    )
    assert_exact(mine, theirs, 3 * MEGABYTE, 1000)
    assert running.events("peer_finished")


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_ours_finishes_first(host: Tunnels, opens: str) -> None:
    """half-close, ours first"""
    mine, theirs, *_ = exchange(
        host, opens, up=1000, ours=("--half-close", "yes"), down=3 * MEGABYTE
    )
    assert_exact(mine, theirs, 1000, 3 * MEGABYTE)


def test_our_reader_pauses(host: Tunnels) -> None:
    """our window closes, the peer probes"""
    # Several times as much as all buffers hold: the kernel has to wait, and to probe.
    pause = ("--pause-at", MEGABYTE, "--pause-for", 1500)
    mine, theirs, running, _ = exchange(
        host, up=0, down=20 * MEGABYTE, ours=pause, settings={"receive_buffer": "200 kB"}
    )
    assert_exact(mine, theirs, 0, 20 * MEGABYTE)
    [resumed] = running.events("resumed")
    assert resumed["received"] < 2 * MEGABYTE
    assert scalar(running, "window_updates") > 0


def test_the_kernel_reads_nothing_for_a_while(host: Tunnels) -> None:
    """the peer's window closes, ours probes"""
    pause = ("--pause-at", MEGABYTE, "--pause-for", 1.5, "--receive-buffer", 100_000)
    mine, theirs, running, _ = exchange(host, up=10 * MEGABYTE, down=0, kernel=pause)
    assert_exact(mine, theirs, 10 * MEGABYTE, 0)
    assert scalar(running, "window_probes") > 0


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_the_kernel_resets(host: Tunnels, opens: str) -> None:
    """reset by the peer"""
    mine, theirs, *_ = exchange(
        host, opens, up=10_000, down=10_000, kernel=("--reset",), ours=("--close", "wait")
    )
    assert (mine["reason"], mine["received"]) == ("aborted", 10_000)
    assert theirs["received"] == 10_000


@pytest.mark.parametrize("opens", ["ours", "kernel"])
def test_ours_resets(host: Tunnels, opens: str) -> None:
    """reset by ours"""
    # The kernel waits for more than comes.
    mine, theirs, *_ = exchange(
        host, opens, up=10_000, down=10_000, ours=("--close", "abort"), kernel=("--receive", 20_000)
    )
    assert (mine["reason"], mine["received"]) == ("aborted", 10_000)
    assert theirs["error"] == "ConnectionResetError"


def test_nobody_listens_at_the_kernel(host: Tunnels) -> None:
    """nobody listens at the peer"""
    mine = host.ours("connect", "--remote", tunnels.kernel(), "--port", 5999)
    with both(mine):
        assert mine.ended()["reason"] == "aborted"


def test_nobody_listens_here(host: Tunnels) -> None:
    """nobody listens at ours"""
    mine = host.ours("listen", "--port", 5998, "--timeout", LIMIT_S)
    mine.wait_for("listening")
    theirs = host.kernel("connect", "--address", tunnels.ours(), "--port", 5999)
    with both(mine, theirs), pytest.raises(RuntimeError, match="ConnectionRefusedError"):
        theirs.ended()


def test_both_open_at_the_same_time(host: Tunnels) -> None:
    """simultaneous open"""
    # A packet takes 300 ms, so that the two SYN cross each other.
    sizes = ("--send", 10_000, "--receive", 10_000)
    theirs = host.kernel(
        "connect", "--address", tunnels.ours(), "--port", 7001, "--local-port", 7002, *sizes
    )
    mine = host.ours(
        "connect",
        "--remote",
        tunnels.kernel(),
        "--port",
        7002,
        "--local-port",
        7001,
        "--delay",
        300,
        *sizes,
    )
    with both(mine, theirs):
        assert_exact(mine.ended(), theirs.ended(), 10_000, 10_000)
