//! Properties of two endpoints over any network: timers make progress and counters match a recount (both
//! checked after every input by the harness), every byte arrives once and in order, and every transfer ends.

use proptest::prelude::*;

use super::config::{EcnMode, InitialWindow, LossDetection, Nagle, WindowReduction};
use super::prediction_switch::with_prediction;
use super::testing::{Pair, ms};
use super::{Config, Connection, Profile};
use crate::cc;
use crate::endpoint::{CloseReason, Command, Event};
use crate::flow::{Ecn, Payload, Side};
use crate::testing::{Talk, Wire, talk, total, wire};
use crate::time::{Duration, Time};
use crate::units::Bytes;
use crate::wire::tcp::{Flags, Segment, Timestamps};
use crate::wire::{Body, Packet};

fn buffer() -> impl Strategy<Value = Bytes> {
    prop_oneof![1_460..6_000_u64, 6_000..100_000_u64, Just(4 << 20)].prop_map(Bytes)
}

fn any_config() -> impl Strategy<Value = Config> {
    let profile = prop_oneof![
        Just(Profile::Linux6),
        Just(Profile::Linux2620),
        Just(Profile::Rfc),
        Just(Profile::KheirkhahV1)
    ];
    let detection =
        prop_oneof![Just(LossDetection::Rack), Just(LossDetection::Dupacks), Just(LossDetection::Fack)];
    let reduction = prop_oneof![
        Just(WindowReduction::Prr),
        Just(WindowReduction::AtOnce),
        Just(WindowReduction::RateHalving)
    ];
    let ecn = prop_oneof![
        Just(EcnMode::Off),
        Just(EcnMode::Rfc3168),
        Just(EcnMode::Dctcp),
        Just(EcnMode::Accurate),
        Just(EcnMode::L4s)
    ];
    let nagle = prop_oneof![Just(Nagle::Off), Just(Nagle::Minshall), Just(Nagle::Rfc896)];
    let control = (0..cc::Config::tcp().len()).prop_map(|index| cc::Config::tcp().swap_remove(index));
    (
        (profile, control, buffer(), buffer(), detection, reduction),
        (ecn, nagle, proptest::array::uniform9(any::<bool>())),
        (prop_oneof![Just(None), (88..1_460_u64).prop_map(|mss| Some(Bytes(mss)))], 1..20_u32),
    )
        .prop_map(
            |((profile, control, send, receive, detection, reduction), (ecn, nagle, flags), last)| {
                let [timestamps, sack, dsack, scaling, tlp, f_rto, undo, pacing, tuning] = flags;
                let is_model = profile == Profile::KheirkhahV1;
                // Prague refuses to go without marks.
                let ecn =
                    Some(ecn).filter(|ecn| *ecn != EcnMode::Off || !matches!(control, cc::Config::Prague(_)));
                Config {
                    profile,
                    cc: if is_model && tuning { None } else { Some(control) },
                    send_buffer: Some(send),
                    receive_buffer: Some(receive),
                    receive_autotuning: Some(tuning),
                    loss_detection: Some(detection),
                    window_reduction: Some(reduction),
                    ecn,
                    nagle: Some(nagle),
                    timestamps: Some(timestamps),
                    sack: Some(sack && !(is_model && tuning)),
                    dsack: Some(dsack),
                    window_scaling: Some(scaling),
                    tail_loss_probe: Some(tlp),
                    f_rto: Some(f_rto),
                    undo: Some(undo),
                    pacing: Some(pacing),
                    mss: last.0,
                    initial_window: Some(InitialWindow::Segments(last.1)),
                    // No end gives up: losses of 30 % go on as long as the transfer does.
                    retries: Some(1_000),
                    syn_retries: Some(1_000),
                    rto_max: Some(ms(3_000)),
                    ..Config::default()
                }
            },
        )
}

