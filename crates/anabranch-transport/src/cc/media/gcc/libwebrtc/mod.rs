//! Google Congestion Control as libwebrtc has it (`modules/congestion_controller/goog_cc`, with the defaults
//! of its field trials).
//!
//! The trend of the delay and a rate that it bounds, a rate by losses, and probes, which are short bursts at
//! a higher rate. Source files are named at each part. They were read in JumpingYang001/webrtc (a mirror of
//! 2025; of the rate by losses, commit 068e6ba) and, as far as it lacks them, in str0m 0.23.1, which follows
//! the revision 2bc24d4 of January 2026.
//!
//! Known deviations:
//! - The round trip of the rate by delay is the mean of the longest ones of the last 32 reports, as with
//!   feedback about packets alone (`packet_feedback_only_`).
//! - A probe is padded with packets of media that were sent last, which libwebrtc prefers too; it never pads
//!   with zeros. One that follows another within a second does not wait for media. Its packets leave one by
//!   one at the probe's rate, not in pieces of 2 ms.
//! - Until the rate by losses has three observations the delay alone decides; libwebrtc then has an older
//!   rate by losses, from the second second on.
//! - There is no estimate of the network's state, no window, and no receiver's limit (REMB). The target has
//!   no padding while losses limit it.

mod aimd;
mod alr;
mod cluster;
mod loss;
mod probing;
mod throughput;
mod trendline;

use std::collections::VecDeque;

use super::super::{Feedback, Limits, MediaControl, PacketReport};
use super::Signal;
use crate::time::{Duration, Time};
use crate::units::Rate;

use aimd::Aimd;
use alr::Alr;
use cluster::Clusters;
use loss::{LossBased, LossState};
use probing::{Cause, Probing};
use throughput::Throughput;
use trendline::{Groups, Trendline};

/// `kDefaultPaceMultiplier`.
const PACING: f64 = 2.5;
/// `OnProcessInterval` is called so often (`GoogCcNetworkControllerFactory::GetProcessInterval`), and by ours
/// until nothing has been sent for as long as the second time.
const INTERVAL: Duration = Duration::from_millis(25);
const IDLE: Duration = Duration::from_secs(10);
/// `kStreamTimeOut`: after so long without a report the trend begins anew.
const STREAM_TIMEOUT: Duration = Duration::from_secs(2);
/// `kStartPhase`, and `kLossUpdateInterval`.
const START: Duration = Duration::from_secs(2);
const LOSS_INTERVAL: Duration = Duration::from_secs(1);
/// `kMaxFeedbackRttWindow`.
const RTTS: usize = 32;
/// `WebRTC-Bwe-MaxRttLimit`: above this round trip the rate falls to 0.8 each second, down to 5 kbit/s.
const MAX_RTT: Duration = Duration::from_secs(3);
const RTT_DROP: f64 = 0.8;
const RTT_DROP_INTERVAL: Duration = Duration::from_secs(1);

/// Google Congestion Control of libwebrtc.
#[derive(Debug)]
pub struct Libwebrtc {
    bounds: [f64; 2],
    groups: Groups,
    trendline: Trendline,
    aimd: Aimd,
    throughput: Throughput,
    alr: Alr,
    by_loss: LossBased,
    probing: Probing,
    clusters: Clusters,
    /// The target in bit/s (`current_target_`).
    target: f64,
    /// The rate by delay as a limit, from the first one on.
    by_delay: Option<f64>,
    rtts: VecDeque<Duration>,
    last_sent: Option<Time>,
    last_report: Option<Time>,
    /// The last round trip without the receiver's delay, and when it was known.
    propagation: Option<(Time, Duration)>,
    rtt_dropped: Option<Time>,
    /// Since when there are reports about losses, and whether any was lost then.
    losses_since: Option<Time>,
    losses_due: Time,
    losses: (u64, u64),
    /// Whether the last report about 20 packets and more had losses.
    has_losses: Option<bool>,
    processed: Time,
}

impl Libwebrtc {
    pub(super) fn new(initial: f64, bounds: [f64; 2]) -> Self {
        Self {
            bounds,
            groups: Groups::default(),
            trendline: Trendline::default(),
            aimd: Aimd::new(initial, bounds[0]),
            throughput: Throughput::default(),
            alr: Alr::new(initial),
            by_loss: LossBased::new(bounds),
            probing: Probing::new(initial, bounds[1]),
            clusters: Clusters::default(),
            target: initial,
            by_delay: None,
            rtts: VecDeque::with_capacity(RTTS),
            last_sent: None,
            last_report: None,
            propagation: None,
            rtt_dropped: None,
            losses_since: None,
            losses_due: Time::ZERO,
            losses: (0, 0),
            has_losses: None,
            processed: Time::ZERO,
        }
    }

