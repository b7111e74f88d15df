"""What can be set in each transport, and which values are worth trying.

The first value of every setting is "default": nothing is set, and the transport's profile decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.support.quantities import milliseconds
from anabranch.support.transports import can

from .paths import Paths

DEFAULT = "default"

TRANSPORTS: dict[str, dict[str, str]] = {
    "sctp": {"rfc": "rfc9260", "linux": "linux"},
    "mptcp": {"rfc": "rfc8684", "linux": "linux_6"},
    "tcp": {"rfc": "rfc", "linux": "linux_6"},
    "udp": {"rfc": "rtp", "linux": "rtp"},
    "quic": {"rfc": "rfc9000", "linux": "rfc9000"},
    "rtp": {"rfc": "webrtc", "linux": "webrtc"},
}
"""Transport -> profile -> its name for people; their defaults are the baselines."""

RTP = "rtp"
"""What stands for a profile of UDP, which has none: RTP as most telephones send it."""

WEBRTC = "webrtc"
"""What stands for a profile of RTP with a congestion control, which has none: what browsers do."""

RFC9000 = "rfc9000"
"""The profile of QUIC: no operating system has one of its own."""

PROFILE_NAMES = {
    "rfc9260": "RFC 9260 defaults",
    "rfc8684": "RFC 8684 defaults",
    RFC9000: "RFC 9000 defaults",
    "rfc": "RFC defaults",
    "linux": "Linux defaults",
    "linux_6": "Linux defaults",
    RTP: "usual call",
    WEBRTC: "usual WebRTC call",
}


_WITHOUT_POTENTIALLY_FAILED = ("ns2", "rfc2960", "rfc4960", "rfc9260")
"""Profiles without potentially-failed paths, which RFC 7829 brought."""


@dataclass(frozen=True)
class Setting:
    """One thing that can be set."""

    name: str
    """The setting's name; where it is one key of a scenario file, that key."""
    values: dict[str, dict[str, Any]]
    """Label -> dotted path -> value. A path that begins with `transport.` or `app.` is a key of the
    flow.
    """
    defaults: dict[str, str] = field(default_factory=dict)
    """Profile -> its default value, in words."""
    in_linux: bool = True
    """Whether Linux has this setting."""

    def label(self, value: str, profile: str) -> str:
        """A value in words, with the profile's where it is the default."""
        if value != DEFAULT:
            return value
        known = self.defaults.get(profile)
        return DEFAULT if known is None else f"default ({known})"


@dataclass(frozen=True)
class Candidate:
    """A profile, and the settings whose values differ from the default."""

    profile: str
    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, profile: str, values: Mapping[str, str]) -> "Candidate":
        """Sorts the values, so that the same settings are always the same candidate."""
        changed = {name: value for name, value in values.items() if value != DEFAULT}
        return cls(profile, tuple(sorted(changed.items())))

    def __getitem__(self, setting: str) -> str:
        """The value of a setting."""
        return dict(self.values).get(setting, DEFAULT)

    def having(self, setting: str, value: str) -> "Candidate":
        """The candidate with another value of one setting."""
        return Candidate.of(self.profile, dict(self.values) | {setting: value})

    @property
    def name(self) -> str:
        """What people and tables call it."""
        if not self.values:
            return PROFILE_NAMES.get(self.profile, f"{self.profile} defaults")
        changed = ", ".join(f"{name} = {value}" for name, value in self.values)
        return changed if is_usual(self.profile) else f"{self.profile}: {changed}"

    @property
    def base(self) -> dict[str, Any]:
        """What the profile itself sets."""
        of_calls: dict[str, dict[str, Any]] = {
            RTP: {"transport.rtp": True},
            WEBRTC: {"transport.cc.kind": "gcc"},
        }
        return of_calls.get(self.profile, {"transport.profile": self.profile})


def is_linux(profile: str) -> bool:
    """Whether the profile is that of a Linux host."""
    return profile.startswith("linux")


def is_usual(profile: str) -> bool:
    """Whether names of candidates go without the profile's: people set up Linux, RTP or QUIC."""
    return is_linux(profile) or profile in {RTP, WEBRTC, RFC9000}


