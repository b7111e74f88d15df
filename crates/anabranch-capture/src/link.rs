//! What comes before the IP header in a frame: link layers by their numbers in the registry of LINKTYPEs
//! (draft-ietf-opsawg-pcaplinktype), tags and labels.

use crate::bytes::{Order, array, be16, be32};

/// The VLANs that a frame is in, outermost first; the first four tell places apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Vlans {
    count: u8,
    numbers: [u16; 4],
}

impl Vlans {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> {
        self.numbers.into_iter().take(self.count.into())
    }

    fn push(&mut self, number: u16) {
        if let Some(place) = self.numbers.get_mut(usize::from(self.count)) {
            *place = number;
            self.count += 1;
        }
    }
}

/// What the headers of a frame's link layer say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Addresses, as numbers.
    pub(crate) source: u64,
    pub(crate) destination: u64,
    pub(crate) vlans: Vlans,
    /// The number of the interface of the host.
    pub(crate) within: Option<u32>,
    /// 1 if the host that captured has sent the frame, 0 if it has received it, -1 if nothing says it.
    pub(crate) direction: i8,
    /// How many headers have been read.
    headers: u8,
}

impl Default for Link {
    fn default() -> Self {
        Self { source: 0, destination: 0, vlans: Vlans::default(), within: None, direction: -1, headers: 0 }
    }
}

/// Headers within headers of more levels than this are not looked at.
const MOST_HEADERS: u8 = 16;

/// Why a frame has no IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// It ends within a header.
    Short,
    /// It carries something else.
    NotIp,
    /// Its link layer is not known here.
    Unknown,
}

type Found<'a> = Result<&'a [u8], Miss>;

/// Values of `EtherType` (IEEE 802).
mod ether {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const SERVICE_VLAN: u16 = 0x88a8;
    /// `QinQ` before IEEE 802.1ad.
    pub(super) const OLD_QINQ: u16 = 0x9100;
    pub(super) const MPLS: u16 = 0x8847;
    pub(super) const MPLS_UPSTREAM: u16 = 0x8848;
    pub(super) const PPPOE_SESSION: u16 = 0x8864;
    /// An Ethernet frame, in GRE (RFC 1701).
    pub(super) const BRIDGED: u16 = 0x6558;
    /// Up to here it is a length, and a header of IEEE 802.2 follows.
    pub(super) const LONGEST: u16 = 1_500;
}

/// `PACKET_OUTGOING` of Linux' cooked captures.
const OUTGOING: u8 = 4;

/// From where on a frame has an IP packet.
pub(crate) fn network<'a>(kind: u32, frame: &'a [u8], link: &mut Link) -> Found<'a> {
    match kind {
        // BSD's loopbacks: an address family.
        0 | 108 => after(frame, 4),
        1 => ethernet(frame, link),
        9 | 50 => ppp(frame, link),
        // The numbers of raw IP.
        12 | 14 | 101 | 228 | 229 => Ok(frame),
        51 => pppoe(frame, link),
        104 => ethertype(be16(frame, 2).ok_or(Miss::Short)?, after(frame, 4)?, link),
        105 => wireless(frame, false, link),
        113 => cooked(frame, link),
        127 => radiotap(frame, link),
        // PPP with a direction.
        204 => {
            link.direction = frame.first().map_or(-1, |direction| i8::from(*direction != 0));
            ppp(after(frame, 1)?, link)
        }
        219 => labels(frame, link),
        239 => nflog(frame),
        276 => cooked_2(frame, link),
        _ => Err(Miss::Unknown),
    }
}

fn after(bytes: &[u8], count: usize) -> Found<'_> {
    bytes.get(count..).ok_or(Miss::Short)
}

