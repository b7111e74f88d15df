//! Links against theory: queueing formulas, loss chains, Little's law, limits, and what a mistake in a
//! configuration says. Seeds are fixed; tolerances are four standard errors of the estimate, which the test
//! computes or states.

use anabranch::net::{Direction, DropCause, DuplexLink, LinkConfig, Step};
use anabranch_transport::flow::Ecn;
use anabranch_transport::report::Row;
use anabranch_transport::rng::{Draw, Streams};
use anabranch_transport::time::Time;

const STREAMS: Streams = Streams { seed: 1, replication: 0 };

fn config(json: &str) -> LinkConfig {
    serde_json::from_str(json).unwrap()
}

fn build(json: &str) -> DuplexLink {
    DuplexLink::build(&config(json), "x", STREAMS).unwrap()
}

fn send(link: &mut DuplexLink, nanos: u64, size: u32) -> Step {
    link.accept(Time::from_nanos(nanos), Direction::Forward, size, Ecn::NotEct)
}

fn forward(link: &mut DuplexLink, end_nanos: u64, name: &str) -> f64 {
    link.finish(Time::from_nanos(end_nanos));
    let mut row = Row::default();
    link.report(&mut row.section("x"));
    row.value(&format!("x.forward.{name}")).unwrap()
}

/// Mean wait in milliseconds that small packets at Poisson times find in a queue that cross traffic loads:
/// the mean over time, as Poisson arrivals see time averages.
fn probed_wait_ms(mean_wait: &str, seconds: u64) -> f64 {
    let mut link = build(&format!(
        r#"{{"rate": "1 Mbit/s", "queue": {{"kind": "drop_tail", "packets": 100000}},
             "cross_traffic": [{{"kind": "poisson", "mean_wait": "{mean_wait}"}}]}}"#
    ));
    let mut rng = STREAMS.stream("probes");
    let mut now = 100_000_000_000;
    let end = now + seconds * 1_000_000_000;
    while now < end {
        send(&mut link, now, 1);
        now += (rng.exponential() * 1e8) as u64;
    }
    forward(&mut link, end, "mean_wait_ms")
}

#[test]
fn cross_traffic_makes_an_m_d_1_queue_of_the_wanted_wait() {
    for (text, expected, seconds) in
        [("5 ms", 5.0, 10_000), ("25 ms", 25.0, 40_000), ("75 ms", 75.0, 100_000)]
    {
        let wait = probed_wait_ms(text, seconds);
        // W = rho S / (2 (1 - rho)) with a service of 4 ms.
        let load = 2.0 * expected / (2.0 * expected + 4.0);
        // The squared relative error of the mean over time, as that of reflected Brownian motion with the
        // queue's drift 1 - rho and variance rho S per unit of time: rho S / (T (1 - rho)^2) (W. Whitt,
        // Management Science 35, 1989).
        let of_time = load * 0.004 / (seconds as f64 * (1.0 - load) * (1.0 - load));
        // That of ten probes per second: the variance of the wait over its mean squared.
        let of_probes = (1.0 + 4.0 * (1.0 - load) / (3.0 * load)) / (10.0 * seconds as f64);
        let tolerance = 4.0 * (of_time + of_probes).sqrt();
        assert!((wait / expected - 1.0).abs() < tolerance, "{wait} ms instead of {text}, {tolerance}");
    }
}

