//! Queue and server of one direction of a link whose discipline is asked packet by packet.
//!
//! It is a medium of its own (`medium.rs`). Departures are computed one by one: at the next arrival, or at an
//! event when what has left can first have come to the other end of the link. Where a process of loss has to
//! see packets in time, and in runs that are traced, each departure is an event. While no packet of interest
//! is in it, it has no events, and cross traffic is caught up with at the next arrival. At equal times
//! packets leave first, then the link's state changes, then cross traffic arrives in the order of its
//! sources, then the packet of interest, as in `server.rs`, with which it shares its arithmetic: with
//! `drop_tail` both give the same results.

use anabranch_transport::flow::Ecn;
use anabranch_transport::report::Report;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};

use super::capacity::{MAX_BACKLOG_UNITS, UNITS_PER_BYTE, Varying};
use super::config::LinkConfig;
use super::cross_traffic::{
    CROSS_AQM_PACKETS, CROSS_ARRIVED_PACKETS, CROSS_DOWN_PACKETS, CROSS_QUEUE_FULL_PACKETS, CrossCounters,
    Source, earliest_index,
};
use super::packets::{Direction, DropCause, Fate, Held, QueueSample, Release, Treatment, Waiting};
use super::qdisc::{Discipline, Drops, Place, QueueDisc as _};
use super::sojourns::{MEAN_QUEUE_PACKETS, Sojourns};

/// The queue and server of one direction.
#[derive(Debug)]
pub(crate) struct QueuedServer {
    link: u32,
    direction: Direction,
    discipline: Discipline,
    capacity: Varying,
    /// The time up to which everything has happened, in nanoseconds.
    now: u64,
    /// How much later than it is due an event may be handled, in nanoseconds.
    slack: u64,
    serving: Option<Held>,
    /// When the server began with it, in nanoseconds.
    begun: u64,
    /// The rest of the work for it.
    left: u64,
    /// When to ask the discipline again, which holds packets back while nothing is served.
    wake: u64,
    sources: Vec<Source>,
    cross_counters: CrossCounters,
    /// Packets of interest in it.
    held: u64,
    drops: Drops,
    /// What waits in the discipline.
    waiting: Waiting,
    sojourns: Sojourns,
    /// Number of waiting packets times nanoseconds, up to `now`.
    queue_area: u128,
    /// The time of the report.
    reported_at: u64,
    /// The queue's changes, for a link that is traced.
    samples: Option<Vec<QueueSample>>,
}

/// The slot of background packets, whose times in the link are not recorded.
const BACKGROUND: u32 = u32::MAX;

impl QueuedServer {
    /// The server of a direction of a link; [`None`] if its queue needs no server of this kind.
    ///
    /// # Errors
    /// One sentence that names the key, what was found and what is allowed.
    pub(crate) fn build(
        index: u32,
        name: &str,
        link: &LinkConfig,
        direction: Direction,
        streams: Streams,
        is_traced: bool,
    ) -> Result<Option<Self>, String> {
        let (config, key) = match direction {
            Direction::Forward => (link.clone(), format!("links.{name}")),
            Direction::Reverse => (link.reversed(), format!("links.{name}.reverse")),
        };
        let Some(rate) = config.rate.as_ref().filter(|_| config.is_queued()) else { return Ok(None) };
        let component = format!("link/{name}/{}", direction.name());
        let place = Place { key: &format!("{key}.queue"), streams, component: &format!("{component}/queue") };
        let up = config.up.timeline(&format!("{key}.up"))?;
        Ok(Some(Self {
            link: index,
            direction,
            discipline: config.queue.build(place)?,
            capacity: config.varying(rate, &key, &up)?,
            now: 0,
            slack: 0,
            serving: None,
            begun: 0,
            left: 0,
            wake: u64::MAX,
            sources: config.sources(direction, streams, name, &component)?,
            cross_counters: CrossCounters::default(),
            held: 0,
            drops: Drops::default(),
            waiting: Waiting::default(),
            sojourns: Sojourns::default(),
            queue_area: 0,
            reported_at: 0,
            samples: is_traced.then(Vec::new),
        }))
    }

    /// Handles events no earlier than what leaves can have come to the other end of its link.
    pub(crate) fn put_off_departures(&mut self, latest: impl Fn(u32, Direction) -> Duration) {
        self.slack = latest(self.link, self.direction).as_nanos();
    }

    /// Takes a packet that comes now, or releases it with its fate.
    pub(crate) fn accept(&mut self, packet: Held, releases: &mut Vec<Release>) {
        self.advance(packet.arrived, releases);
        self.held += 1;
        if self.is_closed() {
            self.release(packet, Fate::Dropped(DropCause::Down), releases);
        } else {
            self.enter(packet, releases);
        }
    }

