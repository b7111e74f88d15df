//! RFC 9260 section 6: messages, their fragments, bundles and order.

use super::*;
use crate::endpoint::{Command, Message, StreamId};
use crate::sctp::config::Buffer;
use crate::units::{Bytes, Limit};

const ALL: [Profile; 6] =
    [Profile::FreeBsd10, Profile::Linux, Profile::Ns2, Profile::Rfc2960, Profile::Rfc4960, Profile::Rfc9260];

#[test]
fn flows_on_every_profile_without_retransmissions() {
    for profile in ALL {
        let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::Off), ..config(profile) }, 2);
        let sent = pair.send_reliable(200, 1_000);
        pair.run_for(ms(10_000));
        assert!(pair.received(Side::B) == sent, "{profile:?}");
        assert_eq!(pair.ends[0].stats().data_chunks_retransmitted, 0, "{profile:?}");
    }
}

#[test]
fn flows_both_ways_at_once() {
    let mut pair = Pair::open(&rfc9260(), 1);
    let mut sent = [Vec::new(), Vec::new()];
    for _ in 0..100 {
        for side in [Side::A, Side::B] {
            sent[side.index()].push(pair.send(side, 300, Reliability::Reliable, false));
        }
        pair.run_for(ms(10));
    }
    pair.run_for(ms(1_000));
    assert!(pair.received(Side::B) == sent[0] && pair.received(Side::A) == sent[1]);
    // Section 6.1: SACKs travel with data.
    assert!(pair.sent(Side::B, "sack").iter().filter(|packet| packet.has("data")).count() > 30);
}

#[test]
fn a_long_message_is_fragmented_and_put_together() {
    // Section 6.9.
    let mut pair = Pair::open(&rfc9260(), 1);
    let payload = pair.send(Side::A, 10_000, Reliability::Reliable, false);
    pair.run_for(ms(1_000));
    assert_eq!(pair.received(Side::B), [payload]);
    let chunks: usize = pair.sent(Side::A, "data").iter().map(|packet| packet.tsns().len()).sum();
    assert_eq!(chunks, 10_000_usize.div_ceil(1_452));
    assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.size <= 1_500));
}

#[test]
fn messages_are_bundled_when_they_wait() {
    // Section 6.10; in the study, up to 8 messages of 160 bytes share a packet.
    for (settings, most) in [
        (config(Profile::Ns2), 8),
        (Config { bundle_max: Some(Limit::At(3)), ..config(Profile::Ns2) }, 3),
        (Config { bundling: Some(false), ..config(Profile::Ns2) }, 1),
    ] {
        let mut pair = Pair::open(&settings, 1);
        pair.send_reliable(100, 160);
        pair.run_for(ms(2_000));
        assert_eq!(pair.received(Side::B).len(), 100);
        let longest = pair.sent(Side::A, "data").iter().map(|packet| packet.tsns().len()).max();
        assert_eq!(longest, Some(most));
    }
}

#[test]
fn nagle_waits_for_a_full_packet() {
    for (nagle, packets) in [(false, 4), (true, 2)] {
        let mut pair = Pair::open(&Config { nagle: Some(nagle), ..rfc9260() }, 1);
        pair.send_reliable(4, 100);
        pair.run_for(ms(1_000));
        assert_eq!(pair.sent(Side::A, "data").len(), packets, "nagle {nagle}");
        assert_eq!(pair.received(Side::B).len(), 4);
    }
}

#[test]
fn unordered_messages_overtake_and_ordered_ones_wait() {
    // Section 6.6.
    for unordered in [false, true] {
        let mut pair = Pair::open(&rfc9260(), 1);
        pair.drop_if = drop_data(&[0]);
        let sent: Vec<Payload> =
            (0..3).map(|_| pair.send(Side::A, 100, Reliability::Reliable, unordered)).collect();
        pair.run_for(ms(100));
        let early = if unordered { sent[1..].to_vec() } else { Vec::new() };
        assert_eq!(pair.received(Side::B), early);
        pair.run_for(ms(3_000));
        assert_eq!(pair.received(Side::B).len(), 3);
    }
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = drop_data(&[0]);
    let message = |stream, offset| Message {
        stream: StreamId(stream),
        ..Message::new(Payload { offset, length: 100 })
    };
    for (stream, offset) in [(1, 0), (2, 100), (1, 200)] {
        pair.command(Side::A, Command::Send(message(stream, offset)));
    }
    pair.run_for(ms(3_000));
    let offsets: Vec<u64> = pair.received(Side::B).iter().map(|payload| payload.offset).collect();
    assert_eq!(offsets, [100, 0, 200]);
}

#[test]
fn a_closed_window_is_probed_and_opens_again() {
    // Section 6.1 A: the gap fills the receiver's buffer until the first message arrives.
    let settings = Config { receive_buffer: Some(Bytes(3_000)), ..rfc9260() };
    let mut pair = Pair::open(&settings, 1);
    pair.drop_if = drop_data(&[0]);
    let sent = pair.send_reliable(30, 1_000);
    pair.run_for(ms(500));
    assert!(pair.sent(Side::B, "sack").iter().any(|packet| sack(packet).a_rwnd <= 1_000));
    pair.run_for(ms(20_000));
    assert!(pair.received(Side::B) == sent);
    let outstanding_most = 3_000 / 1_000;
    assert!(pair.ends[0].stats().data_chunks_retransmitted <= 2 + outstanding_most);
}
