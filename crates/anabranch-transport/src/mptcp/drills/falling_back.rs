//! RFC 8684 section 3.7: peers and middleboxes that let plain TCP through only.

use std::cell::RefCell;

use super::*;
use crate::endpoint::{
    CloseReason, Command, Event, HalfClose as _, Input, Message, Output, Site, Transport as _,
};
use crate::flow::{Ecn, IpVersion, PathId, Payload};
use crate::mptcp::testing::{Logged, plain};
use crate::mptcp::{Connection, Rejoin};
use crate::rng::Streams;
use crate::tcp;
use crate::time::{Duration, Time};
use crate::wire;
use crate::wire::mptcp::{Handshake, Join, Options, Reset};

/// Section 3.7: without the option in the answer, the connection is one of TCP, and so it is for an end that
/// is asked without the option.
#[test]
fn a_peer_that_knows_tcp_only_gets_tcp() {
    let tcp = tcp::Config { profile: tcp::Profile::Rfc, ..tcp::Config::default() };
    for (side, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
        let mut pair = Pair::new(&rfc(), wires(1));
        pair.ends[side.index()] = plain(&tcp, side);
        for round in 0..2 {
            pair.start_over();
            pair.command(Side::A, Command::Connect);
            pair.run_for(ms(300));
            pair.write(Side::B, 30_000);
            pair.run_for(ms(300));
            pair.write_and_close(Side::A, 300_000);
            pair.run_to_the_end(30);
            assert_eq!(pair.received_bytes(Side::B), 300_000, "{side:?} {round}");
            assert_eq!(pair.received_bytes(Side::A), 30_000, "{side:?} {round}");
            assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown), "{side:?} {round}");
            assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown), "{side:?} {round}");
        }
        assert_eq!(pair.end(other).stats().fallbacks, 2);
        let has_mss = pair.log.iter().any(|logged| logged.payload.length == 1_448);
        assert!(has_mss, "no room is kept for options");
    }
}

#[test]
fn an_end_that_falls_back_goes_on_not_reading() {
    let tcp = tcp::Config { profile: tcp::Profile::Rfc, ..tcp::Config::default() };
    let mut pair = Pair::new(&rfc(), wires(1));
    pair.ends[0] = plain(&tcp, Side::A);
    pair.command(Side::B, Command::PauseReading);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 10_000);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.received_bytes(Side::B), 0);
    pair.command(Side::B, Command::ResumeReading);
    assert_eq!(pair.received_bytes(Side::B), 10_000);
}

#[test]
fn half_close_falls_back_to_that_of_tcp() {
    let mut pair = Pair::new(&rfc(), wires(2));
    pair.ends[0] = plain(&tcp::Config::default(), Side::A);
    pair.end_mut(Side::B).set_half_close(true);
    pair.command(Side::A, Command::Connect);
    pair.run_for(Duration::from_secs(1));
    pair.write_and_close(Side::A, 1_000);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.heard(Side::B, &Event::PeerFinished));
    assert_eq!((pair.closed(Side::A), pair.closed(Side::B)), (None, None));
    pair.write(Side::B, 20_000);
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.received_bytes(Side::A), 20_000);
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
}

/// A peer whose third segment has no option is handled as one that has only TCP (section 3.1).
#[test]
fn a_third_segment_without_the_option_falls_back() {
    let streams = Streams { seed: 1, replication: 0 };
    let site = Site { side: Side::B, mtus: &[1_500], ip: IpVersion::Ipv4, streams, connection: "flow/x" };
    for has_option in [true, false] {
        let mut end = rfc().build(&site).expect("the settings are possible");
        let capable = |sender_key, receiver_key| Options {
            handshake: Some(Handshake::Capable { sender_key, receiver_key }),
            ..Options::default()
        };
        let (sent, numbers) = (RefCell::new(Vec::new()), RefCell::new(None));
        let give = |end: &mut Connection, flags: Flags, of: [u32; 2], options: Options| {
            let tcp = wire::tcp::Segment {
                source_port: 49_152,
                destination_port: 5_001,
                sequence: of[0],
                acknowledgement: of[1],
                flags,
                window: 60_000,
                mss: Some(1_460),
                ..wire::tcp::Segment::blank()
            };
            let body = Body::Mptcp(wire::mptcp::Segment { tcp, options, option_bytes: 0 });
            let packet = Packet { path: PathId(0), ecn: Ecn::NotEct, size: 60, body };
            end.handle_input(Time::ZERO, Input::Packet(Box::new(packet)));
            loop {
                match end.poll_output(Time::ZERO) {
                    Output::Transmit(packet) => {
                        let own = packet.body.tcp().map(|tcp| tcp.sequence);
                        numbers.borrow_mut().get_or_insert(own.expect("it is a segment"));
                        sent.borrow_mut().push(packet.body);
                    }
                    Output::Timeout(_) => break,
                    Output::Event(_) => {}
                }
            }
        };
        give(&mut end, Flags::SYN, [7, 0], capable(None, None));
        let first = numbers.borrow().expect("SYN-ACK was sent");
        let options = if has_option { capable(Some(1), None) } else { Options::default() };
        give(&mut end, Flags::ACK, [8, first.wrapping_add(1)], options);
        let payload = Payload { offset: 0, length: 100 };
        let message = Message::new(payload);
        end.handle_input(Time::ZERO, Input::Command(Command::Send(message)));
        give(&mut end, Flags::ACK, [8, first.wrapping_add(1)], options);
        let sent = sent.into_inner();
        assert!(matches!(sent[0], Body::Mptcp(_)));
        let last = sent.last().expect("data was sent");
        assert_eq!(matches!(last, Body::Mptcp(_)), has_option);
        assert_eq!(last.tcp().map(|tcp| tcp.payload.length), Some(100));
    }
}

