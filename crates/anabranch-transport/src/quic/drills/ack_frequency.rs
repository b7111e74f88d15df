//! draft-ietf-quic-ack-frequency-14.

use crate::flow::Side;
use crate::quic::config::{AckFrequency, Migration};
use crate::quic::testing::{Drill, Logged, Pair, ms};
use crate::quic::{Config, code};
use crate::time::Duration;
use crate::wire::quic::{Frame, Level};

fn asking(threshold: u32) -> Config {
    let ack_frequency = AckFrequency { threshold, ..AckFrequency::default() };
    Config { ack_frequency: Some(ack_frequency), ..Config::default() }
}

/// A client that permits requests.
fn permitting() -> Config {
    Config { min_ack_delay: Some(Duration::from_millis(5)), ..Config::default() }
}

fn request(sequence: u64, threshold: u64, delay: u64) -> Frame {
    Frame::AckFrequency { sequence, threshold, delay, reordering: 3 }
}

fn requests(frames: impl IntoIterator<Item = Frame>) -> Vec<Frame> {
    frames.into_iter().filter(|frame| matches!(frame, Frame::AckFrequency { .. })).collect()
}

/// Sections 3, 4 and 9: a sender asks once, if its peer permits it, and is acknowledged as it asks.
#[test]
fn a_sender_is_acknowledged_as_it_asks() {
    let config = asking(19);
    let plain = Config::default();
    let mut acks = Vec::new();
    for configs in [[&config, &config], [&config, &plain], [&plain, &config], [&plain, &plain]] {
        let mut pair = Pair::seeded(configs, 1);
        pair.command(Side::A, crate::endpoint::Command::Connect);
        pair.run_for(ms(200));
        pair.write(Side::A, 1_000_000);
        pair.run_for(ms(5_000));
        assert_eq!(pair.received_bytes(Side::B), 1_000_000);
        let frames = requests(pair.from(Side::A).iter().flat_map(|logged| logged.frames()).cloned());
        let delay = 25_000;
        let expected = Frame::AckFrequency { sequence: 0, threshold: 19, delay, reordering: 3 };
        let is_asked = configs[0].ack_frequency.is_some() && configs[1].ack_frequency.is_some();
        assert_eq!(frames, if is_asked { vec![expected] } else { Vec::new() });
        assert_eq!(pair.ends[0].stats().ack_frequency_sent, u64::from(is_asked));
        acks.push(pair.ends[1].stats().acks_sent);
    }
    assert!(acks[0] * 3 < acks[1], "{acks:?}");
    assert!(acks[1] == acks[3] && acks[2] == acks[3], "{acks:?}");
}

/// Sections 4 and 6: more packets than the threshold are acknowledged at once, fewer after the delay.
#[test]
fn a_receiver_does_as_it_is_asked() {
    let mut drill = Drill::open(&permitting());
    drill.at(200).frame(request(0, 3, 10_000));
    drill.at(300);
    drill.sent();
    drill.frame(Frame::Ping).frame(Frame::Ping).frame(Frame::Ping);
    assert_eq!(drill.sent().len(), 0);
    drill.frame(Frame::Ping);
    assert_eq!(drill.sent().len(), 1, "the fourth");
    drill.frame(Frame::Ping).at(309);
    assert_eq!(drill.sent().len(), 0);
    drill.at(310);
    assert_eq!(drill.sent().len(), 1, "after 10 ms");
    // A request with a sequence number that is not larger is ignored, and 0 is every packet.
    drill.frame(request(0, 0, 10_000)).at(400);
    drill.sent();
    drill.frame(Frame::Ping);
    assert_eq!(drill.sent().len(), 0);
    drill.frame(request(7, 0, 10_000));
    drill.sent();
    drill.frame(Frame::Ping);
    assert_eq!(drill.sent().len(), 1);
    drill.frame(request(6, 100, 10_000)).frame(Frame::Ping);
    assert_eq!(drill.sent().len(), 2, "it is older");
}

/// Section 5.
#[test]
fn an_acknowledgement_comes_at_once_if_that_is_asked() {
    let mut drill = Drill::open(&permitting());
    drill.at(200).frame(request(0, 100, 5_000_000)).frame(Frame::Ping).at(400);
    drill.sent();
    drill.frame(Frame::ImmediateAck);
    assert_eq!(drill.sent().len(), 1);
}

/// Section 4: delays that are too short or too long.
#[test]
fn impossible_delays_are_errors() {
    for (delay, is_wrong) in [(4_999, true), (5_000, false), (16_383_999, false), (16_384_000, true)] {
        let mut drill = Drill::open(&permitting());
        drill.at(200).frame(request(0, 1, delay));
        assert_eq!(drill.violation(), is_wrong.then_some(code::PROTOCOL_VIOLATION), "{delay}");
    }
}

