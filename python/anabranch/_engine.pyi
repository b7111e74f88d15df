"""The compiled engine: everything that computes. Times in results are in the unit that their name ends with."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict, final, overload, type_check_only

from anabranch.errors import LiveError, RunError, ScenarioError

__all__ = [
    "ENGINE_VERSION",
    "PROFILE_GUIDED",
    "QUIC",
    "AckEvent",
    "ArrivalEvent",
    "Cancel",
    "CaptureReader",
    "CongestionEvent",
    "Cumulative",
    "Drops",
    "DuplicateEvent",
    "Emulation",
    "Failover",
    "HeartbeatPair",
    "IdleEvent",
    "Interval",
    "LiveCall",
    "LiveError",
    "LiveHost",
    "LostEvent",
    "MediaFeedback",
    "Packet",
    "PacketReport",
    "PathEvent",
    "PathStatus",
    "PathView",
    "Pending",
    "Probe",
    "ProbeEvent",
    "QuicHost",
    "RateSample",
    "RecoveryEndEvent",
    "Retransmission",
    "RttEvent",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Selection",
    "SentEvent",
    "SteppedRun",
    "Testbed",
    "UndoEvent",
    "__version__",
    "certificates",
    "chain_log_likelihood",
    "check_key",
    "codecs",
    "drill",
    "emodel",
    "enter_namespaces",
    "follow_sightings",
    "is_capture",
    "models",
    "newly_acknowledged",
    "plugin_calls",
    "plugin_interrupt",
    "quantity",
    "results",
    "run",
    "run_batch",
    "schema",
    "self_signed",
    "toml_tree",
    "transports",
    "walk_sender",
]

__version__: str

ENGINE_VERSION: str
"""The version and a hash of the engine's sources, `0.1.0+1a2b3c4d`: rows with the same one come from the same engine."""

QUIC: bool
"""Whether the engine speaks QUIC with peers: if not, there is no `QuicHost`, `certificates`, `check_key` and
`self_signed`."""

PROFILE_GUIDED: bool
"""Whether the engine was compiled with a profile of its runs, as wheels are: the same results, sooner."""

@type_check_only
class Axis(TypedDict):
    name: str
    """The axis's name, which is its column's name in results."""
    labels: list[str]
    """The values as the scenario writes them."""
    values: list[float] | list[str] | list[bool]
    """The values as results have them: numbers in base units (s, bit/s, B, share) where all are quantities."""

@type_check_only
class Until(TypedDict):
    """When a cell has been run often enough; see `sweep.until` of the scenario file."""

    metric: str
    half_width: float
    level: float
    least: int
    most: int

@type_check_only
class Design(TypedDict):
    """How points are spread over the ranges of the axes."""

    kind: Literal["latin_hypercube", "sobol", "saltelli"]
    points: int
    seed: int

@type_check_only
class Part(TypedDict):
    """Cells that are repeated equally often: the sweep's own, or those of a named sub-study."""

    study: str
    """`main` for the sweep's own cells."""
    first_cell: int
    cell_count: int
    replications: int
    """Of each cell, unless there is `until`."""
    until: Until | None
    design: Design | None
    is_open: bool
    """Whether the design has no points yet: `with_points` gives it some."""
    axes: list[str]

@final
class Scenario:
    """A checked scenario, with its sweep if it has one."""

    @staticmethod
    def load(path: str, sets: Sequence[tuple[str, str]] = ...) -> Scenario:
        """Reads a TOML file and applies `--set path=value` pairs. Raises ScenarioError (also for a file that cannot be read)."""
    @staticmethod
    def parse(text: str, sets: Sequence[tuple[str, str]] = ..., folder: str = ...) -> Scenario:
        """The same for TOML text; `folder` is where relative file names in it start."""
    def check_reached(self, sets: Sequence[tuple[str, str]]) -> None:
        """Raises ScenarioError if an axis sets one of these paths in every cell, so that the pair changes nothing."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def replications(self) -> int:
        """Replications per cell that the sweep asks for; 1 without a sweep."""
    @property
    def metrics(self) -> list[str]:
        """Patterns of the scalars that are kept; empty for all of them."""
    @property
    def traces(self) -> list[str]:
        """The trace tables that are kept of every run."""
    @property
    def until(self) -> Until | None:
        """When a cell of the sweep's own has been run often enough; `parts` has those of sub-studies."""
    @property
    def design(self) -> Design | None:
        """The design of the sweep's own cells; `parts` has those of sub-studies."""
    @property
    def studies(self) -> list[str]:
        """`main` if the sweep has cells of its own, and the names of its sub-studies; empty when there are none."""
    @property
    def parts(self) -> list[Part]:
        """The sweep's own cells, if it has any, and its sub-studies: each is a range of cells."""
    @property
    def axes(self) -> list[Axis]:
        """The sweep's axes, those of all sub-studies together; empty without a sweep."""
    @property
    def cell_count(self) -> int:
        """Cells of the sweep; 1 without a sweep, 0 while its design has no points. The last axis varies fastest."""
    @property
    def hash(self) -> str:
        """16 hexadecimal digits that identify everything in the scenario that can change a result, the seed and the axes
        included, replications, names and descriptions excluded.
        """
    def cell_hashes(self) -> list[str]:
        """For each cell the `hash` of the cell as a scenario of its own (16 hexadecimal digits; seed included, names, descriptions
        and where files lie excluded): equal cells of different sweeps have the same one. Computed on all cores without the GIL.
        """
    def cell_key(self, cell: int) -> dict[str, float | str | bool]:
        """The value of each axis that this cell has."""
    def cell_study(self, cell: int) -> str:
        """The sub-study that this cell is of; `main` for the sweep's own."""
    def cell_toml(self, cell: int) -> str:
        """This cell as a scenario of its own, without a sweep."""
    def scalars(self, cell: int = 0) -> list[str]:
        """The names of the scalars that runs of this cell have and the sweep keeps, without a run."""
    def point_cells(self, study: str = "main") -> list[int]:
        """The cell of each point of a Saltelli design, which several points may share; empty for all other designs. For each
        base point: A, A with the first axis of B, A with the second, and so on, B. Raises ScenarioError without such a sub-study.
        """
    def with_points(self, points: Sequence[Sequence[float]], study: str = "main") -> Scenario:
        """The scenario whose design (or that of a sub-study) has these points: for each of them a share of the way from one end
        to the other, from 0 to 1, for each axis. Those that `where` excludes are left out. Raises ScenarioError.
        """
    def to_toml(self) -> str:
        """The scenario with every default filled in."""
    def _repr_html_(self) -> str:
        """The network, the sweep and the scenario's text for a notebook."""
    def __copy__(self) -> Scenario: ...
    def __deepcopy__(self, _memo: object, /) -> Scenario: ...

