//! A sender over a link of one rate and 50 ms each way: what the parts do together.

use super::*;
use crate::flow::Ecn;

/// Packets of 1250 bytes at the target's pace, as a smooth encoder makes them, with probes between.
struct Link {
    control: Libwebrtc,
    now: Time,
    /// When the link is free again.
    free: Time,
    rate: f64,
    /// What the encoder makes at most, in bit/s.
    most: f64,
    next_media: Time,
    next_report: Time,
    way: VecDeque<PacketReport>,
}

impl Link {
    fn new(rate: f64, most: f64) -> Self {
        let start = Time::from_secs(1);
        Self {
            control: Libwebrtc::new(300e3, [150e3, 5e6]),
            now: start,
            free: start,
            rate,
            most,
            next_media: start,
            next_report: start + Duration::from_millis(150),
            way: VecDeque::new(),
        }
    }

    fn send(&mut self) {
        let size = 1_250;
        self.control.on_sent(self.now, size);
        let begin = self.free.max(self.now);
        // A queue of 300 ms.
        let is_lost = begin.saturating_since(self.now) > Duration::from_millis(300);
        if !is_lost {
            self.free = begin + Duration::from_secs_f64(1e4 / self.rate);
        }
        let arrival = (!is_lost).then_some((self.free + Duration::from_millis(50), Ecn::NotEct));
        self.way.push_back(PacketReport { sent: self.now, size, arrival });
    }

    /// Runs until this time, and returns the target then in bit/s.
    fn run(&mut self, until_s: u64) -> f64 {
        let mut probe_at = Time::ZERO;
        while self.now < Time::from_secs(until_s) {
            let limits = self.control.limits();
            if limits.pads && probe_at <= self.now {
                self.send();
                probe_at = self.now + Duration::from_secs_f64(1e4 / limits.pacing.bits_per_sec() as f64);
            } else if self.next_media <= self.now {
                self.send();
                let rate = (limits.target.bits_per_sec() as f64).min(self.most);
                self.next_media += Duration::from_secs_f64(1e4 / rate);
            }
            if self.next_report <= self.now {
                self.report();
            }
            if self.control.timeout() <= self.now {
                self.control.on_timeout(self.now);
            }
            self.now += Duration::from_micros(500);
        }
        self.control.limits().target.bits_per_sec() as f64
    }

    /// The receiver reports each 50 ms on what has arrived by then, and the report takes 50 ms.
    fn report(&mut self) {
        let made = Time::from_nanos(self.now.as_nanos() - 50_000_000);
        let is_known = |one: &PacketReport| one.arrival.is_none_or(|(at, _)| at <= made);
        let mut packets = Vec::new();
        while self.way.front().is_some_and(is_known) {
            packets.extend(self.way.pop_front());
        }
        let rtt = Duration::from_millis(100);
        self.control.on_feedback(&Feedback { now: self.now, rtt, packets: &packets });
        self.next_report = self.now + Duration::from_millis(50);
    }
}

#[test]
fn probes_find_the_capacity_within_a_second() {
    let mut link = Link::new(2e6, 5e6);
    let found = link.run(2);
    assert!((1.4e6..2.1e6).contains(&found), "{found}");
}

#[test]
fn the_target_stays_near_the_capacity_and_follows_its_fall() {
    let mut link = Link::new(2e6, 5e6);
    link.run(20);
    let targets: Vec<f64> = (21..60).map(|second| link.run(second)).collect();
    let mean = targets.iter().sum::<f64>() / targets.len() as f64;
    assert!((1.5e6..2.1e6).contains(&mean), "{targets:?}");
    link.rate = 0.6e6;
    link.run(63);
    let targets: Vec<f64> = (64..80).map(|second| link.run(second)).collect();
    let mean = targets.iter().sum::<f64>() / targets.len() as f64;
    assert!((0.4e6..0.65e6).contains(&mean), "{targets:?}");
}

#[test]
fn an_application_that_sends_little_is_probed_for() {
    let mut link = Link::new(3e6, 200e3);
    link.run(8);
    assert!(link.control.alr.since().is_some());
    // What arrives bounds the rate by delay to 310 kbit/s, but probes show more.
    let target = link.run(12);
    assert!(target > 1e6, "{target}");
}

#[test]
fn without_reports_the_target_falls_after_three_seconds() {
    let mut link = Link::new(2e6, 5e6);
    let before = link.run(10);
    link.next_report = Time::NEVER;
    let after = link.run(15);
    assert!(after < 0.7 * before, "{before} {after}");
}
