//! RFC 9001 section 6: key updates.

use crate::endpoint::Event;
use crate::flow::{Ecn, Side};
use crate::quic::testing::{Drill, Pair, ms};
use crate::quic::{Config, code};
use crate::wire::quic::{Frame, Level};

fn every(packets: u32) -> Config {
    Config { key_update: Some(packets), ..Config::default() }
}

/// The key phase bits of the 1-RTT packets that were sent since the last call.
fn phases(drill: &mut Drill) -> Vec<bool> {
    let sent = drill.sent();
    let packets = sent.iter().flat_map(|logged| logged.datagram.packets());
    packets.filter(|packet| packet.level == Level::OneRtt).map(|packet| packet.key_phase).collect()
}

/// Lets the peer send a PING in this key phase.
fn ping(drill: &mut Drill, key_phase: bool) -> u64 {
    let packet = drill.peers_packet(Level::OneRtt, vec![Frame::Ping]);
    let number = packet.number;
    drill.deliver(crate::wire::quic::Packet { key_phase, ..packet }, Ecn::NotEct);
    number
}

/// Sections 6.1 and 6.2: an end changes its phase after so many packets, the other one follows, and nothing
/// is lost. Numbers rise with phases (section 6.4).
#[test]
fn keys_are_updated_under_way() {
    let mut pair = Pair::open(&every(20));
    for _ in 0..100 {
        pair.write(Side::A, 10_000);
        pair.run_for(ms(50));
    }
    assert_eq!(pair.received_bytes(Side::B), 1_000_000);
    assert_eq!(pair.ends.each_ref().map(|end| end.stats().duplicates_received), [0; 2]);
    let updates = pair.ends.each_ref().map(|end| end.stats().key_updates);
    assert!(updates[0] >= 3 && updates[0] == updates[1], "{updates:?}");
    for side in [Side::A, Side::B] {
        let packets = pair.from(side).into_iter().flat_map(|logged| logged.datagram.packets());
        let bits: Vec<bool> = packets.map(|packet| packet.key_phase).collect();
        let changes = bits.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
        // After the last one an end need not have sent anything.
        assert!(changes == updates[0] || changes + 1 == updates[0], "{changes} of {updates:?}");
        assert!(!bits[0], "the first phase");
    }
}

/// Section 6.1: not before the handshake is confirmed, nor before a packet in the present phase is
/// acknowledged, nor before the peer has followed.
#[test]
fn an_update_waits_for_the_peer() {
    let mut drill = Drill::opening(&Config::default());
    assert!(!drill.end.update_keys(), "the handshake is not confirmed");
    let mut drill = Drill::open(&Config::default());
    assert!(drill.end.update_keys(), "its first packet is acknowledged");
    assert!(!drill.end.update_keys(), "nothing in the new phase is");
    drill.write(1_000);
    assert_eq!(phases(&mut drill), [true]);
    let last = drill.end.paths[0].space.next - 1;
    // An acknowledgement of a packet in the new phase, but in a packet of the one before.
    drill.at(200).ack(&[(last, last)]);
    assert!(!drill.end.update_keys(), "the peer has not followed");
    ping(&mut drill, true);
    assert!(drill.end.update_keys());
    assert_eq!(drill.end.key_updates(), 2);
    drill.write(1_000);
    assert!(!phases(&mut drill).last().expect("data leaves"), "the bit toggles");
}

/// Section 6.2: an end follows before it acknowledges.
#[test]
fn an_end_follows_its_peer() {
    let mut drill = Drill::open(&Config::default());
    drill.at(200);
    drill.sent();
    ping(&mut drill, true);
    ping(&mut drill, true);
    assert_eq!(phases(&mut drill), [true], "the acknowledgement");
    assert_eq!(drill.end.stats().key_updates, 1);
}

/// Section 6.5: packets of the phase before are read for three probe timeouts. They are known by their
/// numbers, and change nothing.
#[test]
fn late_packets_are_read_for_three_timeouts() {
    for is_late in [false, true] {
        let mut drill = Drill::open(&Config::default());
        drill.at(200);
        let packet = drill.peers_packet(Level::OneRtt, vec![Frame::Ping]);
        ping(&mut drill, true);
        let three = 3 * drill.end.probe_timeout(0).as_nanos() / 1_000_000;
        drill.at(200 + three - 1 + 2 * u64::from(is_late));
        let before = drill.end.stats().packets_received;
        drill.deliver(packet, Ecn::NotEct);
        assert_eq!(drill.end.stats().packets_received - before, u64::from(!is_late));
        assert_eq!(drill.end.stats().key_updates, 1);
    }
}

/// Section 6.2: an update that follows one of which the peer cannot know yet.
#[test]
fn a_second_update_too_early_is_an_error() {
    let mut drill = Drill::open(&Config::default());
    drill.at(200);
    ping(&mut drill, true);
    assert_eq!(drill.violation(), None);
    ping(&mut drill, false);
    assert_eq!(drill.violation(), Some(code::KEY_UPDATE_ERROR));
    assert!(matches!(drill.events[..], [Event::Closed(_)]));
    // Once this end has spoken in its phase, it is none.
    let mut drill = Drill::open(&Config::default());
    drill.at(200);
    ping(&mut drill, true);
    drill.at(300);
    ping(&mut drill, false);
    assert_eq!((drill.violation(), drill.end.stats().key_updates), (None, 2));
}

/// Section 6.5: an end that updates by itself leaves three probe timeouts for packets that are late.
#[test]
fn updates_leave_time_for_late_packets() {
    let mut pair = Pair::open(&every(1));
    for _ in 0..100 {
        pair.write(Side::A, 10_000);
        pair.run_for(ms(50));
    }
    let mut began = Vec::new();
    let mut phase = false;
    for logged in pair.from(Side::A) {
        if let Some(packet) = logged.datagram.packets().iter().find(|packet| packet.key_phase != phase) {
            phase = packet.key_phase;
            began.push(logged.at_ms());
        }
    }
    assert!(began.len() > 4, "{began:?}");
    let least = 3 * pair.ends[0].paths[0].rtt.srtt().expect("it is measured").as_nanos() / 1_000_000;
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] > least), "{began:?}, {least}");
}
