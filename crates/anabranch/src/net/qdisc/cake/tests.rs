//! CAKE's queues, tins and shaper.

use anabranch_transport::dscp::Dscp;

use super::super::cobalt::Settings;
use super::super::testing::{packet, place};
use super::tin::{QUEUES, SCALE, Set, WAYS};
use super::*;
use crate::net::packets::Treatment;

const MILLI: u64 = 1_000_000;

fn cake(isolation: CakeIsolation) -> Cake {
    CakeConfig { isolation, ..Default::default() }.build(place()).unwrap()
}

/// Four round-trip times at the bandwidth, within the limits of `cake_reconfigure`.
#[test]
fn the_limit_follows_the_bandwidth() {
    let limit = |mbps: u64| {
        let bandwidth = Some(Rate::from_bits_per_sec(mbps * 1_000_000));
        CakeConfig { bandwidth, ..Default::default() }.build(place()).unwrap().limit
    };
    assert_eq!([1, 200, 1000].map(limit), [4 << 20, 10_000_000, 15_360_000]);
    assert_eq!(cake(CakeIsolation::Flows).limit, 15_360_000);
}

/// How many packets of each flow are among a thousand that leave, when packets of these flows, from and
/// to these hosts, arrive all the time.
fn shares(isolation: CakeIsolation, flows: &[[u8; 2]]) -> Vec<u32> {
    let mut queue = cake(isolation);
    let (mut drops, mut sent) = (Drops::default(), vec![0; flows.len()]);
    for now in 0..1000 {
        for (flow, &hosts) in flows.iter().enumerate() {
            for _ in 0..if now == 0 { 20 } else { 1 } {
                queue.enqueue(now, Held { hosts, ..packet(0, now, flow as u32) }, &mut drops);
            }
        }
        sent[queue.dequeue(now, &mut drops).unwrap().flow as usize] += 1;
    }
    assert!(drops.0.is_empty());
    sent
}

/// Of two hosts, one has three flows and the other has one: either each flow has the same share, or each
/// host.
#[test]
fn isolation_of_flows_and_of_hosts() {
    let from_two = [[1, 9], [1, 8], [1, 7], [2, 6]];
    let near = |shares: &[u32], expected: [u32; 4]| {
        assert!(shares.iter().zip(expected).all(|(share, exp)| share.abs_diff(exp) < 15), "{shares:?}");
    };
    near(&shares(CakeIsolation::Flows, &from_two), [250; 4]);
    near(&shares(CakeIsolation::DualDsthost, &from_two), [250; 4]);
    near(&shares(CakeIsolation::DualSrchost, &from_two), [167, 167, 167, 500]);
    near(&shares(CakeIsolation::TripleIsolate, &from_two), [167, 167, 167, 500]);
    near(&shares(CakeIsolation::Srchost, &from_two), [167, 167, 167, 500]);
    let to_two = from_two.map(|[from, to]| [to, from]);
    near(&shares(CakeIsolation::DualSrchost, &to_two), [250; 4]);
    near(&shares(CakeIsolation::DualDsthost, &to_two), [167, 167, 167, 500]);
    near(&shares(CakeIsolation::TripleIsolate, &to_two), [167, 167, 167, 500]);
    near(&shares(CakeIsolation::Dsthost, &to_two), [167, 167, 167, 500]);
    near(&shares(CakeIsolation::Hosts, &[[1, 2], [1, 2], [1, 2], [1, 3]]), [167, 167, 167, 500]);
}

#[test]
fn one_queue_is_first_in_first_out() {
    let mut queue = cake(CakeIsolation::Flowblind);
    let mut drops = Drops::default();
    for slot in 0..6 {
        queue.enqueue(0, packet(slot, 0, slot % 3), &mut drops);
    }
    let sent: Vec<u32> = std::iter::from_fn(|| queue.dequeue(0, &mut drops)).map(|p| p.slot).collect();
    assert_eq!(sent, [0, 1, 2, 3, 4, 5]);
}

/// Eight ways: with a plain hash of 200 flows into 1024 queues there are some 18 collisions, with sets of
/// eight next to none.
#[test]
fn flows_find_a_queue_of_their_own() {
    let mut queue = cake(CakeIsolation::Flows);
    let mut drops = Drops::default();
    for flow in 0..200 {
        queue.enqueue(0, packet(flow, 0, flow), &mut drops);
    }
    let used = queue.tins[0].flows.iter().filter(|flow| flow.queue.len() > 0).count();
    assert!(used >= 199, "{used}");
    let direct: std::collections::BTreeSet<usize> =
        (0..200).map(|flow| queue.classes.tag(&packet(0, 0, flow)) as usize % QUEUES).collect();
    assert!(direct.len() < 195, "{}", direct.len());
    // If all queues of a set are taken, flows share one.
    let tag = queue.classes.tag(&packet(0, 0, 0));
    let set = tag as usize % QUEUES / WAYS * WAYS;
    for way in set..set + WAYS {
        queue.tins[0].flows[way].set = Set::Sparse;
        queue.tins[0].flows[way].tag = !tag;
    }
    assert_eq!(usize::from(queue.tins[0].classify(queue.classes, &packet(0, 0, 0))), tag as usize % QUEUES);
}

