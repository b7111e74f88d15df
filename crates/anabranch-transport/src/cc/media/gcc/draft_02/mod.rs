//! Google Congestion Control as its draft has it (draft-ietf-rmcat-gcc-02), with all computation at the
//! sender.
//!
//! A filter estimates how the one-way delay changes from one group of packets to the next (section 5.3); a
//! detector compares that with a threshold that adapts (section 5.4); the rate grows until there is over-use,
//! and falls to 0.85 of what arrives (section 5.5). A second control follows losses (section 6), and the
//! target is the lower of both.
//!
//! Known deviations: the target stays between `min_rate` and `max_rate`, as does the rate by losses; the loss
//! ratio is that of the last 200 ms or more, where the draft takes it from each receiver report.

mod delay;
mod rate;

use super::super::{Feedback, Limits, MediaControl};
use crate::time::{Duration, Time};
use crate::units::Rate;

use delay::{Detector, Filter, Groups};
use rate::DelayBased;

/// How often the rate follows losses (the draft's implementations, between receiver reports).
const LOSS_INTERVAL: Duration = Duration::from_millis(200);

/// Google Congestion Control of the draft.
#[derive(Debug)]
pub struct Draft02 {
    /// The least and the highest target in bit/s.
    bounds: [f64; 2],
    groups: Groups,
    filter: Filter,
    detector: Detector,
    by_delay: DelayBased,
    /// The rate by losses (As) in bit/s.
    by_loss: f64,
    /// Packets, and lost packets, since the rate has followed losses last.
    losses: (u64, u64),
    losses_since: Option<Time>,
}

impl Draft02 {
    pub(super) fn new(initial: f64, bounds: [f64; 2]) -> Self {
        Self {
            bounds,
            groups: Groups::default(),
            filter: Filter::default(),
            detector: Detector::default(),
            by_delay: DelayBased::new(initial),
            by_loss: initial,
            losses: (0, 0),
            losses_since: None,
        }
    }

    /// Section 6: below 2 % of losses the rate grows by 5 %, above 10 % it falls by half of their share.
    fn follow_losses(&mut self, now: Time) {
        let since = *self.losses_since.get_or_insert(now);
        if now.saturating_since(since) < LOSS_INTERVAL {
            return;
        }
        let (packets, lost) = std::mem::take(&mut self.losses);
        self.losses_since = Some(now);
        if packets == 0 {
            return;
        }
        let share = lost as f64 / packets as f64;
        if share > 0.1 {
            self.by_loss *= 1.0 - 0.5 * share;
        } else if share < 0.02 {
            self.by_loss *= 1.05;
        }
        self.by_loss = self.by_loss.clamp(self.bounds[0], self.bounds[1]);
    }
}

impl MediaControl for Draft02 {
    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        for packet in feedback.packets {
            self.losses.0 += 1;
            let Some((arrival, _)) = packet.arrival else {
                self.losses.1 += 1;
                continue;
            };
            self.by_delay.on_arrival(arrival, packet.size);
            if let Some(change) = self.groups.on_arrival(packet.sent, arrival) {
                let gradient = self.filter.update(&change);
                let signal = self.detector.update(&change, gradient);
                self.by_delay.on_signal(signal);
            }
        }
        self.by_delay.update(feedback.now, feedback.rtt, self.bounds);
        self.follow_losses(feedback.now);
    }

    fn limits(&self) -> Limits {
        let target = self.by_delay.target().min(self.by_loss).clamp(self.bounds[0], self.bounds[1]);
        Limits::paced(Rate::from_bits_per_sec(target as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::PacketReport;
    use super::*;
    use crate::flow::Ecn;

    /// Reports of a hundred packets, sent one each 10 ms from `start` ms on and arriving `spacing` ms apart
    /// after `behind` ms; the first `lost` are lost.
    fn packets(start: u64, behind: u64, spacing: u64, lost: u64) -> Vec<PacketReport> {
        let report = |number: u64| {
            let at = Time::from_millis(start + behind + spacing * number);
            let arrival = (number >= lost).then_some((at, Ecn::NotEct));
            PacketReport { sent: Time::from_millis(start + 10 * number), size: 1_250, arrival }
        };
        (0..100).map(report).collect()
    }

    /// A control at 1 Mbit/s, and a second of reports.
    fn report(gcc: &mut Draft02, second: u64, packets: &[PacketReport]) -> f64 {
        let (now, rtt) = (Time::from_millis(1_000 * second + 1_100), Duration::from_millis(100));
        gcc.on_feedback(&Feedback { now, rtt, packets });
        gcc.limits().target.bits_per_sec() as f64
    }

    fn gcc() -> Draft02 {
        Draft02::new(1e6, [150e3, 1.5e6])
    }

    #[test]
    fn the_target_grows_by_8_percent_a_second() {
        let mut gcc = gcc();
        let targets: Vec<f64> =
            (0..4).map(|second| report(&mut gcc, second, &packets(1_000 * second, 50, 10, 0))).collect();
        assert_eq!(targets[0], 1_000_000.0);
        // The rate by losses, 5 % for each feedback, is the lower one.
        assert!((gcc.by_delay.target() / 1e6 - 1.259_712).abs() < 1e-3);
        assert!((targets[3] / 1e6 - 1.157_625).abs() < 1e-3, "{targets:?}");
    }

    #[test]
    fn over_use_lowers_the_target_to_85_percent_of_what_arrives() {
        let mut gcc = gcc();
        report(&mut gcc, 0, &packets(0, 50, 10, 0));
        // Only 400 kbit/s arrive: the delay grows by 15 ms from each packet to the next, which the filter
        // sees after a second.
        let behind = |second: u64| 50 + 1_500 * (second - 1);
        let targets: Vec<f64> =
            (1..5).map(|s| report(&mut gcc, s, &packets(1_000 * s, behind(s), 25, 0))).collect();
        assert!(targets[0] >= 1_000_000.0 && (targets[3] - 0.85 * 400_000.0).abs() < 1_000.0, "{targets:?}");
    }

    #[test]
    fn losses_above_10_percent_lower_the_target_and_some_hold_it() {
        for (lost, factor) in [(1, 1.05), (10, 1.0), (40, 0.9)] {
            let mut gcc = gcc();
            report(&mut gcc, 0, &packets(0, 50, 10, 0));
            report(&mut gcc, 1, &packets(1_000, 50, 10, lost));
            // Of two hundred packets: a first feedback begins the interval.
            assert!((gcc.by_loss / 1e6 - factor).abs() < 1e-9, "{lost} of 200");
        }
    }
}
