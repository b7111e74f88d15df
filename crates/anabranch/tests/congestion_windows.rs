//! Congestion windows of whole simulations with profile `rfc`, at times for which the sources give them:
//! CUBIC (RFC 9438), HyStart++ (RFC 9406), and marks that go on (RFC 3168). Beside them, where Linux does
//! something else, what it does.

use anabranch::sim::{Outcome, Simulation};
use anabranch::study::Study;
use anabranch::trace::{Column, Table};

const MSS: f64 = 1_448.0;

fn outcome(scenario: &str, sets: &[(&str, &str)]) -> Outcome {
    let sets: Vec<_> = sets.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let study = Study::parse(scenario, &sets, ".".as_ref()).expect("the scenario is possible");
    Simulation::build(&study.scenario, 0, true).expect("possible").run(&mut || None).expect("it ends")
}

fn table<'a>(outcome: &'a Outcome, name: &str) -> &'a Table {
    outcome.tables.iter().find(|table| table.name == name).expect("it was traced")
}

fn numbers(table: &Table, name: &str) -> Vec<f64> {
    match table.columns.iter().find(|(column, _)| *column == name) {
        Some((_, Column::Numbers(column))) => column.clone(),
        Some((_, Column::Integers(column))) => column.iter().map(|value| *value as f64).collect(),
        other => panic!("{name}: {other:?}"),
    }
}

fn words<'a>(table: &'a Table, name: &str) -> Vec<&'a str> {
    match table.columns.iter().find(|(column, _)| *column == name) {
        Some((_, Column::Text(column))) => column.iter().map(AsRef::as_ref).collect(),
        other => panic!("{name}: {other:?}"),
    }
}

/// A number of one end's path, with its times in seconds.
fn of_path(outcome: &Outcome, side: &str, name: &str) -> Vec<(f64, f64)> {
    let paths = table(outcome, "paths");
    let rows = numbers(paths, "time_s").into_iter().zip(numbers(paths, name));
    rows.zip(words(paths, "side")).filter(|(_, of)| *of == side).map(|(row, _)| row).collect()
}

/// The window of side a in segments at each of these times in seconds.
fn windows_at(outcome: &Outcome, times: &[f64]) -> Vec<f64> {
    let rows = of_path(outcome, "a", "cwnd_bytes");
    let at = |time: &f64| rows.iter().take_while(|(at, _)| at <= time).last().expect("it has begun").1 / MSS;
    times.iter().map(at).collect()
}

/// Expects the window at each of these times, within this many segments.
fn expect(outcome: &Outcome, expected: &[(f64, f64)], within: f64) {
    let times: Vec<f64> = expected.iter().map(|(time, _)| *time).collect();
    let found = windows_at(outcome, &times);
    let is_right = found.iter().zip(expected).all(|(found, (_, right))| (found - right).abs() <= within);
    assert!(is_right, "{found:?} instead of {expected:?}");
}

/// Two losses, at 0.33 s and at 2 s; the second leaves the window in the Reno-friendly region, because C is
/// small.
const TWO_LOSSES: &str = r#"
seed = 1
run.duration = "12 s"
paths.p.via = ["l"]

[links.l]
ends = ["a", "b"]
rate = "100 Mbit/s"
delay = "25 ms"

[links.l.loss]
kind = "bernoulli"
probability = { timetable = [["0 s", 0.0], ["0.32 s", 0.2], ["0.34 s", 0.0], ["2 s", 0.2], ["2.02 s", 0.0]] }

[flows.f]
from = "a"
to = "b"
paths = ["p"]
transport = { kind = "tcp", profile = "rfc", byte_counting = true, cc = { kind = "cubic", c = 0.01 } }
app = { kind = "bulk", duration = "12 s" }
"#;