    /// `DelayBasedBwe`: follows the reports and a probe's result. Returns whether the rate is a probe's, or
    /// `None` if nothing changed; and whether the delay has come down after over-use.
    fn follow_delay(
        &mut self,
        feedback: &Feedback<'_>,
        arrived: &[PacketReport],
        probe: Option<f64>,
    ) -> (Option<bool>, bool) {
        let now = feedback.now;
        let is_stale = |last: Time| now.saturating_since(last) > STREAM_TIMEOUT;
        if self.last_report.replace(now).is_none_or(is_stale) {
            (self.groups, self.trendline) = (Groups::default(), Trendline::default());
        }
        let mut has_recovered = false;
        let mut before = self.trendline.usage();
        for packet in arrived {
            let Some((arrival, _)) = packet.arrival else { continue };
            if let Some(delta) = self.groups.on_packet(packet.sent, arrival, now) {
                self.trendline.update(&delta, arrival);
            }
            has_recovered |= before == Signal::UnderUse && self.trendline.usage() == Signal::Normal;
            before = self.trendline.usage();
        }
        let (usage, throughput) = (self.trendline.usage(), self.throughput.rate());
        match (usage, throughput, probe) {
            (Signal::OverUse, Some(rate), _) if self.aimd.may_reduce(now, rate) => {
                self.aimd.update(now, usage, throughput);
                (Some(false), false)
            }
            // Before anything is known of what arrives, the rate is halved.
            (Signal::OverUse, None, _) if self.aimd.may_reduce(now, self.aimd.rate() / 2.0 - 1.0) => {
                self.aimd.set_rate(now, self.aimd.rate() / 2.0);
                (Some(false), false)
            }
            (Signal::OverUse, ..) => (None, false),
            (_, _, Some(rate)) => {
                self.aimd.set_rate(now, rate);
                (Some(true), false)
            }
            _ => {
                self.aimd.update(now, usage, throughput);
                (Some(false), has_recovered)
            }
        }
    }

    /// `UpdatePacketsLost`, once a second.
    fn count_losses(&mut self, feedback: &Feedback<'_>) {
        let lost = feedback.packets.iter().filter(|packet| packet.arrival.is_none()).count();
        self.losses.0 += feedback.packets.len() as u64;
        self.losses.1 += lost as u64;
        if feedback.now <= self.losses_due {
            return;
        }
        self.losses_due = feedback.now + LOSS_INTERVAL;
        self.losses_since = self.losses_since.or(Some(feedback.now));
        // `kLimitNumPackets`: a share of fewer packets says little.
        if self.losses.0 >= 20 {
            // In 256ths, rounded down.
            self.has_losses = Some((self.losses.1 << 8) / self.losses.0 > 0);
            self.losses = (0, 0);
        }
    }

    /// `SendSideBandwidthEstimation::UpdateEstimate`.
    fn follow_limits(&mut self, now: Time) {
        if self.is_rtt_too_long(now) {
            if self.rtt_dropped.is_none_or(|last| now.saturating_since(last) >= RTT_DROP_INTERVAL) {
                self.rtt_dropped = Some(now);
                self.set_target(self.target * RTT_DROP);
            }
            return;
        }
        let by_loss = self.by_loss.result();
        let is_start = self.losses_since.is_none_or(|first| now.saturating_since(first) < START);
        let rate = match by_loss {
            Some((rate, _)) if self.has_losses.is_some() => rate,
            // Without losses the first seconds trust the delay, and the probes.
            None if is_start && self.has_losses != Some(true) => {
                self.target.max(self.by_delay.unwrap_or(0.0))
            }
            _ => self.target,
        };
        self.set_target(rate);
    }

    /// `RttBasedBackoff`: the round trip, with the time for which reports are missing while packets are sent.
    fn is_rtt_too_long(&self, now: Time) -> bool {
        self.propagation.is_some_and(|(at, rtt)| {
            let without_report = now.saturating_since(at);
            let without_packet = self.last_sent.map_or(Duration::ZERO, |last| now.saturating_since(last));
            rtt + without_report.saturating_sub(without_packet) > MAX_RTT
        })
    }

