"""The text that `anabranch advise` gives to paste into Linux."""

import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch.advise import linux
from anabranch.advise.paths import read
from anabranch.advise.settings import Candidate


def pasted(transport: str, profile: str = "linux", **values: str) -> linux.Paste:
    return linux.paste(transport, Candidate.of(profile, values), read(["wifi-and-lte"]))


def test_times_are_whole_milliseconds_and_the_minimum_comes_first() -> None:
    found = pasted("sctp", rto_max="0.1 s", rto_min="0.05 s", hb_interval="5 s")
    assert found.sysctl == [
        "net.sctp.rto_min = 50",
        "net.sctp.rto_max = 100",
        "net.sctp.hb_interval = 5000",
    ]
    text = "\n".join(found.socket)
    assert ".srto_min = 50, .srto_max = 100" in text
    assert ".spp_hbinterval = 5000, .spp_flags = SPP_HB_ENABLE" in text


def test_every_sysctl_has_the_kernels_name() -> None:
    """The names are those of ip-sysctl.rst and mptcp-sysctl.rst of Linux 6.12."""
    sctp = pasted("sctp", association_max_retrans="1000", max_burst="16", sack_frequency="1")
    assert sctp.sysctl == [
        "net.sctp.association_max_retrans = 1000",
        "net.sctp.sack_timeout = 1",
        "net.sctp.max_burst = 16",
    ]
    assert pasted("mptcp", "linux_6", stale_after="2").sysctl == ["net.mptcp.stale_loss_cnt = 2"]
    assert "net.ipv4.tcp_ecn = 1" in pasted("tcp", "linux_6", ecn="rfc3168").sysctl


def test_thresholds_of_rfc_7829() -> None:
    off = pasted("sctp", pf_max_retrans="off", path_max_retrans="2")
    assert "net.sctp.pf_enable = 0" in off.sysctl
    assert ".spt_pathpfthld = 65535, .spt_pathmaxrxt = 2" in "\n".join(off.socket)
    assert "net.sctp.pf_retrans = 0" in pasted("sctp", "freebsd_10", pf_max_retrans="0").sysctl


def test_what_linux_lacks_is_said_and_not_set() -> None:
    found = pasted("sctp", "rfc9260", policy="delay_centric", load_sharing="on")
    assert found.sysctl == found.socket == found.commands == []
    assert [sentence.partition(" =")[0] for sentence in found.without[:2]] == [
        "policy",
        "load_sharing",
    ]
    assert "profile rfc9260" in found.without[2]
    multipath = pasted("mptcp", "linux_6", scheduler="redundant", coupling="lia", backup="lte")
    assert multipath.sysctl == []
    assert len(multipath.without) == 2
    assert "ip mptcp limits set subflows 1 add_addr_accepted 1" in multipath.commands
    assert any("subflow backup" in line and "lte" in line for line in multipath.commands)


def test_sctp_buffers_become_the_window_that_was_simulated() -> None:
    """The default window is 104 KiB of 208 KiB: half; a program's size is doubled."""
    found = pasted("sctp", buffers="1 MiB")
    assert "net.core.wmem_default = 1048576" in found.sysctl
    assert "net.core.rmem_default = 2097152" in found.sysctl
    (code,) = found.socket
    assert "send_size = 524288, receive_size = 1048576;" in code


def test_tcp_in_microseconds_and_bytes() -> None:
    found = pasted("tcp", "linux_6", rto_min="0.05 s", buffers="16 MiB", queue="fq_codel")
    assert "net.ipv4.tcp_rto_min_us = 50000" in found.sysctl
    assert "net.ipv4.tcp_wmem = 4096 16384 16777216" in found.sysctl
    assert any("rto_min 50ms" in line for line in found.commands)
    cake = pasted("tcp", "linux_6", queue="cake").commands
    roots = [line for line in cake if line.startswith("tc qdisc")]
    assert roots[0] == (
        "tc qdisc replace dev DEVICE_PHONE_WIFI root cake bandwidth 19000kbit"
        "  # on phone, for what it sends over link `wifi` to server"
    )
    # Both ends of both links, and no device twice.
    assert len({line.split()[4] for line in roots}) == len(roots) == 4
    assert any("root fq_codel" in line for line in found.commands)


