//! Rules of both variants, each beside its text.

use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;

use super::*;
use crate::net::qdisc::testing::{packet, place};

const MILLI: u64 = 1_000_000;

fn dualpi2() -> DualPi2 {
    DualPi2Config::default().build(place()).unwrap()
}

fn with_ecn(slot: u32, now: u64, ecn: Ecn) -> Held {
    Held { ecn, ..packet(slot, now, 0) }
}

/// RFC 9332 appendix A.1: an update each 15 ms, alpha = 0.1 x 0.015 / 0.01 = 0.15 and beta = 3 per
/// second.
#[test]
fn the_probability_follows_the_delay() {
    let mut queue = dualpi2();
    assert_eq!(queue.base.update, 15 * MILLI);
    let mut drops = Drops::default();
    // The packet has waited for 10 ms at the first update, 25 ms at the second.
    queue.enqueue(5 * MILLI, packet(0, 5 * MILLI, 0), &mut drops);
    queue.update_until(30 * MILLI);
    let first = (0.15 * (0.010 - 0.015) + 3.0 * 0.010_f64).max(0.0);
    let second = first + 0.15 * (0.025 - 0.015) + 3.0 * 0.015;
    assert!((queue.base.probability - second).abs() < 1e-12, "{}", queue.base.probability);
}

#[test]
fn ect1_and_ce_are_l4s() {
    let mut queue = dualpi2();
    let mut drops = Drops::default();
    for (slot, ecn) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().enumerate() {
        queue.enqueue(0, with_ecn(slot as u32, 0, ecn), &mut drops);
    }
    // The L4S queue is served first.
    let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(0, &mut drops)).map(|p| p.slot).collect();
    assert_eq!(sent, [2, 3, 0, 1]);
}

/// Lets `count` packets of a kind pass; gives how many are marked, and dropped.
fn pass(queue: &mut DualPi2, ecn: Ecn, count: u32) -> (u32, usize) {
    let (mut drops, mut marked) = (Drops::default(), 0);
    queue.base.next_update = u64::MAX;
    for slot in 0..count {
        queue.enqueue(0, with_ecn(slot, 0, ecn), &mut drops);
        marked += u32::from(queue.dequeue(0, &mut drops).is_some_and(|packet| packet.is_marked()));
    }
    (marked, drops.0.len())
}

/// The classic queue drops with p'^2, and L4S is marked with k p' (section 2.1, equation 1): 4 % and 40 %
/// at p' = 0.2.
#[test]
fn probabilities_are_coupled() {
    let mut queue = dualpi2();
    queue.base.probability = 0.2;
    assert!(pass(&mut queue, Ecn::NotEct, 10_000).1.abs_diff(400) <= 1);
    assert!(pass(&mut queue, Ecn::Ect0, 10_000).0.abs_diff(400) <= 1);
    let (marked, dropped) = pass(&mut queue, Ecn::Ect1, 10_000);
    assert!(marked.abs_diff(4000) <= 1 && dropped == 0, "{marked} {dropped}");
}

/// At p' = 0.6, k p' is above 1: 36 % of everything is dropped, and what is left of L4S is marked.
#[test]
fn overload_drops_what_marks_cannot_hold() {
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let mut queue = dualpi2();
        queue.base.probability = 0.6;
        let (marked, dropped) = pass(&mut queue, ecn, 10_000);
        assert!(dropped.abs_diff(3600) <= 1, "{ecn:?} {dropped}");
        let kept = if ecn == Ecn::Ect1 { 6400 } else { 0 };
        assert!(marked.abs_diff(kept) <= 1, "{ecn:?} {marked}");
    }
}

#[test]
fn l4s_packets_are_marked_from_the_step_on() {
    let mut queue = dualpi2();
    let mut drops = Drops::default();
    for slot in 0..5 {
        queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
    }
    let mut marks = |now| queue.dequeue(now, &mut drops).unwrap().is_marked();
    assert!(!marks(MILLI - 1));
    assert!(!marks(MILLI), "the first of them makes a whole with the next");
    assert!(marks(MILLI));
    // At most one packet waits behind.
    assert!(!marks(2 * MILLI));
}

/// With both queues always full, nine of ten packets come from the L4S queue, and the classic queue is
/// not starved.
#[test]
fn queues_share_by_weight() {
    let mut queue = dualpi2();
    let mut drops = Drops::default();
    queue.base.next_update = u64::MAX;
    let mut classic = 0;
    for slot in 0..2000 {
        queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
        queue.enqueue(0, with_ecn(slot, 0, Ecn::NotEct), &mut drops);
    }
    for _ in 0..1000 {
        classic += u32::from(queue.dequeue(0, &mut drops).unwrap().ecn == Ecn::NotEct);
    }
    assert_eq!(classic, 100);
}

