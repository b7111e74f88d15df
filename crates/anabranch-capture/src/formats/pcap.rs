//! pcap (draft-ietf-opsawg-pcap): times in µs or ns, either byte order; and its form with more in the header
//! of a packet ("modified", of A. Kuznetzov), as Wireshark's `wiretap/libpcap.h` has it.

use super::{Frame, LONGEST, header, number, record};
use crate::bytes::Order;
use crate::source::{Damage, Source};
use crate::tables::Tables;

/// The magic number in either order, the unit of fractions of a second in ns, and the length of a packet's
/// header.
const MAGICS: [(u32, i64, usize); 3] =
    [(0xa1b2_c3d4, 1_000, 16), (0xa1b2_3c4d, 1, 16), (0xa1b2_cd34, 1_000, MODIFIED_BYTES)];

/// After the usual fields: the interface's number, the protocol, the kind of packet and a byte of padding.
const MODIFIED_BYTES: usize = 24;

/// The kind of packet that this host sends (`PACKET_OUTGOING` of Linux).
const OUTGOING: u8 = 4;

/// A file's constants.
#[derive(Clone, Copy)]
pub(crate) struct Pcap {
    order: Order,
    fraction_ns: i64,
    header_bytes: usize,
    link: u32,
    interface: Option<usize>,
}

impl Pcap {
    /// The form whose magic number these bytes begin with.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        [Order::Big, Order::Little].into_iter().find_map(|order| {
            let magic = order.u32(head, 0)?;
            let (_, fraction_ns, header_bytes) = *MAGICS.iter().find(|(number, ..)| *number == magic)?;
            Some(Self { order, fraction_ns, header_bytes, link: 0, interface: None })
        })
    }

    /// Reads the header of the file.
    pub(super) fn begin(mut self, source: &mut Source) -> Result<Self, Damage> {
        let header: [u8; 24] = header(source, "header of the file")?.expect("it begins with a magic number");
        source.take(24);
        // The upper half says whether frames end with a checksum.
        self.link = number(self.order, &header, 20) & 0xffff;
        Ok(self)
    }

    pub(super) fn next<'a>(
        &mut self,
        source: &'a mut Source,
        tables: &mut Tables,
    ) -> Result<Option<Frame<'a>>, Damage> {
        let Some(header) = header::<16>(source, "packet")? else { return Ok(None) };
        let [seconds, part, captured, octets] = [0, 4, 8, 12].map(|at| number(self.order, &header, at));
        if captured as usize > LONGEST {
            return Err(Damage::length("packet", captured));
        }
        let interface = match self.interface {
            Some(interface) => interface,
            None => *self.interface.insert(tables.interface("0")?),
        };
        let (head, data) = record(source, self.header_bytes + captured as usize)?.split_at(self.header_bytes);
        let is_modified = self.header_bytes == MODIFIED_BYTES;
        Ok(Some(Frame {
            // Fractions of more than a second are added as they are.
            time_ns: Some(i64::from(seconds) * 1_000_000_000 + i64::from(part) * self.fraction_ns),
            link: self.link,
            octets: octets as usize,
            data,
            interface,
            within: is_modified.then(|| number(self.order, head, 16)),
            direction: if is_modified { i8::from(head[22] == OUTGOING) } else { -1 },
            comment: None,
        }))
    }
}
