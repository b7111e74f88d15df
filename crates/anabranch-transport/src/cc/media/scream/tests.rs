//! Drills by section of the draft. Packets have 1000 bytes, a round trip takes 100 ms, and a frame 33 ms.

use super::super::PacketReport;
use super::*;
use crate::units::{Bytes, Rate};

/// A sender whose packets arrive after 50 ms, unless a drill says otherwise.
struct Drill {
    scream: Scream,
    now: Time,
    /// How long packets wait in a queue.
    queue: Duration,
}

impl Drill {
    fn new(config: &Config, ecn: Ecn) -> Self {
        Self { scream: config.build(ecn), now: Time::from_secs(1), queue: Duration::ZERO }
    }

    /// A round trip: so many packets are sent at once and reported 100 ms later, with this fate each.
    fn round(&mut self, fates: &[Option<Ecn>]) -> f64 {
        let sent = self.now;
        for _ in fates {
            self.scream.on_sent(sent, 1_000);
        }
        let arrived = sent + Duration::from_millis(50) + self.queue;
        let reports: Vec<_> = fates
            .iter()
            .map(|fate| PacketReport { sent, size: 1_000, arrival: fate.map(|ecn| (arrived, ecn)) })
            .collect();
        self.now = sent + Duration::from_millis(100) + self.queue;
        let rtt = Duration::from_millis(100) + self.queue;
        self.scream.on_feedback(&Feedback { now: self.now, rtt, packets: &reports });
        self.scream.window.bytes()
    }

    /// Rounds in which as much is sent as the window says.
    fn full_rounds(&mut self, count: usize) -> f64 {
        for _ in 0..count {
            let packets = (self.scream.window.bytes() / 1_000.0) as usize;
            self.round(&vec![OK; packets]);
        }
        self.scream.window.bytes()
    }
}

const OK: Option<Ecn> = Some(Ecn::NotEct);
const MARKED: Option<Ecn> = Some(Ecn::Ce);

/// Settings with which the target does not stop the growth.
fn wide() -> Config {
    Config { max_rate: Rate::from_bits_per_sec(100_000_000), ..Config::default() }
}

#[test]
fn the_window_grows_by_a_packet_and_a_share_of_itself_in_a_round_trip() {
    let mut drill = Drill::new(&wide(), Ecn::NotEct);
    // "Reference Window Increase": 3000 x (1000 / 3000) x (1 + 0.02 x 3000 / 1000).
    assert!((drill.round(&[OK; 3]) - (3_000.0 + 1_000.0 * 1.06)).abs() < 1e-9);
    // No further than what is in flight allows: 1000 + 1.5 x 3000.
    let before = drill.round(&[OK; 3]);
    assert!((before - (4_060.0 + 3.0e6 / 4_060.0 * (1.0 + 0.02 * 4.06))).abs() < 1e-9, "{before}");
    assert_eq!(drill.round(&[OK; 3]), before);
}

#[test]
fn the_window_does_not_grow_while_the_target_is_at_its_maximum() {
    let config = Config { max_rate: Rate::from_bits_per_sec(300_000), ..Config::default() };
    let mut drill = Drill::new(&config, Ecn::NotEct);
    let full = drill.full_rounds(40);
    assert_eq!(drill.scream.limits().target.bits_per_sec(), 300_000);
    assert_eq!(drill.full_rounds(10), full);
}

#[test]
fn a_loss_leaves_seven_tenths_at_most_once_in_25_ms() {
    let mut drill = Drill::new(&wide(), Ecn::NotEct);
    let before = drill.full_rounds(30);
    let packets = vec![OK; (before / 1_000.0) as usize];
    let lost = [&[None], &packets[1..]].concat();
    let after = drill.round(&lost);
    // "Reference Window Reduction", then an increase that is slow as the inflection is near: scl_t is 1 at
    // first, and the multiplicative part is gone as there was a loss just now.
    let increase = packets.len() as f64 * 1_000.0 * (1_000.0 / (0.7 * before));
    assert!((after / (0.7 * before + increase.min(increase)) - 1.0).abs() < 0.05, "{before} {after}");
    // Another report 10 ms later is no new event.
    let now = drill.now + Duration::from_millis(10);
    drill.scream.on_sent(drill.now, 1_000);
    drill.scream.on_sent(drill.now, 1_000);
    let report = |arrival| PacketReport { sent: drill.now, size: 1_000, arrival };
    let reports = [report(None), report(Some((now, Ecn::NotEct)))];
    drill.scream.on_feedback(&Feedback { now, rtt: Duration::from_millis(10), packets: &reports });
    assert!(drill.scream.window.bytes() >= after);
}

