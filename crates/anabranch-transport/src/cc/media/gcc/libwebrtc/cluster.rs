//! A probe on its way: which packets are of it (`bitrate_prober.cc`), and what they say
//! (`probe_bitrate_estimator.cc`).

use std::collections::VecDeque;

use super::super::super::{PacketReport, ms_between};
use crate::time::{Duration, Time};

/// `min_probe_packets_sent` and `min_probe_duration`.
const PACKETS: u32 = 5;
const LENGTH_S: f64 = 0.015;
/// A cluster that has not begun or ended by then is given up (`kProbeClusterTimeout`), and it is remembered
/// for as long after it has (`kMaxClusterHistory`).
const TIMEOUT: Duration = Duration::from_secs(5);
const REMEMBERED: Duration = Duration::from_secs(1);
/// `kMinClusterSize`, `kMinReceivedProbesRatio`, `kMinReceivedBytesRatio`.
const LEAST_PACKETS: u32 = 4;
const LEAST_RECEIVED: f64 = 0.8;
/// `kMaxProbeInterval`, `kMaxValidRatio`, `kMinRatioForUnsaturatedLink`, `kTargetUtilizationFraction`.
const LONGEST_MS: f64 = 1_000.0;
const MAX_RATIO: f64 = 2.0;
const UNSATURATED: f64 = 0.9;
const UTILIZATION: f64 = 0.95;

/// A probe.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    /// In bit/s.
    rate: f64,
    requested: Time,
    /// When its first and its last packet were sent.
    sent: Option<(Time, Time)>,
    sent_bits: f64,
    sent_packets: u32,
    is_over: bool,
    received: Received,
}

/// What has arrived of it.
#[derive(Clone, Copy, Debug, Default)]
struct Received {
    packets: u32,
    bits: f64,
    /// When the first and the last of them were sent, and the bits of that last one.
    sent: Option<(Time, Time, f64)>,
    /// When the first and the last of them arrived, and the bits of that first one.
    arrived: Option<(Time, Time, f64)>,
}

impl Cluster {
    fn is_whole(&self) -> bool {
        self.sent_packets >= PACKETS && self.sent_bits >= self.rate * LENGTH_S
    }

    fn contains(&self, sent: Time) -> bool {
        self.sent.is_some_and(|(first, last)| (first..=last).contains(&sent))
    }

    /// `HandleProbeAndEstimateBitrate`: the rate that this packet shows, if there are enough.
    fn on_arrival(&mut self, sent: Time, arrived: Time, bits: f64) -> Option<f64> {
        let all = &mut self.received;
        all.packets += 1;
        all.bits += bits;
        let before = all.sent.unwrap_or((sent, sent, bits));
        let last = if sent >= before.1 { (sent, bits) } else { (before.1, before.2) };
        all.sent = Some((before.0.min(sent), last.0, last.1));
        let before = all.arrived.unwrap_or((arrived, arrived, bits));
        let first = if arrived <= before.0 { (arrived, bits) } else { (before.0, before.2) };
        all.arrived = Some((first.0, before.1.max(arrived), first.1));
        self.rate_shown()
    }

    fn rate_shown(&self) -> Option<f64> {
        let all = &self.received;
        let least = (f64::from(PACKETS) * LEAST_RECEIVED) as u32;
        if all.packets < LEAST_PACKETS.max(least) || all.bits < self.rate * LENGTH_S * LEAST_RECEIVED {
            return None;
        }
        let (sent, arrived) = (all.sent?, all.arrived?);
        let (sending_ms, arriving_ms) = (ms_between(sent.0, sent.1), ms_between(arrived.0, arrived.1));
        let possible = |ms: f64| ms > 0.0 && ms <= LONGEST_MS;
        if !possible(sending_ms) || !possible(arriving_ms) {
            return None;
        }
        // N packets have N - 1 gaps between them.
        let sending = (all.bits - sent.2) / sending_ms * 1e3;
        let arriving = (all.bits - arrived.2) / arriving_ms * 1e3;
        if arriving > MAX_RATIO * sending {
            return None;
        }
        // A link that is saturated is used a little below what it carries.
        let is_saturated = arriving < UNSATURATED * sending;
        Some(if is_saturated { UTILIZATION * arriving } else { sending.min(arriving) })
    }
}

