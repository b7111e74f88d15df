//! BBR, version 3, over one bottleneck.

use super::super::Rules;
use super::super::testing::{Path, Sender, build};
use super::*;

fn sender(buffer: usize, loses: fn(u64) -> bool) -> Sender {
    let path = Path { loses, ..Path::new(1_000.0, Duration::from_millis(100), buffer) };
    Sender::new(build(Config::default(), Rules::Linux6, 10), path)
}

#[test]
fn converges_to_the_bottlenecks_rate() {
    let mut sender = sender(1_000, |_| false);
    sender.run(Duration::from_secs(30));
    let skip = Duration::from_secs(5);
    assert!(sender.goodput_after(skip) > 960.0, "{}", sender.goodput_after(skip));
    let most = sender.after(skip).map(|sample| sample.outstanding).fold(0.0, f64::max);
    // 2.25 times 102 and two segments in the probing phase.
    assert!(most <= 2.25 * 102.0 + 4.0, "{most}");
    let rtt = sender.mean_after(skip, |sample| sample.rtt.as_millis_f64());
    assert!(rtt < 115.0, "{rtt}");
    assert_eq!(sender.drops, 0);
}

#[test]
fn goes_through_the_phases_of_a_cycle_and_probes_the_round_trip_time_every_five_seconds() {
    let mut sender = sender(1_000, |_| false);
    sender.run(Duration::from_secs(20));
    let mut phases: Vec<&str> = sender.samples.iter().map(|sample| sample.phase).collect();
    phases.dedup();
    let begin = ["startup", "drain", "probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up"];
    assert_eq!(phases[..6], begin);
    let probes: Vec<Time> = sender
        .samples
        .windows(2)
        .filter(|pair| pair[0].phase != "probe_rtt" && pair[1].phase == "probe_rtt")
        .map(|pair| pair[1].at)
        .collect();
    assert!((2..=4).contains(&probes.len()), "{probes:?}");
    let low = sender.samples.iter().filter(|sample| sample.phase == "probe_rtt");
    assert!(low.map(|sample| sample.cwnd).fold(0.0, f64::max) <= 52.0, "half a bandwidth-delay product");
}

#[test]
fn a_shallow_buffer_bounds_what_is_on_its_way() {
    // The path holds 100 packets, and the queue 20 more.
    let mut sender = sender(20, |_| false);
    sender.run(Duration::from_secs(40));
    let skip = Duration::from_secs(20);
    let drops = sender.drops as f64 / sender.samples.len() as f64;
    assert!(drops < 0.03, "{drops}");
    assert!(sender.goodput_after(skip) > 850.0, "{}", sender.goodput_after(skip));
    let outstanding = sender.mean_after(skip, |sample| sample.outstanding);
    assert!(outstanding < 122.0, "{outstanding}");
}

#[test]
fn losses_below_the_threshold_do_not_slow_it_down() {
    let mut sender = sender(1_000, |n| n % 200 == 199);
    sender.run(Duration::from_secs(30));
    assert!(sender.goodput_after(Duration::from_secs(5)) > 850.0);
}

#[test]
fn the_handshakes_round_trip_time_is_the_first_smallest_one() {
    let mut bbr = Config::default().build(&Setup {
        mss: 1_000,
        initial_cwnd: 10_000,
        rules: Rules::Linux6,
        seed: 1,
        is_paced: false,
        headers: 0,
    });
    let handshake = Duration::from_millis(40);
    bbr.on_rtt_sample(&RttEvent::new(Time::from_secs(1), handshake));
    let data = Duration::from_millis(80);
    bbr.on_ack(&AckEvent { rtt: Some(data), ..AckEvent::new(Time::from_secs(2), 1_000, 10_000) });
    assert_eq!((bbr.min_rtt, bbr.probe_rtt_min), (Some(handshake), Some(handshake)));
    assert_eq!(bbr.probe_rtt_min_at, Time::from_secs(1));
}

#[test]
fn a_loss_that_no_acknowledgement_shows_marks_the_round() {
    let mut bbr = Config::default().build(&Setup {
        mss: 1_000,
        initial_cwnd: 10_000,
        rules: Rules::Linux6,
        seed: 1,
        is_paced: false,
        headers: 0,
    });
    bbr.on_ack(&AckEvent::new(Time::from_secs(1), 4_000, 10_000));
    // The reordering timer finds the loss.
    bbr.on_lost(&LostEvent::new(Time::from_secs(2), 1_000));
    assert!(bbr.loss_in_round);
    assert_eq!(bbr.loss_round_ends_at, 4_000, "from what is delivered by now");
}

#[test]
fn a_loss_while_probing_says_at_which_flight_there_was_too_much() {
    let mut bbr = Config::default().build(&Setup {
        mss: 1_000,
        initial_cwnd: 10_000,
        rules: Rules::Linux6,
        seed: 1,
        is_paced: false,
        headers: 0,
    });
    bbr.samples_are_probes = true;
    let lost =
        |lost| LostEvent { outstanding_at_send: 100_000, lost, ..LostEvent::new(Time::from_secs(1), 1_000) };
    bbr.on_lost(&lost(2_000));
    assert_eq!(bbr.inflight_hi, NONE, "2 % are not too much");
    bbr.on_lost(&lost(3_000));
    // `bbr_inflight_hi_from_lost_skb`: 99 segments before it, of which two were lost.
    assert_eq!(bbr.inflight_hi, 99_000);
}
