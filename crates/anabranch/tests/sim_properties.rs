//! What holds for every scenario, tried on random ones: fusing chains of links and tracing change nothing,
//! runs repeat themselves, packets are conserved, and what happens elsewhere changes no draw.

use std::collections::{BTreeMap, BTreeSet};

use crate::random_scenario;
use anabranch::app::AppConfig;
use anabranch::net::qdisc::QueueConfig;
use anabranch::scenario::Scenario;
use anabranch::schedule::Schedule;
use anabranch::sim::{Outcome, Simulation};
use anabranch::trace::{Column, Table};
use anabranch_transport::report::Row;
use anabranch_transport::time::Duration;
use anabranch_transport::units::Probability;
use proptest::prelude::*;

fn read(text: &str) -> Scenario {
    random_scenario::study(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}")).scenario
}

fn simulate(scenario: &Scenario, trace: bool, fuse: bool) -> Outcome {
    let simulation = Simulation::build_fused(scenario, 0, trace, fuse).unwrap();
    simulation.run(&mut || None).unwrap()
}

/// A run whose packets are captured; the capture is thrown away.
fn capture(scenario: &Scenario, trace: bool) -> Outcome {
    let simulation = Simulation::build_captured(scenario, 0, trace, Box::new(std::io::sink()), None).unwrap();
    simulation.run(&mut || None).unwrap()
}

/// Names and values as bits.
fn results(row: &Row) -> BTreeMap<String, u64> {
    row.scalars().map(|(name, value)| (name.to_owned(), value.to_bits())).collect()
}

fn differences(left: &Row, right: &Row) -> Vec<String> {
    let (left, right) = (results(left), results(right));
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let value =
        |results: &BTreeMap<String, u64>, name: &String| results.get(name).map(|&bits| f64::from_bits(bits));
    names
        .into_iter()
        .filter(|&name| left.get(name) != right.get(name))
        .map(|name| format!("{name}: {:?} {:?}", value(&left, name), value(&right, name)))
        .collect()
}

/// Runs a scenario in all ways, and compares scalars and tables.
fn assert_same_however_computed(scenario: &Scenario, text: &str) -> Result<(), TestCaseError> {
    let plain = simulate(scenario, false, true);
    let traced = simulate(scenario, true, true);
    let traced_evented = simulate(scenario, true, false);
    for (what, other) in [
        ("evented", &simulate(scenario, false, false)),
        ("traced", &traced),
        ("traced and evented", &traced_evented),
        ("captured", &capture(scenario, false)),
        ("traced and captured", &capture(scenario, true)),
    ] {
        let differences = differences(&plain.row, &other.row);
        prop_assert!(differences.is_empty(), "{}: {:#?}\n{}", what, differences, text);
    }
    assert_same_tables(&traced.tables, &traced_evented.tables)
}

/// Columns as text, so that NaN equals itself.
fn assert_same_tables(left: &[Table], right: &[Table]) -> Result<(), TestCaseError> {
    for (left, right) in left.iter().zip(right) {
        for ((name, left_column), (_, right_column)) in left.columns.iter().zip(&right.columns) {
            prop_assert_eq!(
                format!("{left_column:?}"),
                format!("{right_column:?}"),
                "{}.{}",
                left.name,
                name
            );
        }
    }
    prop_assert_eq!(left.len(), right.len());
    Ok(())
}

fn column<'a>(outcome: &'a Outcome, table: &str, column: &str) -> &'a Column {
    let table = outcome.tables.iter().find(|candidate| candidate.name == table).unwrap();
    &table.columns.iter().find(|(name, _)| *name == column).unwrap().1
}

fn table_text<'a>(outcome: &'a Outcome, table: &str, name: &str) -> Vec<&'a str> {
    let Column::Text(values) = column(outcome, table, name) else { panic!("{name} is text") };
    values.iter().map(AsRef::as_ref).collect()
}

fn integers<'a>(outcome: &'a Outcome, table: &str, name: &str) -> &'a [i64] {
    let Column::Integers(values) = column(outcome, table, name) else { panic!("{name} is integers") };
    values
}

fn numbers<'a>(outcome: &'a Outcome, table: &str, name: &str) -> &'a [f64] {
    let Column::Numbers(values) = column(outcome, table, name) else { panic!("{name} is numbers") };
    values
}

fn sum(row: &Row, prefix: &str, suffix: &str) -> f64 {
    row.scalars()
        .filter(|(name, _)| name.starts_with(prefix) && name.ends_with(suffix))
        .map(|(_, value)| value)
        .sum()
}

