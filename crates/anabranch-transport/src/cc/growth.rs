//! What windows grow by, and what they return to: properties of every control with the RFCs' rules, each
//! exception with its source.

use proptest::prelude::*;

use super::properties::{all, path_setup};
use super::testing::{MSS, Rounds, build, cwnd, lose, ssthresh};
use super::{
    Config, CongestionControl as _, CongestionEvent, CongestionKind, Controller, RecoveryEndEvent, Response,
    Rules, UndoEvent, coupled, cubic, ledbat,
};
use crate::flow::PathId;
use crate::time::{Duration, Time};

/// The controls that have a window of their own: BBR's follow from rates, whatever is acknowledged together.
fn windows() -> Vec<Config> {
    let mut windows = all();
    windows.retain(|config| !matches!(config, Config::Bbr(_) | Config::Bbr3(_)));
    // CUBIC where Reno's window is the larger one (RFC 9438 section 4.3).
    windows.push(Config::Cubic(cubic::Config { c: 0.01, ..cubic::Config::default() }));
    windows
}

/// The same without LEDBAT++, which slows down from time to time, whatever it has sent (section 4.4 of its
/// draft).
fn untimed() -> Vec<Config> {
    let mut untimed = windows();
    untimed.retain(
        |config| !matches!(config, Config::Ledbat(it) if it.variant == ledbat::Variant::LedbatPlusPlus),
    );
    untimed
}

/// What a control's source has its window grow with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// Segments or bytes, or once per round.
    Segments,
    /// Acknowledgements, of new data each.
    Acknowledgements,
    /// Time and acknowledgements.
    Time,
}

/// RFC 5681 equation 3, which RFC 8257 (section 3.5), Westwood+ and Veno keep; RFC 3649 section 5 ("for each
/// ACK"); Kelly (0.01 for each), and so YeAH; Caini and Firrincieli, equation 8; Xu, Harfoush and Rhee, whose
/// window goes to its goal by a share per acknowledgement, as CUBIC's does (RFC 9438 section 4.2: "for each
/// ACK"), but not where it is Reno's (section 4.3: `segments_acked`).
fn counts(config: &Config) -> Counts {
    match config {
        Config::Cubic(cubic) if cubic.c < 0.1 => Counts::Segments,
        Config::Cubic(_) => Counts::Time,
        Config::Bic(_)
        | Config::Dctcp(_)
        | Config::Highspeed(_)
        | Config::Hybla(_)
        | Config::Reno(_)
        | Config::Scalable(_)
        | Config::Veno(_)
        | Config::Westwood(_)
        | Config::Yeah(_) => Counts::Acknowledgements,
        _ => Counts::Segments,
    }
}

/// A control after a loss, with a window of about so many segments.
fn after_loss(config: &Config, segments: u32, rtt: Duration) -> (Controller, Rounds) {
    let mut control = build(config.clone(), Rules::Rfc, segments);
    let mut rounds = Rounds::new(rtt);
    rounds.round(&mut control);
    lose(&mut control, rounds.now);
    (control, rounds)
}

/// A pause of a sender: idle, or with a segment per round.
#[derive(Clone, Copy, Debug)]
enum Pause {
    Idle,
    Unused,
}

/// The window after rounds that are used, each followed by a pause of so many rounds where `pauses` is true.
fn after_pauses(
    mut control: Controller,
    rtt: Duration,
    course: &[(u32, Pause, u32)],
    pauses: bool,
) -> Vec<u32> {
    let mut rounds = Rounds::new(rtt);
    rounds.round(&mut control);
    lose(&mut control, rounds.now);
    course
        .iter()
        .map(|&(used, pause, unused)| {
            (0..used).for_each(|_| rounds.round(&mut control));
            match pause {
                _ if !pauses => {}
                Pause::Idle => rounds.idle(&mut control, rtt * u64::from(unused)),
                Pause::Unused => rounds.unused(&mut control, rtt * u64::from(unused)),
            }
            cwnd(&control)
        })
        .collect()
}