    fn set_target(&mut self, rate: f64) {
        let most = self.by_delay.unwrap_or(f64::INFINITY).min(self.bounds[1]);
        self.target = rate.min(most).max(self.bounds[0]);
    }

    /// `MaybeTriggerOnNetworkChanged`.
    fn pass_on(&mut self, now: Time) {
        self.alr.set_target(self.target);
        let cause = match (self.trendline.usage(), self.by_loss.result()) {
            (Signal::OverUse | Signal::UnderUse, _) => Cause::Congestion,
            _ if self.is_rtt_too_long(now) => Cause::Congestion,
            (_, Some((_, LossState::Decreasing))) => Cause::Congestion,
            (_, Some((_, LossState::Increasing))) => Cause::LossIncreasing,
            _ => Cause::Delay,
        };
        let probes = self.probing.set_estimate(now, self.target, cause);
        self.clusters.request(now, &probes);
    }
}

impl MediaControl for Libwebrtc {
    fn on_sent(&mut self, now: Time, size: u32) {
        if self.last_sent.replace(now).is_none() {
            self.propagation = Some((now, Duration::ZERO));
            self.processed = now;
            let probes = self.probing.begin(now);
            self.clusters.request(now, &probes);
        }
        self.alr.on_sent(now, size);
        self.clusters.on_sent(now, size);
    }

    /// `OnTransportPacketsFeedback`.
    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        let now = feedback.now;
        let mut arrived: Vec<PacketReport> =
            feedback.packets.iter().filter(|packet| packet.arrival.is_some()).copied().collect();
        arrived.sort_by_key(|packet| packet.arrival.map(|(at, _)| at));
        if arrived.is_empty() {
            return;
        }
        let longest = arrived.iter().map(|packet| now.saturating_since(packet.sent)).max();
        if self.rtts.len() == RTTS {
            self.rtts.pop_front();
        }
        self.rtts.extend(longest);
        let sum: u64 = self.rtts.iter().map(|rtt| rtt.as_nanos()).sum();
        self.aimd.set_rtt(Duration::from_nanos(sum / self.rtts.len() as u64));
        self.propagation = Some((now, feedback.rtt));
        self.count_losses(feedback);
        let since = self.alr.since();
        self.probing.set_alr(now, since);
        for packet in &arrived {
            if let Some((arrival, _)) = packet.arrival {
                self.throughput.on_packet(packet.sent, arrival, packet.size);
            }
        }
        if let Some(rate) = self.throughput.rate() {
            self.by_loss.set_throughput(rate);
        }
        let probe = self.clusters.on_arrivals(arrived.iter());
        let (change, has_recovered) = self.follow_delay(feedback, &arrived, probe);
        if let Some(is_probe) = change {
            let rate = self.aimd.rate();
            if is_probe {
                self.by_delay = None;
                self.set_target(rate);
            }
            self.by_delay = Some(rate);
            self.set_target(self.target);
        }
        let by_delay = self.by_delay.unwrap_or(f64::INFINITY);
        self.by_loss.update(feedback.packets, by_delay, since.is_some());
        self.follow_limits(now);
        if change.is_some() {
            self.pass_on(now);
        }
        if has_recovered {
            let probes = self.probing.on_recovered(now);
            self.clusters.request(now, &probes);
        }
    }

    fn timeout(&self) -> Time {
        match self.last_sent {
            Some(last) if self.processed < last + IDLE => self.processed + INTERVAL,
            _ => Time::NEVER,
        }
    }

    /// `OnProcessInterval`.
    fn on_timeout(&mut self, now: Time) {
        self.processed = now;
        let before = self.target;
        self.follow_limits(now);
        self.probing.set_alr(now, self.alr.since());
        let probes = self.probing.on_timeout(now);
        self.clusters.request(now, &probes);
        if self.target != before {
            self.pass_on(now);
        }
    }

    /// A probe leaves at its rate; else the pace is two and a half times the target.
    fn limits(&self) -> Limits {
        let rate = |bits: f64| Rate::from_bits_per_sec(bits as u64);
        let probe = self.clusters.rate();
        let pacing = rate(probe.unwrap_or(PACING * self.target));
        Limits { target: rate(self.target), pacing, window: u64::MAX, pads: probe.is_some() }
    }
}

#[cfg(test)]
mod tests;
