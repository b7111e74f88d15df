//! Properties of two endpoints over any network of several paths, which may die and return: timers make
//! progress and counters match a recount (both checked after every input by the harness), every byte arrives
//! once and in order, and every transfer ends as long as one path lives.

use proptest::prelude::*;

use super::subflow::Subflow;
use super::testing::{Pair, Wire, ms};
use super::{Config, Profile, Rejoin};
use crate::cc::coupled;
use crate::endpoint::{CloseReason, Command, Event};
use crate::flow::Side;
use crate::path::scheduler;
use crate::tcp;
use crate::time::Duration;
use crate::units::Bytes;

fn wire() -> impl Strategy<Value = Wire> {
    (
        1..100_u64,
        prop_oneof![Just(0.0), 0.0..0.2],
        prop_oneof![Just(0.0), 0.0..0.2],
        prop_oneof![Just(0), 0..80_u64],
        prop_oneof![Just(None), (100_000..20_000_000_u64).prop_map(Some)],
    )
        .prop_map(|(delay, loss, duplication, jitter, rate)| Wire {
            delay: ms(delay),
            jitter: ms(jitter),
            loss,
            duplication,
            rate,
            ..Wire::default()
        })
}

fn buffer() -> impl Strategy<Value = Bytes> {
    prop_oneof![1_460..6_000_u64, 6_000..100_000_u64, Just(4 << 20)].prop_map(Bytes)
}

fn any_scheduler() -> impl Strategy<Value = scheduler::Config> {
    prop_oneof![
        Just(scheduler::Config::BackupOnly),
        Just(scheduler::Config::Blest),
        Just(scheduler::Config::Ecf),
        Just(scheduler::Config::Linux),
        Just(scheduler::Config::MinRtt),
        Just(scheduler::Config::Redundant),
        Just(scheduler::Config::Priority),
        Just(scheduler::Config::RoundRobin),
        Just(scheduler::Config::Weighted(vec![3]))
    ]
}

fn any_coupling() -> impl Strategy<Value = coupled::Config> {
    proptest::sample::select(coupled::Config::all())
}

/// Longer than paths are dead and addresses are away, and shorter than a test waits for the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10_000);

fn any_config() -> impl Strategy<Value = Config> {
    let profile = prop_oneof![Just(Profile::Linux6), Just(Profile::Rfc8684)];
    let subflow =
        prop_oneof![Just(tcp::Profile::Linux6), Just(tcp::Profile::Linux2620), Just(tcp::Profile::Rfc)];
    (
        (profile, subflow, any_scheduler(), any_coupling(), buffer(), buffer()),
        proptest::array::uniform6(any::<bool>()),
        (proptest::option::of((88..1_460_u64).prop_map(Bytes)), 1..6_u32, proptest::option::of(0..3_u8)),
    )
        .prop_map(
            |((profile, subflow, scheduler, coupling, send, receive), flags, (mss, stale_after, backup))| {
                let [sack, timestamps, opportunistic, penalises, rejoins, pacing] = flags;
                Config {
                    profile,
                    scheduler: Some(scheduler),
                    coupling: Some(coupling),
                    tcp: Some(tcp::Config {
                        profile: subflow,
                        sack: Some(sack),
                        timestamps: Some(timestamps),
                        pacing: Some(pacing),
                        mss,
                        // The connection is never given up, so data is lost only on the way.
                        retries: Some(1_000),
                        syn_retries: Some(1_000),
                        rto_max: Some(ms(3_000)),
                        ..tcp::Config::default()
                    }),
                    send_buffer: Some(send),
                    receive_buffer: Some(receive),
                    opportunistic_retransmission: Some(opportunistic),
                    penalisation: Some(penalises),
                    stale_after: Some(stale_after),
                    rejoin: Some(if rejoins { Rejoin::After(ms(500)) } else { Rejoin::Never }),
                    close_timeout: Some(CLOSE_TIMEOUT),
                    backup: backup.into_iter().filter(|path| *path < 2).collect(),
                    ..Config::default()
                }
            },
        )
}

/// An event at some time after the beginning.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A path dies, if another one lives.
    Kill(usize),
    /// An address goes, and comes back once the announcement of its removal has arrived or was lost.
    Move(usize),
    Pause(Side),
    Prefer(usize),
    Resume(Side),
    Revive(usize),
    Write(Side, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![1..200_u32, 1..5_000_u32, 1..200_000_u32];
    prop_oneof![
        (0..3_usize).prop_map(Step::Kill),
        (0..3_usize).prop_map(Step::Revive),
        (0..3_usize).prop_map(Step::Move),
        (0..3_usize).prop_map(Step::Prefer),
        prop_oneof![Just(Step::Pause(Side::A)), Just(Step::Pause(Side::B))],
        prop_oneof![Just(Step::Resume(Side::A)), Just(Step::Resume(Side::B))],
        size().prop_map(|size| Step::Write(Side::A, size)),
        size().prop_map(|size| Step::Write(Side::B, size)),
    ]
}