def settings_of(transport: str, goal: str, paths: Paths, profile: str) -> list[Setting]:
    """The settings that may matter for a goal over these paths."""
    several = len(paths.names) > 1
    of = {"sctp": _sctp, "tcp": _tcp, "mptcp": _mptcp, "udp": _udp, "quic": _quic, "rtp": _rtp}
    settings = of[transport](goal, paths, several)
    if profile in _WITHOUT_POTENTIALLY_FAILED:
        settings = [setting for setting in settings if setting.name != "pf_max_retrans"]
    is_open_loop = not can(transport).flow_control
    if goal == "latency" or is_open_loop:
        marks = (VIDEO_DSCP if goal == "video" else CALL_DSCP) if is_open_loop else None
        settings += _queues(paths, marks, l4s=transport == "rtp")
    # A value that equals the profile's default would be the same candidate twice.
    return [
        replace(s, values={v: p for v, p in s.values.items() if v != s.defaults.get(profile)})
        for s in settings
    ]


def mask(setting: str, candidate: Candidate, settings: Mapping[str, Setting]) -> Setting | None:
    """The setting that hides the effect of another one while it is on, if there is one.

    Potentially-failed paths (RFC 7829) with a threshold of 0 lose their data at the first timeout,
    whatever Path.Max.Retrans is.
    """
    failed = settings.get("pf_max_retrans")
    if setting != "path_max_retrans" or failed is None:
        return None
    value = candidate["pf_max_retrans"]
    on = (failed.defaults.get(candidate.profile) if value == DEFAULT else value) == "0"
    return failed if on and "off" in failed.values else None


def possible(candidate: Candidate) -> bool:
    """Whether these settings can be combined."""
    if candidate["codec"] in _FRAMES_OF_20_MS and candidate["packetisation"] == "10 ms":
        return False
    if candidate["paths"].endswith(ONE_PATH) and _OF_SEVERAL & dict(candidate.values).keys():
        return False
    if candidate["retransmissions"] != DEFAULT and not _again_elsewhere(candidate["paths"]):
        return False
    low, high = candidate["rto_min"], candidate["rto_max"]
    if high == DEFAULT:
        return True
    # RTO.Min is 1 s by default in all of these profiles.
    return milliseconds("1 s" if low == DEFAULT else low) <= milliseconds(high)


def _keys(name: str, values: Sequence[Any], defaults: Mapping[str, str] | None = None) -> Setting:
    """A setting that is one key of the transport, with these values."""
    labelled = {str(value): {f"transport.{name}": value} for value in values}
    return Setting(name, {DEFAULT: {}} | labelled, dict(defaults or {}))


def _same(value: str, *profiles: str) -> dict[str, str]:
    return dict.fromkeys(profiles or ("rfc9260", "rfc4960", "linux", "ns2", "freebsd_10"), value)


def _sctp(goal: str, paths: Paths, several: bool) -> list[Setting]:  # noqa: FBT001 - private
    rto_min = _keys("rto_min", ["0.2 s", "0.1 s", "0.05 s", "0.02 s"], _same("1 s"))
    rto_max = _keys("rto_max", ["10 s", "1 s", "0.5 s", "0.2 s", "0.1 s", "0.05 s"], _same("60 s"))
    sack = _keys("sack_frequency", [1], _same("2"))
    settings = [rto_min, rto_max, sack]
    if several and goal != "goodput":  # for which no path has to fail
        hb = _keys("hb_interval", ["5 s", "1 s", "0.1 s"], _same("30 s"))
        amr = _same("10", "rfc9260", "rfc4960", "linux", "freebsd_10") | {"ns2": "off"}
        settings += [
            _keys("path_max_retrans", [1, 2, 3], _same("5")),
            _keys("pf_max_retrans", [0, "off"], {"linux": "0", "freebsd_10": "off"}),
            _keys("association_max_retrans", [1000], amr),
            hb,
            _policy(),
        ]
    if several and goal != "failover":  # there, the primary path is the one that dies
        settings.append(_primary("primary_path", paths))
    if goal == "goodput":
        settings += [
            _buffers(["512 KiB", "1 MiB"], _same("208 and 104 KiB", "rfc9260", "linux")),
            _keys("max_burst", [16], _same("4") | {"ns2": "off"}),
        ]
        if several:
            sharing = {"on": {"transport.load_sharing.scheduler": "min_rtt"}}
            values: dict[str, dict[str, Any]] = {DEFAULT: {}} | sharing
            settings.append(Setting("load_sharing", values, _same("off"), in_linux=False))
    return settings


