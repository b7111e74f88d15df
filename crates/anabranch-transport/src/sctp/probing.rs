//! Carries out the requests of a path policy that measures: ticks, probes with new data, pairs of heartbeats
//! (`path`, [`Request`]). Nothing here runs for a policy that does not measure.

mod requests;

use crate::flow::{PathId, PathSet};
use crate::time::Time;
use crate::wire::sctp::chunk::PairMark;

/// The state that an endpoint keeps for a policy that measures.
#[derive(Debug)]
pub(super) struct Probing {
    /// When the policy wants its tick.
    pub(super) tick: Time,
    probe: Option<Probe>,
    /// The paths on which a fast recovery is going on.
    in_recovery: PathSet,
    /// By path: the answer to the first of a pair of heartbeats, until the second is answered.
    pairs: Vec<Option<FirstOfPair>>,
    pair_number: u32,
}

#[derive(Clone, Copy, Debug)]
struct FirstOfPair {
    mark: PairMark,
    sent_at: Time,
    answered_at: Time,
}

/// New data on its way as a probe.
#[derive(Debug)]
struct Probe {
    path: PathId,
    /// Bytes still to be sent.
    left: u32,
    bytes: u32,
    lost: u32,
    is_burst: bool,
    /// The TSNs of the probe that are not known to have arrived, in order.
    tsns: Vec<u32>,
}

impl Probing {
    fn new(paths: usize) -> Self {
        Self {
            tick: Time::NEVER,
            probe: None,
            in_recovery: PathSet::default(),
            pairs: vec![None; paths],
            pair_number: 0,
        }
    }

    /// Adds a path after the last one.
    pub(super) fn add_path(&mut self) {
        self.pairs.push(None);
    }
}