/// RFC 9438 section 4.3: alpha is 0.529 up to 199 segments, the window before the second loss, and 1 from
/// then on; fast convergence lowers `W_max` to 170, which changes nothing. A round trip takes 50 ms.
#[test]
fn cubic_grows_as_reno_from_the_window_before_the_loss_on() {
    let outcome = outcome(TWO_LOSSES, &[]);
    let [before, after, middle, later] = windows_at(&outcome, &[1.99, 2.1, 5.2, 6.2])[..] else {
        panic!("four windows")
    };
    assert!(before == 199.0 && after == 139.0, "{before} {after}");
    // One second has 20 rounds of 0.529 segments.
    assert!((later - middle - 10.6).abs() <= 1.0, "{middle} {later}");
    let rows = of_path(&outcome, "a", "cwnd_bytes");
    let reached = rows.iter().find(|(at, bytes)| *at > 3.0 && *bytes / MSS >= 200.0).expect("it grows").0;
    // A round in recovery, then 114 rounds of 0.529 segments.
    assert!((reached - 7.8).abs() < 0.2, "{reached}");
    expect(&outcome, &[(reached + 1.0, 220.0), (reached + 2.0, 240.0)], 1.0);
}

/// RFC 9438 section 4.3: `W_est` counts the acknowledged segments. Without byte counting the window grows as
/// fast as with it: 10.6 segments a second, from 123 on.
#[test]
fn cubic_grows_as_fast_with_delayed_acknowledgements() {
    let outcome = outcome(TWO_LOSSES, &[("flows.f.transport.byte_counting", "false")]);
    let [begin, then, later] = windows_at(&outcome, &[3.0, 4.0, 5.0])[..] else { panic!("three windows") };
    assert!(
        (then - begin - 10.6).abs() <= 1.0 && (later - then - 10.6).abs() <= 1.0,
        "{begin} {then} {later}"
    );
}

/// 8 Mbit/s over 20 ms need 14 segments; a loss at 3 s leaves 30 of 44. At 40 s the round trip becomes 200 ms
/// long, so that the window limits the sender. RFC 9438 sections 4.2 and 5.8: the 37 s before do not count;
/// K is 3.2 s.
const LIMITED_BY_ITS_APPLICATION: &str = r#"
seed = 1
run.duration = "44 s"
paths.p.via = ["l"]

[links.l]
ends = ["a", "b"]
rate = "100 Mbit/s"
delay = { timetable = [["0 s", "10 ms"], ["40 s", "100 ms"]] }

[links.l.loss]
kind = "bernoulli"
probability = { timetable = [["0 s", 0.0], ["3 s", 0.1], ["3.02 s", 0.0]] }

[flows.f]
from = "a"
to = "b"
paths = ["p"]
transport = { kind = "tcp", profile = "rfc", cc = { kind = "cubic" } }
app = { kind = "bulk", duration = "44 s", write_size = "10 kB", write_cost = "10 ms" }
"#;

#[test]
fn time_limited_by_the_application_makes_no_window_leap() {
    let times = [3.5, 39.9, 41.0, 42.0, 43.0];
    let windows = windows_at(&outcome(LIMITED_BY_ITS_APPLICATION, &[]), &times);
    assert_eq!(windows[0], windows[1], "a window that is not used does not grow");
    assert!((29.0..=31.0).contains(&windows[0]), "{windows:?}");
    assert!(windows[2] > 31.0 && windows[4] <= 44.0, "{windows:?}");
    // H-TCP halves to 22, and grows by a segment or two per round afterwards.
    let htcp =
        windows_at(&outcome(LIMITED_BY_ITS_APPLICATION, &[("flows.f.transport.cc.kind", "htcp")]), &times);
    assert_eq!(htcp[0], htcp[1]);
    assert!(htcp[4] <= htcp[1] + 30.0, "{htcp:?}");
    // Linux counts the time.
    let sets = [("flows.f.transport.profile", "linux_6")];
    let linux = windows_at(&outcome(LIMITED_BY_ITS_APPLICATION, &sets), &times);
    assert!(linux[4] > 100.0, "{linux:?}");
}

