//! RFC 6525, rule by rule, between two associations; and that what was sent before a reset arrives before it.

use crate::endpoint::{Command, Event, Input, Message, StreamId};
use crate::flow::{Ecn, PathId, Payload, Side};
use crate::sctp::testing::{Pair, drop_first, ms};
use crate::sctp::{Config, Profile, testing};
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::Chunk;
use crate::wire::sctp::reconfig::{Reconfig, Reconfiguration, outcome};
use crate::wire::{Body, Packet};

fn open(config: &Config, paths: usize) -> Pair {
    let mut pair = Pair::new(config, paths);
    pair.ends.iter_mut().for_each(crate::sctp::Association::offer_extensions);
    pair.connect();
    pair
}

fn rfc() -> Config {
    testing::config(Profile::Rfc9260)
}

/// Hands over a message whose offset is this number; false where it is refused.
fn send(pair: &mut Pair, side: Side, stream: u16, number: u64, unordered: bool) -> bool {
    let payload = Payload { offset: number, length: 100 };
    let message = Message { stream: stream.into(), unordered, ..Message::new(payload) };
    pair.command(side, Command::Send(message));
    !pair.heard(side, &Event::Refused(payload))
}

fn reset(pair: &mut Pair, side: Side, streams: &[u16]) {
    let now = pair.now;
    pair.ends[side.index()].reset_streams(now, streams).expect("it can be asked for");
    // What the end wants to send leaves with the next input.
    pair.input(side, Input::Timeout);
}

/// What an end has told its application about streams, in order: messages by their numbers, and resets.
fn story(pair: &Pair, side: Side) -> Vec<String> {
    let told = |(_, event): &(_, Event)| match event {
        Event::Received(message) => Some(format!("{}:{}", message.stream, message.payload.offset)),
        Event::StreamReset(stream) => Some(format!("{stream} done")),
        Event::StreamResetByPeer(Some(stream)) => Some(format!("{stream} anew")),
        Event::StreamResetByPeer(None) => Some("all anew".into()),
        Event::StreamResetRefused(stream) => Some(format!("{stream} refused")),
        _ => None,
    };
    pair.events[side.index()].iter().filter_map(told).collect()
}

/// The parameters that an end has sent in RE-CONFIG chunks.
fn sent(pair: &Pair, side: Side) -> Vec<Reconfiguration> {
    let chunks = pair.log.iter().filter(|packet| packet.from == side).flat_map(|packet| &packet.chunks);
    let parameters = |chunk: &Chunk| match chunk {
        Chunk::Reconfig(reconfig) => {
            std::iter::once(reconfig.first.clone()).chain(reconfig.second.clone()).collect()
        }
        _ => Vec::new(),
    };
    chunks.flat_map(parameters).collect()
}

fn results(pair: &Pair, side: Side) -> Vec<u32> {
    let result = |parameter| match parameter {
        Reconfiguration::Response { result, .. } => Some(result),
        _ => None,
    };
    sent(pair, side).into_iter().filter_map(result).collect()
}

/// Gives an end a RE-CONFIG chunk as if its peer had sent it.
fn hand_over(pair: &mut Pair, to: Side, first: Reconfiguration) {
    let chunk = Chunk::Reconfig(Box::new(Reconfig { first, second: None }));
    let tag = pair.ends[to.index()].verification_tag();
    let sctp = SctpPacket {
        source_port: 5_000,
        destination_port: 5_001,
        verification_tag: tag,
        first: chunk,
        rest: Vec::new(),
    };
    let size = 20 + sctp.wire_size();
    let packet = Packet { path: PathId(0), ecn: Ecn::NotEct, size, body: Body::Sctp(sctp) };
    pair.input(to, Input::Packet(Box::new(packet)));
}

fn ssns(pair: &Pair, from: Side, stream: u16) -> Vec<u16> {
    let chunks = pair.log.iter().filter(|packet| packet.from == from).flat_map(|packet| &packet.chunks);
    let ssn = |chunk: &Chunk| match chunk {
        Chunk::Data(data) if data.stream == stream => Some(data.ssn),
        _ => None,
    };
    chunks.filter_map(ssn).collect()
}

