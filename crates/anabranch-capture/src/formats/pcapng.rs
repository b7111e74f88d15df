//! pcapng (draft-ietf-opsawg-pcapng): sections one after another, each with its byte order and interfaces.

use super::{Frame, LONGEST, header, number, record};
use crate::bytes::{Order, clamped};
use crate::source::{Damage, Source};
use crate::tables::{LeftOut, Tables};

/// The type of the block that begins a section; it reads the same in either order.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The mark of a section's byte order (section 4.1).
const ORDER_MARK: u32 = 0x1a2b_3c4d;

/// Types of blocks.
mod block {
    pub(super) const INTERFACE: u32 = 1;
    /// Obsolete (appendix A).
    pub(super) const PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const NAMES: u32 = 4;
    pub(super) const ENHANCED_PACKET: u32 = 6;
    #[cfg(feature = "quic")]
    pub(super) const SECRETS: u32 = 10;
    /// Statistics, journals, secrets and what is custom: they have no packet.
    pub(super) const WITHOUT_PACKETS: [u32; 5] = [5, 9, 10, 0xbad, 0x4000_0bad];
}

/// Codes of options.
mod option {
    pub(super) const COMMENT: u16 = 1;
    /// Of packets: flags.
    pub(super) const FLAGS: u16 = 2;
    /// Of interfaces.
    pub(super) const NAME: u16 = 2;
    pub(super) const RESOLUTION: u16 = 9;
    pub(super) const OFFSET: u16 = 14;
}

/// What a block of secrets has that is an SSLKEYLOGFILE (section 4.7).
#[cfg(feature = "quic")]
const TLS_KEY_LOG: u32 = 0x544c_534b;

/// More interfaces of a section mean that a file is damaged.
const MOST_INTERFACES: usize = 1 << 16;

/// The block that a packet of a packet block is in has these bytes before it.
const PACKET_AT: usize = 28;

/// The section that is being read.
pub(crate) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
}

impl Default for Pcapng {
    fn default() -> Self {
        Self { order: Order::Little, interfaces: Vec::new() }
    }
}

/// What a section says about one interface.
struct Interface {
    link: u32,
    /// `if_tsresol`: a negative power of 10, or of 2 if the highest bit is set.
    resolution: u8,
    offset_s: i64,
    name: String,
    /// Among those of the file, once it has a frame.
    number: Option<usize>,
}

impl Interface {
    fn read(order: Order, body: &[u8], number: usize) -> Result<Self, Damage> {
        let link = order.u16(body, 0).filter(|_| body.len() >= 8).ok_or_else(too_short)?;
        let mut interface =
            Self { link: link.into(), resolution: 6, offset_s: 0, name: String::new(), number: None };
        for (code, value) in options(order, body, 8) {
            match (code, value) {
                (option::NAME, _) => interface.name = String::from_utf8_lossy(value).into_owned(),
                (option::RESOLUTION, &[resolution]) => interface.resolution = resolution,
                (option::OFFSET, _) if value.len() == 8 => {
                    interface.offset_s = order.i64(value, 0).expect("it has 8 bytes");
                }
                _ => {}
            }
        }
        if interface.name.is_empty() {
            interface.name = number.to_string();
        }
        Ok(interface)
    }

    fn time_ns(&self, ticks: u64) -> i64 {
        let nanoseconds = u128::from(ticks) * 1_000_000_000;
        let power = u32::from(self.resolution & 127);
        let since = if self.resolution & 128 != 0 {
            nanoseconds >> power
        } else {
            // 10^39 is more than a `u128` has, and than any number of ticks.
            10_u128.checked_pow(power).map_or(0, |unit| nanoseconds / unit)
        };
        clamped(i128::from(self.offset_s) * 1_000_000_000 + since as i128)
    }
}

fn too_short() -> Damage {
    Damage::of("a block is too short; the file is damaged")
}

