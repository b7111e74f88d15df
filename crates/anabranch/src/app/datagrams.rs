//! Load as an ordinary flow: messages of one size at constant, random or bursty intervals, over
//! whatever transport the flow has.
//!
//! Load that only has to fill one link's queue is cheaper as that link's lazy cross traffic.

use anabranch_transport::endpoint::{Command, Event, Message, Service, StreamId};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantiles::quantiles_ms;
use super::{App, Commands, ReliabilityConfig, Start};

/// For how many messages it is remembered when they were made, until they arrive. The delay of an older one
/// is not measured. A power of two.
const REMEMBERED: usize = 1 << 13;

/// The largest message, in bytes: that of a UDP datagram with RTP in an IPv4 packet.
const MAX_SIZE: u64 = 65_535 - 20 - 8 - 12;

/// How long a measured load waits for messages in flight after it made the last one.
const GRACE: Duration = Duration::from_secs(1);

declare! {
    /// The scalars of a load of messages.
    SCALARS:
    /// Messages made.
    SENT = "sent": One;
    /// Messages that arrived.
    RECEIVED = "received": One;
    /// Messages that were not handed to the transport because the connection was not open.
    UNSENT = "unsent": One;
    /// Messages for which the transport had no room.
    REFUSED = "refused": One;
    /// Messages that the transport gave up; some may have arrived all the same.
    ABANDONED = "abandoned": One;
    /// Copies of messages that had arrived before.
    DUPLICATES = "duplicates": One;
    /// Bits of the messages that arrived by the time in which messages were made.
    GOODPUT_KBIT_PER_S = "goodput_kbit_per_s": KilobitsPerSecond, More;
    /// Mean one-way delay of the messages that arrived.
    MEAN_DELAY_MS = "mean_delay_ms": Millis, Less;
    /// The longest of these delays.
    MAX_DELAY_MS = "max_delay_ms": Millis, Less;
    /// Half of these delays are at most this long; only with `delay_quantiles`.
    P50_DELAY_MS = "p50_delay_ms": Millis, Less;
    /// 95 % of these delays are at most this long; only with `delay_quantiles`.
    P95_DELAY_MS = "p95_delay_ms": Millis, Less;
    /// 99 % of these delays are at most this long; only with `delay_quantiles`.
    P99_DELAY_MS = "p99_delay_ms": Millis, Less;
    /// The longest time between two deliveries; only with `gaps_after`.
    LONGEST_GAP_MS = "longest_gap_ms": Millis, Less;
    /// When that time ended; only with `gaps_after`.
    LONGEST_GAP_END_S = "longest_gap_end_s": Seconds;
    /// Times longer than 200 ms between two deliveries; only with `gaps_after`.
    STALLS = "stalls": One;
    /// The sum of these times; only with `gaps_after`.
    STALLED_S = "stalled_s": Seconds, Less;
}

/// Messages of one size.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatagramsConfig {
    /// Rate of the payload while it is on; default "100 kbit/s".
    pub rate: Rate,
    /// Payload of a message, 1 B to 65495 B; default "500 B".
    pub size: Bytes,
    /// How the messages are spaced; default `{ kind = "poisson" }`.
    pub intervals: Intervals,
    /// When the first message is made: a time, or a range to draw it from; default "0 s".
    pub start: Start,
    /// How long messages are made; by default until the end of the run.
    pub duration: Option<Duration>,
    /// Whether the run waits for the end of `duration`; default false.
    pub measure: bool,
    /// Whether the flow's end `to` sends instead of its end `from`; default false.
    pub reverse: bool,
    /// How hard the transport tries to deliver each message (SCTP); default "reliable".
    pub reliability: ReliabilityConfig,
    /// Whether messages are delivered without regard to their order (SCTP); default true.
    pub unordered: bool,
    /// How many streams (SCTP) the messages take in turn; default 1.
    #[serde(skip_serializing_if = "is_one")]
    pub streams: u16,
    /// The time after which intervals without a delivery must end to be reported; by default none are.
    pub gaps_after: Option<Duration>,
    /// Whether quantiles of the delay are also reported, for which every delay is kept in memory; default
    /// false.
    pub delay_quantiles: bool,
}

impl Default for DatagramsConfig {
    fn default() -> Self {
        Self {
            rate: Rate::from_bits_per_sec(100_000),
            size: Bytes(500),
            intervals: Intervals::Poisson {},
            start: Start::At(Duration::ZERO),
            duration: None,
            measure: false,
            reverse: false,
            reliability: ReliabilityConfig::Reliable,
            unordered: true,
            streams: 1,
            gaps_after: None,
            delay_quantiles: false,
        }
    }
}