@type_check_only
class Result(TypedDict):
    summary: dict[str, float]
    """Every scalar of the run: `call.mos`, `link.p0-middle.forward.mean_wait_ms`, ..."""
    traces: dict[str, dict[str, list[Any]]]
    """Table -> column -> values; empty unless asked for. `anabranch list tables` has the tables."""

@type_check_only
class SupportsWrite(Protocol):
    """A file that is open for writing."""

    def write(self, data: bytes, /) -> int: ...
    def flush(self) -> None: ...

def run(
    scenario: Scenario,
    cell: int = 0,
    seed: int | None = None,
    replication: int = 0,
    trace: bool = False,
    capture: SupportsWrite | None = None,
    capture_at: str | None = None,
) -> Result:
    """One run; its packets as a capture (pcapng) into a file that is open for writing, or those of one node. Releases the GIL; hears Ctrl-C and other signals while it runs."""

@final
class Cancel:
    """Ends a `run_batch` early, from another thread."""

    def __new__(cls) -> Cancel: ...
    def set(self) -> None:
        """Runs in flight are given up within 0.1 s, and no other is begun."""

@final
class Interval:
    """What a driven flow has done since it was last asked."""

    @property
    def seconds(self) -> float:
        """Simulated seconds since then."""
    @property
    def acked(self) -> int:
        """Bytes acknowledged."""
    @property
    def lost(self) -> int:
        """Bytes taken for lost."""
    @property
    def rtt(self) -> float | None:
        """Mean of the round-trip times measured, in milliseconds; None if there was none."""
    @property
    def delay(self) -> float | None:
        """Mean one-way delay of media that arrived, in milliseconds; None if none did."""
    @property
    def fast_retransmits(self) -> int:
        """Losses found by acknowledgements that asked for a smaller window."""
    @property
    def timeouts(self) -> int:
        """Retransmission timeouts."""

@final
class CaptureReader:
    """A capture that is being read: pcap, pcapng, snoop or ERF, also in gzip and zstd. AnabranchError if it is none."""

    def __new__(cls, path: str | PathLike[str], interface: str | None = None) -> CaptureReader:
        """`interface` is the only interface or place whose packets are wanted."""
    def next_batch(self) -> dict[str, tuple[str, bytes]] | None:
        """The columns of the next packets, up to 65,536: of each the type of its values in numpy's words, and the values. None
        at the end. Releases the GIL."""
    @property
    def position(self) -> int:
        """How many bytes of the file have been read."""
    @property
    def interfaces(self) -> list[tuple[str, int]]:
        """The names of interfaces with frames so far, and how many each has."""
    def places(self, first: int) -> list[tuple[str, str]]:
        """The places from this number on: each one's name and that of its interface."""
    def addresses(self, first: int) -> list[bytes]:
        """The addresses from this number on, packed."""
    def comments(self, first: int) -> list[bytes]:
        """The comments from this number on, as they are in the file."""
    @property
    def names(self) -> list[tuple[bytes, bytes]]:
        """Hosts' packed addresses and names."""
    @property
    def left_out(self) -> list[tuple[str, int]]:
        """What has been left out so far, in words, and how often."""
    @property
    def damage(self) -> str | None:
        """Why the file could not be read to its end."""
    @property
    def steps_back(self) -> tuple[int, int]:
        """How often time stepped back at an interface, and the longest of these steps in nanoseconds."""

def is_capture(path: str | PathLike[str]) -> bool:
    """Whether a file is a capture, also if it is compressed."""

