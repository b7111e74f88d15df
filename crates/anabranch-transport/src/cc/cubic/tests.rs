//! Both forms of CUBIC against the functions that they come from.

use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose, ssthresh};
use super::super::{CongestionControl as _, CongestionKind, Controller, IdleEvent, UndoEvent};
use super::*;

const RTT: Duration = Duration::from_millis(100);

/// After a loss at a window of `initial` segments.
fn after_loss(config: Config, rules: Rules, initial: u32) -> (Controller, Rounds) {
    let mut control = build(config, rules, initial);
    let mut rounds = Rounds::new(RTT);
    rounds.ack(&mut control, 0, RTT);
    lose(&mut control, rounds.now);
    (control, rounds)
}

/// RFC 9438 section 4.2: W(t) = C (t - K)^3 + `W_max`, first concave, then convex.
#[test]
fn the_window_follows_the_cubic_function() {
    for rules in [Rules::Linux6, Rules::Rfc] {
        let config = Config { tcp_friendliness: false, ..Config::default() };
        let (mut control, mut rounds) = after_loss(config, rules, 400);
        let begin = f64::from(cwnd(&control));
        assert_eq!(begin, 280.0);
        let start = rounds.now;
        let k = libm::cbrt((400.0 - begin) / 0.4);
        let end = start + Duration::from_secs(14);
        while rounds.now < end {
            rounds.round(&mut control);
            let t = rounds.now.saturating_since(start).as_secs_f64() - k;
            let expected = 0.4 * t * t * t + 400.0;
            let window = f64::from(cwnd(&control));
            assert!((window / expected - 1.0).abs() < 0.02, "{window} for {expected}, {rules:?}");
        }
        assert!(cwnd(&control) > 520, "beyond the last maximum");
    }
}

/// RFC 9438 section 5.1: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4).
#[test]
fn the_mean_window_follows_the_response_function() {
    for rules in [Rules::Linux6, Rules::Rfc] {
        let path = Path { loses: |n| n % 10_000 == 9_999, ..Path::new(1e6, RTT, usize::MAX) };
        // The formula leaves out fast convergence, and the mean is approached slowly.
        let config = Config { fast_convergence: false, ..Config::default() };
        let mut control = build(config, rules, 200);
        lose(&mut control, Time::ZERO);
        let mut sender = Sender::new(control, path);
        sender.run(Duration::from_secs(400));
        let window = sender.goodput_after(Duration::from_secs(100)) * RTT.as_secs_f64();
        let law = libm::pow(0.4 * 3.7 / (4.0 * 0.3), 0.25) * libm::pow(0.1 * 10_000.0, 0.75);
        assert!((window / law - 1.0).abs() < 0.06, "{window} instead of {law}, {rules:?}");
    }
}

/// RFC 9438 section 4.3: where Reno's window would be larger, CUBIC has Reno's.
#[test]
fn a_short_path_is_shared_as_reno_shares_it() {
    let rtt = Duration::from_millis(10);
    for rules in [Rules::Linux6, Rules::Rfc] {
        let path = Path { loses: |n| n % 1_000 == 999, ..Path::new(1e6, rtt, usize::MAX) };
        let mut sender = Sender::new(build(Config::default(), rules, 10), path);
        sender.run(Duration::from_secs(60));
        let window = sender.goodput_after(Duration::from_secs(10)) * rtt.as_secs_f64();
        let law = libm::sqrt(1.5 * 1_000.0);
        assert!((window / law - 1.0).abs() < 0.12, "{window} instead of {law}, {rules:?}");
    }
}