#[test]
fn exponential_sizes_make_an_m_m_1_queue() {
    let mut link = build(r#"{"rate": "1 Mbit/s", "queue": {"kind": "drop_tail", "packets": 100000}}"#);
    let mut rng = STREAMS.stream("arrivals");
    let (service_nanos, load) = (4e6, 0.7);
    let mut now = 0;
    for _ in 0..1_000_000 {
        now += (rng.exponential() * service_nanos / load) as u64;
        // Rounded up by half a byte on average, one part in a thousand.
        send(&mut link, now, (rng.exponential() * 500.0) as u32 + 1);
    }
    let wait = forward(&mut link, now, "mean_wait_ms");
    let expected = service_nanos * load / (1.0 - load) / 1e6;
    // A relative standard error of 0.8 %: the variance of the mean of n waits is rho (2 + 5 rho - 4 rho^2 +
    // rho^3) / (1 - rho)^4 / n, in squared services (D. J. Daley, J. Austral. Math. Soc. 8, 1968).
    assert!((wait / expected - 1.0).abs() < 0.032, "{wait} ms instead of {expected} ms");
}

#[test]
fn the_queue_over_time_obeys_littles_law() {
    // A run that begins and ends empty: the waits add up to the queue's integral exactly, but for the
    // nanosecond to which the start of a service is rounded.
    let config = config(r#"{"rate": "1 Mbit/s", "queue": {"kind": "drop_tail", "packets": 20}}"#);
    let mut link = DuplexLink::build_traced(&config, "x", STREAMS).unwrap();
    let mut rng = STREAMS.stream("arrivals");
    let mut now = 0;
    let mut served = 0.0;
    for _ in 0..5_000 {
        now += (rng.exponential() * 4e6) as u64;
        if let Step::Deliver { .. } = send(&mut link, now, rng.below(1_000) as u32 + 1) {
            served += 1.0;
        }
    }
    let end = now + 10_000_000_000;
    let wait_nanos = forward(&mut link, end, "mean_wait_ms") * 1e6;
    let samples = link.take_queue_samples(Direction::Forward);
    let integral: u64 = samples
        .windows(2)
        .map(|pair| pair[0].packets * (pair[1].time.as_nanos() - pair[0].time.as_nanos()))
        .sum();
    assert_eq!(samples.last().unwrap().packets, 0);
    assert!(samples.iter().map(|sample| sample.packets).max() == Some(20));
    assert!((integral as f64 - served * wait_nanos).abs() < 2.0 * served, "{integral} {served} {wait_nanos}");
}

/// Share of lost packets and mean length of a run of losses.
fn losses(loss: &str, gap_nanos: u64, size: u32, packets: u64) -> (f64, f64) {
    let mut link = build(&format!(r#"{{"loss": {loss}}}"#));
    let (mut lost, mut bursts, mut was_lost) = (0.0, 0.0, false);
    for packet in 0..packets {
        let is_lost = matches!(send(&mut link, packet * gap_nanos, size), Step::Drop(DropCause::Lost));
        if is_lost {
            lost += 1.0;
            if !was_lost {
                bursts += 1.0;
            }
        }
        was_lost = is_lost;
    }
    (lost / packets as f64, lost / bursts)
}

/// Four relative standard errors of the share of lost packets in a chain of `steps` that loses all packets
/// in its bad state: successive states have the correlation 1 - p - r.
fn share_tolerance(p: f64, r: f64, steps: f64) -> f64 {
    let correlation = 1.0 - p - r;
    let (good, bad) = (r / (p + r), p / (p + r));
    4.0 * (good / bad * (1.0 + correlation) / (1.0 - correlation) / steps).sqrt()
}

#[test]
fn chains_lose_what_they_should_in_bursts_as_long_as_they_should() {
    // One packet per slot, or per packet: share p/(p+r) lost, runs of 1/r on average.
    for clock in ["slot", "packet", "on_arrival"] {
        let loss = format!(r#"{{"kind": "gilbert", "clock": "{clock}", "p": 0.01, "r": 0.2}}"#);
        let (share, burst) = losses(&loss, 5_000_000, 100, 1_000_000);
        assert!((share / (0.01 / 0.21) - 1.0).abs() < share_tolerance(0.01, 0.2, 1e6), "{clock}: {share}");
        // A geometric length has the relative deviation sqrt(1 - r); there are 1e6 p r/(p+r) = 9524 of them.
        assert!((burst / 5.0 - 1.0).abs() < 4.0 * (0.8 / 9524.0_f64).sqrt(), "{clock}: {burst}");
    }
    // Bits: a byte survives if all of its bits find the good state, the first with the chain's share.
    let loss = r#"{"kind": "gilbert", "clock": "bit", "p": 0.01, "r": 0.2}"#;
    let (share, _) = losses(loss, 5_000_000, 1, 1_000_000);
    let expected = 1.0 - (0.2 / 0.21) * (1..8).fold(1.0, |survives, _| survives * 0.99);
    // Independent packets would have a relative standard error of 0.28 %; those next to each other have the
    // correlation 0.79^8 at most, which makes it 0.33 %.
    assert!((share / expected - 1.0).abs() < 0.0132, "{share} {expected}");
    // Gilbert-Elliott by its means: 10 % lost, 0.8 of it in the bad state, as voip-sctp has it.
    let loss = r#"{"kind": "gilbert_elliott", "mean_loss": "10 %", "mean_bad": "133.3 ms",
                   "loss_in_bad": 0.8, "loss_in_good": 0.01}"#;
    let (share, _) = losses(loss, 5_000_000, 100, 4_000_000);
    // The share of the bad state, 0.114, has the standard error of a chain with r = 0.0375 and p = 0.00482;
    // losing 0.79 more of the packets there makes 0.86 % of the mean loss out of it.
    let of_bad = share_tolerance(0.004_82, 0.0375, 4e6) * 0.114;
    assert!((share / 0.1 - 1.0).abs() < of_bad * 0.79 / 0.1, "{share}");
}

#[test]
fn a_chain_follows_its_timetable_from_state_to_state() {
    // Twenty slots of each kind in turn, each shorter than the sojourns of the chain.
    let change = |before: f64, after: f64| {
        format!(r#"{{"timetable": [["0 s", {before}], ["100 ms", {after}]], "repeat": "200 ms"}}"#)
    };
    let by_means = format!(
        r#""mean_loss": {}, "mean_bad": "25 ms", "loss_in_bad": {}"#,
        change(0.1, 0.25),
        change(0.8, 0.5)
    );
    let by_transitions = format!(r#""p": {}, "r": {}"#, change(0.05, 0.3), change(0.2, 0.1));
    let cycles = 40_000;
    // The probabilities to leave the good and the bad state, and of a loss there.
    let (of_means, of_transitions) =
        ([[0.2 / 7.0, 0.2, 0.8], [0.2, 0.2, 0.5]], [[0.05, 0.2, 1.0], [0.3, 0.1, 1.0]]);
    for (clock, keys, numbers) in [
        ("slot", &by_means, of_means),
        ("slot", &by_transitions, of_transitions),
        ("on_arrival", &by_means, of_means),
        ("packet", &by_transitions, of_transitions),
    ] {
        let mut link = build(&format!(r#"{{"loss": {{"kind": "gilbert", "clock": "{clock}", {keys}}}}}"#));
        let mut lost = [0.0; 40];
        for packet in 0..40 * cycles {
            // One in the middle of every slot.
            let step = send(&mut link, packet * 5_000_000 + 2_500_000, 100);
            lost[(packet % 40) as usize] += f64::from(u8::from(step == Step::Drop(DropCause::Lost)));
        }
        let mut bad = 0.0;
        // The second cycle, when the beginning is forgotten, is that of all the others.
        for slot in 0..80 {
            let [p, r, loss] = numbers[slot / 20 % 2];
            bad = bad * (1.0 - r) + (1.0 - bad) * p;
            let (share, expected) = (lost[slot % 40] / cycles as f64, bad * loss);
            let tolerance = 4.0 * (expected * (1.0 - expected) / cycles as f64).sqrt();
            assert!(slot < 40 || (share - expected).abs() < tolerance, "{clock} {slot}: {share} {expected}");
        }
    }
    // Bits that are in error independently, from bit to bit with p + r = 1; the first bit after a change was
    // decided on before.
    let mut link = build(&format!(
        r#"{{"loss": {{"kind": "gilbert", "clock": "bit", "p": {}, "r": {}}}}}"#,
        change(0.02, 0.1),
        change(0.98, 0.9)
    ));
    let mut lost = [0.0; 2];
    for packet in 0..400_000 {
        let step = send(&mut link, packet * 5_000_000, 1);
        lost[(packet / 20 % 2) as usize] += f64::from(u8::from(step == Step::Drop(DropCause::Lost)));
    }
    for (lost, [before, error]) in lost.into_iter().zip([[0.1, 0.02], [0.02, 0.1]]) {
        let survives = libm::pow(1.0 - error, 7.0) * ((1.0 - error) * 19.0 + 1.0 - before) / 20.0;
        let tolerance = 4.0 * (survives * (1.0 - survives) / 2e5).sqrt();
        assert!((lost / 2e5 - (1.0 - survives)).abs() < tolerance, "{lost} {survives}");
    }
}

#[test]
fn a_slot_clock_does_not_care_how_often_it_is_asked() {
    let loss = r#"{"kind": "gilbert", "p": 0.01, "r": 0.2}"#;
    let (often, _) = losses(loss, 1_000_000, 100, 5_000_000);
    let (seldom, _) = losses(loss, 50_000_000, 100, 100_000);
    assert!((often / (0.01 / 0.21) - 1.0).abs() < share_tolerance(0.01, 0.2, 1e6), "{often}");
    // Ten steps from packet to packet: the correlation 0.79^10, as in a chain with these parameters.
    let leave = 1.0 - libm::pow(0.79, 10.0);
    let tolerance = share_tolerance(leave / 21.0, leave * 20.0 / 21.0, 1e5);
    assert!((seldom / (0.01 / 0.21) - 1.0).abs() < tolerance, "{seldom}");
}

#[test]
fn fifty_wait_and_one_is_in_service() {
    let mut link = build(r#"{"rate": "1 Mbit/s", "delay": "10 ms"}"#);
    for packet in 1..=51 {
        let Step::Deliver { at, .. } = send(&mut link, 0, 500) else { panic!("packet {packet} is taken") };
        assert_eq!(at, Time::from_millis(10 + 4 * packet));
    }
    assert_eq!(send(&mut link, 3_999_999, 500), Step::Drop(DropCause::QueueFull));
    // The first has left, the second is in service, there is room for one.
    assert!(matches!(send(&mut link, 4_000_000, 500), Step::Deliver { .. }));
    assert_eq!(send(&mut link, 4_000_000, 500), Step::Drop(DropCause::QueueFull));
}

#[test]
fn what_waits_stays_when_a_limit_shrinks() {
    let mut link = build(
        r#"{"rate": "1 Mbit/s", "queue": {"kind": "drop_tail",
            "packets": {"timetable": [["0 s", 3], ["5 ms", 1]]}, "mark_packets": {"timetable": [["0 s", 3], ["9 ms", 0]]}}}"#,
    );
    let mut send = |millis| match link.accept(Time::from_millis(millis), Direction::Forward, 500, Ecn::Ect0) {
        Step::Deliver { at, ecn, .. } => Some((at.as_nanos() / 1_000_000, ecn == Ecn::Ce)),
        _ => None,
    };
    // 4 ms each: one in service and three that wait.
    assert_eq!(
        [0, 0, 0, 0].map(&mut send),
        [Some((4, false)), Some((8, false)), Some((12, false)), Some((16, false))]
    );
    assert_eq!([0, 4, 4].map(&mut send), [None, Some((20, false)), None]);
    // Three, two and one wait, and the limit is one.
    assert_eq!([5, 8, 12].map(&mut send), [None, None, None]);
    assert_eq!([16, 16, 60].map(&mut send), [Some((24, true)), None, Some((64, true))]);
}

#[test]
fn limits_that_change_turn_an_m_d_1_queue_into_erlangs_loss_system_and_back() {
    // Where nothing waits, the share a / (1 + a) finds the server busy (A. K. Erlang, 1917), which holds for
    // any service time.
    let mut link = build(
        r#"{"rate": "1 Mbit/s", "cross_traffic": [{"kind": "poisson", "rate": "700 kbit/s"}],
            "queue": {"kind": "drop_tail", "packets": {"timetable": [["0 s", 0], ["50 s", 100000]], "repeat": "100 s"}}}"#,
    );
    let mut rng = STREAMS.stream("probes");
    let (mut probes, mut refused) = ([0.0; 2], [0.0; 2]);
    let mut now = 0;
    while now < 20_000_000_000_000 {
        let step = send(&mut link, now, 1);
        let phase = (now / 50_000_000_000 % 2) as usize;
        probes[phase] += 1.0;
        refused[phase] += f64::from(u8::from(step == Step::Drop(DropCause::QueueFull)));
        now += (rng.exponential() * 1e8) as u64;
    }
    let expected: f64 = 0.7 / 1.7;
    // Probes are far from each other, compared with the 4 ms of a service.
    let tolerance = 4.0 * (expected * (1.0 - expected) / probes[0]).sqrt();
    assert!((refused[0] / probes[0] - expected).abs() < tolerance, "{refused:?} of {probes:?}");
    assert!(refused[1] == 0.0, "{refused:?}");
}

#[test]
fn a_link_that_is_down_holds_drops_or_swallows() {
    let up = r#""up": {"timetable": [["0 s", true], ["10 ms", false], ["30 ms", true]]}"#;
    let drive = |down: &str| {
        let mut link = build(&format!(r#"{{"rate": "1 Mbit/s", "down": "{down}", {up}}}"#));
        // 4 ms each: the third is in service when the link goes down at 10 ms.
        [0, 0, 0, 20_000_000, 40_000_000].map(|nanos| match send(&mut link, nanos, 500) {
            Step::Deliver { at, .. } => at.as_nanos() / 1_000_000,
            Step::Drop(DropCause::Down) => 0,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(drive("hold"), [4, 8, 32, 36, 44]);
    assert_eq!(drive("drop"), [4, 8, 0, 0, 44]);
    assert_eq!(drive("blackhole"), [4, 8, 0, 0, 44]);
}

#[test]
fn mistakes_are_named_in_one_sentence() {
    let build_error = |json: &str| DuplexLink::build(&config(json), "wifi", STREAMS).map(|_| ()).unwrap_err();
    let poisson = r#""cross_traffic": [{"kind": "poisson", "rate": "100 kbit/s"}]"#;
    for (json, part) in [
        (format!("{{{poisson}}}"), "links.wifi.cross_traffic.0 loads a link without a `rate`"),
        (
            format!(r#"{{"rate": "1 Mbit/s", "loss": {{"kind": "bernoulli", "at": "ingress"}}, {poisson}}}"#),
            "put the loss on a link of its own",
        ),
        (r#"{"up": false}"#.to_owned(), "links.wifi.down is \"hold\", which needs a link with a `rate`"),
        (
            r#"{"rate": "1 Mbit/s", "cross_traffic": [{"kind": "poisson"}]}"#.to_owned(),
            "either `rate` or `mean_wait`",
        ),
        (
            r#"{"rate": "1 Mbit/s", "cross_traffic":
                [{"kind": "poisson", "rate": "1 kbit/s", "minus": "2 kbit/s"}]}"#
                .to_owned(),
            "minus is 2 kbit/s, allowed is at most the offered load of 1000 bit/s",
        ),
        (
            r#"{"delay": {"timetable": [["1 s", "1 ms"]]}}"#.to_owned(),
            "links.wifi.delay: the timetable starts at 1 s",
        ),
        (
            r#"{"reverse": {"delay": {"timetable": []}}}"#.to_owned(),
            "links.wifi.reverse.delay: the timetable is empty",
        ),
        (
            r#"{"loss": {"kind": "gilbert", "p": 0.1, "r": 0.2, "sharing": "shared"},
                "reverse": {"loss": {"kind": "none"}}}"#
                .to_owned(),
            "links.wifi.reverse.loss is given although",
        ),
    ] {
        let message = build_error(&json);
        assert!(message.contains(part), "{message}");
        assert!(!message.contains(". "), "one sentence: {message}");
    }
    let parse_error = |json: &str| serde_json::from_str::<LinkConfig>(json).unwrap_err().to_string();
    assert!(parse_error(r#"{"rate": "-1 Mbit/s"}"#).contains("`-1 Mbit/s` is not a rate"));
    assert!(
        parse_error(r#"{"loss": {"kind": "bernoulli", "probability": "120 %"}}"#)
            .contains("`120 %` is not a probability")
    );
    assert!(parse_error(r#"{"loss": {"kind": "gilbrt"}}"#).contains("unknown variant `gilbrt`"));
    assert!(parse_error(r#"{"dely": "1 ms"}"#).contains("unknown field `dely`"));
}

#[test]
fn a_configuration_survives_text_and_back() {
    let json = r#"{"ends": ["a", "b"], "rate": {"timetable": [["0 s", "1 Mbit/s"], ["1 s", "2 Mbit/s"]]},
        "jitter": "1 ms", "queue": {"kind": "drop_tail", "bytes": "64 kB", "mark_bytes": "10 kB",
                                     "packets": {"timetable": [["0 s", 50], ["1 s", 5]], "repeat": "2 s"}},
        "loss": {"kind": "gilbert", "clock": "on_arrival", "mean_loss": "10 %", "mean_bad": "133.3 ms",
                 "loss_in_bad": 0.85, "sharing": "shared"},
        "reverse": {"delay": "30 ms"}}"#;
    let first = config(json);
    let text = serde_json::to_string(&first).unwrap();
    assert_eq!(config(&text), first);
}
