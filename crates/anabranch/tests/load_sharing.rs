//! Concurrent multipath transfer end to end: two equal paths give twice as much, unlike ones block each
//! other until something is done about it, and coupled windows leave a single flow its share.

use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::report::Row;

const REPLICATIONS: u64 = 3;

fn rows(file: &str, sets: &[(&str, &str)]) -> Vec<Row> {
    let sets: Vec<_> = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    let scenario = Study::load(&path, &sets).unwrap().scenario;
    (0..REPLICATIONS)
        .map(|replication| {
            Simulation::build(&scenario, replication, false).unwrap().run(&mut || None).unwrap().row
        })
        .collect()
}

fn mean(rows: &[Row], name: &str) -> f64 {
    let value = |row: &Row| row.value(name).unwrap_or_else(|| panic!("{name}"));
    rows.iter().map(value).sum::<f64>() / rows.len() as f64
}

const GOODPUT: &str = "transfer.goodput_kbit_per_s";
const ONE_PATH: (&str, &str) = ("flows.transfer.paths", "['p0']");

/// Goodput of the library's scenario in kbit/s with buffers of this size.
fn goodput(buffer: &str, sets: &[(&str, &str)]) -> f64 {
    let buffers = [
        ("flows.transfer.transport.receive_buffer", buffer),
        ("flows.transfer.transport.send_buffer", buffer),
    ];
    mean(&rows("load-sharing.toml", &[&buffers, sets].concat()), GOODPUT)
}

#[test]
fn two_equal_paths_give_nearly_twice_one() {
    let (one, two) = (goodput("4 MB", &[ONE_PATH]), goodput("4 MB", &[]));
    assert!(two >= 1.9 * one, "{two} of {one} kbit/s");
}

#[test]
fn cwnd_update_and_split_fast_retransmit_are_what_makes_it_so() {
    // Iyengar et al. 2006, section 3: with reordering between the paths, plain SCTP takes what the other path
    // delivers for losses, and its windows do not grow.
    let plain = [
        ("flows.transfer.transport.load_sharing.cwnd_update", "cumulative"),
        ("flows.transfer.transport.load_sharing.chunk_rescheduling", "off"),
        ("flows.transfer.transport.missing_reports_per", "association"),
        ("links.second.delay", "30 ms"),
    ];
    let without = rows("load-sharing.toml", &plain);
    let with = rows("load-sharing.toml", &plain[3..]);
    assert!(mean(&without, GOODPUT) < 0.8 * mean(&with, GOODPUT));
    let lost = "transfer.sctp.a.data_chunks_retransmitted";
    assert!(mean(&without, lost) > 10.0 * mean(&with, lost));
}

const UNLIKE: [(&str, &str); 2] = [("links.second.rate", "1 Mbit/s"), ("links.second.delay", "200 ms")];

#[test]
fn a_slow_path_blocks_a_fast_one_until_chunks_are_rescheduled() {
    let fast = goodput("400 kB", &[ONE_PATH]);
    let off = [
        ("flows.transfer.transport.load_sharing.buffer_splitting", "off"),
        ("flows.transfer.transport.load_sharing.chunk_rescheduling", "off"),
    ];
    let blocked = goodput("400 kB", &[&UNLIKE[..], &off].concat());
    assert!(blocked < 0.6 * fast, "{blocked} of {fast} kbit/s");
    let mended = goodput("400 kB", &UNLIKE);
    assert!(mended > 0.95 * fast, "{mended} of {fast} kbit/s");
    let pooled = goodput("4 MB", &UNLIKE);
    assert!(pooled > 1.05 * fast, "{pooled} of {fast} kbit/s");
}