def test_the_c_text_compiles(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or not Path("/usr/include/linux/sctp.h").exists():
        pytest.skip("no C compiler with Linux's headers")
    every = pasted(
        "sctp",
        rto_min="0.05 s",
        rto_max="0.1 s",
        hb_interval="1 s",
        path_max_retrans="1",
        pf_max_retrans="off",
        association_max_retrans="1000",
        sack_frequency="1",
        max_burst="16",
        buffers="1 MiB",
        primary_path="lte",
    )
    tcp = pasted("mptcp", "linux_6", cc="bbr")
    lines = [
        "#include <sys/socket.h>",
        "#include <netinet/in.h>",
        "#include <netinet/tcp.h>",
        "#include <linux/sctp.h>",
        "#define PEER_ADDRESS { 0 }",
        "void sctp(int fd) {",
        *every.socket,
        "}",
        "void mptcp(void) {",
        *tcp.socket,
        "}",
    ]
    source = tmp_path / "paste.c"
    source.write_text("\n".join(lines))
    subprocess.run([compiler, "-Wall", "-Werror", "-fsyntax-only", str(source)], check=True)


EVERYTHING = [
    ("sctp", "linux", {"rto_max": "0.1 s", "rto_min": "0.05 s", "buffers": "1 MiB"}),
    ("tcp", "linux_6", {"cc": "bbr", "rto_min": "0.05 s", "ecn": "rfc3168", "queue": "cake"}),
    ("tcp", "linux_6", {"queue": "fq_codel", "path": "lte", "buffers": "1 MiB"}),
    ("mptcp", "linux_6", {"cc": "vegas", "stale_after": "2", "backup": "lte", "queue": "pie"}),
]


@pytest.mark.parametrize(("transport", "profile", "values"), EVERYTHING)
def test_what_is_to_be_pasted_says_how_to_check_and_to_undo_it(
    transport: str, profile: str, values: dict[str, str]
) -> None:
    found = pasted(transport, profile, **values)
    text = found.text()
    if found.sysctl:
        assert "# undo: rm /etc/sysctl.d/90-anabranch.conf; sysctl -p before.conf" in text
        assert found.checks[0].startswith("sysctl net.")
        if found.socket:
            assert text.index("for one program") < text.index("for all programs")
    roots = [line for line in found.commands if line.startswith("tc qdisc replace")]
    assert len([line for line in found.undo if line.startswith("tc qdisc del")]) == len(roots)
    if transport == "sctp":
        # The kernel takes no minimum above the maximum that holds.
        before = next(line for line in text.splitlines() if line.startswith("# before that"))
        assert before.index("rto_max") < before.index("rto_min")
    if "rto_min" in values:
        assert any("RTO.Min of 0.05 s" in cost for cost in found.costs)
    if "cc" in values:
        assert any("all new TCP connections of the host" in cost for cost in found.costs)
    # Every line is one of the shell, and every setting one of sysctl's file.
    lines = [*found.commands, *found.checks, *found.undo]
    subprocess.run(["bash", "-n"], input="\n".join(lines), text=True, check=True)
    assert all(len(line.partition(" = ")[2].split()) in (1, 3) for line in found.sysctl)


@pytest.mark.parametrize(("transport", "profile", "values"), EVERYTHING)
def test_sysctl_takes_what_is_to_be_pasted(
    transport: str, profile: str, values: dict[str, str], tmp_path: Path
) -> None:
    """Every line is one to its parser; what this kernel has holds, and goes back as is said."""
    if shutil.which("sysctl") is None or "--dry-run" not in told("sysctl", "--help").stdout:
        pytest.skip("needs procps 4's `sysctl --dry-run`")
    lines = pasted(transport, profile, **values).sysctl
    file = tmp_path / "90-anabranch.conf"
    file.write_text("\n".join([*lines, "no setting"]))
    done = told("sysctl", "--dry-run", "--ignore", "--load", str(file))
    # The error names a line, which is not one of ours.
    assert done.stderr.count("invalid syntax") == 1
    assert f"({len(lines) + 1}): invalid syntax" in done.stderr
    # Others of net.core are not those of a namespace.
    namespaced = [
        line for line in lines if line.startswith(("net.ipv4.", "net.mptcp.", "net.sctp."))
    ]
    there = [line for line in namespaced if Path("/proc/sys", *key(line).split(".")).exists()]
    control = "tcp_congestion_control"
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    there = [line for line in there if control not in line or line.split()[-1] in known]
    if not there:
        pytest.skip("this kernel has none of the settings")
    file.write_text("\n".join(there))
    names = " ".join(map(key, there))
    script = (
        f"cd {tmp_path}; sysctl {names} > before; sysctl -qp {file.name}; sysctl {names} > with;"
    )
    script += f" sysctl -qp before; sysctl {names} > after"
    done = told("unshare", "-n", "bash", "-ec", script)
    if "Operation not permitted" in done.stderr:
        pytest.skip("needs a network namespace")
    assert done.returncode == 0, done.stderr
    before, held, after = ((tmp_path / name).read_text() for name in ("before", "with", "after"))
    assert held.split() == " ".join(there).split()
    assert after == before != held


@pytest.mark.parametrize(("transport", "profile", "values"), EVERYTHING[1:])
def test_ip_and_ss_take_what_is_to_be_pasted(
    transport: str, profile: str, values: dict[str, str]
) -> None:
    """The commands run in a network of their own, with names in place of the words in capitals."""
    if any(shutil.which(tool) is None for tool in ("ip", "ss", "nstat", "unshare")):
        pytest.skip("needs iproute2")
    found = pasted(transport, profile, **values)
    # Modules are the host's; queues and settings have tests of their own.
    lines = [
        line
        for line in (*found.commands, *found.checks, *found.undo)
        if line.startswith(("ip ", "ss ", "nstat "))
    ]
    assert lines
    names = {"DEVICE": "lo", "GATEWAY": "127.0.0.2", "PEER": "10.3.0.1", "ADDRESS": "10.3.0.2"}
    for place, name in names.items():
        lines = [line.replace(place, name) for line in lines]
    # One host has one address for each path.
    lines = [line.replace("10.3.0.2", f"10.3.0.{i}") for i, line in enumerate(lines, 2)]
    script = "\n".join(["ip link set lo up", *lines])
    done = told("unshare", "-n", "bash", "-ec", script)
    if "unshare" in done.stderr or "MPTCP" in done.stderr:
        pytest.skip(f"not here: {done.stderr.strip()[:80]}")
    assert done.returncode == 0, done.stderr
    if transport == "mptcp":
        shown = [line for line in done.stdout.splitlines() if " dev lo" in line]
        assert len(shown) == 2
        assert sum("backup" in line for line in shown) == 1


def key(line: str) -> str:
    """The name of a setting of sysctl."""
    return line.partition(" =")[0]


def told(*command: str) -> subprocess.CompletedProcess[str]:
    """The output of a command."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["fq_codel", "codel", "pie", "cake"])
def test_tc_takes_what_is_to_be_pasted(kind: str) -> None:
    """Pastes twice, as an existing root qdisc is replaced; then undoes it as described."""
    found = pasted("tcp", "linux_6", queue=kind)
    line = next(line for line in found.commands if line.startswith("tc qdisc"))
    device = line.split()[4]
    undo = next(line for line in found.undo if device in line)
    script = "\n".join([line, line, undo]).replace(device, "lo")
    done = subprocess.run(
        ["unshare", "-n", "bash", "-ec", script], capture_output=True, text=True, check=False
    )
    if "kind is unknown" in done.stderr:
        # The kernel refuses it; what tc itself cannot parse ends with 1.
        assert done.returncode == 2, done.stderr
    missing = ("kind is unknown", "Operation not permitted", "No such file")
    if any(word in done.stderr for word in missing):
        pytest.skip(f"no {kind} here: {done.stderr.strip()[:80]}")
    assert done.returncode == 0, done.stderr