def follow_sightings(columns: dict[str, bytes]) -> bytes:
    """Which sightings at several places are of one packet. Columns of 64-bit numbers, a value for each sighting in the order of
    time: `at_s` (real), `domain`, `identity`, `place`, `is_near`, `is_dropped`. For each the index of that with which its packet
    was sent, or -1, as 64-bit integers.
    """

def certificates(pem: bytes) -> list[bytes]:
    """The certificates of a text in PEM, as DER."""

def check_key(chain: bytes, key: bytes) -> None:
    """Raises a LiveError if this is not the key, in PEM, of the first certificate of the chain."""

def self_signed(names: Sequence[str]) -> tuple[str, str]:
    """A new certificate for these names and addresses, and its key, both in PEM."""

def chain_log_likelihood(
    packets: bytes,
    is_lost: bytes,
    changes: bytes,
    is_bad: float,
    loss_in_good: float,
    loss_in_bad: float,
) -> float:
    """The logarithm of the probability of losses under a chain of two states, of which `is_bad` is the bad one's share. A value
    for each stretch of packets with the same fate: how many they are (64-bit integers), whether they were lost (a byte), and how
    far the chain forgets its state behind each, the probabilities of both changes together (64-bit reals).
    """

def newly_acknowledged(columns: dict[str, bytes]) -> bytes:
    """How many numbers each acknowledgement says to have arrived that none before it did, as 64-bit integers; of the first one,
    none. Columns of 64-bit integers: `number`, the next one that each expects; what each reports above it (`selective.of`,
    `selective.start`, `selective.end`); what had arrived before the first one (`known.start`, `known.end`).
    """

def walk_sender(
    protocol: str,
    times_s: tuple[float, float, float],
    is_open: list[bool],
    cuts_s: list[float],
    columns: dict[str, bytes],
) -> dict[str, Any]:
    """Follows one end of a flow of `TCP`, `MPTCP` or `SCTP` as a sender of data: what held it back, by path.

    Parameters
    ----------
    protocol
        What it speaks.
    times_s
        When its first packet was sent, and its last one seen; the least round trip, infinite if it is not known.
    is_open
        For each path, whether it was open before.
    cuts_s
        When the capture's clock was set back.
    columns
        64-bit numbers. Packets of both ends: `sent_s` (real), `octets`, `is_overtaken`; of TCP `flags`, `sequence`, `length`,
        `acknowledgement`, `window`, `scale`, `data_end`, `data_acknowledgement`, -1 for what one lacks, and rows of `sacks`
        (`packet`, `start`, `end`); of SCTP rows of `chunks` (`packet`, `kind`, `number`, `data`, `window`, `identity`) and `gaps`
        (`chunk`, `start`, `end`). What is sent and what comes in, in the order of time: `event.at_s` (real), `event.path`,
        `event.packet`, `event.is_own`.

    Returns
    -------
    The members of `Sender` in `python/anabranch/explain/captured/sender.py`; `fates` has a byte for each packet, with bits for what
    was sent again (1), repeated (2), awaited (4), a keep-alive (8), a probe (16).
    """

@final
class SteppedRun:
    """A run in pieces. All methods raise RunError while one of them is at work, in another thread or below a hook."""

    def __new__(
        cls, scenario: Scenario, cell: int = 0, seed: int | None = None, replication: int = 0
    ) -> SteppedRun: ...
    def drive(self, flow: str, window: int) -> None:
        """Lets the window of a flow's sender, in bytes, be set from outside; before the run."""
    def drive_media(self, flow: str, rate: int) -> None:
        """Lets the rate of the media of a flow's sender over one path, in bit/s, be set from outside; before the run."""
    def set_limit(self, limit: int) -> None:
        """Sets the window of the driven flow, in bytes, or the rate of its media, in bit/s, from its next packet or acknowledgement
        on."""
    def interval(self) -> Interval:
        """What the driven flow has done since this was last called."""
    def set_primary(self, flow: str, path: int) -> None:
        """Makes a path the primary one at a flow's sender, now."""
    def paths(self, flow: str) -> list[tuple[str, bool, float | None, int, int]]:
        """The paths of a flow's sender now: state, whether new data is sent there, smoothed round-trip time in milliseconds, bytes
        outstanding, timeouts so far."""
    def advance(self, until: int) -> bool:
        """Goes on to a time in nanoseconds since the run began; whether the run is over. Releases the GIL; hears Ctrl-C."""
    @property
    def now(self) -> int:
        """The simulated time in nanoseconds."""
    def summary(self) -> dict[str, float]:
        """The scalars from the beginning until now."""

@overload
def run_batch(
    scenario: Scenario,
    jobs: Sequence[tuple[int, int]],
    threads: int,
    seed: int | None = None,
    cancel: Cancel | None = None,
) -> dict[str, list[float]]: ...
@overload
def run_batch(
    scenario: Scenario,
    jobs: Sequence[tuple[int, int]],
    threads: int,
    seed: int | None = None,
    cancel: Cancel | None = None,
    traces: Sequence[str] = ...,
) -> dict[str, Any]:
    """Many runs, `jobs` being (cell, replication) pairs, on so many threads: column -> one value (float) per job, in the order of
    the jobs. The first columns are `cell` and `replication`. Bytes equal for any number of threads. Releases the GIL; call it with
    batches of about a second so that progress can be shown, from another thread than the one that hears Ctrl-C.

    `cancel`: when it is set, only jobs that are finished are in the result.
    `traces`: names of trace tables; with one or more, the entry `traces` is a list of (cell, replication, {table: {column:
    values}}), one for each job that has any of them.
    """

