//! Satellites in low orbit through the whole simulator: probes at 500 Hz over the default link see what was
//! published, queues fill while it pauses, and mistakes are sentences.

use crate::radio::{run, run_of, study, value};
use anabranch::sim::{Outcome, Simulation};
use anabranch::trace::Column;

/// A link over satellites, and probes of 100 B over it every 2 ms; `radio`, `link` and `app` are more keys of
/// these tables.
fn scenario(radio: &str, link: &str, app: &str) -> String {
    format!(
        "[links.sky]\nends = ['ground', 'dish']\nradio = {{ kind = 'leo'{radio} }}\n{link}\n\
         [paths.p]\nvia = ['sky']\n[flows.f]\nfrom = 'ground'\nto = 'dish'\npaths = ['p']\n\
         transport = {{ kind = 'udp' }}\napp = {{ kind = 'datagrams', size = '72 B', rate = '288 kbit/s', \
         intervals = {{ kind = 'cbr' }}{app} }}\n"
    )
}

const UP: &str = ", reverse = true";

/// When each packet that arrived was sent, in seconds, and its delay in milliseconds.
fn delays(outcome: &Outcome) -> Vec<(f64, f64)> {
    let table = outcome.tables.iter().find(|table| table.name == "packets").unwrap();
    let column = |wanted: &str| match &table.columns.iter().find(|(name, _)| *name == wanted).unwrap().1 {
        Column::Numbers(numbers) => numbers.clone(),
        other => panic!("{other:?}"),
    };
    let both = column("sent_s").into_iter().zip(column("delivered_s"));
    both.filter(|(_, delivered)| !delivered.is_nan())
        .map(|(sent, delivered)| (sent, (delivered - sent) * 1e3))
        .collect()
}

/// arXiv:2601.08439: 140 ms at the beginning of a period, 75 ms at its end, and stable between.
#[test]
fn probes_see_the_published_borders() {
    for (app, base) in [("", [14.0, 20.0]), (UP, [20.0, 30.0])] {
        let seen = delays(&run_of(&scenario("", "", app), 120.0, 3, true, true));
        let between = |from: f64, to: f64| {
            seen.iter().filter(move |(sent, _)| (from..to).contains(sent)).map(|(_, delay)| *delay)
        };
        let mut bases = Vec::new();
        for period in 0..7 {
            let begin = 12.0 + 15.0 * f64::from(period);
            let first = between(begin, begin + 0.5).fold(0.0, f64::max);
            assert!((first - 140.0).abs() < 5.0, "{app} {begin}: {first}");
            let last = between(begin - 0.5, begin).fold(0.0, f64::max);
            assert!((last - 75.0).abs() < 5.0, "{app} {begin}: {last}");
            let [least, most] = [f64::MAX, f64::MIN].map(|start| {
                let pick = if start > 0.0 { f64::min } else { f64::max };
                between(begin + 1.0, begin + 14.0).fold(start, pick)
            });
            assert!(most - least < 0.001, "{app} {begin}: {least} to {most}");
            assert!((base[0]..base[1] + 0.2).contains(&least), "{app}: {least}");
            bases.push(least);
        }
        bases.dedup();
        assert_eq!(bases.len(), 7, "each period has a delay of its own: {bases:?}");
        assert!(
            seen.windows(2).all(|pair| pair[0].1 / 1e3 + pair[0].0 <= pair[1].1 / 1e3 + pair[1].0 + 1e-9)
        );
    }
}

/// Replications draw other periods; the same one draws the same ones.
#[test]
fn periods_are_drawn_by_replication() {
    let text = scenario("", "", "");
    let first = |replication| delays(&run_of(&text, 30.0, replication, true, true))[0].1.to_bits();
    assert_eq!(first(0), first(0));
    assert_ne!(first(0), first(1));
}

/// Half of the packets of 300 ms in each 15 s.
#[test]
fn borders_lose_packets() {
    let radio = ", downlink = { begin = { length = '300 ms', loss = '50 %' } }";
    let row = run(&scenario(radio, "", ""), 1_500.0);
    let lost = value(&row, "link.sky.forward.lost_packets");
    let expected: f64 = 100.0 * 150.0 * 0.5;
    assert!((lost - expected).abs() < 4.0 * (expected * 0.5).sqrt(), "{lost}");
    assert_eq!(value(&row, "link.sky.reverse.lost_packets"), 0.0);
}

/// It has a rate, so any queue discipline, cross traffic and `down` go with it, and each period's rate is
/// that of its line.
#[test]
fn rates_are_those_of_a_file_and_disciplines_serve_them() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("leo-rates.txt"), "# kbit/s\n1000\n2000\n").unwrap();
    let radio = ", offset = '0 s', downlink = { rate = { file = 'leo-rates.txt' } }";
    let queue = "queue = { kind = 'fq_codel' }";
    let text = scenario(radio, queue, "").replace("'288 kbit/s'", "'20 Mbit/s'").replace("72 B", "1472 B");
    let of = |seconds| value(&run(&text, seconds), "link.sky.forward.delivered_bytes") * 8.0 / 1e6;
    let (first, both) = (of(15.0), of(30.0));
    assert!((first / 15.0 - 1.0).abs() < 0.02, "{first}");
    assert!(((both - first) / 30.0 - 1.0).abs() < 0.02, "{both}");
    let loaded = scenario(radio, "cross_traffic = [{ kind = 'poisson', rate = '500 kbit/s' }]", "");
    let row = run(&loaded.replace("file = 'leo-rates.txt'", "values = ['1 Mbit/s']"), 15.0);
    assert!(value(&row, "link.sky.forward.cross_arrived_packets") > 100.0);
}

#[test]
fn mistakes_are_sentences() {
    for (radio, link, expected) in [
        (", period = '900 ms'", "", "links.sky.radio.period is \"900 ms\", allowed is 1 s to 3600 s"),
        (
            ", uplink = { begin = { length = '16 s' } }",
            "",
            "links.sky.radio.uplink: begin takes 16 s and end ",
        ),
        (", downlink = { rate = '-1 Mbit/s' }", "", "links.sky.radio.downlink.rate"),
        (", downlink = { rate = { file = 'nowhere.txt' } }", "", "cannot read"),
        (
            "",
            "up = { timetable = [['0 s', true], ['5 s', false]] }",
            "links.sky.up is given although the radio",
        ),
        ("", "delay = '5 ms'", "links.sky.delay is given although the link has a `leo` radio"),
        ("", "rate = '5 Mbit/s'", "links.sky.rate is given although the link has a `leo` radio"),
        (
            ", uplink = { end = { loss = '1 %' } }",
            "loss = { kind = 'bernoulli', probability = 0.1 }",
            "links.sky.loss is given although the radio loses packets at its borders",
        ),
    ] {
        let text = scenario(radio, link, "");
        let error = match study(&text, &[]) {
            Ok(study) => Simulation::build(&study.scenario, 0, false).map(|_| ()).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
