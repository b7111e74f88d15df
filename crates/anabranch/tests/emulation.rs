//! An emulation in virtual time: the links of a scenario handle packets of real programs as they do in a
//! simulation, to the nanosecond.

use anabranch::net::{Direction, DropCause, DuplexLink, Step};
use anabranch::scenario::Scenario;
use anabranch::sim::{Delivery, DeliveryStatus, Emulation, Inbound};
use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::{Ecn, Side};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};

fn scenario(text: &str) -> Scenario {
    Scenario::parse_network(text, &[], ".".as_ref()).unwrap()
}

fn network(text: &str) -> Emulation {
    Emulation::build(&scenario(text), 0).unwrap()
}

fn error(text: &str) -> String {
    let built = Scenario::parse_network(text, &[], ".".as_ref()).and_then(|read| Emulation::build(&read, 0));
    built.err().expect("it is refused").to_string()
}

fn packet(handle: u32, size: u32) -> Inbound {
    Inbound { path: 0, side: Side::A, size, ecn: Ecn::NotEct, flow: 1, dscp: Dscp::CS0, handle }
}

/// The fates of packets up to this time.
fn until(emulation: &mut Emulation, now: Time) -> Vec<Delivery> {
    let mut told = Vec::new();
    emulation.advance(now, &mut |delivery| told.push(delivery));
    told
}

/// When each packet arrives, by handle; `None` if it is dropped.
fn arrivals(told: &[Delivery], count: usize) -> Vec<Option<Time>> {
    let mut times = vec![None; count];
    for delivery in told {
        if let DeliveryStatus::Arrived { due, .. } = delivery.status {
            times[delivery.handle as usize] = Some(due);
        }
    }
    times
}

/// Packets of two sizes, every so often, over one link: what the link gives by itself, and what the emulation
/// gives.
fn both_ways(text: &str, packets: usize, gap: Duration) -> [Vec<Option<Time>>; 2] {
    let scenario = scenario(text);
    let streams = Streams { seed: scenario.seed, replication: 0 };
    let mut link = DuplexLink::build(&scenario.links["wan"], "wan", streams).unwrap();
    let mut emulation = Emulation::build(&scenario, 0).unwrap();
    let (mut alone, mut told) = (Vec::new(), Vec::new());
    let mut now = Time::ZERO;
    for handle in 0..packets {
        let size = if handle % 3 == 0 { 1500 } else { 90 };
        alone.push(match link.accept(now, Direction::Forward, size, Ecn::NotEct) {
            Step::Deliver { at, .. } => Some(at),
            Step::Drop(_) => None,
            other => panic!("{other:?}"),
        });
        emulation.advance(now, &mut |delivery| told.push(delivery));
        assert!(emulation.send(packet(handle as u32, size)));
        now += gap;
    }
    emulation.advance(now + Duration::from_secs(100), &mut |delivery| told.push(delivery));
    assert_eq!(told.len(), packets, "each is heard of once");
    assert!(told.iter().all(|delivery| delivery.is_last));
    [alone, arrivals(&told, packets)]
}

#[test]
fn delays_and_rates_are_those_of_the_link() {
    let text = r#"
        links.wan = { ends = ["a", "b"], rate = "7 Mbit/s", delay = "20 ms", queue = { kind = "drop_tail", packets = 20 } }
        paths.only.via = ["wan"]
    "#;
    // 7 Mbit/s are offered 8.96.
    let [alone, emulated] = both_ways(text, 20_000, Duration::from_micros(500));
    assert_eq!(alone, emulated);
    assert!(alone.iter().any(Option::is_none), "the queue is full at times");
}

#[test]
fn a_link_without_a_rate_only_delays() {
    let text = r#"
        links.wan = { ends = ["a", "b"], delay = "20 ms", jitter = "3 ms" }
        paths.only.via = ["wan"]
    "#;
    let [alone, emulated] = both_ways(text, 2_000, Duration::from_micros(700));
    assert_eq!(alone, emulated);
}

#[test]
fn a_million_packets_are_lost_as_by_the_link() {
    let text = r#"
        links.wan = { ends = ["a", "b"], rate = "1 Gbit/s", delay = "1 ms", loss = { kind = "gilbert", mean_loss = 0.02, mean_bad_steps = 4, clock = "packet" } }
        paths.only.via = ["wan"]
    "#;
    let [alone, emulated] = both_ways(text, 1_000_000, Duration::from_micros(20));
    let lost = alone.iter().filter(|time| time.is_none()).count();
    assert!((18_000..22_000).contains(&lost), "{lost}");
    assert_eq!(alone, emulated);
}