def toml_tree(text: str) -> str:
    """The tree that a TOML text is, as JSON text; no file that it names is read. Raises ScenarioError.

    The time that this takes is in proportion to the text, whatever that is.
    """

def quantity(kind: Literal["duration", "rate", "size"], text: str) -> float:
    """The number of nanoseconds, bits in a second or bytes that a text is. Raises ScenarioError."""

def schema() -> str:
    """The JSON Schema of scenario files."""

def results() -> str:
    """The declarations of scalars and of the tables of traces, and old names of scalars, as JSON text; `support.declared` reads it."""

def transports() -> str:
    """What each transport can do, as JSON text; `support.transports` reads it."""

def models() -> dict[str, list[tuple[str, str]]]:
    """What can be chosen: category (`loss`, `queue`, `app`, ...) -> (kind, one line about it)."""

def drill(text: str, profile: str | None = None, folders: Sequence[str] = ...) -> str:
    """Runs a script in packetdrill's language; what came of it, as JSON text. Raises ScenarioError.

    `profile`: that of the endpoints; `folders`: where files that the script names are looked for, in their order.
    """

def emodel(terms: dict[str, float | str]) -> list[tuple[str, float | str, str]]:
    """The E-model, term by term: (name, value, what it is). Raises ScenarioError.

    `terms`: `form` (`g107`, `simplified` or `g107_1`), `codec` (name) or `ie` and `bpl`, `delay_ms`, `loss` (share),
    `burst_ratio`, and any parameter of G.107 by its name in the recommendation.
    """

def codecs() -> list[dict[str, float | str | None]]:
    """The codec table: name, kbit_per_s, frame_ms, ie, bpl, source."""

def enter_namespaces(network: str, mounts: str, processes: str) -> None:
    """Move the calling thread into what these files stand for; programs that it starts are there, in the folder `/`."""

@final
class Emulation:
    """A scenario in real time; `anabranch.emulate` is what programs use. Not there on systems other than Linux."""

    @staticmethod
    def load(
        path: str,
        sets: Sequence[tuple[str, str]] = ...,
        replication: int = 0,
        capture: str | None = None,
    ) -> Emulation: ...
    @staticmethod
    def parse(
        text: str,
        sets: Sequence[tuple[str, str]] = ...,
        folder: str = ...,
        replication: int = 0,
        capture: str | None = None,
    ) -> Emulation: ...
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def settings(self) -> str:
        """The scenario as TOML, with every default filled in."""
    @property
    def links(self) -> list[str]: ...
    @property
    def devices(self) -> str:
        """Which devices the nodes have: `tun` or `veth`."""
    @property
    def thread_id(self) -> int:
        """The thread that carries packets."""
    def nodes(self) -> list[tuple[str, list[tuple[str, str, str, list[str], list[str]]]]]:
        """The nodes with their interfaces: path, device, node at the other end, own addresses, those at the other end."""
    def descriptors(self, node: str) -> list[int] | None:
        """What stands for a node's network and mounts and for the namespace of processes; None for no node of this name."""
    def set(self, link: str, values: list[tuple[str, str]]) -> None: ...
    def states(
        self,
    ) -> list[tuple[str, str, int | None, int, int, int, list[tuple[str, int]]]]:
        """Link, direction, rate in bit/s, packets in it, packets and bytes delivered, packets dropped by cause."""
    def row(self) -> dict[str, float]: ...
    def close(self) -> None: ...

@final
class Testbed:
    """A run of a scenario on the kernel, which begins at once; `anabranch.emulate.testbed` is what programs use. Not there
    on systems other than Linux."""

    def __new__(
        cls,
        scenario: Scenario,
        cell: int,
        seed: int,
        replication: int,
        trace: bool,
        interval_ms: int,
        capture: str | None,
        usrsctp: str | None,
    ) -> Testbed: ...
    @staticmethod
    def kernel() -> str:
        """The release of the kernel."""
    @staticmethod
    def is_virtual() -> bool:
        """Whether that kernel is a user-mode Linux in virtual time."""
    @property
    def thread_id(self) -> int:
        """The thread that carries packets and serves the sockets."""
    def is_over(self) -> bool:
        """Whether it has ended by itself."""
    def finish(self) -> Result:
        """Ends it; its scalars and traces."""

