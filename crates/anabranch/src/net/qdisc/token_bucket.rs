//! A token bucket: what another discipline lets out leaves at a rate, after bursts (Linux's `tbf`,
//! `sch_tbf.c`).
//!
//! In any time t, at most `burst` + `rate` x t leaves; with a peak rate, also at most `peak_burst` +
//! `peak_rate` x t. A packet leaves as soon as tokens suffice for all of it; what is larger than a bucket is
//! dropped. The packet that waits for tokens has left the other discipline already, whose limits and backlog
//! still count it, as in Linux with any discipline that decides at departure (`qdisc_peek_dequeued`). Tokens
//! are counted exactly. The link behind has its own `rate`, which should be higher.

use anabranch_transport::report::Report;
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drop_tail::DropTailConfig;
use super::interface::{Drops, Place, QueueDisc};
use super::{Discipline, QueueConfig};
use crate::net::capacity::UNITS_PER_BYTE;
use crate::net::packets::{Held, Waiting};
use crate::schedule::Schedule;

/// A token bucket in front of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenBucketConfig {
    /// Rate at which tokens come. Default: 1 Mbit/s.
    pub rate: Rate,
    /// The most bytes for which there are tokens, up to 1 GB; larger packets are dropped. Default: 15000 B.
    pub burst: Bytes,
    /// Rate within a burst, more than `rate`. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rate: Option<Rate>,
    /// The same as `burst` for the peak rate. Default: 1500 B.
    pub peak_burst: Bytes,
    /// The longest time that a packet waits, instead of `child`: a queue of `rate` x `latency` + `burst`
    /// bytes, or of `peak_rate` x `latency` + `peak_burst` bytes if that is less. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
    /// The discipline in which packets wait, by its `kind`. Default: `drop_tail` with 50 packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<QueueConfig>>,
}

impl Default for TokenBucketConfig {
    fn default() -> Self {
        Self {
            rate: Rate::from_bits_per_sec(1_000_000),
            burst: Bytes(15_000),
            peak_rate: None,
            peak_burst: Bytes(1500),
            latency: None,
            child: None,
        }
    }
}

/// Tokens are counted in 63 bits: 1.15 GB.
const MAX_BURST: u64 = 1_000_000_000;

impl TokenBucketConfig {
    pub(super) fn build(&self, place: Place<'_>) -> Result<TokenBucket, String> {
        let Place { key, .. } = place;
        for (name, burst) in [("burst", self.burst), ("peak_burst", self.peak_burst)] {
            if !(1..=MAX_BURST).contains(&burst.0) {
                return Err(format!("{key}.{name} is {burst}, allowed is 1 B to {MAX_BURST} B"));
            }
        }
        if let Some(peak) = self.peak_rate.filter(|peak| *peak <= self.rate) {
            return Err(format!("{key}.peak_rate is {peak}, allowed is more than rate = {}", self.rate));
        }
        let mut buckets = vec![Bucket::new(self.rate, self.burst)];
        buckets.extend(self.peak_rate.map(|rate| Bucket::new(rate, self.peak_burst)));
        let (child_key, component) = (format!("{key}.child"), format!("{}/child", place.component));
        let child = self.child(key)?.build(Place { key: &child_key, component: &component, ..place })?;
        Ok(TokenBucket { buckets, child: Box::new(child), head: None, head_ready: u64::MAX })
    }

    /// The discipline in which packets wait.
    fn child(&self, key: &str) -> Result<QueueConfig, String> {
        match (&self.child, self.latency) {
            (Some(_), Some(latency)) => {
                Err(format!("{key}.latency is {latency}, allowed is one of latency and child"))
            }
            (Some(child), None) => Ok(QueueConfig::clone(child)),
            (None, Some(latency)) => {
                // tc-tbf(8): the limit that corresponds to the latency, by the bucket that is slower in that
                // time (iproute2, `tbf_parse_opt`).
                let bytes = |rate: Rate, burst: Bytes| {
                    let bits = u128::from(rate.bits_per_sec()) * u128::from(latency.as_nanos());
                    bits / u128::from(UNITS_PER_BYTE) + u128::from(burst.0)
                };
                let peak = self.peak_rate.map_or(u128::MAX, |peak| bytes(peak, self.peak_burst));
                let bytes = bytes(self.rate, self.burst).min(peak);
                let bytes =
                    u64::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_BURST).ok_or_else(|| {
                        format!(
                            "{key}.latency is {latency}, allowed is what gives at most {MAX_BURST} B of queue"
                        )
                    })?;
                let bytes = Some(Schedule::Constant(Bytes(bytes)));
                Ok(QueueConfig::DropTail(DropTailConfig { bytes, ..Default::default() }))
            }
            (None, None) => Ok(QueueConfig::default()),
        }
    }
}

