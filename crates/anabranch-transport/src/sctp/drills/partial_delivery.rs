//! Drill tests of RFC 9260 section 6.9 (partial delivery), RFC 3758 section 3.6 and RFC 8260 for messages in
//! parts.

use crate::endpoint::{Command, Event, Message, Part, Reliability, StreamId};
use crate::flow::{Payload, Side};
use crate::sctp::config::Buffer;
use crate::sctp::testing::{Pair, config, holds, ms};
use crate::sctp::{Config, Profile};
use crate::units::Bytes;

const ALL: [Profile; 6] =
    [Profile::FreeBsd10, Profile::Linux, Profile::Ns2, Profile::Rfc2960, Profile::Rfc4960, Profile::Rfc9260];

fn small(profile: Profile, receive_buffer: u64) -> Config {
    Config { receive_buffer: Some(Bytes(receive_buffer)), ..config(profile) }
}

fn parts(pair: &Pair, side: Side) -> Vec<Part> {
    let events = pair.events[side.index()].iter();
    events
        .filter_map(|(_, event)| if let Event::ReceivedPart(part) = event { Some(*part) } else { None })
        .collect()
}

#[test]
fn section_6_9_a_message_larger_than_the_buffer_arrives_in_parts() {
    for profile in ALL {
        for (buffer, length) in [(1_500, 3_000), (20_000, 30_000), (20_000, 20_001), (20_000, 200_000)] {
            for unordered in [false, true] {
                let config = Config { send_buffer: Some(Buffer::Off), ..small(profile, buffer) };
                let mut pair = Pair::open(&config, 1);
                let sent = [length, 100, length]
                    .map(|length| pair.send(Side::A, length, Reliability::Reliable, unordered));
                pair.run_for(ms(30_000));
                assert_eq!(pair.received(Side::B), sent, "{profile:?}: {length} B into {buffer} B");
                assert_eq!(pair.ends[1].stats.messages_delivered, 3);
                // One that exceeds the buffer with its last fragment alone is whole.
                assert_eq!(parts(&pair, Side::B).len() >= 4, length > buffer as u32 + 1, "{profile:?}");
                let stats = pair.ends[0].stats;
                assert_eq!((stats.timeouts, stats.data_chunks_retransmitted), (0, 0), "{profile:?}");
            }
        }
    }
}

#[test]
fn section_6_9_a_message_that_fits_is_whole() {
    // As large as the buffer, also where its first fragment is lost and the buffer fills meanwhile.
    for profile in ALL {
        for length in [20_000, 19_999, 12_000] {
            for is_lossy in [false, true] {
                let mut pair = Pair::open(&small(profile, 20_000), 1);
                let mut left = u32::from(is_lossy);
                pair.drop_if = Box::new(move |_, _, packet| {
                    let is_lost = left > 0 && holds(packet, "data");
                    left -= u32::from(is_lost);
                    is_lost
                });
                for _ in 0..3 {
                    pair.send(Side::A, length, Reliability::Reliable, false);
                }
                pair.run_for(ms(20_000));
                assert_eq!(pair.received(Side::B).len(), 3);
                assert_eq!(parts(&pair, Side::B), [], "{profile:?}, {length} B");
            }
        }
    }
}

#[test]
fn section_6_9_the_peer_hears_of_the_room_at_once() {
    // 13 chunks leave room for no further one; the next one fills the buffer and is answered at once, with
    // the whole window.
    let mut pair = Pair::open(&small(Profile::Rfc9260, 20_000), 1);
    pair.send_reliable(1, 30_000);
    pair.run_for(ms(10_000));
    let filled = pair.deliveries(Side::B);
    assert_eq!(filled.len(), 1);
    let first = pair.events[1].iter().find(|(_, event)| matches!(event, Event::ReceivedPart(_)));
    let at = first.expect("the message was delivered in parts").0;
    let sacks = pair.sent(Side::B, "sack");
    let told = sacks.iter().find(|packet| packet.at == at).expect("a SACK leaves at the same time");
    assert_eq!(super::sack(told).a_rwnd, 20_000);
}

#[test]
fn rfc3758_section_3_6_a_message_in_parts_may_be_given_up() {
    for (interleaving, profile) in
        [(false, Profile::Rfc9260), (true, Profile::Rfc9260), (false, Profile::Linux)]
    {
        for unordered in [false, true] {
            let config = Config { interleaving: Some(interleaving), ..small(profile, 20_000) };
            let mut pair = Pair::open(&config, 1);
            pair.send(Side::A, 60_000, Reliability::Timed(ms(3_000)), unordered);
            while parts(&pair, Side::B).is_empty() {
                pair.run_for(ms(1));
            }
            pair.set_up(0, false);
            pair.run_for(ms(4_000));
            pair.set_up(0, true);
            let next = pair.send(Side::A, 500, Reliability::Reliable, unordered);
            pair.run_for(ms(20_000));
            assert_eq!(pair.abandoned(Side::A).len(), 1);
            assert!(pair.heard(Side::B, &Event::PartialDeliveryAborted { stream: StreamId(0), unordered }));
            assert_eq!(pair.received(Side::B), [next], "{profile:?}, {interleaving}, {unordered}");
            assert_eq!(pair.ends[1].waiting_bytes(), 0);
        }
    }
}

#[test]
fn rfc8260_messages_of_several_streams_are_in_parts_at_the_same_time() {
    // None of them is larger than the buffer; together they are.
    let config = Config { interleaving: Some(true), ..small(Profile::Rfc9260, 20_000) };
    for streams in [2, 4, 8] {
        let mut pair = Pair::open(&config, 1);
        for stream in 0..streams {
            let payload = Payload { offset: stream * 15_000, length: 15_000 };
            let message = Message { stream: StreamId(stream), ppid: 7, ..Message::new(payload) };
            pair.command(Side::A, Command::Send(message));
        }
        pair.run_for(ms(20_000));
        assert_eq!(pair.received(Side::B).len(), streams as usize);
        assert!(parts(&pair, Side::B).iter().all(|part| part.ppid == 7));
        assert_eq!(pair.ends[0].stats.timeouts, 0);
    }
}