#[test]
fn buffer_splitting_mends_what_a_long_queue_blocks() {
    // The slow path's queue holds 6 s of data, and its window grows until it takes up the buffers that the
    // fast path needs. Delivered without order, and with SACKs that are final, no chunk waits for another
    // one, so what each path has outstanding is all that there is to share.
    let long_queue = [
        ("links.second.rate", "1 Mbit/s"),
        ("links.second.queue.packets", "500"),
        ("flows.transfer.transport.load_sharing.scheduler", "round_robin"),
        ("flows.transfer.transport.load_sharing.chunk_rescheduling", "off"),
    ];
    let off = ("flows.transfer.transport.load_sharing.buffer_splitting", "off");
    let independent =
        [("flows.transfer.app.unordered", "true"), ("flows.transfer.transport.load_sharing.nr_sack", "true")];
    let fast = goodput("400 kB", &[ONE_PATH]);
    let blocked = goodput("400 kB", &[&long_queue[..], &independent, &[off]].concat());
    assert!(blocked < 0.8 * fast, "{blocked} of {fast} kbit/s");
    for split_by in ["outstanding", "buffered"] {
        let by = [("flows.transfer.transport.load_sharing.split_by", split_by)];
        let mended = goodput("400 kB", &[&long_queue[..], &independent, &by].concat());
        assert!(mended > 1.08 * fast, "{split_by}: {mended} of {fast} kbit/s");
    }
    // Where chunks wait for earlier ones, in the receive buffer for their order or in the send buffer for the
    // cumulative TSN, the fast path's share fills with them, which splitting does not prevent.
    for one in independent {
        let waiting = goodput("400 kB", &[&long_queue[..], &[one]].concat());
        assert!(waiting < 0.7 * fast, "{one:?}: {waiting} of {fast} kbit/s");
    }
}

#[test]
fn coupled_windows_take_no_more_than_a_single_flow_beside_them() {
    // RFC 6356 section 2, goal 2: at a shared bottleneck. Uncoupled, two windows of three take two thirds.
    let share = |coupling: &str| {
        let sets = [("flows.multi.transport.load_sharing.coupling", coupling), ("run.duration", "60 s")];
        let rows = rows("shared-bottleneck.toml", &sets);
        let (multi, single) =
            (mean(&rows, "multi.goodput_kbit_per_s"), mean(&rows, "single.goodput_kbit_per_s"));
        multi / (multi + single)
    };
    let alone = share("{ kind = 'per_path' }");
    assert!((0.6..0.72).contains(&alone), "{alone}");
    for coupling in [
        "{ kind = 'balia' }",
        "{ kind = 'fully_coupled' }",
        "{ kind = 'lia' }",
        "{ kind = 'linked_increases' }",
        "{ kind = 'olia' }",
        "{ kind = 'resource_pooling', version = 'v1' }",
        "{ kind = 'resource_pooling', version = 'v2' }",
    ] {
        let coupled = share(coupling);
        assert!((0.4..0.59).contains(&coupled), "{coupling}: {coupled}");
    }
}

#[test]
fn a_path_that_dies_is_left_alone_and_taken_up_again() {
    let outage = "{ timetable = [['0 s', true], ['20 s', false], ['40 s', true]] }";
    let sets = [
        ("links.second.up", outage),
        ("links.second.down", "drop"),
        ("flows.transfer.transport.pf_max_retrans", "0"),
        ("flows.transfer.transport.hb_interval", "1 s"),
        // Unanswered heartbeats double the time to the next one.
        ("flows.transfer.transport.rto_max", "2 s"),
    ];
    let rows = rows("load-sharing.toml", &sets);
    // 50 s of the first path and 30 s of the second, less what detection and slow start cost.
    let expected = (50.0 + 30.0) / 50.0 * 9_600.0;
    let found = mean(&rows, GOODPUT);
    assert!((0.9 * expected..expected).contains(&found), "{found} of {expected} kbit/s");
    assert!(mean(&rows, "transfer.sctp.a.path1.first_pf_s") < 22.0);
}

#[test]
fn copies_on_every_path_arrive_once() {
    let sets = [
        ("flows.transfer.transport.load_sharing.scheduler", "redundant"),
        // 5.8 Mbit/s, so that each path has room for all of it.
        ("flows.transfer.app.write_cost", "2 ms"),
        ("links.second.loss", "{ kind = 'bernoulli', probability = 0.02 }"),
    ];
    let rows = rows("load-sharing.toml", &sets);
    let copied = mean(&rows, "transfer.sctp.a.path0.copied_bytes_sent")
        + mean(&rows, "transfer.sctp.a.path1.copied_bytes_sent");
    let sent = mean(&rows, "transfer.sctp.a.path0.new_bytes_sent")
        + mean(&rows, "transfer.sctp.a.path1.new_bytes_sent");
    assert!(copied > 0.8 * sent, "{copied} of {sent} bytes");
    let rate = 1_452.0 * 8.0 / 2.0;
    assert!((0.98 * rate..1.02 * rate).contains(&mean(&rows, GOODPUT)), "all of it arrives");
    // Both copies arrive where neither is lost.
    assert!(mean(&rows, "transfer.sctp.b.duplicates_received") * 1_452.0 > 0.9 * copied);
}