/// A MAC address as a number.
fn address(bytes: &[u8], at: usize) -> u64 {
    array::<6>(bytes, at).map_or(0, |[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

pub(crate) fn ethernet<'a>(frame: &'a [u8], link: &mut Link) -> Found<'a> {
    let kind = be16(frame, 12).ok_or(Miss::Short)?;
    (link.destination, link.source) = (address(frame, 0), address(frame, 6));
    ethertype(kind, &frame[14..], link)
}

/// What follows a field with an `EtherType`.
pub(crate) fn ethertype<'a>(mut kind: u16, mut bytes: &'a [u8], link: &mut Link) -> Found<'a> {
    link.headers += 1;
    if link.headers > MOST_HEADERS {
        return Err(Miss::NotIp);
    }
    while let ether::VLAN | ether::SERVICE_VLAN | ether::OLD_QINQ = kind {
        let tag = be16(bytes, 0).ok_or(Miss::Short)? & 0xfff;
        // IEEE 802.1Q: VLAN 0 means that the tag has a priority only.
        if tag != 0 {
            link.vlans.push(tag);
        }
        kind = be16(bytes, 2).ok_or(Miss::Short)?;
        bytes = &bytes[4..];
    }
    match kind {
        ether::IPV4 | ether::IPV6 => Ok(bytes),
        ether::MPLS | ether::MPLS_UPSTREAM => labels(bytes, link),
        ether::PPPOE_SESSION => pppoe(bytes, link),
        ether::BRIDGED => ethernet(bytes, link),
        0..=ether::LONGEST => snap(bytes, link),
        _ => Err(Miss::NotIp),
    }
}

/// IEEE 802.2 with a Subnetwork Access Protocol (RFC 1042).
fn snap<'a>(bytes: &'a [u8], link: &mut Link) -> Found<'a> {
    match bytes.get(..6).ok_or(Miss::Short)? {
        // RFC 1042, and IEEE 802.1H.
        [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8] => ethertype(be16(bytes, 6).ok_or(Miss::Short)?, &bytes[8..], link),
        _ => Err(Miss::NotIp),
    }
}

/// A stack of MPLS labels (RFC 3032), and IP or a pseudowire behind it.
fn labels<'a>(mut bytes: &'a [u8], link: &mut Link) -> Found<'a> {
    loop {
        let label = be32(bytes, 0).ok_or(Miss::Short)?;
        bytes = &bytes[4..];
        // The bottom of the stack.
        if label & 0x100 != 0 {
            break;
        }
    }
    match bytes.first().ok_or(Miss::Short)? >> 4 {
        4 | 6 => Ok(bytes),
        // The control word of an Ethernet pseudowire (RFC 4385 section 3, RFC 4448 section 4.6).
        0 => ethernet(after(bytes, 4)?, link),
        _ => Err(Miss::NotIp),
    }
}

/// RFC 2516 section 4.
fn pppoe<'a>(bytes: &'a [u8], link: &mut Link) -> Found<'a> {
    // Version, type and code of a session's data.
    if be16(bytes, 0).ok_or(Miss::Short)? != 0x1100 {
        return Err(Miss::NotIp);
    }
    ppp(after(bytes, 6)?, link)
}

/// RFC 1661 section 2, also with the address and control fields of RFC 1662, or Cisco's HDLC in their place.
fn ppp<'a>(mut bytes: &'a [u8], link: &mut Link) -> Found<'a> {
    match be16(bytes, 0).ok_or(Miss::Short)? {
        0xff03 => bytes = &bytes[2..],
        0x0f00 | 0x8f00 => return ethertype(be16(bytes, 2).ok_or(Miss::Short)?, &bytes[4..], link),
        _ => {}
    }
    let first = *bytes.first().ok_or(Miss::Short)?;
    // Section 6.5: the protocol may be compressed to one octet, which is odd.
    let (protocol, bytes) = if first & 1 == 1 {
        (first.into(), &bytes[1..])
    } else {
        (be16(bytes, 0).ok_or(Miss::Short)?, after(bytes, 2)?)
    };
    match protocol {
        // IPv4 and IPv6 (RFC 1332, RFC 5072).
        0x0021 | 0x0057 => Ok(bytes),
        // RFC 3032 section 4.3.
        0x0281 | 0x0283 => labels(bytes, link),
        _ => Err(Miss::NotIp),
    }
}

/// Enhanced GRE of PPTP carries PPP.
pub(crate) fn in_pptp(bytes: &[u8]) -> Found<'_> {
    ppp(bytes, &mut Link::default())
}

/// Linux' captures of all interfaces (`LINKTYPE_LINUX_SLL`).
fn cooked<'a>(frame: &'a [u8], link: &mut Link) -> Found<'a> {
    let kind = be16(frame, 14).ok_or(Miss::Short)?;
    link.direction = i8::from(frame[1] == OUTGOING);
    if be16(frame, 4) == Some(6) {
        link.source = address(frame, 6);
    }
    ethertype(kind, &frame[16..], link)
}

