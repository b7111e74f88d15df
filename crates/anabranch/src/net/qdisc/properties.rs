//! Properties of every discipline of the table, with any settings, arrivals and departures.
//!
//! Responses to constant overload against their formulas are tests of the disciplines themselves: the times
//! of drops in `codel.rs`, the probability in `pie.rs`, that of BLUE in `cobalt.rs`, the shares of turns in
//! `drr.rs`.

use std::collections::BTreeMap;

use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::Ecn;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::interface::{Drops, QueueDisc as _};
use super::testing::{packet, place};
use super::{Discipline, QueueConfig};
use crate::net::packets::{Held, Treatment, Waiting};

/// The next event, after this many nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrival { after: u64, flow: u32, size: u32 },
    Departure { after: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = || prop_oneof![4 => 0..1_000_000_u64, 2 => 0..20_000_000_u64, 1 => 0..2_000_000_000_u64];
    let size = prop_oneof![2 => Just(1500_u32), 1 => 40..1500_u32];
    let arrival =
        (after(), 0..6_u32, size).prop_map(|(after, flow, size)| Step::Arrival { after, flow, size });
    let departure = after().prop_map(|after| Step::Departure { after });
    prop::collection::vec(prop_oneof![3 => arrival, 2 => departure], 1..400)
}

/// Settings that make things happen, put in place of the defaults where a discipline has them.
fn settings() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let packets = (1..30_u32, 1..10_u32, 1..5_u32, 0..3000_u64);
    let times = (0..20_u32, 1..100_u32, any::<[bool; 3]>());
    let rules = prop::sample::select(vec!["cumulative", "gate", "law", "plain", "target", "theta"]);
    let isolation =
        prop::sample::select(vec!["dual_srchost", "flowblind", "flows", "srchost", "triple_isolate"]);
    (packets, times, rules, isolation).prop_map(
        |(
            (packets, depth, flows, bytes),
            (target, interval, [ecn, is_head, is_measured]),
            rule,
            isolation,
        )| {
            vec![
                ("packets", json!(packets)),
                ("depth", json!(depth)),
                ("flows", json!(flows)),
                ("buckets", json!(flows)),
                ("quantum", json!(format!("{} B", bytes + 1))),
                ("mtu", json!(format!("{bytes} B"))),
                ("target", json!(format!("{} ms", target.max(1)))),
                ("interval", json!(format!("{interval} ms"))),
                (
                    "diffserv",
                    json!(
                        ["besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence"]
                            [depth as usize % 5]
                    ),
                ),
                ("rtt", json!(format!("{interval} ms"))),
                ("perturb", json!(format!("{} ms", 10 * target))),
                ("burst", json!(if is_head { "0 s" } else { "50 ms" })),
                ("max_threshold", json!(6.0)),
                ("weight", json!(0.2)),
                ("ecn", json!(ecn)),
                ("head_drop", json!(is_head)),
                ("drop_bottom", json!(is_head)),
                ("measure", json!(is_measured)),
                ("rule", json!(rule)),
                ("isolation", json!(isolation)),
                ("variant", json!(if is_measured { "linux" } else { "rfc" })),
                ("any_ect", json!(ecn)),
                ("drop_early", json!(is_measured && is_head)),
                ("drop_overload", json!(ecn)),
            ]
        },
    )
}

/// Keys that are left out by default.
const OPTIONAL: [(&str, &str); 2] = [("drop_tail", "packets"), ("cake", "rtt")];

