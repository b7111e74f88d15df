//! Properties of two ends over random networks whose paths fail and come back.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::Config;
use super::testing::{Lost, Pair};
use crate::cc::media::{self, cbr, gcc, nada};
use crate::flow::Side;
use crate::path::failover::{self, RetransmitOn};
use crate::path::{self, delay_centric, echo, scheduler};
use crate::rng::{Draw as _, Streams};
use crate::time::{Duration, Time};
use crate::units::Rate;

/// How long media is sent, in ms, and until when paths may be down.
const SENDING_MS: u64 = 6_000;
const OUTAGES_UNTIL_MS: u64 = 4_000;

fn control() -> impl Strategy<Value = media::Config> {
    prop_oneof![
        (200_000..3_000_000_u64)
            .prop_map(|rate| media::Config::Cbr(cbr::Config { rate: Rate::from_bits_per_sec(rate) })),
        Just(media::Config::Gcc(gcc::Config::default())),
        Just(media::Config::Nada(nada::Config::default())),
    ]
}

fn scheduler() -> impl Strategy<Value = scheduler::Config> {
    prop_oneof![
        Just(scheduler::Config::BackupOnly),
        Just(scheduler::Config::Linux),
        Just(scheduler::Config::MinRtt),
        Just(scheduler::Config::Priority),
        Just(scheduler::Config::Proportional),
        Just(scheduler::Config::Redundant),
        Just(scheduler::Config::RoundRobin),
        Just(scheduler::Config::Weighted(vec![3])),
    ]
}

fn policy() -> impl Strategy<Value = path::Config> {
    let failover = prop_oneof![
        Just(RetransmitOn::Alternate),
        Just(RetransmitOn::Current),
        Just(RetransmitOn::Same),
        Just(RetransmitOn::SmallestLossRate),
    ]
    .prop_map(|on| {
        path::Config::Failover(failover::Config { retransmit_on: Some(on), ..failover::Config::default() })
    });
    prop_oneof![
        failover,
        Just(path::Config::DelayCentric(delay_centric::Config::default())),
        Just(path::Config::Echo(echo::Config::default())),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let ways = (proptest::option::of(scheduler()), proptest::option::of(policy()), any::<bool>());
    (control(), ways, any::<bool>(), 5..300_u64, 50..1_000_u64, 50..1_000_u64).prop_map(
        |(cc, (scheduler, policy, has_backup), nack, feedback, probes, timeout)| Config {
            cc,
            backup: if has_backup && scheduler.is_some() { vec![1] } else { Vec::new() },
            scheduler,
            policy,
            nack,
            feedback_interval: Duration::from_millis(feedback),
            probe_interval: Duration::from_millis(probes),
            path_timeout: Duration::from_millis(timeout),
            ..Config::default()
        },
    )
}

/// Delays in ms and shares of losses of the paths.
type Links = Vec<(u64, f64)>;
/// When each path goes down and for how long, in ms.
type Outages = Vec<(u64, u64)>;

/// Random losses on each path, and a time in which each is down.
fn network() -> impl Strategy<Value = (Links, Outages, u64)> {
    let paths = proptest::collection::vec((1..200_u64, prop_oneof![Just(0.0), 0.0..0.4_f64]), 2..4);
    let outages = proptest::collection::vec((0..OUTAGES_UNTIL_MS, 0..OUTAGES_UNTIL_MS), 3);
    (paths, outages, any::<u64>())
}

fn lost(paths: &[(u64, f64)], outages: &[(u64, u64)], seed: u64) -> Lost {
    let mut rng = Streams { seed, replication: 0 }.stream("network");
    let (paths, outages) = (paths.to_vec(), outages.to_vec());
    Box::new(move |now, _, packet| {
        let (from, length) = outages[packet.path.index()];
        let end = (from + length).min(OUTAGES_UNTIL_MS);
        let is_down = (Time::from_millis(from)..Time::from_millis(end.max(from))).contains(&now);
        rng.bernoulli(paths[packet.path.index()].1) || is_down
    })
}

proptest! {
    /// Nothing comes twice, what comes was sent, no end keeps more than it may, timeouts lie ahead (the pair
    /// asserts it), and when the outages are over media comes again.
    #[test]
    fn media_goes_on_through_outages((config, (paths, outages, seed)) in (any_config(), network())) {
        let delays: Vec<u64> = paths.iter().map(|path| path.0).collect();
        let mut pair = Pair::with_paths(&config, &delays, lost(&paths, &outages, seed));
        pair.send_until(Time::from_millis(SENDING_MS));
        pair.run_until(Time::from_secs(8));
        let received = pair.received();
        let different: BTreeSet<u64> = received.iter().copied().collect();
        prop_assert_eq!(different.len(), received.len(), "nothing is delivered twice");
        let sent = SENDING_MS / 10;
        prop_assert!(different.iter().all(|offset| offset % 1_000 == 0 && offset / 1_000 < sent));
        let late = pair.events.iter().filter(|(at, side, event)| {
            *side == Side::B
                && *at > Time::from_millis(OUTAGES_UNTIL_MS + 1_000)
                && matches!(event, crate::endpoint::Event::Received(_))
        });
        prop_assert!(late.count() > 0, "media comes again after the outages");
        for end in &pair.ends {
            let (kept, seen, missing) = end.kept();
            prop_assert!(kept <= 2 * paths.len() * (1 << 15), "{}", kept);
            prop_assert!(seen <= 2 * (1 << 14) && missing <= 1_000, "{} {}", seen, missing);
        }
    }
}