/// A packet to the phone goes with the slot from 0.5 ms on. One from it asks in the slot from 2 ms on, is
/// granted from 3 ms on and sent from 7 ms on. Each is processed for 0.2 ms afterwards.
#[test]
fn a_radio_holds_packets_as_in_a_simulation() {
    let mut emulation = network(
        r#"
        links.air = { ends = ["gnb", "phone"], radio = { kind = "nr", harq = { error = 0 } } }
        paths.only.via = ["air"]
        "#,
    );
    let at = |micros| Time::ZERO + Duration::from_micros(micros);
    assert!(until(&mut emulation, at(100)).is_empty());
    assert!(emulation.send(packet(0, 1500)));
    let mut told = until(&mut emulation, at(1_700));
    assert!(emulation.send(Inbound { side: Side::B, ..packet(1, 1500) }));
    told.extend(until(&mut emulation, at(10_000)));
    assert_eq!(arrivals(&told, 2), [Some(at(1_200)), Some(at(7_700))]);
}

#[test]
fn fq_codel_keeps_flows_apart_by_their_hash() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "1 Mbit/s", queue.kind = "fq_codel" }
        paths.only.via = ["wan"]
        "#,
    );
    for handle in 0..40 {
        emulation.send(packet(handle, 1500));
    }
    emulation.send(Inbound { flow: 77, ..packet(40, 100) });
    let told = until(&mut emulation, Time::from_secs(10));
    let place = told.iter().position(|delivery| delivery.handle == 40).unwrap();
    assert!(
        place <= 2,
        "it waits for the packets that are being sent, not for those that came first: {place}"
    );
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "1 Mbit/s", queue.kind = "fq_codel" }
        paths.only.via = ["wan"]
        "#,
    );
    for handle in 0..41 {
        emulation.send(packet(handle, 100));
    }
    let told = until(&mut emulation, Time::from_secs(10));
    assert_eq!(told.last().unwrap().handle, 40, "one flow keeps its order");
}

#[test]
fn marks_come_out() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "1 Mbit/s", queue = { kind = "drop_tail", packets = 100, mark_packets = 5 } }
        paths.only.via = ["wan"]
        "#,
    );
    for handle in 0..20 {
        let ecn = if handle % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
        emulation.send(Inbound { ecn, ..packet(handle, 1500) });
    }
    let told = until(&mut emulation, Time::from_secs(10));
    assert_eq!(told.len(), 20);
    let marked =
        |delivery: &&Delivery| matches!(delivery.status, DeliveryStatus::Arrived { ecn: Ecn::Ce, .. });
    let marked: Vec<u32> = told.iter().filter(marked).map(|delivery| delivery.handle).collect();
    assert!(!marked.is_empty() && marked.iter().all(|handle| handle % 2 == 0), "{marked:?}");
    assert!(marked.iter().all(|&handle| handle >= 5), "{marked:?}");
}

#[test]
fn a_copy_comes_out_as_well_and_gives_its_handle_back_last() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], delay = "5 ms", duplicate = 1 }
        links.lan = { ends = ["b", "c"], delay = "5 ms", duplicate = 1, loss = { kind = "bernoulli", probability = 0.5 } }
        paths.only.via = ["wan", "lan"]
        "#,
    );
    for handle in 0..100 {
        emulation.send(packet(handle, 100));
    }
    let told = until(&mut emulation, Time::from_secs(1));
    for handle in 0..100 {
        let of_it: Vec<&Delivery> = told.iter().filter(|delivery| delivery.handle == handle).collect();
        let arrived = of_it.iter().filter(|delivery| delivery.status != DeliveryStatus::Dropped).count();
        // Two copies come to the second link, which loses half of them and copies the others.
        assert_eq!(arrived + 2 * (of_it.len() - arrived), 4, "{of_it:?}");
        let (last, before) = of_it.split_last().unwrap();
        assert!(last.is_last && before.iter().all(|delivery| !delivery.is_last), "{of_it:?}");
    }
}

