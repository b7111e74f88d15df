//! Google Congestion Control as libwebrtc has it (`modules/congestion_controller/goog_cc`, with the defaults
//! of its field trials).
//!
//! The trend of the delay and a rate that it bounds, a rate by losses, and probes, which are short bursts at
//! a higher rate. Source files are named at each part. All of them were read in webrtc-sdk/webrtc (commit
//! cd6792e, libwebrtc of April 2024, M125), and those with other rules since then in JumpingYang001/webrtc, a
//! mirror of 2025: `loss_based_bwe_v2.cc` (commit 068e6ba), `probe_controller.cc` (0467d2b) and
//! `goog_cc_network_control.cc` (6498208). Where the two differ, the later one is followed.
//!
//! Known deviations:
//! - The round trip of the rate by delay is that of each report on packets, without the time at the receiver;
//!   libwebrtc has that of RTCP's reports, about once a second. Losses of the start are counted in reports on
//!   packets once a second, as with feedback about packets alone (`packet_feedback_only_`).
//! - A probe is padded with packets of media that were sent last, which libwebrtc prefers too; it never pads
//!   with zeros.
//! - Until the rate by losses has three observations, the target follows the rate by delay in the first two
//!   seconds without losses, and then stays below it; libwebrtc then has an older rate by losses.
//! - There is no estimate of the network's state, no window, and no receiver's limit (REMB). The target has
//!   no padding while losses limit it (`GetPacingRates`, `kIncreaseUsingPadding`).
//! - The pace is the default of the control. In a call libwebrtc's video asks for 1.1 times the target
//!   (`kStrictPacingMultiplier` of `video_send_stream_impl.cc`), and its pacer lets what leaves in 40 ms go
//!   at once (`kDefaultBurstInterval`), so that most frames are sent in one piece.
//! - Times, rates and sizes are not rounded. libwebrtc has whole ms, and whole kbit/s in the capacity, in the
//!   bias of the rate by losses and in the budget of application-limited regions.
//! - `OnProcessInterval` is called from the first packet on, and not while nothing is sent for 10 s.

