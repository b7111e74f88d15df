//! Rows of packets as columns of numbers in little-endian order, which other languages take as they are.

#![cfg_attr(
    not(feature = "quic"),
    allow(dead_code, reason = "only what opens packets of QUIC fills its tables")
)]

use crate::fragments::{Fragments, Key};

/// Values of the column `fault`.
pub(crate) mod fault {
    pub(crate) const CUT: u8 = 1;
    pub(crate) const DAMAGED: u8 = 2;
    pub(crate) const CUT_CHUNKS: u8 = 3;
    /// With these, nothing is known of what the transport carries.
    pub(crate) const LEAVES_NOTHING: [u8; 2] = [CUT, DAMAGED];
}

/// A number that a column can have.
trait Value: Copy {
    /// Its type in the words of numpy's array interface.
    const KIND: &'static str;

    fn put(self, column: &mut Vec<u8>);
}

macro_rules! values {
    ($($type:ty, $kind:literal;)*) => {$(
        impl Value for $type {
            const KIND: &'static str = $kind;

            fn put(self, column: &mut Vec<u8>) {
                column.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

values! {
    i8, "<i1";
    i16, "<i2";
    i32, "<i4";
    i64, "<i8";
    u8, "<u1";
    u64, "<u8";
}

impl Value for bool {
    const KIND: &'static str = "?";

    fn put(self, column: &mut Vec<u8>) {
        column.push(self.into());
    }
}

/// Bytes of a datagram that are kept: a sender report of RTCP with one block has as many (RFC 3550 section
/// 6.4.1).
pub(crate) const HEAD_BYTES: usize = 52;

impl Value for [u8; HEAD_BYTES] {
    const KIND: &'static str = "(52,)u1";

    fn put(self, column: &mut Vec<u8>) {
        column.extend_from_slice(&self);
    }
}

/// A column: its name, the type of its values and the values.
pub type Column = (String, &'static str, Vec<u8>);

macro_rules! tables {
    ($($(#[$doc:meta])* $row:ident, $table:ident { $($field:ident: $type:ty = $missing:expr,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) struct $row {
            $(pub(crate) $field: $type,)*
        }

        impl Default for $row {
            fn default() -> Self {
                Self { $($field: $missing,)* }
            }
        }

        #[derive(Debug, Default)]
        pub(crate) struct $table {
            rows: usize,
            $($field: Vec<u8>,)*
        }

        impl $table {
            pub(crate) fn push(&mut self, row: $row) {
                self.rows += 1;
                $(row.$field.put(&mut self.$field);)*
            }

            /// How many rows it has.
            pub(crate) const fn len(&self) -> usize {
                self.rows
            }

            fn columns(self, prefix: &str, out: &mut Vec<Column>) {
                $(out.push((format!("{prefix}{}", stringify!($field)), <$type>::KIND, self.$field));)*
            }
        }
    )*};
}

tables! {
    /// A packet. `python/anabranch/support/packets.py` says what each column means, for this table and the
    /// others.
    Row, Rows {
        time_ns: i64 = 0,
        index: i64 = 0,
        place: i32 = 0,
        direction: i8 = -1,
        link_source: u64 = 0,
        link_destination: u64 = 0,
        tunnels: u8 = 0,
        source: i32 = 0,
        destination: i32 = 0,
        protocol: u8 = 0,
        in_udp: bool = false,
        ttl: u8 = 0,
        ecn: u8 = 0,
        identification: i64 = -1,
        is_atomic: bool = false,
        octets: i32 = 0,
        captured: i32 = 0,
        payload: i32 = 0,
        fault: u8 = 0,
        source_port: i32 = -1,
        destination_port: i32 = -1,
        sequence: i64 = -1,
        acknowledgement: i64 = -1,
        flags: i16 = 0,
        window: i32 = -1,
        window_scale: i16 = -1,
        mss: i32 = -1,
        permits_sack: bool = false,
        stamp: i64 = -1,
        echo: i64 = -1,
        tag: i64 = -1,
        icmp_kind: i16 = -1,
        icmp_code: i16 = -1,
        icmp_identifier: i32 = -1,
        icmp_sequence: i32 = -1,
        identity: u64 = 0,
        content: u64 = 0,
        comment: i32 = -1,
    }

    /// A block of a selective acknowledgement of TCP.
    SackRow, Sacks {
        packet: i32 = 0,
        start: i64 = 0,
        end: i64 = 0,
    }

    /// A chunk of SCTP.
    ChunkRow, Chunks {
        packet: i32 = 0,
        kind: u8 = 0,
        flags: u8 = 0,
        octets: i32 = 0,
        number: i64 = -1,
        data: i32 = 0,
        stream: i32 = -1,
        window: i64 = -1,
        tag: i64 = -1,
        duplicates: i32 = 0,
        identity: u64 = 0,
    }

    /// A Gap Ack Block.
    GapRow, Gaps {
        chunk: i32 = 0,
        start: i64 = 0,
        end: i64 = 0,
    }

    /// An option of Multipath TCP.
    MultipathRow, Multipath {
        packet: i32 = 0,
        kind: u8 = 0,
        version: i8 = -1,
        flags: u8 = 0,
        address: i16 = -1,
        key: u64 = 0,
        peer_key: u64 = 0,
        token: i64 = -1,
        peer_token: i64 = -1,
        data_sequence: i64 = -1,
        subflow_sequence: i64 = -1,
        data_octets: i32 = -1,
        data_ack: i64 = -1,
    }

    /// A packet of QUIC whose protection could be removed.
    QuicRow, Quic {
        packet: i32 = 0,
        connection: i32 = 0,
        of_server: bool = false,
        level: u8 = 0,
        path: i64 = 0,
        number: i64 = 0,
        octets: i32 = 0,
        elicits: bool = false,
        data: i32 = 0,
    }

    /// A run of packet numbers that a packet of QUIC acknowledges.
    QuicAckRow, QuicAcks {
        quic: i32 = 0,
        path: i64 = 0,
        first: i64 = 0,
        last: i64 = 0,
        delay: i64 = 0,
    }

    /// A part of a stream in a packet of QUIC, or a message of it.
    QuicDataRow, QuicData {
        quic: i32 = 0,
        stream: i64 = -1,
        start: i64 = 0,
        octets: i32 = 0,
    }

    /// The beginning of what a UDP datagram carries.
    DatagramRow, Datagrams {
        packet: i32 = 0,
        captured: u8 = 0,
        head: [u8; HEAD_BYTES] = [0; HEAD_BYTES],
    }
}

/// Packets, and what each may have several of.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) packets: Rows,
    pub(crate) sacks: Sacks,
    pub(crate) chunks: Chunks,
    pub(crate) gaps: Gaps,
    pub(crate) multipath: Multipath,
    pub(crate) datagrams: Datagrams,
    pub(crate) quic: Quic,
    pub(crate) quic_acks: QuicAcks,
    pub(crate) quic_data: QuicData,
    fragments: Fragments,
}

impl Batch {
    /// Adds a packet, of which this may be the first fragment.
    pub(crate) fn push(&mut self, row: Row, fragment: Option<Key>) {
        let at = self.len();
        self.packets.push(row);
        if let Some(key) = fragment {
            let early = self.fragments.begin(key, at);
            self.add_to(at, early);
        }
    }

    /// Adds what another fragment of a packet has to the packet's length.
    pub(crate) fn lengthen(&mut self, fragment: Key, octets: usize) {
        if let Some(row) = self.fragments.add(fragment, octets) {
            self.add_to(row, octets);
        }
    }

    fn add_to(&mut self, row: usize, octets: usize) {
        let add = |column: &mut [u8]| {
            if let Some(number) = column.as_chunks_mut().0.get_mut(row) {
                *number = i32::from_le_bytes(*number).saturating_add(octets as i32).to_le_bytes();
            }
        };
        add(&mut self.packets.octets);
        if !fault::LEAVES_NOTHING.contains(&self.packets.fault[row]) {
            add(&mut self.packets.payload);
        }
    }

    /// How many packets it has.
    pub const fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether it has no packet.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows the tables beside the packets have.
    pub(crate) const fn rows_beside(&self) -> usize {
        self.sacks.len()
            + self.chunks.len()
            + self.gaps.len()
            + self.multipath.len()
            + self.datagrams.len()
            + self.quic.len()
            + self.quic_acks.len()
            + self.quic_data.len()
    }

    /// All columns; those of the tables beside the packets have the table's name and a dot before their own.
    pub fn columns(self) -> Vec<Column> {
        let mut out = Vec::new();
        self.packets.columns("", &mut out);
        self.sacks.columns("sacks.", &mut out);
        self.chunks.columns("chunks.", &mut out);
        self.gaps.columns("gaps.", &mut out);
        self.multipath.columns("multipath.", &mut out);
        self.datagrams.columns("datagrams.", &mut out);
        self.quic.columns("quic.", &mut out);
        self.quic_acks.columns("quic_acks.", &mut out);
        self.quic_data.columns("quic_data.", &mut out);
        out
    }
}