#[test]
fn classic_marks_leave_four_fifths_and_those_of_l4s_as_much_as_their_share_says() {
    let run = |ecn| {
        let mut drill = Drill::new(&wide(), ecn);
        let before = drill.full_rounds(30);
        let packets = (before / 1_000.0) as usize;
        let mut fates = vec![OK; packets];
        fates[0] = MARKED;
        (drill.round(&fates) / before, packets)
    };
    let (classic, packets) = run(Ecn::Ect0);
    assert!((0.8..0.88).contains(&classic), "{classic}");
    // "Receiving ECN-CE for L4S": the mean share rises to 1/8 of that of this round trip, and a reaction of a
    // quarter of the half of it, as a round trip has four; the increase outweighs that.
    let (l4s, _) = run(Ecn::Ect1);
    assert!(l4s > 1.0 && packets > 10, "{l4s}");
}

#[test]
fn the_share_of_marks_rises_fast_and_falls_slowly() {
    let mut drill = Drill::new(&wide(), Ecn::Ect1);
    drill.full_rounds(10);
    drill.round(&[MARKED; 8]);
    let alpha = format!("{:?}", drill.scream.window);
    assert!(alpha.contains("value: 0.125"), "{alpha}");
    drill.round(&[OK; 8]);
    let alpha = format!("{:?}", drill.scream.window);
    assert!(alpha.contains("value: 0.1240234375"), "{alpha}");
}

#[test]
fn a_queue_beyond_half_of_the_target_lowers_the_window_as_marks_would() {
    let mut drill = Drill::new(&wide(), Ecn::NotEct);
    drill.full_rounds(20);
    // "Detecting Increased Queue Delay": the mean follows by a quarter, and 30 ms are no congestion.
    drill.queue = Duration::from_millis(30);
    let before = drill.full_rounds(12);
    assert!(drill.scream.delays.qdelay_avg < 0.03 && drill.scream.delays.qdelay_avg > 0.028);
    drill.queue = Duration::from_millis(60);
    let after = drill.full_rounds(20);
    assert!(after < before, "{before} {after}");
    // A queue that is gone is believed at once.
    drill.queue = Duration::ZERO;
    drill.full_rounds(1);
    assert!(drill.scream.delays.qdelay_avg < 1e-6);
}

#[test]
fn the_target_is_the_window_over_the_round_trip_with_a_margin() {
    let mut drill = Drill::new(&wide(), Ecn::NotEct);
    assert_eq!(drill.scream.limits().target.bits_per_sec(), 150_000);
    let window = drill.full_rounds(40);
    let small = 1.0 - (1_000.0 / window - 0.1f64).clamp(0.0, 0.2);
    let target = small * (1_000.0 / 1_020.0) / 1.2 * 8.0 * window / 0.1;
    let got = drill.scream.limits().target.bits_per_sec() as f64;
    assert!((got / target - 1.0).abs() < 1e-3, "{got} {target}");
    // "Media Rate Control": a frame that has waited for its period raises the factor by 0.75 / 16.
    let frame = |now| Frame { now, bytes: 100, waiting: Duration::from_millis(20) };
    drill.scream.on_frame(&frame(drill.now));
    let lower = drill.scream.limits().target.bits_per_sec() as f64;
    assert!((lower / target - 1.2 / (1.2 + 0.75 / 16.0)).abs() < 1e-3, "{lower}");
}

#[test]
fn the_pace_is_half_above_the_target_and_more_near_the_maximum() {
    let config = Config { max_rate: Rate::from_bits_per_sec(500_000), ..Config::default() };
    let mut drill = Drill::new(&config, Ecn::NotEct);
    assert_eq!(drill.scream.limits().pacing.bits_per_sec(), 225_000);
    drill.full_rounds(40);
    // "Packet Pacing": at the maximum four times as much.
    assert_eq!(drill.scream.limits().pacing.bits_per_sec(), 3_000_000);
}

