//! Drill tests: stream schedulers and interleaving, one short exchange per rule of RFC 8260.

use crate::endpoint::{Command, Event, Message, Reliability, StreamId};
use crate::flow::{Payload, Side};
use crate::sctp::stream_scheduler;
use crate::sctp::testing::{Logged, Pair, config, drop_first, ms};
use crate::sctp::{Config, Profile};
use crate::time::Time;
use crate::units::Bytes;
use crate::wire::sctp::chunk::{Chunk, IData};

/// Bytes of a message that fills a packet with I-DATA (1500 - 20 - 12 - 20).
const FULL: u32 = 1_448;

fn with(scheduler: stream_scheduler::Config, interleaving: bool) -> Config {
    Config {
        stream_scheduler: Some(scheduler),
        interleaving: Some(interleaving),
        receive_buffer: Some(Bytes(1 << 20)),
        send_buffer: Some(crate::sctp::config::Buffer::Off),
        ..config(Profile::Rfc9260)
    }
}

/// A pair with messages, given by stream and length, that were all handed over before the association opens,
/// so that they wait together. The offset of a message is 1,000,000 times its number.
fn waiting(settings: &Config, messages: &[(u16, u32)]) -> Pair {
    waiting_as(settings, messages, Reliability::Reliable, false)
}

fn waiting_as(settings: &Config, messages: &[(u16, u32)], how: Reliability, unordered: bool) -> Pair {
    let mut pair = Pair::new(settings, 1);
    for (&(stream, length), number) in messages.iter().zip(0..) {
        hand_over(&mut pair, number, stream, length, how, unordered);
    }
    pair
}

fn hand_over(pair: &mut Pair, number: u64, stream: u16, length: u32, how: Reliability, unordered: bool) {
    let payload = Payload { offset: number * 1_000_000, length };
    pair.command(
        Side::A,
        Command::Send(Message {
            stream: stream.into(),
            unordered,
            reliability: how,
            ..Message::new(payload)
        }),
    );
}

fn open(pair: &mut Pair) {
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(20_000));
}

