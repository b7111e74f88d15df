//! The lazy link and its evented twin give the same packet times, drops, marks and counters, to the
//! nanosecond, for random rates, timetables, queues, losses, cross traffic and packets.

use anabranch::net::loss::{
    BernoulliConfig, GilbertConfig, LossClock, LossConfig, LossPlace, LossSharing, LossTraceConfig,
};
use anabranch::net::qdisc::{DropTailConfig, QueueConfig};
use anabranch::net::{
    CbrConfig, CrossTrafficConfig, CrossTrafficDirection, Direction, DuplexLink, LinkConfig, OnOffConfig,
    ParetoOnOffConfig, PoissonConfig, RateConfig, Step, WhenDown,
};
use anabranch::schedule::{Schedule, Timetable, TraceFile};
use anabranch_transport::ground::Ecn;
use anabranch_transport::report::Row;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::{Bytes, Probability, Rate};
use proptest::prelude::*;

/// A packet that is given to the link.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    time: Time,
    direction: Direction,
    size: u32,
    ecn: Ecn,
}

/// Gives the packets to the link in the order of time, as an engine with an event per crossing does, and
/// returns what became of each of them. What becomes of packets in a run that ends at `end`, of which the
/// link is told where packets come much later.
fn drive(link: &mut DuplexLink, arrivals: &[Arrival], end: Time) -> Vec<Step> {
    let mut steps = vec![Step::Stays; arrivals.len()];
    let mut crossings: Vec<(Time, usize, Ecn)> = Vec::new();
    let resume_until = |link: &mut DuplexLink, steps: &mut [Step], crossings: &mut Vec<_>, now: Time| {
        crossings.sort_by_key(|&(at, index, _): &(Time, usize, Ecn)| (at, index));
        let due = crossings.partition_point(|&(at, ..)| at <= now);
        for (at, index, ecn) in crossings.drain(..due) {
            let Arrival { direction, size, .. } = arrivals[index];
            steps[index] = link.resume(at, direction, size, ecn);
        }
    };
    for (index, arrival) in arrivals.iter().enumerate() {
        resume_until(link, &mut steps, &mut crossings, arrival.time);
        let now = arrival.time.min(end);
        if arrival.time > now + DuplexLink::AHEAD_LIMIT {
            link.runs_ahead(arrival.direction, now);
        }
        match link.accept(arrival.time, arrival.direction, arrival.size, arrival.ecn) {
            Step::Cross { at, ecn } => crossings.push((at, index, ecn)),
            step => steps[index] = step,
        }
    }
    resume_until(link, &mut steps, &mut crossings, Time::NEVER);
    steps
}

fn finished_row(link: &mut DuplexLink, end: Time) -> Row {
    link.finish(end);
    let mut row = Row::default();
    link.report(&mut row.section("link"));
    row
}

/// Equal names and values; two missing means are equal.
fn assert_same_rows(lazy: &Row, evented: &Row) {
    for ((name, lazy), (_, evented)) in lazy.scalars().zip(evented.scalars()) {
        assert!(lazy == evented || (lazy.is_nan() && evented.is_nan()), "{name}: {lazy} {evented}");
    }
    assert_eq!(lazy.scalars().len(), evented.scalars().len());
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> + Clone {
    (range, 0..1_000_000u64).prop_map(|(millis, nanos)| Duration::from_nanos(millis * 1_000_000 + nanos))
}

fn schedule<T: Clone + std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + Clone + 'static,
) -> BoxedStrategy<Schedule<T>> {
    let steps = prop::collection::vec((millis(1..80), value.clone()), 0..5);
    let timetable =
        (value.clone(), steps, prop::option::of(millis(0..50))).prop_map(|(first, steps, gap)| {
            let mut timetable = vec![(Duration::ZERO, first)];
            let mut at = Duration::ZERO;
            for (after, value) in steps {
                at += after + Duration::from_nanos(1);
                timetable.push((at, value));
            }
            let repeat = gap.map(|gap| at + gap + Duration::from_nanos(1));
            Schedule::Timetable(Timetable { timetable, repeat })
        });
    prop_oneof![2 => value.prop_map(Schedule::Constant), 1 => timetable].boxed()
}

fn rate() -> impl Strategy<Value = RateConfig> {
    let rate = (100_000..20_000_000u64).prop_map(Rate::from_bits_per_sec);
    let trace = prop::collection::vec(0..4u64, 1..40).prop_map(|gaps| {
        let mut at = 0;
        let lines: Vec<String> = gaps
            .into_iter()
            .map(|gap| {
                at += gap;
                at.to_string()
            })
            .chain(["200".to_owned()])
            .collect();
        RateConfig::Mahimahi(TraceFile::parse("trace", &lines.join("\n")).unwrap())
    });
    prop_oneof![4 => schedule(rate).prop_map(RateConfig::Scheduled), 1 => trace]
}

/// Timetables that act together repeat together: after more than the last time of each, or never.
fn repeat() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of(millis(410..500))
}

