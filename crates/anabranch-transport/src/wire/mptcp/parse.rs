//! MPTCP options from bytes that cannot be trusted (RFC 8684 section 3). One that is malformed, of another
//! version, or not genuine is as if it had not come. A mapping that lies over several segments has a checksum
//! over all of them, which is then not looked at here.

use super::checksum::PseudoHeader;
use super::emit::{BACKUP, CHECKSUMS, ECHO, EXTENSIBILITY, HMAC_SHA_256, TRANSIENT, VERSION, dss, subtype};
use super::keys::{address_code, first_data_sequence};
use super::{Handshake, InfiniteMapping, Join, Options, Reset, Segment, Signal};
use crate::wire::bytes::Reader;
use crate::wire::mptcp::context::MptcpReceiving;
use crate::wire::tcp;

/// The contents of a DSS option (section 3.3).
#[derive(Clone, Copy, Debug)]
pub struct Dss {
    /// The octet of flags.
    pub flags: u8,
    /// The Data ACK.
    pub ack: Option<Number>,
    /// Where its data belongs.
    pub mapping: Option<Mapping>,
}

/// A mapping of data to numbers of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// The number of the first byte on the connection level.
    pub sequence: Number,
    /// The place in the subflow's stream, relative to the subflow's first number.
    pub subflow: u32,
    /// How many bytes it is for, `DATA_FIN` included.
    pub length: u16,
    checksum: Option<u16>,
}

/// The contents of an `MP_CAPABLE` option; version 0 (RFC 6824 section 3.1) has the same form.
#[derive(Clone, Copy, Debug)]
pub struct Capable {
    /// The version.
    pub version: u8,
    /// The octet of flags.
    pub flags: u8,
    /// The key of the end that sends the option, and that of the other end.
    pub keys: [Option<u64>; 2],
}

/// What an MPTCP option says by itself, in a capture: nothing is checked, and numbers are those of the wire.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// `MP_CAPABLE`.
    Capable(Capable),
    /// DSS.
    Dss(Dss),
    /// `MP_JOIN`.
    Join(Join),
    /// Another option, with the octet that follows its subtype.
    Other(Option<u8>),
}

impl Said {
    /// Reads the value of an option of a segment with these control bits: its subtype, the four bits beside
    /// it, and what it says; [`None`] if it is cut off.
    pub fn read(value: &[u8], flags: tcp::Flags) -> Option<(u8, u8, Self)> {
        let mut reader = Reader(value);
        let first = reader.u8()?;
        let (kind, low) = (first >> 4, first & 0xf);
        let said = match kind {
            subtype::CAPABLE => Self::Capable(capable(low, &mut reader)?),
            subtype::DSS => Self::Dss(read_dss(reader)?),
            subtype::JOIN => Self::Join(join(low & BACKUP != 0, reader, flags)?),
            _ => Self::Other(reader.u8()),
        };
        Some((kind, low, said))
    }
}

/// What is known of a segment when its options are read.
#[derive(Clone, Copy)]
pub(in crate::wire) struct Carrier<'a> {
    pub(in crate::wire) segment: &'a tcp::Segment,
    pub(in crate::wire) payload: &'a [u8],
}

/// No stream is longer than this: a number that lies farther from the first one lies before it.
const MOST_POSITION: u64 = u64::MAX >> 1;

/// A data sequence number, or its low half.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// All 64 bits.
    Whole(u64),
    /// The low 32 bits.
    Low(u32),
}

impl Number {
    fn read(reader: &mut Reader<'_>, is_long: bool) -> Option<Self> {
        if is_long { reader.u64().map(Self::Whole) } else { reader.u32().map(Self::Low) }
    }

    /// The low 32 bits.
    pub const fn low(self) -> u32 {
        match self {
            Self::Whole(number) => number as u32,
            Self::Low(number) => number,
        }
    }

    /// The position in a stream that begins with number `first`; of several, the one nearest to `near`.
    const fn position(self, first: u64, near: u64) -> u64 {
        match self {
            Self::Whole(number) => number.wrapping_sub(first),
            Self::Low(number) => {
                let ahead = number.wrapping_sub(first.wrapping_add(near) as u32) as i32;
                near.wrapping_add_signed(ahead as i64)
            }
        }
    }
}

