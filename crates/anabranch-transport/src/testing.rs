//! What the tests of several transports stand on: one direction of a network, and what two ends say over it.

#[path = "../tests/support/pair.rs"]
mod pair;

use proptest::prelude::*;

use crate as engine;
pub(crate) use pair::{Pair, Tested, Wire, drain};

use crate::time::Duration;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn wire() -> impl Strategy<Value = Wire> {
    (
        1..100_u64,
        prop_oneof![Just(0.0), 0.0..0.3],
        prop_oneof![Just(0.0), 0.0..0.3],
        prop_oneof![Just(0), 0..80_u64],
        prop_oneof![Just(0.0), 0.0..0.5],
    )
        .prop_map(|(delay, loss, duplication, jitter, marks)| Wire {
            delay: ms(delay),
            jitter: ms(jitter),
            loss,
            duplication,
            marks,
            ..Wire::default()
        })
}

/// What an end writes, and how long it waits after that; then when it stops and resumes reading.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) writes: Vec<(u32, u64)>,
    pub(crate) pauses: Vec<u64>,
}

pub(crate) fn talk() -> impl Strategy<Value = Talk> {
    let size = prop_oneof![1..200_u32, 1..5_000_u32, 1..60_000_u32];
    let pause = prop_oneof![Just(0), 0..300_u64];
    (proptest::collection::vec((size, pause), 0..8), proptest::collection::vec(1..400_u64, 0..5))
        .prop_map(|(writes, pauses)| Talk { writes, pauses })
}

pub(crate) fn total(talk: &Talk) -> u64 {
    talk.writes.iter().map(|&(length, _)| u64::from(length)).sum()
}