/// The most packets and bytes that may wait in a queue.
fn limits(queue: &QueueConfig) -> (f64, f64) {
    let QueueConfig::DropTail(queue) = queue else {
        let settings = serde_json::to_value(queue).unwrap();
        if settings["kind"] == "token_bucket" {
            // A packet may wait for tokens besides.
            let (packets, bytes) = limits(&serde_json::from_value(settings["child"].clone()).unwrap());
            return (packets + 1.0, bytes + 1500.0);
        }
        let packets = settings["packets"].as_f64().unwrap_or(f64::MAX);
        let bytes = if let QueueConfig::Cake(cake) = queue { cake.bytes } else { None };
        return (packets, bytes.map_or(f64::MAX, |bytes| bytes.0 as f64));
    };
    // Packets that wait when a limit shrinks stay.
    let of_default = if queue.bytes.is_none() { 50 } else { u32::MAX };
    let most = queue.packets.as_ref().and_then(|limit| limit.values().max()).unwrap_or(of_default);
    let most_bytes = queue.bytes.as_ref().and_then(|limit| limit.values().max());
    (most.into(), most_bytes.map_or(f64::MAX, |bytes| bytes.0 as f64))
}

/// Beginnings and ends in seconds.
type Spans = Vec<(f64, f64)>;

/// `PROPTEST_CASES` may ask for more cases than a quick run has.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 32 };
    ProptestConfig { cases, ..asked }
}

