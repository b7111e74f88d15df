//! RFC 3758 and RFC 7496: messages that are given up.

use super::*;
use crate::endpoint::Event;
use crate::sctp::config::Buffer;
use crate::sctp::testing::drop_first;
use crate::units::Bytes;

#[test]
fn limited_retransmissions_are_counted() {
    // RFC 7496 section 3.1.1: after n retransmissions the message is given up.
    for limit in 0..3 {
        let mut pair = Pair::open(&rfc9260(), 1);
        let payload = pair.send(Side::A, 100, Reliability::LimitedRetransmissions(limit), false);
        pair.log.clear();
        pair.drop_if = drop_first("data", usize::MAX);
        pair.run_for(ms(1));
        // The first transmission was on its way already.
        pair.set_up(0, true);
        let later = pair.send(Side::A, 100, Reliability::LimitedRetransmissions(limit), false);
        pair.run_for(ms(30_000));
        assert_eq!(pair.sent(Side::A, "data").len() as u32, 1 + limit);
        assert_eq!(pair.abandoned(Side::A), [later]);
        assert_eq!(pair.received(Side::B), [payload]);
    }
}

#[test]
fn a_message_past_its_lifetime_is_given_up() {
    // RFC 3758 section 4.1.
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = drop_first("data", 1);
    let sent: Vec<Payload> =
        (0..2).map(|_| pair.send(Side::A, 100, Reliability::Timed(ms(500)), false)).collect();
    pair.run_for(ms(5_000));
    assert_eq!(pair.abandoned(Side::A), sent[..1]);
    assert_eq!(pair.received(Side::B), sent[1..]);
    assert_eq!(pair.ends[0].stats().data_chunks_retransmitted, 0);
}

#[test]
fn what_was_sent_is_not_given_up_where_the_peer_cannot_pass_it() {
    // RFC 3758 section 3.3.1: no FORWARD TSN to a peer that has not offered it, so it would wait for
    // ever.
    let mut pair = Pair::open(&Config { partial_reliability: Some(false), ..rfc9260() }, 1);
    pair.drop_if = drop_first("data", 1);
    let sent: Vec<Payload> =
        (0..2).map(|_| pair.send(Side::A, 100, Reliability::Timed(ms(500)), false)).collect();
    pair.run_for(ms(5_000));
    assert_eq!(pair.abandoned(Side::A), []);
    assert_eq!(pair.received(Side::B), sent);
    assert_eq!(pair.ends[0].stats().forward_tsns_sent, 0);
}

#[test]
fn a_message_may_expire_before_it_is_sent() {
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.set_up(0, false);
    pair.send_reliable(10, 1_400);
    let waiting = pair.send(Side::A, 1_000, Reliability::Timed(ms(200)), false);
    pair.run_for(ms(500));
    pair.set_up(0, true);
    pair.run_for(ms(10_000));
    assert_eq!(pair.abandoned(Side::A), [waiting]);
    assert_eq!(pair.received(Side::B).len(), 10);
    assert_eq!(pair.ends[0].stats().forward_tsns_sent, 0, "it never had a TSN");
}

#[test]
fn lower_priority_makes_room_for_higher() {
    // RFC 7496 section 3.1.2.
    let mut pair = Pair::open(&Config { send_buffer: Some(Buffer::At(Bytes(10_000))), ..rfc9260() }, 1);
    pair.set_up(0, false);
    let low: Vec<Payload> =
        (0..10).map(|_| pair.send(Side::A, 1_000, Reliability::Priority(7), false)).collect();
    let refused = pair.send(Side::A, 1_000, Reliability::Priority(7), false);
    assert!(pair.heard(Side::A, &Event::Refused(refused)), "equals do not make room");
    let high = pair.send(Side::A, 1_500, Reliability::Priority(1), false);
    assert_eq!(pair.abandoned(Side::A), [low[9], low[8]]);
    pair.set_up(0, true);
    pair.run_for(ms(10_000));
    assert_eq!(pair.received(Side::B).last(), Some(&high));
    assert_eq!(pair.received(Side::B).len(), 9);
}