#[test]
fn a_packet_comes_back_the_way_that_the_path_says() {
    let mut emulation = network(
        r#"
        links.there = { ends = ["a", "b"], delay = "5 ms" }
        links.back = { ends = ["a", "b"], delay = "9 ms" }
        paths.only = { via = ["there"], back = ["back"] }
        "#,
    );
    emulation.send(packet(0, 100));
    emulation.send(Inbound { side: Side::B, ..packet(1, 100) });
    let told = until(&mut emulation, Time::from_secs(1));
    let arrived = |handle, due, side| {
        let status = DeliveryStatus::Arrived { due: Time::from_millis(due), path: 0, side, ecn: Ecn::NotEct };
        Delivery { handle, status, is_last: true }
    };
    assert_eq!(told, [arrived(0, 5, Side::B), arrived(1, 9, Side::A)]);
}

#[test]
fn the_ends_of_a_path_are_those_of_its_flow_or_of_its_links() {
    let emulation = network(
        r#"
        links.one = { ends = ["a", "b"] }
        links.two = { ends = ["c", "b"], rate = "1 Mbit/s", mtu = "1280 B" }
        paths.used.via = ["one"]
        paths.long.via = ["two", "one"]
        flows.load = { from = "b", to = "a", paths = ["used"], transport.kind = "udp", app.kind = "voip" }
        "#,
    );
    let [used, long] = emulation.paths() else { panic!("two paths") };
    assert_eq!((used.ends.clone(), used.mtu), (["b".into(), "a".into()], 1500));
    assert_eq!((long.ends.clone(), long.mtu), (["c".into(), "a".into()], 1280));
}

#[test]
fn a_packet_that_is_larger_than_the_path_is_not_taken() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "1 Mbit/s", mtu = "1280 B" }
        paths.only.via = ["wan"]
        "#,
    );
    assert!(!emulation.send(packet(0, 1281)));
    assert!(emulation.send(packet(0, 1280)));
    assert_eq!(until(&mut emulation, Time::from_secs(1)).len(), 1);
}

#[test]
fn flows_of_the_scenario_load_the_links() {
    let text = |flows| {
        format!(
            r#"
            links.wan = {{ ends = ["a", "b"], rate = "1 Mbit/s", delay = "10 ms", queue = {{ kind = "drop_tail", packets = 1000 }} }}
            paths.only.via = ["wan"]
            {flows}
            "#
        )
    };
    let load = r#"flows.load = { from = "a", to = "b", paths = ["only"], transport.kind = "tcp", app.kind = "bulk" }"#;
    let due = |flows| {
        let mut emulation = network(&text(flows));
        until(&mut emulation, Time::from_secs(5));
        emulation.send(packet(0, 100));
        let told = until(&mut emulation, Time::from_secs(6));
        (arrivals(&told, 1)[0].unwrap(), emulation.row().value("run.packets_sent"))
    };
    let (alone, sent) = due("");
    assert_eq!(sent, Some(1.0));
    assert_eq!(alone, Time::from_secs(5) + Duration::from_micros(10_800));
    let (beside, sent) = due(load);
    assert!(beside > alone + Duration::from_millis(20), "{beside}");
    assert!(sent > Some(100.0), "{sent:?}");
}

#[test]
fn the_row_counts_what_the_links_did() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "1 Mbit/s", queue = { kind = "drop_tail", packets = 4 } }
        paths.only.via = ["wan"]
        "#,
    );
    for handle in 0..10 {
        emulation.send(packet(handle, 1250));
    }
    until(&mut emulation, Time::from_millis(25));
    let [forward, reverse] = &emulation.states()[..] else { panic!("two directions") };
    assert_eq!((forward.rate, forward.held), (Some(1_000_000), 3));
    assert_eq!(forward.delivered, [2, 2500]);
    assert_eq!(forward.dropped[DropCause::QueueFull as usize], 5);
    assert_eq!(reverse.delivered, [0, 0]);
    // Reading the state changes nothing.
    until(&mut emulation, Time::from_millis(50));
    let row = emulation.row();
    assert_eq!(row.value("link.wan.forward.delivered_packets"), Some(5.0));
    assert_eq!(row.value("run.packets_sent"), Some(10.0));
    assert_eq!(row.value("run.packets_dropped"), Some(5.0));
}

