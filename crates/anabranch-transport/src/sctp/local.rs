//! What an end says about itself, and where its random numbers come from.

use crate::flow::IpVersion;
use crate::rng::Draw as _;
use crate::secret::NumberSource;
use crate::wire::sctp::COMMON_HEADER_BYTES;

/// The random numbers with which an end of an association begins: its verification tag and its first TSN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) tag: u32,
    pub(super) initial_tsn: u32,
}

impl Numbers {
    /// RFC 9260 section 5.3.1: a tag is never zero.
    pub(super) fn draw(source: &mut NumberSource) -> Self {
        let tag = (source.bits() as u32).max(1);
        Self { tag, initial_tsn: source.bits() as u32 }
    }
}

/// This end.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) ip: IpVersion,
    /// Our port and the peer's.
    pub(super) ports: [u16; 2],
    /// IP header and common header, in bytes.
    pub(super) headers_bytes: u32,
    pub(super) numbers: Numbers,
    /// The number of addresses that this end lists; `None` if these are the addresses of its paths.
    pub(super) listed_addresses: Option<u8>,
    /// Identifies the association in the cookies of answers to further INITs, once there has been one (RFC
    /// 9260 section 5.2.2).
    pub(super) tie_tag: Option<u64>,
    /// The source of tags, TSNs and nonces.
    pub(super) source: NumberSource,
}

impl Local {
    /// An end that draws its numbers from this source.
    pub(super) fn new(ports: [u16; 2], ip: IpVersion, mut source: NumberSource) -> Self {
        Self {
            ip,
            ports,
            headers_bytes: ip.header_bytes() + COMMON_HEADER_BYTES,
            numbers: Numbers::draw(&mut source),
            listed_addresses: None,
            tie_tag: None,
            source,
        }
    }

    /// The number by which this association recognises cookies that were made for it.
    pub(super) fn tie_tag(&mut self) -> u64 {
        *self.tie_tag.get_or_insert_with(|| self.source.bits())
    }
}