/// Chromium's `CubicBytes`: two connections leave 0.85 of the window, and have twice Reno's where Reno is
/// ahead.
#[test]
fn two_connections_are_as_two() {
    let config = Config { connections: 2, ..Config::default() };
    let mut control = build(config, Rules::Rfc, 1_000);
    lose(&mut control, Time::from_secs(1));
    assert_eq!(cwnd(&control), 850);
    let rtt = Duration::from_millis(10);
    let path = Path { loses: |n| n % 1_000 == 999, ..Path::new(1e6, rtt, usize::MAX) };
    let mut sender = Sender::new(build(config, Rules::Rfc, 10), path);
    sender.run(Duration::from_secs(60));
    let window = sender.goodput_after(Duration::from_secs(10)) * rtt.as_secs_f64();
    // alpha (1 + beta) / (2 (1 - beta)) is 3/2 N^2.
    let law = 2.0 * libm::sqrt(1.5 * 1_000.0);
    assert!((window / law - 1.0).abs() < 0.12, "{window} instead of {law}");
}

#[test]
fn decrease_and_fast_convergence() {
    for (rules, first, second) in
        [(Rules::Linux6, 700, 490), (Rules::Rfc, 700, 490), (Rules::Linux2620, 799, 639)]
    {
        let mut control = build(Config::default(), rules, 1_000);
        lose(&mut control, Time::from_secs(1));
        assert_eq!(cwnd(&control), first, "{rules:?}");
        lose(&mut control, Time::from_secs(2));
        assert!(cwnd(&control).abs_diff(second) <= 1, "{rules:?}");
    }
    // The second loss is below the first maximum of 1000: the maximum is then 700 x 1.7 / 2 = 595.
    let config = Config { tcp_friendliness: false, ..Config::default() };
    for (fast_convergence, max) in [(true, 595.0), (false, 700.0)] {
        let (mut control, mut rounds) =
            after_loss(Config { fast_convergence, ..config }, Rules::Linux6, 1_000);
        lose(&mut control, rounds.now);
        // The window is flat at the maximum, K after the loss.
        let k = libm::cbrt((max - 490.0) / 0.4);
        let end = rounds.now + Duration::from_secs_f64(k);
        while rounds.now < end {
            rounds.round(&mut control);
        }
        assert!((f64::from(cwnd(&control)) - max).abs() < 3.0, "{} for {max}", cwnd(&control));
    }
}

#[test]
fn the_first_version_starts_with_a_threshold_and_limits_its_growth() {
    let mut control = build(Config::default(), Rules::Linux2620, 10);
    assert_eq!(ssthresh(&control), 100);
    let mut rounds = Rounds::new(RTT);
    for _ in 0..4 {
        rounds.round(&mut control);
    }
    // Slow start goes up to the threshold; then the window grows by one per 50 x 16 / 31 + 1 = 26.
    assert_eq!(cwnd(&control), 103);
    // Far below the maximum, the window grows by at most 16 segments per 100 ms.
    let (mut control, mut rounds) = after_loss(Config::default(), Rules::Linux2620, 20_000);
    for _ in 0..30 {
        let before = cwnd(&control);
        rounds.round(&mut control);
        assert!(cwnd(&control) - before <= 34, "{}", cwnd(&control) - before);
    }
}

#[test]
fn a_timeout_forgets_the_maximum() {
    let (mut control, mut rounds) = after_loss(Config::default(), Rules::Linux6, 1_000);
    control.on_congestion(&CongestionEvent::new(rounds.now, CongestionKind::Timeout, 0));
    assert_eq!((cwnd(&control), ssthresh(&control)), (1, 490));
    while cwnd(&control) < 490 {
        rounds.round(&mut control);
    }
    let begin = cwnd(&control);
    rounds.round(&mut control);
    // Without a maximum to aim at, the window grows by one per 20.
    assert!(cwnd(&control) >= begin + begin / 21, "{} after {begin}", cwnd(&control));
}

#[test]
fn the_curve_stands_still_while_nothing_is_sent() {
    let growth = |idle: bool| {
        let (mut control, mut rounds) = after_loss(Config::default(), Rules::Linux6, 1_000);
        rounds.round(&mut control);
        let event = |now| super::super::SentEvent::new(now, 1_000, 1_000);
        control.on_sent(&event(rounds.now));
        if idle {
            rounds.now += Duration::from_secs(30);
        }
        control.on_sent(&event(rounds.now));
        let begin = cwnd(&control);
        for _ in 0..5 {
            rounds.round(&mut control);
        }
        cwnd(&control) - begin
    };
    assert_eq!(growth(true), growth(false));
}