/// Fields of a code, a length and a value, padded to whole words.
fn options(order: Order, body: &[u8], at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(at..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (code, length) = (order.u16(rest, 0)?, usize::from(order.u16(rest, 2)?));
        let value = &rest[4..(4 + length).min(rest.len())];
        rest = rest.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

/// Where a packet is in its block, and what the block says about it.
struct Place {
    interface: usize,
    ticks: u64,
    captured: usize,
    octets: usize,
}

impl Pcapng {
    pub(super) fn next<'a>(
        &mut self,
        source: &'a mut Source,
        tables: &mut Tables,
    ) -> Result<Option<Frame<'a>>, Damage> {
        loop {
            let Some(head) = header::<8>(source, "block")? else { return Ok(None) };
            if head.starts_with(&MAGIC) {
                self.begin_section(source)?;
                continue;
            }
            let kind = number(self.order, &head, 0);
            let length = self.length(&head, 12)?;
            match kind {
                block::PACKET | block::ENHANCED_PACKET => {
                    return self.packet(kind, length, source, tables).map(Some);
                }
                block::SIMPLE_PACKET => {
                    record(source, length)?;
                    return Ok(Some(Frame {
                        time_ns: None,
                        link: 0,
                        octets: 0,
                        data: &[],
                        interface: 0,
                        within: None,
                        direction: -1,
                        comment: None,
                    }));
                }
                _ => {}
            }
            let order = self.order;
            // The length is repeated at the end.
            let body = &record(source, length)?[8..length - 4];
            match kind {
                block::INTERFACE if self.interfaces.len() >= MOST_INTERFACES => {
                    let problem =
                        format!("a section has more than {MOST_INTERFACES} interfaces; the file is damaged");
                    return Err(Damage(problem));
                }
                block::INTERFACE => {
                    self.interfaces.push(Interface::read(order, body, self.interfaces.len())?);
                }
                block::NAMES => names(order, body, tables),
                #[cfg(feature = "quic")]
                block::SECRETS => {
                    if order.u32(body, 0) == Some(TLS_KEY_LOG) {
                        tables.quic.learn(body.get(8..).unwrap_or_default());
                    }
                }
                _ if block::WITHOUT_PACKETS.contains(&kind) => {}
                _ => tables.leave_out(LeftOut::Block(kind)),
            }
        }
    }

    fn begin_section(&mut self, source: &mut Source) -> Result<(), Damage> {
        let head = source.peek(12)?;
        let mark = |order: Order| order.u32(head, 8) == Some(ORDER_MARK);
        if head.len() < 12 {
            return Err(Damage::of("the file is cut off in a packet"));
        }
        self.order = [Order::Big, Order::Little]
            .into_iter()
            .find(|order| mark(*order))
            .ok_or_else(|| Damage::of("a section has no byte order; the file is damaged"))?;
        self.interfaces.clear();
        let head = head.to_vec();
        let length = self.length(&head, 16)?;
        record(source, length).map(drop)
    }

    /// The length of a block, which has at least so many bytes; those that a writer has not padded to a
    /// multiple of 4 are read as they are.
    fn length(&self, head: &[u8], least: usize) -> Result<usize, Damage> {
        let length = number(self.order, head, 4) as usize;
        if (least..=LONGEST).contains(&length) { Ok(length) } else { Err(Damage::length("block", length)) }
    }

    fn packet<'a>(
        &mut self,
        kind: u32,
        length: usize,
        source: &'a mut Source,
        tables: &mut Tables,
    ) -> Result<Frame<'a>, Damage> {
        let order = self.order;
        let block = record(source, length)?;
        let block = &block[..length - 4];
        if block.len() < PACKET_AT {
            return Err(too_short());
        }
        let field = |at: usize| number(order, block, 8 + at);
        let interface = if kind == block::PACKET {
            order.u16(block, 8).expect("the block has it").into()
        } else {
            field(0)
        };
        let place = Place {
            interface: interface as usize,
            ticks: u64::from(field(4)) << 32 | u64::from(field(8)),
            captured: field(12) as usize,
            octets: field(16) as usize,
        };
        let data = block.get(PACKET_AT..).and_then(|rest| rest.get(..place.captured));
        let (Some(interface), Some(data)) = (self.interfaces.get_mut(place.interface), data) else {
            return Err(Damage::of("a packet's block contradicts itself; the file is damaged"));
        };
        let (mut comment, mut direction) = (None, -1);
        for (code, value) in options(order, block, PACKET_AT + place.captured.next_multiple_of(4)) {
            match code {
                0 => break,
                option::COMMENT => comment = comment.or(Some(value)),
                // Section 4.3.1: the lowest bits say 1 for inbound, 2 for outbound.
                option::FLAGS if value.len() == 4 => {
                    direction = match order.u32(value, 0).map(|flags| flags & 3) {
                        Some(1) => 0,
                        Some(2) => 1,
                        _ => -1,
                    };
                }
                _ => {}
            }
        }
        let number = match interface.number {
            Some(number) => number,
            None => *interface.number.insert(tables.interface(&interface.name)?),
        };
        Ok(Frame {
            time_ns: Some(interface.time_ns(place.ticks)),
            link: interface.link,
            octets: place.octets,
            data,
            interface: number,
            within: None,
            direction,
            comment,
        })
    }
}

/// The first name of each address in a name resolution block (section 4.5).
fn names(order: Order, body: &[u8], tables: &mut Tables) {
    for (kind, value) in options(order, body, 0) {
        let octets = match kind {
            0 => return,
            1 => 4,
            2 => 16,
            _ => continue,
        };
        if let Some((address, names)) = value.split_at_checked(octets)
            && !names.is_empty()
        {
            let name = names.split(|byte| *byte == 0).next().unwrap_or_default();
            tables.name(address, name);
        }
    }
}
