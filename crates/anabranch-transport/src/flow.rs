//! The types that every layer uses: the ends and the paths of a flow, the version of IP, the ECN field, and a
//! piece of an application's stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path of a flow: the position in its list of paths, the same number at both ends.
///
/// A path is a pair of addresses, one per end, and the links between them; source and destination
/// address of a packet follow from the path and the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

impl PathId {
    /// The index in a list of paths.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Paths of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathSet([u64; 4]);

impl PathSet {
    #[inline]
    pub(crate) const fn insert(&mut self, path: PathId) {
        self.0[path.index() / 64] |= 1 << (path.index() % 64);
    }

    #[inline]
    pub(crate) const fn remove(&mut self, path: PathId) {
        self.0[path.index() / 64] &= !(1 << (path.index() % 64));
    }

    #[inline]
    pub(crate) const fn contains(&self, path: PathId) -> bool {
        self.0[path.index() / 64] >> (path.index() % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn insert_all(&mut self, others: Self) {
        self.0.iter_mut().zip(others.0).for_each(|(own, others)| *own |= others);
    }

    /// The first path.
    #[inline]
    pub(crate) fn first(&self) -> Option<PathId> {
        let place = self.0.iter().position(|paths| *paths != 0)?;
        Some(PathId((place * 64) as u8 + self.0[place].trailing_zeros() as u8))
    }

    /// Takes out the first path.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<PathId> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }
}

/// One of a flow's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opens the association, the flow's `from`.
    A,
    /// The other end, the flow's `to`.
    B,
}

impl Side {
    /// The other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The index in a pair: 0 for A.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// `a` or `b`, as names of streams and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// The version of IP a flow runs over; decides the size of its packets' headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IpVersion {
    /// IPv4, 20 bytes of header.
    #[default]
    Ipv4,
    /// IPv6, 40 bytes of header.
    Ipv6,
}

impl IpVersion {
    /// The size of the header without options, in bytes.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::Ipv4 => 20,
            Self::Ipv6 => 40,
        }
    }
}

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Congestion experienced.
    Ce,
    /// ECN-capable transport, codepoint 0.
    Ect0,
    /// ECN-capable transport, codepoint 1 (L4S, RFC 9331).
    Ect1,
    /// Not ECN-capable.
    #[default]
    NotEct,
}

/// A piece of an application's stream: it says which bytes are meant and does not hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Payload {
    /// The position in the application's stream at which the piece starts, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_set_come_in_order() {
        let mut paths = PathSet::default();
        for path in [255, 3, 64, 3, 63, 7] {
            paths.insert(PathId(path));
        }
        paths.remove(PathId(7));
        let mut others = PathSet::default();
        others.insert(PathId(128));
        paths.insert_all(others);
        assert!(paths.contains(PathId(128)) && !paths.contains(PathId(7)));
        let order: Vec<u8> = std::iter::from_fn(|| paths.pop()).map(|path| path.0).collect();
        assert_eq!(order, [3, 63, 64, 128, 255]);
        assert_eq!(paths, PathSet::default());
    }
}
