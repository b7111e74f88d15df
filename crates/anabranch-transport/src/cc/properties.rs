//! Every TCP control, with every form of the rules, survives whatever a transport may tell it.

use proptest::prelude::*;

use super::{
    AckEvent, ArrivalEvent, Config, CongestionControl as _, CongestionEvent, CongestionKind, Controller,
    IdleEvent, LostEvent, RateSample, RecoveryEndEvent, RttEvent, Rules, SentEvent, Setup, UndoEvent,
    coupled, reno,
};
use crate::ground::PathId;
use crate::rng::{BlockRng, Draw as _};
use crate::time::{Duration, Time};

const RULES: [Rules; 3] = [Rules::Linux2620, Rules::Linux6, Rules::Rfc];
const EVENTS: usize = 10_000;

/// A transport that follows no rules beyond the types: times and totals grow, everything else is drawn.
struct Transport {
    draws: BlockRng,
    now: Time,
    delivered: u64,
    acked: u64,
    sent: u64,
}

impl Transport {
    fn amount(&mut self, most: u64) -> u32 {
        // Small and large numbers are equally likely.
        let bound = 1 + (most >> self.draws.below(24));
        self.draws.below(bound) as u32
    }

    fn duration(&mut self) -> Duration {
        let scale = 1_000_u64 << self.draws.below(24);
        Duration::from_nanos(self.draws.below(scale))
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.draws.below(one_in) == 0
    }

    fn acknowledge(&mut self, control: &mut Controller, mss: u32) {
        let newly_acked = self.amount(u64::from(mss) * 64);
        self.sent += u64::from(self.amount(u64::from(mss) * 64));
        self.acked = (self.acked + u64::from(newly_acked)).min(self.sent);
        self.delivered += u64::from(newly_acked);
        let outstanding_before = self.amount(1 << 30).max(newly_acked);
        let rate = if self.chance(10) {
            None
        } else {
            let interval = self.duration();
            Some(RateSample {
                prior_delivered: self.delivered - u64::from(newly_acked),
                outstanding_at_send: self.amount(1 << 30),
                lost: self.amount(1 << 20),
                is_app_limited: self.chance(5),
                ..RateSample::new(newly_acked, interval, self.delivered)
            })
        };
        let event = AckEvent {
            segments_acked: newly_acked / mss,
            cumulative_advanced: !self.chance(5),
            in_recovery: self.chance(5),
            is_open: !self.chance(5),
            is_window_limited: !self.chance(5),
            marked: if self.chance(5) { newly_acked } else { 0 },
            newly_lost: if self.chance(5) { self.amount(1 << 20) } else { 0 },
            rtt: (!self.chance(10)).then(|| self.duration()),
            min_rtt: (!self.chance(10)).then(|| self.duration()),
            acknowledged_to: self.acked,
            sent_to: self.sent,
            rate,
            ..AckEvent::new(self.now, newly_acked, outstanding_before)
        };
        let arrival = ArrivalEvent::new(self.now, self.acked);
        control.on_arrival(&ArrivalEvent { rtt: event.rtt, is_special: self.chance(5), ..arrival });
        control.on_ack(&event);
    }

    fn step(&mut self, control: &mut Controller, mss: u32) {
        let pause = self.duration();
        self.now += pause;
        let outstanding = self.amount(1 << 30);
        let now = self.now;
        match self.draws.below(200) {
            0..=3 => {
                control.on_congestion(&CongestionEvent::new(
                    now,
                    CongestionKind::FastRetransmit,
                    outstanding,
                ));
            }
            4 => control.on_congestion(&CongestionEvent::new(now, CongestionKind::Timeout, outstanding)),
            5 => control.on_congestion(&CongestionEvent::new(now, CongestionKind::Ecn, outstanding)),
            6 => control.on_congestion(&CongestionEvent::new(now, CongestionKind::Restart, outstanding)),
            7..=10 => control.on_recovery_end(&RecoveryEndEvent::new(now, outstanding)),
            11 => control.on_undo(&UndoEvent::new(now)),
            12 => {
                let (idle, rto) = (self.duration(), self.duration());
                control.on_idle(&IdleEvent::new(idle, rto));
            }
            13 => {
                let rtt = self.duration();
                control.on_rtt_sample(&RttEvent::new(now, rtt));
            }
            14..=60 => {
                let bytes = self.amount(u64::from(mss));
                control.on_sent(&SentEvent::new(now, bytes, outstanding.max(bytes)));
            }
            61..=70 => control.on_lost(&LostEvent {
                outstanding_at_send: outstanding,
                lost: self.amount(1 << 20),
                is_app_limited: self.chance(5),
                ..LostEvent::new(now, mss)
            }),
            _ => self.acknowledge(control, mss),
        }
    }
}

