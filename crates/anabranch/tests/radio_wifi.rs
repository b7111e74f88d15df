//! Wi-Fi through the whole simulator: service times and throughput by the formulas of IEEE 802.11, and what holds for
//! every link.

use std::path::Path;

use anabranch::report::Row;
use anabranch::scenario::{ScenarioError, Study};
use anabranch::sim::{Outcome, Simulation};
use proptest::prelude::*;

/// A Wi-Fi link between `ap` and a station; `radio` and `link` are more keys of the two tables.
fn link(name: &str, station: &str, radio: &str, link: &str) -> String {
    format!("[links.{name}]\nends = ['ap', '{station}']\nradio = {{ kind = 'wifi'{radio} }}\n{link}\n")
}

/// Datagrams of 1500 B from the access point over a link.
fn load(name: &str, link: &str, station: &str, rate: &str, more: &str) -> String {
    format!(
        "[paths.{name}]\nvia = ['{link}']\n[flows.{name}]\nfrom = 'ap'\nto = '{station}'\npaths = ['{name}']\n\
         transport = {{ kind = 'udp' }}\napp = {{ kind = 'datagrams', size = '1472 B', rate = '{rate}', \
         intervals = {{ kind = 'cbr' }}{more} }}\n"
    )
}

fn study(text: &str, sets: &[(&str, &str)]) -> Result<Study, ScenarioError> {
    let sets: Vec<_> = sets.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Study::parse(text, &sets, Path::new("."))
}

fn run_of(text: &str, seconds: f64, trace: bool, fuse: bool) -> Outcome {
    let text = format!("run = {{ duration = '{seconds} s' }}\n{text}");
    let study = study(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Simulation::build_fused(&study.scenario, 0, trace, fuse).unwrap().run(&mut || None).unwrap()
}

fn run(text: &str, seconds: f64) -> Row {
    run_of(text, seconds, false, true).row
}

fn value(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("{name}"))
}

fn assert_close(measured: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((measured / expected - 1.0).abs() < tolerance, "{what}: {measured}, expected {expected}");
}

/// Milliseconds that a packet of 1500 B takes at 6 Mbit/s: DIFS, 7.5 slots of backoff on average, the frame.
const MEAN_ACCESS_MS: f64 = 0.034 + 7.5 * 0.009;
const FRAME_MS: f64 = 2.072;
/// SIFS and the acknowledgement.
const ACK_MS: f64 = 0.016 + 0.044;

/// A packet on an idle channel: DIFS + U{0..15} 9 us + 2072 us, uniform over the 16 values.
#[test]
fn a_lone_packet_waits_for_its_backoff() {
    let text = link("air", "s", ", rate = '6 Mbit/s'", "")
        + &load("f", "air", "s", "1.1776 Mbit/s", ", delay_quantiles = true");
    let row = run(&text, 100.0);
    let sent = value(&row, "f.sent");
    assert_eq!(sent, 10_000.0);
    // One slot's standard deviation is 4.61; four standard errors.
    let tolerance_ms = 4.0 * 4.61 * 0.009 / sent.sqrt();
    let mean = value(&row, "f.mean_delay_ms");
    assert!((mean - MEAN_ACCESS_MS - FRAME_MS).abs() < tolerance_ms, "{mean}");
    let (least, most) = (0.034 + FRAME_MS, 0.034 + 15.0 * 0.009 + FRAME_MS);
    assert!((value(&row, "f.p50_delay_ms") - f64::midpoint(least, most)).abs() < 0.009 + 1e-9);
    assert!((value(&row, "f.max_delay_ms") - most).abs() < 1e-9);
    // Nothing waits, so there is no event of the channel.
    assert!(value(&row, "run.events") < 2.1 * sent, "{}", value(&row, "run.events"));
}

