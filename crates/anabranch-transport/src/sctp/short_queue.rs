//! A queue that holds one element most of the time.

use std::collections::VecDeque;

/// A first-in, first-out queue. The first element lies outside the ring of the others, so that nothing is
/// looked up in a ring where there is never a second one, as with the messages of a call.
#[derive(Clone, Debug)]
pub(super) struct ShortQueue<T> {
    /// `None` only when the queue is empty.
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for ShortQueue<T> {
    fn default() -> Self {
        Self { first: None, rest: VecDeque::new() }
    }
}

impl<T> ShortQueue<T> {
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) const fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) const fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    #[inline]
    pub(super) fn push_back(&mut self, element: T) {
        if self.first.is_none() {
            self.first = Some(element);
        } else {
            self.rest.push_back(element);
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        first
    }

    /// Removes the element at this position, counted from 0.
    pub(super) fn remove(&mut self, index: usize) -> Option<T> {
        match index.checked_sub(1) {
            None => self.pop_front(),
            Some(index) => self.rest.remove(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn as_a_ring_would(steps in proptest::collection::vec((0_u8..4, 0_usize..5), 0..60)) {
            let (mut queue, mut ring) = (ShortQueue::default(), VecDeque::new());
            for (step, (kind, index)) in steps.into_iter().enumerate() {
                match kind {
                    0 => proptest::prop_assert_eq!(queue.pop_front(), ring.pop_front()),
                    1 => proptest::prop_assert_eq!(queue.remove(index), ring.remove(index)),
                    _ => {
                        queue.push_back(step);
                        ring.push_back(step);
                    }
                }
                proptest::prop_assert_eq!(queue.front_mut().copied(), ring.front().copied());
                proptest::prop_assert_eq!(queue.is_empty(), ring.is_empty());
                proptest::prop_assert!(queue.iter().eq(&ring));
            }
        }
    }
}
