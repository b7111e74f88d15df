//! Every TCP control, with every form of the rules, survives whatever a transport may tell it.

use proptest::prelude::*;

use super::testing::{MSS, Rounds, build, cwnd, lose};
use super::{
    AckEvent, ArrivalEvent, Config, CongestionControl as _, CongestionEvent, CongestionKind, Controller,
    IdleEvent, LostEvent, RateSample, RecoveryEndEvent, RttEvent, Rules, SentEvent, Setup, UndoEvent,
    coupled, ledbat, reno,
};
use crate::flow::PathId;
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
    /// The position of a byte.
    numbering: fn(u64) -> u64,
}

impl Transport {
    fn new(draws: BlockRng) -> Self {
        Self { draws, now: Time::ZERO, delivered: 0, acked: 0, sent: 0, numbering: |byte| byte }
    }

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
            srtt: (!self.chance(10)).then(|| self.duration()),
            acknowledged_to: (self.numbering)(self.acked),
            sent_to: (self.numbering)(self.sent),
            total_acked: self.acked,
            rate,
            ..AckEvent::new(self.now, newly_acked, outstanding_before)
        };
        let arrival = ArrivalEvent {
            acknowledged_to: event.acknowledged_to,
            ..ArrivalEvent::new(self.now, self.acked)
        };
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

    /// A control behaves the same whatever numbers positions have, bytes or packets, as long as they grow in
    /// the order of sending.
    #[test]
    fn positions_are_only_compared(seed: u64, mss in 1_u32..=65_535) {
        for config in Config::tcp() {
            for rules in RULES {
                let setup = Setup { mss, initial_cwnd: 10 * mss, rules, seed, is_paced: false, headers: 0 };
                let mut bytes = (config.build(&setup), Transport::new(BlockRng::new(seed, 1)));
                let mut others = (config.build(&setup), Transport::new(BlockRng::new(seed, 1)));
                others.1.numbering = |byte| if byte == 0 { 0 } else { 3 * byte + 1_000_000_007 };
                for event in 0..EVENTS {
                    for (control, transport) in [&mut bytes, &mut others] {
                        transport.step(control, mss);
                    }
                    let limits = [bytes.0.limits(), others.0.limits()];
                    prop_assert!(limits[0] == limits[1], "{config:?} {rules:?} event {event}: {limits:?}");
                }
            }
        }
    }

    /// There is no panic and no overflow (tests check arithmetic), the window is between one segment and 1
    /// GiB, and the pace is above zero.
    #[test]
    fn every_control_survives_anything(seed: u64, mss in 1_u32..=65_535, segments in 1_u32..=1_000) {
        for config in Config::tcp() {
            config.check().unwrap();
            for rules in RULES {
                let initial_cwnd = segments * mss;
                let mut control = config.build(&Setup { mss, initial_cwnd, rules, seed, is_paced: false , headers: 0});
                prop_assert!(control.limits().cwnd >= mss);
                let draws = BlockRng::new(seed, 1);
                let mut transport = Transport::new(draws);
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
                setup: Setup { mss, initial_cwnd: segments * mss, rules: Rules::Rfc, seed, is_paced: false , headers: 0},
                initial_ssthresh: segments.saturating_mul(3 * mss),
                ssthresh_floor: 2,
                holds_ssthresh: true,
            };
            let join = |path: usize| Controller::Coupled(group.join(PathId(path as u8), &setup));
            let mut controls: Vec<_> = (0..paths).map(join).collect();
            let draws = BlockRng::new(seed, 1);
            let mut transport = Transport::new(draws);
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
        "prague",
        "reno",
        "scalable",
        "vegas",
        "veno",
        "westwood",
        "yeah",
    ];
    assert_eq!(names, expected);
}

/// TCP's controls with their default settings, LEDBAT in both variants, and SCTP's.
pub(super) fn all() -> Vec<Config> {
    let plus_plus = ledbat::Config { variant: ledbat::Variant::LedbatPlusPlus, ..Default::default() };
    let mut all = Config::tcp();
    all.extend([Config::Ledbat(plus_plus), Config::default()]);
    all
}

/// How the window of an idle or an application-limited sender goes on when it is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    None,
    /// Nothing is sent for a minute.
    Idle,
    /// A segment per round is sent for a minute.
    Unused,
}