    /// From `now` on serves what waits, and the rest of the packet in service, at the rate of `other`.
    /// Packets that have left by then are appended to `releases`.
    pub(crate) fn take_rate(&mut self, now: u64, other: Self, releases: &mut Vec<Release>) {
        self.advance(now, releases);
        self.capacity = other.capacity;
        self.capacity.rate.at(now);
        self.capacity.up.at(now);
    }

    /// The rate in bit/s, 0 while the link is down.
    pub(crate) fn present_rate(&self) -> u64 {
        self.rate()
    }

    /// The latest time for its next action.
    pub(crate) fn next_event(&self) -> Time {
        if self.held == 0 {
            return Time::NEVER;
        }
        let arrival = self.sources.iter().map(Source::peek).min().unwrap_or(u64::MAX);
        let next = arrival.min(self.completion()).min(self.capacity.until());
        Time::from_nanos(next.saturating_add(self.slack))
    }

    /// Lets everything happen up to this time, in nanoseconds, where events are put off.
    pub(crate) fn catch_up(&mut self, until: u64, releases: &mut Vec<Release>) {
        if self.slack > 0 && until > self.now {
            self.advance(until, releases);
        }
    }

    /// The run has come to this time, at which it reports.
    pub(crate) fn finish(&mut self, now: u64) {
        if self.held == 0 {
            self.advance(now.max(self.now), &mut Vec::new());
        }
        self.reported_at = now.max(self.now);
    }

    /// Number of packets of interest in it.
    pub(crate) fn holds(&self) -> u64 {
        self.held
    }

    pub(crate) fn memory(&self) -> usize {
        let samples = self.samples.as_ref().map_or(0, Vec::capacity) * size_of::<QueueSample>();
        samples + self.discipline.memory() + self.sojourns.memory()
    }

