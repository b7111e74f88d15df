//! RFC 9001 sections 4.6 and 4.9.3, RFC 9000 sections 7.4.1, 12.4 and 17.2.5.3: early data (0-RTT).

use crate::endpoint::{Command, Event, Input};
use crate::flow::{Ecn, PathId, Payload, Side};
use crate::quic::config::EarlyData;
use crate::quic::testing::{Logged, Pair, ms, send_on};
use crate::quic::{Config, code};
use crate::time::Time;
use crate::units::Bytes;
use crate::wire::quic::{Content, Datagram, Frame, Level};
use crate::wire::{Body, Packet};

const ACCEPTED: EarlyData = EarlyData::Accepted;
const REJECTED: EarlyData = EarlyData::Rejected;

fn with(early_data: EarlyData) -> Config {
    Config { early_data: Some(early_data), ..Config::default() }
}

/// A client that asks for something in its first flight.
fn asking(configs: [&Config; 2]) -> Pair {
    let mut pair = Pair::seeded(configs, 1);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 1_000);
    pair
}

fn early(logged: &Logged) -> bool {
    logged.levels().contains(&Level::ZeroRtt)
}

/// When an end first heard of data.
fn received_at(pair: &Pair, side: Side) -> Option<Time> {
    let mut events = pair.events[side.index()].iter();
    events.find(|(_, event)| matches!(event, Event::Received(_))).map(|(at, _)| *at)
}

fn deliver(pair: &mut Pair, datagram: Datagram) {
    let size = 28 + datagram.payload_bytes();
    let body = Body::Quic(Box::new(datagram));
    pair.input(Side::B, Input::Packet(Box::new(Packet { path: PathId(0), ecn: Ecn::NotEct, size, body })));
}

/// A request goes out with the first flight and is answered after one round trip, 40 ms, instead of two. The
/// server shows no certificate.
#[test]
fn an_answer_comes_after_one_round_trip() {
    for (early_data, asked, answered) in [(None, 60, 80), (Some(ACCEPTED), 20, 40), (Some(REJECTED), 60, 80)]
    {
        let config = Config { early_data, ..Config::default() };
        let mut pair = asking([&config, &config]);
        pair.run_until(Time::from_secs(1), |pair| received_at(pair, Side::B).is_some());
        pair.write(Side::B, 2_000);
        pair.run_for(ms(1_000));
        let times = [Side::B, Side::A].map(|side| received_at(&pair, side));
        assert_eq!(times, [asked, answered].map(|at| Some(Time::from_millis(at))), "{early_data:?}");
        assert_eq!([pair.received_bytes(Side::A), pair.received_bytes(Side::B)], [2_000, 1_000]);
        let stats = pair.ends[0].stats();
        let sent = if early_data.is_some() { 1_000 } else { 0 };
        let rejected = if early_data == Some(REJECTED) { 1_000 } else { 0 };
        assert_eq!((stats.early_bytes_sent, stats.early_bytes_rejected), (sent, rejected));
        assert_eq!((stats.bytes_sent, stats.bytes_retransmitted), (1_000, 0));
        let shown: u32 = pair
            .from(Side::B)
            .iter()
            .flat_map(|logged| logged.datagram.packets())
            .filter(|packet| packet.level == Level::Handshake)
            .flat_map(|packet| &packet.frames)
            .filter_map(|frame| if let Frame::Crypto { data, .. } = frame { Some(data.length) } else { None })
            .sum();
        assert_eq!(shown, if early_data == Some(ACCEPTED) { 400 } else { 2_400 });
        assert!(pair.ends.iter().all(|end| end.handshake.took == Some(ms(40))));
    }
}

/// Sections 12.3 and 17.2.3 of RFC 9000: 0-RTT and 1-RTT packets have numbers in common, and none is used
/// twice.
#[test]
fn numbers_are_used_once() {
    for early_data in [ACCEPTED, REJECTED] {
        let config = with(early_data);
        let mut pair = asking([&config, &config]);
        pair.run_for(ms(1_000));
        let mut numbers: Vec<u64> = pair
            .from(Side::A)
            .iter()
            .flat_map(|logged| logged.datagram.packets())
            .filter(|packet| matches!(packet.level, Level::ZeroRtt | Level::OneRtt))
            .map(|packet| packet.number)
            .collect();
        let count = numbers.len();
        numbers.dedup();
        assert!(numbers.len() == count && numbers.is_sorted() && numbers[0] == 0, "{numbers:?}");
        // Section 4.9.3: no 0-RTT packet leaves once there are other keys.
        let last = pair.from(Side::A).into_iter().rposition(early).expect("some were sent");
        assert!(pair.from(Side::A)[last].at < Time::from_millis(40));
    }
}

