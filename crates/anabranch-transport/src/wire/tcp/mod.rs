//! TCP segments (RFC 9293 section 3.1) and their options.

mod emit;
mod parse;
mod rare;

use arrayvec::ArrayVec;

use crate::flow::Payload;

pub use emit::option;
pub use parse::{Header, options};
pub use rare::{AccurateEcn, Cookie, FastOpen, RareOptions, UnknownOption};

/// Size of the header without options in bytes (RFC 9293 section 3.1).
pub const HEADER_BYTES: u32 = 20;
/// Options take at most this many bytes (RFC 9293 section 3.1: the data offset has four bits).
pub const MAX_OPTION_BYTES: u32 = 40;
/// The timestamps option with its two bytes of padding (RFC 7323 appendix A).
pub const TIMESTAMPS_BYTES: u32 = 12;

/// A TCP segment. Its checksum is always right; corrupted packets are lost packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number of the first byte, or of SYN.
    pub sequence: u32,
    /// The sequence number that is expected next, with [`Flags::ACK`].
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window field as it is on the wire: the window divided by its scale.
    pub window: u16,
    /// Maximum Segment Size option, in bytes (RFC 9293 section 3.7.1).
    pub mss: Option<u16>,
    /// Window Scale option (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// SACK-Permitted option (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps option (RFC 7323 section 3).
    pub timestamps: Option<Timestamps>,
    /// SACK option (RFC 2018 section 3), a DSACK block first if there is one (RFC 2883).
    pub sack: SackBlocks,
    /// Options that few segments have.
    pub rare: Option<Box<RareOptions>>,
    /// Bytes of padding behind the options (RFC 9293 section 3.1), for a model whose header has a fixed size.
    pub padding: u8,
    /// What it carries: its position in the sender's stream, counted from 0 in every connection, and its
    /// length.
    pub payload: Payload,
}

/// Blocks of a SACK option; with timestamps only three have room.
pub type SackBlocks = ArrayVec<SackBlock, 4>;

/// A run of bytes that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// Sequence number of the first byte.
    pub start: u32,
    /// Sequence number behind the last byte.
    pub end: u32,
}

/// Timestamps option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`: the sender's clock, in milliseconds here.
    pub value: u32,
    /// `TSecr`: the latest value heard from the receiver.
    pub echo: u32,
}

/// Control bits (RFC 9293 section 3.1, RFC 3168, RFC 9768).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push: the receiver should not wait for more.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgement number is significant.
    pub const ACK: Self = Self(0x010);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN (RFC 9768 section 3.1); with CWR and ECE the three bits of the ACE counter.
    pub const AE: Self = Self(0x100);

    /// The flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags and, if the condition is true, the other ones.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }

    /// These flags without the other ones.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of these are set.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The ACE field: the three bits AE, CWR and ECE as a number (RFC 9768 section 3.2.2).
    pub const fn ace(self) -> u8 {
        ((self.0 >> 6) & 7) as u8
    }

    /// The bits of an ACE field with this number, modulo 8.
    pub const fn from_ace(number: u8) -> Self {
        Self(((number & 7) as u16) << 6)
    }

    /// The flags as they are on the wire, in nine bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The flags in these nine bits that have a meaning here: all but URG.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1df)
    }
}

impl Segment {
    /// A segment without options and payload.
    pub fn blank() -> Self {
        Self {
            source_port: 0,
            destination_port: 0,
            sequence: 0,
            acknowledgement: 0,
            flags: Flags::NONE,
            window: 0,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: None,
            sack: SackBlocks::new(),
            rare: None,
            padding: 0,
            payload: Payload { offset: 0, length: 0 },
        }
    }

    /// Forgets the options that few segments have.
    #[cold]
    pub(crate) fn forget_rare(&mut self) {
        self.rare = None;
    }

