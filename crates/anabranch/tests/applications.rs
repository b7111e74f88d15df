//! Bulk transfers, requests, pages and probes over real transports: what is written arrives, in the time
//! that links and windows allow; and flows with a `count`.

use std::path::Path;

use anabranch::sim::{Outcome, Simulation};
use anabranch::study::Study;
use anabranch::trace::{Column, Table};
use anabranch_transport::report::Row;

/// A link of 10 Mbit/s and 20 ms, without loss, and one flow from `a` to `b`.
const BASE: &str = "
run.duration = '60 s'
links.wan = { ends = ['a', 'b'], rate = '10 Mbit/s', delay = '20 ms', queue = { kind = 'drop_tail', packets = 100 } }
paths.only.via = ['wan']
[flows.load]
from = 'a'
to = 'b'
paths = ['only']
transport = { kind = 'sctp' }
app = { kind = 'bulk', write_size = '1400 B' }
";

fn study(sets: &[(&str, &str)]) -> Result<Study, String> {
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    Study::parse(BASE, &sets, Path::new(".")).map_err(|error| error.to_string())
}

fn outcome(sets: &[(&str, &str)], trace: bool) -> Outcome {
    Simulation::build(&study(sets).unwrap().scenario, 0, trace).unwrap().run(&mut || None).unwrap()
}

fn run(sets: &[(&str, &str)]) -> Row {
    outcome(sets, false).row
}

fn value(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("{name}"))
}

const BULK: (&str, &str) = ("flows.load.app.bytes", "5 MB");