#[test]
fn a_stream_begins_anew_once_its_messages_are_acknowledged() {
    let mut pair = open(&rfc(), 1);
    for number in 0..3 {
        assert!(send(&mut pair, Side::A, 3, number, false));
        send(&mut pair, Side::A, 4, 10 + number, false);
    }
    reset(&mut pair, Side::A, &[3]);
    assert!(sent(&pair, Side::A).is_empty(), "data is on its way");
    assert!(!send(&mut pair, Side::A, 3, 3, false), "section 5.1.2 A1");
    assert!(send(&mut pair, Side::A, 4, 13, false), "other streams go on");
    pair.run_for(ms(1_000));
    assert!(pair.heard(Side::A, &Event::Writable));
    assert!(send(&mut pair, Side::A, 3, 4, false));
    pair.run_for(ms(1_000));
    assert_eq!(ssns(&pair, Side::A, 3), [0, 1, 2, 0]);
    assert_eq!(ssns(&pair, Side::A, 4), [0, 1, 2, 3]);
    let story: Vec<String> = story(&pair, Side::B).into_iter().filter(|it| it.starts_with('3')).collect();
    assert_eq!(story, ["3:0", "3:1", "3:2", "3 anew", "3:4"]);
    assert!(pair.heard(Side::A, &Event::StreamReset(StreamId(3))));
    assert_eq!(results(&pair, Side::B), [outcome::PERFORMED]);
}

/// Sections 5.1.1 and 5.2.1: the same request again, which has the same answer.
#[test]
fn lost_requests_and_answers_are_made_up_for() {
    for lost in 1..=2 {
        let mut pair = open(&rfc(), 1);
        assert!(send(&mut pair, Side::A, 1, 0, false));
        pair.run_for(ms(1_000));
        pair.drop_if = drop_first("re_config", lost);
        reset(&mut pair, Side::A, &[1, 2]);
        pair.run_for(ms(500));
        // The first answer is in the second chunk.
        if lost == 2 {
            pair.run_for(ms(1_000));
        }
        pair.run_for(ms(3_000));
        let requests: Vec<_> = sent(&pair, Side::A)
            .into_iter()
            .filter(|it| matches!(it, Reconfiguration::ResetOutgoing { .. }))
            .collect();
        assert_eq!(requests.len(), 1 + lost, "{requests:?}");
        assert!(requests.iter().all(|request| *request == requests[0]));
        assert_eq!(story(&pair, Side::A), ["1 done", "2 done"]);
        assert_eq!(story(&pair, Side::B), ["1:0", "1 anew", "2 anew"], "once");
        // Timeouts that are followed by an answer do not count as errors.
        assert!(pair.closed_at(Side::A).is_none());
    }
    let mut pair = open(&rfc(), 1);
    pair.drop_if = drop_first("re_config", 1);
    reset(&mut pair, Side::A, &[1]);
    let first = pair.now;
    pair.drop_if = drop_first("re_config", 1);
    pair.run_for(ms(10_000));
    let again = pair.log.iter().filter(|it| it.from == Side::A && it.has("re_config")).nth(1);
    assert!(again.expect("it is sent again").at >= first + ms(1_000), "after an RTO");
}

/// Section 5.1.1: a peer that does not answer is lost.
#[test]
fn unanswered_requests_are_errors() {
    let config = Config { association_max_retrans: Some(crate::units::Limit::At(2)), ..rfc() };
    let mut pair = open(&config, 1);
    pair.drop_if = drop_first("re_config", usize::MAX);
    reset(&mut pair, Side::A, &[1]);
    pair.run_for(ms(20_000));
    let (_, reason) = pair.closed_at(Side::A).expect("it has ended");
    assert_eq!(reason, crate::endpoint::CloseReason::Lost);
    assert_eq!(sent(&pair, Side::A).len(), 3);
}

/// Section 5.2.2 E2 to E5: the peer waits for what was sent before the request.
#[test]
fn a_request_that_overtakes_data_is_put_off() {
    let mut pair = open(&rfc(), 1);
    assert!(send(&mut pair, Side::A, 1, 0, false));
    pair.run_for(ms(1_000));
    // Stream 1 has nothing on its way, but a message of stream 2 is lost.
    pair.drop_if = drop_first("data", 1);
    assert!(send(&mut pair, Side::A, 2, 1, false));
    reset(&mut pair, Side::A, &[1]);
    pair.run_for(ms(100));
    assert_eq!(results(&pair, Side::B), [outcome::IN_PROGRESS]);
    assert!(!story(&pair, Side::B).contains(&"1 anew".into()));
    pair.run_for(ms(3_000));
    assert_eq!(story(&pair, Side::B), ["1:0", "2:1", "1 anew"]);
    assert_eq!(story(&pair, Side::A), ["1 done"]);
    assert_eq!(results(&pair, Side::B).last(), Some(&outcome::PERFORMED));
}