#[test]
fn impossible_settings_are_one_sentence() {
    let message = Config { beta: Some(1.5), ..Config::default() }.check().unwrap_err();
    assert_eq!(message, "beta = 1.5 is out of range; it must be from 0.1 to 0.95");
}

/// Settings with which the window is that of Reno's estimate, and the rounds that it needs for each of the
/// next windows.
const RENO_FRIENDLY: Config = Config {
    c: 0.01,
    beta: None,
    fast_convergence: true,
    tcp_friendliness: true,
    connections: 1,
    slow_start: None,
};

fn rounds_to(control: &mut Controller, rounds: &mut Rounds, window: u32) -> u32 {
    let mut count = 0;
    while cwnd(control) < window {
        rounds.round(control);
        count += 1;
    }
    count
}

/// RFC 9438 section 4.3: alpha is 3 (1 - 0.7) / (1 + 0.7) = 0.529 until Reno's window has come to that before
/// the last reduction, also where fast convergence has lowered `W_max`, and 1 from then on.
#[test]
fn rfc9438_4_3_alpha_is_one_from_the_window_before_the_reduction_on() {
    let (mut control, mut rounds) = after_loss(RENO_FRIENDLY, Rules::Rfc, 300);
    // The second loss finds 210 segments, less than 300: W_max = 0.85 x 210 = 178.
    lose(&mut control, rounds.now);
    assert_eq!(cwnd(&control), 147);
    let slow = rounds_to(&mut control, &mut rounds, 210);
    assert!(slow.abs_diff(119) <= 1, "{slow} rounds for 63 segments of 0.529 each");
    let fast = rounds_to(&mut control, &mut rounds, 240);
    assert!(fast.abs_diff(30) <= 1, "{fast} rounds for 30 segments");
}

/// RFC 9438 sections 4.3 and 4.8: a timeout makes `W_max` the window at the end of the slow start, and leaves
/// `cwnd_prior`.
#[test]
fn rfc9438_4_8_a_timeout_leaves_the_window_before_it() {
    let mut control = build(RENO_FRIENDLY, Rules::Rfc, 100);
    let mut rounds = Rounds::new(RTT);
    rounds.ack(&mut control, 0, RTT);
    control.on_congestion(&CongestionEvent::new(rounds.now, CongestionKind::Timeout, 0));
    assert_eq!((cwnd(&control), ssthresh(&control)), (1, 70));
    rounds_to(&mut control, &mut rounds, 71);
    let slow = rounds_to(&mut control, &mut rounds, 100);
    assert!(slow.abs_diff(55) <= 2, "{slow} rounds for 29 segments of 0.529 each");
    let fast = rounds_to(&mut control, &mut rounds, 110);
    assert!(fast.abs_diff(10) <= 1, "{fast} rounds for 10 segments");
}

/// RFC 9438 section 4.3, Figure 4: `W_est` counts the segments that are acknowledged, however many
/// acknowledgements there are.
#[test]
fn rfc9438_4_3_delayed_acknowledgements_do_not_slow_reno_down() {
    let (mut control, mut rounds) = after_loss(RENO_FRIENDLY, Rules::Rfc, 200);
    lose(&mut control, rounds.now);
    assert_eq!(cwnd(&control), 98);
    for _ in 0..75 {
        rounds.delayed(&mut control, 1);
    }
    let grown = cwnd(&control) - 98;
    assert!((39..=40).contains(&grown), "{grown} for 0.529 x 75 = 39.7");
}