/// RFC 9000 section 7.4.1: a server whose limits are lower than the client remembers rejects the data, and
/// the client keeps the limits that hold: none is broken, and streams beyond them wait.
#[test]
fn a_server_with_lower_limits_rejects() {
    let client = Config { max_streams: Some(10), ..with(ACCEPTED) };
    let servers = [
        Config { max_data: Some(Bytes(1_500)), ..client.clone() },
        Config { max_stream_data: Some(Bytes(1_500)), ..client.clone() },
        Config { max_streams: Some(2), ..client.clone() },
    ];
    for server in servers {
        let mut pair = Pair::seeded([&client, &server], 1);
        pair.command(Side::A, Command::Connect);
        for id in [4, 8, 12] {
            let payload = Payload { offset: 0, length: 3_000 };
            pair.command(Side::A, send_on(id, payload, true, false));
        }
        for id in [4, 8, 12] {
            pair.run_for(ms(1_000));
            pair.command(Side::B, send_on(id, Payload { offset: 0, length: 10 }, true, false));
        }
        pair.run_for(ms(1_000));
        assert!(pair.ends[0].stats().early_bytes_rejected > 0);
        let got: u64 = pair.events[1]
            .iter()
            .filter_map(|(_, event)| if let Event::Received(part) = event { Some(part) } else { None })
            .map(|part| u64::from(part.payload.length))
            .sum();
        assert_eq!(got, 9_000, "{server:?}");
        assert!(pair.ends.iter().all(|end| end.violation().is_none()));
    }
    // Higher ones are not known before the handshake is complete, and hold from then on.
    let server =
        Config { max_stream_data: Some(Bytes(1 << 20)), max_data: Some(Bytes(1 << 20)), ..with(ACCEPTED) };
    let client =
        Config { max_stream_data: Some(Bytes(2_000)), max_data: Some(Bytes(2_000)), ..with(ACCEPTED) };
    let mut pair = Pair::seeded([&client, &server], 1);
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, 100_000);
    pair.run_for(ms(39));
    assert_eq!(pair.ends[0].stats().early_bytes_sent, 2_000);
    pair.run_for(ms(1_000));
    assert_eq!(pair.received_bytes(Side::B), 100_000);
    assert_eq!(pair.ends[0].stats().early_bytes_rejected, 0);
}

/// Section 17.2.5.3: after a Retry packet the client sends its early data again.
#[test]
fn early_data_follows_a_retry() {
    let config = Config { retry: Some(true), ..with(ACCEPTED) };
    let mut pair = asking([&config, &config]);
    pair.run_for(ms(1_000));
    assert_eq!(received_at(&pair, Side::B), Some(Time::from_millis(60)), "a round trip later");
    assert_eq!((pair.received_bytes(Side::B), pair.ends[0].stats().retries), (1_000, 1));
}

/// Any one datagram may be lost.
#[test]
fn early_data_survives_the_loss_of_any_datagram() {
    for early_data in [ACCEPTED, REJECTED] {
        super::handshake::survives_the_loss_of_any_datagram(&with(early_data));
    }
}

/// RFC 9000 section 8.1, RFC 9002 section 6.2.2.1: the server answers early data with at most three times
/// what came, and a client whose early data alone is outstanding asks for the rest.
#[test]
fn answers_to_early_data_are_limited() {
    let config = with(ACCEPTED);
    let mut pair = asking([&config, &config]);
    // Of the client only its first flight arrives.
    let came: u32 = pair.from(Side::A).iter().map(|logged| logged.bytes).sum();
    pair.drop_if = Box::new(|_, from, _| from == Side::A);
    pair.run_for(ms(25));
    pair.write(Side::B, 100_000);
    pair.run_for(ms(20_000));
    let went: u32 = pair.from(Side::B).iter().map(|logged| logged.bytes).sum();
    assert!(went > 2_000 && went <= 3 * came, "{went}");
    pair.drop_if = Box::new(|_, _, _| false);
    pair.run_for(ms(30_000));
    assert_eq!(pair.received_bytes(Side::A), 100_000);
}

/// RFC 9001 section 4.9.3: late packets are read for three probe timeouts after the handshake.
#[test]
fn late_early_data_is_read_for_three_timeouts() {
    for is_late in [false, true] {
        let config = with(ACCEPTED);
        let mut pair = Pair::new(&config);
        pair.drop_if = Box::new(|now, from, datagram| {
            let is_first = datagram.packets()[0].level == Level::Initial;
            from == Side::A && now == Time::ZERO && !is_first
        });
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, 1_000);
        let late = pair.from(Side::A).into_iter().find(|l| l.levels() == [Level::ZeroRtt]);
        let late = late.expect("the request has a datagram of its own").datagram.clone();
        // Nothing else of the client's arrives once the handshake is complete at the server.
        pair.run_until(Time::from_secs(1), |pair| pair.ends[1].handshake.is_complete);
        assert_eq!(pair.received_bytes(Side::B), 0);
        let three = pair.ends[1].probe_timeout(0) * 3;
        pair.drop_if = Box::new(|_, _, _| true);
        pair.run_for(if is_late { three + ms(1) } else { three - ms(1) });
        deliver(&mut pair, late);
        assert_eq!(pair.received_bytes(Side::B), if is_late { 0 } else { 1_000 });
    }
}

/// RFC 9000 section 12.4, table 3: frames that no 0-RTT packet may have.
#[test]
fn frames_of_early_data_are_those_of_the_table() {
    for (frame, is_allowed) in [
        (Frame::Ping, true),
        (Frame::MaxData { limit: 1 << 30 }, true),
        (Frame::PathChallenge { data: [1; 8] }, true),
        (Frame::PathResponse { data: [1; 8] }, false),
        (Frame::HandshakeDone, false),
        (Frame::RetireConnectionId { path: None, sequence: 0 }, false),
        (Frame::Crypto { position: 0, data: Payload { offset: 0, length: 10 } }, false),
    ] {
        let config = with(ACCEPTED);
        let mut pair = asking([&config, &config]);
        let mut datagram = pair.from(Side::A)[0].datagram.clone();
        let Content::Packets(packets) = &mut datagram.content else { panic!("{datagram:?}") };
        let packet =
            packets.iter_mut().find(|packet| packet.level == Level::ZeroRtt).expect("it is coalesced");
        packet.frames.push(frame.clone());
        deliver(&mut pair, datagram);
        let found = pair.ends[1].violation().map(|(code, _)| code);
        assert_eq!(found, (!is_allowed).then_some(code::PROTOCOL_VIOLATION), "{frame:?}");
    }
}