/// What TCP has acknowledged can be read after the end of the connection, and what is read then does not open
/// it again (RFC 9293 section 3.10.4).
#[test]
fn a_late_reader_gets_what_tcp_has_acknowledged() {
    for ends in [Command::Shutdown, Command::Abort] {
        let mut pair = Pair::new(&rfc(), wires(1));
        pair.ends[0] = plain(&tcp::Config::default(), Side::A);
        pair.command(Side::B, Command::PauseReading);
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 700);
        pair.run_for(Duration::from_secs(1));
        pair.command(Side::A, ends);
        pair.run_for(Duration::from_secs(1));
        assert!(pair.closed(Side::B).is_some() && pair.received_bytes(Side::B) == 0, "{ends:?}");
        pair.command(Side::B, Command::ResumeReading);
        assert_eq!(pair.received_bytes(Side::B), 700, "{ends:?}");
        assert_eq!(pair.heard(Side::B, &Event::PeerFinished), ends == Command::Shutdown);
        assert!(pair.end(Side::B).is_over(), "{ends:?}");
    }
}

/// The next connection takes the place of the last one, whose data is handed over before.
#[test]
fn what_was_not_read_comes_before_the_next_connection() {
    for has_tcp in [[true, false], [false, false], [true, true]] {
        let mut pair = Pair::new(&rfc(), wires(1));
        for side in [Side::A, Side::B].into_iter().filter(|side| has_tcp[side.index()]) {
            pair.ends[side.index()] = plain(&tcp::Config::default(), side);
        }
        pair.command(Side::B, Command::PauseReading);
        pair.command(Side::A, Command::Connect);
        pair.write_and_close(Side::A, 700);
        pair.run_for(Duration::from_secs(5));
        assert!(pair.closed(Side::B).is_some() && pair.received_bytes(Side::B) == 0, "{has_tcp:?}");
        pair.command(Side::A, Command::Connect);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.received_bytes(Side::B), 700, "{has_tcp:?}");
        let is_late =
            |event: &&Event| matches!(event, Event::Closed(_) | Event::Connected | Event::Received(_));
        let order: Vec<_> = pair.events[1].iter().map(|(_, event)| event).filter(is_late).collect();
        assert!(matches!(order[2], Event::Received(_)), "{has_tcp:?}: {order:?}");
        assert_eq!((order[0], order[3], order.len()), (&Event::Connected, &Event::Connected, 4));
    }
}

/// Takes the options of MPTCP from what this end sends, but for SYNs.
fn strip_from(pair: &mut Pair, from: Side) {
    pair.meddle = Box::new(move |side, packet| {
        if let Body::Mptcp(segment) = &mut packet.body
            && side == from
            && !segment.tcp.flags.has(Flags::SYN)
        {
            packet.size -= segment.option_bytes;
            packet.body = Body::Tcp(segment.tcp.clone());
        }
    });
}

/// Section 3.7: where options pass on SYNs only, both ends fall back, whichever direction loses them, and go
/// on with what was written before.
#[test]
fn ends_whose_options_are_taken_away_fall_back() {
    for from in [Side::A, Side::B] {
        for first in [Side::A, Side::B] {
            let mut pair = Pair::new(&rfc(), wires(2));
            strip_from(&mut pair, from);
            pair.command(Side::A, Command::Connect);
            pair.run_for(Duration::from_secs(1));
            for side in [first, first.peer()] {
                pair.write(side, 50_000);
                pair.run_for(Duration::from_secs(2));
            }
            assert_eq!(
                [Side::A, Side::B].map(|side| pair.received_bytes(side)),
                [50_000; 2],
                "{from:?} {first:?}"
            );
            assert!([Side::A, Side::B].into_iter().all(|side| pair.end(side).has_fallen_back()));
            pair.command(first, Command::Shutdown);
            pair.run_to_the_end(30);
            assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown), "{from:?} {first:?}");
            assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown), "{from:?} {first:?}");
        }
    }
}

