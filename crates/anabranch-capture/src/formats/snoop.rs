//! snoop, version 2 (RFC 1761).

use super::{Frame, LONGEST, header, number, record};
use crate::bytes::Order;
use crate::source::{Damage, Source};
use crate::tables::Tables;

/// The first bytes of a file.
pub(super) const MAGIC: [u8; 8] = *b"snoop\0\0\0";

const RECORD_BYTES: usize = 24;

/// A file's constants.
#[derive(Clone, Copy)]
pub(crate) struct Snoop {
    link: u32,
    interface: Option<usize>,
}

impl Snoop {
    /// Reads the header of the file.
    pub(super) fn begin(source: &mut Source) -> Result<Self, Damage> {
        let header: [u8; 16] = header(source, "header of the file")?.expect("it begins with a magic number");
        let [version, kind] = [8, 12].map(|at| number(Order::Big, &header, at));
        if version != 2 {
            return Err(Damage(format!("snoop of version {version}; only version 2 is read")));
        }
        source.take(16);
        // Section 4: IEEE 802.3 and Ethernet have one form here. 26 is Solaris' IP without a link layer.
        let link = match kind {
            0 | 4 => 1,
            26 => 101,
            _ => return Err(Damage(format!("snoop of data link type {kind}; Ethernet and IP are read"))),
        };
        Ok(Self { link, interface: None })
    }

    pub(super) fn next<'a>(
        &mut self,
        source: &'a mut Source,
        tables: &mut Tables,
    ) -> Result<Option<Frame<'a>>, Damage> {
        let Some(header) = header::<RECORD_BYTES>(source, "packet")? else { return Ok(None) };
        let [octets, captured, length, _drops, seconds, micros] =
            [0, 4, 8, 12, 16, 20].map(|at| number(Order::Big, &header, at));
        let (captured, length) = (captured as usize, length as usize);
        if !(RECORD_BYTES..=LONGEST).contains(&length) || captured > length - RECORD_BYTES {
            return Err(Damage::length("packet", length));
        }
        let interface = match self.interface {
            Some(interface) => interface,
            None => *self.interface.insert(tables.interface("0")?),
        };
        let data = &record(source, length)?[RECORD_BYTES..][..captured];
        Ok(Some(Frame {
            time_ns: Some(i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1_000),
            link: self.link,
            octets: octets as usize,
            data,
            interface,
            within: None,
            direction: -1,
            comment: None,
        }))
    }
}