/// Settings with which only the scheduler keeps a path from being used.
const BARE: [(&str, &str); 2] = [
    ("flows.transfer.transport.load_sharing.buffer_splitting", "off"),
    ("flows.transfer.transport.load_sharing.chunk_rescheduling", "off"),
];

fn with_scheduler(name: &str, sets: &[(&str, &str)]) -> Vec<Row> {
    let scheduler = [("flows.transfer.transport.load_sharing.scheduler", name)];
    rows("load-sharing.toml", &[&BARE[..], &scheduler, sets].concat())
}

fn new_bytes(rows: &[Row], side: char) -> [f64; 2] {
    [0, 1].map(|path| mean(rows, &format!("transfer.sctp.{side}.path{path}.new_bytes_sent")))
}

#[test]
fn blest_leaves_a_slow_path_alone_where_it_would_block_the_fast_one() {
    // Ferlin et al. 2016: with a receive window of 400 kB the slow path blocks the fast one; with 4 MB it
    // does not.
    let fast = goodput("400 kB", &[ONE_PATH]);
    for (buffer, least, most) in [("400 kB", 0.98, 1.02), ("4 MB", 1.07, 1.12)] {
        let sets = [
            ("flows.transfer.transport.receive_buffer", buffer),
            ("flows.transfer.transport.send_buffer", "4 MB"),
        ];
        let found = mean(&with_scheduler("blest", &[&UNLIKE[..], &sets].concat()), GOODPUT);
        assert!((least * fast..most * fast).contains(&found), "{buffer}: {found} of {fast} kbit/s");
        let blocked = mean(&with_scheduler("min_rtt", &[&UNLIKE[..], &sets].concat()), GOODPUT);
        assert!(buffer == "4 MB" || blocked < 0.6 * fast, "{blocked} of {fast} kbit/s");
    }
}

#[test]
fn ecf_completes_responses_earlier_than_the_smallest_round_trip_time() {
    // Lim et al. 2017: the last data is not sent the slow way.
    let requests = [
        ("flows.transfer.app", "{ kind = 'requests', response_size = '200 kB' }"),
        ("flows.transfer.transport.receive_buffer", "4 MB"),
        ("flows.transfer.transport.send_buffer", "4 MB"),
        ("links.second.rate", "2 Mbit/s"),
        ("links.second.delay", "100 ms"),
    ];
    let time = |name| mean(&with_scheduler(name, &requests), "transfer.mean_completion_ms");
    let (ecf, min_rtt) = (time("ecf"), time("min_rtt"));
    assert!(ecf < 0.7 * min_rtt, "{ecf} of {min_rtt} ms");
    // It does use the slow path while much data is waiting.
    let sets = [UNLIKE[0], UNLIKE[1], requests[1], requests[2]];
    let [_, slow] = new_bytes(&with_scheduler("ecf", &sets), 'a');
    assert!(slow * 8.0 > 0.85e6 * 50.0, "{slow} bytes");
}

#[test]
fn weights_share_what_either_path_could_carry() {
    // 5.8 Mbit/s, so that each path has room for all of it.
    let slow = [("flows.transfer.app.write_cost", "2 ms")];
    let [first, second] = new_bytes(&with_scheduler("{ weighted = [3, 1] }", &slow), 'a');
    assert!((first / second - 3.0).abs() < 0.05, "{first} and {second} bytes");
    let [first, second] = new_bytes(&with_scheduler("{ weighted = [1, 4] }", &slow), 'a');
    assert!((second / first - 4.0).abs() < 0.05, "{first} and {second} bytes");
}

#[test]
fn a_backup_carries_nothing_until_the_first_path_fails() {
    let [first, second] = new_bytes(&with_scheduler("backup_only", &[]), 'a');
    assert!(first > 1e6 && second == 0.0, "{first} and {second} bytes");
    let outage = [
        ("links.first.up", "{ timetable = [['0 s', true], ['30 s', false]] }"),
        ("links.first.down", "drop"),
        ("flows.transfer.transport.pf_max_retrans", "0"),
    ];
    let rows = with_scheduler("backup_only", &outage);
    let [_, second] = new_bytes(&rows, 'a');
    assert!(second * 8.0 > 0.8 * 25.0 * 9.6e6, "{second} bytes");
}
