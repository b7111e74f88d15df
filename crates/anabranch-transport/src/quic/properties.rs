//! Properties of two endpoints over any network: timers make progress, counters match a recount and limits
//! are kept (all checked after every input by the harness), every byte arrives once and in order, and every
//! transfer ends.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Config;
use super::config::{AckFrequency, AckPath, EarlyData, Handshake, Profile};
use super::testing::{Pair, ms};
use crate::cc;
use crate::cc::coupled;
use crate::endpoint::{CloseReason, Command, Event};
use crate::flow::Side;
use crate::path::scheduler;
use crate::testing::{Talk, talk, total, wire};
use crate::time::Duration;
use crate::units::Bytes;

fn buffer() -> impl Strategy<Value = Option<Bytes>> {
    prop_oneof![1_200..6_000_u64, 6_000..100_000_u64, Just(4 << 20)].prop_map(|size| Some(Bytes(size)))
}

fn ack_frequency() -> impl Strategy<Value = Option<AckFrequency>> {
    let delay = proptest::option::of((0..200_u64).prop_map(ms));
    let reordering = proptest::option::of(0..20_u32);
    let asked =
        (0..100_u32, delay, reordering).prop_map(|(threshold, max_ack_delay, reordering_threshold)| {
            AckFrequency { threshold, max_ack_delay, reordering_threshold }
        });
    proptest::option::of(asked)
}

fn early_data() -> impl Strategy<Value = Option<EarlyData>> {
    prop_oneof![Just(None), Just(Some(EarlyData::Accepted)), Just(Some(EarlyData::Rejected))]
}

fn any_config() -> impl Strategy<Value = Config> {
    let control = (0..cc::Config::tcp().len()).prop_map(|index| cc::Config::tcp().swap_remove(index));
    let profile = prop_oneof![Just(Profile::Rfc9000), Just(Profile::Quinn)];
    let acks = (1..12_u32, prop_oneof![Just(0), 0..60_u64]);
    (
        (profile, control, buffer(), buffer(), buffer()),
        (acks, 3..30_u32, 1.0..3.0_f64, 2..20_u32),
        (
            any::<bool>(),
            any::<bool>(),
            4..=20_u8,
            1..20_000_u64,
            1..10_u32,
            (1..200_u32, early_data(), ack_frequency()),
        ),
    )
        .prop_map(|((profile, control, send, data, stream), (acks, packets, time, window), last)| {
            let (pacing, ecn, id_bytes, certificate, streams, (key_update, early_data, ack_frequency)) = last;
            let is_prague = matches!(control, cc::Config::Prague(_));
            Config {
                profile,
                cc: Some(control),
                send_buffer: send,
                max_data: data,
                max_stream_data: stream,
                ack_every: Some(acks.0),
                max_ack_delay: Some(ms(acks.1)),
                packet_threshold: Some(packets),
                time_threshold: Some(time),
                initial_window: Some(window),
                pacing: Some(pacing),
                ecn: Some(ecn || is_prague),
                connection_id_bytes: Some(id_bytes),
                handshake: Some(Handshake { certificate: Bytes(certificate), ..Handshake::default() }),
                max_streams: Some(streams),
                key_update: Some(key_update),
                early_data,
                ack_frequency,
                // No end gives up: losses of 30 % go on as long as the transfer does.
                idle_timeout: Some(Duration::from_secs(4_000)),
                ..Config::default()
            }
        })
}

fn open(pair: &mut Pair) -> Result<(), TestCaseError> {
    pair.events = [Vec::new(), Vec::new()];
    pair.to_write = Default::default();
    pair.command(Side::A, Command::Connect);
    let deadline = pair.now + Duration::from_secs(3_000);
    pair.run_until(deadline, |pair| {
        pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected)
    });
    prop_assert!(pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected));
    Ok(())
}

