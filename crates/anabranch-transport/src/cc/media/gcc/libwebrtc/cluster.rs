//! A probe on its way: which packets are of it (`bitrate_prober.cc`), and what they say
//! (`probe_bitrate_estimator.cc`).
//!
//! Known deviations, all of the pacer: the packets of a probe leave one by one at its rate, not in pieces of
//! 2 ms, so five packets count where libwebrtc counts five pieces; no small packet of padding goes before
//! them (`PacingController::GetPendingPacket`); and none is late, so no probe is given up for a delay of
//! 10 ms (`max_probe_delay`).

use std::collections::VecDeque;

use super::super::super::{PacketReport, ms_between};
use crate::time::{Duration, Time};

/// `min_probe_packets_sent` and `min_probe_duration`.
const PACKETS: u32 = 5;
const LENGTH_S: f64 = 0.015;
/// A probe begins with a packet that has so many bits, or what it sends in so many s if that is less
/// (`min_packet_size`, `min_probe_delta`).
const FIRST_PACKET_BITS: f64 = 200.0 * 8.0;
const FIRST_PACKET_S: f64 = 0.002;
/// A cluster that has not ended so long after the request is given up (`kProbeClusterTimeout`).
const TIMEOUT: Duration = Duration::from_secs(5);
/// A packet's cluster is known for so long (`kSendTimeHistoryWindow`), and what has arrived of a cluster
/// until a packet of a probe comes so long after the last one of this cluster (`kMaxClusterHistory`).
const REMEMBERED: Duration = Duration::from_secs(60);
const HISTORY: Duration = Duration::from_secs(1);
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
        let last = if sent > before.1 { (sent, bits) } else { (before.1, before.2) };
        all.sent = Some((before.0.min(sent), last.0, last.1));
        let before = all.arrived.unwrap_or((arrived, arrived, bits));
        let first = if arrived < before.0 { (arrived, bits) } else { (before.0, before.2) };
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
pub(super) struct Clusters {
    all: VecDeque<Cluster>,
    /// Whether packets leave at a probe's rate (`ProbingState::kActive`): from a packet of media on, until no
    /// probe is left to be sent.
    is_active: bool,
}

impl Clusters {
    /// `CreateProbeCluster` for each of the rates.
    pub(super) fn request(&mut self, now: Time, rates: &[f64]) {
        if rates.is_empty() {
            return;
        }
        for cluster in &mut self.all {
            cluster.is_over |= now.saturating_since(cluster.requested) > TIMEOUT;
        }
        let is_known = |last: Time| now.saturating_since(last) < REMEMBERED;
        self.all.retain(|cluster| !cluster.is_over || cluster.sent.is_some_and(|(_, last)| is_known(last)));
        self.is_active &= self.current().is_some();
        self.all.extend(rates.iter().map(|&rate| Cluster {
            rate,
            requested: now,
            sent: None,
            sent_bits: 0.0,
            sent_packets: 0,
            is_over: false,
            received: Received::default(),
        }));
    }

    fn current(&self) -> Option<&Cluster> {
        self.all.iter().find(|cluster| !cluster.is_over)
    }

    /// The rate at which packets leave now, in bit/s, while a probe is being sent.
    pub(super) fn rate(&self) -> Option<f64> {
        self.current().filter(|_| self.is_active).map(|cluster| cluster.rate)
    }

    /// `ProbeSent`, and before it `OnIncomingPacket`.
    pub(super) fn on_sent(&mut self, now: Time, size: u32) {
        let bits = f64::from(size) * 8.0;
        let Some(current) = self.all.iter_mut().find(|cluster| !cluster.is_over) else { return };
        if !self.is_active && bits < FIRST_PACKET_BITS.min(FIRST_PACKET_S * current.rate) {
            return;
        }
        current.sent = Some((current.sent.map_or(now, |(first, _)| first), now));
        current.sent_bits += bits;
        current.sent_packets += 1;
        current.is_over = current.is_whole();
        self.is_active = self.current().is_some();
    }