mod aimd;
mod alr;
mod cluster;
mod loss;
mod probing;
mod throughput;
mod trendline;

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
/// `WebRTC-Bwe-MaxRttLimit`: above this round trip the rate falls to 0.8 each second, down to 5 kbit/s.
const MAX_RTT: Duration = Duration::from_secs(3);
const RTT_DROP: f64 = 0.8;
const RTT_DROP_INTERVAL: Duration = Duration::from_secs(1);
const RTT_DROP_FLOOR: f64 = 5e3;
/// `kProbeDropThroughputFraction`.
const PROBE_DROP: f64 = 0.85;

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
    /// Whether losses limit the target.
    loss_state: LossState,
    /// Both as they were passed on last.
    passed: Option<(f64, LossState)>,
    /// The rate by delay as a limit, from the first one on.
    by_delay: Option<f64>,
    was_in_alr: bool,
    last_sent: Option<Time>,
    last_report: Option<Time>,
    /// The last round trip, and when it was known.
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
            loss_state: LossState::DelayBased,
            passed: None,
            by_delay: None,
            was_in_alr: false,
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
        now: Time,
        arrived: &[PacketReport],
        throughput: Option<f64>,
        probe: Option<f64>,
    ) -> (Option<bool>, bool) {
        if arrived.is_empty() {
            return (None, false);
        }
        // A reset ends under-use, too.
        let mut before = self.trendline.usage();
        let is_stale = |last: Time| now.saturating_since(last) > STREAM_TIMEOUT;
        if self.last_report.replace(now).is_none_or(is_stale) {
            (self.groups, self.trendline) = (Groups::default(), Trendline::default());
        }
        let mut has_recovered = false;
        for packet in arrived {
            let Some((arrival, _)) = packet.arrival else { continue };
            if let Some(delta) = self.groups.on_packet(packet.sent, arrival, now) {
                self.trendline.update(&delta, arrival);
            }
            has_recovered |= before == Signal::UnderUse && self.trendline.usage() == Signal::Normal;
            before = self.trendline.usage();
        }
        let usage = self.trendline.usage();
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

    /// A probe's result is no less than 0.85 of what arrives, unless the rate by delay was
    /// (`WebRTC-Bwe-LimitProbesLowerThanThroughputEstimate`, which is on by default).
    fn bounded(&self, probe: f64, throughput: Option<f64>) -> f64 {
        let least = throughput.map(|rate| self.by_delay.unwrap_or(0.0).min(PROBE_DROP * rate));
        probe.max(least.unwrap_or(0.0))
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

    /// The rate by delay has changed; that of a probe is the target at once (`SetSendBitrate`,
    /// `UpdateDelayBasedEstimate`).
    fn take_delay(&mut self, is_probe: bool) {
        let rate = self.aimd.rate();
        if is_probe {
            self.by_delay = None;
            self.set_target(rate);
        }
        self.by_delay = Some(rate);
        self.set_target(self.target);
    }

    /// `SendSideBandwidthEstimation::UpdateEstimate`.
    fn follow_limits(&mut self, now: Time) {
        if self.is_rtt_too_long(now) {
            let is_due = self.rtt_dropped.is_none_or(|last| now.saturating_since(last) >= RTT_DROP_INTERVAL);
            if is_due && self.target > RTT_DROP_FLOOR {
                self.rtt_dropped = Some(now);
                self.set_target((self.target * RTT_DROP).max(RTT_DROP_FLOOR));
            } else {
                self.set_target(self.target);
            }
            return;
        }
        let by_loss = self.by_loss.result();
        let is_start = self.losses_since.is_none_or(|first| now.saturating_since(first) < START);
        let rate = match by_loss {
            Some((rate, state)) if self.has_losses.is_some() => {
                self.loss_state = state;
                rate
            }
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
        self.passed = Some((self.target, self.loss_state));
        self.alr.set_target(self.target);
        // `GetBandwidthLimitedCause`: there is no probe while losses limit the rate, whether it falls or
        // grows.
        let is_even = self.trendline.usage() == Signal::Normal && !self.is_rtt_too_long(now);
        let cause = if is_even && self.loss_state == LossState::DelayBased {
            Cause::Delay
        } else {
            Cause::Congestion
        };
        let probes = self.probing.set_estimate(now, self.target, cause);
        self.clusters.request(now, &probes);
    }
}

/// The shortest round trip of a report, without the time until its last packet arrived
/// (`min_propagation_rtt`). The packets are in the order in which they arrived.
fn propagation_rtt(now: Time, arrived: &[PacketReport]) -> Option<Duration> {
    let (last, _) = arrived.last()?.arrival?;
    let rtt = |packet: &PacketReport| {
        let (at, _) = packet.arrival?;
        Some(now.saturating_since(packet.sent).saturating_sub(last.saturating_since(at)))
    };
    arrived.iter().filter_map(rtt).min()
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
        if feedback.packets.is_empty() {
            return;
        }
        let mut arrived: Vec<PacketReport> =
            feedback.packets.iter().filter(|packet| packet.arrival.is_some()).copied().collect();
        arrived.sort_by_key(|packet| packet.arrival.map(|(at, _)| at));
        if let Some(rtt) = propagation_rtt(now, &arrived) {
            self.propagation = Some((now, rtt));
            self.aimd.set_rtt(feedback.rtt);
        }
        self.count_losses(feedback);
        let since = self.alr.since();
        if std::mem::replace(&mut self.was_in_alr, since.is_some()) && since.is_none() {
            self.probing.on_alr_ended(now);
        }
        for packet in &arrived {
            if let Some((arrival, _)) = packet.arrival {
                self.throughput.on_packet(packet.sent, arrival, packet.size);
            }
        }
        let throughput = self.throughput.rate();
        if let Some(rate) = throughput {
            self.by_loss.set_throughput(rate);
        }
        let probe = self.clusters.on_arrivals(arrived.iter()).map(|rate| self.bounded(rate, throughput));
        let (change, has_recovered) = self.follow_delay(now, &arrived, throughput, probe);
        if let Some(is_probe) = change {
            self.take_delay(is_probe);
        }
        let by_delay = self.by_delay.unwrap_or(f64::INFINITY);
        self.by_loss.update(feedback.packets, by_delay, since.is_some());
        self.follow_limits(now);
        if change.is_some() {
            self.pass_on(now);
        }
        if has_recovered {
            self.probing.set_alr(since);
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
        self.follow_limits(now);
        self.probing.set_alr(self.alr.since());
        let probes = self.probing.on_timeout(now);
        self.clusters.request(now, &probes);
        if self.passed != Some((self.target, self.loss_state)) {
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