/// One stream is the default, which is left out so that studies keep their hash.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_one(streams: &u16) -> bool {
    *streams == 1
}

/// How messages are spaced.
///
/// Kinds without keys are written with braces since serde lets unknown keys of unit variants pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Intervals {
    /// Equal intervals.
    Cbr {},
    /// Equal intervals during on-times, none during off-times, both exponentially distributed.
    OnOff {
        /// Mean on-time.
        on: Duration,
        /// Mean off-time.
        off: Duration,
    },
    /// As `on_off`, with Pareto-distributed times. Many such sources together are self-similar (W.
    /// Willinger, M. Taqqu, R. Sherman, D. Wilson, IEEE/ACM Transactions on Networking 5(1), 1997).
    ParetoOnOff {
        /// Mean on-time.
        on: Duration,
        /// Mean off-time.
        off: Duration,
        /// Shape of both distributions, above 1 and up to 10; default 1.5.
        #[serde(default = "default_shape")]
        shape: f64,
    },
    /// Exponentially distributed intervals.
    Poisson {},
}

const fn default_shape() -> f64 {
    1.5
}

impl DatagramsConfig {
    /// Builds the load of the flow `flow` over a transport that offers `service`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str, service: Service) -> Result<Datagrams, String> {
        if !(1..=MAX_SIZE).contains(&self.size.0) {
            return Err(format!("size = \"{}\" is not from 1 B to {MAX_SIZE} B", self.size));
        }
        let (longest, what) = match service {
            Service::Messages { longest, .. } => (longest, "send buffer"),
            Service::Streams { longest_datagram } => (longest_datagram.into(), "datagram"),
            Service::Datagrams | Service::Stream => (u64::MAX, ""),
        };
        if self.size.0 > longest {
            return Err(format!("size = \"{}\" is larger than a {what} of {longest} B", self.size));
        }
        if self.streams == 0 {
            return Err("streams = 0 is not from 1 to 65535".to_owned());
        }
        if self.measure && self.duration.is_none() {
            return Err("measure = true needs a duration, such as \"60 s\", to wait for".to_owned());
        }
        if let Intervals::OnOff { on, off } | Intervals::ParetoOnOff { on, off, .. } = self.intervals
            && (on == Duration::ZERO || off == Duration::ZERO)
        {
            return Err(format!("intervals.on = \"{on}\" and off = \"{off}\" are not both above 0 s"));
        }
        if let Intervals::ParetoOnOff { shape, .. } = self.intervals
            && !(shape > 1.0 && shape <= 10.0)
        {
            return Err(format!("intervals.shape = {shape} is not above 1 and up to 10"));
        }
        // The rate is at most 10 Tbit/s and a message has at least one byte, so an interval is at least 0.8
        // ps, which is raised to 1 ns.
        let bits = u128::from(self.size.0) * 8 * 1_000_000_000;
        let interval = (bits / u128::from(self.rate.bits_per_sec())).clamp(1, u128::from(u64::MAX)) as u64;
        // The connection opens at 0, in a separate wake-up.
        let start = self.start.draw(&mut streams.stream(&format!("app/{flow}/start")))?;
        let start = start.max(Time::from_nanos(1));
        let rng = streams.stream(&format!("app/{flow}/intervals"));
        Ok(Datagrams {
            sender: if self.reverse { Side::B } else { Side::A },
            streams: self.streams,
            message: Message {
                unordered: self.unordered,
                reliability: self.reliability.into(),
                ..Message::new(Payload { offset: 0, length: self.size.0 as u32 })
            },
            spacing: Spacing::new(self.intervals, Duration::from_nanos(interval), rng),
            start,
            end: self.duration.map_or(Time::NEVER, |duration| start + duration),
            is_measured: self.measure,
            phase: Phase::Connecting,
            next_wakeup: Time::ZERO,
            is_up: false,
            made: vec![Time::NEVER; REMEMBERED],
            count: 0,
            unsent: 0,
            abandoned: 0,
            refused: 0,
            received: 0,
            duplicates: 0,
            delays: 0,
            delay_sum_ns: 0,
            delay_max: Duration::ZERO,
            all_delays: self.delay_quantiles.then(Vec::new),
            gaps: self.gaps_after.map(|after| Gaps::new(Time::ZERO + after)),
        })
    }
}