def _policy() -> Setting:
    values: dict[str, dict[str, Any]] = {
        DEFAULT: {},
        "delay_centric": {"transport.policy.kind": "delay_centric"},
    }
    return Setting("policy", values, _same("failover"), in_linux=False)


def _primary(key: str, paths: Paths) -> Setting:
    others = {
        name: {f"transport.{key}": position}
        for position, name in enumerate(paths.names)
        if position > 0
    }
    profiles = ("rfc9260", "rfc4960", "linux", "ns2", "freebsd_10", "linux_6", "rfc")
    return Setting(key, {DEFAULT: {}} | others, _same(paths.names[0], *profiles))


def _buffers(sizes: Sequence[str], defaults: Mapping[str, str]) -> Setting:
    values: dict[str, dict[str, Any]] = {
        size: {"transport.send_buffer": size, "transport.receive_buffer": size} for size in sizes
    }
    return Setting("buffers", {DEFAULT: {}} | values, dict(defaults))


def _cc() -> Setting:
    names = ("bbr", "cubic", "htcp", "illinois", "reno", "vegas", "westwood")
    values: dict[str, dict[str, Any]] = {name: {"transport.cc.kind": name} for name in names}
    return Setting("cc", {DEFAULT: {}} | values, {"linux_6": "cubic", "rfc": "cubic"})


def _tcp(goal: str, paths: Paths, several: bool) -> list[Setting]:  # noqa: FBT001 - private
    settings = [
        _cc(),
        _keys("rto_min", ["0.05 s"], {"linux_6": "0.2 s", "rfc": "1 s"}),
        _keys("ecn", ["rfc3168"], {"linux_6": "off", "rfc": "off"}),
    ]
    if goal == "goodput":
        defaults = {"linux_6": "4 and 6 MiB", "rfc": "1 MiB"}
        settings.append(_buffers(["1 MiB", "16 MiB"], defaults))
    if several:
        settings.append(_primary("path", paths))
    return settings


def _mptcp(goal: str, paths: Paths, several: bool) -> list[Setting]:  # noqa: FBT001 - private
    if not several:
        raise AnabranchError(
            "mptcp needs a second path: there is one, "
            f"`{paths.names[0]}`; with the transport tcp it can be advised on"
        )
    coupling: dict[str, dict[str, Any]] = {
        kind: {"transport.coupling.kind": kind} for kind in ("lia", "olia", "balia")
    }
    backups: dict[str, dict[str, Any]] = {
        name: {"transport.backup": [position]} for position, name in enumerate(paths.names)
    }
    schedulers = _keys(
        "scheduler",
        ["min_rtt", "blest", "ecf", "redundant"],
        {"linux_6": "linux", "rfc8684": "min_rtt"},
    )
    couplings = {"linux_6": "per_path", "rfc8684": "lia"}
    settings = [
        _cc(),
        replace(schedulers, in_linux=False),
        Setting("coupling", {DEFAULT: {}} | coupling, couplings, in_linux=False),
        _keys("stale_after", [1, 2, 8], {"linux_6": "4", "rfc8684": "1"}),
    ]
    if goal != "failover":
        settings.append(
            Setting("backup", {DEFAULT: {}} | backups, _same("none", "linux_6", "rfc8684"))
        )
    if goal == "goodput":
        defaults = {"linux_6": "4 and 6 MiB", "rfc8684": "1 MiB"}
        settings.append(_buffers(["1 MiB", "16 MiB"], defaults))
    return settings


ONE_PATH = " until it fails"
"""How names of ways end in which QUIC uses one path at a time."""
_OF_SEVERAL = {"ack_path", "coupling", "scheduler"}
"""Settings of QUIC that mean something over several paths at the same time."""