/// One packet each DIFS + backoff + frame + SIFS + acknowledgement, whichever direction it takes: both share the
/// channel in the order in which packets come.
#[test]
fn a_saturated_channel_carries_a_packet_per_service_time() {
    let down = link("air", "s", ", rate = '6 Mbit/s'", "") + &load("f", "air", "s", "9 Mbit/s", "");
    let both = down.clone() + &load("g", "air", "s", "9 Mbit/s", ", reverse = true");
    let per_second = 1_000.0 / (MEAN_ACCESS_MS + FRAME_MS + ACK_MS);
    let row = run(&down, 60.0);
    assert_close(value(&row, "link.air.forward.delivered_packets"), 60.0 * per_second, 1e-3, "down");
    let row = run(&both, 60.0);
    let [forward, reverse] = ["forward", "reverse"]
        .map(|direction| value(&row, &format!("link.air.{direction}.delivered_packets")));
    assert_close(forward + reverse, 60.0 * per_second, 1e-3, "both");
    assert_close(forward, reverse, 0.02, "alike");
}

/// What the standards' own rates come to with packets of 1500 B, from the durations of their clauses: with 54 Mbit/s
/// of 802.11a and g, and 65 Mbit/s of n.
#[test]
fn each_standard_has_its_own_durations() {
    let us = |ifs: f64, frame: f64, acknowledgement: f64| ifs + 67.5 + frame + acknowledgement;
    for (standard, expected) in [
        ("a", us(34.0, 20.0 + 57.0 * 4.0, 16.0 + 28.0)),
        ("g", us(28.0, 20.0 + 57.0 * 4.0 + 6.0, 10.0 + 28.0 + 6.0)),
        ("n", us(43.0, 36.0 + 48.0 * 4.0, 16.0 + 28.0)),
    ] {
        let text = link("air", "s", &format!(", standard = '{standard}'"), "")
            + &load("f", "air", "s", "60 Mbit/s", "");
        let row = run(&text, 10.0);
        assert_close(
            value(&row, "link.air.forward.delivered_packets"),
            10.0 * 1e6 / expected,
            1e-3,
            standard,
        );
    }
}

/// With frame errors p, a packet takes 1 / (1 - p) transmissions; after `retry_limit` = L of them it is lost, with
/// probability p^L. The mean backoff of attempt i is half of the window 16 x 2^i - 1, at most 1023.
#[test]
fn damaged_frames_are_sent_again() {
    let (p, limit) = (0.3_f64, 4);
    let power = |base: f64, exponent: i32| libm::pow(base, exponent.into());
    let radio = format!(", rate = '6 Mbit/s', frame_error_rate = {p}, retry_limit = {limit}");
    let text = link("air", "s", &radio, "") + &load("f", "air", "s", "9 Mbit/s", "");
    let row = run(&text, 200.0);
    let packets =
        value(&row, "link.air.forward.delivered_packets") + value(&row, "link.air.forward.lost_packets");
    let lost = value(&row, "link.air.forward.lost_packets") / packets;
    let expected = power(p, limit);
    let deviation = (expected * (1.0 - expected) / packets).sqrt();
    assert!((lost - expected).abs() < 4.0 * deviation, "{lost} {expected}");
    let attempts: f64 = (0..limit).map(|attempt| power(p, attempt)).sum();
    assert_close(value(&row, "link.air.forward.frames"), packets * attempts, 0.005, "frames");
    let backoffs: f64 =
        (0..limit).map(|attempt| power(p, attempt) * 0.009 * (16.0 * power(2.0, attempt) - 1.0) / 2.0).sum();
    let service_ms = attempts * (0.034 + FRAME_MS + ACK_MS) + backoffs;
    assert_close(packets, 200_000.0 / service_ms, 0.005, "service time");
    assert_close(value(&row, "link.air.forward.mean_airtime_ms"), service_ms, 0.005, "airtime");
}