/// A discipline whose packets wait for tokens.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    buckets: Vec<Bucket>,
    child: Box<Discipline>,
    /// The packet that leaves next, and when it leaves.
    head: Option<Held>,
    head_ready: u64,
}

/// A bucket of tokens in the units of a link's work: a rate of R bit/s adds R of them in a nanosecond.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    size: u64,
    tokens: u64,
    /// The time for which `tokens` is valid, in nanoseconds.
    at: u64,
}

impl Bucket {
    /// A full bucket.
    fn new(rate: Rate, burst: Bytes) -> Self {
        let size = burst.0 * UNITS_PER_BYTE;
        Self { rate: rate.bits_per_sec(), size, tokens: size, at: 0 }
    }

    fn fill(&mut self, now: u64) {
        let new = self.rate.saturating_mul(now - self.at);
        self.tokens = self.tokens.saturating_add(new).min(self.size);
        self.at = now;
    }

    /// When there are this many tokens.
    fn ready(&self, tokens: u64) -> u64 {
        self.at.saturating_add(tokens.saturating_sub(self.tokens).div_ceil(self.rate))
    }
}

fn tokens_for(packet: &Held) -> u64 {
    u64::from(packet.size) * UNITS_PER_BYTE
}

impl QueueDisc for TokenBucket {
    fn enqueue(&mut self, now: u64, packet: Held, drops: &mut Drops) {
        if self.buckets.iter().any(|bucket| tokens_for(&packet) > bucket.size) {
            return drops.overflow(packet);
        }
        self.child.enqueue(now, packet, drops);
    }

    fn dequeue(&mut self, now: u64, drops: &mut Drops) -> Option<Held> {
        let was_held = self.head.is_some();
        if !was_held {
            self.head = self.child.dequeue(now, drops);
        }
        let packet = self.head?;
        let tokens = tokens_for(&packet);
        for bucket in &mut self.buckets {
            bucket.fill(now);
        }
        self.head_ready = self.buckets.iter().map(|bucket| bucket.ready(tokens)).max()?;
        if self.head_ready > now {
            if !was_held {
                self.child.hold_back(now, Waiting { packets: 1, bytes: packet.size.into() });
            }
            return None;
        }
        if was_held {
            self.child.hold_back(now, Waiting::default());
        }
        for bucket in &mut self.buckets {
            bucket.tokens -= tokens;
        }
        self.head.take()
    }

    fn not_before(&self) -> u64 {
        if self.head.is_some() { self.head_ready } else { self.child.not_before() }
    }

    fn flush(&mut self, now: u64, drops: &mut Drops) -> Vec<Held> {
        self.child.hold_back(now, Waiting::default());
        self.head.take().into_iter().chain(self.child.flush(now, drops)).collect()
    }

    fn waiting(&self) -> Waiting {
        let Waiting { packets, bytes } = self.child.waiting();
        let head = self.head.map_or(0, |packet| packet.size.into());
        Waiting { packets: packets + u64::from(self.head.is_some()), bytes: bytes + head }
    }

    fn memory(&self) -> usize {
        self.child.memory() + size_of::<Discipline>() + self.buckets.len() * size_of::<Bucket>()
    }

    fn report(&self, report: &mut Report<'_>) {
        self.child.report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, place};
    use super::*;
    use crate::net::qdisc::{HeadDropConfig, PieConfig};
    use serde_json::json;

    /// The departures of packets that come at the same time, if the link is always free.
    fn departures(config: &TokenBucketConfig, packets: u32) -> Vec<u64> {
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for slot in 0..packets {
            queue.enqueue(0, packet(slot, 0, 0), &mut drops);
        }
        let (mut now, mut times) = (0, Vec::new());
        while queue.waiting().packets > 0 {
            if queue.dequeue(now, &mut drops).is_some() {
                times.push(now);
            } else {
                assert!(queue.not_before() > now);
                now = queue.not_before();
            }
        }
        assert!(drops.0.is_empty());
        times
    }