#[test]
fn a_new_rate_serves_what_waits() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "1 Mbit/s", queue = { kind = "drop_tail", packets = 50 } }
        paths.only.via = ["wan"]
        "#,
    );
    for handle in 0..4 {
        // 10 ms each.
        emulation.send(packet(handle, 1250));
    }
    let mut told = until(&mut emulation, Time::from_millis(15));
    emulation.set("wan", &[("rate", "2Mbit/s")]).unwrap();
    told.extend(until(&mut emulation, Time::from_secs(1)));
    let micros = [10_000, 17_500, 22_500, 27_500].map(|at| Some(Time::from_nanos(at * 1000)));
    assert_eq!(arrivals(&told, 4), micros);
    assert_eq!(emulation.states()[1].rate, Some(2_000_000));
    emulation.set("wan", &[("reverse.rate", "500 kbit/s")]).unwrap();
    let [forward, reverse] = [0, 1].map(|way| emulation.states()[way].rate);
    assert_eq!((forward, reverse), (Some(2_000_000), Some(500_000)));
}

#[test]
fn a_shorter_delay_lets_no_packet_overtake() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], delay = "50 ms" }
        paths.only.via = ["wan"]
        "#,
    );
    emulation.send(packet(0, 100));
    let mut told = until(&mut emulation, Time::from_millis(10));
    emulation.set("wan", &[("delay", "10ms")]).unwrap();
    emulation.send(packet(1, 100));
    told.extend(until(&mut emulation, Time::from_millis(60)));
    emulation.send(packet(2, 100));
    told.extend(until(&mut emulation, Time::from_secs(1)));
    assert_eq!(arrivals(&told, 3), [50, 50, 70].map(|at| Some(Time::from_millis(at))));
}

#[test]
fn a_new_loss_is_that_of_the_scenario() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "100 Mbit/s" }
        paths.only.via = ["wan"]
        "#,
    );
    let lost = |emulation: &mut Emulation, from: u64| {
        let mut told = Vec::new();
        for index in 0..1000 {
            emulation.advance(Time::from_millis(from + index), &mut |delivery| told.push(delivery));
            emulation.send(packet(0, 100));
        }
        told.extend(until(emulation, Time::from_millis(from + 1001)));
        told.iter().filter(|delivery| delivery.status == DeliveryStatus::Dropped).count()
    };
    assert_eq!(lost(&mut emulation, 0), 0);
    emulation.set("wan", &[("loss", "30%")]).unwrap();
    let some = lost(&mut emulation, 2000);
    assert!((250..350).contains(&some), "{some}");
    emulation.set("wan", &[("loss", "1")]).unwrap();
    assert_eq!(lost(&mut emulation, 4000), 1000);
    emulation.set("wan", &[("loss", r#"{ kind = "none" }"#)]).unwrap();
    assert_eq!(lost(&mut emulation, 6000), 0);
}

#[test]
fn what_cannot_be_is_a_sentence() {
    let mut emulation = network(
        r#"
        links.wan = { ends = ["a", "b"], rate = "1 Mbit/s" }
        links.free = { ends = ["a", "b"] }
        paths.only.via = ["wan"]
        "#,
    );
    let mut refused = |link, key, value| emulation.set(link, &[(key, value)]).unwrap_err().to_string();
    assert!(refused("wan", "rate", "fast").contains("links.wan.rate: `fast` is not a rate"));
    for loss in ["2", "-1 %"] {
        assert!(refused("wan", "loss", loss).contains(" is not a probability such as"), "{loss}");
    }
    assert!(refused("wan", "loss", "nan").contains("links.wan.loss.kind: unknown variant `nan`"));
    assert_eq!(refused("lan", "rate", "1 Mbit/s"), "links: there is no link `lan`; there is `wan`, `free`");
    assert!(refused("wan", "queue.packets", "3").contains("`rate`, `delay` and `loss` can"));
    assert!(refused("free", "rate", "1 Mbit/s").contains("no rate of its own"));
    // All or nothing.
    assert!(emulation.set("wan", &[("rate", "2 Mbit/s"), ("delay", "soon")]).is_err());
    assert_eq!(emulation.states()[0].rate, Some(1_000_000));
    assert!(error("links.wan.ends = [\"a\", \"b\"]\n[paths]\n").starts_with("paths: there is none"));
    let loose =
        "links.one.ends = [\"a\", \"b\"]\nlinks.two.ends = [\"c\", \"d\"]\npaths.p.via = [\"one\", \"two\"]";
    assert_eq!(
        error(loose),
        "paths.p.via: these links do not follow one another; name them in the order of the way"
    );
    let round = "links.one.ends = [\"a\", \"b\"]\npaths.p.via = [\"one\", \"one\"]";
    assert!(error(round).contains("leads from `a` back to it"));
}