/// 1500 B take 4 ms at 3 Mbit/s, and 1000 B take 8/3 ms, with no burst and no drift.
#[test]
fn the_shaper_holds_packets_back() {
    let bandwidth = Some(Rate::from_bits_per_sec(3_000_000));
    let mut queue = CakeConfig { bandwidth, ..Default::default() }.build(place()).unwrap();
    let mut drops = Drops::default();
    for slot in 0..4 {
        queue.enqueue(7, packet(slot, 7, 0), &mut drops);
    }
    let mut now = 7;
    let mut times = Vec::new();
    while queue.waiting().packets > 0 {
        if queue.dequeue(now, &mut drops).is_some() {
            times.push(now - 7);
        } else {
            now = queue.not_before();
        }
    }
    assert_eq!(times, [0, 4 * MILLI, 8 * MILLI, 12 * MILLI]);
    // The last packet counts although the queue is empty, and nothing is saved up during a pause.
    assert!(queue.dequeue(now, &mut drops).is_none());
    for (from, expected) in [(now + MILLI, 7 + 16 * MILLI), (50 * MILLI, 50 * MILLI)] {
        queue.enqueue(from, Held { size: 1000, ..packet(0, from, 0) }, &mut drops);
        let at = if queue.dequeue(from, &mut drops).is_some() { from } else { queue.not_before() };
        assert_eq!(at, expected);
        queue.dequeue(at, &mut drops);
    }
    let shaper = queue.shaper.unwrap();
    assert_eq!((shaper.next, shaper.left), (52_666_666, 2_000_000));
}

/// `cake_set_rate`: at 1 Mbit/s a packet of 1500 B takes 12 ms, so that the target is 18 ms and the
/// interval 113 ms.
#[test]
fn slow_links_have_longer_targets() {
    let with = |bits| {
        let bandwidth = Some(Rate::from_bits_per_sec(bits));
        let queue = CakeConfig { bandwidth, ..Default::default() }.build(place()).unwrap();
        let Settings { target, interval, mtu_time, .. } = queue.tins[0].settings;
        (target / MILLI, interval / MILLI, mtu_time / MILLI, queue.tins[0].quantum / SCALE)
    };
    assert_eq!(with(1_000_000), (18, 113, 12, 300));
    assert_eq!(with(20_000_000), (5, 100, 0, 610));
    assert_eq!(with(1_000_000_000), (5, 100, 0, 1500));
}

#[test]
fn the_fattest_queue_makes_room() {
    let bytes = Some(Bytes(6000));
    let mut queue = CakeConfig { bytes, ..Default::default() }.build(place()).unwrap();
    let mut drops = Drops::default();
    for (slot, flow) in [1, 1, 1, 1, 2].into_iter().enumerate() {
        queue.enqueue(0, packet(slot as u32, 0, flow), &mut drops);
    }
    assert_eq!(drops.0.iter().map(|(packet, _)| packet.slot).collect::<Vec<_>>(), [0]);
}

/// Queues that are empty come to rest, and no host keeps a bulk flow.
#[test]
fn nothing_is_left_of_flows_that_end() {
    let mut queue = cake(CakeIsolation::TripleIsolate);
    let mut drops = Drops::default();
    for slot in 0..500 {
        let now = slot * MILLI;
        for flow in 0..3 {
            queue.enqueue(now, packet(0, now, flow), &mut drops);
        }
        queue.dequeue(now, &mut drops);
    }
    assert!(queue.tins[0].bulk_flows[0][0] == 3);
    for now in (500 * MILLI..4_000 * MILLI).step_by(MILLI as usize) {
        queue.dequeue(now, &mut drops);
    }
    assert_eq!(queue.waiting().packets, 0);
    // Another flow advances the state of the others.
    for now in (4_000 * MILLI..9_000 * MILLI).step_by(MILLI as usize) {
        queue.enqueue(now, packet(0, now, 9), &mut drops);
        queue.dequeue(now, &mut drops);
    }
    assert!(queue.tins[0].flows.iter().filter(|flow| flow.set != Set::None).count() <= 1);
    let bulk = queue.tins[0].flows.iter().filter(|flow| flow.set == Set::Bulk).count();
    assert_eq!((usize::from(queue.tins[0].bulk_flows[0][0]), queue.tins[0].decaying.len()), (bulk, 0));
}

