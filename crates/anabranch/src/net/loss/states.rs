//! The states that a loss chain of a traced link goes through.

use anabranch_transport::time::Time;

use super::Loss;
use super::gilbert::Gilbert;

/// A change of a chain: from `time` on, it is in its bad state or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossState {
    /// When the change was.
    pub time: Time,
    /// Whether the new state is the bad one.
    pub is_bad: bool,
}

/// The states of a chain that have been seen. The chain is only observed: its draws are the same as on a link
/// that is not traced.
#[derive(Clone, Debug)]
pub(crate) struct LossStates {
    seen: Vec<LossState>,
    /// For a chain that changes with time alone: a copy of it from the beginning, since packets ask the chain
    /// too seldom to see all of its states.
    twin: Option<Box<Gilbert>>,
}

impl LossStates {
    /// At most this many changes are gathered, which is more than a picture can show.
    const MOST: usize = 1_000_000;

    /// What has been seen of a process; [`None`] if the process has no states.
    pub(crate) fn watch(process: &Loss) -> Option<Self> {
        let Loss::Gilbert(chain) = process else { return None };
        Some(Self { seen: Vec::new(), twin: chain.runs_by_itself().then(|| chain.clone()) })
    }

    /// Notes that a packet has just asked the process, at `now`.
    pub(crate) fn record(&mut self, now: Time, process: &Loss) {
        let Loss::Gilbert(chain) = process else { return };
        let is_bad = chain.is_bad();
        let was_bad = self.seen.last().is_some_and(|last| last.is_bad);
        if self.twin.is_none() && is_bad != was_bad && self.seen.len() < Self::MOST {
            self.seen.push(LossState { time: now, is_bad });
        }
    }

    /// All changes up to `end`.
    pub(crate) fn take(&mut self, end: Time) -> Vec<LossState> {
        let mut seen = std::mem::take(&mut self.seen);
        if let Some(mut twin) = self.twin.take() {
            while seen.len() < Self::MOST
                && let Some(at) = twin.next_change(end.as_nanos())
            {
                seen.push(LossState { time: Time::from_nanos(at), is_bad: twin.is_bad() });
            }
        }
        seen.retain(|state| state.time <= end);
        seen
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.seen.capacity() * size_of::<LossState>()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;
    use anabranch_transport::time::Duration;
    use anabranch_transport::units::Probability;

    use super::super::{GilbertConfig, LossClock, LossConfig, LossModel as _};
    use super::*;
    use crate::schedule::Schedule;

    fn chain(clock: LossClock) -> Loss {
        let probability = |value| Some(Schedule::Constant(Probability::new(value).unwrap()));
        let (p, r) = (probability(0.1), probability(0.3));
        let config = LossConfig::Gilbert(GilbertConfig { clock, p, r, ..GilbertConfig::default() });
        config.build(Streams { seed: 1, replication: 0 }, "state", "packet", "loss").unwrap()
    }

    /// A chain that is asked every millisecond, five times per slot, loses packets as its states say.
    #[test]
    fn states_are_those_in_which_packets_are_lost() {
        for clock in [LossClock::Slot, LossClock::OnArrival, LossClock::Packet] {
            let mut process = chain(clock);
            let mut states = LossStates::watch(&process).unwrap();
            let times: Vec<Time> = (0..20_000).map(|ms| Time::ZERO + Duration::from_millis(ms)).collect();
            let lost: Vec<bool> = times
                .iter()
                .map(|&time| {
                    let is_lost = process.is_lost(time, 100);
                    states.record(time, &process);
                    is_lost
                })
                .collect();
            let seen = states.take(Time::from_secs(20));
            assert!(seen.len() > 100, "{clock:?}: {}", seen.len());
            for (time, lost) in times.into_iter().zip(lost) {
                let last = seen.iter().rev().find(|state| state.time <= time);
                assert_eq!(last.is_some_and(|state| state.is_bad), lost, "{clock:?} at {time}");
            }
        }
    }

    #[test]
    fn a_chain_by_time_is_followed_where_nobody_asks() {
        let mut states = LossStates::watch(&chain(LossClock::Slot)).unwrap();
        let seen = states.take(Time::from_secs(20));
        assert!(seen.len() > 100);
        assert!(seen.windows(2).all(|pair| pair[0].time < pair[1].time && pair[0].is_bad != pair[1].is_bad));
        assert!(LossStates::watch(&Loss::None).is_none());
    }
}