    /// The rate in bit/s that the last report on a probe shows (`FetchAndResetLastEstimatedBitrate`).
    pub(super) fn on_arrivals<'a>(&mut self, packets: impl Iterator<Item = &'a PacketReport>) -> Option<f64> {
        let mut shown = None;
        for packet in packets {
            let Some((arrived, _)) = packet.arrival else { continue };
            let Some(place) = self.all.iter().position(|cluster| cluster.contains(packet.sent)) else {
                continue;
            };
            self.erase_old(arrived);
            let rate = self.all[place].on_arrival(packet.sent, arrived, f64::from(packet.size) * 8.0);
            shown = rate.or(shown);
        }
        shown
    }

    /// `EraseOldClusters`.
    fn erase_old(&mut self, arrived: Time) {
        let is_old = |all: &Received| all.arrived.is_some_and(|(_, last, _)| last + HISTORY < arrived);
        for cluster in self.all.iter_mut().filter(|cluster| is_old(&cluster.received)) {
            cluster.received = Received::default();
        }
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

    /// Sends a packet of 1250 bytes each 5 ms from `start` on, and gives the reports of their arrival after
    /// `delay` ms.
    fn send(clusters: &mut Clusters, start: u64, count: u64, delay: u64) -> Vec<PacketReport> {
        let send = |number| {
            let sent = Time::from_millis(start + 5 * number);
            clusters.on_sent(sent, 1_250);
            let arrived = Time::from_millis(start + 5 * number + delay);
            PacketReport { sent, size: 1_250, arrival: Some((arrived, Ecn::NotEct)) }
        };
        (0..count).map(send).collect()
    }

    #[test]
    fn too_few_packets_show_nothing() {
        let mut clusters = Clusters::default();
        clusters.request(Time::ZERO, &[2e6]);
        let reports = send(&mut clusters, 0, 3, 50);
        assert_eq!(clusters.on_arrivals(reports.iter()), None);
        // After five seconds it is given up, so what is sent now belongs to the next one.
        clusters.request(Time::from_secs(6), &[1e6]);
        assert_eq!(clusters.rate(), None, "it waits for a packet");
        clusters.on_sent(Time::from_secs(6), 1_250);
        assert_eq!(clusters.rate(), Some(1e6));
        assert!(!clusters.all[0].contains(Time::from_secs(6)));
    }

    #[test]
    fn a_probe_waits_for_a_packet_that_is_large_enough_unless_another_is_being_sent() {
        let mut clusters = Clusters::default();
        clusters.request(Time::ZERO, &[2e6]);
        clusters.on_sent(Time::ZERO, 100);
        assert_eq!(clusters.rate(), None, "it has less than 200 bytes");
        send(&mut clusters, 5, 4, 50);
        clusters.request(Time::from_millis(22), &[4e6]);
        send(&mut clusters, 25, 1, 50);
        assert_eq!(clusters.rate(), Some(4e6), "it follows the first one");
        send(&mut clusters, 30, 6, 50);
        clusters.request(Time::from_millis(80), &[3e6]);
        assert_eq!(clusters.rate(), None, "none is being sent, so it waits for a packet");
    }

    #[test]
    fn what_arrives_late_still_counts_but_not_what_arrived_a_second_apart() {
        let mut clusters = Clusters::default();
        clusters.request(Time::ZERO, &[2e6]);
        let reports = send(&mut clusters, 0, 5, 1_500);
        clusters.request(Time::from_millis(1_400), &[4e6]);
        assert_eq!(clusters.on_arrivals(reports.iter()), Some(2e6));
        clusters.request(Time::from_secs(3), &[2e6]);
        let reports = send(&mut clusters, 3_000, 20, 50);
        let mut late = reports[4];
        late.arrival = Some((Time::from_millis(5_000), Ecn::NotEct));
        assert_eq!(clusters.on_arrivals(reports[..3].iter().chain([&late])), None);
        assert_eq!(clusters.all[1].received.packets, 1);
    }

    #[test]
    fn of_packets_that_arrive_together_the_first_ones_size_is_left_out() {
        let mut clusters = Clusters::default();
        clusters.request(Time::ZERO, &[2e6]);
        let mut reports = send(&mut clusters, 0, 5, 50);
        (reports[0].size, reports[1].arrival) = (250, reports[0].arrival);
        // In 20 ms 32,000 bits leave and 40,000 arrive.
        assert_eq!(clusters.on_arrivals(reports.iter()), Some(1.6e6));
        assert_eq!(clusters.all[0].received.arrived.map(|arrived| arrived.2), Some(2_000.0));
    }
}