@final
class QuicHost:
    """A host of QUIC on a socket, with a thread of its own; `anabranch.quic` is what programs use.

    That there is news is announced by a datagram to `announce_at`, a port of UDP on the loopback address. Connections have
    numbers.
    """

    def __new__(
        cls,
        addresses: Sequence[str],
        port: int,
        mtu: int,
        most_accepted: int,
        announce_at: int,
    ) -> QuicHost: ...
    @property
    def udp_port(self) -> int | None: ...
    def rebind(self, addresses: Sequence[str] | None, port: int, quietly: bool) -> None:
        """Goes on at another port, and at other addresses if there are any; unless `quietly`, servers are told."""
    def listen(self, json: str, chain: bytes, key: bytes, protocols: Sequence[str]) -> None: ...
    def stop_listening(self) -> None: ...
    def connect(
        self,
        remote: str,
        port: int,
        server_name: str,
        json: str,
        roots: Sequence[bytes] | None,
        protocols: Sequence[str],
        local: str | None,
    ) -> int: ...
    def add_path(
        self, number: int, local: str | None, remote: str | None, is_backup: bool
    ) -> tuple[str, str, int]:
        """Where it is to be: local and remote address, remote port."""
    def abandon_path(self, number: int, path: int, code: int) -> bool: ...
    def set_path_status(self, number: int, path: int, is_backup: bool) -> bool: ...
    def paths(
        self, number: int
    ) -> list[
        tuple[
            int,
            str,
            str,
            int,
            Literal["abandoned", "active", "opening", "potentially_failed"],
            tuple[bool, bool],
            float,
            int,
            tuple[int, int],
        ]
    ]:
        """Path ID, addresses, port, state, both ends' wishes for a backup, RTT in ms, window, bytes sent and received."""
    def open_stream(self, number: int, bidirectional: bool) -> int | None:
        """The stream's number; None where the peer permits none. Raises BrokenPipeError where the connection is over."""
    def write(self, number: int, stream: int, data: bytes, fin: bool) -> int:
        """How many bytes were taken. Raises BrokenPipeError where nothing can be written any more."""
    def send_datagram(self, number: int, data: bytes) -> None: ...
    def give_up_stream(self, number: int, stream: int, code: int, reset: bool) -> bool: ...
    def close_connection(self, number: int, code: int) -> None: ...
    def shut_down(self, number: int) -> None: ...
    def update_keys(self, number: int) -> bool: ...
    def key_updates(self, number: int) -> int: ...
    def has_read(self, number: int, count: int, messages: int) -> None: ...
    def news(self) -> list[tuple[int, str, Any]]:
        """Connection, what happened, particulars; each once."""
    def route(self, number: int) -> tuple[str, str, int] | None:
        """The local and the remote address, and the remote port."""
    def scalars(self, number: int) -> dict[str, float]: ...
    def counts(self) -> tuple[int, int, int]:
        """Connections, those of them that clients are opening, datagrams that were no packets."""
    def check_process(self) -> None: ...
    def close(self) -> None: ...

@final
class LiveHost:
    """A host of SCTP on sockets, with a thread of its own; `anabranch.sctp` is what programs use.

    That there is news is announced by a datagram to `announce_at`, a port of UDP on the loopback address. Associations have
    numbers, paths count from 0.
    """

    def __new__(
        cls,
        addresses: Sequence[str],
        carrier_port: int | None,
        mtu: int,
        most_accepted: int,
        announce_at: int,
        shared_key: bytes,
        devices: Sequence[str],
    ) -> LiveHost: ...
    @property
    def udp_port(self) -> int | None: ...
    def listen(self, port: int, json: str) -> None: ...
    def stop_listening(self, port: int) -> None: ...
    def connect(
        self,
        remote: Sequence[tuple[str, int | None]],
        port: int,
        local_port: int,
        json: str,
    ) -> int: ...
    def send(
        self,
        number: int,
        data: bytes,
        stream: int,
        ppid: int,
        unordered: bool,
        reliability: tuple[str, int] | None = None,
    ) -> int | None:
        """The message's number; None where the send buffer is full.

        Raises BrokenPipeError where the association takes no message any more.
        """
    def command(self, number: int, command: str, path: int = 0) -> None: ...
    def change_address(self, number: int, change: str, text: str) -> None: ...
    def reset_streams(self, number: int, streams: Sequence[int]) -> None: ...
    def has_read(self, number: int, messages: int, count: int) -> None: ...
    def news(self) -> list[tuple[int, str, Any]]:
        """Association, what happened, particulars; each once."""
    def paths(
        self, number: int
    ) -> list[
        tuple[
            str,
            str,
            Literal["active", "inactive", "potentially_failed"],
            bool,
            float,
            float,
            int,
            int,
            int,
        ]
    ]: ...
    def scalars(self, number: int) -> dict[str, float]: ...
    def counts(self) -> tuple[int, int]:
        """Associations, and datagrams that were no packets."""
    def check_process(self) -> None:
        """Raises a LiveError in a process that was forked from the one that has opened it.

        So does everything else.
        """
    def close(self) -> None: ...

@final
class LiveCall:
    """A call in both directions as one end knows it; `anabranch.sctp.Talk` is what programs use."""

    def __new__(cls, json: str, seed: int) -> LiveCall: ...
    @property
    def frame_bytes(self) -> int: ...
    @property
    def period_s(self) -> float: ...
    def make_frame(self) -> bool | None:
        """Whether this end has a frame to send; None at the call's end."""
    def arrived(self, index: int, delay_s: float) -> None: ...
    def failed(self, was_refused: bool) -> None: ...
    def heard(self) -> dict[str, float]: ...
    def ratings(self) -> list[float]: ...

