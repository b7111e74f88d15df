//! Boxes of packets that are used again. A receiver of data is left with boxes that the sender would
//! allocate, so that what an end has too many of goes to the other ends of its thread.

use std::cell::RefCell;
use std::fmt;
use std::thread::LocalKey;

use crate::wire::Packet;

/// The most boxes that an end keeps; half of them are exchanged at once.
const MOST: usize = 16;
/// The most boxes that wait for the ends of a thread.
const MOST_SHARED: usize = 64;

pub(crate) type Boxes = Vec<Box<Packet>>;

/// The boxes that the ends of one transport in a thread share.
pub(crate) type Shared = LocalKey<RefCell<Boxes>>;

/// The boxes of an end.
pub(crate) struct PacketPool {
    own: Boxes,
    shared: &'static Shared,
}

impl fmt::Debug for PacketPool {
    /// What is in the boxes means nothing.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PacketPool")
    }
}

impl PacketPool {
    /// No boxes, of an end that shares with these.
    pub(crate) const fn new(shared: &'static Shared) -> Self {
        Self { own: Vec::new(), shared }
    }

    /// Keeps the box of a packet that is no longer needed.
    #[inline]
    pub(crate) fn keep(&mut self, packet: Box<Packet>) {
        if self.own.len() == MOST {
            self.share();
        }
        self.own.push(packet);
    }

    /// Takes a box with any packet, if there is one.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Box<Packet>> {
        if self.own.is_empty() {
            self.fetch();
        }
        self.own.pop()
    }

    #[inline(never)]
    fn share(&mut self) {
        self.shared.with_borrow_mut(|shared| {
            let boxes = self.own.drain(MOST / 2..);
            if shared.len() < MOST_SHARED {
                shared.extend(boxes);
            }
        });
    }

    #[inline(never)]
    fn fetch(&mut self) {
        self.shared.with_borrow_mut(|shared| {
            self.own.extend(shared.drain(shared.len().saturating_sub(MOST / 2)..));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Ecn, PathId};
    use crate::wire::Body;
    use crate::wire::tcp::Segment;

    thread_local! {
        static SHARED: RefCell<Boxes> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn what_one_end_is_left_with_is_used_by_another() {
        let packet = || {
            let body = Body::Tcp(Segment::blank());
            Box::new(Packet { path: PathId::default(), ecn: Ecn::NotEct, size: 0, body })
        };
        let (mut receiver, mut sender) = (PacketPool::new(&SHARED), PacketPool::new(&SHARED));
        assert!(sender.take().is_none());
        (0..10 * MOST_SHARED).for_each(|_| receiver.keep(packet()));
        assert!(receiver.own.len() <= MOST && SHARED.with_borrow(Vec::len) <= MOST_SHARED);
        let taken = std::iter::from_fn(|| sender.take()).count();
        assert_eq!(taken, MOST_SHARED);
    }
}
