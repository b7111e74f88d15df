//! Properties of links, for random rates, timetables, queues, losses, cross traffic and packets. A queue that
//! is evaluated when a packet comes and one that a medium serves packet by packet give the same times, drops,
//! marks and counters, to the nanosecond.

use anabranch_transport::flow::Ecn;
use anabranch_transport::report::Row;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::{Bytes, Probability, Rate};
use indexmap::IndexMap;
use proptest::prelude::*;

use super::loss::{
    BernoulliConfig, GilbertConfig, LossClock, LossConfig, LossPlace, LossSharing, LossTraceConfig,
};
use super::packets::{Held, QueueSample, Release, Treatment};
use super::qdisc::{DropTailConfig, QueueConfig};
use super::{
    CbrConfig, CrossTrafficConfig, CrossTrafficDirection, Direction, DuplexLink, JitterShape, LinkConfig,
    Media, OnOffConfig, ParetoOnOffConfig, PoissonConfig, RateConfig, Step, WhenDown,
};
use crate::schedule::{Schedule, Timetable, TraceFile};

/// A packet that is given to the link.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    time: Time,
    direction: Direction,
    size: u32,
    ecn: Ecn,
}

/// What becomes of packets.
#[derive(Debug)]
struct Driven {
    /// A packet of which nothing is known by the end stays.
    steps: Vec<Step>,
    /// When the server begins with each packet, and when it leaves, if the link is traced.
    services: Vec<Option<(Time, Time)>>,
}

impl Driven {
    fn new(packets: usize) -> Self {
        Self { steps: vec![Step::Stays; packets], services: vec![None; packets] }
    }
}

/// Gives the packets to the link in the order of time, as an engine with an event per crossing does, for a
/// run that ends at `end`, of which the link is told where packets come much later.
fn drive(link: &mut DuplexLink, arrivals: &[Arrival], end: Time) -> Driven {
    let mut driven = Driven::new(arrivals.len());
    let mut crossings: Vec<(Time, usize, Ecn)> = Vec::new();
    let resume_until = |link: &mut DuplexLink, steps: &mut [Step], crossings: &mut Vec<_>, now: Time| {
        crossings.sort_by_key(|&(at, index, _): &(Time, usize, Ecn)| (at, index));
        let due = crossings.partition_point(|&(at, ..)| at <= now);
        for (at, index, ecn) in crossings.drain(..due) {
            let Arrival { direction, size, .. } = arrivals[index];
            steps[index] = link.resume(at, direction, size, ecn);
        }
    };
    for (index, &Arrival { time, direction, size, ecn }) in arrivals.iter().enumerate() {
        resume_until(link, &mut driven.steps, &mut crossings, time);
        let now = time.min(end);
        if time > now + DuplexLink::AHEAD_LIMIT {
            link.runs_ahead(direction, time, now);
        }
        match link.accept(time, direction, size, ecn) {
            Step::Cross { at, ecn } => crossings.push((at, index, ecn)),
            step => driven.steps[index] = step,
        }
        driven.services[index] = link.take_service(direction);
    }
    resume_until(link, &mut driven.steps, &mut crossings, Time::NEVER);
    driven
}

/// A link whose queues a medium serves packet by packet.
struct QueuedLink {
    link: DuplexLink,
    media: Media,
}

impl QueuedLink {
    fn build(config: &LinkConfig, streams: Streams) -> Self {
        // A link into which packets can come in pieces is served so.
        let config = LinkConfig { mtu: Some(Bytes(65_535)), ..config.clone() };
        let link = DuplexLink::build_traced(&config, "x", streams).unwrap();
        let media = Media::build(&IndexMap::from([("x".to_owned(), config)]), streams, true).unwrap();
        Self { link, media }
    }

    /// Gives it the packets that come by `end`, and lets everything happen up to then.
    fn drive(&mut self, arrivals: &[Arrival], end: Time) -> Driven {
        let mut driven = Driven::new(arrivals.len());
        for (index, &Arrival { time, direction, size, ecn }) in arrivals.iter().enumerate() {
            if time > end {
                break;
            }
            self.advance(time, &mut driven);
            if let Err(step) = self.link.hold(time, direction, size) {
                driven.steps[index] = step;
                continue;
            }
            let (medium, port) = self.media.port(0, direction).unwrap();
            let (slot, arrived) = (index as u32, time.as_nanos());
            let found_units = 0;
            let held = Held {
                slot,
                arrived,
                size,
                ecn,
                flow: 0,
                hosts: [0; 2],
                treatment: Treatment::default(),
                found_units,
            };
            let mut releases = Vec::new();
            self.media.list[medium as usize].accept(port, held, &mut releases);
            self.release(releases, &mut driven);
        }
        self.advance(end, &mut driven);
        driven
    }

    /// Handles the events of the media up to `now`; at equal times packets leave in the order in which they
    /// came.
    fn advance(&mut self, now: Time, driven: &mut Driven) {
        loop {
            let next = self.media.list.iter().map(super::medium::Medium::next_event).min().unwrap();
            if next > now {
                return;
            }
            let mut releases = Vec::new();
            for medium in self.media.list.iter_mut().filter(|medium| medium.next_event() == next) {
                medium.handle_event(next, &mut releases);
            }
            releases.sort_by_key(|release| release.packet.slot);
            self.release(releases, driven);
        }
    }

    fn release(&mut self, releases: Vec<Release>, driven: &mut Driven) {
        for release in releases {
            let slot = release.packet.slot as usize;
            driven.steps[slot] = self.link.release(&release);
            let left = Time::from_nanos(release.at);
            driven.services[slot] = release.begun.map(|begun| (Time::from_nanos(begun), left));
        }
    }