/// One connection: both ends say what they have to say, then A closes. Fails unless both have heard of the
/// end.
fn converse(pair: &mut Pair, talks: &[Talk; 2]) -> Result<(), TestCaseError> {
    open(pair)?;
    let deadline = pair.now + Duration::from_secs(5_000);
    let count = talks.iter().map(|talk| talk.writes.len().max(talk.pauses.len())).max().unwrap_or(0);
    for turn in 0..count {
        for (talk, side) in talks.iter().zip([Side::A, Side::B]) {
            if let Some(&(length, pause)) = talk.writes.get(turn) {
                pair.write(side, length);
                pair.run_for(ms(pause));
            }
            if let Some(&pause) = talk.pauses.get(turn) {
                let step = if turn % 2 == 0 { Command::PauseReading } else { Command::ResumeReading };
                pair.command(side, step);
                pair.run_for(ms(pause));
            }
        }
    }
    for side in [Side::A, Side::B] {
        pair.command(side, Command::ResumeReading);
    }
    let wanted = [total(&talks[1]), total(&talks[0])];
    let all = |pair: &Pair| [Side::A, Side::B].map(|side| pair.received_bytes(side)) == wanted;
    pair.run_until(deadline, |pair| pair.to_write.iter().all(|left| left.length == 0) && all(pair));
    prop_assert_eq!([Side::A, Side::B].map(|side| pair.received_bytes(side)), wanted);
    pair.command(Side::A, Command::Shutdown);
    pair.run_until(deadline, |pair| pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
    prop_assert_eq!([Side::A, Side::B].map(|side| pair.received_bytes(side)), wanted);
    for (side, end) in [Side::A, Side::B].into_iter().zip(&pair.ends) {
        prop_assert_eq!(end.violation(), None);
        // An end whose peer's last packets are all lost hears no more of it (RFC 9000 section 10.2), or that
        // the peer has forgotten the connection (section 10.3).
        let is_quiet = pair.wires.iter().all(|wire| wire.loss == 0.0);
        let reason = pair.closed(side);
        let is_forgotten = reason == Some(CloseReason::Aborted) && end.stats().resets_received > 0;
        let is_lost = !is_quiet && (is_forgotten || reason == Some(CloseReason::Lost));
        prop_assert!(is_lost || reason == Some(CloseReason::Shutdown), "{:?}", reason);
    }
    Ok(())
}

/// What is done with further streams.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Open { bidirectional: bool },
    Write { which: usize, length: u32, fin: bool },
    Reset(usize),
    Stop(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => any::<bool>().prop_map(|bidirectional| Deed::Open { bidirectional }),
        8 => (0..8_usize, 0..40_000_u32, any::<bool>())
            .prop_map(|(which, length, fin)| Deed::Write { which, length, fin }),
        1 => (0..8_usize).prop_map(Deed::Reset),
        1 => (0..8_usize).prop_map(Deed::Stop),
    ]
}

