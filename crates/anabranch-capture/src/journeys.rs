//! Packets that are seen at several places, as journeys: which sighting is of which packet that was sent.

use std::collections::{BTreeMap, VecDeque};

/// A packet that takes longer from one place to another, in s, is not told from the next that is equal.
const LONGEST_S: f64 = 60.0;

/// Of packets that are equal to the bit, the last ones of which one may be what comes elsewhere.
const MOST_EQUAL: usize = 256;

/// A packet as it is seen at a place.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// When.
    pub at_s: f64,
    /// What it has in common with other sightings of the same packet.
    pub identity: (i64, u64),
    /// Where.
    pub place: i64,
    /// Whether its direction is sent here.
    pub is_near: bool,
    /// It goes no further.
    pub is_dropped: bool,
}

struct Waiting {
    sighting: usize,
    sent_s: f64,
    places: Vec<i64>,
    is_dropped: bool,
}

/// For each sighting, in the order of time, that with which its packet was sent; [`None`] if there is none.
pub fn follow(sightings: &[Sighting]) -> Vec<Option<usize>> {
    let mut waiting: BTreeMap<(i64, u64), VecDeque<Waiting>> = BTreeMap::new();
    let mut found = Vec::with_capacity(sightings.len());
    for (index, seen) in sightings.iter().enumerate() {
        let equal = waiting.entry(seen.identity).or_default();
        if seen.is_near {
            if equal.len() == MOST_EQUAL {
                equal.pop_front();
            }
            let (sent_s, places, is_dropped) = (seen.at_s, vec![seen.place], seen.is_dropped);
            equal.push_back(Waiting { sighting: index, sent_s, places, is_dropped });
            if equal.front().is_some_and(|first| first.sent_s < seen.at_s - LONGEST_S) {
                equal.pop_front();
            }
            found.push(Some(index));
            continue;
        }
        // What is sent again may be the same to the bit: what arrives is the one sent last.
        let sent = equal.iter_mut().rev().find(|one| !one.is_dropped && !one.places.contains(&seen.place));
        found.push(sent.map(|sent| {
            sent.places.push(seen.place);
            sent.is_dropped |= seen.is_dropped;
            sent.sighting
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at_s: f64, place: i64, is_dropped: bool) -> Sighting {
        Sighting { at_s, identity: (0, 7), place, is_near: place == 0, is_dropped }
    }

    #[test]
    fn what_arrives_is_the_packet_sent_last_of_those_that_are_equal() {
        let all = [(0.0, 0, false), (1.0, 0, false), (1.5, 1, false), (1.6, 1, false), (1.7, 1, false)];
        let found = follow(&all.map(|(at_s, place, is_dropped)| seen(at_s, place, is_dropped)));
        assert_eq!(found, [Some(0), Some(1), Some(1), Some(0), None]);
    }

    #[test]
    fn what_was_dropped_or_is_too_old_does_not_arrive() {
        let found = follow(&[seen(0.0, 0, false), seen(0.1, 1, true), seen(0.2, 2, false)]);
        assert_eq!(found, [Some(0), Some(0), None]);
        let found = follow(&[seen(0.0, 0, false), seen(61.0, 0, true), seen(62.0, 1, false)]);
        assert_eq!(found, [Some(0), Some(1), None]);
    }

    #[test]
    fn many_equal_packets_cost_no_more_than_their_number() {
        let all: Vec<_> =
            (0..20_000).map(|at| seen(f64::from(at) * 1e-6, i64::from(at % 2), false)).collect();
        assert_eq!(follow(&all)[19_999], Some(19_998));
    }
}