    fn finished_row(&mut self, end: Time) -> Row {
        self.media.finish(end);
        self.link.finish(end);
        let mut row = Row::default();
        self.link.report(&mut row.section("link"));
        self.media.report(0, &mut row.section("link"));
        row
    }
}

fn finished_row(link: &mut DuplexLink, end: Time) -> Row {
    link.finish(end);
    let mut row = Row::default();
    link.report(&mut row.section("link"));
    row
}

/// What waited from a time on, up to `end`, without samples that change nothing.
fn changes(samples: Vec<QueueSample>, end: Time) -> Vec<QueueSample> {
    let mut changes: Vec<QueueSample> = Vec::new();
    for sample in samples.into_iter().filter(|sample| sample.time <= end) {
        if changes.last().is_some_and(|last| last.time == sample.time) {
            changes.pop();
        }
        let (packets, bytes) = changes.last().map_or((0, 0), |last| (last.packets, last.bytes));
        if (packets, bytes) != (sample.packets, sample.bytes) {
            changes.push(sample);
        }
    }
    changes
}

/// Equal names and values; two missing means are equal.
fn assert_same_rows(one: &Row, other: &Row) {
    for ((name, one), (_, other)) in one.scalars().zip(other.scalars()) {
        assert!(one == other || (one.is_nan() && other.is_nan()), "{name}: {one} {other}");
    }
    assert_eq!(one.scalars().len(), other.scalars().len());
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
    let shape = prop_oneof![Just(JitterShape::Uniform), Just(JitterShape::TruncatedNormal)];
    let delays = (schedule(millis(0..40)), (jitter, shape), any::<bool>());
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
            |(
                rate,
                (delay, (jitter, jitter_shape), reorder),
                (duplicate, corrupt),
                queue,
                loss,
                (up, down),
                cross,
            )| {
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
                    jitter_shape,
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

    /// Rows and traces of a link are the same however its queues are served; and whether it is traced.
    #[test]
    fn evaluating_a_queue_late_changes_nothing(
        config in link(),
        arrivals in arrivals(),
        seed in any::<u64>(),
        share_of_run in 0..150u64,
    ) {
        let streams = Streams { seed, replication: 0 };
        let mut plain = DuplexLink::build(&config, "x", streams).unwrap();
        let mut traced = DuplexLink::build_traced(&config, "x", streams).unwrap();
        let last = arrivals[arrivals.len() - 1].time;
        let end = Time::from_nanos(last.as_nanos() * share_of_run / 100);
        let driven = drive(&mut traced, &arrivals, end);
        prop_assert_eq!(&drive(&mut plain, &arrivals, end).steps, &driven.steps);
        let row = finished_row(&mut plain, end);
        assert_same_rows(&row, &finished_row(&mut traced, end));

        let mut queued = QueuedLink::build(&config, streams);
        let by_end = queued.drive(&arrivals, end);
        let queued_row = queued.finished_row(end);
        for (name, value) in row.scalars() {
            // A medium reports waiting times of its own, and makes the copy of a packet when that leaves it.
            if ["mean_wait_ms", "duplicated_packets", "in_link_packets"].iter().any(|it| name.ends_with(it)) {
                continue;
            }
            let queued = queued_row.value(name);
            let is_same = queued.is_some_and(|queued| queued == value || (queued.is_nan() && value.is_nan()));
            prop_assert!(is_same, "{}: {} {:?}", name, value, queued);
        }
        for way in Direction::BOTH.map(Direction::name) {
            let value = |row: &Row, name| row.value(&format!("link.{way}.{name}")).unwrap();
            let originals = |row| value(row, "in_link_packets") - value(row, "duplicated_packets");
            prop_assert_eq!(originals(&row), originals(&queued_row));
        }
        for direction in Direction::BOTH {
            prop_assert_eq!(
                changes(traced.take_queue_samples(direction), end),
                changes(queued.media.take_queue_samples(0, direction), end)
            );
        }
        for (index, arrival) in arrivals.iter().enumerate().filter(|(_, arrival)| arrival.time <= end) {
            let (step, service) = (driven.steps[index], driven.services[index]);
            if by_end.steps[index] != Step::Stays {
                prop_assert_eq!(by_end.steps[index], step, "{:?}", arrival);
                prop_assert_eq!(by_end.services[index], service, "{:?}", arrival);
            } else if let Some((_, left)) = service {
                prop_assert!(left > end, "{:?}", arrival);
            }
        }
    }

    /// Where a link says that it can run ahead, one direction after the other gives what the order of time
    /// gives, also with a chain of time slots that both share.
    #[test]
    fn running_ahead_changes_nothing(config in link(), arrivals in arrivals(), seed in any::<u64>()) {
        let streams = Streams { seed, replication: 0 };
        let mut in_time = DuplexLink::build(&config, "x", streams).unwrap();
        if !in_time.can_run_ahead() {
            return Ok(());
        }
        let mut ahead = in_time.clone();
        let expected = drive(&mut in_time, &arrivals, Time::NEVER).steps;
        let mut steps = vec![Step::Stays; arrivals.len()];
        let end = arrivals[arrivals.len() / 2].time;
        for direction in Direction::BOTH {
            for (index, arrival) in arrivals.iter().enumerate() {
                if arrival.direction == direction {
                    let now = arrival.time.min(end);
                    if arrival.time > now + DuplexLink::AHEAD_LIMIT {
                        ahead.runs_ahead(direction, arrival.time, now);
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
        let steps = drive(&mut link, &arrivals, Time::NEVER).steps;
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