/// How much the window grows in a pause, and in the five rounds after it, in segments. The pause begins 2.5 s
/// after a loss.
fn growth(mut control: Controller, pause: Pause) -> (u32, u32) {
    let mut rounds = Rounds::new(Duration::from_millis(100));
    rounds.round(&mut control);
    lose(&mut control, rounds.now);
    for _ in 0..25 {
        rounds.round(&mut control);
    }
    let before = cwnd(&control);
    let minute = Duration::from_secs(60);
    match pause {
        Pause::None => {}
        Pause::Idle => rounds.idle(&mut control, minute),
        Pause::Unused => rounds.unused(&mut control, minute),
    }
    let then = cwnd(&control);
    for _ in 0..5 {
        rounds.round(&mut control);
    }
    (then.saturating_sub(before), cwnd(&control).saturating_sub(then))
}

/// Time in which the window does not limit the sender makes no window leap: it does not grow meanwhile, nor
/// faster afterwards than without the pause (RFC 9438 sections 4.2 and 5.8 for CUBIC, RFC 7661 for all).
///
/// In Linux time counts for CUBIC (`tcp_cubic.c` leaves out only idle times, and 2.6.20 not even those) and
/// for H-TCP, and Vegas does not ask whether the window is used. The windows of BBR follow from rates, and
/// have a test of their own.
#[test]
fn no_window_leaps_after_time_in_which_it_was_not_used() {
    let leaps_by_its_source = |kind: &str, rules: Rules, pause: Pause| match kind {
        "cubic" => rules == Rules::Linux2620 || (rules == Rules::Linux6 && pause == Pause::Unused),
        "htcp" => rules != Rules::Rfc,
        "vegas" => rules != Rules::Rfc && pause == Pause::Unused,
        _ => false,
    };
    for config in all() {
        if matches!(config, Config::Bbr(_) | Config::Bbr3(_)) {
            continue;
        }
        for rules in RULES {
            let control = || build(config.clone(), rules, 60);
            let (_, expected) = growth(control(), Pause::None);
            for pause in [Pause::Idle, Pause::Unused] {
                let (meanwhile, afterwards) = growth(control(), pause);
                // The window may be a segment further in its count.
                let leaps = meanwhile > 0 || afterwards > expected + 1;
                let message =
                    format!("{config:?} {rules:?} {pause:?}: {meanwhile}, {afterwards} for {expected}");
                assert_eq!(leaps, leaps_by_its_source(config.kind(), rules, pause), "{message}");
            }
        }
    }
}

/// The same for BBR, both versions: rates of a sender that the application limits do not count unless they
/// are larger (Linux: `bbr_update_bw`).
#[test]
fn no_window_of_bbr_leaps_after_time_in_which_it_was_not_used() {
    let rtt = Duration::from_millis(100);
    for config in
        Config::tcp().into_iter().filter(|config| matches!(config, Config::Bbr(_) | Config::Bbr3(_)))
    {
        let mut control = build(config.clone(), Rules::Rfc, 10);
        let (mut now, mut delivered) = (Time::from_secs(1), 0);
        // Acknowledges one segment at the end of a round in which so many were on their way; the window.
        let mut acknowledge = |per_round: u32, is_app_limited: bool| {
            now += Duration::from_nanos(rtt.as_nanos() / u64::from(per_round));
            delivered += u64::from(MSS);
            let of_round = (per_round * MSS).min(delivered as u32);
            let rate = RateSample::new(of_round, rtt, delivered);
            control.on_ack(&AckEvent {
                rtt: Some(rtt),
                min_rtt: Some(rtt),
                rate: Some(RateSample { is_app_limited, ..rate }),
                acknowledged_to: delivered,
                total_acked: delivered,
                sent_to: delivered + u64::from(of_round),
                is_window_limited: !is_app_limited,
                ..AckEvent::new(now, MSS, per_round.min(cwnd(&control)) * MSS)
            });
            cwnd(&control)
        };
        // A minute at 1000 segments per second, one in which one leaves in each round, and five rounds.
        let before = (0..60_000).map(|_| acknowledge(100, false)).skip(30_000).max().unwrap();
        let after = (0..600).map(|_| acknowledge(1, true)).max().unwrap();
        let after = after.max((0..500).map(|_| acknowledge(100, false)).max().unwrap());
        assert!(before >= 200 && after <= before, "{config:?}: {before} {after}");
    }
}

