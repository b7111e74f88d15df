"""Packets of a capture as named columns, as many as fit one batch.

A column has a value for each packet, in the order of the file. What a packet may have several of
(blocks of a selective acknowledgement, SCTP chunks, options of Multipath TCP) is a table beside it,
whose `packet` is the row of the packet in the same batch. A number that a packet lacks is -1, a
hash or a key that it lacks 0. `anabranch.support.capture` makes the batches.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

ICMP, TCP, UDP, ICMP6, SCTP = 1, 6, 17, 58, 132

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, AE = (1 << bit for bit in range(9))
"""Flags of TCP (RFC 9293 section 3.1, RFC 3168, RFC 9768)."""

MOST = 65_536
"""Packets of a batch, at most."""

CUT = "packets whose headers are cut off"
DAMAGED = "packets whose lengths contradict each other"
CUT_CHUNKS = "packets' last SCTP chunks, which are cut off"
FAULTS = ("", CUT, DAMAGED, CUT_CHUNKS)
"""What the numbers in `Packets.fault` mean."""


class Place(NamedTuple):
    """Where packets are seen."""

    name: str
    """`eth0`, `eth0.5` for its VLAN 5, `eth0.5.7` for VLAN 7 in it, `any:if2` for the host's
    interface 2 in a capture of all of them. An interface without a name has its number, as `0`.
    """
    interface: str
    """The interface of the file, by its name or number: what `Capture.interfaces` counts."""


Flag = NDArray[np.bool_]
Int8 = NDArray[np.int8]
Int16 = NDArray[np.int16]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Uint8 = NDArray[np.uint8]
Uint64 = NDArray[np.uint64]

Batch = Mapping[str, tuple[str, bytes]]
"""Columns as the engine gives them: by their names, the type of a value, and the values."""


class _Table:
    """Columns of equal length, and the tables beside them."""

    @classmethod
    def of(cls, batch: Batch, prefix: str = "") -> Self:
        """The table whose columns have names that begin so."""
        columns: dict[str, object] = {}
        for field in fields(cls):  # type: ignore[arg-type] # every table is a dataclass
            if not prefix and (table := _TABLES.get(field.name)) is not None:
                columns[field.name] = table.of(batch, f"{field.name}.")
            else:
                kind, values = batch[f"{prefix}{field.name}"]
                columns[field.name] = np.frombuffer(values, kind)
        return cls(**columns)


@dataclass(frozen=True, slots=True)
class Sacks(_Table):
    """Blocks of selective acknowledgements of TCP (RFC 2018), in the order of the option."""

    packet: Int32
    start: Int64
    end: Int64
    """The sequence number behind the last byte."""


@dataclass(frozen=True, slots=True)
class Chunks(_Table):
    """Chunks of SCTP packets (RFC 9260 section 3), in order; only what the capture has of them."""

    packet: Int32
    kind: Uint8
    """Its type: 0 DATA, 1 INIT, 2 INIT ACK, 3 SACK, 4 HEARTBEAT, 5 HEARTBEAT ACK, ..."""
    flags: Uint8
    octets: Int32
    """Its length with the header, without padding."""
    number: Int64
    """DATA, I-DATA: the TSN. SACK, NR-SACK, SHUTDOWN: the cumulative TSN. FORWARD TSN, I-FORWARD
    TSN: the new cumulative TSN. INIT, INIT ACK: the initial TSN.
    """
    data: Int32
    """DATA, I-DATA: bytes of user data, also where they are cut off; others: 0."""
    stream: Int32
    """DATA, I-DATA."""
    window: Int64
    """SACK, NR-SACK, INIT, INIT ACK: the advertised receiver window credit in bytes."""
    tag: Int64
    """INIT, INIT ACK: the Initiate Tag, which the other side's packets have."""
    duplicates: Int32
    """SACK, NR-SACK: how many TSNs it reports as duplicate; others: 0."""
    identity: Uint64
    """HEARTBEAT, HEARTBEAT ACK: a hash of the information, which the answer repeats."""


@dataclass(frozen=True, slots=True)
class Gaps(_Table):
    """Gap Ack Blocks of SACK and NR-SACK, in order."""

    chunk: Int32
    """The row of the chunk in `Packets.chunks`."""
    start: Int64
    """The first TSN: the cumulative TSN and the offset, not reduced modulo 2^32."""
    end: Int64
    """The TSN behind the last one."""