/// Section 3.7: once there are several subflows, one that loses its options is reset, and its data goes over
/// another one.
#[test]
fn a_further_subflow_whose_options_are_taken_away_is_reset() {
    let mut pair = Pair::open(&rfc(), wires(2));
    pair.meddle = Box::new(|side, packet| {
        if let Body::Mptcp(segment) = &mut packet.body
            && side == Side::A
            && packet.path == PathId(1)
            && !segment.tcp.flags.has(Flags::SYN)
        {
            packet.size -= segment.option_bytes;
            packet.body = Body::Tcp(segment.tcp.clone());
        }
    });
    pair.write(Side::A, 200_000);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.received_bytes(Side::B), 200_001);
    let reset = pair.log.iter().find(|it| it.from == Side::B && it.tcp.flags.has(Flags::RST));
    let reset = reset.expect("the subflow is reset");
    assert_eq!(
        (reset.path, reset.options.reset.map(|reset| reset.reason)),
        (1, Some(6)),
        "a middlebox interferes"
    );
    assert!(!pair.end(Side::A).has_fallen_back() && !pair.end(Side::B).has_fallen_back());
}

/// Takes the options of MPTCP from what A sends on the second path, but for SYNs and what `keeps` wants.
fn strip_second(pair: &mut Pair, keeps: fn(&Options) -> bool) {
    pair.meddle = Box::new(move |side, packet| {
        if let Body::Mptcp(segment) = &mut packet.body
            && side == Side::A
            && packet.path == PathId(1)
            && !segment.tcp.flags.has(Flags::SYN)
            && !keeps(&segment.options)
        {
            packet.size -= segment.option_bytes;
            packet.body = Body::Tcp(segment.tcp.clone());
        }
    });
}

fn reset_by_b(pair: &Pair) -> Option<&Logged> {
    pair.log.iter().find(|it| it.from == Side::B && it.tcp.flags.has(Flags::RST))
}

/// Section 3.2: an end that does not show that it has the keys is reset (Linux: `subflow_syn_recv_sock`).
#[test]
fn a_third_segment_of_a_join_without_the_option_is_reset() {
    for (profile, reason) in [(Profile::Rfc8684, 6), (Profile::Linux6, 1)] {
        let mut pair = Pair::new(&config(profile), wires(2));
        strip_second(&mut pair, |_| false);
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 1_000);
        pair.run_for(ms(500));
        pair.write(Side::B, 200_000);
        pair.run_for(Duration::from_secs(2));
        let reset = reset_by_b(&pair).expect("the subflow is reset");
        assert_eq!((reset.path, reset.options.reset.map(|it| it.reason)), (1, Some(reason)), "{profile:?}");
        assert_eq!(pair.bytes_on(Side::B, 1), 0, "{profile:?}");
        assert_eq!((pair.received_bytes(Side::A), pair.received_bytes(Side::B)), (200_000, 1_000));
        assert!(!pair.end(Side::A).has_fallen_back() && !pair.end(Side::B).has_fallen_back());
    }
}

/// Section 3.7: so is a further subflow on which the first data is acknowledged without the option.
#[test]
fn a_further_subflow_that_acknowledges_without_the_option_is_reset() {
    let mut pair = Pair::new(&rfc(), wires(2));
    strip_second(&mut pair, |options| matches!(options.handshake, Some(Handshake::Join(Join::Third { .. }))));
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1_000);
    pair.run_for(Duration::from_secs(1));
    assert!(reset_by_b(&pair).is_none());
    pair.write(Side::B, 400_000);
    pair.run_for(Duration::from_secs(10));
    assert!(pair.bytes_on(Side::B, 1) > 0);
    let reset = reset_by_b(&pair).expect("the subflow is reset");
    assert_eq!((reset.path, reset.options.reset.map(|it| it.reason)), (1, Some(6)));
    assert_eq!(pair.received_bytes(Side::A), 400_000);
    assert!(!pair.end(Side::A).has_fallen_back() && !pair.end(Side::B).has_fallen_back());
}

/// Section 3.7: once data was acknowledged with the option, data without a mapping shows that its subflow is
/// broken. Linux falls back as long as there was never a further subflow (`allow_infinite_fallback`).
#[test]
fn options_that_are_taken_away_later_break_the_subflow() {
    for (profile, paths, breaks) in
        [(Profile::Rfc8684, 1, true), (Profile::Linux6, 1, false), (Profile::Linux6, 2, true)]
    {
        let config = Config { rejoin: Some(Rejoin::Never), ..config(profile) };
        let mut pair = Pair::open(&config, wires(paths));
        let now = pair.now;
        if paths == 2 {
            pair.end_mut(Side::A).subflows[1].abort(now, Reset::UNSPECIFIED);
        }
        pair.write(Side::A, 10_000);
        pair.write(Side::B, 10_000);
        pair.run_for(ms(500));
        pair.log.clear();
        strip_from(&mut pair, Side::A);
        pair.write(Side::A, 10_000);
        pair.run_for(ms(200));
        let reason = reset_by_b(&pair).and_then(|it| it.options.reset).map(|it| it.reason);
        assert_eq!(reason, breaks.then_some(6), "{profile:?} {paths}");
        assert_eq!(pair.end(Side::B).has_fallen_back(), !breaks, "{profile:?} {paths}");
        let arrived = if breaks { 10_001 } else { 20_001 };
        assert_eq!(pair.received_bytes(Side::B), arrived, "{profile:?} {paths}");
    }
}