/// The same with several paths.
fn multipath_config() -> impl Strategy<Value = Config> {
    let schedulers = [
        scheduler::Config::Blest,
        scheduler::Config::Ecf,
        scheduler::Config::Linux,
        scheduler::Config::MinRtt,
        scheduler::Config::Redundant,
        scheduler::Config::Priority,
        scheduler::Config::RoundRobin,
        scheduler::Config::Weighted(vec![3]),
    ];
    let ack_paths = [AckPath::Fastest, AckPath::First, AckPath::Same];
    let couplings = coupled::Config::all();
    (
        any_config(),
        proptest::sample::select(schedulers.to_vec()),
        proptest::sample::select(couplings),
        proptest::sample::select(ack_paths.to_vec()),
        [any::<bool>(); 2],
        proptest::sample::select(vec![vec![], vec![0], vec![1], vec![0, 1]]),
        proptest::option::of(3_000..20_000_u64),
    )
        .prop_map(|(config, scheduler, coupling, ack_path, [reinjection, pins], backup, patience)| {
            Config {
                multipath: Some(true),
                pin_streams: Some(pins && scheduler != scheduler::Config::Redundant),
                path_idle_timeout: patience.map(Duration::from_millis),
                scheduler: Some(scheduler),
                coupling: Some(coupling),
                ack_path: Some(ack_path),
                reinjection: Some(reinjection),
                backup,
                ..config
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    /// Two paths unlike each other, of which one may fall silent and come back.
    #[test]
    fn every_byte_arrives_once_over_two_paths(
        configs in [multipath_config(), multipath_config()],
        wires in [wire(), wire()],
        other in wire(),
        outage in proptest::option::of((0..2_u8, 0..400_u64, 0..20_000_u64)),
        talks in [talk(), talk()],
        seed in any::<u64>(),
    ) {
        let [first, mut second] = configs;
        second.handshake = first.handshake;
        let gives_up_paths = first.path_idle_timeout.or(second.path_idle_timeout).is_some();
        let mut pair = Pair::seeded([&first, &second], seed);
        *pair.wires = wires;
        pair.wires.others.push((crate::flow::PathId(1), other));
        if let Some((path, after, lasts)) = outage {
            open(&mut pair)?;
            pair.write(Side::A, 20_000);
            pair.run_for(ms(after));
            pair.wires.dead.push(crate::flow::PathId(path));
            pair.run_for(ms(lasts));
            pair.wires.dead.clear();
            let deadline = pair.now + Duration::from_secs(5_000);
            pair.run_until(deadline, |pair| pair.received_bytes(Side::B) == 20_000);
            // Whoever gives up silent paths may be left with none that works.
            let has_none = [Side::A, Side::B].iter().any(|side| pair.closed(*side) == Some(CloseReason::Lost));
            if gives_up_paths && has_none {
                return Ok(());
            }
            prop_assert_eq!(pair.received_bytes(Side::B), 20_000);
            pair.command(Side::A, Command::Shutdown);
            pair.run_until(deadline, |pair| pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
        }
        converse(&mut pair, &talks)?;
    }

    #[test]
    fn every_byte_arrives_once_and_in_order_and_every_transfer_ends(
        configs in [any_config(), any_config()],
        wires in [wire(), wire()],
        talks in [talk(), talk()],
        again in [talk(), talk()],
        seed in any::<u64>(),
    ) {
        let [first, mut second] = configs;
        // Both ends know the sizes of all messages.
        second.handshake = first.handshake;
        let mut pair = Pair::seeded([&first, &second], seed);
        *pair.wires = wires;
        converse(&mut pair, &talks)?;
        // A further connection of the same endpoints begins while the last one may still be closing.
        converse(&mut pair, &again)?;
    }

    #[test]
    fn equal_inputs_give_equal_outputs(
        config in any_config(),
        wires in [wire(), wire()],
        talks in [talk(), talk()],
        seed in any::<u64>(),
    ) {
        let log = || {
            let mut pair = Pair::seeded([&config, &config], seed);
            *pair.wires = wires;
            converse(&mut pair, &talks).map(|()| format!("{:?}", pair.log))
        };
        prop_assert_eq!(log()?, log()?);
    }

    /// Streams of all kinds, some of them given up: what is not arrives, each byte once and in order.
    #[test]
    fn streams_are_independent(
        config in any_config(),
        wires in [wire(), wire()],
        deeds in proptest::collection::vec((any::<bool>(), deed(), 0..60_u64), 1..40),
        seed in any::<u64>(),
    ) {
        let mut pair = Pair::seeded([&config, &config], seed);
        *pair.wires = wires;
        open(&mut pair)?;
        // Of each stream: bytes that were written, and whether either end gave it up.
        let mut streams: [Vec<(u64, u64, bool)>; 2] = [Vec::new(), Vec::new()];
        for (from_a, deed, pause) in deeds {
            let side = if from_a { Side::A } else { Side::B };
            let own = &mut streams[side.index()];
            match deed {
                Deed::Open { bidirectional } => {
                    let id = pair.act(side, |end| end.open_stream(bidirectional));
                    own.extend(id.map(|id| (id, 0, false)));
                }
                Deed::Write { which, length, fin } => {
                    if let Some((id, written, _)) = own.get_mut(which)
                        && pair.act(side, |end| end.write_stream(*id, length, fin))
                    {
                        *written += u64::from(length);
                    }
                }
                Deed::Reset(which) => {
                    if let Some((id, _, gone)) = own.get_mut(which) {
                        *gone |= pair.act(side, |end| end.reset_stream(*id, 7));
                    }
                }
                Deed::Stop(which) => {
                    if let Some((id, _, gone)) = streams[side.peer().index()].get_mut(which) {
                        *gone |= pair.act(side, |end| end.stop_sending(*id, 8));
                    }
                }
            }
            pair.run_for(ms(pause));
        }
        pair.run_for(Duration::from_secs(600));
        for side in [Side::A, Side::B] {
            let mut received: BTreeMap<u64, u64> = BTreeMap::new();
            for (_, event) in &pair.events[side.index()] {
                if let Event::Received(part) = event {
                    let next = received.entry(part.stream.0).or_default();
                    prop_assert_eq!(part.payload.offset, *next, "bytes come once and in order");
                    *next += u64::from(part.payload.length);
                }
            }
            for &(id, written, gone) in &streams[side.peer().index()] {
                let got = received.get(&id).copied().unwrap_or(0);
                prop_assert!(got == written || (gone && got <= written), "{id}: {got} of {written}");
            }
            prop_assert_eq!(pair.ends[side.index()].violation(), None);
        }
    }

    /// Messages arrive at most once, whole, and all of them without losses.
    #[test]
    fn messages_arrive_at_most_once(
        wires in [wire(), wire()],
        messages in proptest::collection::vec((0..1_100_u32, 0..40_u64), 1..60),
        seed in any::<u64>(),
    ) {
        let config = Config { datagrams: Some(true), idle_timeout: Some(Duration::from_secs(4_000)), ..Config::default() };
        let mut pair = Pair::seeded([&config, &config], seed);
        *pair.wires = wires;
        open(&mut pair)?;
        let mut offset = 0;
        let mut sent = Vec::new();
        for (length, pause) in messages {
            let payload = crate::flow::Payload { offset, length };
            pair.command(Side::A, super::testing::send_unordered(payload));
            sent.push(payload);
            offset += 2_000;
            pair.run_for(ms(pause));
        }
        pair.run_for(Duration::from_secs(60));
        let mut received: Vec<_> = pair.events[1].iter().filter_map(|(_, event)| match event {
            Event::Received(part) => Some(part.payload),
            _ => None,
        }).collect();
        received.sort();
        prop_assert!(received.windows(2).all(|pair| pair[0] != pair[1]), "twice");
        prop_assert!(received.iter().all(|payload| sent.contains(payload)));
        let lost = pair.ends[0].stats().messages_lost;
        prop_assert!(received.len() as u64 + lost >= sent.len() as u64);
        if wires[0].loss == 0.0 {
            prop_assert_eq!(received, sent);
        }
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(Duration::from_secs(5_000));
        prop_assert!(pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
    }
}