/// Their second version (`LINKTYPE_LINUX_SLL2`).
fn cooked_2<'a>(frame: &'a [u8], link: &mut Link) -> Found<'a> {
    let bytes = after(frame, 20)?;
    link.within = be32(frame, 4);
    link.direction = i8::from(frame[10] == OUTGOING);
    if frame[11] == 6 {
        link.source = address(frame, 12);
    }
    ethertype(be16(frame, 0).ok_or(Miss::Short)?, bytes, link)
}

/// Linux' log of a netfilter rule (`LINKTYPE_NFLOG`): a header of 4 bytes, then fields of a length, a type
/// and a value in the byte order of the host that captured.
fn nflog(frame: &[u8]) -> Found<'_> {
    /// `NFULA_PAYLOAD`.
    const PAYLOAD: u16 = 9;
    /// Types are less.
    const TYPES: u16 = 32;
    let mut rest = after(frame, 4)?;
    // The first field is short and has a small type.
    let is_little = Order::Little.u16(rest, 2).ok_or(Miss::Short)? < TYPES;
    let order = if is_little { Order::Little } else { Order::Big };
    loop {
        let (Some(length), Some(kind)) = (order.u16(rest, 0), order.u16(rest, 2)) else {
            return Err(Miss::Short);
        };
        let length = usize::from(length);
        if length < 4 {
            return Err(Miss::NotIp);
        }
        // The upper bits say that a field is nested or in network order.
        if kind & 0x3fff == PAYLOAD {
            return Ok(&rest[4..length.min(rest.len()).max(4)]);
        }
        rest = after(rest, length.next_multiple_of(4))?;
    }
}

/// What a wireless card says about a frame (radiotap.org), and the frame.
fn radiotap<'a>(frame: &'a [u8], link: &mut Link) -> Found<'a> {
    /// Bits of the flags: the header of the frame is padded to whole words; its checksum was wrong.
    const PADDED: u8 = 0x20;
    const DAMAGED: u8 = 0x40;
    let length = Order::Little.u16(frame, 2).ok_or(Miss::Short)?.into();
    let present = Order::Little.u32(frame, 4).ok_or(Miss::Short)?;
    let mut at = 4;
    // The highest bit says that another word of bits follows.
    while Order::Little.u32(frame, at).ok_or(Miss::Short)? >> 31 == 1 {
        at += 4;
    }
    at += 4;
    if present & 1 != 0 {
        // The time, at a multiple of its length.
        at = at.next_multiple_of(8) + 8;
    }
    let flags = if present & 2 != 0 { *frame.get(at).ok_or(Miss::Short)? } else { 0 };
    if flags & DAMAGED != 0 {
        return Err(Miss::NotIp);
    }
    wireless(after(frame, length)?, flags & PADDED != 0, link)
}

/// A frame of IEEE 802.11 (section 9.2.4), if it is one of data that is neither encrypted nor aggregated.
fn wireless<'a>(frame: &'a [u8], is_padded: bool, link: &mut Link) -> Found<'a> {
    let [first, second] = array(frame, 0).ok_or(Miss::Short)?;
    let has = |bits: u8| second & bits == bits;
    let (is_qos, is_empty) = (first & 0x80 != 0, first & 0x40 != 0);
    // Version 0, type data, not encrypted.
    if first & 0x0f != 8 || is_empty || has(0x40) {
        return Err(Miss::NotIp);
    }
    let mut length = 24;
    // Fragments but the first have a number.
    if Order::Little.u16(frame, 22).ok_or(Miss::Short)? & 0xf != 0 {
        return Err(Miss::NotIp);
    }
    (link.destination, link.source) = (address(frame, 4), address(frame, 10));
    if has(3) {
        // Between access points there is a fourth address.
        length += 6;
    }
    if is_qos {
        if frame.get(length).ok_or(Miss::Short)? & 0x80 != 0 {
            return Err(Miss::NotIp);
        }
        length += 2;
        if has(0x80) {
            length += 4;
        }
    }
    if is_padded {
        length = length.next_multiple_of(4);
    }
    snap(after(frame, length)?, link)
}