@dataclass(frozen=True, slots=True)
class Multipath(_Table):
    """Options of Multipath TCP (RFC 8684 section 3, and RFC 6824), one row for each option."""

    packet: Int32
    kind: Uint8
    """Its subtype: 0 MP_CAPABLE, 1 MP_JOIN, 2 DSS, 3 ADD_ADDR, 4 REMOVE_ADDR, 5 MP_PRIO, ..."""
    version: Int8
    """MP_CAPABLE: 0 or 1."""
    flags: Uint8
    """MP_CAPABLE, DSS: the octet of flags (DSS: 1 has an acknowledgement, 4 a mapping, 16
    DATA_FIN). MP_JOIN, MP_PRIO: 1 where the path is a backup.
    """
    address: Int16
    """MP_JOIN on SYN and SYN-ACK, ADD_ADDR: the identifier of the address."""
    key: Uint64
    """MP_CAPABLE: the key of the option's sender; 0 if there is none."""
    peer_key: Uint64
    """MP_CAPABLE: the key of the other end; 0 if there is none."""
    token: Int64
    """MP_JOIN on SYN: the token of the connection that it joins. MP_CAPABLE: that of `key`, by the
    hash of its version.
    """
    peer_token: Int64
    """MP_CAPABLE: the token of `peer_key`."""
    data_sequence: Int64
    """DSS with a mapping: the low 32 bits of the data sequence number (some options have no more).
    """
    subflow_sequence: Int64
    """DSS with a mapping: where it begins in the subflow, relative to the subflow's first number.
    """
    data_octets: Int32
    """DSS with a mapping: its length, DATA_FIN included. It may be longer than the segment."""
    data_ack: Int64
    """DSS with an acknowledgement: the low 32 bits of the Data ACK."""


@dataclass(frozen=True, slots=True)
class Datagrams(_Table):
    """What UDP datagrams carry (those that carry SCTP or a tunnel are packets of that)."""

    packet: Int32
    captured: Uint8
    """How many bytes of `head` are there."""
    head: Uint8
    """The first 52 bytes of the payload, shape (n, 52), zeros behind what is there. A header of RTP
    has 12 (RFC 3550 section 5.1), a sender's report of RTCP with one block 52 (section 6.4.1).
    """


@dataclass(frozen=True, slots=True)
class Quic(_Table):
    """Packets of QUIC (RFC 9000 section 17) that could be opened: a datagram may have several.

    For that, the file has the secrets of their connection (a decryption secrets block), and its
    cipher is ChaCha20-Poly1305, as in captures of `anabranch run`.
    """

    packet: Int32
    connection: Int32
    """The number of the connection, among those of the file."""
    of_server: Flag
    """Whether the server sent it."""
    level: Uint8
    """0 Initial, 1 0-RTT, 2 Handshake, 3 1-RTT."""
    path: Int64
    """The path ID (RFC 10069), 0 without multipath."""
    number: Int64
    """The packet number, whole."""
    octets: Int32
    """Its length."""
    elicits: Flag
    """Whether it asks for an acknowledgement."""
    data: Int32
    """Bytes of streams and messages in it."""


@dataclass(frozen=True, slots=True)
class QuicAcks(_Table):
    """Runs of packet numbers in ACK and PATH_ACK frames, the largest numbers first."""

    quic: Int32
    """The row of the packet in `Packets.quic`."""
    path: Int64
    """The path ID whose packets are acknowledged."""
    first: Int64
    last: Int64
    delay: Int64
    """The field ACK Delay (RFC 9000 section 19.3)."""


@dataclass(frozen=True, slots=True)
class QuicData(_Table):
    """STREAM and DATAGRAM frames."""

    quic: Int32
    """The row of the packet in `Packets.quic`."""
    stream: Int64
    """The ID; -1 of a message."""
    start: Int64
    """The offset in the stream."""
    octets: Int32