#[test]
fn what_may_be_in_flight_is_three_windows_and_less_while_delays_vary() {
    let mut drill = Drill::new(&Config { reduce_jitter: true, ..wide() }, Ecn::NotEct);
    assert_eq!(drill.scream.limits().window, u64::MAX, "a first packet always has a place");
    drill.scream.on_sent(drill.now, 1_000);
    assert_eq!(drill.scream.limits().window, 9_000 - 1_000);
    // A delay that jumps by 40 ms from one round trip to the next.
    for number in 0..200 {
        drill.queue = Duration::from_millis(if number % 2 == 0 { 0 } else { 40 });
        drill.full_rounds(1);
    }
    assert_eq!(drill.scream.delays.scale(), 0.0);
    let window = drill.scream.window.bytes();
    assert_eq!(drill.scream.window.send_limit(&drill.scream.delays), (window * 1.5) as u64);
}

#[test]
fn a_window_full_of_lost_packets_is_empty_after_half_a_second() {
    let mut drill = Drill::new(&Config::default(), Ecn::NotEct);
    (0..9).for_each(|_| drill.scream.on_sent(drill.now, 1_000));
    assert_eq!(drill.scream.limits().window, 0);
    let at = drill.scream.timeout();
    assert_eq!(at, drill.now + Duration::from_millis(500));
    drill.scream.on_timeout(at);
    assert_eq!((drill.scream.limits().window, drill.scream.timeout()), (u64::MAX, Time::NEVER));
}

#[test]
fn losses_of_the_link_below_the_threshold_do_not_count_without_a_queue() {
    let config = Config { loss_rate_threshold: 0.01, ..wide() };
    let mut drill = Drill::new(&config, Ecn::NotEct);
    let before = drill.full_rounds(30);
    let mut fates = vec![OK; (before / 1_000.0) as usize];
    fates[0] = None;
    assert!(drill.round(&fates) > before, "one of them is no congestion");
    let grown = drill.full_rounds(1);
    fates[1..20].fill(None);
    assert!(drill.round(&fates) < grown);
}

#[test]
fn beside_a_full_queue_the_target_of_the_delay_grows() {
    let mut drill = Drill::new(&Config { compete: true, ..wide() }, Ecn::NotEct);
    drill.full_rounds(5);
    drill.queue = Duration::from_millis(200);
    for _ in 0..60 {
        drill.round(&[None, OK, OK, OK]);
    }
    // One and a half times the mean of 200 ms and its deviation.
    assert!((0.3..0.4).contains(&drill.scream.delays.target), "{}", drill.scream.delays.target);
}

#[test]
fn a_queue_that_never_drains_is_taken_for_a_drift_and_the_target_halves() {
    let mut drill = Drill::new(&wide(), Ecn::NotEct);
    drill.full_rounds(5);
    drill.queue = Duration::from_millis(29);
    let mut has_drained = false;
    for _ in 0..400 {
        drill.round(&[OK; 3]);
        has_drained |= drill.scream.delays.is_draining(drill.now);
    }
    assert!(has_drained);
    assert!(drill.scream.delays.qdelay < 1e-6, "the base delay is new");
}

#[test]
fn settings_out_of_range_are_one_sentence() {
    let message = |config: Config| config.check().unwrap_err();
    let default = Config::default();
    assert_eq!(default.check(), Ok(()));
    let beta = message(Config { beta_loss: 0.0, ..default });
    assert_eq!(beta, "beta_loss = 0 is out of range; it must be from 0.1 to 1");
    let target = message(Config { qdelay_target_lo: Duration::from_millis(500), ..default });
    assert_eq!(target, "qdelay_target_lo = \"500 ms\" is above qdelay_target_hi = \"400 ms\"");
    let mss = message(Config { mss: Bytes(10), ..default });
    assert_eq!(mss, "mss = \"10 B\" is out of range; it must be from 100 B to 1 MB");
    let overhead = message(Config { ref_wnd_overhead_min: 4.0, ..default });
    assert_eq!(overhead, "ref_wnd_overhead_min = 4 is above ref_wnd_overhead_max = 3");
}