/// What is done at which time, in order.
fn plan(talks: &[Talk; 2], start: Time) -> Vec<(Time, Side, Step)> {
    let mut steps = Vec::new();
    for (talk, side) in talks.iter().zip([Side::A, Side::B]) {
        let mut at = start;
        for &(length, pause) in &talk.writes {
            steps.push((at, side, Step::Write(length)));
            at += ms(pause);
        }
        at = start;
        for (index, &pause) in talk.pauses.iter().enumerate() {
            let step = if index % 2 == 0 { Command::PauseReading } else { Command::ResumeReading };
            steps.push((at, side, Step::Command(step)));
            at += ms(pause);
        }
        steps.push((at, side, Step::Command(Command::ResumeReading)));
    }
    steps.sort_by_key(|step| step.0);
    steps
}

/// A segment that is predicted, or nearly so.
#[derive(Clone, Copy, Debug)]
struct Strange {
    flags: Flags,
    /// Its numbers less those that are expected, the same for its window and its timestamp.
    ahead: i32,
    acknowledges: u32,
    window: i32,
    age: i32,
    length: u32,
    has_timestamps: bool,
}

fn segment() -> impl Strategy<Value = Strange> {
    let flags = prop_oneof![
        8 => Just(Flags::ACK),
        2 => Just(Flags::ACK.with(Flags::PSH)),
        1 => Just(Flags::ACK.with(Flags::FIN)),
        1 => Just(Flags::ACK.with(Flags::ECE)),
        1 => Just(Flags::NONE),
    ];
    let seldom = || prop_oneof![9 => Just(0), 1 => -3_000..3_000];
    let acknowledges =
        prop_oneof![2 => Just(0_u32), 4 => (1..20_u32).prop_map(|count| count * 1_448), 1 => 0..60_000_u32];
    let length = prop_oneof![2 => Just(0_u32), 2 => 1..1_400_u32];
    let has_timestamps = prop_oneof![4 => Just(true), 1 => Just(false)];
    (
        flags,
        seldom(),
        acknowledges,
        seldom(),
        prop_oneof![9 => Just(0), 1 => -3..3_i32],
        length,
        has_timestamps,
    )
        .prop_map(|(flags, ahead, acknowledges, window, age, length, has_timestamps)| Strange {
            flags,
            ahead,
            acknowledges,
            window,
            age,
            length,
            has_timestamps,
        })
}

impl Strange {
    /// The segment as it comes to an end from its peer.
    fn for_end(self, end: &Connection) -> Packet {
        let Self { flags, ahead, acknowledges, window, age, length, has_timestamps } = self;
        let start = end.receiver.next.saturating_add_signed(i64::from(ahead));
        let field = (end.sender.window >> end.sender.window_scale) as i32;
        let stamp = Timestamps {
            value: end.recent_timestamp.wrapping_sub(age as u32),
            echo: end.timestamp(end.last_now),
        };
        let tcp = Segment {
            source_port: end.ports[1],
            destination_port: end.ports[0],
            sequence: end.peer_numbers.wire(start),
            acknowledgement: end.own_numbers.wire(end.sender.unacknowledged).wrapping_add(acknowledges),
            flags,
            window: (field + window).clamp(0, 65_535) as u16,
            timestamps: (has_timestamps && end.has_timestamps).then_some(stamp),
            payload: Payload { offset: start.saturating_sub(1), length },
            ..Segment::blank()
        };
        let size = 20 + tcp.wire_size();
        Packet { path: end.path, ecn: Ecn::NotEct, size, body: Body::Tcp(tcp) }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Command(Command),
    Write(u32),
}

/// One connection: both ends say what they have to say, then A closes. Fails unless both have heard of the
/// end.
fn converse(pair: &mut Pair, talks: &[Talk; 2]) -> Result<(), TestCaseError> {
    pair.events = [Vec::new(), Vec::new()];
    for left in &mut pair.to_write {
        *left = crate::flow::Payload::default();
    }
    pair.command(Side::A, Command::Connect);
    let deadline = pair.now + Duration::from_secs(5_000);
    pair.run_until(deadline, |pair| {
        pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected)
    });
    for (at, side, step) in plan(talks, pair.now) {
        pair.run_until(at.max(pair.now), |_| false);
        match step {
            Step::Command(command) => pair.command(side, command),
            Step::Write(length) => pair.write(side, length),
        }
    }
    pair.run_until(deadline, |pair| {
        pair.to_write.iter().all(|left| left.length == 0)
            && pair.ends.iter().all(|end| end.sender.unacknowledged > end.sender.written)
    });
    pair.command(Side::A, Command::Shutdown);
    pair.run_until(deadline, |pair| pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
    for (side, talk) in [(Side::B, &talks[0]), (Side::A, &talks[1])] {
        prop_assert_eq!(pair.received_bytes(side), total(talk), "bytes received by {:?}", side);
    }
    prop_assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
    prop_assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order_and_every_transfer_ends(
        configs in [any_config(), any_config()],
        wires in [wire(), wire()],
        talks in [talk(), talk()],
        again in [talk(), talk()],
        seed in any::<u64>(),
    ) {
        let mut pair = Pair::seeded([&configs[0], &configs[1]], seed);
        pair.wires = wires;
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
            pair.wires = wires;
            converse(&mut pair, &talks).map(|()| format!("{:?}", pair.log))
        };
        prop_assert_eq!(log()?, log()?);
    }