    /// Bytes of options, padded to whole words as Linux does (`tcp_options_write`): SACK-Permitted
    /// travels in the padding of the timestamps.
    #[inline]
    pub fn option_bytes(&self) -> u32 {
        let has_others = self.mss.is_some()
            | self.window_scale.is_some()
            | self.sack_permitted
            | !self.sack.is_empty()
            | self.rare.is_some();
        let others = if has_others {
            let counters = self.rare.as_ref().map_or(0, |rare| rare.counter_bytes());
            self.other_option_bytes(counters, self.sack.len())
        } else {
            0
        };
        self.steady_option_bytes() + others
    }

    /// The same with an option of so many counters of accurate ECN, and so many SACK blocks.
    pub(crate) fn option_bytes_with(&self, counters: usize, blocks: usize) -> u32 {
        self.steady_option_bytes() + self.other_option_bytes(AccurateEcn::wire_bytes(counters), blocks)
    }

    /// Bytes of timestamps and of the configured padding.
    #[inline]
    fn steady_option_bytes(&self) -> u32 {
        let timestamps = if self.timestamps.is_some() { TIMESTAMPS_BYTES } else { 0 };
        timestamps + u32::from(self.padding)
    }

    /// Bytes of the options that neither data nor most acknowledgements have, with so many bytes of counters
    /// of accurate ECN and SACK blocks. Each ends with a whole word; the counters may take the padding before
    /// the next one.
    #[inline(never)]
    fn other_option_bytes(&self, counter_bytes: u32, blocks: usize) -> u32 {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let mut bytes = mss + counter_bytes;
        if self.sack_permitted && self.timestamps.is_none() {
            bytes = (bytes + 2).next_multiple_of(4);
        }
        if self.window_scale.is_some() {
            bytes = (bytes + 3).next_multiple_of(4);
        }
        if blocks > 0 {
            bytes = (bytes + 2 + 8 * blocks as u32).next_multiple_of(4);
        }
        bytes.next_multiple_of(4) + self.rare.as_ref().map_or(0, |rare| rare.last_bytes())
    }

    /// Length on the wire in bytes, without the IP header.
    #[inline]
    pub fn wire_size(&self) -> u32 {
        HEADER_BYTES + self.option_bytes() + self.payload.length
    }

    /// How much of the sequence space the segment takes: its payload, SYN and FIN.
    pub fn sequence_length(&self) -> u32 {
        let controls = u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN));
        self.payload.length + controls
    }

    /// The name that output shows, and the sequence number if the segment carries data.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        let has = |flag| self.flags.has(flag);
        let name = match () {
            () if has(Flags::RST) => "rst",
            () if has(Flags::SYN) && has(Flags::ACK) => "syn_ack",
            () if has(Flags::SYN) => "syn",
            () if has(Flags::FIN) => "fin",
            () if self.payload.length > 0 => "data",
            () => "ack",
        };
        (name, (self.payload.length > 0).then_some(self.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_what_linux_pads_them_to() {
        let timestamps = Some(Timestamps { value: 1, echo: 2 });
        let syn = Segment {
            mss: Some(1_460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps,
            ..Segment::blank()
        };
        assert_eq!(syn.option_bytes(), 20);
        assert_eq!(Segment { timestamps: None, ..syn }.option_bytes(), 12);
        let mut ack = Segment { timestamps, ..Segment::blank() };
        assert_eq!(ack.wire_size(), 32);
        for blocks in 1..=3 {
            ack.sack.push(SackBlock::default());
            assert_eq!(ack.option_bytes(), 16 + 8 * blocks);
        }
        assert_eq!(ack.option_bytes(), MAX_OPTION_BYTES);
    }

    #[test]
    fn the_ace_field_is_three_flags() {
        assert_eq!(Flags::from_ace(5), Flags::AE.with(Flags::ECE));
        for number in 0..8 {
            assert_eq!(Flags::from_ace(number).ace(), number);
        }
        assert_eq!(Flags::ACK.with(Flags::from_ace(14)).ace(), 6);
    }
}