    /// 1500 B take 4 ms at 3 Mbit/s: three packets leave at once, then one every 4 ms, to the nanosecond.
    #[test]
    fn a_burst_and_then_the_rate() {
        let rate = Rate::from_bits_per_sec(3_000_000);
        let config = TokenBucketConfig { rate, burst: Bytes(4500), ..Default::default() };
        assert_eq!(departures(&config, 6), [0, 0, 0, 4_000_000, 8_000_000, 12_000_000]);
        // Tokens for a third of a packet are left over.
        let config = TokenBucketConfig { burst: Bytes(2000), ..config };
        assert_eq!(departures(&config, 3), [0, 2_666_667, 6_666_667]);
        // Within the burst, the peak rate holds: 1500 B take 1 ms at 12 Mbit/s.
        let peak_rate = Some(Rate::from_bits_per_sec(12_000_000));
        let config = TokenBucketConfig { burst: Bytes(4500), peak_rate, ..config };
        assert_eq!(departures(&config, 5), [0, 1_000_000, 2_000_000, 4_000_000, 8_000_000]);
    }

    #[test]
    fn tokens_are_not_saved_beyond_the_burst() {
        let mut queue =
            TokenBucketConfig { burst: Bytes(3000), ..Default::default() }.build(place()).unwrap();
        let mut drops = Drops::default();
        let later = 100_000_000_000;
        for slot in 0..3 {
            queue.enqueue(later, packet(slot, later, 0), &mut drops);
        }
        assert!(queue.dequeue(later, &mut drops).is_some() && queue.dequeue(later, &mut drops).is_some());
        assert!(queue.dequeue(later, &mut drops).is_none());
        assert_eq!(queue.not_before(), later + 12_000_000);
        // What arrives meanwhile changes nothing, and all of it is there when the link goes down.
        queue.enqueue(later + 1, packet(3, later + 1, 0), &mut drops);
        assert!(queue.dequeue(later + 1, &mut drops).is_none());
        assert_eq!(queue.waiting(), Waiting { packets: 2, bytes: 3000 });
        let slots: Vec<u32> = queue.flush(later + 2, &mut drops).iter().map(|packet| packet.slot).collect();
        assert_eq!((slots, queue.waiting().packets), (vec![2, 3], 0));
    }

    #[test]
    fn what_waits_is_the_childs_business() {
        let child = Some(Box::new(QueueConfig::HeadDrop(HeadDropConfig { packets: 2 })));
        let config = TokenBucketConfig { burst: Bytes(1500), child, ..Default::default() };
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for slot in 0..5 {
            queue.enqueue(0, packet(slot, 0, 0), &mut drops);
            if slot == 0 {
                assert!(queue.dequeue(0, &mut drops).is_some());
            }
        }
        assert_eq!(drops.0.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [1, 2]);
        // 1 Mbit/s for 24 ms are 3000 B, to which the burst is added.
        let config = TokenBucketConfig { latency: Some(Duration::from_millis(24)), child: None, ..config };
        let QueueConfig::DropTail(child) = config.child("queue").unwrap() else { panic!() };
        assert_eq!(child.bytes, Some(Schedule::Constant(Bytes(4500))));
        // 1.2 Mbit/s for 24 ms are 3600 B, to which the burst of the peak rate is added.
        let peak_rate = Some(Rate::from_bits_per_sec(1_200_000));
        let config = TokenBucketConfig { burst: Bytes(15_000), peak_rate, peak_burst: Bytes(1500), ..config };
        let QueueConfig::DropTail(child) = config.child("queue").unwrap() else { panic!() };
        assert_eq!(child.bytes, Some(Schedule::Constant(Bytes(5100))));
    }