/// A load that is being generated.
#[derive(Debug)]
pub struct Datagrams {
    streams: u16,
    sender: Side,
    message: Message,
    spacing: Spacing,
    start: Time,
    end: Time,
    is_measured: bool,
    phase: Phase,
    next_wakeup: Time,
    is_up: bool,
    /// When the last messages were made, by index modulo [`REMEMBERED`]; [`Time::NEVER`] once they have
    /// arrived.
    made: Vec<Time>,
    count: u64,
    unsent: u64,
    abandoned: u64,
    refused: u64,
    received: u64,
    duplicates: u64,
    delays: u64,
    delay_sum_ns: u64,
    delay_max: Duration,
    all_delays: Option<Vec<Duration>>,
    gaps: Option<Gaps>,
}

/// The purpose of the next wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Sending,
    Waiting,
    Done,
}

impl App for Datagrams {
    fn next_wakeup(&self) -> Time {
        self.next_wakeup
    }

    fn handle_wakeup(&mut self, _now: Time, commands: &mut Commands) {
        match self.phase {
            Phase::Sending => self.make_message(commands),
            Phase::Connecting => {
                commands.push(Side::A, Command::Connect);
                self.phase = Phase::Sending;
                self.next_wakeup = self.start;
            }
            Phase::Waiting => {
                self.phase = Phase::Done;
                self.next_wakeup = Time::NEVER;
            }
            Phase::Done => {}
        }
    }

    fn handle_event(&mut self, now: Time, side: Side, event: &Event, _commands: &mut Commands) {
        match *event {
            Event::Received(received) if side != self.sender => self.arrival(now, received.payload),
            // A message has arrived with its last part, which lies within it.
            Event::ReceivedPart(part) if side != self.sender && part.is_last => {
                self.arrival(now, part.payload);
            }
            Event::Abandoned(_) if side == self.sender => self.abandoned += 1,
            Event::Refused(_) if side == self.sender => self.refused += 1,
            // The end that opened the connection is told last, so both can send now.
            Event::Connected if side == Side::A => self.is_up = true,
            Event::Closed(_) if side == self.sender => self.is_up = false,
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        !self.is_measured || self.phase == Phase::Done
    }

    fn report(&self, now: Time, report: &mut Report<'_>) {
        let elapsed_s = now.min(self.end).saturating_since(self.start).as_secs_f64();
        let received_bits = (self.received * u64::from(self.message.payload.length) * 8) as f64;
        let mean_ms = self.delay_sum_ns as f64 / self.delays as f64 / 1e6;
        report.count(SENT, self.count);
        report.count(RECEIVED, self.received);
        report.count(UNSENT, self.unsent);
        report.count(REFUSED, self.refused);
        report.count(ABANDONED, self.abandoned);
        report.count(DUPLICATES, self.duplicates);
        report.scalar(GOODPUT_KBIT_PER_S, received_bits / elapsed_s / 1e3);
        report.scalar(MEAN_DELAY_MS, mean_ms);
        report.scalar(MAX_DELAY_MS, if self.delays == 0 { f64::NAN } else { self.delay_max.as_millis_f64() });
        if let Some(delays) = &self.all_delays {
            let [p50, p95, p99] = quantiles_ms(&mut delays.clone(), [0.5, 0.95, 0.99]);
            report.scalar(P50_DELAY_MS, p50);
            report.scalar(P95_DELAY_MS, p95);
            report.scalar(P99_DELAY_MS, p99);
        }
        if let Some(gaps) = &self.gaps {
            gaps.report(report);
        }
    }

    fn memory(&self) -> usize {
        self.all_delays.as_ref().map_or(0, |delays| size_of_val(delays.as_slice()))
    }
}

impl Datagrams {
    fn make_message(&mut self, commands: &mut Commands) {
        let now = self.next_wakeup;
        self.message.payload.offset = self.count * u64::from(self.message.payload.length);
        self.message.stream = StreamId(self.count % u64::from(self.streams));
        self.made[self.count as usize % REMEMBERED] = now;
        self.count += 1;
        if self.is_up {
            commands.push(self.sender, Command::Send(self.message));
        } else {
            self.unsent += 1;
        }
        self.next_wakeup = now + self.spacing.next();
        if self.next_wakeup >= self.end {
            self.phase = Phase::Waiting;
            self.next_wakeup = self.end + GRACE;
        }
    }