/// The same for coupled windows, of which the other one is not used at all.
#[test]
fn no_coupled_window_leaps_after_time_in_which_it_was_not_used() {
    for config in coupled::Config::all() {
        let control = || {
            let group = coupled::Group::new(config.build());
            let setup = path_setup(true);
            let other = group.join(PathId(1), &setup);
            (Controller::Coupled(group.join(PathId(0), &setup)), other)
        };
        let (first, other) = control();
        let (_, expected) = growth(first, Pause::None);
        drop(other);
        for pause in [Pause::Idle, Pause::Unused] {
            let (first, _other) = control();
            let (meanwhile, afterwards) = growth(first, pause);
            let message = format!("{config:?} {pause:?}: {meanwhile}, {afterwards} for {expected}");
            assert!(meanwhile == 0 && afterwards <= expected + 1, "{message}");
        }
    }
}

/// A path of a coupled control, in TCP or in SCTP.
pub(super) fn path_setup(is_tcp: bool) -> coupled::PathSetup {
    let setup =
        Setup { mss: MSS, initial_cwnd: 60 * MSS, rules: Rules::Rfc, seed: 1, is_paced: false, headers: 0 };
    coupled::PathSetup {
        own: if is_tcp { Config::Reno(reno::Config::default()) } else { Config::default() },
        setup,
        initial_ssthresh: u32::MAX,
        ssthresh_floor: if is_tcp { 2 } else { 4 },
        holds_ssthresh: is_tcp,
    }
}

/// The window in segments after many signs of congestion of this kind, each of them answered.
fn least(mut control: Controller, kind: CongestionKind) -> u32 {
    for second in 1..=80 {
        let now = Time::from_secs(second);
        let outstanding = control.limits().cwnd;
        control.on_congestion(&CongestionEvent::new(now, kind, outstanding));
        if kind != CongestionKind::Timeout {
            control.on_recovery_end(&RecoveryEndEvent::new(now, outstanding));
        }
    }
    cwnd(&control)
}

/// Losses take a window to two segments (RFC 5681 equation 4, RFC 9438 section 4.6; Linux: `ssthresh` of each
/// control), timeouts to one (RFC 5681 section 3.1). Marks take it to one (RFC 3168 section 6.1.2), in Linux
/// to two.
///
/// Linux rounds the decrease of Scalable TCP and YeAH down, to nothing below eight segments. BBR answers
/// neither losses nor marks in version 1, and takes no window below four segments. SCTP's least is four
/// segments (RFC 9260 section 7.2.3), for marks too. Prague's window follows with acknowledgements, and has a
/// test of its own.
#[test]
fn every_floor_is_that_of_its_source() {
    let is_other = |config: &Config| matches!(config, Config::Bbr(_) | Config::Bbr3(_) | Config::Prague(_));
    for config in all().into_iter().filter(|config| !is_other(config)) {
        for rules in RULES {
            let of = |kind| least(build(config.clone(), rules, 60), kind);
            let (loss, mark) = match (config.kind(), rules) {
                ("sctp", _) => (4, 4),
                ("scalable" | "yeah", Rules::Linux2620 | Rules::Linux6) => (7, 7),
                (_, Rules::Rfc) => (2, 1),
                _ => (2, 2),
            };
            let found =
                [CongestionKind::FastRetransmit, CongestionKind::Ecn, CongestionKind::Timeout].map(of);
            // LEDBAT begins with two segments.
            assert_eq!(found, [loss, mark, 1], "{config:?} {rules:?}");
        }
    }
    for config in coupled::Config::all() {
        for is_tcp in [true, false] {
            let of = |kind| {
                let group = coupled::Group::new(config.build());
                let setup = path_setup(is_tcp);
                let _other = group.join(PathId(1), &setup);
                least(Controller::Coupled(group.join(PathId(0), &setup)), kind)
            };
            let (loss, mark) = match (&config, is_tcp) {
                // BALIA with several paths and resource pooling have no least (draft-walid, section 3.1).
                (coupled::Config::Balia(_) | coupled::Config::ResourcePooling(_), _) => (1, 1),
                (_, true) => (2, 1),
                (_, false) => (4, 4),
            };
            let found =
                [CongestionKind::FastRetransmit, CongestionKind::Ecn, CongestionKind::Timeout].map(of);
            assert_eq!(found, [loss, mark, 1], "{config:?}, in TCP: {is_tcp}");
        }
    }
}
