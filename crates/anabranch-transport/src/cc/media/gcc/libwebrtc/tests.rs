//! What the parts do together: single rules, and a sender over a link of one rate and 50 ms each way.

use std::collections::VecDeque;

use super::super::Change;
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

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// A packet that was sent and arrived then, or was lost.
fn packet(sent: u64, arrived: Option<u64>) -> PacketReport {
    PacketReport { sent: ms(sent), size: 1_250, arrival: arrived.map(|at| (ms(at), Ecn::NotEct)) }
}

fn control() -> Libwebrtc {
    Libwebrtc::new(300e3, [150e3, 5e6])
}

#[test]
fn a_probe_shows_no_less_than_most_of_what_arrives_or_the_rate_by_delay() {
    let mut control = control();
    assert_eq!(control.bounded(300e3, Some(900e3)), 300e3, "there is no rate by delay yet");
    control.by_delay = Some(1e6);
    assert_eq!(control.bounded(300e3, Some(900e3)), 765e3);
    assert_eq!(control.bounded(1.5e6, Some(900e3)), 1.5e6);
    assert_eq!(control.bounded(300e3, None), 300e3);
    control.by_delay = Some(500e3);
    assert_eq!(control.bounded(300e3, Some(900e3)), 500e3, "it never raises the rate");
}

#[test]
fn no_probe_is_sent_while_losses_limit_the_rate_though_it_grows() {
    for (state, count) in [(LossState::Increasing, 0), (LossState::Decreasing, 0), (LossState::DelayBased, 2)]
    {
        let mut control = control();
        control.loss_state = state;
        control.pass_on(ms(1));
        assert_eq!(control.probing.begin(ms(2)).len(), count, "{state:?}");
    }
}

#[test]
fn the_round_trip_has_no_time_at_the_receiver() {
    let mut control = control();
    let packets = [packet(1_000, Some(1_025)), packet(1_100, Some(1_125))];
    // The report is made 55 ms after the last arrival.
    let rtt = Duration::from_millis(50);
    control.on_feedback(&Feedback { now: ms(1_205), rtt, packets: &packets });
    control.aimd.set_rate(ms(1_205), 1e6);
    assert!(!control.aimd.may_reduce(ms(1_254), 1e6) && control.aimd.may_reduce(ms(1_255), 1e6));
    // That of the back-off counts the time since the last arrival, which libwebrtc does not know.
    assert_eq!(control.propagation, Some((ms(1_205), Duration::from_millis(105))));
}

#[test]
fn a_report_about_losses_alone_counts() {
    let mut control = control();
    let packets: Vec<_> = (0..30).map(|number| packet(1_000 + 10 * number, None)).collect();
    let rtt = Duration::from_millis(100);
    control.on_feedback(&Feedback { now: ms(1_500), rtt, packets: &packets });
    assert_eq!((control.has_losses, control.propagation), (Some(true), None));
}

#[test]
fn a_stream_that_times_out_in_under_use_has_recovered() {
    let mut control = control();
    for group in 0..60 {
        let arrived = if group < 30 { 20.0 } else { 14.0 };
        control.trendline.update(&Change { sent: 20.0, arrived }, ms(20 * group));
    }
    assert_eq!(control.trendline.usage(), Signal::UnderUse);
    control.last_report = Some(ms(1_200));
    let arrived = [packet(3_150, Some(3_200))];
    assert_eq!(control.follow_delay(ms(3_250), &arrived, None, None), (Some(false), true));
}

#[test]
fn what_a_report_changed_is_passed_on_by_the_next_timeout_at_the_latest() {
    let mut control = control();
    control.on_timeout(ms(25));
    assert_eq!(control.passed, Some((300e3, LossState::DelayBased)));
    // A report on over-use that is not acted upon changes the target by losses only.
    control.target = 250e3;
    control.on_timeout(ms(50));
    assert_eq!(control.passed, Some((250e3, LossState::DelayBased)));
}

#[test]
fn a_long_round_trip_takes_the_rate_down_to_5_kbit_per_s() {
    let mut control = Libwebrtc::new(6e3, [1e3, 5e6]);
    control.propagation = Some((ms(0), Duration::from_secs(4)));
    control.follow_limits(ms(1_000));
    assert_eq!(control.target, 5e3);
    control.follow_limits(ms(3_000));
    assert_eq!(control.target, 5e3);
    // Between two drops the limits hold.
    control.by_delay = Some(4e3);
    control.follow_limits(ms(3_100));
    assert_eq!(control.target, 4e3);
}