impl Options {
    /// What all MPTCP options of a segment say; [`None`] if they say nothing.
    pub(in crate::wire) fn parse(
        values: &[&[u8]],
        carrier: Carrier<'_>,
        receiving: &mut impl MptcpReceiving,
    ) -> Option<Self> {
        let mut options = Self::default();
        for value in values {
            let _ = options.take(Reader(value), carrier, receiving);
        }
        if options.infinite.is_some() && matches!(options.handshake, Some(Handshake::Capable { .. })) {
            // `MP_CAPABLE` with data has a mapping of its own.
            (options.infinite, options.has_short_number) = (None, false);
        }
        (options != Self::default()).then_some(options)
    }

    fn take(
        &mut self,
        mut value: Reader<'_>,
        carrier: Carrier<'_>,
        receiving: &mut impl MptcpReceiving,
    ) -> Option<()> {
        let Carrier { segment, payload } = carrier;
        let first = value.u8()?;
        let (kind, low) = (first >> 4, first & 0xf);
        let [own_key, peers_key] = receiving.connection_keys();
        match kind {
            subtype::CAPABLE if low == VERSION => {
                let Capable { flags, keys: [sender_key, receiver_key], .. } = capable(low, &mut value)?;
                // Section 3.1: an option with flag B, or without a code that is understood, is ignored.
                if flags & EXTENSIBILITY != 0 || flags & HMAC_SHA_256 == 0 {
                    return Some(());
                }
                self.has_checksum = flags & CHECKSUMS != 0;
                if segment.payload.length > 0 {
                    // The mapping of the first data of the connection and of its subflow; its length is the
                    // segment's.
                    self.data_position = Some(segment.payload.offset);
                    receiving.mapped(
                        0,
                        0,
                        u32::from(value.0.first_chunk().map_or(0, |it| u16::from_be_bytes(*it))),
                    );
                    if let (Some(length), Some(checksum)) = (value.u16(), value.u16())
                        && usize::from(length) == payload.len()
                    {
                        let sequence = first_data_sequence(peers_key);
                        let header = PseudoHeader { sequence, subflow: 1, length };
                        self.is_damaged |= header.checksum(payload, checksum) != 0;
                    }
                }
                self.handshake = Some(Handshake::Capable { sender_key, receiver_key });
            }
            subtype::JOIN => {
                self.handshake = Some(Handshake::Join(join(low & BACKUP != 0, value, segment.flags)?));
            }
            subtype::DSS => return self.take_dss(read_dss(value)?, carrier, receiving),
            subtype::ADD_ADDRESS => {
                let address = value.u8()?;
                let is_echo = low & ECHO != 0;
                let code = if is_echo { 0 } else { 8 };
                let length = value.0.len().checked_sub(code)?;
                let ip = match length {
                    4 | 6 => std::net::Ipv4Addr::from_bits(value.u32()?).into(),
                    16 | 18 => {
                        let octets: [u8; 16] = value.take(16)?.try_into().ok()?;
                        std::net::Ipv6Addr::from(octets).into()
                    }
                    _ => return None,
                };
                let port = if matches!(length, 6 | 18) { Some(value.u16()?) } else { None };
                if !is_echo {
                    if value.0 != address_code([peers_key, own_key], address, ip, port) {
                        return None;
                    }
                    receiving.announced(address, ip, port);
                }
                self.record(Signal::AddAddress { address, is_echo, port });
            }
            subtype::REMOVE_ADDRESS => {
                self.record(Signal::RemoveAddress { addresses: value.0.iter().copied().collect() });
            }
            // Section 3.3.8: an identifier at the end shows that the option is of version 0.
            subtype::PRIORITY if value.is_empty() => {
                self.record(Signal::Priority { is_backup: low & BACKUP != 0 });
            }
            subtype::FAIL => {
                value.u8()?;
                let position = value.u64()?.wrapping_sub(first_data_sequence(own_key));
                self.record(Signal::Fail { position });
            }
            subtype::FAST_CLOSE => {
                value.u8()?;
                // Section 3.5: only an end that knows our key may ask for this.
                if value.u64()? == own_key {
                    self.record(Signal::FastClose);
                }
            }
            subtype::RESET => {
                self.reset = Some(Reset { reason: value.u8()?, is_transient: low & TRANSIENT != 0 });
            }
            _ => {}
        }
        Some(())
    }