/// Walking away: the rate follows a timetable.
#[test]
fn the_rate_follows_its_timetable() {
    let radio = ", rate = { timetable = [['0 s', '54 Mbit/s'], ['1 s', '6 Mbit/s']] }";
    let text = link("air", "s", radio, "") + &load("f", "air", "s", "60 Mbit/s", "");
    let first = value(&run(&text, 1.0), "link.air.forward.delivered_packets");
    let both = value(&run(&text, 2.0), "link.air.forward.delivered_packets");
    assert_close(first, 1e6 / (34.0 + 67.5 + 248.0 + 44.0), 0.01, "54 Mbit/s");
    assert_close(both - first, 1e3 / (MEAN_ACCESS_MS + FRAME_MS + ACK_MS), 0.01, "6 Mbit/s");
}

/// Links that name one medium share it, in the order of arrivals; others do not.
#[test]
fn links_share_a_medium_by_name() {
    let total = |radio: &str| {
        let text: String = (0..3)
            .map(|index| {
                let (name, station) = (format!("l{index}"), format!("s{index}"));
                link(&name, &station, radio, "")
                    + &load(&format!("f{index}"), &name, &station, "9 Mbit/s", "")
            })
            .collect();
        let row = run(&text, 20.0);
        (0..3).map(|index| value(&row, &format!("link.l{index}.forward.delivered_packets"))).sum::<f64>()
    };
    let alone = 20.0 * 1_000.0 / (MEAN_ACCESS_MS + FRAME_MS + ACK_MS);
    assert_close(total(", rate = '6 Mbit/s', medium = 'channel'"), alone, 2e-3, "shared");
    assert_close(total(", rate = '6 Mbit/s'"), 3.0 * alone, 2e-3, "each its own");
}

/// A deep queue with CoDel keeps the wait short where `drop_tail` fills.
#[test]
fn any_discipline_serves_the_queue() {
    let sojourn = |queue: &str| {
        let text = link("air", "s", ", rate = '6 Mbit/s'", queue) + &load("f", "air", "s", "7 Mbit/s", "");
        value(&run(&text, 60.0), "link.air.forward.mean_sojourn_ms")
    };
    let full = sojourn("queue = { kind = 'drop_tail', packets = 100 }");
    assert!(full > 200.0, "{full}");
    let controlled = sojourn("queue = { kind = 'codel', packets = 100 }");
    assert!(controlled < 0.5 * full, "{controlled} {full}");
}

/// Wi-Fi carries MSDUs of 2304 bytes.
#[test]
fn larger_packets_are_cut() {
    let large = |radio: &str| {
        let load = load("f", "air", "s", "1 kbit/s", ", duration = '1 ms'").replace("1472 B", "2972 B");
        link("air", "s", radio, "") + &load.replace("[paths.f]", "[paths.f]\nmtu = '3000 B'")
    };
    let row = run(&large(", rate = '6 Mbit/s'"), 1.0);
    // 2296 and 724 B.
    assert_eq!(value(&row, "link.air.forward.delivered_packets"), 2.0);
    assert_eq!(value(&row, "link.air.forward.delivered_bytes"), 3_020.0);
}