/// Section 5.2.3: the peer's wish is answered by a request of our own.
#[test]
fn a_peer_may_ask_for_the_reset_of_incoming_streams() {
    let mut pair = open(&rfc(), 1);
    assert!(send(&mut pair, Side::B, 5, 0, false));
    let number = pair.ends[0].local.numbers.initial_tsn;
    let ask = |streams: &[u16]| Reconfiguration::ResetIncoming { request: number, streams: streams.into() };
    hand_over(&mut pair, Side::B, ask(&[5]));
    assert_eq!(results(&pair, Side::B), [outcome::IN_PROGRESS], "data is on its way");
    pair.run_for(ms(1_000));
    let answer = sent(&pair, Side::B).into_iter().find_map(|parameter| match parameter {
        Reconfiguration::ResetOutgoing { response, streams, .. } => Some((response, streams)),
        _ => None,
    });
    assert_eq!(answer, Some((number, [5].into())));
    assert_eq!(story(&pair, Side::B), ["5 done"]);
    assert_eq!(story(&pair, Side::A), ["5:0", "5 anew"]);
    // A copy of the wish is not carried out again.
    hand_over(&mut pair, Side::B, ask(&[5]));
    assert_eq!(results(&pair, Side::B).last(), Some(&outcome::PERFORMED));
    assert_eq!(story(&pair, Side::B), ["5 done"]);
}

#[test]
fn all_streams_begin_anew_where_none_is_named() {
    let mut pair = open(&rfc(), 1);
    for stream in [1, 2] {
        assert!(send(&mut pair, Side::A, stream, 0, false));
    }
    pair.run_for(ms(1_000));
    let request = pair.ends[0].local.numbers.initial_tsn;
    let last_tsn = pair.ends[0].sender.outstanding.next_tsn().wrapping_sub(1);
    let all = Reconfiguration::ResetOutgoing { request, response: 0, last_tsn, streams: Box::default() };
    hand_over(&mut pair, Side::B, all);
    assert_eq!(results(&pair, Side::B), [outcome::PERFORMED]);
    assert_eq!(story(&pair, Side::B), ["1:0", "2:0", "all anew"]);
}

#[test]
fn what_is_not_done_is_answered_all_the_same() {
    let mut pair = open(&rfc(), 1);
    let request = pair.ends[0].local.numbers.initial_tsn;
    let cases = [
        (Reconfiguration::ResetTsn { request }, outcome::DENIED),
        (Reconfiguration::AddOutgoing { request: request.wrapping_add(1), streams: 3 }, outcome::DENIED),
        (Reconfiguration::AddIncoming { request: request.wrapping_add(2), streams: 3 }, outcome::DENIED),
        (
            Reconfiguration::ResetIncoming { request: request.wrapping_add(3), streams: [10].into() },
            outcome::WRONG_SSN,
        ),
        (
            Reconfiguration::ResetOutgoing {
                request: request.wrapping_add(4),
                response: 0,
                last_tsn: 0,
                streams: [10].into(),
            },
            outcome::WRONG_SSN,
        ),
        (Reconfiguration::ResetTsn { request: request.wrapping_add(7) }, outcome::BAD_SEQUENCE_NUMBER),
        (Reconfiguration::ResetTsn { request: request.wrapping_sub(1) }, outcome::BAD_SEQUENCE_NUMBER),
        // The last requests are known, their answers are the same.
        (Reconfiguration::ResetTsn { request: request.wrapping_add(4) }, outcome::WRONG_SSN),
        (Reconfiguration::ResetTsn { request: request.wrapping_add(3) }, outcome::WRONG_SSN),
    ];
    for (index, (parameter, expected)) in cases.into_iter().enumerate() {
        hand_over(&mut pair, Side::B, parameter);
        assert_eq!(results(&pair, Side::B)[index], expected, "{index}");
    }
}

#[test]
fn a_refusal_is_told_and_the_stream_goes_on() {
    let mut pair = open(&rfc(), 1);
    assert!(send(&mut pair, Side::A, 1, 0, false));
    pair.run_for(ms(1_000));
    pair.drop_if = drop_first("re_config", 1);
    reset(&mut pair, Side::A, &[1]);
    let request = pair.ends[0].local.numbers.initial_tsn;
    let denied = Reconfiguration::Response { response: request, result: outcome::DENIED, tsns: None };
    hand_over(&mut pair, Side::A, denied);
    assert_eq!(story(&pair, Side::A), ["1 refused"]);
    assert!(send(&mut pair, Side::A, 1, 1, false));
    pair.run_for(ms(1_000));
    assert_eq!(ssns(&pair, Side::A, 1), [0, 1]);
    assert_eq!(story(&pair, Side::B), ["1:0", "1:1"]);
}

