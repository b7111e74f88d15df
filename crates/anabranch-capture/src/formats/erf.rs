//! ERF, the records of Endace's cards ("Extensible Record Format", EDM11-01). A file has no beginning of its
//! own: it is known by records that follow each other.

use std::io;

use super::{Frame, header, record};
use crate::bytes::{array, be16};
use crate::source::{Damage, Source};
use crate::tables::Tables;

/// Time, type, flags, length of the record, counter, length of the packet.
const HEADER_BYTES: usize = 16;

/// A file of such records.
#[derive(Default)]
pub(crate) struct Erf {
    /// The interfaces by their numbers in the flags.
    interfaces: [Option<usize>; 4],
}

/// The fields of a record.
struct Head {
    time_ns: i64,
    /// Without the bit that says that extension headers follow.
    kind: u8,
    has_extension: bool,
    interface: u8,
    length: usize,
    octets: usize,
}

impl Head {
    fn read(header: &[u8]) -> Option<Self> {
        // Seconds since 1970 in the upper half, a binary fraction of a second in the lower one.
        let time = u64::from_le_bytes(array(header, 0)?);
        let fraction = u128::from(time as u32) * 1_000_000_000;
        let (kind, flags) = (*header.get(8)?, *header.get(9)?);
        Some(Self {
            time_ns: (time >> 32) as i64 * 1_000_000_000 + (fraction >> 32) as i64,
            kind: kind & 0x7f,
            has_extension: kind & 0x80 != 0,
            interface: flags & 3,
            length: be16(header, 10)?.into(),
            octets: be16(header, 14)?.into(),
        })
    }

    /// The link layer and where its header begins in what follows the record's; [`None`] for other records.
    const fn link(&self) -> Option<(u32, usize)> {
        match self.kind {
            // HDLC over SONET: PPP or Cisco's form.
            1 => Some((104, 0)),
            // Ethernet, and its forms with colours and hashes: two bytes of offset and padding come first.
            2 | 11 | 16 | 20 => Some((1, 2)),
            22 => Some((228, 0)),
            23 => Some((229, 0)),
            _ => None,
        }
    }
}

/// How many records have to fit together at the beginning of a file, if it has so many.
const RECOGNISED: usize = 3;

/// Times of records that follow each other differ by less, in ns.
const MOST_APART_NS: u64 = 3_600_000_000_000;

impl Erf {
    /// Looks at the first records.
    pub(super) fn recognise(source: &mut Source) -> io::Result<Option<Self>> {
        let (mut at, mut last_ns) = (0, None);
        for _ in 0..RECOGNISED {
            let bytes = source.peek(at + HEADER_BYTES)?;
            if at > 0 && bytes.len() == at {
                return Ok(Some(Self::default()));
            }
            let Some(head) = bytes.get(at..).and_then(Head::read) else { return Ok(None) };
            let is_apart = last_ns.is_some_and(|last: i64| last.abs_diff(head.time_ns) > MOST_APART_NS);
            if head.kind == 0 || head.kind > 48 || head.length < HEADER_BYTES || is_apart {
                return Ok(None);
            }
            last_ns = Some(head.time_ns);
            at += head.length;
        }
        Ok((source.peek(at)?.len() == at).then(Self::default))
    }

    pub(super) fn next<'a>(
        &mut self,
        source: &'a mut Source,
        tables: &mut Tables,
    ) -> Result<Option<Frame<'a>>, Damage> {
        let Some(header) = header::<HEADER_BYTES>(source, "packet")? else { return Ok(None) };
        let head = Head::read(&header).expect("the header is whole");
        if head.length < HEADER_BYTES {
            return Err(Damage::length("packet", head.length));
        }
        let place = &mut self.interfaces[usize::from(head.interface)];
        let interface = match *place {
            Some(interface) => interface,
            None => *place.insert(tables.interface(&head.interface.to_string())?),
        };
        let mut data = &record(source, head.length)?[HEADER_BYTES..];
        let mut has_extension = head.has_extension;
        while has_extension {
            let Some((extension, rest)) = data.split_first_chunk::<8>() else { break };
            has_extension = extension[0] & 0x80 != 0;
            data = rest;
        }
        // Link types above 16 bits stand for types of records.
        let (link, at) = head.link().unwrap_or((1 << 16 | u32::from(head.kind), 0));
        let data = data.get(at..).unwrap_or_default();
        // A record is padded to a multiple of 8 bytes.
        let data = &data[..data.len().min(head.octets)];
        Ok(Some(Frame {
            time_ns: Some(head.time_ns),
            link,
            octets: head.octets,
            data,
            interface,
            within: None,
            direction: -1,
            comment: None,
        }))
    }
}