/// Numbers of the messages in the order in which their first chunks left.
fn order(pair: &Pair) -> Vec<u64> {
    let mut numbers = Vec::new();
    for (_, number, _) in chunks(pair) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// Packet, message and bytes of every chunk with user data.
fn chunks(pair: &Pair) -> Vec<(usize, u64, u32)> {
    let of = |(index, packet): (usize, &Logged)| {
        let payload = |chunk: &Chunk| match chunk {
            Chunk::Data(data) => Some(data.payload),
            Chunk::IData(data) => Some(data.payload),
            _ => None,
        };
        packet
            .chunks
            .iter()
            .filter_map(payload)
            .map(|payload| (index, payload.offset / 1_000_000, payload.length))
            .collect::<Vec<_>>()
    };
    let sent = pair.log.iter().filter(|packet| packet.from == Side::A);
    sent.enumerate().flat_map(of).collect()
}

fn i_data(packet: &Logged) -> Vec<IData> {
    packet.chunks.iter().filter_map(|c| if let Chunk::IData(data) = c { Some(*data) } else { None }).collect()
}

/// When each message was delivered at B.
fn delivered(pair: &Pair, number: u64) -> Time {
    let all = pair.deliveries(Side::B);
    all.iter().find(|(_, payload)| payload.offset == number * 1_000_000).expect("it was delivered").0
}

use stream_scheduler::Config::{
    FairCapacity, Fcfs, Priority, RoundRobin, RoundRobinPacket, WeightedFairQueueing,
};

#[test]
fn first_come_first_served() {
    // Section 3.1: the order is that of the application, with I-DATA too.
    for interleaving in [false, true] {
        let mut pair = waiting(&with(Fcfs {}, interleaving), &[(1, 3_000), (1, 100), (0, 100), (2, 4_000)]);
        open(&mut pair);
        assert_eq!(order(&pair), [0, 1, 2, 3]);
        assert_eq!(pair.received(Side::B).len(), 4);
    }
}

#[test]
fn streams_take_turns() {
    // Section 3.2: one message from each stream in turn.
    let messages = [(1, 900), (1, 900), (1, 900), (2, 900), (2, 900), (5, 900)];
    let mut pair = waiting(&with(RoundRobin {}, false), &messages);
    open(&mut pair);
    assert_eq!(order(&pair), [0, 3, 5, 1, 4, 2]);
    // A message that has begun goes on to its end without interleaving.
    let mut pair = waiting(&with(RoundRobin {}, false), &[(1, 5_000), (2, 100)]);
    open(&mut pair);
    let numbers: Vec<u64> = chunks(&pair).iter().map(|&(_, number, _)| number).collect();
    assert_eq!(numbers, [0, 0, 0, 0, 1]);
    // With interleaving, one chunk from each stream in turn.
    let mut pair = waiting(&with(RoundRobin {}, true), &[(1, 3 * FULL), (2, 3 * FULL)]);
    open(&mut pair);
    let numbers: Vec<u64> = chunks(&pair).iter().map(|&(_, number, _)| number).collect();
    assert_eq!(numbers, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_packet_holds_one_stream() {
    // Section 3.3.
    let messages = [(1, 300), (2, 300), (1, 300), (2, 300), (3, 300), (1, 300)];
    let mut pair = waiting(&with(RoundRobinPacket {}, false), &messages);
    open(&mut pair);
    let packets: Vec<(usize, u64)> =
        chunks(&pair).iter().map(|&(packet, number, _)| (packet, number)).collect();
    let first = packets[0].0;
    let by_packet: Vec<(usize, u64)> =
        packets.iter().map(|&(packet, number)| (packet - first, number)).collect();
    assert_eq!(by_packet, [(0, 0), (0, 2), (0, 5), (1, 1), (1, 3), (2, 4)]);
    // Round robin, in contrast, gives each message a turn.
    let mut pair = waiting(&with(RoundRobin {}, false), &messages);
    open(&mut pair);
    assert_eq!(order(&pair), [0, 1, 4, 2, 3, 5]);
    assert_eq!(chunks(&pair)[3].0, chunks(&pair)[0].0, "bundled");
}

#[test]
fn the_highest_priority_goes_first() {
    // Section 3.4; equals take turns.
    let settings = with(Priority { priorities: vec![9, 5, 5, 1] }, false);
    let mut pair = waiting(&settings, &[(0, 900), (1, 900), (1, 900), (2, 900), (3, 900), (7, 900)]);
    open(&mut pair);
    assert_eq!(order(&pair), [5, 4, 1, 3, 2, 0]);
}

#[test]
fn an_urgent_message_does_not_wait_for_a_large_one_with_interleaving() {
    // Section 3.4, and section 1: no head-of-line blocking at the sender.
    let mut arrival = Vec::new();
    for interleaving in [false, true] {
        let settings = with(Priority { priorities: vec![1, 0] }, interleaving);
        let mut pair = Pair::open(&settings, 1);
        hand_over(&mut pair, 0, 0, 200_000, Reliability::Reliable, false);
        let at = pair.now;
        hand_over(&mut pair, 1, 1, 100, Reliability::Reliable, false);
        pair.run_for(ms(5_000));
        assert!(delivered(&pair, 0) > at + ms(100));
        assert_eq!(pair.received(Side::B).len(), 2);
        arrival.push(delivered(&pair, 1) - at);
        if !interleaving {
            assert!(delivered(&pair, 1) >= delivered(&pair, 0));
        }
    }
    // One round trip until the window has room, and half of one; the message before it takes several.
    assert!(arrival[1] <= ms(60), "{arrival:?}");
    assert!(arrival[0] > ms(150), "{arrival:?}");
}

#[test]
fn capacity_is_shared_by_bytes() {
    // Section 3.5: one stream has messages ten times as long.
    let mut messages = vec![(1, 1_000); 20];
    messages.extend([(2, 100); 200]);
    let mut pair = waiting(&with(FairCapacity {}, false), &messages);
    open(&mut pair);
    let mut sent = [0_u32; 2];
    for (_, number, bytes) in chunks(&pair) {
        sent[usize::from(number >= 20)] += bytes;
        assert!(sent[0].abs_diff(sent[1]) <= 1_000, "{sent:?}");
    }
    assert_eq!(sent, [20_000, 20_000]);
}

#[test]
fn capacity_is_shared_by_weight() {
    // Section 3.6.
    let mut messages = vec![(1, 500); 90];
    messages.extend([(2, 500); 30]);
    for interleaving in [false, true] {
        let settings = with(WeightedFairQueueing { weights: vec![1, 3, 1] }, interleaving);
        let mut pair = waiting(&settings, &messages);
        open(&mut pair);
        let mut sent = [0_u32; 2];
        for (_, number, bytes) in chunks(&pair) {
            sent[usize::from(number >= 90)] += bytes;
            assert!((sent[0]).abs_diff(3 * sent[1]) <= 1_500, "{sent:?}");
        }
    }
}

#[test]
fn a_stream_that_was_idle_has_no_claim() {
    let mut pair = Pair::open(&with(FairCapacity {}, false), 1);
    for number in 0..40 {
        hand_over(&mut pair, number, 1, 1_000, Reliability::Reliable, false);
    }
    pair.run_for(ms(1_000));
    pair.log.clear();
    for number in 40..60 {
        hand_over(&mut pair, number, 1, 1_000, Reliability::Reliable, false);
        hand_over(&mut pair, number + 100, 2, 1_000, Reliability::Reliable, false);
    }
    pair.run_for(ms(2_000));
    let mut sent = [0_u32; 2];
    for (_, number, bytes) in chunks(&pair) {
        sent[usize::from(number >= 100)] += bytes;
        assert!(sent[0].abs_diff(sent[1]) <= 2_000, "{sent:?}");
    }
}

#[test]
fn interleaving_is_used_where_both_ends_want_it() {
    // Section 2.2.1.
    for (ours, theirs) in [(true, true), (true, false), (false, true)] {
        let own = with(Fcfs {}, ours);
        let mut pair = Pair::new(&own, 1);
        let parameters = with(Fcfs {}, theirs).resolve().expect("possible");
        let streams = crate::rng::Streams { seed: 1, replication: 0 };
        let ip = crate::flow::IpVersion::Ipv4;
        pair.ends[1] =
            crate::sctp::Association::new(&parameters, Side::B, &[1500], ip, streams, "flow/test/sctp/b");
        pair.connect();
        let payload = pair.send(Side::A, 3_000, Reliability::Reliable, false);
        pair.run_for(ms(500));
        assert_eq!(pair.received(Side::B), [payload]);
        let kind = if ours && theirs { "i_data" } else { "data" };
        assert_eq!(pair.sent(Side::A, kind).len(), 3, "{ours} {theirs}");
    }
    // Supported Extensions with I-DATA and I-FORWARD-TSN: 8 bytes more.
    let size = |interleaving| {
        let mut pair = Pair::new(&with(Fcfs {}, interleaving), 1);
        pair.command(Side::A, Command::Connect);
        pair.log[0].size
    };
    assert_eq!(size(true), size(false) + 8);
}

#[test]
fn i_data_has_its_numbers() {
    // Section 2.1: MIDs for ordered and unordered messages, FSNs, 20 bytes of header.
    let mut pair = Pair::open(&with(Fcfs {}, true), 1);
    hand_over(&mut pair, 0, 3, 2 * FULL + 1, Reliability::Reliable, false);
    hand_over(&mut pair, 1, 3, 10, Reliability::Reliable, true);
    hand_over(&mut pair, 2, 3, 10, Reliability::Reliable, false);
    pair.run_for(ms(500));
    let sent: Vec<IData> = pair.sent(Side::A, "i_data").into_iter().flat_map(i_data).collect();
    let numbers: Vec<_> = sent.iter().map(|d| (d.mid, d.fsn, d.unordered, d.beginning, d.ending)).collect();
    let expected = [
        (0, 0, false, true, false),
        (0, 1, false, false, false),
        (0, 2, false, false, true),
        (0, 0, true, true, true),
        (1, 0, false, true, true),
    ];
    assert_eq!(numbers, expected);
    assert_eq!(pair.sent(Side::A, "i_data")[0].size, 1_500);
    assert_eq!(pair.received(Side::B).len(), 3);
}

#[test]
fn a_lost_fragment_comes_again() {
    let mut pair = waiting(&with(RoundRobin {}, true), &[(1, 5 * FULL), (2, 5 * FULL), (3, 100)]);
    pair.drop_if = drop_first("i_data", 2);
    open(&mut pair);
    assert_eq!(pair.received(Side::B).len(), 3);
    assert_eq!(pair.ends[1].waiting_bytes(), 0);
}

#[test]
fn what_is_given_up_is_told_by_message() {
    // Section 2.3.1.
    for unordered in [false, true] {
        let once = Reliability::LimitedRetransmissions(0);
        let messages = [(1, 3 * FULL), (2, 3 * FULL), (1, 100), (2, 100)];
        let mut pair = waiting_as(&with(RoundRobin {}, true), &messages, once, unordered);
        pair.drop_if = drop_first("i_data", 1);
        open(&mut pair);
        let given_up = pair.abandoned(Side::A);
        let forward = pair
            .sent(Side::A, "i_forward_tsn")
            .into_iter()
            .flat_map(|packet| packet.chunks.clone())
            .find_map(|chunk| if let Chunk::IForwardTsn(forward) = chunk { Some(forward) } else { None })
            .expect("an I-FORWARD-TSN");
        let skipped = forward.messages[0];
        assert_eq!((skipped.stream, skipped.unordered, skipped.mid), (1, unordered, 0));
        let received: Vec<u64> = pair.received(Side::B).iter().map(|p| p.offset / 1_000_000).collect();
        assert_eq!(received.len() + given_up.len(), 4);
        assert!(!received.contains(&0) && received.contains(&2) && received.contains(&3));
        assert_eq!(pair.ends[1].waiting_bytes(), 0, "nothing waits for ever");
        assert!(pair.heard(Side::A, &Event::Abandoned(given_up[0])));
    }
}

#[test]
fn a_stream_beyond_16_bits_is_refused_and_not_taken_for_another() {
    let mut pair = Pair::open(&config(Profile::Rfc9260), 1);
    let payload = Payload { offset: 0, length: 100 };
    let beyond = Message { stream: StreamId(1 << 16), ..Message::new(payload) };
    pair.command(Side::A, Command::Send(beyond));
    assert!(pair.heard(Side::A, &Event::Refused(payload)));
    pair.command(Side::A, Command::Send(Message::new(payload)));
    pair.run_for(ms(1_000));
    assert_eq!(pair.received(Side::B), [payload]);
}
