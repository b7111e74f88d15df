//! LTE through the whole simulator: delays of grants and of retransmissions by their distributions, rates,
//! the deep queue, and what holds for every link.

use std::path::Path;

use crate::radio::{any_bearer_settings, conserves_and_repeats, run, run_of, study, value};
use anabranch::sim::Outcome;
use anabranch::trace::Column;
use proptest::prelude::*;

/// An LTE link between `enb` and `ue`, and datagrams of 1500 B over it; `radio`, `link` and `app` are more
/// keys of these tables.
fn scenario(radio: &str, link: &str, rate: &str, app: &str) -> String {
    format!(
        "[links.air]\nends = ['enb', 'ue']\nradio = {{ kind = 'lte'{radio} }}\n{link}\n\
         [paths.p]\nvia = ['air']\n[flows.f]\nfrom = 'enb'\nto = 'ue'\npaths = ['p']\n\
         transport = {{ kind = 'udp' }}\napp = {{ kind = 'datagrams', size = '1472 B', rate = '{rate}', \
         delay_quantiles = true{app} }}\n"
    )
}

const CBR: &str = ", intervals = { kind = 'cbr' }";
const UP: &str = ", intervals = { kind = 'cbr' }, reverse = true";
/// Ten packets a second.
const TEN: &str = "117.76 kbit/s";

/// 8 ms + U(0, 4) ms, and 12 us of transmission at 1 Gbit/s.
#[test]
fn an_uplink_packet_waits_for_its_grant() {
    let row = run(&scenario(", uplink_rate = '1 Gbit/s'", "", TEN, UP), 1_000.0);
    let of = |name: &str| value(&row, &format!("f.{name}_delay_ms")) - 8.012;
    // Uniform: the mean's standard error is 4 / sqrt(12 x 10000), a quantile's at most 4 x 0.5 / 100.
    assert!((of("mean") - 2.0).abs() < 4.0 * 0.0116, "{}", of("mean"));
    assert!((of("p50") - 2.0).abs() < 4.0 * 0.02, "{}", of("p50"));
    assert!((of("p95") - 3.8).abs() < 4.0 * 0.0088, "{}", of("p95"));
    assert!(of("max") <= 4.0 + 1e-9 && of("max") > 3.99, "{}", of("max"));
}

#[test]
fn a_downlink_packet_comes_after_a_constant_delay() {
    let row = run(&scenario("", "delay = '10 ms'", TEN, CBR), 10.0);
    // 120 us at 100 Mbit/s.
    assert!((value(&row, "f.mean_delay_ms") - 16.12).abs() < 1e-9);
    assert!((value(&row, "f.max_delay_ms") - 16.12).abs() < 1e-9);
}

/// Times of sending and arrival of each packet that arrived.
fn arrivals(outcome: &Outcome) -> Vec<(f64, f64)> {
    let table = outcome.tables.iter().find(|table| table.name == "packets").unwrap();
    let column = |wanted: &str| match &table.columns.iter().find(|(name, _)| *name == wanted).unwrap().1 {
        Column::Numbers(numbers) => numbers.clone(),
        other => panic!("{other:?}"),
    };
    let both = column("sent_s").into_iter().zip(column("delivered_s"));
    both.filter(|(_, delivered)| !delivered.is_nan()).collect()
}

/// Packets a millisecond apart: each has a wait of its own, none overtakes, and the rate between grants is
/// the link's.
#[test]
fn packets_stay_in_order() {
    for radio in
        ["", ", harq = { error = '10 %' }", ", harq = { error = '40 %', transmissions = 2 }, rlc = 'um'"]
    {
        let outcome = run_of(&scenario(radio, "", "11.776 Mbit/s", UP), 10.0, 0, true, true);
        let arrivals = arrivals(&outcome);
        assert!(arrivals.len() > 7_000);
        for pair in arrivals.windows(2) {
            assert!(pair[0].1 <= pair[1].1, "{radio}: {pair:?}");
        }
        let delays = || arrivals.iter().map(|(sent, delivered)| delivered - sent);
        assert!(delays().fold(f64::MAX, f64::min) > 0.008);
        // Behind a block that is sent again, packets come at once: several within a microsecond.
        let together = arrivals.windows(2).filter(|pair| pair[1].1 - pair[0].1 < 1e-6).count();
        assert_eq!(together > 1_000, radio.contains("harq"), "{radio}: {together}");
    }
}