proptest! {
    #![proptest_config(config())]

    /// Equal rows and equal traces with and without computing chains of links at once, and with and
    /// without traces.
    #[test]
    fn fusing_and_tracing_change_nothing(text in random_scenario::text()) {
        assert_same_however_computed(&read(&text), &text)?;
    }

    /// A cut, at the time at which something happens on a link or shortly before the end, when what is still
    /// on its way has no event any more, gives the same parts.
    #[test]
    fn parts_are_the_same_however_a_run_is_computed(
        text in random_scenario::text(),
        at in any::<prop::sample::Index>(),
        before_end in prop::option::of(1..20_000_u64),
    ) {
        let mut scenario = read(&text);
        let outcome = simulate(&scenario, true, true);
        let duration = scenario.run.duration;
        let left = numbers(&outcome, "hops", "left_s").iter().map(|&time| (time * 1e9).round() as u64);
        let times: Vec<u64> = left.filter(|time| (1..duration.as_nanos()).contains(time)).collect();
        let cut = match before_end {
            None if !times.is_empty() => Duration::from_nanos(times[at.index(times.len())]),
            before_end => duration - Duration::from_micros(before_end.unwrap_or(1)),
        };
        scenario.run.phases = vec![cut];
        assert_same_however_computed(&scenario, &text)?;
    }

    /// A run is given up at the same event, whatever is observed.
    #[test]
    fn the_most_events_are_the_same_however_a_run_is_computed(text in random_scenario::text(), part in 0.0..1.1) {
        let mut scenario = read(&text);
        let events = simulate(&scenario, false, true).row.value("run.events").unwrap();
        scenario.run.max_events = (events * part) as u64;
        let run = |simulation: Simulation| simulation.run(&mut || None).map(|outcome| outcome.row.value("run.events"));
        let built = |trace, fuse| run(Simulation::build_fused(&scenario, 0, trace, fuse).unwrap());
        let captured = |trace| run(Simulation::build_captured(&scenario, 0, trace, Box::new(std::io::sink()), None).unwrap());
        let plain = built(false, true);
        prop_assert_eq!(plain.is_err(), scenario.run.max_events as f64 <= events, "{:?}", plain);
        for other in [built(false, false), built(true, true), built(true, false), captured(false), captured(true)] {
            prop_assert_eq!(&plain, &other, "{}", text);
        }
    }

    /// Links that packets cross in one step where all of them are idle deliver and count what they would
    /// one by one, at the end and at each cut.
    #[test]
    fn chains_of_idle_links_change_nothing(
        rates in prop::collection::vec(1_u32..5, 3..7),
        is_tcp in any::<bool>(),
        phase in 1..2_499_u32,
    ) {
        let link = |(number, rate): (usize, &u32)| {
            format!(
                "[links.l{number}]\nends = ['n{number}', 'n{}']\nrate = '{rate} Mbit/s'\ndelay = '{rate} ms'\n",
                number + 1
            )
        };
        let links: String = rates.iter().enumerate().map(link).collect();
        let via: Vec<String> = (0..rates.len()).map(|number| format!("l{number}")).collect();
        let flow = if is_tcp {
            "transport = { kind = 'tcp' }\napp = { kind = 'bulk' }"
        } else {
            "transport = { kind = 'sctp' }\napp = { kind = 'voip', start = '100 ms', duration = '2 s', direction = 'both' }"
        };
        let text = format!(
            "run = {{ duration = '2.5 s', phases = ['{phase} ms'] }}\n{links}[paths.p]\nvia = {via:?}\n\
             [flows.f]\nfrom = 'n0'\nto = 'n{}'\npaths = ['p']\n{flow}\n",
            rates.len()
        );
        let scenario = read(&text);
        let (plain, evented) = (simulate(&scenario, false, true), simulate(&scenario, false, false));
        let differences = differences(&plain.row, &evented.row);
        prop_assert!(differences.is_empty(), "{:#?}\n{}", differences, text);
    }

    /// The hops of each packet are its way: each begins where and when the one before it ended, and the last
    /// ends as the packet did.
    #[test]
    fn hops_are_the_ways_of_packets(text in random_scenario::text()) {
        let outcome = simulate(&read(&text), true, true);
        let (packet, link) = (integers(&outcome, "hops", "packet"), table_text(&outcome, "hops", "link"));
        let fate = table_text(&outcome, "hops", "fate");
        let [entered, begun, left, ended] =
            ["entered_s", "begun_s", "left_s", "ended_s"].map(|name| numbers(&outcome, "hops", name));
        let mut ways: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for row in 0..packet.len() {
            ways.entry(packet[row]).or_default().push(row);
            prop_assert!(left[row].is_nan() || entered[row] <= left[row], "row {}\n{}", row, text);
            // The server begins while the packet is there, if the link says when.
            let is_early = begun[row] < entered[row] || begun[row] > left[row];
            prop_assert!(!is_early, "row {}\n{}", row, text);
            prop_assert!(ended[row].is_nan() || entered[row] <= ended[row], "row {}\n{}", row, text);
            // Either time may be missing.
            let is_out_of_order = left[row] > ended[row];
            prop_assert!(!is_out_of_order, "row {}\n{}", row, text);
            prop_assert_eq!(ended[row].is_nan(), fate[row] == "on_link", "row {}\n{}", row, text);
        }
        let (sent, delivered) = (numbers(&outcome, "packets", "sent_s"), numbers(&outcome, "packets", "delivered_s"));
        let (fates, dropped_at) =
            (table_text(&outcome, "packets", "fate"), table_text(&outcome, "packets", "dropped_at"));
        for (&number, rows) in &ways {
            let number = number as usize;
            let links: BTreeSet<&str> = rows.iter().map(|&row| link[row]).collect();
            // Fragments come to a link one by one, and a copy begins where it was made.
            if links.len() < rows.len() {
                continue;
            }
            let (first, last) = (rows[0], rows[rows.len() - 1]);
            let is_copy = number > 0 && entered[first] > sent[number];
            prop_assert!(is_copy || entered[first] == sent[number], "packet {}\n{}", number, text);
            for pair in rows.windows(2) {
                prop_assert_eq!(fate[pair[0]], "arrived", "packet {}\n{}", number, text);
                prop_assert_eq!(ended[pair[0]], entered[pair[1]], "packet {}\n{}", number, text);
            }
            match fates[number] {
                "delivered" => {
                    prop_assert_eq!(fate[last], "arrived", "packet {}\n{}", number, text);
                    prop_assert_eq!(ended[last], delivered[number], "packet {}\n{}", number, text);
                }
                // Either still on a link, or between the end of its route and what comes there.
                "in_flight" => prop_assert!(fate[last] == "on_link" || fate[last] == "arrived", "{}\n{}", number, text),
                cause => {
                    prop_assert!([cause, "on_link"].contains(&fate[last]), "packet {}\n{}", number, text);
                    prop_assert_eq!(link[last], dropped_at[number], "packet {}\n{}", number, text);
                }
            }
        }
        prop_assert_eq!(ways.len(), sent.len(), "{}", text);
    }

    /// Time accounts change no result; each has every moment of its connection once, and shares add up to
    /// one.
    #[test]
    fn time_accounts_cover_the_connections_time(text in random_scenario::text()) {
        let mut scenario = read(&text);
        let plain = simulate(&scenario, false, true);
        scenario.run.time_accounts = true;
        let outcome = simulate(&scenario, false, true);
        let is_account = |name: &str| {
            [".mean_head_of_line_bytes", ".mean_srtt_ms", "_share"].iter().any(|end| name.ends_with(end))
        };
        let others: Vec<_> = results(&outcome.row).into_iter().filter(|(name, _)| !is_account(name)).collect();
        prop_assert_eq!(others, Vec::from_iter(results(&plain.row)), "{}", text);

        let (start, end) = (numbers(&outcome, "limits", "start_s"), numbers(&outcome, "limits", "end_s"));
        let (flow, side) = (table_text(&outcome, "limits", "flow"), table_text(&outcome, "limits", "side"));
        let limit = table_text(&outcome, "limits", "limit");
        let waits_for = integers(&outcome, "limits", "waits_for");
        let mut spans: BTreeMap<(&str, &str), BTreeMap<i64, Spans>> = BTreeMap::new();
        let mut last = None;
        for (row, &path) in integers(&outcome, "limits", "path").iter().enumerate() {
            let key = (flow[row], side[row], path);
            prop_assert!(start[row] < end[row]);
            let spans = spans.entry((flow[row], side[row])).or_default().entry(path).or_default();
            match (last, spans.last_mut()) {
                (Some((before, until, limited)), Some(span)) if before == key => {
                    prop_assert!(start[row] >= until, "no two limits at the same time");
                    prop_assert!(start[row] > until || (limit[row], waits_for[row]) != limited, "intervals are as long as can be");
                    if start[row] == until {
                        span.1 = end[row];
                    } else {
                        spans.push((start[row], end[row]));
                    }
                }
                _ => spans.push((start[row], end[row])),
            }
            last = Some((key, end[row], (limit[row], waits_for[row])));
        }
        for ((flow, side), spans) in &spans {
            for (path, own) in spans {
                prop_assert_eq!(own, &spans[&-1], "{} {} path {}", flow, side, path);
            }
        }
        for name in scenario.flows.keys() {
            for (section, _) in outcome.row.scalars().filter_map(|(scalar, value)| {
                let section = scalar.strip_suffix(".handshake_share")?;
                (section.starts_with(&format!("{name}.")) && !value.is_nan()).then_some((section, value))
            }) {
                let shares = anabranch_transport::observed::LimitedBy::ALL
                    .iter()
                    .map(|limit| outcome.row.value(&format!("{section}.{}_share", limit.name())).unwrap());
                prop_assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{}", section);
            }
        }
    }

    /// `drop_tail` gives the same results with each departure simulated as without.
    ///
    /// Except where both directions of a link draw from one loss process: with the event a packet draws when
    /// it leaves the queue, without it when it comes.
    #[test]
    fn measuring_drop_tail_changes_nothing(text in random_scenario::text()) {
        let mut lazy = read(&text.replace("measure = true", "measure = false").replace(", sharing = 'shared'", ""));
        for link in lazy.links.values_mut() {
            // The second packet comes to be behind the queue: at the end of the run there are fewer of them.
            link.duplicate = Schedule::Constant(Probability::new(0.0).unwrap());
            if let Some(reverse) = &mut link.reverse {
                reverse.duplicate = None;
            }
        }
        let mut measured = lazy.clone();
        for link in measured.links.values_mut().filter(|link| link.rate.is_some()) {
            if let QueueConfig::DropTail(queue) = &mut link.queue {
                queue.measure = true;
            }
        }
        let [lazy, measured] = [&lazy, &measured].map(|scenario| simulate(scenario, true, true));
        // The links' own columns differ in what they measure; and what is lost behind the queue, or with it
        // as a link goes down, is dropped then and not when it comes.
        let (left, right) = (results(&lazy.row), results(&measured.row));
        for (name, left) in left.iter().filter(|(name, _)| *name != "run.packets_dropped") {
            if let Some(right) = right.get(name) {
                let values = [lazy.row.value(name), measured.row.value(name)];
                prop_assert_eq!(left, right, "{}: {:?}\n{}", name, values, text);
            }
        }
        let delivered = |outcome: &Outcome| -> Vec<bool> {
            table_text(outcome, "packets", "fate").iter().map(|fate| *fate == "delivered").collect()
        };
        prop_assert_eq!(delivered(&lazy), delivered(&measured));
    }

    /// Every packet has one row in the trace and one fate, and the row's counters say the same; queues keep
    /// their limits.
    #[test]
    fn traces_and_counters_agree(text in random_scenario::text()) {
        let scenario = read(&text);
        let outcome = simulate(&scenario, true, true);
        let row = &outcome.row;
        let fates = table_text(&outcome, "packets", "fate");
        let count = |wanted: &[&str]| fates.iter().filter(|fate| wanted.contains(fate)).count() as f64;
        let copies = sum(row, "link.", ".duplicated_packets");
        // Links count fragments, the trace and the run whole packets.
        let cuts = scenario.links.values().any(|link| link.mtu.is_some());
        let agree = |packets: f64, of_links: f64| if cuts { packets <= of_links } else { packets == of_links };
        let sent = row.value("run.packets_sent").unwrap();
        prop_assert!(agree(fates.len() as f64, sent + copies) && fates.len() as f64 >= sent);
        prop_assert_eq!(count(&["delivered"]), row.value("run.packets_delivered").unwrap());
        let causes = ["aqm", "corrupted", "down", "lost", "queue_full"];
        prop_assert_eq!(count(&causes), row.value("run.packets_dropped").unwrap());
        prop_assert_eq!(fates.len() as f64, count(&["delivered", "in_flight"]) + count(&causes));
        prop_assert!(agree(count(&["queue_full"]), sum(row, "link.", ".queue_full_packets")));
        prop_assert!(agree(count(&["aqm"]), sum(row, "link.", ".aqm_packets")));
        for (name, link) in &scenario.links {
            for direction in ["forward", "reverse"] {
                let value = |key: &str| row.value(&format!("link.{name}.{direction}.{key}")).unwrap();
                let by_aqm = row.value(&format!("link.{name}.{direction}.aqm_packets")).unwrap_or(0.0);
                let dropped = by_aqm + value("lost_packets") + value("queue_full_packets") + value("down_packets") + value("corrupted_packets");
                prop_assert_eq!(
                    value("arrived_packets") + value("duplicated_packets"),
                    value("delivered_packets") + dropped + value("in_link_packets"),
                    "{} {}", name, direction
                );
            }
            let (most, most_bytes) = limits(&link.queue);
            let links = table_text(&outcome, "queues", "link");
            let waiting = integers(&outcome, "queues", "waiting_packets");
            let bytes = integers(&outcome, "queues", "waiting_bytes");
            for sample in (0..links.len()).filter(|&sample| links[sample] == name) {
                prop_assert!(waiting[sample] as f64 <= most && bytes[sample] as f64 <= most_bytes, "{}", name);
            }
        }
        for (name, flow) in &scenario.flows {
            let value = |key: &str| row.value(&format!("{name}.{key}")).unwrap();
            if let AppConfig::Datagrams(_) = flow.app {
                prop_assert!(value("received") <= value("sent"));
            }
        }
    }

    /// Counters with a warm-up are those of the whole run less those of a run that ends there.
    #[test]
    fn a_warm_up_is_taken_off(text in random_scenario::text(), fuse in any::<bool>(), at in 1..2_490_000_u64) {
        let scenario = read(&text);
        // Not a whole microsecond: nothing else happens then.
        let warm_up = Duration::from_nanos(at * 1_000 + 501);
        let mut late = scenario.clone();
        late.run.warm_up = warm_up;
        let mut early = scenario.clone();
        early.run.duration = warm_up;
        let [whole, late, early] = [&scenario, &late, &early].map(|scenario| simulate(scenario, false, fuse).row);
        for (name, late) in late.scalars() {
            let value = |row: &Row| row.value(name).unwrap();
            let is_counter = (name.starts_with("link.") || name.starts_with("run.packets"))
                && !name.contains(".mean_")
                && !name.ends_with("_sojourn_ms")
                && !name.ends_with(".in_link_packets");
            if is_counter {
                prop_assert_eq!(late, value(&whole) - value(&early), "{} {}", name, text);
            } else if matches!(name.rsplit('.').next(), Some("mos" | "in_link_packets")) {
                prop_assert_eq!(late.to_bits(), value(&whole).to_bits(), "{}", name);
            }
        }
    }

    /// The same seed twice gives the same bits; what a link and a flow elsewhere do changes no draw.
    #[test]
    fn runs_repeat_themselves_whatever_happens_elsewhere(text in random_scenario::text()) {
        let scenario = read(&text);
        let first = simulate(&scenario, false, true);
        prop_assert_eq!(differences(&first.row, &simulate(&scenario, false, true).row), Vec::<String>::new());
        let mut larger = scenario.clone();
        let elsewhere = read(ELSEWHERE);
        // It is put in front of everything else, so that positions change too.
        larger.links.shift_insert(0, "elsewhere".into(), elsewhere.links["elsewhere"].clone());
        larger.paths.shift_insert(0, "elsewhere".into(), elsewhere.paths["elsewhere"].clone());
        larger.flows.shift_insert(0, "elsewhere".into(), elsewhere.flows["elsewhere"].clone());
        let larger = simulate(&larger, false, true).row;
        let kept = |row: &Row| {
            let mut results = results(row);
            results.retain(|name, _| scenario.flows.keys().any(|flow| name.starts_with(&format!("{flow}."))));
            results
        };
        prop_assert_eq!(kept(&first.row), kept(&larger), "{}", text);
    }
}