@final
class AckEvent:
    """What an acknowledgement says about one path. SCTP leaves several values as they are where nothing is known."""

    @property
    def now(self) -> int:
        """When it arrived, in nanoseconds since the run began."""
    @property
    def newly_acked(self) -> int:
        """Bytes sent on this path that it acknowledges for the first time, selectively or not."""
    @property
    def segments_acked(self) -> int:
        """Acknowledged segments that count for the window's growth."""
    @property
    def outstanding_before(self) -> int:
        """Bytes outstanding on this path before it arrived."""
    @property
    def outstanding(self) -> int:
        """Bytes outstanding on this path now."""
    @property
    def cumulative_advanced(self) -> bool:
        """Whether the cumulative acknowledgement advanced."""
    @property
    def cumulative(self) -> Cumulative | None:
        """What it removes from the beginning of the outstanding data; None in SCTP."""
    @property
    def in_recovery(self) -> bool:
        """Whether the connection is in fast recovery, or reduces its window for another reason."""
    @property
    def is_open(self) -> bool:
        """Whether nothing is known to be missing."""
    @property
    def is_window_limited(self) -> bool:
        """Whether the window limited the sender: a window that is not used should not grow."""
    @property
    def marked(self) -> int:
        """Bytes of the newly acknowledged ones that were marked with CE."""
    @property
    def newly_lost(self) -> int:
        """Bytes found to be lost by this acknowledgement."""
    @property
    def rtt(self) -> int | None:
        """Round-trip time in nanoseconds of the newest segment that it acknowledges, if it is known."""
    @property
    def min_rtt(self) -> int | None:
        """The smallest round-trip time so far, in nanoseconds (Linux: within the last 5 minutes)."""
    @property
    def acknowledged_to(self) -> int:
        """The first position that is not acknowledged: over TCP a byte of the stream, elsewhere a packet number."""
    @property
    def sent_to(self) -> int:
        """The position of what is sent next; positions are only compared with each other."""
    @property
    def total_acked(self) -> int:
        """All bytes acknowledged on this path so far, over TCP cumulatively."""
    @property
    def rate(self) -> RateSample | None:
        """The rate at which data was delivered."""
    @property
    def next_departure(self) -> int:
        """When the pace lets the next segment out, in nanoseconds; a time in the past means at once."""

@final
class Cumulative:
    """What an acknowledgement removes from the beginning of the outstanding data."""

    @property
    def segments(self) -> int:
        """Segments, whether they had been acknowledged selectively before or not."""
    @property
    def was_open(self) -> bool:
        """Whether nothing was known to be missing before it came."""
    @property
    def was_in_recovery(self) -> bool:
        """Whether the connection was in fast recovery, or reduced its window, before it came."""

@final
class RateSample:
    """The rate at which data was delivered between the sending of a segment and its acknowledgement."""

    @property
    def delivered(self) -> int:
        """Bytes delivered in the interval."""
    @property
    def interval(self) -> int:
        """The longer one of the times in which they were sent and acknowledged, in nanoseconds."""
    @property
    def total_delivered(self) -> int:
        """All bytes delivered on this path so far."""
    @property
    def prior_delivered(self) -> int:
        """The total when the segment was sent: a round is over when this passes the total at its beginning."""
    @property
    def outstanding_at_send(self) -> int:
        """Bytes outstanding when the segment was sent, itself included."""
    @property
    def lost(self) -> int:
        """Bytes found to be lost between the sending of the segment and now."""
    @property
    def is_app_limited(self) -> bool:
        """Whether the application had too little to send when the segment was sent."""

@final
class ArrivalEvent:
    """An acknowledgement has arrived; its losses are not found yet."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def acknowledged_to(self) -> int:
        """The same as in AckEvent."""
    @property
    def total_acked(self) -> int:
        """The same as in AckEvent."""
    @property
    def rtt(self) -> int | None:
        """Round-trip time in nanoseconds, as in AckEvent."""
    @property
    def is_special(self) -> bool:
        """Whether it has SACK blocks or marks, or changes the window."""

@final
class LostEvent:
    """A segment is taken for lost."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def bytes(self) -> int:
        """Bytes of the segment."""
    @property
    def outstanding_at_send(self) -> int:
        """Bytes outstanding when it was sent, itself included."""
    @property
    def lost(self) -> int:
        """Bytes found to be lost since it was sent, itself included."""
    @property
    def is_app_limited(self) -> bool:
        """Whether the application had too little to send when it was sent."""

@final
class CongestionEvent:
    """A sign of congestion on one path."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def kind(self) -> Literal["ecn", "fast_retransmit", "restart", "timeout"]:
        """A congestion mark, missing reports, the path's return from failure, or the retransmission timer."""
    @property
    def outstanding(self) -> int:
        """Bytes outstanding on this path when it was noticed."""
    @property
    def remaining(self) -> int:
        """Bytes that a timeout leaves on their way, sent too recently to be taken for lost."""

@final
class DuplicateEvent:
    """A duplicate acknowledgement arrived in fast recovery."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""

@final
class IdleEvent:
    """Nothing was sent on the path for this long."""

    @property
    def idle(self) -> int:
        """Nanoseconds since something was last sent."""
    @property
    def rto(self) -> int:
        """The path's retransmission timeout in nanoseconds."""

