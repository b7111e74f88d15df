//! Wi-Fi through the whole simulator: service times and throughput by the formulas of IEEE 802.11, and what
//! holds for every link.

use crate::radio::{run, run_of, study, value};
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
    let outcome = run_of(&text, 100.0, 0, false, true);
    let row = &outcome.row;
    let sent = value(row, "f.sent");
    assert_eq!(sent, 10_000.0);
    // One slot's standard deviation is 4.61; four standard errors.
    let tolerance_ms = 4.0 * 4.61 * 0.009 / sent.sqrt();
    let mean = value(row, "f.mean_delay_ms");
    assert!((mean - MEAN_ACCESS_MS - FRAME_MS).abs() < tolerance_ms, "{mean}");
    let (least, most) = (0.034 + FRAME_MS, 0.034 + 15.0 * 0.009 + FRAME_MS);
    assert!((value(row, "f.p50_delay_ms") - f64::midpoint(least, most)).abs() < 0.009 + 1e-9);
    assert!((value(row, "f.max_delay_ms") - most).abs() < 1e-9);
    // Nothing waits, so there is no step of the channel.
    assert!((outcome.steps as f64) < 2.1 * sent, "{}", outcome.steps);
}

/// One packet each DIFS + backoff + frame + SIFS + acknowledgement, whichever direction it takes: both share
/// the channel in the order in which packets come.
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

/// What the standards' own rates come to with packets of 1500 B, from the durations of their clauses: with 54
/// Mbit/s of 802.11a and g, and 65 Mbit/s of n.
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

/// With frame errors p, a packet takes 1 / (1 - p) transmissions; after `retry_limit` = L of them it is lost,
/// with probability p^L. The mean backoff of attempt i is half of the window 16 x 2^i - 1, at most 1023.
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
}

/// The user walks away: the rate follows a timetable.
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

/// Stations `s0`, `s1` and so on, each with an uplink that always has something to send, on one channel.
fn saturated(count: u32, radio: &str) -> String {
    (0..count)
        .map(|index| {
            let (name, station) = (format!("l{index}"), format!("s{index}"));
            let radio = format!(", rate = '6 Mbit/s', medium = 'x', collisions = true{radio}");
            link(&name, &station, &radio, "")
                + &load(&format!("f{index}"), &name, &station, "9 Mbit/s", ", reverse = true")
        })
        .collect()
}

/// Packets that each of them delivers.
fn delivered(count: u32, radio: &str, seconds: f64) -> Vec<f64> {
    let row = run(&saturated(count, radio), seconds);
    (0..count).map(|index| value(&row, &format!("link.l{index}.reverse.delivered_packets"))).collect()
}

/// Windows of the 7 transmissions of a frame, in slots.
const WINDOWS: [f64; 7] = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];

/// The tau that is the `tau_of` the probability that one of the other stations sends in the same slot: tau
/// falls with that, which grows with tau.
fn fixed_point(others: f64, tau_of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let tau = f64::midpoint(low, high);
        if tau_of(1.0 - libm::pow(1.0 - tau, others)) > tau {
            low = tau;
        } else {
            high = tau;
        }
    }
    low
}

/// Microseconds of a success and of a collision of packets of 1500 B, DIFS included, at 6 or 54 Mbit/s.
fn durations(rate_mbps: f64) -> (f64, f64) {
    let frame = 34.0 + 20.0 + 4.0 * (12_310.0 / (4.0 * rate_mbps)).ceil();
    (frame + if rate_mbps < 12.0 { 60.0 } else { 44.0 }, frame + 60.0)
}

/// Packets per second of n saturated stations: G. Bianchi, "Performance Analysis of the IEEE 802.11
/// Distributed Coordination Function", IEEE JSAC 18(3), 2000, with the limit of transmissions of H. Wu et
/// al., INFOCOM 2002.
fn bianchi(count: u32, rate_mbps: f64) -> f64 {
    let others = f64::from(count - 1);
    let tau = fixed_point(others, |p| {
        let weights = (0..7).map(|stage| libm::pow(p, stage.into()));
        let slots = weights.clone().zip(WINDOWS).map(|(weight, window)| weight * f64::midpoint(window, 1.0));
        weights.sum::<f64>() / slots.sum::<f64>()
    });
    let none = libm::pow(1.0 - tau, f64::from(count));
    let one = f64::from(count) * tau * libm::pow(1.0 - tau, others);
    let (success, collision) = durations(rate_mbps);
    one * 1e6 / (none * 9.0 + one * success + (1.0 - none - one) * collision)
}

