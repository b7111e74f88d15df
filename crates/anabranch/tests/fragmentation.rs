//! IPv4 fragmentation and per-packet overhead through the whole simulator: sizes and times by hand, what a
//! lost fragment costs, and fragments that go on.

use std::fmt::Write as _;
use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::report::Row;

/// Datagrams of 1518 B over these links in a row, each with `ends` filled in.
fn scenario(links: &[&str], app: &str) -> String {
    let mut text = String::from("run = { duration = '100 s' }\n");
    for (index, link) in links.iter().enumerate() {
        writeln!(text, "[links.l{index}]\nends = ['n{index}', 'n{}']\n{link}", index + 1).unwrap();
    }
    let via: Vec<String> = (0..links.len()).map(|index| format!("'l{index}'")).collect();
    let last = links.len();
    text + &format!(
        "[paths.p]\nmtu = '1518 B'\nvia = [{}]\n[flows.f]\nfrom = 'n0'\nto = 'n{last}'\npaths = ['p']\n\
         transport = {{ kind = 'udp' }}\napp = {{ kind = 'datagrams', size = '1490 B', {app} }}\n",
        via.join(", ")
    )
}

fn run(text: &str) -> Row {
    let study = Study::parse(text, &[], Path::new(".")).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Simulation::build(&study.scenario, 0, false).unwrap().run(&mut || None).unwrap().row
}

fn value(row: &Row, name: &str) -> f64 {
    row.value(name).unwrap_or_else(|| panic!("{name}"))
}

const ONE: &str = "rate = '1 kbit/s', intervals = { kind = 'cbr' }, duration = '1 ms'";
const STEADY: &str = "rate = '149 kbit/s', intervals = { kind = 'cbr' }, duration = '80 s'";

/// 1498 B of payload are 1480 (the most below 1500 - 20 in eights) and 18: 1502 B and 40 B with PPP.
#[test]
fn a_datagram_goes_on_as_two_packets() {
    let text = scenario(&["rate = '1 Mbit/s'\ndelay = '1 ms'\nmtu = '1500 B'\noverhead = '2 B'"], ONE);
    let row = run(&text);
    assert_eq!(value(&row, "f.mean_delay_ms"), (1_502.0 + 40.0) * 8.0 / 1_000.0 + 1.0);
    assert_eq!(value(&row, "link.l0.forward.delivered_packets"), 2.0);
    assert_eq!(value(&row, "link.l0.forward.delivered_bytes"), 1_542.0);
    assert_eq!(value(&row, "run.packets_sent"), 1.0);
    assert_eq!(value(&row, "run.packets_delivered"), 1.0);
}

#[test]
fn overhead_counts_on_a_lazy_link_and_on_a_queued_one() {
    for queue in ["", "queue = { kind = 'codel' }", "loss = { kind = 'bernoulli', probability = 0 }"] {
        let row = run(&scenario(&[&format!("rate = '1 Mbit/s'\noverhead = '14 B'\n{queue}")], ONE));
        assert_eq!(value(&row, "f.mean_delay_ms"), 1_532.0 * 8.0 / 1_000.0, "{queue}");
        assert_eq!(value(&row, "link.l0.forward.delivered_bytes"), 1_532.0, "{queue}");
    }
}

/// They wait for the destination: the second link begins with the first fragment while the first link sends
/// the second one.
#[test]
fn fragments_go_on_to_the_destination() {
    let first = "rate = '1 Mbit/s'\nmtu = '1000 B'";
    let row = run(&scenario(&[first, "rate = '1 Mbit/s'"], ONE));
    // 976 + 522 bytes of payload.
    assert_eq!(value(&row, "f.mean_delay_ms"), (996.0 + 996.0 + 542.0) * 8.0 / 1_000.0);
    // Cut once more: 976 into 480, 480 and 16, 522 into 480 and 42. The last link is the slowest one.
    let last = "rate = '100 kbit/s'\nmtu = '500 B'";
    let row = run(&scenario(&[first, last], ONE));
    assert_eq!(value(&row, "link.l1.forward.delivered_packets"), 5.0);
    let bytes = 3.0 * 500.0 + 36.0 + 62.0;
    assert_eq!(value(&row, "link.l1.forward.delivered_bytes"), bytes);
    assert_eq!(value(&row, "f.mean_delay_ms"), 996.0 * 8.0 / 1_000.0 + bytes * 8.0 / 100.0);
}

#[test]
fn the_queue_counts_fragments() {
    // Nine datagrams at once: a fragment is sent, four wait, the others find the queue full.
    let app = "rate = '100 Mbit/s', intervals = { kind = 'cbr' }, duration = '1 ms'";
    let queue = "queue = { kind = 'drop_tail', packets = 4 }";
    let row = run(&scenario(&[&format!("rate = '10 kbit/s'\nmtu = '1500 B'\n{queue}")], app));
    assert_eq!(value(&row, "run.packets_sent"), 9.0);
    assert_eq!(value(&row, "link.l0.forward.delivered_packets"), 5.0);
    assert_eq!(value(&row, "link.l0.forward.queue_full_packets"), 13.0);
    // The fifth is the first half of the third datagram.
    assert_eq!(value(&row, "run.packets_delivered"), 2.0);
    assert_eq!(value(&row, "run.packets_dropped"), 7.0);
}