@dataclass(frozen=True, slots=True)
class Packets(_Table):
    """IP packets of a capture, in the order of the file. In a tunnel, the innermost one counts.

    Fragments other than the first are left out and counted, so that all have a transport's header.
    """

    time_ns: Int64
    """Nanoseconds since 1970. They may step back: see `support.clocks`."""
    index: Int64
    """The number of the frame in the file, from 0 on."""
    place: Int32
    """Index into `Capture.places`."""
    direction: Int8
    """1 sent by the host that captured, 0 received by it; -1 where the file does not say it."""
    link_source: Uint64
    """The address of the link layer (MAC) as a number; 0 if there is none."""
    link_destination: Uint64
    tunnels: Uint8
    """How many tunnels it is in: GRE, VXLAN, GTP-U, IP in IP."""
    source: Int32
    """Index into `Capture.addresses`."""
    destination: Int32
    protocol: Uint8
    """The transport: TCP, UDP, SCTP (also inside UDP, RFC 6951), ICMP, ICMP6, or another number."""
    in_udp: Flag
    """Whether it is SCTP inside UDP."""
    ttl: Uint8
    """Time to live, or hop limit."""
    ecn: Uint8
    """0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE."""
    identification: Int64
    """Of IPv4, 0 included, or of a fragment header of IPv6; -1 for other packets of IPv6."""
    is_atomic: Flag
    """It cannot be fragmented and is no fragment, so that its identification says nothing (RFC
    6864); always so in IPv6 without a fragment header.
    """
    octets: Int32
    """Length of the IP packet in bytes; with segmentation offload more than any link carries."""
    captured: Int32
    """How many of these are in the file."""
    payload: Int32
    """Bytes behind the transport's header (for SCTP: of all chunks; for ICMP: behind the first 8
    bytes), captured or not; of other protocols, all behind IP's. 0 where `fault` is 1 or 2.
    """
    fault: Uint8
    """Index into `FAULTS`: 1 and 2 mean that nothing of the transport is known but, perhaps, its
    ports; 3 that there were more chunks.
    """
    source_port: Int32
    """Of TCP, UDP and SCTP."""
    destination_port: Int32
    sequence: Int64
    """TCP: the sequence number."""
    acknowledgement: Int64
    """TCP with the flag ACK."""
    flags: Int16
    """TCP: nine bits; 0 for others."""
    window: Int32
    """TCP: the field, which a window scale multiplies."""
    window_scale: Int16
    """TCP on SYN."""
    mss: Int32
    """TCP on SYN, in bytes."""
    permits_sack: Flag
    """TCP on SYN."""
    stamp: Int64
    """TCP: the value of the timestamps."""
    echo: Int64
    """TCP: their echo."""
    tag: Int64
    """SCTP: the verification tag."""
    icmp_kind: Int16
    """ICMP and ICMP6: the type."""
    icmp_code: Int16
    icmp_identifier: Int32
    """Of an echo request or its reply."""
    icmp_sequence: Int32
    identity: Uint64
    """A hash of what no router changes: addresses, protocol, identification and the first 64 bytes
    behind IP's header, without checksums (a network card computes them behind the capture). The
    same in every capture and process. A packet that is sent again has the same if its
    identification is, too.
    """
    content: Uint64
    """A hash of all that was captured behind IP's header, without checksums: ports, numbers,
    options, payload. What is sent again differs in TCP's timestamps, if it has some.
    """
    comment: Int32
    """Index into `Capture.comments`."""

    sacks: Sacks
    chunks: Chunks
    gaps: Gaps
    multipath: Multipath
    datagrams: Datagrams
    quic: Quic
    quic_acks: QuicAcks
    quic_data: QuicData

    def __len__(self) -> int:
        """How many packets these are."""
        return len(self.time_ns)

    def unused(self, protocols: Collection[int]) -> Counter[str]:
        """What a reader of these protocols cannot use, with the number of packets."""
        counts: Counter[str] = Counter()
        used = np.isin(self.protocol, list(protocols))
        for protocol, count in zip(
            *np.unique(self.protocol[~used], return_counts=True), strict=True
        ):
            counts[f"packets of IP protocol {protocol}"] = int(count)
        for fault, count in enumerate(np.bincount(self.fault[used], minlength=len(FAULTS))):
            if fault and count:
                counts[FAULTS[fault]] = int(count)
        return counts


_TABLES: dict[str, type[_Table]] = {
    "sacks": Sacks,
    "chunks": Chunks,
    "gaps": Gaps,
    "multipath": Multipath,
    "datagrams": Datagrams,
    "quic": Quic,
    "quic_acks": QuicAcks,
    "quic_data": QuicData,
}