    /// What each discipline still takes while a packet waits for tokens (`qdisc_peek_dequeued`): the limit of
    /// three counts it, and CAKE, whose limit is in bytes, takes as much as without a bucket.
    #[test]
    fn limits_count_what_is_held_back() {
        for kind in QueueConfig::all().iter().map(QueueConfig::kind) {
            let child = match kind.as_str() {
                "token_bucket" => continue,
                "cake" => json!({"kind": kind, "bytes": "4500 B"}),
                "prio" => json!({"kind": kind, "bands": [{"queue": {"kind": "drop_tail", "packets": 3}}]}),
                "fq_codel" | "fq_lifo_codel" => json!({"kind": kind, "packets": 3, "drop_batch": 1}),
                _ => json!({"kind": kind, "packets": 3}),
            };
            let child = Some(Box::new(serde_json::from_value(child).unwrap()));
            let mut queue =
                TokenBucketConfig { burst: Bytes(1500), child, ..Default::default() }.build(place()).unwrap();
            let mut drops = Drops::default();
            let mut taken = |queue: &mut TokenBucket, slots: std::ops::Range<u32>| {
                for slot in slots {
                    let arrival = Held { found_units: 1, ..packet(slot, 0, 0) };
                    queue.enqueue(0, arrival, &mut drops);
                }
                queue.waiting().packets
            };
            assert_eq!(taken(&mut queue, 0..2), 2);
            assert!(queue.dequeue(0, &mut Drops::default()).is_some(), "{kind}");
            assert!(queue.dequeue(0, &mut Drops::default()).is_none(), "{kind}");
            let most = if kind == "cake" { 4 } else { 3 };
            assert_eq!(taken(&mut queue, 2..9), most, "{kind}");
            // Once it has left, its place is free.
            let later = queue.not_before();
            assert!(queue.dequeue(later, &mut Drops::default()).is_some(), "{kind}");
            assert_eq!(taken(&mut queue, 9..19), 3, "{kind}");
        }
    }

    /// Linux's PIE does not let its probability fall by a 64th while only a packet waits that is held back
    /// (`pie_calculate_probability`, `backlog != 0`).
    #[test]
    fn pie_sees_what_is_held_back() {
        let child = || Some(Box::new(QueueConfig::Pie(PieConfig::default())));
        let probability_after = |burst: u64| {
            let config = TokenBucketConfig { burst: Bytes(burst), child: child(), ..Default::default() };
            let mut queue = config.build(place()).unwrap();
            let Discipline::Pie(pie) = &mut *queue.child else { panic!() };
            pie.set_probability(0.5);
            let mut drops = Drops::default();
            queue.enqueue(0, packet(0, 0, 0), &mut drops);
            queue.enqueue(0, packet(1, 0, 0), &mut drops);
            while queue.dequeue(0, &mut drops).is_some() {}
            // After three updates, the first packet to come shows the probability.
            let now = 46_000_000;
            queue.enqueue(now, packet(2, now, 0), &mut drops);
            let Discipline::Pie(pie) = &*queue.child else { panic!() };
            pie.probability()
        };
        // Each update lowers it by alpha x target; an empty queue lowers it by a 64th as well.
        let held: f64 = 0.5 - 3.0 * 0.125 * 0.015;
        assert!((probability_after(1500) - held).abs() < 1e-12);
        assert!(probability_after(3000) < held - 3.0 * 0.005);
    }

    #[test]
    fn packets_that_never_fit_are_dropped() {
        let mut queue =
            TokenBucketConfig { burst: Bytes(1499), ..Default::default() }.build(place()).unwrap();
        let mut drops = Drops::default();
        queue.enqueue(0, packet(0, 0, 0), &mut drops);
        assert_eq!(drops.0.len(), 1);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |config: TokenBucketConfig| config.build(place()).unwrap_err();
        let default = TokenBucketConfig::default;
        assert_eq!(
            error(TokenBucketConfig { burst: Bytes(0), ..default() }),
            "queue.burst is 0 B, allowed is 1 B to 1000000000 B"
        );
        let peak_rate = Some(Rate::from_bits_per_sec(1_000_000));
        assert_eq!(
            error(TokenBucketConfig { peak_rate, ..default() }),
            "queue.peak_rate is 1 Mbit/s, allowed is more than rate = 1 Mbit/s"
        );
        let child = Some(Box::new(QueueConfig::HeadDrop(HeadDropConfig { packets: 0 })));
        assert_eq!(
            error(TokenBucketConfig { child: child.clone(), ..default() }),
            "queue.child.packets is 0, allowed is 1 to 4294967295"
        );
        assert_eq!(
            error(TokenBucketConfig { child, latency: Some(Duration::from_millis(5)), ..default() }),
            "queue.latency is 5 ms, allowed is one of latency and child"
        );
    }
}