def _quic(goal: str, paths: Paths, several: bool) -> list[Setting]:  # noqa: FBT001 - private
    """What a program that speaks QUIC can set; it uses all paths (RFC 10069)."""
    controls: dict[str, dict[str, Any]] = {
        name: {"transport.cc.kind": name} for name in ("bbr", "cubic", "reno")
    }
    settings = [
        Setting("cc", {DEFAULT: {}} | controls, _quic_default("cubic", quic_go="reno")),
        _keys("ack_every", [1, 10], _quic_default("2")),
    ]
    if goal != "mos":  # whose packets are small
        settings.append(_keys("max_datagram", ["1452 B"], {RFC9000: "1200 B"}))
    if not several:
        return settings
    coupling: dict[str, dict[str, Any]] = {
        kind: {"transport.coupling.kind": kind} for kind in ("lia", "olia", "balia")
    }
    ways: dict[str, dict[str, Any]] = {
        f"{name}{ONE_PATH}": {
            "transport.multipath": False,
            "transport.migration": "on_failure",
            "transport.path": position,
        }
        for position, name in enumerate(paths.names)
    }
    backups: dict[str, dict[str, Any]] = {
        f"all, {name} as backup": {"transport.backup": [position]}
        for position, name in enumerate(paths.names)
    }
    settings += [
        Setting("paths", {DEFAULT: {}} | ways | backups, _quic_default("all at the same time")),
        _keys("scheduler", ["blest", "ecf", "redundant"], _quic_default("min_rtt")),
        _keys("ack_path", ["fastest", "first"], _quic_default("same")),
    ]
    if goal == "goodput":
        settings.append(Setting("coupling", {DEFAULT: {}} | coupling, _quic_default("per_path")))
    return settings


def _quic_default(value: str, **others: str) -> dict[str, str]:
    """A default of every profile of QUIC; those of some by name."""
    return dict.fromkeys((RFC9000, "noq", "picoquic", "quic_go", "quinn"), value) | others


_FRAMES_OF_20_MS = ("amr-12.2",)
"""Codecs whose frames are as long as the usual packet, so that none is shorter."""


def _udp(goal: str, paths: Paths, several: bool) -> list[Setting]:  # noqa: FBT001 - private
    """What a telephone, its peer and the session description can set."""
    del goal
    settings = _call(RTP)
    if several:
        ways: dict[str, dict[str, Any]] = {}
        for position, name in enumerate(paths.names[1:], 1):
            ways[name] = {"transport.path": position}
            ways[f"{paths.names[0]} and {name}"] = {"transport.duplicate_on": position}
        settings.append(Setting("paths", {DEFAULT: {}} | ways, {RTP: paths.names[0]}))
    return settings


def _call(profile: str) -> list[Setting]:
    """What a call in RTP has, with and without a congestion control."""
    packets = {value: {"app.packetisation": value} for value in ("10 ms", "40 ms", "60 ms")}
    buffers: dict[str, dict[str, Any]] = {
        f"fixed, {depth}": {"app.jitter_buffer": {"kind": "fixed", "depth": depth}}
        for depth in ("40 ms", "60 ms", "150 ms", "200 ms", "300 ms")
    }
    buffers |= {
        "adaptive": {"app.jitter_buffer": {"kind": "adaptive"}},
        "spike detection": {"app.jitter_buffer": {"kind": "spike"}},
    }
    # Those for narrowband speech for whose concealment G.113 has a value.
    codecs = {name: {"app.codec": name} for name in ("g729a+vad", "amr-12.2", "opus-nb-11")}
    return [
        Setting("packetisation", {DEFAULT: {}} | packets, {profile: "20 ms"}),
        Setting("jitter_buffer", {DEFAULT: {}} | buffers, {profile: "fixed, 100 ms"}),
        Setting("codec", {DEFAULT: {}} | codecs, {profile: "g711+plc"}),
    ]


COPIES = "copies on all"
DIVIDED = "divided by rate"
FASTER = "the faster one"
RATED = "the one rated higher"
AT_ONCE = (FASTER, RATED)
"""Ways in which RTP goes on one path at a time by what it measures of each."""