    /// Takes a DSS: an acknowledgement on the connection level, a mapping, and `DATA_FIN` (section 3.3).
    fn take_dss(
        &mut self,
        Dss { flags, ack, mapping }: Dss,
        Carrier { segment, payload }: Carrier<'_>,
        receiving: &mut impl MptcpReceiving,
    ) -> Option<()> {
        if self.infinite.is_some() {
            return None;
        }
        let has_fin = flags & dss::DATA_FIN != 0;
        let [own_key, peers_key] = receiving.connection_keys();
        let [expected, acknowledged] = receiving.data_near();
        self.data_ack = ack.map(|ack| ack.position(first_data_sequence(own_key), acknowledged));
        let Some(Mapping { sequence, subflow, length, checksum }) = mapping else { return Some(()) };
        let first = first_data_sequence(peers_key);
        let start = sequence.position(first, expected);
        if start > MOST_POSITION {
            return None;
        }
        self.has_checksum |= checksum.is_some();
        if length == 0 && !has_fin {
            self.infinite = Some(InfiniteMapping { data: start, position: subflow.wrapping_sub(1) });
            (self.data_position, self.data_fin, self.is_damaged) = (None, None, false);
            self.has_checksum = checksum.is_some();
            self.has_short_number = matches!(sequence, Number::Low(_));
            return Some(());
        }
        let data = u64::from(length).saturating_sub(has_fin.into());
        // A mapping may be longer than the segment and begin before it.
        let place = u64::from((segment.payload.offset as u32).wrapping_add(1).wrapping_sub(subflow));
        if segment.payload.length > 0 && place < data {
            self.data_position = Some(start.wrapping_add(place));
            let position = segment.payload.offset.wrapping_sub(place);
            receiving.mapped(position, start, data as u32);
        }
        self.data_fin = has_fin.then(|| start.wrapping_add(data));
        let is_kept = self.data_position.is_some() || self.data_fin.is_some();
        self.has_short_number = is_kept && matches!(sequence, Number::Low(_));
        if let Some(checksum) = checksum {
            let is_alone = subflow == 0 && data == 0;
            if is_alone || (place == 0 && data == payload.len() as u64) {
                let covered = if is_alone { &[] } else { payload };
                let header = PseudoHeader { sequence: first.wrapping_add(start), subflow, length };
                self.is_damaged |= header.checksum(covered, checksum) != 0;
            }
        }
        Some(())
    }

    /// Records a signal. Of several, the last one counts, except that nothing takes back the end of the
    /// connection.
    fn record(&mut self, signal: Signal) {
        if self.signal != Some(Signal::FastClose) {
            self.signal = Some(signal);
        }
    }
}

fn capable(version: u8, value: &mut Reader<'_>) -> Option<Capable> {
    Some(Capable { version, flags: value.u8()?, keys: [value.u64(), value.u64()] })
}

fn join(is_backup: bool, mut value: Reader<'_>, flags: tcp::Flags) -> Option<Join> {
    let has = |flag| flags.has(flag);
    let address = value.u8()?;
    Some(match (has(tcp::Flags::SYN), has(tcp::Flags::ACK)) {
        (true, false) => Join::Syn { token: value.u32()?, nonce: value.u32()?, address, is_backup },
        (true, true) => Join::Answer { code: value.u64()?, nonce: value.u32()?, address, is_backup },
        (false, _) => Join::Third { code: value.take(20)?.try_into().ok()? },
    })
}

fn read_dss(mut value: Reader<'_>) -> Option<Dss> {
    let flags = value.u8()?;
    let has = |flag| flags & flag != 0;
    let ack = if has(dss::HAS_ACK) { Some(Number::read(&mut value, has(dss::ACK_IS_LONG))?) } else { None };
    let mapping = if has(dss::HAS_MAPPING) {
        let sequence = Number::read(&mut value, has(dss::SEQUENCE_IS_LONG))?;
        Some(Mapping { sequence, subflow: value.u32()?, length: value.u16()?, checksum: value.u16() })
    } else {
        None
    };
    Some(Dss { flags, ack, mapping })
}

impl Segment {
    /// A segment with options, in a packet of `size` bytes of which `header` are the IP header.
    pub(in crate::wire) fn of(tcp: tcp::Segment, options: Options, size: u32, header: u32) -> Self {
        let option_bytes = (size - header).saturating_sub(tcp.wire_size());
        Self { tcp, options, option_bytes }
    }
}