/// The same with the standard's rule that a counter stands while the channel is busy: no other station can
/// send in the first slot after a transmission, and one that has just sent can if it draws 0 (I. Tinnirello,
/// G. Bianchi and Y. Xiao, "Refinements on IEEE 802.11 Distributed Coordination Function Modeling
/// Approaches", IEEE Transactions on Vehicular Technology 59(3), 2010). `slots` are idle ones here; those
/// that send again at once do not collide.
fn refined(count: u32, rate_mbps: f64) -> f64 {
    let (others, zero) = (f64::from(count - 1), WINDOWS.map(|window| 1.0 / window));
    // Attempts at each stage that were counted down to, for one at the first.
    let attempts_at = |p: f64| {
        let mut attempts = [1.0; 7];
        for stage in 1..7 {
            attempts[stage] = attempts[stage - 1] * p * (1.0 - zero[stage]);
        }
        attempts
    };
    let tau = fixed_point(others, |p| {
        let attempts = attempts_at(p);
        let slots = attempts.iter().zip(WINDOWS).map(|(attempts, window)| attempts * window / 2.0);
        attempts.iter().sum::<f64>() / slots.sum::<f64>()
    });
    let none = libm::pow(1.0 - tau, f64::from(count));
    let one = f64::from(count) * tau * libm::pow(1.0 - tau, others);
    let attempts = attempts_at(1.0 - libm::pow(1.0 - tau, others));
    let zero_after = (0..7).map(|stage| attempts[stage] * zero[(stage + 1) % 7]);
    let again = (f64::from(count) * tau - one) * zero_after.sum::<f64>() / attempts.iter().sum::<f64>();
    let successes = (one + again) / (1.0 - zero[0]);
    let (success, collision) = durations(rate_mbps);
    successes * 1e6 / (9.0 + successes * success + (1.0 - none - one) * collision)
}

#[test]
fn saturation_throughput_is_bianchi_s() {
    for (count, rate_mbps) in [(2, 54.0), (5, 6.0), (5, 54.0), (10, 54.0), (20, 54.0)] {
        let text = saturated(count, "");
        let text = if rate_mbps > 6.0 {
            text.replace("6 Mbit/s", "54 Mbit/s").replace("9 Mbit/s", "30 Mbit/s")
        } else {
            text
        };
        let row = run(&text, 40.0);
        let each = (0..count).map(|index| value(&row, &format!("link.l{index}.reverse.delivered_packets")));
        let measured = each.sum::<f64>() / 40.0;
        let what = format!("{count} stations at {rate_mbps} Mbit/s");
        assert_close(measured, refined(count, rate_mbps), 0.008, &what);
        assert_close(measured, bianchi(count, rate_mbps), 0.02, &what);
    }
}

/// Stations in the background are like others, and with less to send they leave the rest.
#[test]
fn background_stations_take_their_share() {
    let per_second = |radio: &str| delivered(1, radio, 240.0)[0] / 240.0;
    assert_close(per_second(""), 1_000.0 / (MEAN_ACCESS_MS + FRAME_MS + ACK_MS), 2e-3, "alone");
    let each = delivered(5, "", 240.0);
    let mean = each.iter().sum::<f64>() / 5.0;
    for packets in &each {
        assert_close(*packets, mean, 0.06, "alike");
    }
    let four = ", background = { stations = 4, rate = '6 Mbit/s' }";
    assert_close(per_second(four), mean / 240.0, 0.06, "beside four");
    // 4 x 0.6 Mbit/s are 200 packets a second: what is left of 450, less collisions.
    let light = ", background = { stations = 4, rate = '6 Mbit/s', load = '0.6 Mbit/s' }";
    let left = per_second(light);
    assert!((220.0..250.0).contains(&left), "{left}");
}

/// A packet on an idle channel is sent at the next slot, without a backoff: on average half a slot later.
#[test]
fn a_lone_station_does_not_back_off() {
    let text = link("air", "s", ", rate = '6 Mbit/s', collisions = true", "")
        + &load("f", "air", "s", "1.1777 Mbit/s", ", delay_quantiles = true");
    let row = run(&text, 100.0);
    let mean = value(&row, "f.mean_delay_ms") - FRAME_MS;
    assert!((mean - 0.0045).abs() < 0.0003, "{mean}");
    assert!(value(&row, "f.max_delay_ms") - FRAME_MS < 0.009);
    assert_eq!(value(&row, "link.air.forward.collisions"), 0.0);
}

