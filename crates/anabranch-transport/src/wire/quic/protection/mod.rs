//! Protection of packets (RFC 9001 section 5): the seam between packets and cryptography.

#[cfg(feature = "quic")]
mod real;

use super::connection_id::ConnectionId;
use super::packet::TAG_BYTES;

#[cfg(feature = "quic")]
pub use real::Real;

/// What of a packet the mask of its header is made of (section 5.4.2), in bytes.
pub const SAMPLE_BYTES: usize = 16;

/// What is authenticated beside the content of a packet, and what chooses key and nonce.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// The path ID, 0 where there is no multipath (RFC 10069 section 2.4).
    pub path: u32,
    /// The packet's number.
    pub number: u64,
    /// The key phase bit, which only short headers have.
    pub key_phase: bool,
    /// Of a packet that is sealed: how many key updates came before it.
    pub key_updates: u32,
    /// The header without its mask, packet number included.
    pub header: &'a [u8],
}

/// Seals or opens packets of one level and one direction.
pub trait Protection {
    /// Seals content, and gives the tag that follows it.
    fn seal(&mut self, envelope: Envelope<'_>, content: &mut [u8]) -> [u8; TAG_BYTES];

    /// Opens content with its tag behind it, and says how many key updates its key comes after; [`None`] if
    /// it is not genuine. Its content is lost then.
    fn open(&mut self, envelope: Envelope<'_>, sealed: &mut [u8]) -> Option<u32>;

    /// The mask of the first byte, of which five bits count, and of the packet number (RFC 9001 section
    /// 5.4.1).
    fn mask(&self, sample: &[u8; SAMPLE_BYTES]) -> [u8; 5];

    /// The tag of a Retry packet (section 5.8), whose bytes without the tag are these; `original` is the
    /// destination of the packet that it answers.
    fn retry_tag(original: ConnectionId, retry: &[u8]) -> [u8; TAG_BYTES];
}

/// No protection, of the same size: tags are zero, and anyone can write them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Protection for Plain {
    fn seal(&mut self, _: Envelope<'_>, _: &mut [u8]) -> [u8; TAG_BYTES] {
        [0; TAG_BYTES]
    }

    fn open(&mut self, _: Envelope<'_>, sealed: &mut [u8]) -> Option<u32> {
        sealed.ends_with(&[0; TAG_BYTES]).then_some(0)
    }

    fn mask(&self, _: &[u8; SAMPLE_BYTES]) -> [u8; 5] {
        [0; 5]
    }

    fn retry_tag(_: ConnectionId, _: &[u8]) -> [u8; TAG_BYTES] {
        [0; TAG_BYTES]
    }
}
