//! RFC 9000 sections 7, 8, 12.2, 14.1 and 17; RFC 9001 sections 4 and 5.7; RFC 9002 section 6.2.

use crate::endpoint::{Command, Event};
use crate::flow::Side;
use crate::quic::Config;
use crate::quic::config::Handshake;
use crate::quic::testing::{Drill, Pair, crypto, ms};
use crate::time::Time;
use crate::units::Bytes;
use crate::wire::quic::{Frame, Level};

/// Without losses the client is ready after one round trip, the server after one and a half, and the client
/// knows that after two (section 7, figure 5).
#[test]
fn the_handshake_takes_a_round_trip() {
    use Level::{Handshake, Initial, OneRtt};

    let mut pair = Pair::new(&Config::default());
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(300));
    let [client, server] = &pair.events;
    assert_eq!(client[..], [(Time::from_millis(40), Event::Connected)]);
    assert_eq!(server[..], [(Time::from_millis(60), Event::Connected)]);
    let flow: Vec<_> = pair.log.iter().map(|logged| (logged.from, logged.at_ms(), logged.levels())).collect();
    assert_eq!(flow[0], (Side::A, 0, vec![Initial]));
    assert_eq!(flow[1], (Side::B, 20, vec![Initial, Handshake]));
    assert!(flow[2..4].iter().all(|(from, at, _)| (*from, *at) == (Side::B, 20)), "{flow:?}");
    // An acknowledgement of the ServerHello, Finished, and data.
    assert!(flow.iter().any(|(from, at, _)| (*from, *at) == (Side::A, 40)));
    assert!(
        pair.log
            .iter()
            .any(|logged| logged.from == Side::B && logged.frames().any(|f| *f == Frame::HandshakeDone))
    );
    assert!(
        pair.ends.iter().all(|end| end.handshake.is_confirmed && end.handshake.is_discarded == [true; 2])
    );
    assert!(pair.log.iter().filter(|l| l.levels() == [OneRtt]).all(|l| l.bytes < 150));
}

/// Section 14.1: datagrams with Initial packets of a client, and those of a server that elicit an
/// acknowledgement, have 1200 bytes.
#[test]
fn datagrams_with_initial_packets_are_padded() {
    let mut pair = Pair::new(&Config::default());
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(300));
    let with_initial = pair.log.iter().filter(|logged| logged.levels()[0] == Level::Initial);
    for logged in with_initial {
        let elicits = logged.datagram.packets()[0].elicits_ack();
        assert!(logged.bytes >= 1_200 || (logged.from == Side::B && !elicits), "{logged:?}");
    }
}

/// Section 8.1: a server sends three times what came until the client has shown that it is there.
#[test]
fn a_server_sends_three_times_what_came() {
    let handshake = Handshake { certificate: Bytes(10_000), ..Handshake::default() };
    let config = Config { handshake: Some(handshake), ..Config::default() };
    let mut pair = Pair::new(&config);
    // Of the client only its first datagram arrives.
    let mut from_client = 0;
    pair.drop_if = Box::new(move |_, from, _| {
        from_client += u32::from(from == Side::A);
        from == Side::A && from_client > 1
    });
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(20_000));
    let bytes: u32 = pair.from(Side::B).iter().map(|logged| logged.bytes).sum();
    assert!(bytes <= 3 * 1_200, "{bytes}");
    assert!(bytes > 3_500, "{bytes}");
    assert_eq!(pair.ends[1].stats().amplification_limited, 1);
    // Everything arrives when the client can be heard again.
    let mut pair = Pair::new(&config);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(2_000));
    assert!(pair.heard(Side::B, &Event::Connected));
}

/// RFC 9002 section 6.2.2.1: the server's first flight is lost, the limit holds it back, and the client,
/// which has nothing in flight, speaks up.
#[test]
fn a_client_breaks_the_deadlock() {
    let handshake = Handshake { certificate: Bytes(10_000), ..Handshake::default() };
    let config = Config { handshake: Some(handshake), ..Config::default() };
    let mut pair = Pair::new(&config);
    // Only the Initial packet of the server arrives, which acknowledges all that the client has sent.
    pair.drop_if = Box::new(move |now, from, datagram| {
        from == Side::B && now < Time::from_millis(500) && datagram.packets()[0].level != Level::Initial
    });
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(3_000));
    assert!(pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected));
}

/// RFC 9002 section 6.2.1: each probe timeout doubles the next one; the first is 333 + 4 x 166.5 ms.
#[test]
fn probes_of_a_client_that_hears_nothing_double() {
    let mut drill = Drill::opening(&Config::default());
    drill.at(15_500);
    let times: Vec<_> = drill.sent.iter().map(crate::quic::testing::Logged::at_ms).collect();
    assert_eq!(times, [0, 999, 999, 2_997, 2_997, 6_993, 6_993, 14_985, 14_985]);
    assert!(drill.sent.iter().all(|logged| logged.bytes == 1_200));
    for probe in &drill.sent {
        let has_hello = probe.frames().any(|frame| matches!(frame, Frame::Crypto { position: 0, .. }));
        assert!(has_hello, "each probe carries the ClientHello: {probe:?}");
    }
}