/// RFC 8260 section 2.3.2: the numbers of ordered and of unordered messages.
#[test]
fn message_identifiers_begin_anew_too() {
    let mut pair = open(&Config { interleaving: Some(true), ..rfc() }, 1);
    for number in 0..4 {
        assert!(send(&mut pair, Side::A, 1, number, number % 2 == 1));
    }
    pair.run_for(ms(1_000));
    reset(&mut pair, Side::A, &[1]);
    pair.run_for(ms(1_000));
    for number in 4..6 {
        assert!(send(&mut pair, Side::A, 1, number, number % 2 == 1));
    }
    pair.run_for(ms(1_000));
    let mids: Vec<(bool, u32)> = pair
        .log
        .iter()
        .flat_map(|packet| &packet.chunks)
        .filter_map(|chunk| match chunk {
            Chunk::IData(data) => Some((data.unordered, data.mid)),
            _ => None,
        })
        .collect();
    assert_eq!(mids, [(false, 0), (true, 0), (false, 1), (true, 1), (false, 0), (true, 0)]);
    assert_eq!(story(&pair, Side::B), ["1:0", "1:1", "1:2", "1:3", "1 anew", "1:4", "1:5"]);
}

#[test]
fn a_peer_that_does_not_understand_is_not_asked() {
    let mut pair = Pair::new(&rfc(), 1);
    pair.ends[0].offer_extensions();
    pair.connect();
    let now = pair.now;
    let error = pair.ends[0].reset_streams(now, &[1]).expect_err("the other end has not said so");
    assert_eq!(error, "streams: the peer cannot reset streams (RFC 6525)");
    let mut pair = open(&rfc(), 1);
    let error = pair.ends[0].reset_streams(now, &[10]).expect_err("there are ten");
    assert_eq!(error, "streams: there is no stream 10; they are numbered 0 to 9");
}

/// An end sends its request again on another path when the first one is cut.
#[test]
fn a_request_is_sent_again_on_another_path() {
    let mut pair = open(&rfc(), 2);
    pair.set_up(0, false);
    reset(&mut pair, Side::A, &[1]);
    pair.run_for(ms(5_000));
    let paths: Vec<u8> =
        pair.log.iter().filter(|it| it.from == Side::A && it.has("re_config")).map(|it| it.path).collect();
    assert_eq!(paths, [0, 1]);
    assert_eq!(story(&pair, Side::A), ["1 done"]);
}

proptest::proptest! {
    /// Whatever is lost, copied and overtaken: what was sent on a stream before it began anew is delivered
    /// before that, once and in order, and the rest after it.
    #[test]
    fn resets_come_between_the_messages_they_were_asked_between(
        seed in 0..1_000_u64,
        interleaving in proptest::bool::ANY,
        steps in proptest::collection::vec((proptest::bool::ANY, 0..3_u16, 0..5_u8, 0..400_u64), 1..60),
    ) {
        let mut pair = Pair::seeded(&Config { interleaving: Some(interleaving), ..rfc() }, 2, seed);
        pair.ends.iter_mut().for_each(crate::sctp::Association::offer_extensions);
        pair.connect();
        for wire in pair.wires.iter_mut().flatten() {
            (wire.loss, wire.duplication, wire.jitter) = (0.1, 0.1, ms(40));
        }
        let mut expected = [Vec::new(), Vec::new()];
        let mut number = 0;
        for (from_a, stream, what, pause) in steps {
            let side = if from_a { Side::A } else { Side::B };
            if what == 0 {
                // The second of two resets with nothing in between might come while the first is still going
                // on.
                let name = format!("{stream} anew");
                let own: &mut Vec<String> = &mut expected[side.index()];
                let last = own.iter().rfind(|it| it.starts_with(&format!("{stream}")));
                if last.is_some_and(|last| *last != name) {
                    own.push(name);
                    reset(&mut pair, side, &[stream]);
                }
            } else {
                number += 1;
                if send(&mut pair, side, stream, number, false) {
                    expected[side.index()].push(format!("{stream}:{number}"));
                }
            }
            pair.run_for(ms(pause));
        }
        for wire in pair.wires.iter_mut().flatten() {
            (wire.loss, wire.duplication) = (0.0, 0.0);
        }
        pair.run_for(ms(200_000));
        for side in [Side::A, Side::B] {
            let told = story(&pair, side.peer());
            for stream in 0..3_u16 {
                let of_stream = |all: &[String]| -> Vec<String> {
                    let prefix = [format!("{stream}:"), format!("{stream} anew")];
                    all.iter().filter(|it| prefix.iter().any(|p| it.starts_with(p))).cloned().collect()
                };
                proptest::prop_assert_eq!(of_stream(&told), of_stream(&expected[side.index()]));
            }
            let done = story(&pair, side).iter().filter(|it| it.ends_with("done")).count();
            let asked = expected[side.index()].iter().filter(|it| it.ends_with("anew")).count();
            proptest::prop_assert_eq!(done, asked);
        }
    }
}
