//! Validation of ECN on a path (RFC 9000 section 13.4.2).

use super::sent_packets::Sent;
use crate::flow::Ecn;

/// Whether marks pass the path.
#[derive(Debug)]
pub(super) struct EcnValidation {
    /// What packets are marked with as long as the path proves to pass marks.
    mark: Ecn,
    has_failed: bool,
    /// Packets sent with ECT so far.
    sent: u64,
    /// The counts that the peer has reported last: ECT(0), ECT(1) and CE.
    reported: [u64; 3],
}

impl EcnValidation {
    pub(super) const fn new(mark: Ecn) -> Self {
        Self { mark, has_failed: false, sent: 0, reported: [0; 3] }
    }

    /// The mark of the next packet.
    pub(super) const fn mark(&self) -> Ecn {
        if self.has_failed { Ecn::NotEct } else { self.mark }
    }

    pub(super) fn on_sent(&mut self, mark: Ecn) {
        self.sent += u64::from(mark != Ecn::NotEct);
    }

    /// An ACK frame has newly acknowledged these packets, the largest number among them if `is_newest`.
    /// Returns how many more packets than before were marked with CE.
    pub(super) fn on_ack(&mut self, counts: Option<[u64; 3]>, acknowledged: &[Sent], is_newest: bool) -> u64 {
        let marked = acknowledged.iter().filter(|packet| packet.ecn != Ecn::NotEct).count() as u64;
        if self.has_failed || self.mark == Ecn::NotEct {
            return 0;
        }
        let Some(counts) = counts else {
            // Counts that are missing say that the peer, or the path, does not pass marks.
            self.has_failed |= marked > 0;
            return 0;
        };
        if !is_newest {
            // Section 13.4.2.1: reordered ACK frames have counts that are behind.
            return 0;
        }
        let growth: [u64; 3] = std::array::from_fn(|kind| counts[kind].saturating_sub(self.reported[kind]));
        let (own, other) = if self.mark == Ecn::Ect1 { (1, 0) } else { (0, 1) };
        let goes_back = counts.iter().zip(self.reported).any(|(new, old)| *new < old);
        let is_short = growth[own] + growth[2] < marked;
        let is_too_much = counts[0] + counts[1] + counts[2] > self.sent;
        if goes_back || is_short || is_too_much || counts[other] > 0 {
            self.has_failed = true;
            return 0;
        }
        self.reported = counts;
        growth[2]
    }

    /// A path whose first packets with marks are all lost has lost them because of the marks, perhaps.
    #[cfg(test)]
    pub(super) const fn has_failed(&self) -> bool {
        self.has_failed
    }
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::*;
    use crate::recovery::rate_sample::RateMark;
    use crate::time::Time;

    fn packets(count: u64) -> Vec<Sent> {
        (0..count)
            .map(|number| Sent {
                number,
                at: Time::ZERO,
                size: 1_200,
                elicits_ack: true,
                ecn: Ecn::Ect0,
                end: 0,
                rate: RateMark::default(),
                contents: SmallVec::new(),
            })
            .collect()
    }

    /// RFC 9000 section 13.4.2.1, sentence by sentence.
    #[test]
    fn a_path_that_damages_marks_is_found_out() {
        for (counts, fails) in [
            (Some([2, 0, 0]), false),
            (Some([1, 0, 1]), false),
            (None, true),
            (Some([1, 0, 0]), true),
            (Some([2, 1, 0]), true),
            (Some([4, 0, 0]), true),
        ] {
            let mut ecn = EcnValidation::new(Ecn::Ect0);
            (0..3).for_each(|_| ecn.on_sent(ecn.mark()));
            let marked = ecn.on_ack(counts, &packets(2), true);
            assert_eq!(ecn.has_failed(), fails, "{counts:?}");
            assert_eq!(marked, if fails { 0 } else { counts.unwrap()[2] });
            assert_eq!(ecn.mark() == Ecn::NotEct, fails);
        }
        let mut ecn = EcnValidation::new(Ecn::Ect0);
        (0..4).for_each(|_| ecn.on_sent(ecn.mark()));
        ecn.on_ack(Some([2, 0, 1]), &packets(3), true);
        assert_eq!(ecn.on_ack(Some([2, 0, 0]), &packets(1), false), 0, "a reordered one");
        assert!(!ecn.has_failed());
        ecn.on_ack(Some([2, 0, 0]), &packets(0), true);
        assert!(ecn.has_failed(), "counts do not go back");
    }
}
