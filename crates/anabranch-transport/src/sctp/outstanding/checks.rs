//! What is known by path and by TSN, beside a new search.

use super::{Flight, Outstanding, Sent, SentState};
use crate::flow::PathId;
use crate::sctp::tsn;

impl Outstanding {
    /// Checks that what is known by path and by TSN matches a new search.
    pub(in crate::sctp) fn check_positions(&self) {
        for (index, &lost) in self.lost_on.iter().enumerate() {
            let is_lost = |chunk: &&Sent| chunk.path.index() == index && chunk.state == SentState::Lost;
            assert_eq!(lost as usize, self.chunks.iter().filter(is_lost).count(), "path {index}");
            let first = self.chunks.iter().position(|chunk| is_lost(&chunk)).map(|at| self.tsn(at));
            assert!(
                first.is_none_or(|first| tsn::at_or_before(self.lost_on_from[index], first)),
                "path {index}"
            );
            let in_flight = |is_it: &dyn Fn(&Sent) -> bool| -> Vec<u32> {
                let own = self.chunks.iter().enumerate().filter(|(_, chunk)| {
                    chunk.state == SentState::InFlight && chunk.path.index() == index && is_it(chunk)
                });
                own.map(|(at, _)| self.tsn(at)).collect()
            };
            for flight in [Flight::Once, Flight::Again, Flight::AfterFastRetransmit] {
                let Some(noted) = self.in_flight.get(index).map(|own| &own[flight as usize]) else { break };
                assert!(
                    noted.iter().is_sorted_by(|&&one, &&other| tsn::before(one, other)),
                    "path {index}, {flight:?}"
                );
                let own = in_flight(&|chunk| chunk.flight() == flight);
                assert!(own.iter().all(|tsn| noted.contains(tsn)), "path {index}, {flight:?}");
            }
            for (is_again, from) in [false, true].into_iter().zip(self.in_flight_from[index]) {
                let own = in_flight(&|chunk| chunk.is_again() == is_again);
                let is_passed = own.first().is_some_and(|&first| tsn::before(first, from));
                assert!(!is_passed || !self.in_flight.is_empty(), "path {index}");
            }
        }
        for index in 0..self.in_windows.len() {
            let is_acked = |chunk: &Sent| matches!(chunk.state, SentState::Acked | SentState::Final);
            let last = self.chunks.iter().rposition(|chunk| is_acked(chunk) && chunk.path.index() == index);
            assert_eq!(self.last_gap_acked(PathId(index as u8)), last.map(|at| self.tsn(at)), "path {index}");
        }
        if self.in_flight.is_empty() {
            let mut before = self.chunks.iter().take(self.index(self.reportable_from()));
            assert!(!before.any(Sent::is_reportable), "a chunk is passed over");
        }
    }
}