    pub(crate) fn take_samples(&mut self) -> Vec<QueueSample> {
        self.samples.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Writes what the link does not count: waiting times of packets of interest that were sent, the mean
    /// length of the queue, and cross traffic.
    pub(crate) fn report(&self, report: &mut Report<'_>) {
        self.sojourns.report(report);
        self.discipline.report(report);
        let since = u128::from(self.reported_at - self.now) * u128::from(self.waiting.packets);
        report.mean(MEAN_QUEUE_PACKETS, (self.queue_area + since) as f64, self.reported_at);
        report.count(CROSS_ARRIVED_PACKETS, self.cross_counters.arrived);
        report.count(CROSS_QUEUE_FULL_PACKETS, self.cross_counters.dropped_full);
        report.count(CROSS_DOWN_PACKETS, self.cross_counters.dropped_down);
        report.count(CROSS_AQM_PACKETS, self.cross_counters.dropped_aqm);
    }

    /// Lets everything happen up to this time, in nanoseconds.
    pub(crate) fn advance(&mut self, to: u64, releases: &mut Vec<Release>) {
        loop {
            let arrival = earliest_index(&mut self.sources, to).map_or(u64::MAX, |(time, _)| time);
            let completion = self.completion();
            let change = self.capacity.until();
            let next = arrival.min(completion).min(change);
            let work = self.rate().saturating_mul(next.min(to) - self.now);
            self.go_to(next.min(to));
            if next > to {
                self.left -= work.min(self.left);
                return;
            }
            if completion == next {
                self.complete(work, releases);
            } else {
                self.left -= work.min(self.left);
            }
            if change == next {
                self.change(releases);
            }
            if arrival == next {
                self.enter_background(releases);
            }
        }
    }

    fn go_to(&mut self, to: u64) {
        self.queue_area += u128::from(to - self.now) * u128::from(self.waiting.packets);
        self.now = to;
    }

    fn rate(&self) -> u64 {
        if self.capacity.up.value() { self.capacity.rate.value() } else { 0 }
    }

    /// The end of the transmission in progress, if it is going to end at this rate; or when a packet that is
    /// held back may be sent.
    fn completion(&self) -> u64 {
        match (&self.serving, self.rate()) {
            (None, _) => self.wake,
            (_, 0) => u64::MAX,
            (Some(_), rate) => self.now + self.left.div_ceil(rate),
        }
    }

    /// Handles the end of a transmission. The rest of the last nanosecond's `work` goes to the next packet.
    fn complete(&mut self, mut work: u64, releases: &mut Vec<Release>) {
        if self.serving.is_none() {
            return self.serve_next(releases);
        }
        while let Some(packet) = self.serving
            && work >= self.left
        {
            work -= self.left;
            self.release(packet, Fate::Delivered, releases);
            self.serve_next(releases);
        }
        self.left -= work.min(self.left);
    }

    /// Lets the server take the next packet.
    fn serve_next(&mut self, releases: &mut Vec<Release>) {
        self.serving = self.discipline.dequeue(self.now, &mut self.drops);
        if let Some(packet) = self.serving {
            self.left = u64::from(packet.size) * UNITS_PER_BYTE;
            self.begun = self.now;
            if packet.slot != BACKGROUND {
                self.sojourns.record(self.now - packet.arrived);
            }
        } else {
            self.left = 0;
            self.wake = self.discipline.not_before();
            assert!(self.wake > self.now, "a discipline holds back what may leave now");
        }
        self.release_drops(releases);
        self.record_waiting();
    }

    /// Whether the link is down and accepts nothing.
    fn is_closed(&self) -> bool {
        self.capacity.flush_when_down && !self.capacity.up.value()
    }

    fn enter(&mut self, mut packet: Held, releases: &mut Vec<Release>) {
        let units = u64::from(packet.size) * UNITS_PER_BYTE;
        packet.found_units = self.left + self.waiting.bytes * UNITS_PER_BYTE;
        if packet.found_units + units < MAX_BACKLOG_UNITS {
            self.discipline.enqueue(self.now, packet, &mut self.drops);
        } else {
            self.drops.overflow(packet);
        }
        self.release_drops(releases);
        if self.serving.is_none() {
            self.serve_next(releases);
        } else {
            self.record_waiting();
        }
    }

    fn enter_background(&mut self, releases: &mut Vec<Release>) {
        let Some((arrived, index)) = earliest_index(&mut self.sources, self.now) else { return };
        let source = &mut self.sources[index];
        let size = source.size;
        source.pop();
        self.cross_counters.arrived += 1;
        if self.is_closed() {
            self.cross_counters.dropped_down += 1;
            return;
        }
        let packet = Held {
            slot: BACKGROUND,
            arrived,
            size,
            ecn: Ecn::NotEct,
            // Each source counts as a separate flow between separate hosts.
            flow: u32::MAX - index as u32,
            hosts: [u8::MAX - index as u8; 2],
            treatment: Treatment::default(),
            found_units: 0,
        };
        self.enter(packet, releases);
    }

    /// Applies what the timetables say for the present time.
    fn change(&mut self, releases: &mut Vec<Release>) {
        let was_up = self.capacity.up.value();
        self.capacity.rate.at(self.now);
        let is_up = self.capacity.up.at(self.now);
        if !(self.capacity.flush_when_down && was_up && !is_up) {
            return;
        }
        let waiting = self.discipline.flush(self.now, &mut self.drops);
        let mut lost: Vec<Held> = self.serving.take().into_iter().chain(waiting).collect();
        lost.extend(self.drops.0.drain(..).map(|(packet, _)| packet));
        (self.left, self.wake) = (0, u64::MAX);
        for packet in lost {
            if packet.slot != BACKGROUND {
                self.release(packet, Fate::Dropped(DropCause::Down), releases);
            }
        }
        self.record_waiting();
    }

    /// Releases what the discipline has dropped.
    fn release_drops(&mut self, releases: &mut Vec<Release>) {
        if self.drops.0.is_empty() {
            return;
        }
        let mut drops = std::mem::take(&mut self.drops);
        for (packet, cause) in drops.0.drain(..) {
            if packet.slot == BACKGROUND {
                let is_full = cause == DropCause::QueueFull;
                self.cross_counters.dropped_full += u64::from(is_full);
                self.cross_counters.dropped_aqm += u64::from(!is_full);
            } else {
                self.release(packet, Fate::Dropped(cause), releases);
            }
        }
        self.drops = drops;
    }

    fn release(&mut self, packet: Held, fate: Fate, releases: &mut Vec<Release>) {
        if packet.slot == BACKGROUND {
            return;
        }
        self.held -= 1;
        let Self { link, direction, now, begun, .. } = *self;
        let begun = (fate == Fate::Delivered).then_some(begun);
        releases.push(Release { link, direction, packet, begun, at: now, fate });
    }

    /// Records a change of what waits.
    fn record_waiting(&mut self) {
        self.waiting = self.discipline.waiting();
        if let Some(samples) = &mut self.samples {
            let Waiting { packets, bytes } = self.waiting;
            samples.push(QueueSample { time: Time::from_nanos(self.now), packets, bytes });
        }
    }
}