/// RFC 9002 section 6.2.4: each probe of a server carries its messages, in both spaces, and the second one
/// is no bare PING where the first one has sent everything.
#[test]
fn each_probe_of_a_server_carries_its_messages() {
    let handshake = Handshake { certificate: Bytes(200), server_rest: Bytes(200), ..Handshake::default() };
    let mut pair = Pair::new(&Config { handshake: Some(handshake), ..Config::default() });
    pair.drop_if = Box::new(|now, from, _| from == Side::B || now > Time::ZERO);
    pair.command(Side::A, Command::Connect);
    // 999 ms after the flight, which left at 20 ms (section 6.2.2).
    pair.run_for(ms(1_030));
    let probes: Vec<_> = pair.from(Side::B).into_iter().filter(|logged| logged.at_ms() == 1_019).collect();
    assert_eq!(probes.len(), 2);
    for probe in probes {
        assert_eq!(probe.levels(), [Level::Initial, Level::Handshake]);
        for packet in probe.datagram.packets() {
            let has_messages =
                packet.frames.iter().any(|frame| matches!(frame, Frame::Crypto { position: 0, .. }));
            assert!(has_messages, "{packet:?}");
        }
    }
}

/// Section 10.1: an end that hears nothing gives up after the idle timeout.
#[test]
fn a_handshake_that_nobody_answers_ends() {
    let mut drill = Drill::opening(&Config::default());
    drill.at(29_999);
    assert!(drill.events.is_empty());
    drill.at(60_000);
    assert_eq!(drill.events, [Event::Closed(crate::endpoint::CloseReason::Lost)]);
}

/// RFC 9001 section 5.7: packets that overtake the `ServerHello` wait for their keys.
#[test]
fn packets_wait_for_their_keys() {
    let mut drill = Drill::opening(&Config::default());
    drill.at(50);
    let mut packet = drill.peers_packet(Level::Handshake, vec![crypto(0, 2_400)]);
    packet.parameters = Some(Box::new(drill.peers_parameters()));
    drill.deliver(packet, crate::flow::Ecn::NotEct);
    let early = drill.peers_packet(Level::OneRtt, vec![Frame::HandshakeDone]);
    drill.deliver(early, crate::flow::Ecn::NotEct);
    assert!(drill.events.is_empty());
    drill.packet(Level::Initial, vec![crypto(0, 90)]);
    assert_eq!(drill.events, [Event::Connected]);
    assert!(drill.end.handshake.is_confirmed, "and the one behind them");
    for _ in 0..100 {
        drill.packet(Level::Handshake, vec![Frame::Ping]);
    }
    assert!(drill.end.waiting.is_empty());
}

/// Section 7.3: IDs in the transport parameters are those of the packets.
#[test]
fn transport_parameters_name_the_ids_of_the_handshake() {
    for wrong in 0..2 {
        let mut drill = Drill::opening(&Config::default());
        let mut parameters = drill.peers_parameters();
        match wrong {
            0 => parameters.initial_source = None,
            _ => parameters.original_destination = Some(drill.peer_id),
        }
        drill.packet(Level::Initial, vec![crypto(0, 90)]);
        let mut packet = drill.peers_packet(Level::Handshake, vec![crypto(0, 2_400)]);
        packet.parameters = Some(Box::new(parameters));
        drill.deliver(packet, crate::flow::Ecn::NotEct);
        assert_eq!(drill.violation(), Some(crate::quic::code::TRANSPORT_PARAMETER_ERROR));
    }
}

/// Any one datagram of a handshake may be lost.
#[test]
fn a_handshake_survives_the_loss_of_any_datagram() {
    survives_the_loss_of_any_datagram(&Config::default());
}

/// Neither one lost datagram, whichever it is, nor a Retry packet beside it keeps data from arriving.
pub(super) fn survives_the_loss_of_any_datagram(config: &Config) {
    for (lost, retry) in (0..14).flat_map(|lost| [(lost, false), (lost, true)]) {
        let mut pair = Pair::new(&Config { retry: Some(retry), ..config.clone() });
        let mut count = 0;
        pair.drop_if = Box::new(move |_, _, _| {
            count += 1;
            count - 1 == lost
        });
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 5_000);
        pair.run_until(Time::from_secs(4), |pair| pair.heard(Side::B, &Event::Connected));
        pair.write(Side::B, 5_000);
        pair.run_for(ms(4_000));
        assert_eq!([pair.received_bytes(Side::A), pair.received_bytes(Side::B)], [5_000; 2], "{lost}");
        assert!(pair.ends.iter().all(|end| end.handshake.is_confirmed), "{lost}");
    }
}

/// Losses of 30 % each way delay handshakes, and prevent none. Packets of the handshake that the client
/// cannot read yet fill the server's window, and the `ServerHello` with which it could read them leaves all
/// the same.
#[test]
fn handshakes_survive_heavy_losses() {
    let config = Config { idle_timeout: Some(crate::time::Duration::from_secs(4_000)), ..Config::default() };
    for seed in 0..200 {
        let mut pair = Pair::seeded([&config, &config], seed);
        *pair.wires = [crate::quic::testing::Wire { loss: 0.3, ..Default::default() }; 2];
        pair.command(Side::A, Command::Connect);
        pair.run_for(crate::time::Duration::from_secs(2_000));
        assert!(pair.ends.iter().all(|end| end.handshake.is_confirmed), "seed {seed}");
    }
}