/// Probes on their way.
#[derive(Debug, Default)]
pub(super) struct Clusters(VecDeque<Cluster>);

impl Clusters {
    pub(super) fn request(&mut self, now: Time, rates: &[f64]) {
        self.0.retain(|cluster| {
            let since = cluster.sent.map_or(cluster.requested, |(_, last)| last);
            now.saturating_since(since) < if cluster.is_over { REMEMBERED } else { TIMEOUT }
        });
        self.0.extend(rates.iter().map(|&rate| Cluster {
            rate,
            requested: now,
            sent: None,
            sent_bits: 0.0,
            sent_packets: 0,
            is_over: false,
            received: Received::default(),
        }));
    }

    fn current(&mut self) -> Option<&mut Cluster> {
        self.0.iter_mut().find(|cluster| !cluster.is_over)
    }

    /// The rate at which packets leave now, in bit/s, while a probe is being sent.
    pub(super) fn rate(&self) -> Option<f64> {
        let current = self.0.iter().find(|cluster| !cluster.is_over)?;
        // The first packet of media begins the first probe; further ones follow it.
        let has_begun = current.sent.is_some() || self.0.front().is_some_and(|first| first.is_over);
        has_begun.then_some(current.rate)
    }

    pub(super) fn on_sent(&mut self, now: Time, size: u32) {
        let Some(current) = self.current() else { return };
        current.sent = Some((current.sent.map_or(now, |(first, _)| first), now));
        current.sent_bits += f64::from(size) * 8.0;
        current.sent_packets += 1;
        current.is_over = current.is_whole();
    }

    /// The rate in bit/s that the last report on a probe shows (`FetchAndResetLastEstimatedBitrate`).
    pub(super) fn on_arrivals<'a>(&mut self, packets: impl Iterator<Item = &'a PacketReport>) -> Option<f64> {
        let mut shown = None;
        for packet in packets {
            let Some((arrived, _)) = packet.arrival else { continue };
            if let Some(cluster) = self.0.iter_mut().find(|cluster| cluster.contains(packet.sent)) {
                let rate = cluster.on_arrival(packet.sent, arrived, f64::from(packet.size) * 8.0);
                shown = rate.or(shown);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Ecn;

    /// A probe at 2 Mbit/s whose packets of 1250 bytes arrive so many ms apart.
    fn probe(spacing: u64) -> Option<f64> {
        let mut clusters = Clusters::default();
        clusters.request(Time::ZERO, &[2e6, 4e6]);
        assert_eq!(clusters.rate(), None, "it waits for a packet");
        let mut reports = Vec::new();
        for number in 0..5 {
            let sent = Time::from_millis(5 * number);
            clusters.on_sent(sent, 1_250);
            let arrival = Some((Time::from_millis(50 + spacing * number), Ecn::NotEct));
            reports.push(PacketReport { sent, size: 1_250, arrival });
            assert_eq!(clusters.rate(), Some(if number < 4 { 2e6 } else { 4e6 }));
        }
        clusters.on_arrivals(reports.iter())
    }

    #[test]
    fn a_probe_shows_what_it_was_sent_at_or_a_little_less_than_what_arrived() {
        assert_eq!(probe(5), Some(2e6));
        assert_eq!(probe(10), Some(0.95e6));
        assert_eq!(probe(2), None, "it cannot arrive more than twice as fast as it was sent");
        assert_eq!(probe(0), None);
    }

    #[test]
    fn too_few_packets_show_nothing() {
        let mut clusters = Clusters::default();
        clusters.request(Time::ZERO, &[2e6]);
        let reports: Vec<_> = (0..3)
            .map(|number| {
                let sent = Time::from_millis(5 * number);
                clusters.on_sent(sent, 1_250);
                PacketReport { sent, size: 1_250, arrival: Some((sent, Ecn::NotEct)) }
            })
            .collect();
        assert_eq!(clusters.on_arrivals(reports.iter()), None);
        // Five seconds later it is given up.
        clusters.request(Time::from_secs(6), &[1e6]);
        assert_eq!(clusters.0.len(), 1);
    }
}