#[test]
fn a_forward_tsn_lets_later_messages_through() {
    // RFC 3758 section 3.6: ordered messages no longer wait for the one given up.
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = drop_data(&[0]);
    let start = pair.now;
    let sent: Vec<Payload> = (0..5).map(|_| pair.send(Side::A, 1_000, ONCE, false)).collect();
    pair.run_for(ms(500));
    assert_eq!(pair.abandoned(Side::A), sent[..1]);
    assert_eq!(pair.received(Side::B), sent[1..]);
    let forward = pair.sent(Side::A, "forward_tsn");
    // The third missing report and one way come before any timeout.
    assert!(forward[0].at - start < ms(50));
    assert_eq!(forward[0].size, 20 + 12 + 8 + 4, "one stream entry");
    assert_eq!(pair.ends[1].waiting_bytes(), 0);
}

#[test]
fn a_lost_forward_tsn_is_sent_again() {
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = Box::new({
        let mut data = drop_data(&[0]);
        let mut forward = drop_first("forward_tsn", 1);
        move |now, from, packet| data(now, from, packet) || forward(now, from, packet)
    });
    pair.send(Side::A, 1_000, ONCE, false);
    pair.run_for(ms(5_000));
    assert_eq!(pair.sent(Side::A, "forward_tsn").len(), 2);
    let later = pair.send(Side::A, 1_000, ONCE, false);
    pair.run_for(ms(1_000));
    assert_eq!(pair.received(Side::B), [later]);
}

#[test]
fn a_forward_tsn_may_overtake_the_data_it_covers() {
    for delivers in [false, true] {
        let deliver_overtaken = Some(delivers);
        let settings = Config { rto_min: Some(ms(50)), deliver_overtaken, ..config(Profile::Ns2) };
        let mut pair = Pair::open(&settings, 1);
        talk(&mut pair, ms(1_000), ONCE);
        // The data is late, not lost: the sender gives it up and tells the peer over a faster wire.
        pair.wires[0][0].delay = ms(400);
        let late = pair.send(Side::A, 160, ONCE, true);
        pair.wires[0][0].delay = ms(20);
        pair.run_for(ms(200));
        let next = pair.send(Side::A, 160, ONCE, true);
        pair.run_for(ms(100));
        assert_eq!(pair.abandoned(Side::A), [late]);
        assert!(!pair.sent(Side::A, "forward_tsn").is_empty());
        assert_eq!(pair.received(Side::B).last(), Some(&next));
        pair.run_for(ms(1_000));
        let last = if delivers { late } else { next };
        assert_eq!(pair.received(Side::B).last(), Some(&last), "what came late is delivered if so set");
        let then = talk(&mut pair, ms(200), ONCE);
        pair.run_for(ms(100));
        assert_eq!(pair.received(Side::B).last(), then.last(), "and acknowledgement goes on");
        assert_eq!(pair.ends[0].sender.outstanding.bytes(), 0);
    }
}

#[test]
fn a_fragmented_message_is_given_up_as_a_whole() {
    let mut pair = Pair::open(&rfc9260(), 1);
    pair.drop_if = drop_data(&[1]);
    let long = pair.send(Side::A, 20_000, ONCE, false);
    let short = pair.send(Side::A, 100, ONCE, false);
    pair.run_for(ms(10_000));
    assert_eq!(pair.abandoned(Side::A), [long]);
    assert_eq!(pair.received(Side::B), [short]);
    assert_eq!(pair.ends[1].waiting_bytes(), 0, "no fragment is left behind");
}

#[test]
fn at_a_timeout_ns2_waits_for_the_next_message() {
    let mut pair = Pair::open(&voip(5, ms(200)), 1);
    talk(&mut pair, ms(1_000), ONCE);
    pair.run_for(ms(300));
    pair.log.clear();
    pair.drop_if = drop_first("data", 1);
    let lost = pair.send(Side::A, 160, ONCE, true);
    pair.run_for(ms(1_000));
    assert_eq!(pair.abandoned(Side::A), [lost]);
    assert!(pair.sent(Side::A, "forward_tsn").is_empty(), "nothing is sent on expiry");
    let next = pair.send(Side::A, 160, ONCE, true);
    pair.run_for(ms(500));
    assert_eq!(pair.received(Side::B).last(), Some(&next));
    assert_eq!(pair.sent(Side::A, "forward_tsn").len(), 1, "with the SACK that shows the gap");
    assert_eq!(pair.ends[0].sender.outstanding.bytes(), 0);
}
