//! A burst: the protocol data units that one station's direction sends in a frame.

/// A piece of a packet in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The packet's number in its lane.
    pub(super) packet: u64,
    pub(super) bytes: u32,
    /// How often the piece has been transmitted before.
    pub(super) tries: u32,
}

/// A protocol data unit: one MAC header, pieces of packets, and one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pdu {
    /// The end of its pieces in the burst's list; they start where those of the unit before end.
    pub(super) pieces_end: usize,
    /// The end of its bytes in the burst, which begin where those of the unit before end.
    pub(super) end: u32,
}

/// The contents of a burst.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    pub(super) pieces: Vec<Piece>,
    pub(super) pdus: Vec<Pdu>,
}

impl Burst {
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.pdus.clear();
    }

    /// Number of bytes of all units, without the tail.
    pub(super) fn bytes(&self) -> u32 {
        self.pdus.last().map_or(0, |pdu| pdu.end)
    }

    /// Number of bytes that belong to packets.
    pub(super) fn packet_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.bytes)).sum()
    }
}