/// A packet alone in its subframe: each transmission fails with probability p, and after T of them RLC begins
/// anew. The mean wait is (8 (p + ... + p^(T - 1)) + 60 p^T) / (1 - p^T).
#[test]
fn retransmissions_take_their_round_trips() {
    let p = 0.5_f64;
    let for_good = p * p * p * p;
    let text = scenario(", harq = { error = '50 %' }", "", "11.776 kbit/s", CBR);
    let row = run(&text, 20_000.0);
    let sent = value(&row, "f.sent");
    let expected = (8.0 * (p + p * p + p * p * p) + 60.0 * for_good) / (1.0 - for_good);
    let measured = value(&row, "f.mean_delay_ms") - 6.12;
    // A standard deviation of about 25 ms.
    assert!((measured - expected).abs() < 4.0 * 25.0 / sent.sqrt(), "{measured} {expected}");
    assert!((value(&row, "f.p50_delay_ms") - 6.12 - 8.0).abs() < 8.0 + 1e-9);
    let failed = value(&row, "link.air.forward.failed_blocks") / sent;
    assert!((failed - p).abs() < 4.0 * 0.5 / sent.sqrt(), "{failed}");
    assert_eq!(value(&row, "link.air.forward.lost_packets"), 0.0);
    // Without acknowledgements, p^T of the packets are lost.
    let row = run(&text.replace(", harq", ", rlc = 'um', harq"), 20_000.0);
    let lost = value(&row, "link.air.forward.air_lost_packets") / sent;
    assert!((lost - for_good).abs() < 4.0 * (for_good / sent).sqrt(), "{lost}");
}

/// A block takes everything in its subframe with it. Packets follow each other without regard to subframes:
/// one that takes a tenth of a subframe has a part in 1.1 blocks on average, one that takes ten subframes in
/// eleven.
#[test]
fn packets_of_a_subframe_share_its_fate() {
    let lost = |rate: &str, seconds: f64| {
        let radio =
            format!(", downlink_rate = '{rate}', rlc = 'um', harq = {{ error = '10 %', transmissions = 1 }}");
        let row = run(&scenario(&radio, "", "300 Mbit/s", CBR), seconds);
        let [lost, delivered] =
            ["lost", "delivered"].map(|fate| value(&row, &format!("link.air.forward.{fate}_packets")));
        lost / (lost + delivered)
    };
    // Single draws are those of blocks: 10000 of them.
    for (rate, seconds, expected) in [
        ("120 Mbit/s", 10.0, 0.9 * 0.1 + 0.1 * 0.19),
        ("12 Mbit/s", 10.0, 1.0 - libm::pow(0.9, 2.0)),
        ("1.2 Mbit/s", 100.0, 1.0 - libm::pow(0.9, 11.0)),
    ] {
        let lost = lost(rate, seconds);
        assert!((lost - expected).abs() < 0.02, "{rate}: {lost} {expected}");
    }
}

/// Two thirds of the packets find the queue of 1500 full; the others wait for 1500 x 12 ms.
#[test]
fn the_queue_is_deep_unless_it_is_said_otherwise() {
    let most = |queue: &str| {
        let row = run(&scenario(", downlink_rate = '1 Mbit/s'", queue, "2.944 Mbit/s", CBR), 60.0);
        value(&row, "link.air.forward.max_sojourn_ms")
    };
    assert!((most("") - 1_500.0 * 12.0).abs() < 13.0, "{}", most(""));
    assert!((most("queue = { kind = 'drop_tail', packets = 50 }") - 600.0).abs() < 13.0);
    assert!(most("queue = { kind = 'fq_codel' }") < 13_000.0);
}

#[test]
fn rates_follow_timetables_and_traces() {
    let packets = |rate: &str, seconds: f64| {
        let text = scenario(&format!(", downlink_rate = {rate}"), "", "30 Mbit/s", CBR);
        value(&run(&text, seconds), "link.air.forward.delivered_packets")
    };
    let timetable = "{ timetable = [['0 s', '12 Mbit/s'], ['1 s', '1.2 Mbit/s']] }";
    assert!((packets(timetable, 1.0) - 994.0).abs() <= 1.0, "{}", packets(timetable, 1.0));
    assert!((packets(timetable, 3.0) - 1_199.0).abs() <= 2.0, "{}", packets(timetable, 3.0));
    // Three opportunities in 20 ms.
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("lte.trace"), "5\n6\n20\n").unwrap();
    let trace = "{ mahimahi = 'lte.trace' }";
    assert!((packets(trace, 10.0) - 1_500.0).abs() <= 3.0, "{}", packets(trace, 10.0));
}