/// A queue that was alone has used up nothing: after a thousand packets of L4S, the classic queue waits
/// for its turn.
#[test]
fn a_queue_that_is_alone_keeps_its_credit() {
    let mut queue = dualpi2();
    let mut drops = Drops::default();
    queue.base.next_update = u64::MAX;
    for slot in 0..1010 {
        queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
    }
    for _ in 0..1000 {
        queue.dequeue(0, &mut drops);
    }
    queue.enqueue(0, with_ecn(2000, 0, Ecn::NotEct), &mut drops);
    queue.enqueue(0, with_ecn(2001, 0, Ecn::NotEct), &mut drops);
    let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(0, &mut drops)).map(|p| p.slot).collect();
    // The L4S queue is 1500 B x 80 % ahead, and the classic queue gains a tenth of each packet, so it has
    // its turn after the ninth.
    let position = sent.iter().position(|&slot| slot == 2000).unwrap();
    assert_eq!((position, sent.len()), (9, 12), "{sent:?}");
}

#[test]
fn updates_at_rest_are_skipped() {
    let mut queue = dualpi2();
    queue.update_until(1_000_000_000_000_007);
    let next = queue.base.next_update;
    assert!(
        next > 1_000_000_000_000_007 && next <= 1_000_015_000_000_007 && next.is_multiple_of(15 * MILLI),
        "{next}"
    );
}

fn linux() -> DualPi2Config {
    DualPi2Config { variant: DualPi2Variant::Linux, ..Default::default() }
}

/// Linux, `dualpi2_reset_default` and `calculate_probability`: in units of 2^-32, alpha is 41 x 2^32 /
/// 256 / 10^9 x 2^6 = 44 per 64 ns and beta 879, each rounded down. The longer of the two delays counts.
#[test]
fn linux_integrates_the_longer_delay_with_its_own_constants() {
    let mut queue = linux().build(place()).unwrap();
    let mut drops = Drops::default();
    queue.enqueue(0, with_ecn(0, 0, Ecn::NotEct), &mut drops);
    queue.enqueue(10 * MILLI, with_ecn(1, 10 * MILLI, Ecn::Ect1), &mut drops);
    let (mut probability, mut last) = (0_i64, 0_i64);
    for update in 1..=12 {
        let at = update * 16 * MILLI;
        queue.update_until(at);
        // The classic packet leaves after six updates, and the L4S packet is the oldest one.
        let delay = if update <= 6 { at } else { at - 10 * MILLI } as i64;
        let delta = (delay - 15 * MILLI as i64) * 44 + (delay - last) * 879;
        (probability, last) = ((probability + delta / 64).clamp(0, u32::MAX.into()), delay);
        let due = probability as f64 / f64::from(u32::MAX);
        assert!((queue.base.probability / due - 1.0).abs() < 6e-4, "{} {due}", queue.base.probability);
        if update == 6 {
            queue.classic.queue.pop_oldest();
        }
    }
    assert!(queue.base.probability < 1.0);
}

/// Lets packets of a kind pass, while many others wait; gives the shares that are marked and dropped.
/// Drawn shares of 10,000 are within 0.02, four standard deviations.
fn shares(config: &DualPi2Config, probability: f64, ecn: Ecn) -> (f64, f64) {
    const COUNT: u32 = 10_000;
    let mut queue = DualPi2Config { packets: 2 * COUNT, ..config.clone() }.build(place()).unwrap();
    let (mut drops, mut marked) = (Drops::default(), 0);
    queue.base.next_update = u64::MAX;
    queue.base.probability = probability;
    for slot in 0..COUNT + 8 {
        queue.enqueue(0, with_ecn(slot, 0, ecn), &mut drops);
    }
    while queue.waiting().packets > 8 {
        marked += u32::from(queue.dequeue(0, &mut drops).is_some_and(|packet| packet.is_marked()));
    }
    (f64::from(marked) / f64::from(COUNT), drops.0.len() as f64 / f64::from(COUNT))
}

/// Linux, `must_drop`, at departure and at arrival: p'^2 for classic packets, k p' for L4S; overload from
/// k p' > 1 on.
#[test]
fn linux_draws_its_marks_and_drops() {
    for drop_early in [false, true] {
        let config = DualPi2Config { drop_early, ..linux() };
        for (probability, ecn, marked, dropped) in [
            (0.2, Ecn::NotEct, 0.0, 0.04),
            (0.2, Ecn::Ect0, 0.04, 0.0),
            (0.2, Ecn::Ect1, 0.4, 0.0),
            (0.6, Ecn::NotEct, 0.0, 0.36),
            (0.6, Ecn::Ect0, 0.0, 0.36),
            (0.6, Ecn::Ect1, 0.64, 0.36),
        ] {
            let found = shares(&config, probability, ecn);
            let is_close = |found: f64, due: f64| (found - due).abs() < 0.02;
            assert!(
                is_close(found.0, marked) && is_close(found.1, dropped),
                "{drop_early} {probability} {ecn:?} {found:?}"
            );
        }
    }
}

