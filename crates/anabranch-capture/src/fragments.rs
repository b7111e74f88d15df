//! Packets in fragments (RFC 791 section 3.2, RFC 8200 section 4.5): the first one has the transport's
//! header and is the packet's row; the others make the row as long as the packet was.

use indexmap::IndexMap;

/// What the fragments of a packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) source: i32,
    pub(crate) destination: i32,
    /// IPv4; 0 in IPv6, where the identification says enough.
    pub(crate) protocol: u8,
    pub(crate) identification: u32,
    pub(crate) tunnels: u8,
}

/// Copies of a packet that are told apart.
const MOST_COPIES: usize = 8;

/// The fragments of a batch of packets, of which there are no more than frames of the batch. What belongs to
/// a packet of the batch before is not found.
#[derive(Debug, Default)]
pub(crate) struct Fragments(IndexMap<Key, Parts>);

#[derive(Debug, Default)]
struct Parts {
    /// First fragments: the row of each, and the bytes of others that it has got.
    rows: Vec<(usize, usize)>,
    /// Bytes of fragments that came before the first one.
    early: usize,
}

impl Fragments {
    /// Adds a first fragment; gives the bytes that came before it.
    pub(crate) fn begin(&mut self, key: Key, row: usize) -> usize {
        let parts = self.0.entry(key).or_default();
        if parts.rows.len() == MOST_COPIES {
            parts.rows.remove(0);
        }
        let early = std::mem::take(&mut parts.early);
        parts.rows.push((row, early));
        early
    }

    /// Adds another one; gives the row of its packet. If the packet was captured several times, each copy has
    /// as many.
    pub(crate) fn add(&mut self, key: Key, octets: usize) -> Option<usize> {
        let parts = self.0.entry(key).or_default();
        let Some((row, got)) = parts.rows.iter_mut().min_by_key(|(_, got)| *got) else {
            parts.early += octets;
            return None;
        };
        *got += octets;
        Some(*row)
    }
}
