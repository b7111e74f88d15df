//! A first-in-first-out queue of plain records that grows and never shrinks: no allocation in steady
//! state, and fewer instructions than `VecDeque` on the path of every packet.

/// A queue of records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring<T> {
    /// The slots; their number is 0 or a power of two.
    slots: Vec<T>,
    /// Position of the first record, modulo the number of slots.
    head: usize,
    /// Position after the last record, modulo the number of slots.
    tail: usize,
}

impl<T: Copy + Default> Ring<T> {
    const FIRST_SLOTS: usize = 8;

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<T>()
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.head = self.tail;
    }

    #[inline]
    fn index(&self, position: usize) -> usize {
        position & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        let index = self.index(self.head);
        if self.head == self.tail { None } else { self.slots.get_mut(index) }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) {
        debug_assert!(self.head != self.tail, "there is a record to remove");
        self.head = self.head.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn push_back(&mut self, record: T) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let index = self.index(self.tail);
        self.slots[index] = record;
        self.tail = self.tail.wrapping_add(1);
    }

    /// The records in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|offset| &self.slots[self.index(self.head.wrapping_add(offset))])
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots: Vec<T> = self.iter().copied().collect();
        let length = slots.len();
        slots.resize((length * 2).max(Self::FIRST_SLOTS), T::default());
        (self.slots, self.head, self.tail) = (slots, 0, length);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(operations in prop::collection::vec((0..8u8, any::<u32>()), 0..300)) {
            let mut ring = Ring::default();
            let mut model = VecDeque::new();
            for (operation, value) in operations {
                match operation {
                    0 if value % 16 == 0 => {
                        ring.clear();
                        model.clear();
                    }
                    0..3 if !model.is_empty() => {
                        ring.pop_front();
                        model.pop_front();
                    }
                    _ => {
                        ring.push_back(value);
                        model.push_back(value);
                    }
                }
                prop_assert_eq!(ring.front_mut(), model.front_mut());
                prop_assert_eq!(ring.len(), model.len());
                prop_assert!(ring.iter().eq(model.iter()));
            }
        }
    }
}