fn with(dscp: u8, slot: u32, now: u64) -> Held {
    Held { treatment: Treatment::new(Dscp::new(dscp)), ..packet(slot, now, u32::from(dscp)) }
}

/// The tables of `sch_cake.c`, by the codepoints that have names.
#[test]
fn codepoints_have_the_tins_of_linux() {
    let tins = |diffserv: CakeDiffserv, codepoints: &[u8]| -> Vec<usize> {
        codepoints.iter().map(|number| diffserv.tin(Dscp::new(*number))).collect()
    };
    // CS0 to CS7, then LE, AF11, AF21, AF31, AF41, AF43, VA and EF, then three without a name.
    let all = [0, 8, 16, 24, 32, 40, 48, 56, 1, 10, 18, 26, 34, 38, 44, 46, 2, 4, 45];
    for (diffserv, expected) in [
        (CakeDiffserv::Besteffort, [0; 19]),
        (CakeDiffserv::Diffserv3, [0, 1, 0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 0, 0, 2, 2, 0, 2, 0]),
        (CakeDiffserv::Diffserv4, [0, 1, 2, 2, 3, 3, 3, 3, 1, 0, 2, 2, 2, 2, 3, 3, 0, 2, 0]),
        (CakeDiffserv::Diffserv8, [2, 1, 5, 3, 6, 6, 7, 7, 0, 1, 4, 3, 3, 3, 6, 6, 1, 4, 2]),
        (CakeDiffserv::Precedence, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 4, 5, 5, 0, 0, 5]),
    ] {
        assert_eq!(tins(diffserv, &all), expected, "{diffserv:?}");
    }
}

/// How many packets of each codepoint leave in ten seconds at 12 Mbit/s (a packet each millisecond), if
/// packets of each always wait.
fn served(config: &CakeConfig, codepoints: &[u8]) -> Vec<u32> {
    let mut queue = config.build(place()).unwrap();
    let (mut drops, mut sent) = (Drops::default(), vec![0; codepoints.len()]);
    for (slot, dscp) in codepoints.iter().enumerate() {
        for _ in 0..2 {
            queue.enqueue(0, with(*dscp, slot as u32, 0), &mut drops);
        }
    }
    for now in (0..10_000 * MILLI).step_by(MILLI as usize) {
        if let Some(packet) = queue.dequeue(now, &mut drops) {
            sent[packet.slot as usize] += 1;
            queue.enqueue(now, with(packet.dscp().number(), packet.slot, now), &mut drops);
        }
    }
    sent
}

/// Behind a shaper the voice tin has what it asks for up to a quarter of the bandwidth and the bulk tin a
/// sixteenth; best effort has the rest. Without one, turns have the weights of the quanta.
#[test]
fn tins_share_the_bandwidth() {
    let near = |sent: &[u32], expected: &[u32]| {
        assert!(sent.iter().zip(expected).all(|(sent, expected)| sent.abs_diff(*expected) < 40), "{sent:?}");
    };
    let shaped = CakeConfig { bandwidth: Some(Rate::from_bits_per_sec(12_000_000)), ..Default::default() };
    let unshaped = CakeConfig::default();
    // CS0, LE, EF: shares of 1, 1/16 and 1/4 are more than there is, and the least urgent has less.
    let sent = served(&shaped, &[0, 1, 46]);
    assert!(sent[2].abs_diff(2500) < 40 && sent[1].abs_diff(625) < 40, "{sent:?}");
    // Both use more than their shares: that whose next packet is due first goes on, LE's after 16 ms at most.
    near(&served(&shaped, &[1, 46]), &[714, 9286]);
    near(&served(&unshaped, &[0, 1, 46]), &[7619, 476, 1905]);
    let four = CakeConfig { diffserv: CakeDiffserv::Diffserv4, ..Default::default() };
    near(&served(&four, &[0, 1, 34, 46]), &[5639, 352, 2819, 1410].map(|share: u32| share * 10_000 / 10_220));
}

/// A tin that uses less than its share goes first whatever waits elsewhere.
#[test]
fn a_call_does_not_wait_for_a_download() {
    let bandwidth = Some(Rate::from_bits_per_sec(12_000_000));
    let mut queue = CakeConfig { bandwidth, ..Default::default() }.build(place()).unwrap();
    let mut drops = Drops::default();
    for slot in 0..50 {
        queue.enqueue(0, with(0, slot, 0), &mut drops);
    }
    for now in (0..40 * MILLI).step_by(MILLI as usize) {
        if now % (20 * MILLI) == 5 * MILLI {
            queue.enqueue(now, Held { size: 200, ..with(46, 1000, now) }, &mut drops);
            assert_eq!(queue.dequeue(now, &mut drops).map(|packet| packet.slot), Some(1000));
        } else {
            queue.dequeue(now, &mut drops);
        }
    }
}