@final
class ProbeEvent:
    """A path is about to be probed."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def window(self) -> int:
        """The window to probe with, in bytes."""

@final
class RecoveryEndEvent:
    """Recovery is over."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def outstanding(self) -> int:
        """Bytes outstanding."""
    @property
    def reached(self) -> int | None:
        """The window in bytes that the reduction came to, where it stays so; None where it becomes the threshold."""

@final
class RttEvent:
    """A round-trip time was measured."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def rtt(self) -> int:
        """The sample in nanoseconds."""

@final
class SentEvent:
    """Data was sent."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def bytes(self) -> int:
        """Bytes of data."""
    @property
    def outstanding(self) -> int:
        """Bytes outstanding on the path, these included."""
    @property
    def is_app_limited(self) -> bool:
        """Whether the application had too little to send."""

@final
class UndoEvent:
    """The last sign of congestion was a mistake."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def cwnd(self) -> int | None:
        """The window in bytes after a spurious timeout (RFC 4015); None: the one before the mistake."""
    @property
    def ssthresh(self) -> int | None:
        """The threshold in bytes after a spurious timeout, 2 ** 32 - 1 where slow start has no limit, or None."""

@final
class MediaFeedback:
    """The receiver of media has reported on packets."""

    @property
    def now(self) -> int:
        """When the report came, in nanoseconds since the run began."""
    @property
    def rtt(self) -> int:
        """The round trip of the last packet that it reports to have arrived, without the receiver's delay, in nanoseconds."""
    @property
    def packets(self) -> list[PacketReport]:
        """Packets whose fate is news, in the order in which they were sent; a new list each time."""

@final
class PacketReport:
    """The fate of a packet of media."""

    @property
    def sent(self) -> int:
        """When it was sent, in nanoseconds since the run began."""
    @property
    def size(self) -> int:
        """Bytes, all headers included."""
    @property
    def arrival(self) -> int | None:
        """When it arrived by the receiver's clock, in nanoseconds; None if it is lost."""
    @property
    def is_marked(self) -> bool:
        """Whether it arrived with a mark of congestion (RFC 3168)."""

@final
class Packet:
    """A packet that comes to a queue."""

    @property
    def arrived(self) -> int:
        """When it came, in nanoseconds since the run began."""
    @property
    def size(self) -> int:
        """Bytes, all headers included."""
    @property
    def ecn(self) -> Literal["not_ect", "ect0", "ect1", "ce"]:
        """What its transport understands of congestion marks (RFC 3168, RFC 9331)."""
    @property
    def flow(self) -> int:
        """The flow, side and path that sent it, as a number; cross traffic has numbers of its own."""
    @property
    def hosts(self) -> tuple[int, int]:
        """The nodes that send and receive it, as numbers."""
    @property
    def dscp(self) -> int:
        """Its differentiated services codepoint (RFC 2474), from 0 to 63."""
    def mark(self) -> bool:
        """Marks it as having met congestion. False, and nothing is done, if its transport does not understand marks."""

@final
class Drops:
    """Takes the packets that a queue drops. Raises ValueError for a packet that does not wait in that queue."""

    def overflow(self, packet: Packet, /) -> None:
        """Drops a packet for which there is no room."""
    def early(self, packet: Packet, /) -> None:
        """Drops a packet before the queue is full."""

@final
class Pending:
    """The data to be sent next."""

    @property
    def now(self) -> int:
        """When the scheduler is asked, in nanoseconds since the run began."""
    @property
    def bytes(self) -> int:
        """Bytes of data that leave together, on a path that can take that many."""
    @property
    def queued(self) -> int:
        """Bytes that wait, these included."""
    @property
    def receive_window(self) -> int:
        """The bytes left in the receive window."""

@final
class PathView:
    """What a scheduler may know about a path."""

    @property
    def path(self) -> int:
        """The path's number."""
    @property
    def is_usable(self) -> bool:
        """Whether data may be sent there without reservation: it has been confirmed and has not failed."""
    @property
    def is_backup(self) -> bool:
        """Whether it is to carry data only while no other path is usable."""
    @property
    def has_room(self) -> bool:
        """Whether its windows let the data go now."""
    @property
    def most(self) -> int:
        """The most bytes that leave there together, where paths differ in this."""
    @property
    def srtt(self) -> int | None:
        """Smoothed round-trip time in nanoseconds, before the first sample None."""
    @property
    def rttvar(self) -> int:
        """Its variation in nanoseconds (RFC 6298 section 2), 0 before the first sample."""
    @property
    def cwnd(self) -> int:
        """Congestion window in bytes."""
    @property
    def ssthresh(self) -> int:
        """Slow-start threshold in bytes."""
    @property
    def outstanding(self) -> int:
        """Bytes outstanding."""
    @property
    def in_recovery(self) -> bool:
        """Whether losses are being recovered from."""