    #[test]
    fn a_prediction_does_what_the_long_way_does(
        configs in [any_config(), any_config()],
        wires in [wire(), wire()],
        talks in [talk(), talk()],
        seed in any::<u64>(),
    ) {
        let log = || {
            let mut pair = Pair::seeded([&configs[0], &configs[1]], seed);
            pair.wires = wires;
            converse(&mut pair, &talks).map(|()| {
                (format!("{:?}", pair.ends), format!("{:?} {:?}", pair.log, pair.events))
            })
        };
        prop_assert_eq!(with_prediction(true, log)?, with_prediction(false, log)?);
    }

    #[test]
    fn a_predicted_segment_changes_the_state_as_the_long_way_does(
        config in any_config(),
        wires in [wire(), wire()],
        length in 1..400_000_u32,
        steps in proptest::collection::vec((0..200_u64, segment()), 1..30),
    ) {
        let run = |predicts| {
            let mut pair = Pair::seeded([&config, &config], 1);
            // Two ends that disagree answer each other for ever; copies of the answers would be ever more.
            pair.wires = wires.map(|wire| Wire { duplication: 0.0, ..wire });
            pair.command(Side::A, Command::Connect);
            pair.run_for(ms(500));
            pair.write(Side::A, length);
            let mut states = Vec::new();
            for (millis, strange) in &steps {
                pair.run_for(ms(*millis));
                for side in [Side::A, Side::B] {
                    let packet = Box::new(strange.for_end(&pair.ends[side.index()]));
                    with_prediction(predicts, || pair.input(side, crate::endpoint::Input::Packet(packet)));
                    states.push(format!("{:?}", pair.ends[side.index()]));
                }
            }
            (states, format!("{:?} {:?}", pair.log, pair.events))
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn an_early_timeout_does_nothing(
        config in any_config(),
        wires in [wire(), wire()],
        length in 1..100_000_u32,
        millis in 1..2_000_u64,
    ) {
        let mut pair = Pair::seeded([&config, &config], 1);
        pair.wires = wires;
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, length);
        pair.run_for(ms(millis));
        for side in [Side::A, Side::B] {
            // Brings `last_now` to the present, so that only real changes show.
            pair.input(side, crate::endpoint::Input::Timeout);
        }
        let quiet = |pair: &Pair| pair.ends.iter().map(|end| format!("{end:?}")).collect::<Vec<_>>();
        let (before, sent) = (quiet(&pair), pair.log.len());
        for side in [Side::A, Side::B] {
            pair.input(side, crate::endpoint::Input::Timeout);
        }
        prop_assert_eq!(pair.log.len(), sent);
        prop_assert_eq!(before, quiet(&pair));
    }
}
