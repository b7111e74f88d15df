"""The recommended settings as text for Linux: sysctl, socket options, `ip`, `tc`.

Names, units and limits are those of Linux 6.12: Documentation/networking/ip-sysctl.rst and
mptcp-sysctl.rst, net/sctp/sysctl.c, include/uapi/linux/sctp.h, ip-mptcp(8), tc(8).
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch._engine import codecs
from anabranch.support.quantities import milliseconds, octets

from .paths import Paths
from .settings import AT_ONCE, COPIES, DEFAULT, ONE_PATH, Candidate, is_usual

_COLUMNS = 80
"""Characters on a line of a comment."""

_OFF = 0xFFFF
"""No limit, in a threshold of RFC 7829's socket options (16 bits)."""


@dataclass
class Paste:
    """Text to paste, and the settings for which there is no such text."""

    call: list[str] = field(default_factory=list)
    """What the session description of a call says, and its two ends set."""
    program: list[str] = field(default_factory=list)
    """Lines of Rust for a program that speaks QUIC with quinn or noq."""
    sysctl: list[str] = field(default_factory=list)
    """Lines of a file in /etc/sysctl.d, in an order that the kernel accepts."""
    socket: list[str] = field(default_factory=list)
    """C code that sets options of the socket `fd` before it connects."""
    commands: list[str] = field(default_factory=list)
    """Commands of `ip` and `tc`; the user replaces words in capitals."""
    without: list[str] = field(default_factory=list)
    """Sentences about settings that Linux does not have."""
    checks: list[str] = field(default_factory=list)
    """Commands that show whether the settings are in force."""
    undo: list[str] = field(default_factory=list)
    """Commands that undo `commands`."""
    costs: list[str] = field(default_factory=list)
    """Sentences about side effects, besides the goal."""

    def text(self) -> str:
        """All of it as text, with headings as comments in the language of what follows."""
        parts = []
        if self.costs:
            parts.append([_comment(sentence) for sentence in self.costs])
        if self.call:
            parts.append(["# in the session description (SDP), and at both ends:", *self.call])
        if self.program:
            head = "// in the program (quinn 0.11, noq 1.4); transport: TransportConfig"
            parts.append([head, *self.program])
        if self.socket:
            head = "/* for one program: fd is its socket, not yet connected */"
            parts.append([head, *self.socket])
        if self.sysctl:
            # In reverse order: what has to be set first has to be reset last.
            names = " ".join(line.partition(" =")[0] for line in reversed(self.sysctl))
            heads = [
                "# for all programs: /etc/sysctl.d/90-anabranch.conf, on both hosts; then:",
                "# sysctl --system",
                f"# before that: sysctl {names} > before.conf",
                "# undo: rm /etc/sysctl.d/90-anabranch.conf; sysctl -p before.conf",
            ]
            parts.append([*heads, *self.sysctl])
        if self.commands:
            parts.append(["# put your own names for what is in capitals", *self.commands])
        if self.undo:
            parts.append(["# undo, in the same places:", *(f"# {line}" for line in self.undo)])
        if self.checks:
            parts.append(["# to see that it holds:", *(f"# {line}" for line in self.checks)])
        if self.without:
            parts.append([_comment(sentence) for sentence in self.without])
        return "\n\n".join("\n".join(part) for part in parts)