fn sum(table: &Table, name: &str) -> i64 {
    match table.columns.iter().find(|(column, _)| *column == name) {
        Some((_, Column::Integers(column))) => column.iter().sum(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_bulk_transfer_arrives_and_fills_the_link() {
    let outcome = outcome(&[BULK], true);
    let row = &outcome.row;
    assert_eq!(value(row, "load.sent_bytes"), 5e6);
    assert_eq!(value(row, "load.received_bytes"), 5e6);
    let goodput = value(row, "load.goodput_kbit_per_s");
    // Of 10 Mbit/s, 1400 B of each 1448 B; slow start takes a few round trips.
    assert!((9_200.0..9_670.0).contains(&goodput), "{goodput}");
    // The run ends with the transfer, and the transfer with its last byte.
    let completion = value(row, "load.completion_s");
    assert_eq!(completion, value(row, "run.simulated_s"));
    // Its own time is that without the handshake's two round trips.
    let own = 5e6 * 8.0 / goodput / 1e3;
    assert!((0.08..0.09).contains(&(completion - own)), "{completion} {own}");
    let table = outcome.tables.iter().find(|table| table.name == "intervals").unwrap();
    assert_eq!(sum(table, "bytes"), 5_000_000);
    assert_eq!(value(row, "load.intervals"), own.floor());
}

#[test]
fn both_directions_and_a_duration() {
    let row = run(&[("flows.load.app.duration", "5 s"), ("flows.load.app.direction", "both")]);
    for direction in ["a_to_b", "b_to_a"] {
        let of = |name: &str| value(&row, &format!("load.{direction}.{name}"));
        assert_eq!(of("sent_bytes"), of("received_bytes"));
        assert!((7_000.0..9_670.0).contains(&of("goodput_kbit_per_s")), "{row:?}");
        assert!(of("completion_s").is_nan());
    }
    assert!((5.0..6.0).contains(&value(&row, "run.simulated_s")), "{row:?}");
}

#[test]
fn a_background_transfer_lasts_as_long_as_the_run() {
    let row = run(&[("run.duration", "10 s"), ("run.warm_up", "2 s")]);
    assert_eq!(value(&row, "run.simulated_s"), 10.0);
    let goodput = value(&row, "load.goodput_kbit_per_s");
    assert_eq!(
        goodput,
        value(&row, "load.received_bytes") * 8.0 / 8.0 / 1e3,
        "over the time after the warm-up"
    );
    assert!((9_300.0..10_000.0).contains(&goodput), "{goodput}");
    // Intervals begin when the connection is open, so eight of them end after the warm-up.
    assert_eq!(value(&row, "load.intervals"), 8.0);
    assert!(value(&row, "load.cov") < 0.05);
}

#[test]
fn fast_open_saves_a_round_trip_of_every_connection_but_the_first() {
    let mut times = Vec::new();
    for fast_open in ["false", "true"] {
        let outcome = outcome(
            &[
                ("flows.load.transport", "{ kind = 'tcp' }"),
                ("flows.load.transport.fast_open", fast_open),
                (
                    "flows.load.app",
                    "{ kind = 'requests', connection = 'per_request', count = 4, request_size = '200 B', \
                     response_size = '1000 B', think_time = '1 s' }",
                ),
            ],
            false,
        );
        times.push((
            value(&outcome.row, "load.mean_completion_ms"),
            value(&outcome.row, "load.max_completion_ms"),
        ));
    }
    let [(mean, max), (fast_mean, fast_max)] = times[..] else { panic!("two runs") };
    // The first connection asks for a cookie, which makes its SYN and SYN-ACK a few bytes longer. The others
    // save one round trip, which is 40 ms and what a SYN and a SYN-ACK take on the link.
    assert!((max - fast_max).abs() < 0.1, "{max} {fast_max}");
    let saved = (mean - fast_mean) / 0.75;
    assert!((40.0..40.2).contains(&saved), "{saved}");
}

#[test]
fn requests_take_a_round_trip_and_their_size() {
    let app = "{ kind = 'requests', count = 10, response_size = '1 kB', think_time = '1 s' }";
    let outcome = outcome(&[("flows.load.app", app)], true);
    let row = &outcome.row;
    assert_eq!(value(row, "load.completed"), 10.0);
    // 40 ms, and about 1 ms for 1.2 kB at 10 Mbit/s.
    let mean = value(row, "load.mean_completion_ms");
    assert!((40.9..41.2).contains(&mean), "{mean}");
    assert!((value(row, "load.max_completion_ms") - mean).abs() < 0.1, "{row:?}");
    let table = outcome.tables.iter().find(|table| table.name == "exchanges").unwrap();
    assert_eq!(sum(table, "bytes"), 10_000);
}

#[test]
fn round_trips_per_minute_fall_under_load() {
    let probe = "{ kind = 'responsiveness', start = '2 s', count = 100 }";
    let idle = run(&[("flows.load.app", probe)]);
    // 40 ms and 2 x 0.1 ms or so.
    assert!((1_480.0..1_500.0).contains(&value(&idle, "load.rpm")), "{idle:?}");
    let text = BASE.replace("[flows.load]", &format!(
        "flows.probe = {{ from = 'a', to = 'b', paths = ['only'], transport.kind = 'sctp', app = {probe} }}\n[flows.load]"
    ));
    let study = Study::parse(&text, &[], Path::new(".")).unwrap();
    let row = Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row;
    // A bulk transfer keeps up to 100 packets of 1500 B in the queue: up to 120 ms more.
    let rpm = value(&row, "probe.rpm");
    assert!((60_000.0 / 170.0..60_000.0 / 60.0).contains(&rpm), "{rpm}");
}

const TCP: (&str, &str) = ("flows.load.transport", "{ kind = 'tcp', cc = { kind = 'cubic' } }");

#[test]
fn a_transfer_over_tcp_arrives_whatever_is_lost() {
    for loss in ["0 %", "3 %"] {
        for app in [
            "{ kind = 'bulk', bytes = '3 MB' }",
            "{ kind = 'bulk', bytes = '3 MB', write_size = '700 B', write_cost = '20 us', direction = 'both' }",
        ] {
            let loss = format!("{{ kind = 'bernoulli', probability = '{loss}' }}");
            let row =
                run(&[TCP, ("links.wan.loss", &loss), ("flows.load.app", app), ("run.duration", "200 s")]);
            let directions: &[&str] = if app.contains("both") { &["a_to_b.", "b_to_a."] } else { &[""] };
            for direction in directions {
                let of = |name: &str| value(&row, &format!("load.{direction}{name}"));
                assert_eq!((of("sent_bytes"), of("received_bytes")), (3e6, 3e6), "{loss} {app}");
                assert!(of("completion_s") <= value(&row, "run.simulated_s"));
            }
        }
    }
}

/// The time from a request to the last byte of its response over a link of 10 Mbit/s with a round trip of 40
/// ms, in ms: the handshake, then slow start from ten segments, doubling each round trip, as long as a
/// round's segments leave the link idle until the first acknowledgement comes back.
fn slow_start_ms(segments: u32, handshake: bool) -> f64 {
    // 1500 B and, for acknowledgements and requests, 52 and 152 B at 10 Mbit/s.
    let (segment, ack, request) = (1.2, 0.0416, 0.1216);
    let mut time = if handshake { 40.0 + (60.0 + 60.0) * 8e-4 } else { 0.0 } + 20.0 + request;
    let (mut left, mut window) = (segments, 10);
    loop {
        let round = f64::from(left.min(window)) * segment;
        if left <= window || round > 40.0 {
            return time + f64::from(left) * segment + 20.0;
        }
        left -= window;
        window *= 2;
        // The first acknowledgement comes after two segments.
        time += 2.0 * segment + 40.0 + ack;
    }
}

#[test]
fn short_flows_take_the_rounds_of_slow_start() {
    for segments in [1, 2, 10, 20, 40] {
        for (connection, handshake) in [("per_request", true), ("persistent", false)] {
            // Timestamps leave 1448 B of a segment.
            let app = format!(
                "{{ kind = 'requests', response_size = '{} B', connection = '{connection}', count = 1 }}",
                segments * 1448
            );
            let row = run(&[TCP, ("flows.load.app", &app)]);
            let time = value(&row, "load.max_completion_ms");
            let expected = slow_start_ms(segments, handshake);
            assert!((time - expected).abs() < 3.0, "{segments} {connection}: {time} {expected}");
        }
    }
}

#[test]
fn each_request_may_have_a_connection_of_its_own() {
    let app = "{ kind = 'requests', connection = 'per_request', count = 50, think_time = '10 ms' }";
    let row = run(&[
        TCP,
        ("flows.load.app", app),
        ("links.wan.loss", "{ kind = 'bernoulli', probability = '2 %' }"),
    ]);
    assert_eq!(value(&row, "load.completed"), 50.0, "{row:?}");
    assert_eq!(value(&row, "load.received_bytes"), 500_000.0);
    assert_eq!(value(&row, "load.tcp.a.connections"), 50.0);
}

#[test]
fn a_reader_that_pauses_stalls_the_transfer() {
    let reading = "{ timetable = [['0 s', true], ['1 s', false], ['3 s', true]] }";
    let small = "{ kind = 'tcp', cc = { kind = 'cubic' }, receive_buffer = '64 KiB' }";
    let sets = [
        ("flows.load.transport", small),
        ("flows.load.app", "{ kind = 'bulk', bytes = '5 MB' }"),
        ("flows.load.app.reading", reading),
    ];
    let row = run(&sets);
    assert_eq!(value(&row, "load.received_bytes"), 5e6);
    // Everything that waited is read at once after two seconds.
    let stalled = value(&row, "load.stalled_s");
    assert!((1.99..2.01).contains(&stalled), "{stalled}");
}

#[test]
fn round_trips_per_minute_over_tcp() {
    let probe = "{ kind = 'responsiveness', connection = 'per_request', count = 20 }";
    let row = run(&[TCP, ("flows.load.app", probe)]);
    let of = |name: &str| value(&row, &format!("load.{name}"));
    assert!((of("connect_ms") - 40.1).abs() < 0.1, "{row:?}");
    // 4200 B are three segments.
    assert!((of("tls_ms") - 44.0).abs() < 1.0, "{row:?}");
    // The request leaves after an acknowledgement of 52 B; it and the answer, which carries its
    // acknowledgement, have 152 B each.
    assert!((of("fetch_ms") - 40.2848).abs() < 1e-6, "{row:?}");
    assert!((of("rpm") - 60_000.0 / ((of("connect_ms") + of("tls_ms") + of("fetch_ms")) / 3.0)).abs() < 1e-6);
}

#[test]
fn a_count_makes_flows_that_share() {
    let row = run(&[("run.duration", "20 s"), ("run.warm_up", "5 s"), ("flows.load.count", "4")]);
    let goodputs: Vec<f64> =
        (1..=4).map(|number| value(&row, &format!("load_{number}.goodput_kbit_per_s"))).collect();
    let total: f64 = goodputs.iter().sum();
    assert!((value(&row, "load.goodput_kbit_per_s") - total).abs() < 1e-6);
    assert!((9_300.0..10_000.0).contains(&total), "{total}");
    let squares: f64 = goodputs.iter().map(|goodput| goodput * goodput).sum();
    assert!((value(&row, "load.jain") - total * total / (4.0 * squares)).abs() < 1e-12);
    assert!(row.value("load.received_bytes").is_none());
}

#[test]
fn equal_flows_share_equally() {
    // Each of them has a link of its own.
    let links = "
        links.one = { ends = ['a', 'b'], rate = '10 Mbit/s', delay = '20 ms' }
        links.two = { ends = ['a', 'b'], rate = '10 Mbit/s', delay = '20 ms' }
        paths.only.via = ['one']
        [flows.load]
        from = 'a'
        to = 'b'
        paths = ['only']
        count = 3
        transport = { kind = 'udp' }
        app = { kind = 'datagrams', intervals = { kind = 'cbr' } }
        [run]
        duration = '10 s'
        ";
    let study = Study::parse(links, &[], Path::new(".")).unwrap();
    let row = Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row;
    assert_eq!(value(&row, "load.jain"), 1.0);
}

#[test]
fn a_count_of_one_changes_nothing() {
    let one = run(&[BULK, ("flows.load.count", "1"), ("flows.load.stagger", "1 s")]);
    let scalars = |row: &Row| -> Vec<_> {
        row.scalars().map(|(name, value)| (name.to_owned(), value.to_bits())).collect()
    };
    assert_eq!(scalars(&one), scalars(&run(&[BULK])));
    let scenario = study(&[BULK, ("flows.load.count", "1")]).unwrap();
    assert_eq!(scenario.hash(), study(&[BULK]).unwrap().hash());
}

#[test]
fn a_stagger_delays_each_flow() {
    let sets =
        [BULK, ("flows.load.count", "3"), ("flows.load.stagger", "2 s"), ("flows.load.app.start", "1 s")];
    let outcome = outcome(&sets, true);
    let events = outcome.tables.iter().find(|table| table.name == "intervals").unwrap();
    let [Column::Text(flows), Column::Numbers(starts)] =
        [0, 2].map(|column| events.columns[column].1.clone())
    else {
        panic!("{events:?}")
    };
    for (number, start) in [1.0, 3.0, 5.0].into_iter().enumerate() {
        let name = format!("load_{}", number + 1);
        let first = flows.iter().position(|flow| *flow == name).unwrap();
        // The handshake takes two round trips, longer with a queue.
        assert!((0.08..0.5).contains(&(starts[first] - start)), "{name}: {}", starts[first]);
    }
}

#[test]
fn counts_that_cannot_be_are_named() {
    let error = |sets: &[(&str, &str)]| study(sets).unwrap_err();
    assert_eq!(error(&[("flows.load.count", "0")]), "flows.load.count = 0 is not from 1 to 32768");
    assert_eq!(
        error(&[("flows.load.count", "40000")]),
        "flows: 40000 are too many; at most 32768 are allowed"
    );
    let text = format!("{BASE}\n[flows.load_2]\n{}", &BASE[BASE.find("from").unwrap()..]);
    let clash = Study::parse(&text, &[("flows.load.count".into(), "2".into())], Path::new(".")).unwrap_err();
    assert_eq!(
        clash.to_string(),
        "flows.load.count = 2 makes a flow `load_2`, which is there already; rename one"
    );
    assert_eq!(
        error(&[("flows.load.transport", "{ kind = 'udp' }")]),
        "line 10: flows.load.app.kind = \"bulk\" needs a transport with flow control; use \"mptcp\", \"quic\", \"sctp\" or \"tcp\""
    );
    assert_eq!(
        error(&[TCP, ("flows.load.app", "{ kind = 'voip' }")]),
        "flows.load.app.kind = \"voip\" sends messages, which a stream of bytes does not keep apart; use \"quic\" \
         with datagrams = true, \"rtp\", \"sctp\" or \"udp\""
    );
    assert_eq!(
        error(&[TCP, ("flows.load.app.write_size", "0 B")]),
        "flows.load.app.write_size = \"0 B\" is not from 1 B to 1073741824 B"
    );
    assert_eq!(
        error(&[("flows.load.app.write_size", "1 MB")]),
        "flows.load.app.write_size = \"1000000 B\" is not from 1 B to 212992 B"
    );
}

#[test]
fn exchanges_that_take_no_time_are_stopped_by_a_guard() {
    let sets = [
        ("links.wan", "{ ends = ['a', 'b'] }"),
        ("flows.load.app", "{ kind = 'requests', response_size = '1 B' }"),
        ("run.max_memory", "2 MB"),
    ];
    let simulation = Simulation::build(&study(&sets).unwrap().scenario, 0, false).unwrap();
    let error = simulation.run(&mut || None).unwrap_err().to_string();
    assert!(error.ends_with("run.max_memory = 2000000 B is reached"), "{error}");
}

#[test]
fn datagrams_report_quantiles_of_their_delay_on_request() {
    let probe = |quantiles: &str| {
        run(&[
            ("run.duration", "20 s"),
            ("flows.load.transport", "{ kind = \"udp\" }"),
            ("flows.load.app", "{ kind = \"datagrams\", rate = \"9 Mbit/s\", size = \"1000 B\" }"),
            ("flows.load.app.delay_quantiles", quantiles),
        ])
    };
    assert_eq!(probe("false").value("load.p95_delay_ms"), None);
    let row = probe("true");
    let [p50, mean, p95, p99, max] =
        ["p50", "mean", "p95", "p99", "max"].map(|name| value(&row, &format!("load.{name}_delay_ms")));
    // 1028 B at 10 Mbit/s, and a queue with exponential arrivals at a load of 93 %.
    assert!(20.8224 <= p50 && p50 < mean && mean < p95 && p95 < p99 && p99 <= max, "{row:?}");
    assert_eq!(value(&probe("false"), "load.mean_delay_ms"), mean);
}

/// Video for two seconds over each transport that keeps messages apart; nothing is lost, so that all of it is
/// shown.
#[test]
fn video_is_shown_over_every_transport_of_messages() {
    let app = "{ kind = 'video', duration = '2 s', rate = '800 kbit/s', direction = 'both' }";
    for transport in [
        "{ kind = 'rtp' }",
        "{ kind = 'udp', rtp = true }",
        "{ kind = 'sctp' }",
        "{ kind = 'quic', datagrams = true, max_datagram = '1452 B' }",
    ] {
        let row = run(&[("flows.load.transport", transport), ("flows.load.app", app)]);
        for way in ["a_to_b", "b_to_a"] {
            let of = |name: &str| value(&row, &format!("load.{way}.{name}"));
            assert!((55.0..66.0).contains(&of("frames_made")), "{transport}: {}", of("frames_made"));
            assert!(
                of("frames_shown") >= of("frames_made") - 2.0,
                "{transport} {way}: {}",
                of("frames_shown")
            );
            assert_eq!(of("freezes"), 0.0, "{transport}");
            assert!(of("p50_frame_delay_ms") >= 20.0, "{transport}: {}", of("p50_frame_delay_ms"));
        }
    }
}

/// Over RTP a viewer that misses a frame gets a key frame; where the control says less, the encoder makes
/// less.
#[test]
fn a_missing_frame_brings_a_key_frame_and_the_rate_is_that_of_the_control() {
    let app = "{ kind = 'video', duration = '20 s', key_frame_after = '100 ms' }";
    let transport = "{ kind = 'rtp', nack = false, cc = { kind = 'cbr', rate = '400 kbit/s' } }";
    let loss = "{ kind = 'bernoulli', probability = '1 %' }";
    let row = run(&[("flows.load.transport", transport), ("flows.load.app", app), ("links.wan.loss", loss)]);
    assert!(value(&row, "load.key_frame_requests") > 0.0);
    assert!(value(&row, "load.key_frames") > 1.0);
    assert!(value(&row, "load.freezes") > 0.0 && value(&row, "load.frames_lost") > 0.0);
    let encoded = value(&row, "load.encoded_kbit_per_s");
    assert!((380.0..440.0).contains(&encoded), "{encoded}");
}

/// So it does over other transports, where the request is a message: nothing is sent again there, and each
/// loss needs a key frame.
#[test]
fn a_key_frame_is_asked_for_over_every_transport_of_messages() {
    let loss = "{ kind = 'bernoulli', probability = '1 %' }";
    let given_up = "{ limited_retransmissions = 0 }";
    for (transport, reliability) in [
        ("{ kind = 'udp' }", "'reliable'"),
        ("{ kind = 'sctp' }", given_up),
        ("{ kind = 'quic', datagrams = true, max_datagram = '1452 B' }", "'reliable'"),
    ] {
        let app = format!(
            "{{ kind = 'video', duration = '20 s', rate = '400 kbit/s', key_frame_after = '100 ms', reliability = \
             {reliability} }}"
        );
        let row =
            run(&[("flows.load.transport", transport), ("flows.load.app", &app), ("links.wan.loss", loss)]);
        let [asked, keys, lost] = ["key_frame_requests", "key_frames", "frames_lost"]
            .map(|name| value(&row, &format!("load.{name}")));
        assert!(asked > 3.0 && keys > 3.0 && lost > 3.0, "{transport}: {asked} {keys} {lost}");
        assert!(value(&row, "load.frames_shown") > 0.7 * value(&row, "load.frames_made"), "{transport}");
    }
}