/// Runs a connection: the steps happen, and then one end closes or both do.
fn converse(pair: &mut Pair, steps: &[(u64, Step)], closers: &[Side]) -> Result<(), TestCaseError> {
    pair.start_over();
    pair.command(Side::A, Command::Connect);
    let deadline = pair.now + Duration::from_secs(20_000);
    pair.run_until(deadline, |pair| {
        pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected)
    });
    // A path can stand in for another one once its subflow is there, which takes some data.
    pair.write(Side::A, 1);
    pair.run_until(deadline, |pair| {
        [Side::A, Side::B].iter().all(|&side| pair.end(side).subflows.iter().all(Subflow::is_established))
    });
    let mut written = [1_u64, 0];
    for &(pause, step) in steps {
        pair.run_for(ms(pause));
        let paths = pair.wires.len();
        match step {
            Step::Kill(path) => {
                let alive = pair.wires.iter().filter(|wire| !wire.is_dead).count();
                pair.wires[path % paths].is_dead |= alive > 1;
            }
            Step::Move(path) => {
                // Before that, no other subflow may be opened (RFC 8684 section 3.1).
                if pair.end(Side::A).subflows.iter().any(|subflow| subflow.is_confirmed) {
                    let path = Pair::path((path % paths) as u8);
                    pair.command(Side::A, Command::DeleteAddress(path));
                    pair.run_for(Duration::from_secs(300));
                    pair.command(Side::A, Command::AddAddress(path));
                }
            }
            Step::Pause(side) => pair.command(side, Command::PauseReading),
            Step::Prefer(path) => {
                let path = Pair::path((path % paths) as u8);
                pair.command(Side::A, Command::SetPrimary(path));
                pair.command(Side::A, Command::SetPeerPrimary(path));
            }
            Step::Resume(side) => pair.command(side, Command::ResumeReading),
            Step::Revive(path) => pair.wires[path % paths].is_dead = false,
            Step::Write(side, length) => {
                written[side.index()] += u64::from(length);
                pair.write(side, length);
            }
        }
    }
    for side in [Side::A, Side::B] {
        pair.command(side, Command::ResumeReading);
    }
    pair.run_until(deadline, |pair| {
        pair.received_bytes(Side::B) == written[0] && pair.received_bytes(Side::A) == written[1]
    });
    prop_assert_eq!(pair.received_bytes(Side::B), written[0]);
    prop_assert_eq!(pair.received_bytes(Side::A), written[1]);
    for &side in closers {
        pair.command(side, Command::Shutdown);
    }
    let deadline = pair.now + CLOSE_TIMEOUT * 2;
    pair.run_until(deadline, |pair| pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
    prop_assert_eq!(pair.received_bytes(Side::B), written[0]);
    prop_assert_eq!(pair.received_bytes(Side::A), written[1]);
    prop_assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
    prop_assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    proptest::collection::vec((prop_oneof![Just(0), 0..500_u64, 0..5_000_u64], step()), 0..12)
}

fn closers() -> impl Strategy<Value = &'static [Side]> {
    prop_oneof![Just(&[Side::A][..]), Just(&[Side::B][..]), Just(&[Side::A, Side::B][..])]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order_while_one_path_lives(
        configs in [any_config(), any_config()],
        wires in proptest::collection::vec(wire(), 1..4),
        steps in [steps(), steps()],
        closers in [closers(), closers()],
        seed in any::<u64>(),
    ) {
        let mut pair = Pair::seeded([&configs[0], &configs[1]], wires, seed);
        converse(&mut pair, &steps[0], closers[0])?;
        pair.wires.iter_mut().for_each(|wire| wire.is_dead = false);
        // A further connection of the same endpoints begins while the last one may still be closing.
        converse(&mut pair, &steps[1], closers[1])?;
    }

    #[test]
    fn equal_inputs_give_equal_outputs(
        config in any_config(),
        wires in proptest::collection::vec(wire(), 1..4),
        steps in steps(),
        seed in any::<u64>(),
    ) {
        let log = || {
            let mut pair = Pair::seeded([&config, &config], wires.clone(), seed);
            converse(&mut pair, &steps, &[Side::A]).map(|()| format!("{:?}", pair.log))
        };
        prop_assert_eq!(log()?, log()?);
    }

    #[test]
    fn an_early_timeout_does_nothing(
        config in any_config().prop_filter("BLEST notes that it was asked", |config| {
            config.scheduler != Some(scheduler::Config::Blest)
        }),
        wires in proptest::collection::vec(wire(), 1..4),
        length in 1..100_000_u32,
        millis in 1..2_000_u64,
    ) {
        let mut pair = Pair::seeded([&config, &config], wires, 1);
        pair.command(Side::A, Command::Connect);
        pair.write(Side::A, length);
        pair.run_for(ms(millis));
        for side in [Side::A, Side::B] {
            // Brings `last_now` to the present, so that only real changes show.
            pair.input(side, crate::endpoint::Input::Timeout);
        }
        let quiet = |pair: &Pair| [Side::A, Side::B].map(|side| format!("{:?}", pair.end(side)));
        let (before, sent) = (quiet(&pair), pair.log.len());
        for side in [Side::A, Side::B] {
            pair.input(side, crate::endpoint::Input::Timeout);
        }
        prop_assert_eq!(pair.log.len(), sent);
        prop_assert_eq!(before, quiet(&pair));
    }
}
