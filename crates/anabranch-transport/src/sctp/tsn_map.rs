//! Values by TSN, in pages, so that the neighbours of a TSN are found without a search.

use std::array;
use std::collections::{BTreeMap, VecDeque};

/// The TSNs of a page: few, since a peer may send fragments that are far from each other, each in a page of
/// its own.
const PAGE: u64 = 4;

/// At most this many empty pages are kept: as many as the fragments of a message of 64 KiB leave.
const SPARE_PAGES: usize = 12;

/// At most this many pages lie between the first one and the last, as each costs a pointer: those of all TSNs
/// of which a SACK can tell.
const MOST_PAGES: u64 = (1 << 16) / PAGE;

/// Values by TSN. They are meant to lie close together.
#[derive(Debug)]
pub(super) struct TsnMap<T> {
    /// The pages from the number `first_page` on; the first and the last one have a value.
    pages: VecDeque<Option<Box<Page<T>>>>,
    first_page: u64,
    /// Values that are too far from those in pages: a peer may leave a fragment alone for as long as it
    /// likes.
    far: BTreeMap<u64, T>,
    /// Empty pages, to be used again.
    spare: Vec<Box<Page<T>>>,
}

#[derive(Debug)]
struct Page<T> {
    values: [Option<T>; PAGE as usize],
    count: u32,
}

impl<T> Default for TsnMap<T> {
    fn default() -> Self {
        Self { pages: VecDeque::new(), first_page: 0, far: BTreeMap::new(), spare: Vec::new() }
    }
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { values: array::from_fn(|_| None), count: 0 }
    }
}

impl<T> TsnMap<T> {
    /// The value of a TSN.
    #[inline]
    pub(super) fn get(&self, tsn: u64) -> Option<&T> {
        match self.pages.get((tsn / PAGE).wrapping_sub(self.first_page) as usize) {
            Some(Some(page)) => page.values[(tsn % PAGE) as usize].as_ref().or_else(|| self.get_far(tsn)),
            _ => self.get_far(tsn),
        }
    }

    /// The value of a TSN, to be changed.
    pub(super) fn get_mut(&mut self, tsn: u64) -> Option<&mut T> {
        let page = self.pages.get_mut((tsn / PAGE).wrapping_sub(self.first_page) as usize);
        let near = page.and_then(|page| page.as_mut()?.values[(tsn % PAGE) as usize].as_mut());
        if near.is_some() { near } else { self.far.get_mut(&tsn) }
    }

    #[inline]
    fn get_far(&self, tsn: u64) -> Option<&T> {
        if self.far.is_empty() { None } else { self.far.get(&tsn) }
    }

    /// Gives a TSN that has none a value.
    #[inline]
    pub(super) fn insert(&mut self, tsn: u64, value: T) {
        let number = tsn / PAGE;
        let last_page = self.first_page + self.pages.len() as u64;
        if !self.pages.is_empty() && last_page.max(number + 1) - self.first_page.min(number) > MOST_PAGES {
            self.far.insert(tsn, value);
            return;
        }
        let page = self.page(number);
        page.count += 1;
        page.values[(tsn % PAGE) as usize] = Some(value);
    }

    /// The page with this number, which is added where there is none.
    #[inline]
    fn page(&mut self, number: u64) -> &mut Page<T> {
        if self.pages.is_empty() {
            self.first_page = number;
        }
        while number < self.first_page {
            self.pages.push_front(None);
            self.first_page -= 1;
        }
        let index = (number - self.first_page) as usize;
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, || None);
        }
        let spare = &mut self.spare;
        self.pages[index].get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// Takes out the value of a TSN.
    #[inline]
    pub(super) fn remove(&mut self, tsn: u64) -> Option<T> {
        let index = (tsn / PAGE).wrapping_sub(self.first_page) as usize;
        if let Some(Some(page)) = self.pages.get_mut(index)
            && let Some(value) = page.values[(tsn % PAGE) as usize].take()
        {
            page.count -= 1;
            if page.count == 0 {
                self.remove_page(index);
            }
            return Some(value);
        }
        if self.far.is_empty() { None } else { self.far.remove(&tsn) }
    }

    fn remove_page(&mut self, index: usize) {
        if let Some(page) = self.pages[index].take()
            && self.spare.len() < SPARE_PAGES
        {
            self.spare.push(page);
        }
        while let Some(None) = self.pages.front() {
            self.pages.pop_front();
            self.first_page += 1;
        }
        while let Some(None) = self.pages.back() {
            self.pages.pop_back();
        }
    }

    /// The first TSN and its value.
    pub(super) fn first(&self) -> Option<(u64, &T)> {
        let far = self.far.first_key_value().map(|(tsn, value)| (*tsn, value));
        self.near().next().into_iter().chain(far).min_by_key(|(tsn, _)| *tsn)
    }

    /// The TSNs and their values, those in pages in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.near().chain(self.far.iter().map(|(tsn, value)| (*tsn, value)))
    }

    fn near(&self) -> impl Iterator<Item = (u64, &T)> {
        let numbered = (self.first_page..).zip(&self.pages);
        numbered.filter_map(|(number, page)| Some((number, page.as_deref()?))).flat_map(|(number, page)| {
            (number * PAGE..).zip(&page.values).filter_map(|(tsn, value)| Some((tsn, value.as_ref()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    proptest::proptest! {
        #[test]
        fn as_a_tree_would(
            steps in proptest::collection::vec(
                (0_u64..400, proptest::sample::select(vec![0, 0, 0, 65_000, 1 << 20, 1 << 30]), proptest::bool::ANY),
                0..200,
            )
        ) {
            let (mut map, mut model) = (TsnMap::default(), BTreeMap::new());
            for (step, (tsn, distance, is_new)) in steps.into_iter().enumerate() {
                let tsn = (1 << 32) + tsn + distance;
                if is_new && !model.contains_key(&tsn) {
                    map.insert(tsn, step);
                    model.insert(tsn, step);
                } else {
                    proptest::prop_assert_eq!(map.remove(tsn), model.remove(&tsn));
                }
                proptest::prop_assert_eq!(map.get(tsn), model.get(&tsn));
                let first = model.first_key_value().map(|(tsn, value)| (*tsn, value));
                proptest::prop_assert_eq!(map.first(), first);
                let mut all: Vec<_> = map.iter().map(|(tsn, value)| (tsn, *value)).collect();
                all.sort_unstable();
                proptest::prop_assert_eq!(all, model.iter().map(|(a, b)| (*a, *b)).collect::<Vec<_>>());
                let ends = [map.pages.front(), map.pages.back()];
                proptest::prop_assert!(ends.into_iter().flatten().all(Option::is_some), "an empty page is kept");
                proptest::prop_assert!(map.pages.len() as u64 <= MOST_PAGES);
            }
        }
    }
}