/// The downlink waits for the next on-duration; the uplink does not, and keeps the station awake.
#[test]
fn a_station_that_sleeps_is_sent_nothing() {
    let radio = ", drx = { cycle = '64 ms', on = '4 ms', inactivity = '20 ms' }";
    let outcome = run_of(&scenario(radio, "", "117325 bit/s", CBR), 60.0, 0, true, true);
    let mut waited = 0;
    for (sent, delivered) in arrivals(&outcome) {
        let phase = sent % 0.064;
        let wait = if phase < 0.004 { 0.0 } else { 0.064 - phase };
        waited += u32::from(wait > 0.0);
        assert!((delivered - sent - wait - 0.006_12).abs() < 1e-7, "{sent}: {delivered}");
    }
    assert!(waited > 500);
    let row = run(&scenario(radio, "", "117325 bit/s", UP), 60.0);
    assert!(value(&row, "f.max_delay_ms") < 12.3);
    // Packets that come every 10 ms find the station awake once it is.
    let row = run(&scenario(radio, "", "1177600 bit/s", CBR), 10.0);
    assert!((value(&row, "f.p95_delay_ms") - 6.12).abs() < 1e-6);
}

/// In the gap of a handover nothing is sent; what waits goes on after it, or is lost.
#[test]
fn a_handover_is_a_gap() {
    let radio = ", request_wait = '0 s', handovers = { at = ['1003 ms'], repeat = '5 s', gap = '60 ms' }";
    for (app, way, delay) in [(CBR, "forward", 0.006), (UP, "reverse", 0.0)] {
        let outcome = run_of(&scenario(radio, "", "1177600 bit/s", app), 20.0, 0, true, true);
        assert_eq!(value(&outcome.row, &format!("link.air.{way}.lost_packets")), 0.0);
        let during = |time: f64| (1.003..1.063).contains(&((time - delay) % 5.0));
        let arrivals = arrivals(&outcome);
        assert!(arrivals.len() > 1_990);
        assert!(arrivals.iter().all(|(_, delivered)| !during(*delivered)), "{way}");
        let held = arrivals.iter().filter(|(sent, delivered)| delivered - sent > 0.015).count();
        assert_eq!(held, 4 * 5, "{way}");
    }
    let lossy = radio.replace("gap =", "forwarding = false, gap =");
    let row = run(&scenario(&lossy, "", "1177600 bit/s", CBR), 20.0);
    assert_eq!(value(&row, "link.air.forward.down_packets"), 4.0 * 6.0);
    let row = run(&scenario(&lossy, "", "1177600 bit/s", UP), 20.0);
    assert_eq!(value(&row, "link.air.reverse.down_packets"), 0.0);
}

fn any_lte() -> impl Strategy<Value = String> {
    let radio = prop::sample::select(
        &[
            "",
            ", harq = { error = '20 %' }",
            ", harq = { error = { timetable = [['0 s', '5 %'], ['500 ms', '60 %']] }, transmissions = 2 }, rlc = 'um'",
            ", downlink_rate = '2 Mbit/s', uplink_rate = { timetable = [['0 s', '1 Mbit/s'], ['300 ms', '9 Mbit/s']] }",
            ", request_wait = '0 s', grant_delay = '0 s', downlink_delay = '0 s'",
            ", drx = { cycle = '80 ms', inactivity = '10 ms' }, t_reordering = '20 ms', rlc = 'um', harq = { error = '30 %' }",
            ", handovers = { at = ['200 ms', '600 ms'], repeat = '900 ms', forwarding = false }, drx = {}",
        ][..],
    );
    let rate = prop::sample::select(&["300 kbit/s", "3 Mbit/s", "20 Mbit/s"][..]);
    (radio, any_bearer_settings(), rate, any::<bool>()).prop_map(|(radio, settings, rate, up)| {
        let app = if up { UP } else { CBR };
        let text = scenario(radio, settings, rate, app);
        let back = text.split_once("[flows.f]").unwrap().1.replace(UP, CBR).replace("'f'", "'g'");
        format!("{text}[flows.g]{back}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The same seed gives the same bits, traced or not, fused or not; every packet has one fate.
    #[test]
    fn packets_are_conserved_and_runs_repeat_themselves(text in any_lte()) {
        conserves_and_repeats(&text, 1.2)?;
    }
}

#[test]
fn mistakes_are_named_in_one_sentence() {
    let base = scenario("", "", TEN, CBR);
    for (key, found, sentence) in [
        ("links.air.radio.harq", "{ error = 1 }", "links.air.radio.harq.error is 1, allowed is 0 to 0.99"),
        (
            "links.air.radio.harq",
            "{ transmissions = 0 }",
            "links.air.radio.harq.transmissions is 0, allowed is 1 to 28",
        ),
        ("links.air.radio.uplink_rate", "fast", "links.air.radio.uplink_rate"),
        ("links.air.radio.rlc", "tm", "links.air.radio.rlc"),
        (
            "links.air.rate",
            "1 Mbit/s",
            "links.air.rate is given although links have either a rate or a `radio`",
        ),
    ] {
        let error = study(&base, &[(key, found)]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(sentence), "{key} = {found}: {error}");
    }
}