proptest! {
    // One case is 480,000 events.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(64),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// There is no panic and no overflow (tests check arithmetic), the window is between one segment and 1
    /// GiB, and the pace is above zero.
    #[test]
    fn every_control_survives_anything(seed: u64, mss in 1_u32..=65_535, segments in 1_u32..=1_000) {
        for config in Config::tcp() {
            config.check().unwrap();
            for rules in RULES {
                let initial_cwnd = segments * mss;
                let mut control = config.build(&Setup { mss, initial_cwnd, rules, seed, is_paced: false });
                prop_assert!(control.limits().cwnd >= mss);
                let draws = BlockRng::new(seed, 1);
                let mut transport = Transport { draws, now: Time::ZERO, delivered: 0, acked: 0, sent: 0 };
                for event in 0..EVENTS {
                    transport.step(&mut control, mss);
                    let limits = control.limits();
                    let in_range = (mss..=1 << 30).contains(&limits.cwnd);
                    prop_assert!(in_range, "{config:?} {rules:?} event {event}: {limits:?}");
                    prop_assert!(limits.pacing_rate.is_none_or(|rate| rate.bits_per_sec() > 0));
                }
            }
        }
    }
}

proptest! {
    // One case is 100,000 events.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(16),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The same holds for all paths of every coupled control, whatever happens on any of them, and while
    /// paths come and go.
    #[test]
    fn every_coupling_survives_anything(
        seed: u64,
        mss in 1_u32..=65_535,
        segments in 1_u32..=1_000,
        paths in 1_usize..=4,
    ) {
        for config in coupled::Config::all() {
            let group = coupled::Group::new(config.build());
            let setup = coupled::PathSetup {
                own: Config::Reno(reno::Config::default()),
                setup: Setup { mss, initial_cwnd: segments * mss, rules: Rules::Rfc, seed, is_paced: false },
                initial_ssthresh: segments.saturating_mul(3 * mss),
                ssthresh_floor: 2,
                holds_ssthresh: true,
            };
            let join = |path: usize| Controller::Coupled(group.join(PathId(path as u8), &setup));
            let mut controls: Vec<_> = (0..paths).map(join).collect();
            let draws = BlockRng::new(seed, 1);
            let mut transport = Transport { draws, now: Time::ZERO, delivered: 0, acked: 0, sent: 0 };
            for event in 0..EVENTS {
                let path = transport.draws.below(paths as u64) as usize;
                transport.step(&mut controls[path], mss);
                for control in &controls {
                    let limits = control.limits();
                    let in_range = (mss..=1 << 30).contains(&limits.cwnd);
                    prop_assert!(in_range, "{config:?} event {event}: {limits:?}");
                }
                if transport.chance(1_000) {
                    // A path that leaves for good is dropped, and one that begins anew takes the place of the
                    // old one.
                    controls.remove(path);
                    controls.insert(path, join(path));
                }
            }
        }
    }
}

#[test]
fn every_control_has_a_name_and_reads_its_own_settings() {
    let names: Vec<String> = Config::tcp()
        .iter()
        .map(|config| {
            let json = serde_json::to_value(config).unwrap();
            assert_eq!(&serde_json::from_value::<Config>(json.clone()).unwrap(), config);
            let kind = json["kind"].as_str().unwrap().to_owned();
            assert_eq!(kind, config.kind());
            // The kind alone means the default settings.
            let short = serde_json::json!({ "kind": kind });
            assert_eq!(&serde_json::from_value::<Config>(short).unwrap(), config);
            kind
        })
        .collect();
    let expected = [
        "bbr",
        "bbr3",
        "bic",
        "cubic",
        "dctcp",
        "highspeed",
        "htcp",
        "hybla",
        "illinois",
        "ledbat",
        "reno",
        "scalable",
        "vegas",
        "veno",
        "westwood",
        "yeah",
    ];
    assert_eq!(names, expected);
}