fn courses() -> impl Strategy<Value = Vec<(u32, Pause, u32)>> {
    let pause = prop_oneof![Just(Pause::Idle), Just(Pause::Unused)];
    prop::collection::vec((1_u32..20, pause, 1_u32..200), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(16),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A round of delayed acknowledgements grows a window as one of single ones does, if its source counts
    /// segments; as many acknowledgements grow it by as much, if it counts them. With RFC 3465's counting of
    /// bytes the first holds for all but Hybla, which knows none.
    #[test]
    fn delayed_acknowledgements_count_as_the_source_has_it(
        segments in 20_u32..400,
        millis in 5_u64..200,
        rounds in 3_u32..40,
    ) {
        for config in untimed() {
            let is_slow = matches!(&config, Config::Cubic(cubic) if cubic.c < 0.1);
            let rtt = Duration::from_millis(if is_slow { millis.min(10) } else { millis });
            let grown = |round: &dyn Fn(&mut Rounds, &mut Controller)| {
                let (mut control, mut clock) = after_loss(&config, segments, rtt);
                let before = cwnd(&control);
                (0..rounds).for_each(|_| round(&mut clock, &mut control));
                f64::from(cwnd(&control)) - f64::from(before)
            };
            let single = grown(&|clock, control| clock.round(control));
            let are_equal = |other: f64| (other - single).abs() <= 2.0 + 0.05 * single.abs();
            let delayed = grown(&|clock, control| clock.delayed(control, 1));
            let counted = grown(&|clock, control| clock.delayed(control, 2));
            let message = format!("{config:?}: {single}, delayed {delayed}, with bytes counted {counted}");
            match counts(&config) {
                Counts::Segments => prop_assert!(are_equal(delayed), "{message}"),
                Counts::Acknowledgements => {
                    let [one, two] = [1, 2].map(|each| {
                        let (mut control, mut clock) = after_loss(&config, segments, rtt);
                        for _ in 0..rounds * segments {
                            clock.now += Duration::from_nanos(rtt.as_nanos() / u64::from(segments));
                            clock.ack_as(&mut control, each, 1, rtt);
                        }
                        cwnd(&control)
                    });
                    prop_assert_eq!(one, two, "{:?}", config);
                    prop_assert!(delayed <= single, "{message}");
                }
                Counts::Time => prop_assert!(delayed <= single + 1.0, "{message}"),
            }
            prop_assert!(are_equal(counted) || matches!(config, Config::Hybla(_)), "{message}");
        }
    }

    /// Time in which the window does not limit the sender never counts, however often it comes: after each
    /// stage the window is no larger than without all the pauses (RFC 9438 sections 4.2 and 5.8, RFC 7661).
    #[test]
    fn unused_time_never_counts(
        segments in 20_u32..200,
        millis in 5_u64..200,
        course in courses(),
    ) {
        let rtt = Duration::from_millis(millis);
        let compare = |name: &str, control: &dyn Fn() -> Controller| {
            let expected = after_pauses(control(), rtt, &course, false);
            let found = after_pauses(control(), rtt, &course, true);
            for (stage, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // Each pause may leave the window a segment further in its count.
                prop_assert!(*found <= expected + stage as u32 + 1, "{name}, stage {stage}: {found} {expected}");
            }
            Ok(())
        };
        for config in untimed() {
            compare(&format!("{config:?}"), &|| build(config.clone(), Rules::Rfc, segments))?;
        }
        for config in coupled::Config::all() {
            for is_tcp in [true, false] {
                compare(&format!("{config:?}, in TCP: {is_tcp}"), &|| {
                    let group = coupled::Group::new(config.build());
                    let setup = path_setup(is_tcp);
                    let _other = group.join(PathId(1), &setup);
                    Controller::Coupled(group.join(PathId(0), &setup))
                })?;
            }
        }
    }

    /// After a spurious timeout every window of TCP is what the response says (RFC 4015 section 3.1 step 9),
    /// alone or coupled, once.
    #[test]
    fn the_response_to_a_spurious_timeout_is_the_window(
        segments in 20_u32..200,
        flight in 1_u32..100,
        threshold in prop_oneof![Just(u32::MAX), 2 * MSS..1_000 * MSS],
        used in 0_u32..20,
    ) {
        let response = Response { cwnd: flight * MSS, ssthresh: threshold };
        let check = |name: &str, mut control: Controller| {
            let mut rounds = Rounds::new(Duration::from_millis(50));
            rounds.round(&mut control);
            lose(&mut control, rounds.now);
            (0..used).for_each(|_| rounds.round(&mut control));
            let timeout = CongestionEvent::new(rounds.now, CongestionKind::Timeout, cwnd(&control) * MSS);
            control.on_congestion(&timeout);
            prop_assert_eq!(cwnd(&control), 1, "{}", name);
            let undo = UndoEvent { response: Some(response), ..UndoEvent::new(rounds.now) };
            control.on_undo(&undo);
            let expected = (flight, if threshold == u32::MAX { u32::MAX / MSS } else { threshold / MSS });
            prop_assert_eq!((cwnd(&control), ssthresh(&control)), expected, "{}", name);
            let other = Response { cwnd: 2 * MSS, ssthresh: 2 * MSS };
            control.on_undo(&UndoEvent { response: Some(other), ..UndoEvent::new(rounds.now) });
            prop_assert_eq!((cwnd(&control), ssthresh(&control)), expected, "{}, once", name);
            Ok(())
        };
        for config in windows().into_iter().filter(|config| !matches!(config, Config::Sctp(_))) {
            check(&format!("{config:?}"), build(config, Rules::Rfc, segments))?;
        }
        for config in coupled::Config::all() {
            let group = coupled::Group::new(config.build());
            let setup = path_setup(true);
            let _other = group.join(PathId(1), &setup);
            check(&format!("{config:?}"), Controller::Coupled(group.join(PathId(0), &setup)))?;
        }
    }
}

/// A reduction of a window of so many segments, and the recovery after it.
fn reduce(control: &mut Controller, kind: CongestionKind, segments: u32) {
    control.on_congestion(&CongestionEvent::new(Time::ZERO, kind, segments * MSS));
    control.on_recovery_end(&RecoveryEndEvent::new(Time::ZERO, segments * MSS));
}

/// RFC 9438 sections 4.3 and 4.7: `cwnd_prior`, where alpha becomes 1, is the window before the last
/// reduction, whatever `W_max` fast convergence makes of it, and a timeout leaves none of the two.
#[test]
fn cubics_alpha_is_one_from_the_window_before_the_last_reduction_on() {
    for (first, second) in [(400, 0), (400, 300), (200, 150), (100, 99)] {
        for is_timeout in [false, true] {
            let config = cubic::Config { c: 0.01, ..cubic::Config::default() };
            let mut control = build(config, Rules::Rfc, first);
            let mut rounds = Rounds::new(Duration::from_millis(20));
            lose(&mut control, rounds.now);
            let mut rounds_to = |control: &mut Controller, window: u32| {
                let count = (0..10_000).take_while(|_| {
                    let goes_on = cwnd(control) < window;
                    if goes_on {
                        rounds.round(control);
                    }
                    goes_on
                });
                f64::from(count.count() as u32)
            };
            let mut prior = first;
            if second > 0 {
                rounds_to(&mut control, second);
                prior = cwnd(&control);
                let kind = if is_timeout { CongestionKind::Timeout } else { CongestionKind::FastRetransmit };
                reduce(&mut control, kind, prior);
            }
            // Growth in the last tenth below the window before the reduction, and in the first one above it.
            rounds_to(&mut control, prior * 9 / 10);
            let below = f64::from(prior - prior * 9 / 10) / rounds_to(&mut control, prior);
            let above = f64::from(prior / 10) / rounds_to(&mut control, prior + prior / 10);
            let message = format!("{first} {second} {is_timeout}: {below} {above}");
            assert!((below - 0.53).abs() < 0.06 && (above - 1.0).abs() < 0.12, "{message}");
        }
    }
}