    fn arrival(&mut self, now: Time, payload: Payload) {
        let index = payload.offset / u64::from(self.message.payload.length);
        if self.count - index <= REMEMBERED as u64 {
            let made = std::mem::replace(&mut self.made[index as usize % REMEMBERED], Time::NEVER);
            if made.is_never() {
                self.duplicates += 1;
                return;
            }
            let delay = now - made;
            self.delays += 1;
            self.delay_sum_ns += delay.as_nanos();
            self.delay_max = self.delay_max.max(delay);
            if let Some(delays) = &mut self.all_delays {
                delays.push(delay);
            }
        }
        self.received += 1;
        if let Some(gaps) = &mut self.gaps {
            gaps.on_delivery(now);
        }
    }
}

/// Intervals without a delivery. The one that is open at the end of the run does not count.
#[derive(Debug)]
struct Gaps {
    /// Intervals that end after this time count.
    after: Time,
    last_delivery: Time,
    longest: Duration,
    longest_end: Time,
    stalls: u64,
    stalled: Duration,
}

/// Longer intervals without a delivery are stalls, which harm a conversation (ITU-T G.114 asks for delays
/// below 150 ms, never above 400 ms).
const STALL: Duration = Duration::from_millis(200);

impl Gaps {
    const fn new(after: Time) -> Self {
        Self {
            after,
            last_delivery: Time::ZERO,
            longest: Duration::ZERO,
            longest_end: Time::ZERO,
            stalls: 0,
            stalled: Duration::ZERO,
        }
    }

    fn on_delivery(&mut self, now: Time) {
        let gap = now - self.last_delivery;
        self.last_delivery = now;
        if now <= self.after {
            return;
        }
        if gap > self.longest {
            self.longest = gap;
            self.longest_end = now;
        }
        if gap > STALL {
            self.stalls += 1;
            self.stalled += gap;
        }
    }

    fn report(&self, report: &mut Report<'_>) {
        let none = self.longest == Duration::ZERO;
        report.scalar(LONGEST_GAP_MS, if none { f64::NAN } else { self.longest.as_millis_f64() });
        report.scalar(LONGEST_GAP_END_S, if none { f64::NAN } else { self.longest_end.as_secs_f64() });
        report.scalar(STALLS, self.stalls as f64);
        report.scalar(STALLED_S, self.stalled.as_secs_f64());
    }
}

/// Draws the time from one message to the next.
#[derive(Debug)]
struct Spacing {
    intervals: Intervals,
    /// The interval at the configured rate.
    interval: Duration,
    /// The rest of the current on-time.
    on_left: Duration,
    rng: Rng,
}

impl Spacing {
    fn new(intervals: Intervals, interval: Duration, rng: Rng) -> Self {
        let mut spacing = Self { intervals, interval, on_left: Duration::ZERO, rng };
        if let Intervals::OnOff { on, .. } | Intervals::ParetoOnOff { on, .. } = intervals {
            spacing.on_left = spacing.draw(on);
        }
        spacing
    }

    /// The interval is never zero, so that time advances.
    fn next(&mut self) -> Duration {
        match self.intervals {
            Intervals::Cbr {} => self.interval,
            Intervals::OnOff { on, off } | Intervals::ParetoOnOff { on, off, .. } => {
                self.next_bursty(on, off)
            }
            Intervals::Poisson {} => {
                self.interval.scaled(self.rng.exponential()).max(Duration::from_nanos(1))
            }
        }
    }

    /// Within an on-time, messages are an interval apart, so their mean rate is exactly rate x on/(on + off).
    fn next_bursty(&mut self, on: Duration, off: Duration) -> Duration {
        let mut needed = self.interval;
        let mut gap = Duration::ZERO;
        while self.on_left < needed {
            needed -= self.on_left;
            gap += self.on_left;
            gap += self.draw(off);
            self.on_left = self.draw(on);
        }
        self.on_left -= needed;
        gap + needed
    }