fn repeated<T>(schedule: Schedule<T>, repeat: Option<Duration>) -> Schedule<T> {
    match schedule {
        Schedule::Timetable(table) => Schedule::Timetable(Timetable { repeat, ..table }),
        Schedule::Constant(value) => Schedule::Constant(value),
    }
}

fn queue() -> impl Strategy<Value = QueueConfig> {
    let packets = |most: u32| prop::option::of(schedule(0..most));
    let bytes = |most: u64| prop::option::of(schedule((0..most).prop_map(Bytes)));
    (packets(12), bytes(9_000), packets(6), bytes(4_000), repeat()).prop_map(
        |(packets, bytes, mark_packets, mark_bytes, repeat)| {
            QueueConfig::DropTail(DropTailConfig {
                measure: false,
                packets: packets.map(|limit| repeated(limit, repeat)),
                bytes: bytes.map(|limit| repeated(limit, repeat)),
                mark_packets: mark_packets.map(|threshold| repeated(threshold, repeat)),
                mark_bytes: mark_bytes.map(|threshold| repeated(threshold, repeat)),
            })
        },
    )
}

fn probability() -> impl Strategy<Value = Probability> + Clone {
    (0..=100u32).prop_map(|percent| Probability::new(f64::from(percent) / 100.0).unwrap())
}

fn place() -> impl Strategy<Value = LossPlace> {
    prop_oneof![Just(LossPlace::Ingress), Just(LossPlace::Wire)]
}

fn sharing() -> impl Strategy<Value = LossSharing> {
    prop_oneof![Just(LossSharing::PerDirection), Just(LossSharing::Shared)]
}

fn loss() -> impl Strategy<Value = LossConfig> {
    let bernoulli = (schedule(probability()), place())
        .prop_map(|(probability, at)| LossConfig::Bernoulli(BernoulliConfig { probability, at }));
    let clock = prop_oneof![
        Just(LossClock::Bit),
        Just(LossClock::OnArrival),
        Just(LossClock::Packet),
        Just(LossClock::Slot)
    ];
    let numbers =
        (schedule(millis(1..20)), schedule(probability()), schedule(probability()), schedule(probability()));
    let gilbert = (clock, numbers, repeat(), place(), sharing()).prop_map(
        |(clock, (slot, p, r, loss_in_bad), repeat, at, sharing)| {
            LossConfig::Gilbert(GilbertConfig {
                clock,
                slot: repeated(slot, repeat),
                p: Some(repeated(p, repeat)),
                r: Some(repeated(r, repeat)),
                loss_in_bad: repeated(loss_in_bad, repeat),
                at,
                sharing,
                ..GilbertConfig::default()
            })
        },
    );
    let trace =
        (prop::collection::vec(0..2u32, 1..30), place(), sharing()).prop_map(|(lines, at, sharing)| {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let file = Some(TraceFile::parse("trace", &lines.join("\n")).unwrap());
            LossConfig::Trace(LossTraceConfig { file, at, sharing, ..LossTraceConfig::default() })
        });
    prop_oneof![2 => Just(LossConfig::None), 1 => bernoulli, 2 => gilbert, 1 => trace]
}

fn cross_traffic() -> impl Strategy<Value = CrossTrafficConfig> {
    let direction = prop_oneof![
        Just(CrossTrafficDirection::Both),
        Just(CrossTrafficDirection::Forward),
        Just(CrossTrafficDirection::Reverse)
    ];
    let load = (10_000..3_000_000u64).prop_map(|bits| Some(Rate::from_bits_per_sec(bits)));
    let span = (millis(0..100), prop::option::of(millis(0..400)));
    (0..8u32, direction, 40..1500u64, load, span, millis(1..60), millis(0..60)).prop_map(
        |(kind, direction, packet, rate, (start, length), on, off)| {
            let packet = Bytes(packet);
            let stop = length.map(|length| start + length);
            match kind {
                0 => CrossTrafficConfig::Cbr(CbrConfig { direction, packet, rate, start, stop }),
                1 => CrossTrafficConfig::OnOff(OnOffConfig { direction, packet, rate, on, off, start, stop }),
                2 => CrossTrafficConfig::ParetoOnOff(ParetoOnOffConfig {
                    direction,
                    packet,
                    rate,
                    on,
                    off,
                    start,
                    stop,
                    ..ParetoOnOffConfig::default()
                }),
                _ => CrossTrafficConfig::Poisson(PoissonConfig {
                    direction,
                    packet,
                    rate,
                    start,
                    stop,
                    ..PoissonConfig::default()
                }),
            }
        },
    )
}

