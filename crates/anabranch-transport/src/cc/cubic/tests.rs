//! Both forms of CUBIC against the functions that they come from.

use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose, ssthresh};
use super::super::{CongestionControl as _, CongestionKind, Controller};
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