    /// An on- or off-time with this mean.
    fn draw(&mut self, mean: Duration) -> Duration {
        match self.intervals {
            // Inverse of the distribution function 1 - (scale/x)^shape, whose mean is
            // scale x shape/(shape - 1).
            Intervals::ParetoOnOff { shape, .. } => {
                let scale = (shape - 1.0) / shape;
                mean.scaled(scale * libm::pow(self.rng.uniform_positive(), -1.0 / shape))
            }
            Intervals::Cbr {} | Intervals::OnOff { .. } | Intervals::Poisson {} => {
                mean.scaled(self.rng.exponential())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS: Streams = Streams { seed: 1, replication: 0 };

    fn mean_rate(intervals: Intervals, messages: u32) -> f64 {
        let interval = Duration::from_millis(1);
        let mut spacing = Spacing::new(intervals, interval, STREAMS.stream("spacing"));
        let total: f64 = (0..messages).map(|_| spacing.next().as_secs_f64()).sum();
        f64::from(messages) / total
    }

    #[test]
    fn mean_rates() {
        let (on, off) = (Duration::from_millis(30), Duration::from_millis(90));
        assert!((mean_rate(Intervals::Cbr {}, 1_000) - 1_000.0).abs() < 1e-6);
        assert!((mean_rate(Intervals::Poisson {}, 100_000) / 1_000.0 - 1.0).abs() < 0.02);
        assert!((mean_rate(Intervals::OnOff { on, off }, 300_000) / 250.0 - 1.0).abs() < 0.05);
        // A shape with finite variance, so that the sample's mean settles.
        assert!(
            (mean_rate(Intervals::ParetoOnOff { on, off, shape: 3.0 }, 300_000) / 250.0 - 1.0).abs() < 0.05
        );
    }

    #[test]
    fn bursts_longer_than_the_interval_keep_its_spacing() {
        let (on, off) = (Duration::from_secs(1), Duration::from_secs(1));
        let mut spacing =
            Spacing::new(Intervals::OnOff { on, off }, Duration::from_millis(1), STREAMS.stream("bursts"));
        let gaps: Vec<Duration> = (0..100_000).map(|_| spacing.next()).collect();
        let inside = gaps.iter().filter(|&&gap| gap == Duration::from_millis(1)).count();
        // One in 1000 messages ends an on-time.
        assert!((98_500..99_999).contains(&inside), "{inside}");
    }

    #[test]
    fn gaps_that_end_after_a_time() {
        let mut gaps = Gaps::new(Time::from_millis(1_000));
        for at in [100, 900, 1_000, 1_150, 1_400, 1_600, 1_801] {
            gaps.on_delivery(Time::from_millis(at));
        }
        assert_eq!((gaps.longest, gaps.longest_end), (Duration::from_millis(250), Time::from_millis(1_400)));
        assert_eq!((gaps.stalls, gaps.stalled), (2, Duration::from_millis(451)), "200 ms is no stall");
    }

    #[test]
    fn impossible_values_are_named() {
        let service = Service::Messages { longest: 20_000, whole: 10_000, is_limited: true };
        let check = |config: DatagramsConfig| config.build(STREAMS, "load", service).unwrap_err();
        let whole = DatagramsConfig { size: Bytes(20_000), ..DatagramsConfig::default() };
        assert!(whole.build(STREAMS, "load", service).is_ok(), "it is delivered in parts");
        assert_eq!(
            check(DatagramsConfig { size: Bytes(20_001), ..DatagramsConfig::default() }),
            "size = \"20001 B\" is larger than a send buffer of 20000 B"
        );
        let large = DatagramsConfig { size: Bytes(1_201), ..DatagramsConfig::default() };
        let beside_streams = Service::Streams { longest_datagram: 1_200 };
        assert_eq!(
            large.build(STREAMS, "load", beside_streams).unwrap_err(),
            "size = \"1201 B\" is larger than a datagram of 1200 B"
        );
        let default = DatagramsConfig::default;
        assert_eq!(
            check(DatagramsConfig { size: Bytes(0), ..default() }),
            "size = \"0 B\" is not from 1 B to 65495 B"
        );
        assert_eq!(
            check(DatagramsConfig { measure: true, ..default() }),
            "measure = true needs a duration, such as \"60 s\", to wait for"
        );
        let (on, off) = (Duration::from_secs(1), Duration::from_secs(1));
        let intervals = Intervals::ParetoOnOff { on, off, shape: 1.0 };
        assert_eq!(
            check(DatagramsConfig { intervals, ..default() }),
            "intervals.shape = 1 is not above 1 and up to 10"
        );
        let intervals = Intervals::OnOff { on, off: Duration::ZERO };
        assert_eq!(
            check(DatagramsConfig { intervals, ..default() }),
            "intervals.on = \"1 s\" and off = \"0 s\" are not both above 0 s"
        );
    }
}