/// An access point with two links is one station: three stations with something to send get a third each.
#[test]
fn a_node_contends_once() {
    let radio = ", rate = '6 Mbit/s', medium = 'x', collisions = true";
    let text = link("l0", "s0", radio, "")
        + &link("l1", "s1", radio, "")
        + &load("d0", "l0", "s0", "9 Mbit/s", "")
        + &load("d1", "l1", "s1", "9 Mbit/s", "")
        + &load("u0", "l0", "s0", "9 Mbit/s", ", reverse = true")
        + &load("u1", "l1", "s1", "9 Mbit/s", ", reverse = true");
    let row = run(&text, 60.0);
    let packets = |name: &str| value(&row, &format!("link.{name}.delivered_packets"));
    let down = packets("l0.forward") + packets("l1.forward");
    assert_close(packets("l0.forward"), packets("l1.forward"), 1e-3, "in turn");
    assert_close(down, packets("l0.reverse"), 0.06, "a third");
    assert_close(down, packets("l1.reverse"), 0.06, "a third");
    assert_close(down + packets("l0.reverse") + packets("l1.reverse"), 60.0 * refined(3, 6.0), 0.01, "three");
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

/// What a discipline drops gives up its turn: a packet of the other direction waits for the packets that were
/// there when it came, not for those that are gone.
#[test]
fn dropped_packets_have_no_turn() {
    let queue = "queue = { kind = 'codel_literal', target = '20 ms' }\nreverse = { queue = { kind = 'head_drop', packets = 1000 } }";
    let text = link("air", "s", ", rate = '6 Mbit/s'", queue)
        + &load("f", "air", "s", "12 Mbit/s", "")
        + &load("g", "air", "s", "100 kbit/s", ", reverse = true");
    let row = run(&text, 20.0);
    assert!(value(&row, "link.air.forward.aqm_packets") > 5_000.0);
    let longest = value(&row, "link.air.reverse.max_sojourn_ms");
    assert!(longest < 60.0, "{longest}");
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
            ", collisions = true, background = { stations = 2, load = '2 Mbit/s' }, frame_error_rate = '10 %'",
            ", medium = 'x', rate = '12 Mbit/s'",
            ", medium = 'y', rate = '12 Mbit/s', collisions = true, retry_limit = 2",
            ", medium = 'y', rate = '6 Mbit/s', collisions = true",
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

    /// The same seed gives the same bits, traced or not, fused or not; every packet has one fate, and none
    /// overtakes another in a queue that is first in, first out.
    #[test]
    fn packets_are_conserved_and_runs_repeat_themselves(text in any_wifi()) {
        let row = run(&text, 1.2);
        for other in [run(&text, 1.2), run_of(&text, 1.2, 0, false, false).row, run_of(&text, 1.2, 0, true, true).row] {
            for ((name, left), (_, right)) in row.scalars().zip(other.scalars()) {
                prop_assert!(left.to_bits() == right.to_bits(), "{name}: {left} {right}");
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
        (
            "links.air.radio.background",
            "{ stations = 3 }",
            "links.air.radio.background.stations is 3, allowed is 0 unless `collisions` is true",
        ),
        ("links.air.mtu", "3000 B", "links.air.mtu is 3000 B, allowed is 68 B to 2296 B"),
        (
            "links.air.radio",
            "{ kind = 'wifi', collisions = true, background = { stations = 1, load = '55 Mbit/s' } }",
            "links.air.radio.background.load is 55 Mbit/s, allowed is at most their rate, 54 Mbit/s",
        ),
        (
            "links.air.queue",
            "{ kind = 'token_bucket' }",
            "links.air.queue.kind is \"token_bucket\", which shapes; a link with a `radio` sends at the radio's rate",
        ),
        (
            "links.air.reverse",
            "{ queue = { kind = 'cake', bandwidth = '1 Mbit/s' } }",
            "links.air.reverse.queue.bandwidth is 1 Mbit/s, which shapes; a link with a `radio` sends at the radio's rate",
        ),
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