fn any_wifi() -> impl Strategy<Value = String> {
    let radio = prop::sample::select(
        &[
            "",
            ", rate = '6 Mbit/s'",
            ", standard = 'n', frame_error_rate = '20 %'",
            ", standard = 'g', frame_error_rate = '60 %', retry_limit = 3",
            ", medium = 'x', rate = '12 Mbit/s'",
            ", medium = 'x', rate = { timetable = [['0 s', '6 Mbit/s'], ['300 ms', '54 Mbit/s']] }",
        ][..],
    );
    let settings = prop::sample::select(
        &[
            "",
            "queue = { kind = 'codel', target = '1 ms', interval = '10 ms' }",
            "queue = { kind = 'fq_codel', packets = 20 }",
            "queue = { kind = 'lifo_codel', packets = 9 }",
            "queue = { kind = 'drop_tail', packets = 0 }\njitter = '1 ms'",
            "delay = '3 ms'\nduplicate = '10 %'\nmtu = '700 B'\noverhead = '8 B'",
            "loss = { kind = 'bernoulli', probability = '5 %' }\nup = { timetable = [['0 s', true], ['1 s', false]] }\ndown = 'blackhole'",
        ][..],
    );
    let rate = prop::sample::select(&["300 kbit/s", "3 Mbit/s", "20 Mbit/s"][..]);
    prop::collection::vec((radio, settings, rate, any::<bool>()), 1..4).prop_map(|links| {
        let mut text = String::new();
        for (index, (radio, settings, rate, both)) in links.iter().enumerate() {
            let (name, station) = (format!("l{index}"), format!("s{index}"));
            text += &link(&name, &station, radio, settings);
            text += &load(&format!("f{index}"), &name, &station, rate, "");
            if *both {
                text += &load(&format!("g{index}"), &name, &station, rate, ", reverse = true");
            }
        }
        if text.contains("[links.l1]") {
            text += &load("across", "l0", "s1", "1 Mbit/s", "")
                .replace("via = ['l0']", "via = ['l0', 'l1']")
                .replace("from = 'ap'", "from = 's0'");
        }
        text
    })
}

/// `PROPTEST_CASES` may ask for more cases than a quick run has.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 24 };
    ProptestConfig { cases, ..asked }
}

proptest! {
    #![proptest_config(config())]

    /// The same seed gives the same bits, traced or not, fused or not; every packet has one fate, and none overtakes
    /// another in a queue that is first in, first out.
    #[test]
    fn packets_are_conserved_and_runs_repeat_themselves(text in any_wifi()) {
        let row = run(&text, 1.2);
        for other in [run(&text, 1.2), run_of(&text, 1.2, false, false).row, run_of(&text, 1.2, true, true).row] {
            for ((name, left), (_, right)) in row.scalars().zip(other.scalars()) {
                prop_assert!(name == "run.events" || left.to_bits() == right.to_bits(), "{name}: {left} {right}");
            }
        }
        for (name, _) in row.scalars().filter(|(name, _)| name.ends_with(".arrived_packets")) {
            let count = |key: &str| value(&row, &name.replace("arrived_packets", key));
            let drops: f64 = ["lost_packets", "queue_full_packets", "down_packets", "aqm_packets"]
                .iter().map(|key| row.value(&name.replace("arrived_packets", key)).unwrap_or(0.0)).sum();
            prop_assert_eq!(
                count("arrived_packets") + count("duplicated_packets"),
                count("delivered_packets") + drops + count("in_link_packets"), "{}", name
            );
        }
    }
}

#[test]
fn mistakes_are_named_in_one_sentence() {
    let base = link("air", "s", "", "") + &link("far", "t", "", "") + &load("f", "air", "s", "1 Mbit/s", "");
    for (key, found, sentence) in [
        (
            "links.air.radio.rate",
            "11 Mbit/s",
            "links.air.radio.rate is 11 Mbit/s, allowed is one of 6, 9, 12, 18, 24, 36, 48, 54 Mbit/s",
        ),
        ("links.air.radio.retry_limit", "0", "links.air.radio.retry_limit is 0, allowed is 1 to 255"),
        ("links.air.mtu", "3000 B", "links.air.mtu is 3000 B, allowed is 68 B to 2296 B"),
        ("links.air.radio.frame_error_rate", "2", "links.air.radio.frame_error_rate"),
        ("links.air.radio.speed", "1", "links.air.radio.speed"),
    ] {
        let error = study(&base, &[(key, found)]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(sentence), "{key} = {found}: {error}");
    }
    let shared = [
        ("links.air.radio.medium", "one"),
        ("links.far.radio.medium", "one"),
        ("links.far.radio.standard", "n"),
    ];
    let error = study(&base, &shared).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("links.far.radio.standard differs from links.air.radio.standard"), "{error}");
}