/// A background load on a separate link.
const ELSEWHERE: &str = "
[links.elsewhere]
ends = ['x', 'y']
rate = '1 Mbit/s'
jitter = '3 ms'
loss = { kind = 'bernoulli', probability = '5 %' }
[paths.elsewhere]
via = ['elsewhere']
[flows.elsewhere]
from = 'x'
to = 'y'
paths = ['elsewhere']
transport = { kind = 'udp' }
app = { kind = 'datagrams' }
";

/// Both ends of a call send in one event, over a link that loses packets of both directions by one process.
fn two_way_call(first_link: &str, run: &str) -> Scenario {
    read(&format!(
        "seed = 3\nrun = {{ duration = '3 s'{run} }}\n\
         [links.lan]\nends = ['a', 'n']\n{first_link}\n\
         [links.wifi]\nends = ['n', 'b']\nrate = '1 Mbit/s'\ndelay = '5 ms'\n\
         loss = {{ kind = 'gilbert', clock = 'packet', p = 0.1, r = 0.3, sharing = 'shared', at = 'ingress' }}\n\
         [paths.p]\nvia = ['lan', 'wifi']\n\
         [flows.f]\nfrom = 'a'\nto = 'b'\npaths = ['p']\ntransport = {{ kind = 'udp' }}\n\
         app = {{ kind = 'voip', direction = 'both', start = '100 ms', duration = '2 s' }}\n"
    ))
}