def _comment(sentence: str) -> str:
    """A sentence as lines of a comment, which fit a terminal."""
    return textwrap.fill(
        sentence,
        _COLUMNS,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def paste(transport: str, candidate: Candidate, paths: Paths, costs: Sequence[str] = ()) -> Paste:
    """The text for what a candidate changes; empty if it changes nothing."""
    text = Paste()
    if candidate.values:
        {
            "sctp": _sctp,
            "tcp": _tcp,
            "mptcp": _mptcp,
            "udp": _udp,
            "quic": _quic,
            "rtp": _rtp,
        }[transport](candidate, paths, text)
        _queue(candidate, paths, text)
        _after(transport, candidate, text)
        text.costs += costs
        if not is_usual(candidate.profile) and transport != "quic":
            text.without.append(
                f"Found with profile {candidate.profile}: Linux behaves differently; "
                "leave the profile out for advice on Linux."
            )
    return text


def _sctp(candidate: Candidate, paths: Paths, text: Paste) -> None:
    chosen = dict(candidate.values)
    rto = {name: _ms(chosen[name]) for name in ("rto_min", "rto_max") if name in chosen}
    # RTO.Min comes first: the kernel refuses a maximum below the minimum in force.
    text.sysctl += [f"net.sctp.{name} = {value}" for name, value in rto.items()]
    if rto:
        _set(text, "sctp_rtoinfo", "SCTP_RTOINFO", {f"s{name}": v for name, v in rto.items()})
    address = {}
    if "hb_interval" in chosen:
        text.sysctl.append(f"net.sctp.hb_interval = {_ms(chosen['hb_interval'])}")
        address = {"spp_hbinterval": _ms(chosen["hb_interval"]), "spp_flags": "SPP_HB_ENABLE"}
    if "path_max_retrans" in chosen:
        text.sysctl.append(f"net.sctp.path_max_retrans = {chosen['path_max_retrans']}")
        address["spp_pathmaxrxt"] = chosen["path_max_retrans"]
    if address:
        _set(text, "sctp_paddrparams", "SCTP_PEER_ADDR_PARAMS", address)
    if "pf_max_retrans" in chosen:
        off = chosen["pf_max_retrans"] == "off"
        limit = _OFF if off else chosen["pf_max_retrans"]
        text.sysctl.append("net.sctp.pf_enable = 0" if off else f"net.sctp.pf_retrans = {limit}")
        thresholds = {"spt_pathpfthld": limit}
        # The structure has both fields, and 0 leaves Path.Max.Retrans as it is.
        thresholds["spt_pathmaxrxt"] = chosen.get("path_max_retrans", 0)
        _set(text, "sctp_paddrthlds", "SCTP_PEER_ADDR_THLDS", thresholds)
    if "association_max_retrans" in chosen:
        limit = chosen["association_max_retrans"]
        text.sysctl.append(f"net.sctp.association_max_retrans = {limit}")
        _set(text, "sctp_assocparams", "SCTP_ASSOCINFO", {"sasoc_asocmaxrxt": limit})
    if "sack_frequency" in chosen:
        # The sysctl for the delay, sack_timeout, cannot be switched off: 1 ms is its smallest
        # value.
        text.sysctl.append("net.sctp.sack_timeout = 1")
        _set(text, "sctp_sack_info", "SCTP_DELAYED_SACK", {"sack_freq": chosen["sack_frequency"]})
    if "max_burst" in chosen:
        limit = 0 if chosen["max_burst"] == "off" else chosen["max_burst"]
        text.sysctl.append(f"net.sctp.max_burst = {limit}")
        _set(text, "sctp_assoc_value", "SCTP_MAX_BURST", {"assoc_value": limit})
    if "buffers" in chosen:
        _socket_buffers(chosen["buffers"], text)
    if "primary_path" in chosen:
        text.socket.append(
            "struct sctp_prim prim = { .ssp_addr = PEER_ADDRESS }; "
            f"/* the peer's address on {_named(paths, chosen['primary_path'])}; once connected */\n"
            "setsockopt(fd, IPPROTO_SCTP, SCTP_PRIMARY_ADDR, &prim, sizeof prim);"
        )
    if "policy" in chosen:
        text.without.append(
            f"policy = {chosen['policy']}: Linux has no counterpart; a program can do it itself: "
            "read spinfo_srtt of each path (SCTP_GET_PEER_ADDR_INFO), set SCTP_PRIMARY_ADDR."
        )
    if "load_sharing" in chosen:
        text.without.append(
            "load_sharing = on: Linux has no counterpart; FreeBSD has net.inet.sctp.cmt_on_off."
        )


_IN_SDP = {
    "g729a+vad": ["m=audio PORT RTP/AVP 18", "a=rtpmap:18 G729/8000"],
    "amr-12.2": ["m=audio PORT RTP/AVP 96", "a=rtpmap:96 AMR/8000", "a=fmtp:96 mode-set=7"],
    "opus-nb-11": [
        "m=audio PORT RTP/AVP 96",
        "a=rtpmap:96 opus/48000/2",
        "a=fmtp:96 maxplaybackrate=8000; maxaveragebitrate=11000; cbr=1",
    ],
}
"""How SDP asks for a codec (RFC 3551 section 6, table 4; RFC 4867 section 8.1; RFC 7587 7)."""


def _udp(candidate: Candidate, paths: Paths, text: Paste) -> None:
    chosen = dict(candidate.values)
    _call(chosen, text)
    ways = chosen.get("paths", "")
    if " and " in ways:
        text.without.append(
            f"paths = {ways}: each packet is sent on both paths with the same RTP header, and the "
            "first copy counts (RFC 7198); a session border controller or SD-WAN router does it."
        )
    elif ways:
        text.commands.append(
            f"ip route replace PEER via GATEWAY dev DEVICE  # those of {_named(paths, ways)}"
        )
    text.costs.append(_load(chosen))


_CONTROLS = {
    "gcc draft_02": "GCC of draft-ietf-rmcat-gcc-02, as pion and rtc-interceptor have it",
    "nada": "NADA (RFC 8698), as go-nada has it",
    "scream": "SCReAM (draft-ietf-ccwg-rfc8298bis-screamv2)",
    "scream as its reference": "SCReAM as EricssonResearch/scream has it",
    "scream with L4S": "SCReAM as EricssonResearch/scream has it, with packets marked with ECT(1)",
}
"""Where a program finds a control that browsers have not."""


def _rtp(candidate: Candidate, paths: Paths, text: Paste) -> None:
    """What the session description says (RFC 4585, 4588, 8888), and what a program does itself."""
    chosen = dict(candidate.values)
    _call(chosen, text)
    if "cc" in chosen:
        text.without.append(
            f"cc = {chosen['cc']}: {_CONTROLS[chosen['cc']]}; browsers have GCC of libwebrtc alone."
        )
    if chosen.get("cc") not in (None, "gcc draft_02") or "feedback" in chosen:
        text.call.append("a=rtcp-fb:* ack ccfb")  # RFC 8888 section 6
    if chosen.get("cc") == "scream with L4S":
        text.socket.append(
            "int tos = 1; /* ECT(1), beside the codepoint's six bits */\n"
            "setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos);"
        )
    if "feedback" in chosen:
        text.without.append(
            "feedback = each frame: the receiver reports once the packet with the marker is there; "
            "RFC 8888 leaves that to it."
        )
    repair = chosen.get("repair")
    if repair == "none":
        text.call.append("# without a=rtcp-fb of the kind nack, and without a payload type for rtx")
    elif repair is not None:
        share = repair.removeprefix("NACK, ")
        text.without.append(
            f"repair = {repair}: retransmissions may take {share} of the target rate; what of that "
            "can be set is the program's."
        )
    _ways(chosen, paths, text)


def _ways(chosen: dict[str, str], paths: Paths, text: Paste) -> None:
    way = chosen.get("paths", "")
    if way in paths.names:
        text.commands.append(
            f"ip route replace PEER via GATEWAY dev DEVICE  # those of {_named(paths, way)}"
        )
    elif way == COPIES:
        text.without.append(
            f"paths = {way}: each packet is sent on every path with the same RTP header, and the "
            "first copy counts (RFC 7198); a session border controller or SD-WAN router does it."
        )
    elif way:
        what = "leaves a path that is silent for 0.5 s"
        if way in AT_ONCE:
            what = "measures all paths, and moves"
        elif not way.endswith(ONE_PATH):
            what = "has a control for each path"
        text.without.append(
            f"paths = {way}: a program with a socket for each path {what}; browsers use one pair "
            "of candidates at a time, and choose it by connectivity alone (RFC 8445)."
        )
    if "retransmissions" in chosen:
        text.without.append(
            f"retransmissions = {chosen['retransmissions']}: that is the program's own choice."
        )


def _call(chosen: dict[str, str], text: Paste) -> None:
    if "codec" in chosen:
        text.call += _IN_SDP[chosen["codec"]]
    if "packetisation" in chosen:
        text.call.append(f"a=ptime:{_ms(chosen['packetisation'])}")  # RFC 8866 section 6.4
    if "jitter_buffer" in chosen:
        depth = chosen["jitter_buffer"].partition(", ")[2]
        text.call.append(f"# jitter buffer of both ends: {chosen['jitter_buffer']}")
        if depth:
            text.call.append(
                f"# in a browser: receiver.jitterBufferTarget = {_ms(depth)}  // of RTCRtpReceiver"
            )


def _load(chosen: dict[str, str]) -> str:
    """What the call needs in each direction: RTP over UDP over IPv4 (12, 8 and 20 bytes)."""
    codec = chosen.get("codec", "g711+plc")
    length_ms = _ms(chosen.get("packetisation", "20 ms"))
    rate = next(one["kbit_per_s"] for one in codecs() if one["name"] == codec)
    assert isinstance(rate, float)
    size = math.ceil(rate * length_ms / 8) + 40
    copies = 2 if " and " in chosen.get("paths", "") else 1
    twice = ", on each of the two paths" if copies == 2 else ""
    return (
        f"The call then needs {8 * size / length_ms:.0f} kbit/s each way{twice}: "
        f"{1000 / length_ms:.0f} packets a second of {size} B with the headers of RTP, UDP and "
        "IPv4."
    )


def _tcp(candidate: Candidate, paths: Paths, text: Paste) -> None:
    chosen = dict(candidate.values)
    _tcp_common(chosen, text)
    if "path" in chosen:
        text.commands.append(
            f"ip route replace PEER via GATEWAY dev DEVICE"
            f"  # those of {_named(paths, chosen['path'])}"
        )


def _mptcp(candidate: Candidate, paths: Paths, text: Paste) -> None:
    chosen = dict(candidate.values)
    _tcp_common(chosen, text)
    if "stale_after" in chosen:
        text.sysctl.append(f"net.mptcp.stale_loss_cnt = {chosen['stale_after']}")
    count = len(paths.names) - 1
    text.commands.append(f"ip mptcp limits set subflows {count} add_addr_accepted {count}")
    for name in paths.names:
        flags = "subflow backup" if chosen.get("backup") == name else "subflow"
        text.commands.append(
            f"ip mptcp endpoint add ADDRESS dev DEVICE {flags}  # those of {_named(paths, name)}"
        )
    text.socket.insert(0, "int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);")
    if "scheduler" in chosen:
        text.without.append(
            f"scheduler = {chosen['scheduler']}: Linux 6.12 has only its default; "
            "see net.mptcp.available_schedulers."
        )
    if "coupling" in chosen:
        text.without.append(
            f"coupling = {chosen['coupling']}: Linux has no counterpart; "
            "its subflows are not coupled."
        )


_QUIC_CONTROLS = {"bbr": "BbrConfig", "cubic": "CubicConfig", "reno": "NewRenoConfig"}


def _quic(candidate: Candidate, paths: Paths, text: Paste) -> None:
    """No operating system has QUIC: its settings are calls of a library."""
    chosen = dict(candidate.values)
    if "cc" in chosen:
        config = _QUIC_CONTROLS[chosen["cc"]]
        text.program.append(
            f"transport.congestion_controller_factory(Arc::new(congestion::{config}::default()));"
        )
    if "max_datagram" in chosen:
        text.program.append(f"transport.initial_mtu({round(octets(chosen['max_datagram']))});")
    if "ack_every" in chosen:
        # The threshold is the number of packets that are not acknowledged at once.
        text.program += [
            "let mut acknowledgements = AckFrequencyConfig::default();",
            f"acknowledgements.ack_eliciting_threshold({int(chosen['ack_every']) - 1}u32.into());",
            "transport.ack_frequency_config(Some(acknowledgements));",
        ]
    ways = chosen.get("paths", "all at the same time")
    if len(paths.names) > 1 and not ways.endswith(ONE_PATH):
        backup = ways.removeprefix("all, ").removesuffix(" as backup")
        text.program.append(f"transport.max_concurrent_multipath_paths({len(paths.names)}); // noq")
        for name in paths.names[1:]:
            status = "Backup" if name == backup else "Available"
            text.program.append(
                f"connection.open_path(ADDRESSES, PathStatus::{status}); // {_named(paths, name)}"
            )
        if backup == paths.names[0]:
            text.program.append(
                "connection.path(PathId::ZERO).unwrap().set_status(PathStatus::Backup);"
                f" // {_named(paths, backup)}"
            )
    elif ways.endswith(ONE_PATH):
        text.program.append(
            "endpoint.rebind(SOCKET)?; // at the address of the other path, when this one fails"
        )
    for name, what in (
        (
            "scheduler",
            "RFC 10069 leaves the choice of the path to the program; noq has none to set",
        ),
        ("ack_path", "RFC 10069 leaves it to the program; noq has none to set"),
        ("coupling", "quinn and noq have no coupled control"),
    ):
        if name in chosen:
            text.without.append(
                f"{name} = {chosen[name]}: {what}; `anabranch quic` and `anabranch.quic` have it."
            )


def _tcp_common(chosen: dict[str, str], text: Paste) -> None:
    if "cc" in chosen:
        text.sysctl.append(f"net.ipv4.tcp_congestion_control = {chosen['cc']}")
        text.socket.append(
            f'setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "{chosen["cc"]}", {len(chosen["cc"])});'
        )
        if chosen["cc"] not in ("cubic", "reno"):
            text.commands.append(
                f"modprobe tcp_{chosen['cc']}  # if it is not among: "
                "sysctl net.ipv4.tcp_available_congestion_control"
            )
            text.undo.append(f"modprobe -r tcp_{chosen['cc']}  # once no connection uses it")
        text.costs.append(
            f"The sysctl makes {chosen['cc']} the control of all new TCP connections of the host; "
            "the socket option does it for one, and needs no root once the module is loaded."
        )
    if "rto_min" in chosen:
        text.sysctl.append(f"net.ipv4.tcp_rto_min_us = {1000 * _ms(chosen['rto_min'])}")
        text.commands.append(
            "# before Linux 6.11, which brought tcp_rto_min_us, leave that out and take: "
            f"ip route change PEER via GATEWAY dev DEVICE rto_min {_ms(chosen['rto_min'])}ms"
        )
    if "ecn" in chosen:
        text.sysctl.append("net.ipv4.tcp_ecn = 1")
    if "buffers" in chosen:
        size = round(octets(chosen["buffers"]))
        # About half of the receive buffer's memory becomes window (scaling_ratio,
        # tcp_adv_win_scale).
        text.sysctl += [
            f"net.ipv4.tcp_rmem = 4096 131072 {2 * size}",
            f"net.ipv4.tcp_wmem = 4096 16384 {size}",
        ]


def _queue(candidate: Candidate, paths: Paths, text: Paste) -> None:
    if candidate["queue"] == DEFAULT:
        return
    kind, _, marked = candidate["queue"].partition(", ")
    codepoint, name_of, octet = (34, "AF41", "0x88") if marked else (46, "EF", "0xb8")
    for name in paths.bottlenecks():
        # Where the queue is at another machine, a limit below the link's rate moves it here.
        limit = f" bandwidth {0.95e-3 * paths.rate_of(name):.0f}kbit" if kind == "cake" else ""
        ends = paths.links[name]["ends"]
        for end, other in (ends, ends[::-1]):
            # The placeholder names a device for each end and link, so no device gets two roots.
            device = f"DEVICE_{_capitals(end)}_{_capitals(name)}"
            where = f"  # on {end}, for what it sends over link `{name}` to {other}"
            if kind == "prio":
                everything = " ".join("1" * 16)
                text.commands += [
                    f"tc qdisc replace dev {device} root handle 1: prio bands 2 priomap "
                    f"{everything}{where}",
                    f"tc filter add dev {device} parent 1: protocol ip u32 match ip dsfield "
                    f"{octet} 0xfc flowid 1:1  # {name_of} goes first",
                ]
            else:
                text.commands.append(f"tc qdisc replace dev {device} root {kind}{limit}{where}")
            text.undo.append(f"tc qdisc del dev {device} root  # on {end}")
            text.checks.append(f"tc -s qdisc show dev {device}  # on {end}")
    if kind == "prio":
        text.call += [
            f"# DSCP of RTP, both ends: {codepoint}, {name_of} (RFC {8837 if marked else 4594})",
            "# in a browser: encodings[0].networkPriority = 'high' in sender.setParameters()",
        ]
    module = f"sch_{kind}"
    since = "Linux 6.18 and later; " if kind == "dualpi2" else ""
    text.commands.insert(0, f"modprobe {module}  # {since}where it is no part of the kernel itself")


def _capitals(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name).upper()


def _after(transport: str, candidate: Candidate, text: Paste) -> None:
    """Adds how to check that the settings are in force, and their side effects."""
    chosen = dict(candidate.values)
    if text.sysctl:
        names = " ".join(line.partition(" =")[0] for line in text.sysctl)
        text.checks.insert(0, f"sysctl {names}")
    if transport == "tcp" and {"cc", "rto_min", "ecn"} & chosen.keys():
        text.checks.append("ss -ti dst PEER  # the control, and rto in ms")
        text.checks.append("nstat -az TcpRetransSegs TcpExtTCPTimeouts TcpExtTCPSpuriousRTOs")
    if transport == "mptcp":
        text.checks.append("ss -Mi  # the subflows")
        text.checks.append("nstat -az MPTcpExtMPJoinSynAckRx MPTcpExtSubflowStale")
        text.checks.append("ip mptcp endpoint show")
        text.undo.append("ip mptcp endpoint flush")
    if transport == "sctp":
        text.checks.append("cat /proc/net/sctp/remaddr  # RTO in ms and state of each path")
        text.checks.append("grep T3 /proc/net/sctp/snmp  # timeouts")
    if "rto_min" in chosen:
        text.costs.append(
            f"With an RTO.Min of {chosen['rto_min']} a delay that grows by more in a round trip, "
            "as in a queue that fills, is a timeout: data is retransmitted, and with several paths "
            "moved, for no reason. The commands at the end count the timeouts."
        )


def _socket_buffers(size: str, text: Paste) -> None:
    count = round(octets(size))
    # SCTP's window is half of the receive buffer (net/sctp/associola.c). The `_default` sysctls are
    # for programs that ask for no size; the `_max` ones limit what the others may ask for.
    text.sysctl += [
        f"net.core.wmem_default = {count}",
        f"net.core.rmem_default = {2 * count}",
        f"net.core.wmem_max = {count}",
        f"net.core.rmem_max = {2 * count}",
    ]
    # The kernel doubles the value it is given (socket(7)).
    text.socket.append(
        f"int send_size = {count // 2}, receive_size = {count};\n"
        "setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_size, sizeof send_size);\n"
        "setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_size, sizeof receive_size);"
    )


def _set(text: Paste, structure: str, option: str, fields: dict[str, Any]) -> None:
    name = option.removeprefix("SCTP_").lower()
    values = ", ".join(f".{key} = {value}" for key, value in fields.items())
    text.socket.append(
        f"struct {structure} {name} = {{ {values} }};\n"
        f"setsockopt(fd, IPPROTO_SCTP, {option}, &{name}, sizeof {name});"
    )


def _named(paths: Paths, path: str) -> str:
    return f"path `{path}`" if path in paths.names else path


def _ms(text: str) -> int:
    return round(milliseconds(text))