def _rtp(goal: str, paths: Paths, several: bool) -> list[Setting]:  # noqa: FBT001 - private
    """What a program that speaks RTP with a congestion control can set."""
    cc = "transport.cc.kind"
    draft = {"transport.cc.kind": "scream", "transport.feedback_per_frame": True}
    # What SCReAM's draft calls optional and its reference always has.
    whole = draft | {"transport.cc.reduce_jitter": True, "transport.cc.loss_rate_threshold": 0.01}
    controls: dict[str, dict[str, Any]] = {
        "gcc draft_02": {"transport.cc.variant": "draft_02"},
        "nada": {cc: "nada"},
        "scream": draft,
        "scream as its reference": whole,
        "scream with L4S": whole | {"transport.ecn": "ect1"},
    }
    repairs: dict[str, dict[str, Any]] = {
        "none": {"transport.nack": False},
        "NACK, a tenth": {"transport.retransmission_share": 0.1},
        "NACK, all": {"transport.retransmission_share": 1.0},
    }
    settings = [
        Setting("cc", {DEFAULT: {}} | controls, {WEBRTC: "gcc"}),
        Setting("repair", {DEFAULT: {}} | repairs, {WEBRTC: "NACK, half"}),
        Setting(
            "feedback",
            {DEFAULT: {}, "each frame": {"transport.feedback_per_frame": True}},
            {WEBRTC: "each 100 ms"},
        ),
    ]
    if goal == "mos":
        settings += _call(WEBRTC)
    if several:
        same = {"same path": {"transport.policy.retransmit_on": "same"}}
        settings += [
            Setting("paths", {DEFAULT: {}} | _ways(paths), {WEBRTC: paths.names[0]}),
            Setting("retransmissions", {DEFAULT: {}} | same, {WEBRTC: "another path"}),
        ]
    return settings


def _again_elsewhere(way: str) -> bool:
    """Whether a way to use several paths says on which of them packets are sent again."""
    return way.endswith(ONE_PATH) or way.startswith(DIVIDED)


def _ways(paths: Paths) -> dict[str, dict[str, Any]]:
    """How RTP may use several paths."""
    policy, scheduler = "transport.policy", "transport.scheduler"
    ways: dict[str, dict[str, Any]] = {}
    for position, name in enumerate(paths.names):
        path = {"transport.path": position}
        if position > 0:
            ways[name] = path
        ways[f"{name}{ONE_PATH}"] = path | {f"{policy}.kind": "failover"}
    divided = {scheduler: "proportional", f"{policy}.kind": "failover"}
    if len(paths.names) > 2:
        for position, name in enumerate(paths.names):
            ways[f"{DIVIDED}, {name} as backup"] = divided | {"transport.backup": [position]}
    return ways | {
        COPIES: {scheduler: "redundant"},
        DIVIDED: divided,
        # Margin, dwell and window are those of scenarios/video-two-paths.toml.
        FASTER: {
            f"{policy}.kind": "delay_centric",
            f"{policy}.margin": "10 ms",
            f"{policy}.dwell": "1 s",
        },
        RATED: {f"{policy}.kind": "echo", f"{policy}.window": "5 s"},
    }


CALL_DSCP, VIDEO_DSCP = "ef", "af41"
"""What audio and video of a call are marked with for priority (RFC 8837 section 5)."""


def _queues(paths: Paths, marks: str | None, *, l4s: bool) -> list[Setting]:
    """The settings for queue disciplines at the slowest links, in both directions.

    With `marks`, one is priority for packets with that codepoint; with `l4s`, one has a queue for
    packets marked with ECT(1).
    """
    links = paths.bottlenecks()
    if not links:
        return []

    def everywhere(kind: str, **keys: Any) -> dict[str, Any]:
        sets: dict[str, Any] = {}
        for name in links:
            sets[f"links.{name}.queue"] = {"kind": kind} | keys
            if "queue" in paths.links[name].get("reverse", {}):
                sets[f"links.{name}.reverse.queue"] = {"kind": kind} | keys
        return sets

    kinds = ("fq_codel", "codel", "cake", "pie", *(("dualpi2",) if l4s else ()))
    values = {kind: everywhere(kind) for kind in kinds}
    if marks == CALL_DSCP:
        values["prio"] = everywhere("prio") | {"dscp": marks}
    elif marks is not None:
        bands = [{"dscp": [marks]}, {}]
        values[f"prio, {marks}"] = everywhere("prio", bands=bands) | {"dscp": marks}
    profiles = ("rfc9260", "rfc8684", "rfc", "linux", "linux_6", RTP, WEBRTC)
    return [Setting("queue", {DEFAULT: {}} | values, _same("as in the file", *profiles))]