/// Section 3, RFC 9000 section 12.4: who has not said that it permits them knows no such frames. None may
/// come in 0-RTT or before.
#[test]
fn frames_that_nobody_permits_are_errors() {
    for frame in [request(0, 1, 10_000), Frame::ImmediateAck] {
        let mut drill = Drill::open(&Config::default());
        drill.at(200).frame(frame.clone());
        assert_eq!(drill.violation(), Some(code::FRAME_ENCODING_ERROR));
        let mut drill = Drill::opening(&permitting());
        drill.at(50).packet(Level::Initial, vec![frame.clone()]);
        assert_eq!(drill.violation(), Some(code::PROTOCOL_VIOLATION));
        assert!(!crate::quic::space::may_come(&frame, Level::ZeroRtt));
    }
}

/// Section 3: a least delay above the longest one.
#[test]
fn delays_of_parameters_fit_together() {
    for (least, is_wrong) in [(25_000, false), (25_001, true)] {
        let mut drill = Drill::opening(&Config::default());
        drill.at(100);
        let parameters = drill.peers_parameters();
        let parameters = crate::wire::quic::Parameters { min_ack_delay: Some(least), ..parameters };
        drill.packet(Level::Initial, vec![crate::quic::testing::crypto(0, 90)]);
        let mut packet = drill.peers_packet(Level::Handshake, vec![crate::quic::testing::crypto(0, 2_400)]);
        packet.parameters = Some(Box::new(parameters));
        drill.deliver(packet, crate::flow::Ecn::NotEct);
        assert_eq!(drill.violation(), is_wrong.then_some(code::TRANSPORT_PARAMETER_ERROR), "{least}");
    }
}

/// Sections 4 and 7: a request that is lost is made again with the next number, and the probe timeout has the
/// longest delay that the peer may have.
#[test]
fn a_lost_request_is_made_again() {
    for (delay, during, after) in [(5, 25, 5), (60, 60, 60)] {
        let ack_frequency = AckFrequency { max_ack_delay: Some(ms(delay)), ..AckFrequency::default() };
        let config = Config { ack_frequency: Some(ack_frequency), ..Config::default() };
        let mut lost = true;
        let mut pair = Pair::new(&config);
        pair.drop_if = Box::new(move |_, from, datagram| {
            let mut frames = datagram.packets().iter().flat_map(|packet| &packet.frames);
            let asks = frames.any(|frame| matches!(frame, Frame::AckFrequency { .. }));
            from == Side::A && asks && std::mem::take(&mut lost)
        });
        pair.command(Side::A, crate::endpoint::Command::Connect);
        pair.write(Side::A, 100_000);
        pair.run_until(crate::time::Time::from_secs(1), |pair| pair.ends[0].stats().ack_frequency_sent == 1);
        assert_eq!(pair.ends[0].peer_ack_delay(), ms(during));
        pair.run_for(ms(3_000));
        let frames = requests(pair.from(Side::A).iter().flat_map(|logged| logged.frames()).cloned());
        let of =
            |sequence| Frame::AckFrequency { sequence, threshold: 9, delay: delay * 1_000, reordering: 3 };
        assert_eq!(frames, [of(0), of(1)]);
        assert_eq!(pair.ends[0].peer_ack_delay(), ms(after));
        assert_eq!(pair.received_bytes(Side::B), 100_000);
    }
}

/// Sections 7 and 8.4: probes want an acknowledgement at once, and so does a client that has moved, which
/// asks anew.
#[test]
fn probes_and_moves_ask_for_acknowledgements() {
    let config = Config { migration: Some(Migration::OnFailure), ..asking(9) };
    let mut pair = Pair::open(&config);
    pair.write(Side::A, 400_000);
    pair.run_for(ms(50));
    pair.wires.dead = vec![crate::flow::PathId(0)];
    pair.run_for(ms(3_000));
    assert_eq!(pair.received_bytes(Side::B), 400_000);
    let with = |path: u8| {
        let there = pair.from(Side::A).into_iter().filter(move |logged| logged.path.0 == path);
        let frames: Vec<Frame> = there.flat_map(Logged::frames).cloned().collect();
        let at_once = frames.iter().filter(|frame| **frame == Frame::ImmediateAck).count();
        (at_once, requests(frames).len())
    };
    assert_eq!(with(0), (1, 0), "the request was made before");
    assert_eq!(with(1), (1, 1));
    assert_eq!(pair.ends[1].stats().ack_frequency_sent, 2, "the server asks anew, too");
}