/// Linux, `calculate_probability` without `drop_overload`: p' is at most 1/k, so every L4S packet is
/// marked and ECN-capable classic ones are never dropped.
#[test]
fn without_drops_on_overload_the_probability_has_a_limit() {
    for variant in [DualPi2Variant::Linux, DualPi2Variant::Rfc] {
        let config = DualPi2Config { drop_overload: false, variant, ..Default::default() };
        let mut base = config.base();
        base.update(10.0);
        assert_eq!(base.probability, 0.5, "{variant:?}");
        for (ecn, marked, dropped) in
            [(Ecn::NotEct, 0.0, 0.25), (Ecn::Ect0, 0.25, 0.0), (Ecn::Ect1, 1.0, 0.0)]
        {
            let found = shares(&config, 0.5, ecn);
            let is_close = |found: f64, due: f64| (found - due).abs() < 0.02;
            assert!(is_close(found.0, marked) && is_close(found.1, dropped), "{variant:?} {found:?}");
        }
    }
}

/// Linux, `must_drop`: nothing is marked or dropped while less than two MTUs wait.
#[test]
fn linux_spares_a_short_queue() {
    for (behind, marks) in [(1, false), (2, true)] {
        let mut queue = linux().build(place()).unwrap();
        let mut drops = Drops::default();
        queue.base.probability = 0.5;
        for slot in 0..=behind {
            queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
        }
        assert_eq!(queue.dequeue(0, &mut drops).unwrap().is_marked(), marks, "{behind}");
    }
}

/// Linux, `do_step_aqm`: by time it is for longer than the step, whatever waits behind; by packets it is
/// for more of them behind than the step.
#[test]
fn the_steps_of_linux() {
    let marks = |config: DualPi2Config, behind: u32, at: u64| {
        let mut queue = config.build(place()).unwrap();
        let mut drops = Drops::default();
        for slot in 0..=behind {
            queue.enqueue(0, with_ecn(slot, 0, Ecn::Ect1), &mut drops);
        }
        let is_marked = queue.dequeue(at, &mut drops).unwrap().is_marked();
        assert_eq!(queue.step_marks, u64::from(is_marked));
        is_marked
    };
    assert!(!marks(linux(), 0, MILLI) && marks(linux(), 0, MILLI + 1));
    let packets = || DualPi2Config { step_packets: Some(3), ..linux() };
    assert!(!marks(packets(), 3, 10 * MILLI) && marks(packets(), 4, 0));
}

#[test]
fn memory_has_a_limit_and_any_ect_is_l4s() {
    let limited = DualPi2Config { memory_limit: Some(Bytes(9000)), any_ect: true, ..Default::default() };
    let mut queue = limited.build(place()).unwrap();
    let mut drops = Drops::default();
    for (slot, ecn) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().enumerate() {
        queue.enqueue(0, with_ecn(slot as u32, 0, ecn), &mut drops);
    }
    assert_eq!((drops.0.len(), drops.0[0].0.slot), (1, 3));
    assert_eq!([queue.classic.counted.arrived, queue.l4s.counted.arrived], [1, 2]);
    assert_eq!(queue.dequeue(0, &mut drops).unwrap().slot, 1);
}

#[test]
fn impossible_settings_are_refused() {
    let milli = |millis| Some(Duration::from_millis(millis));
    for (config, message) in [
        (DualPi2Config { update: milli(0), ..linux() }, "queue.update is 0 s, allowed is 1 ms to 1 s"),
        (DualPi2Config { alpha: Some(-1.0), ..linux() }, "queue.alpha is -1, allowed is 0 to 100"),
        (DualPi2Config { beta: Some(f64::NAN), ..linux() }, "queue.beta is NaN, allowed is 0 to 100"),
        (
            DualPi2Config { rtt_max: milli(50), ..linux() },
            "queue.rtt_max is 50 ms, allowed with variant = \"linux\" is none: it has alpha and beta",
        ),
        (
            DualPi2Config { step_packets: Some(3), step: Duration::ZERO, ..linux() },
            "queue.step_packets is 3, allowed beside step is none: one of them is the threshold",
        ),
        (
            DualPi2Config { memory_limit: Some(Bytes(0)), ..linux() },
            "queue.memory_limit is 0 B, allowed is at least 1 B",
        ),
        (
            DualPi2Config { drop_early: true, ..Default::default() },
            "queue.drop_early is true, allowed with variant = \"rfc\" is only false",
        ),
    ] {
        assert_eq!(config.build(place()).unwrap_err(), message);
    }
}