/// RFC 9438 section 4.9.2: after an undo the window goes on as if nothing had been detected. In Linux the
/// curve begins anew.
#[test]
fn rfc9438_4_9_2_an_undo_restores_the_curve() {
    for kind in [CongestionKind::FastRetransmit, CongestionKind::Timeout] {
        let run = |rules, is_mistaken: bool| {
            let (mut control, mut rounds) = after_loss(Config::default(), rules, 1_000);
            for _ in 0..30 {
                rounds.round(&mut control);
            }
            if is_mistaken {
                control.on_congestion(&CongestionEvent::new(rounds.now, kind, 0));
                control.on_undo(&UndoEvent::new(rounds.now));
            }
            let mut windows = vec![(cwnd(&control), ssthresh(&control))];
            for _ in 0..100 {
                rounds.round(&mut control);
                windows.push((cwnd(&control), ssthresh(&control)));
            }
            windows
        };
        let expected = run(Rules::Rfc, false);
        assert_eq!(run(Rules::Rfc, true), expected, "{kind:?}");
        assert!(expected[100].0 > 1_010, "beyond the last maximum");
        let (linux, undone) = (run(Rules::Linux6, false), run(Rules::Linux6, true));
        assert_eq!(undone[0].0, linux[0].0, "{kind:?}");
        assert_ne!(undone[50].0, linux[50].0, "{kind:?}");
    }
}

/// RFC 9438 section 4.9.2: a window that has come beyond the one before the reduction stays on its curve.
#[test]
fn rfc9438_4_9_2_a_late_undo_changes_nothing() {
    let run = |is_undone: bool| {
        let (mut control, mut rounds) = after_loss(Config::default(), Rules::Rfc, 100);
        while cwnd(&control) <= 100 {
            rounds.round(&mut control);
        }
        if is_undone {
            control.on_undo(&UndoEvent::new(rounds.now));
        }
        rounds.round(&mut control);
        cwnd(&control)
    };
    assert_eq!(run(true), run(false));
}

/// RFC 9438 section 4.2: the target is the curve one smoothed round-trip time ahead, whatever the last
/// round-trip time was; a rise of the delay for a moment makes no window leap.
#[test]
fn rfc9438_4_2_the_target_is_one_smoothed_round_trip_time_ahead() {
    let grown = |last: Duration| {
        let config = Config { tcp_friendliness: false, ..Config::default() };
        let (mut control, mut rounds) = after_loss(config, Rules::Rfc, 400);
        rounds.round_with(&mut control, last);
        cwnd(&control) - 280
    };
    // W(t) = 0.4 (t - K)^3 + 400 with K = 6.69 s rises by 5.3 segments in the first 100 ms.
    assert_eq!([RTT, Duration::from_secs(1)].map(grown), [5, 5]);
}

/// RFC 9438 section 4.2: a slow start, here that of a sender that was idle (RFC 5681 section 4.1), ends the
/// stage of congestion avoidance. The next one begins on the curve at the window that the slow start came to.
#[test]
fn rfc9438_4_2_a_stage_begins_after_each_slow_start() {
    let config = Config { slow_start: Some(SlowStart::Standard), ..Config::default() };
    let mut control = build(config, Rules::Rfc, 10);
    let mut rounds = Rounds::new(RTT);
    rounds_to(&mut control, &mut rounds, 1_280);
    lose(&mut control, rounds.now);
    for _ in 0..20 {
        rounds.round(&mut control);
    }
    control.on_idle(&IdleEvent::new(Duration::from_secs(60), Duration::from_secs(1)));
    assert_eq!(cwnd(&control), 10);
    rounds.idle(&mut control, Duration::from_secs(60));
    let threshold = ssthresh(&control);
    rounds_to(&mut control, &mut rounds, threshold);
    let (start, begin) = (rounds.now, f64::from(cwnd(&control)));
    assert!((896.0..1_000.0).contains(&begin), "{begin}");
    let k = libm::cbrt((1_280.0 - begin) / 0.4);
    for _ in 0..150 {
        rounds.round(&mut control);
        let t = rounds.now.saturating_since(start).as_secs_f64() - k;
        let expected = 0.4 * t * t * t + 1_280.0;
        let window = f64::from(cwnd(&control));
        assert!((window / expected - 1.0).abs() < 0.02, "{window} for {expected}");
    }
}