#[test]
fn what_is_computed_late_keeps_its_place_among_equal_times() {
    // Without a delay, packets come to the lossy link in the event that sends them; and with one, packets
    // come there at the very end of the warm-up.
    for (first_link, run) in [("", ""), ("delay = '10 ms'", ", warm_up = '1110 ms'")] {
        let scenario = two_way_call(first_link, run);
        let late = simulate(&scenario, false, true);
        for (trace, fuse) in [(false, false), (true, true)] {
            let other = simulate(&scenario, trace, fuse);
            assert_eq!(differences(&late.row, &other.row), Vec::<String>::new(), "{first_link}{run} {trace}");
        }
    }
}

/// RFC 8290 section 4.1.1: which queue a flow has depends on its names, not on what else there is.
#[test]
fn another_flow_does_not_move_flows_to_other_queues() {
    let shared = "
run.duration = '5 s'
links.wan = { ends = ['home', 'isp'], rate = '5 Mbit/s', delay = '10 ms', queue = { kind = 'fq_codel', flows = 2 } }
links.side = { ends = ['a', 'b'], delay = '1 ms' }
paths.wan.via = ['wan']
paths.side.via = ['side']
";
    let flow = |name: &str, from: &str, to: &str, path: &str| {
        format!(
            "[flows.{name}]\nfrom = '{from}'\nto = '{to}'\npaths = ['{path}']\ntransport.kind = 'tcp'\napp.kind = 'bulk'\n"
        )
    };
    let mut alone = shared.to_owned();
    for name in ["one", "two", "three"] {
        alone += &flow(name, "home", "isp", "wan");
    }
    let accompanied = alone.replacen("[flows.one]", &(flow("first", "a", "b", "side") + "[flows.one]"), 1);
    let [alone, accompanied] = [alone, accompanied].map(|text| simulate(&read(&text), false, true).row);
    for name in ["one", "two", "three"] {
        let name = format!("{name}.received_bytes");
        assert_eq!(alone.value(&name), accompanied.value(&name), "{name}");
    }
    assert!(accompanied.value("first.received_bytes").is_some_and(|bytes| bytes > 0.0));
}