fn with_settings(config: &QueueConfig, settings: &[(&'static str, Value)]) -> QueueConfig {
    let mut value = serde_json::to_value(config).unwrap();
    let kind = config.kind();
    let settings_of = value.as_object_mut().unwrap();
    for (key, setting) in settings {
        // A token bucket's burst is in bytes.
        let is_there = settings_of.contains_key(*key) && kind != "token_bucket";
        if is_there || OPTIONAL.contains(&(kind.as_str(), *key)) {
            settings_of.insert((*key).to_owned(), setting.clone());
        }
    }
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// A discipline of the table with default or other settings, alone or behind a token bucket or CAKE's shaper.
fn configs() -> impl Strategy<Value = QueueConfig> {
    (any::<Index>(), settings(), any::<[bool; 2]>()).prop_map(|(index, settings, [is_default, is_shaped])| {
        let config = index.get(&QueueConfig::all()).clone();
        let config = if is_default { config } else { with_settings(&config, &settings) };
        let mut value = serde_json::to_value(&config).unwrap();
        if config.kind() == "cake" && is_shaped {
            value["bandwidth"] = json!("2 Mbit/s");
            value["bytes"] = json!("6 kB");
        } else if is_shaped {
            value = json!({"kind": "token_bucket", "rate": "2 Mbit/s", "burst": "3 kB", "child": value});
        }
        serde_json::from_value(value).unwrap()
    })
}

/// Whether the discipline or its child is a stack.
fn is_stack(config: &QueueConfig) -> bool {
    serde_json::to_string(config).unwrap().contains("lifo")
}

/// The most packets and bytes that may wait: those of the settings. A child counts what a bucket holds back,
/// unless it is a bucket itself; CAKE does not, whose limit is in bytes.
fn limits(settings: &Value) -> (u64, u64) {
    if settings["kind"] == "token_bucket" {
        let child = &settings["child"];
        let (packets, bytes) = if child.is_null() { (50, u64::MAX) } else { limits(child) };
        let is_counted = child["kind"] != "token_bucket" && child["kind"] != "cake";
        let of_one = |size: u64| if is_counted { 0 } else { size };
        return (packets.saturating_add(of_one(1)), bytes.saturating_add(of_one(1500)));
    }
    let bytes = if settings["bytes"].is_null() { u64::MAX } else { 6000 };
    let of_default = if settings["kind"] == "drop_tail" { 50 } else { u64::MAX };
    (settings["packets"].as_u64().unwrap_or(of_default), bytes)
}

/// Packets that wait, as the test knows them.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<u32, Held>,
    /// For each flow, the newest packet that has left.
    newest: BTreeMap<u32, u32>,
    sent: u64,
    dropped: u64,
}

impl Model {
    /// Checks a packet that leaves: it was there, is unchanged, and has not waited for a negative time.
    fn leaves(&mut self, now: u64, packet: &Held) {
        let known = self.waiting.remove(&packet.slot).expect("a packet that waits");
        assert_eq!(
            (known.arrived, known.size, known.flow, known.ecn, known.hosts),
            (packet.arrived, packet.size, packet.flow, packet.ecn, packet.hosts)
        );
        assert!(packet.arrived <= now);
        assert!(!packet.is_marked() || packet.ecn != Ecn::NotEct, "a mark on a packet that takes none");
    }
}

/// Arrivals and departures through one discipline; each packet that leaves is shown to `check`, with all that
/// wait.
fn run(config: &QueueConfig, steps: &[Step], mut check: impl FnMut(&Model, &Held)) {
    let mut queue: Discipline = config.build(place()).unwrap();
    let settings = serde_json::to_value(config).unwrap();
    let (most_packets, most_bytes) = limits(&settings);
    let holds_back = settings["kind"] == "token_bucket" || settings.get("bandwidth").is_some();
    let (mut model, mut drops, mut now, mut slot) = (Model::default(), Drops::default(), 1_u64, 0);
    for &step in steps {
        match step {
            Step::Arrival { after, flow, size } => {
                now += after;
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][flow as usize % 3];
                let hosts = [flow as u8 / 2, 9];
                // Something is in service, so that no packet is taken just because nothing is.
                let treatment = Treatment::new(Dscp::new([0, 46, 8, 34, 1, 56][flow as usize % 6]));
                let arrival = Held { size, ecn, hosts, treatment, found_units: 1, ..packet(slot, now, flow) };
                model.waiting.insert(slot, arrival);
                slot += 1;
                queue.enqueue(now, arrival, &mut drops);
            }
            Step::Departure { after } => {
                now += after;
                let packet = queue.dequeue(now, &mut drops);
                if let Some(packet) = packet {
                    check(&model, &packet);
                    model.leaves(now, &packet);
                    model.sent += 1;
                    model.newest.insert(packet.flow, packet.slot);
                } else if holds_back {
                    assert!(queue.not_before() > now);
                    assert_eq!(queue.not_before() == u64::MAX, queue.waiting().packets == 0);
                } else {
                    assert_eq!((queue.waiting().packets, queue.not_before()), (0, u64::MAX));
                }
            }
        }
        for (packet, _) in drops.0.drain(..) {
            model.leaves(now, &packet);
            model.dropped += 1;
        }
        let waiting = queue.waiting();
        assert_eq!(u64::from(slot), model.sent + model.dropped + waiting.packets);
        assert_eq!(waiting.packets, model.waiting.len() as u64);
        assert_eq!(waiting.bytes, model.waiting.values().map(|packet| u64::from(packet.size)).sum::<u64>());
        assert!(waiting.packets <= most_packets && waiting.bytes <= most_bytes, "{waiting:?}");
    }
    for packet in queue.flush(now, &mut drops) {
        model.leaves(now, &packet);
    }
    for (packet, _) in drops.0 {
        model.leaves(now, &packet);
    }
    assert!(model.waiting.is_empty() && queue.waiting() == Waiting::default());
}

proptest! {
    /// No packet is lost or invented: what came has left, was dropped or waits. Limits hold, and a discipline
    /// with something to send sends it, or says when it will.
    #[test]
    fn packets_are_conserved(config in configs(), steps in steps()) {
        run(&config, &steps, |_, _| {});
    }

    /// Packets of a flow leave in the order in which they came, except from stacks.
    #[test]
    fn flows_stay_in_order(config in configs().prop_filter("a stack", |it| !is_stack(it)), steps in steps()) {
        run(&config, &steps, |model, packet| {
            let newest = model.newest.get(&packet.flow);
            assert!(newest.is_none_or(|&newest| newest < packet.slot), "{packet:?} after {newest:?}");
        });
    }

    /// A plain stack always sends the youngest packet that waits.
    #[test]
    fn a_stack_sends_the_youngest(packets in 1..30_u32, drop_bottom in any::<bool>(), steps in steps()) {
        let config = json!({
            "kind": "lifo_codel", "rule": "plain", "packets": packets, "drop_bottom": drop_bottom
        });
        run(&serde_json::from_value(config).unwrap(), &steps, |model, packet| {
            assert_eq!(model.waiting.keys().next_back(), Some(&packet.slot));
        });
    }

    /// Where there is one queue, packets of all flows leave in the order in which they came.
    #[test]
    fn one_queue_sends_the_oldest(
        kind in prop::sample::select(vec!["cobalt", "codel", "drop_tail", "head_drop", "pie", "red"]),
        settings in settings(),
        steps in steps(),
    ) {
        let config = QueueConfig::all().into_iter().find(|config| config.kind() == kind).unwrap();
        let mut dropped_or_sent = 0;
        run(&with_settings(&config, &settings), &steps, |model, packet| {
            // What CoDel drops at this time is older still.
            let older = model.waiting.range(..packet.slot).count();
            assert!(older == 0 || kind.starts_with("co"), "{older} older than {packet:?}");
            assert!(packet.slot >= dropped_or_sent);
            dropped_or_sent = packet.slot;
        });
    }
}