/// The same with the peer's window in place of the application (RFC 9438 section 5.8).
#[test]
fn time_limited_by_the_peer_makes_no_window_leap() {
    let sets = [
        ("flows.f.app", r#"{ kind = "bulk", duration = "44 s" }"#),
        ("flows.f.transport.receive_buffer", "'25 kB'"),
        ("flows.f.transport.send_buffer", "'1 MB'"),
    ];
    let windows = windows_at(&outcome(LIMITED_BY_ITS_APPLICATION, &sets), &[3.5, 39.9, 43.0]);
    assert!(windows[0] > 17.0, "the peer's window has 17 segments: {windows:?}");
    assert_eq!(windows[0], windows[1]);
    assert_eq!(windows[1], windows[2], "the peer limits it still");
}

/// Losses at 0.9 s; at 6 s packets overtake each other for 2 ms, and the reduction that this causes is
/// undone.
const OVERTAKEN: &str = r#"
seed = 1
run.duration = "21 s"
paths.p.via = ["l"]

[links.l]
ends = ["a", "b"]
rate = "100 Mbit/s"
delay = { timetable = [["0 s", "40 ms"], ["6 s", "80 ms"], ["6.002 s", "40 ms"]] }
reorder = true
queue = { kind = "drop_tail", packets = 5000 }

[links.l.loss]
kind = "bernoulli"
probability = { timetable = [["0 s", 0.0], ["0.9 s", 0.3], ["0.91 s", 0.0]] }

[flows.f]
from = "a"
to = "b"
paths = ["p"]
transport = { kind = "tcp", profile = "rfc", cc = { kind = "cubic" }, receive_buffer = "8 MB", send_buffer = "8 MB", byte_counting = true }
app = { kind = "bulk", duration = "20 s" }
"#;

/// RFC 9438 section 4.9.2: after an undo the window is as if nothing had been detected, which is the run
/// without the step of the delay: 2015, 2074, 2111, 2121 and 2264 segments.
#[test]
fn an_undo_leaves_cubics_curve_as_it_was() {
    let times = [6.5, 8.0, 10.0, 12.0, 19.9];
    let undone = outcome(OVERTAKEN, &[]);
    assert_eq!(undone.row.value("f.tcp.a.undos"), Some(1.0));
    let plain = outcome(OVERTAKEN, &[("links.l.delay", "'40 ms'")]);
    assert_eq!(plain.row.value("f.tcp.a.undos"), Some(0.0));
    let expected: Vec<_> = times.into_iter().zip(windows_at(&plain, &times)).collect();
    // The window does not grow in the round of the reduction that is undone.
    expect(&undone, &expected, 2.0);
    expect(&undone, &[(6.5, 2_015.0), (8.0, 2_074.0), (10.0, 2_111.0), (12.0, 2_121.0)], 2.0);
}

/// Four responses of 5 MB on one connection, 5 s of thought between them; nothing is lost.
const RESPONSES: &str = r#"
seed = 1
run.duration = "60 s"
paths.p.via = ["l"]

[links.l]
ends = ["server", "client"]
rate = "50 Mbit/s"
delay = "50 ms"
queue = { kind = "drop_tail", packets = 3000 }

[flows.f]
from = "client"
to = "server"
paths = ["p"]
transport = { kind = "tcp", profile = "rfc", receive_buffer = "8 MB", send_buffer = "8 MB", cc = { kind = "reno", slow_start = "hystart++" } }
app = { kind = "requests", response_size = "5 MB", think_time = "5 s", count = 4 }
"#;

/// RFC 9406 section 4.3: after each pause slow start is standard and ends at the threshold that HyStart++
/// found. Each response takes as long as the first one, 1974 ms.
#[test]
fn hystart_plus_plus_does_not_end_the_slow_starts_after_a_pause() {
    for kind in ["reno", "cubic"] {
        let cc = format!("{{ kind = '{kind}', slow_start = 'hystart++' }}");
        let outcome = outcome(RESPONSES, &[("flows.f.transport.cc", &cc)]);
        let times = numbers(table(&outcome, "exchanges"), "time_ms");
        assert_eq!(times.len(), 4);
        assert!(times.iter().all(|ms| (1_900.0..2_050.0).contains(ms)), "{kind}: {times:?}");
        let thresholds = of_path(&outcome, "b", "ssthresh_bytes");
        let after: Vec<f64> =
            thresholds.iter().filter(|(at, _)| *at > 7.5).map(|(_, bytes)| bytes / MSS).collect();
        assert!(after.iter().all(|segments| (850.0..1_000.0).contains(segments)), "{kind}: {:?}", after[0]);
    }
}

/// A sender whose peer acknowledges every 32 segments; 1 Gbit/s, 100 ms, no loss.
const PACED: &str = r#"
seed = 1
run.duration = "1.3 s"
paths.p.via = ["l"]

[links.l]
ends = ["a", "b"]
rate = "1 Gbit/s"
delay = "50 ms"
queue = { kind = "drop_tail", packets = 20000 }

[flows.f]
from = "a"
to = "b"
paths = ["p"]
transport = { kind = "tcp", profile = "rfc", pacing = true, byte_counting = true, ack_every = 32, ack_delay = "5 ms", receive_buffer = "64 MB", send_buffer = "64 MB", cc = { kind = "reno", slow_start = "hystart++" } }
app = { kind = "bulk", duration = "1.2 s" }
"#;

/// RFC 9406 section 4.2: with a pace L has no limit, so that slow start is as fast as standard slow start:
/// 391, 768 and 1472 segments. Without one, an acknowledgement adds 8 segments at most.
#[test]
fn hystart_plus_plus_lets_a_paced_sender_grow_by_all_that_is_acknowledged() {
    let times = [0.75, 0.85, 0.95];
    let paced = outcome(PACED, &[]);
    expect(&paced, &[(0.75, 391.0), (0.85, 768.0), (0.95, 1_472.0)], 0.5);
    let standard = outcome(PACED, &[("flows.f.transport.cc.slow_start", "'standard'")]);
    assert_eq!(windows_at(&paced, &times), windows_at(&standard, &times));
    let unpaced = windows_at(&outcome(PACED, &[("flows.f.transport.pacing", "false")]), &times);
    assert!(unpaced[2] < 600.0, "{unpaced:?}");
}

/// Forty flows share a bottleneck that holds 3.3 packets; CoDel marks.
const FORTY: &str = r#"
seed = 1
run.duration = "40 s"
run.warm_up = "10 s"
paths.p.via = ["l"]

[links.l]
ends = ["a", "b"]
rate = "2 Mbit/s"
delay = "10 ms"
queue = { kind = "codel", ecn = true, packets = 5000 }

[flows.f]
from = "a"
to = "b"
paths = ["p"]
count = 40
stagger = "50 ms"
transport = { kind = "tcp", profile = "rfc", ecn = "rfc3168", cc = { kind = "cubic" } }
app = { kind = "bulk", duration = "38 s" }
"#;

/// RFC 9438 section 4.6, RFC 3168 section 6.1.2: marks that go on take a window to one segment, and then each
/// further one has the sender wait for its timer. So the queue stays short (it was 320 ms, with windows of
/// two segments), and few of the SYNs, which cannot be marked, are dropped: nearly all flows connect, where a
/// quarter never did.
#[test]
fn marks_that_go_on_take_windows_to_one_segment() {
    for kind in ["cubic", "reno", "dctcp"] {
        let cc = format!("{{ kind = '{kind}' }}");
        let outcome = outcome(FORTY, &[("flows.f.transport.cc", &cc)]);
        let windows = of_path(&outcome, "a", "cwnd_bytes");
        let least = windows.iter().map(|(_, bytes)| *bytes).fold(f64::INFINITY, f64::min);
        assert_eq!(least, MSS, "{kind}");
        let events = table(&outcome, "events");
        let connected = words(events, "event").into_iter().zip(words(events, "side"));
        let connected = connected.filter(|row| *row == ("connected", "a")).count();
        assert!(connected >= 38, "{kind}: {connected}");
        let packets = table(&outcome, "packets");
        let sent = numbers(packets, "sent_s").into_iter().zip(numbers(packets, "delivered_s"));
        let delays: Vec<f64> = sent
            .zip(words(packets, "side"))
            .filter(|((sent, delivered), side)| *side == "a" && *sent > 10.0 && !delivered.is_nan())
            .map(|((sent, delivered), _)| delivered - sent)
            .collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        // With one segment in each round trip, forty flows would have 40 x 6 ms.
        assert!(mean < 0.15, "{kind}: {mean}");
    }
}