/// The loss of either fragment loses the datagram: 1 - 0.9^2 of 1000 are lost.
#[test]
fn a_lost_fragment_loses_its_datagram() {
    let lossy = "rate = '1 Mbit/s'\nmtu = '1500 B'\nloss = { kind = 'bernoulli', probability = '10 %' }";
    let row = run(&scenario(&[lossy], STEADY));
    let sent = value(&row, "run.packets_sent");
    assert_eq!(sent, 1_000.0);
    let lost = value(&row, "run.packets_dropped") / sent;
    // 3.5 standard deviations.
    assert!((lost - 0.19).abs() < 0.044, "{lost}");
    let fragments = value(&row, "link.l0.forward.lost_packets");
    assert!(fragments > value(&row, "run.packets_dropped"));
}

/// Copies of fragments help: when each of them is there twice, both copies have to be lost.
#[test]
fn a_copy_of_a_fragment_takes_its_place() {
    let first = "rate = '1 Mbit/s'\nmtu = '1500 B'\nduplicate = 1";
    let second = "rate = '1 Mbit/s'\nloss = { kind = 'bernoulli', probability = '20 %' }";
    let row = run(&scenario(&[first, second], STEADY));
    let lost = value(&row, "run.packets_dropped") / value(&row, "run.packets_sent");
    let expected = 1.0 - 0.96 * 0.96;
    assert!((lost - expected).abs() < 0.03, "{lost} {expected}");
    // No packet is delivered twice.
    assert_eq!(value(&row, "run.packets_delivered") + value(&row, "run.packets_dropped"), 1_000.0);
}

/// A mark on one of them marks the datagram, and TCP's window shrinks without a loss.
#[test]
fn a_marked_fragment_marks_its_packet() {
    let text = "run = { duration = '20 s' }\n[links.l]\nends = ['a', 'b']\nrate = '2 Mbit/s'\ndelay = '10 ms'\n\
                mtu = '1400 B'\nqueue = { kind = 'drop_tail', packets = 1000, mark_packets = 20 }\n\
                [paths.p]\nvia = ['l']\n[flows.f]\nfrom = 'a'\nto = 'b'\npaths = ['p']\n\
                transport = { kind = 'tcp', ecn = 'rfc3168', cc = { kind = 'reno' } }\napp = { kind = 'bulk' }\n";
    let row = run(text);
    assert!(value(&row, "link.l.forward.marked_packets") > 10.0);
    assert_eq!(value(&row, "link.l.forward.queue_full_packets"), 0.0);
    let goodput = value(&row, "f.goodput_kbit_per_s");
    // 1448 of 1500 B, which travel as 1396 + 124 B; the queue never runs empty for long.
    let most = 2_000.0 * 1_448.0 / 1_520.0;
    assert!((0.95 * most..most).contains(&goodput), "{goodput} {most}");
    assert!(value(&row, "link.l.forward.mean_queue_packets") < 40.0);
}

/// What a packet costs is in proportion to its fragments: a thousand that belong together cost not much more
/// than as many packets of their size. Looking at all of them for each costs 1000 times as much, or at all
/// pairs.
///
/// In processor time of this thread, in ns as the kernel counts it: what else the machine does is not in it.
#[test]
#[cfg(target_os = "linux")]
fn fragments_of_one_packet_cost_what_packets_cost() {
    let now = || -> f64 {
        // It is counted when the thread is looked at next.
        std::thread::yield_now();
        let counts = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts");
        counts.split(' ').next().and_then(|ran| ran.parse().ok()).expect("the first number is the time")
    };
    let cost = |text: &str| {
        let times = (0..3).map(|_| {
            let start = now();
            assert_eq!(value(&run(text), "run.packets_dropped"), 0.0);
            now() - start
        });
        times.fold(f64::INFINITY, f64::min)
    };
    let link = "rate = '1 Mbit/s'\nmtu = '68 B'\nqueue = { kind = 'drop_tail', packets = 5000 }";
    let app = |rate| format!("rate = '{rate}', intervals = {{ kind = 'cbr' }}, duration = '20 s'");
    let text = |size: &str, rate| {
        scenario(&[link], &app(rate)).replace("'1490 B'", size).replace("'1518 B'", "'65535 B'")
    };
    let (large, small) = (cost(&text("'48000 B'", "384 kbit/s")), cost(&text("'40 B'", "320 kbit/s")));
    assert!(large < 50.0 * small, "{large} ns against {small} ns");
}

/// RFC 8200 section 5: routers do not fragment IPv6 packets.
#[test]
fn ipv6_packets_are_not_cut() {
    let text = scenario(&["rate = '1 Mbit/s'\nmtu = '1500 B'"], ONE);
    let ipv6 = text.replace("from = 'n0'", "ip = 'ipv6'\nfrom = 'n0'");
    let error = Study::parse(&ipv6, &[], Path::new(".")).unwrap_err().to_string();
    let expected = "line 10: flows.f.ip: \"ipv6\" packets are not fragmented on their way, but links.l0.mtu = \"1500 B\" is less \
                    than paths.p.mtu = \"1518 B\"; make the two alike, or use \"ipv4\"";
    assert_eq!(error, expected);
    Study::parse(&ipv6.replace("1500 B", "1518 B"), &[], Path::new(".")).unwrap();
}