@final
class PathEvent:
    """Something happened to a path of an association. What an event does not have is None."""

    @property
    def now(self) -> int:
        """When, in nanoseconds since the run began."""
    @property
    def kind(
        self,
    ) -> Literal[
        "error_counted",
        "fast_retransmit",
        "opened",
        "pair_measured",
        "primary_requested",
        "probe_done",
        "recovery_ended",
        "srtt_updated",
        "state_changed",
        "tick",
        "timer_expired",
    ]:
        """What: docs/plugins.md has a list."""
    @property
    def path(self) -> int | None:
        """The number of the path; None for `opened` and `tick`."""
    @property
    def previous_state(self) -> Literal["active", "inactive", "potentially_failed"] | None:
        """Of `state_changed`: the state before."""
    @property
    def rtt(self) -> int | None:
        """Of `srtt_updated` the sample, of `pair_measured` the round-trip time of the first heartbeat, in nanoseconds."""
    @property
    def spacing(self) -> int | None:
        """Of `pair_measured`: nanoseconds between the arrivals of the heartbeats at the peer."""
    @property
    def bytes(self) -> int | None:
        """Of `probe_done` the bytes of data sent, of `pair_measured` the size of each heartbeat on the wire."""
    @property
    def lost(self) -> int | None:
        """Of `probe_done`: how many of these bytes were lost."""
    @property
    def cwnd_before(self) -> int | None:
        """Of `fast_retransmit`: the congestion window before it was reduced, in bytes."""

@final
class PathStatus:
    """What a path policy may know about a path. From `rto` on, values are up to date only for policies that measure."""

    @property
    def path(self) -> int:
        """The path's number."""
    @property
    def state(self) -> Literal["active", "inactive", "potentially_failed"]:
        """Its state (RFC 9260 section 8.2, RFC 7829)."""
    @property
    def is_usable(self) -> bool:
        """Whether data may be sent there without reservation: it is active and confirmed."""
    @property
    def is_confirmed(self) -> bool:
        """Whether the peer has been seen at the other end (RFC 9260 section 5.4)."""
    @property
    def error_count(self) -> int:
        """Errors in a row."""
    @property
    def srtt(self) -> int | None:
        """Smoothed round-trip time in nanoseconds, before the first sample None."""
    @property
    def last_heard(self) -> int:
        """When anything last arrived over it, in nanoseconds since the run began."""
    @property
    def mtu(self) -> int:
        """Largest packet in bytes, all headers included."""
    @property
    def rto(self) -> int:
        """Retransmission timeout in nanoseconds."""
    @property
    def cwnd(self) -> int:
        """Congestion window in bytes."""
    @property
    def ssthresh(self) -> int:
        """Slow-start threshold in bytes."""
    @property
    def sent_bytes(self) -> int:
        """Bytes of data sent, retransmissions included."""
    @property
    def lost_bytes(self) -> int:
        """Bytes of data that missing reports or a timeout said were lost."""
    @property
    def heartbeats_sent(self) -> int:
        """Heartbeats sent."""
    @property
    def heartbeats_lost(self) -> int:
        """Heartbeats that were not answered in time."""

@final
class Retransmission:
    """A loss that asks for a retransmission."""

    @property
    def last(self) -> int:
        """The path on which the data was last sent."""
    @property
    def timeout(self) -> bool:
        """Whether the retransmission timer expired; otherwise missing reports revealed the loss."""

@final
class Selection:
    """The paths in use. A path that does not exist raises ValueError."""

    primary: int
    """The primary path."""
    current: int
    """The path for new data."""
    held: bool
    """Whether nothing may be sent on any path for now."""
    def switch(
        self,
        path: int,
        /,
        words: str = "chosen",
        *,
        numbers: tuple[float, float] | None = None,
        unit: str = "",
    ) -> None:
        """Makes a path the primary one for everything, for a reason that traces show: words, and numbers of the new and the old path."""

@final
class Failover:
    """The standard's failover within a path policy (RFC 9260 section 6.4)."""

    def select(
        self, event: PathEvent, paths: Sequence[PathStatus], selection: Selection, /
    ) -> None:
        """Handles an event as the standard says; `paths` are all that the hook was given."""
    def retransmission_path(
        self, loss: Retransmission, paths: Sequence[PathStatus], selection: Selection, /
    ) -> int:
        """The path on which data is sent again, as the profile says."""

@final
class HeartbeatPair:
    """A request for two heartbeats back to back, answered by the event `pair_measured` unless one is lost."""

    def __new__(cls, path: int, size: int) -> HeartbeatPair: ...
    @property
    def path(self) -> int:
        """The path."""
    @property
    def size(self) -> int:
        """Size of each on the wire in bytes, at most the path's MTU."""

@final
class Probe:
    """A request to send the next new data on a path whatever its window, answered by the event `probe_done`. One at a time; ignored meanwhile, and with load sharing."""

    def __new__(cls, path: int, bytes: int, is_burst: bool = False) -> Probe: ...  # noqa: A002 - the name of what it is
    @property
    def path(self) -> int:
        """The path."""
    @property
    def bytes(self) -> int:
        """Bytes to send, from 1 to 2^30, rounded up to whole packets; the path's window and threshold are set to as much."""
    @property
    def is_burst(self) -> bool:
        """Whether all of it is sent at once, even beyond Max.Burst."""

def plugin_calls() -> list[tuple[int, int, float]] | None:
    """Calls of plug-ins in progress: thread, number, seconds allowed. None while there are no plug-ins."""

def plugin_interrupt(call: int, raise_: Callable[[], object], /) -> None:
    """Unless the call is over, has `raise_` raise an exception in its thread."""