fn link() -> impl Strategy<Value = LinkConfig> {
    let down = prop_oneof![Just(WhenDown::Blackhole), Just(WhenDown::Drop), Just(WhenDown::Hold)];
    let up = prop_oneof![3 => Just(Schedule::Constant(true)), 1 => schedule(any::<bool>())];
    let never = |share: BoxedStrategy<_>| prop_oneof![3 => Just(Schedule::default()), 1 => share];
    let jitter = prop_oneof![Just(Schedule::default()), schedule(millis(0..5))];
    let delays = (schedule(millis(0..40)), jitter, any::<bool>());
    (
        rate(),
        delays,
        (never(schedule(probability())), never(schedule(probability()))),
        queue(),
        loss(),
        (up, down),
        prop::collection::vec(cross_traffic(), 0..3),
    )
        .prop_map(
            |(rate, (delay, jitter, reorder), (duplicate, corrupt), queue, loss, (up, down), cross)| {
                // Cross traffic and a process that packets move exclude each other.
                let cross_traffic = match &loss {
                    LossConfig::None => cross,
                    LossConfig::Gilbert(gilbert)
                        if gilbert.clock == LossClock::Slot && gilbert.at == LossPlace::Wire =>
                    {
                        cross
                    }
                    LossConfig::Bernoulli(bernoulli) if bernoulli.at == LossPlace::Wire => cross,
                    _ => Vec::new(),
                };
                LinkConfig {
                    rate: Some(rate),
                    delay,
                    jitter,
                    reorder,
                    duplicate,
                    corrupt,
                    queue,
                    loss,
                    up,
                    down,
                    cross_traffic,
                    ..LinkConfig::default()
                }
            },
        )
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    // Bursts, moderate gaps and long silences, so that queues fill, drain and idle.
    let gap = prop_oneof![2 => 0..3_000u64, 4 => 0..8_000_000u64, 1 => 0..120_000_000u64];
    let direction = prop_oneof![3 => Just(Direction::Forward), 1 => Just(Direction::Reverse)];
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let size = prop_oneof![Just(48u32), Just(208), Just(1500), 1..9_000u32];
    prop::collection::vec((gap, direction, size, ecn), 1..120).prop_map(|packets| {
        let mut now = 0;
        packets
            .into_iter()
            .map(|(gap, direction, size, ecn)| {
                now += gap;
                Arrival { time: Time::from_nanos(now), direction, size, ecn }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn lazy_is_evented(
        config in link(),
        arrivals in arrivals(),
        seed in any::<u64>(),
        share_of_run in 0..150u64,
    ) {
        let streams = Streams { seed, replication: 0 };
        let mut lazy = DuplexLink::build(&config, "x", streams).unwrap();
        let mut evented = DuplexLink::build_traced(&config, "x", streams).unwrap();
        let last = arrivals[arrivals.len() - 1].time;
        let end = Time::from_nanos(last.as_nanos() * share_of_run / 100);
        prop_assert_eq!(drive(&mut lazy, &arrivals, end), drive(&mut evented, &arrivals, end));
        assert_same_rows(&finished_row(&mut lazy, end), &finished_row(&mut evented, end));
    }

    /// Where a link says that it can run ahead, one direction after the other gives what the order of time
    /// gives, also with a chain of time slots that both share.
    #[test]
    fn running_ahead_changes_nothing(config in link(), arrivals in arrivals(), seed in any::<u64>()) {
        let streams = Streams { seed, replication: 0 };
        let mut in_time = DuplexLink::build(&config, "x", streams).unwrap();
        let mut ahead = in_time.clone();
        prop_assume!(in_time.can_run_ahead());
        let expected = drive(&mut in_time, &arrivals, Time::NEVER);
        let mut steps = vec![Step::Stays; arrivals.len()];
        let end = arrivals[arrivals.len() / 2].time;
        for direction in Direction::BOTH {
            for (index, arrival) in arrivals.iter().enumerate() {
                if arrival.direction == direction {
                    let now = arrival.time.min(end);
                    if arrival.time > now + DuplexLink::AHEAD_LIMIT {
                        ahead.runs_ahead(direction, now);
                    }
                    steps[index] = ahead.accept(arrival.time, direction, arrival.size, arrival.ecn);
                }
            }
        }
        prop_assert_eq!(steps, expected);
        // Nor do the counters, if the run ends when it has come to this time.
        let mut asked_in_time = DuplexLink::build(&config, "x", streams).unwrap();
        let until_end: Vec<Arrival> = arrivals.iter().copied().take_while(|arrival| arrival.time <= end).collect();
        drive(&mut asked_in_time, &until_end, Time::NEVER);
        let (ahead, in_time) = (finished_row(&mut ahead, end), finished_row(&mut asked_in_time, end));
        for ((name, ahead), (_, in_time)) in ahead.scalars().zip(in_time.scalars()) {
            prop_assert!(ahead == in_time || (ahead.is_nan() && in_time.is_nan()), "{}: {} {}", name, ahead, in_time);
        }
    }

    #[test]
    fn order_is_kept_where_a_link_says_so(config in link(), arrivals in arrivals(), seed in any::<u64>()) {
        let mut link = DuplexLink::build(&config, "x", Streams { seed, replication: 0 }).unwrap();
        let steps = drive(&mut link, &arrivals, Time::NEVER);
        for direction in Direction::BOTH {
            if !link.keeps_order(direction) {
                continue;
            }
            let mut last = Time::ZERO;
            for (arrival, step) in arrivals.iter().zip(&steps) {
                if let Step::Deliver { at, .. } = *step
                    && arrival.direction == direction
                {
                    prop_assert!(at >= last.max(arrival.time));
                    last = at;
                }
            }
        }
    }
}
