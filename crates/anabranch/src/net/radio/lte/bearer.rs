//! The two directions of a bearer.

use std::collections::VecDeque;

use anabranch_transport::report::Report;
use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Probability;

use super::super::buffer::Buffer;
use super::super::delivery::Delivery;
use super::super::retransmissions::{Again, Retransmissions, error_rate};
use super::super::served_link::ServedLink;
use super::config::{HarqConfig, LteConfig};
use crate::net::capacity::{Capacity, ConstantRate, Departure, RateConfig, UNITS_PER_BYTE, Varying};
use crate::net::packets::{Direction, Held, Port, QueueSample, Release};
use crate::schedule::Timeline;

/// A user's link to its base station.
#[derive(Debug)]
pub(crate) struct Bearer {
    lanes: [Lane; 2],
}

/// One direction.
#[derive(Debug)]
struct Lane {
    buffer: Buffer,
    capacity: Capacity,
    /// How long a packet may have to wait before it is reported: it may be sent from its arrival plus a
    /// part of this plus `grant_delay` on.
    request_wait: Duration,
    grant_delay: Duration,
    requests: Rng,
    /// For each waiting packet, in order, when it may be sent.
    grants: VecDeque<u64>,
    last_grant: u64,
    /// When the server is free again, and the bytes that it sends until then.
    free_at: u64,
    serving: u64,
    harq: Harq,
    delivery: Delivery,
}

/// Blocks that fail, and when they arrive.
#[derive(Clone, Debug)]
struct Harq {
    error: Timeline<Probability>,
    retransmissions: Retransmissions,
    rlc_delay: u64,
    /// The first subframe in which nothing has been sent so far.
    unseen: u64,
    /// The next subframe in which a block would fail, at this error rate.
    next: u64,
    error_of_next: f64,
    last_failed: Option<Block>,
}

/// A transport block whose first transmission failed.
#[derive(Clone, Copy, Debug)]
struct Block {
    subframe: u64,
    /// How much later than its first transmission the block arrives or is given up, in nanoseconds.
    later: u64,
    is_lost: bool,
}

/// The length of a subframe, and the round trip of HARQ, in nanoseconds.
const SUBFRAME: u64 = 1_000_000;
const HARQ_ROUND_TRIP: u64 = 8 * SUBFRAME;

impl Bearer {
    /// The bearer of a link.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn build(link: &ServedLink<'_>, config: &LteConfig) -> Result<Self, String> {
        let ServedLink { name, streams, .. } = *link;
        let key = format!("links.{name}.radio");
        let lane = |direction: Direction| {
            let component = format!("link/{name}/{}/radio", direction.name());
            let is_uplink = direction == Direction::Reverse;
            let (rate, rate_key) = if is_uplink {
                (&config.uplink_rate, format!("{key}.uplink_rate"))
            } else {
                (&config.downlink_rate, format!("{key}.downlink_rate"))
            };
            let of_uplink = |time: Duration| if is_uplink { time } else { Duration::ZERO };
            Ok::<_, String>(Lane {
                buffer: Buffer::of_bearer(link, direction)?,
                capacity: capacity(rate, &rate_key)?,
                request_wait: of_uplink(config.request_wait),
                grant_delay: of_uplink(config.grant_delay),
                requests: streams.stream(&format!("{component}/requests")),
                grants: VecDeque::new(),
                last_grant: 0,
                free_at: 0,
                serving: 0,
                harq: Harq::build(config, &key, streams.stream(&format!("{component}/blocks")))?,
                delivery: Delivery::new(
                    config.t_reordering,
                    if is_uplink { Duration::ZERO } else { config.downlink_delay },
                ),
            })
        };
        Ok(Self { lanes: [lane(Direction::Forward)?, lane(Direction::Reverse)?] })
    }

    pub(crate) fn accept(&mut self, port: Port, packet: Held, releases: &mut Vec<Release>) {
        self.lanes[port.direction.index()].accept(packet, releases);
    }

    pub(crate) fn next_event(&self) -> Time {
        Time::from_nanos(self.lanes.iter().map(Lane::next_event).min().unwrap_or(u64::MAX))
    }

    /// Lets a direction's server take its next packet.
    pub(crate) fn handle_event(&mut self, now: u64, releases: &mut Vec<Release>) {
        for lane in &mut self.lanes {
            lane.advance(now, releases);
        }
    }

    /// Number of packets at this port.
    pub(crate) fn holds(&self, port: Port) -> u64 {
        self.lanes[port.direction.index()].buffer.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.lanes.iter().map(|lane| lane.buffer.memory() + lane.grants.capacity() * size_of::<u64>()).sum()
    }

    pub(crate) fn take_queue_samples(&mut self, port: Port) -> Vec<QueueSample> {
        self.lanes[port.direction.index()].buffer.take_samples()
    }

    /// Advances to this time, at which the run reports.
    pub(crate) fn finish(&mut self, now: u64) {
        self.lanes.iter_mut().for_each(|lane| lane.buffer.finish(now));
    }

    pub(crate) fn report(&self, port: Port, report: &mut Report<'_>) {
        let lane = &self.lanes[port.direction.index()];
        lane.buffer.report(report);
        lane.harq.retransmissions.report(report);
        lane.delivery.report(report);
    }
}

impl Lane {
    fn accept(&mut self, packet: Held, releases: &mut Vec<Release>) {
        let now = packet.arrived;
        let serving = if now < self.free_at { self.serving } else { 0 };
        if self.buffer.accept(packet, serving, releases) {
            let reported =
                Time::from_nanos(now) + self.requests.duration_between(Duration::ZERO, self.request_wait);
            // Reports and grants keep their order.
            self.last_grant = self.last_grant.max((reported + self.grant_delay).as_nanos());
            self.grants.push_back(self.last_grant);
            self.advance(now, releases);
        }
    }

    /// When the server takes its next packet, in nanoseconds.
    fn next_event(&self) -> u64 {
        self.grants.front().map_or(u64::MAX, |&grant| grant.max(self.free_at))
    }

    fn advance(&mut self, now: u64, releases: &mut Vec<Release>) {
        while self.next_event() <= now {
            self.grants.pop_front();
            // The discipline may have dropped the packet in the meantime, and then nothing is sent.
            let Some(packet) = self.buffer.next(now, releases) else { continue };
            let units = u64::from(packet.size) * UNITS_PER_BYTE;
            // This advances the position in the timetable.
            self.capacity.drain(0, self.free_at.min(now), now);
            let end = match self.capacity.departure(units, now) {
                Departure::At(end) => end,
                Departure::Flushed(_) | Departure::Never => u64::MAX,
            };
            (self.free_at, self.serving) = (end, u64::from(packet.size));
            let mut rate = match &self.capacity {
                Capacity::Constant(_) => None,
                Capacity::Varying(varying) => Some(varying.rate.clone()),
            };
            let sends = |from, to| rate.as_mut().is_none_or(|rate| sends(rate, from, to));
            let (arrival, is_lost) = self.harq.arrival(now, end, sends);
            releases.push(if is_lost {
                self.delivery.lose(packet, end, &self.buffer)
            } else {
                self.delivery.deliver(packet, arrival, &self.buffer)
            });
        }
    }
}

impl Harq {
    fn build(config: &LteConfig, key: &str, draws: Rng) -> Result<Self, String> {
        let HarqConfig { error, transmissions } = &config.harq;
        let key = format!("{key}.harq");
        Ok(Self {
            error: error_rate(error, &key)?,
            retransmissions: Retransmissions::build(*transmissions, config.rlc, &key, draws)?,
            rlc_delay: config.rlc_delay.as_nanos(),
            unseen: 0,
            next: u64::MAX,
            error_of_next: 0.0,
            last_failed: None,
        })
    }

    /// When data sent from `start` to `end` has arrived, and whether a part of it is lost. `sends` tells
    /// whether anything is sent between two times.
    fn arrival(&mut self, start: u64, end: u64, mut sends: impl FnMut(u64, u64) -> bool) -> (u64, bool) {
        if end == u64::MAX {
            return (end, false);
        }
        let error = self.error.at(start).get();
        let (first, last) = (start / SUBFRAME, end.saturating_sub(1).max(start) / SUBFRAME);
        let unseen = first.max(self.unseen);
        if self.error_of_next != error || self.next < unseen {
            self.error_of_next = error;
            self.next = self.draw_failing(unseen);
        }
        self.unseen = last + 1;
        let (mut arrival, mut is_lost) = (end, false);
        let mut join = |block: Block| {
            let sent = end.min((block.subframe + 1) * SUBFRAME);
            arrival = arrival.max(sent + block.later);
            is_lost |= block.is_lost;
        };
        // Packets before this one may have had a part of its first block.
        if let Some(block) = self.last_failed.filter(|block| block.subframe == first) {
            join(block);
        }
        while self.next <= last {
            let subframe = self.next;
            self.next = self.draw_failing(subframe + 1);
            if sends(start.max(subframe * SUBFRAME), end.min((subframe + 1) * SUBFRAME)) {
                let block = self.send_again(subframe, error);
                self.last_failed = Some(block);
                join(block);
            }
        }
        (arrival, is_lost)
    }

    /// The first subframe from this one on in which a block would fail.
    fn draw_failing(&mut self, from: u64) -> u64 {
        if self.error_of_next <= 0.0 {
            return u64::MAX;
        }
        // Before it, there is a geometric number of subframes in which no block would fail.
        let others = -self.retransmissions.draws.exponential() / libm::log1p(-self.error_of_next);
        from.saturating_add(others.min(1e18) as u64)
    }

    /// Sends a block again whose first transmission has failed.
    fn send_again(&mut self, subframe: u64, error: f64) -> Block {
        let mut later = 0;
        let is_lost = self.retransmissions.send_again(error, |what| {
            later += if what == Again::Harq { HARQ_ROUND_TRIP } else { self.rlc_delay };
        });
        Block { subframe, later, is_lost }
    }
}

/// The capacity of a link that is always up, as other states are not allowed with a radio.
fn capacity(rate: &RateConfig, key: &str) -> Result<Capacity, String> {
    let rate = rate.timeline(key)?;
    if rate.is_constant() {
        return Ok(Capacity::Constant(ConstantRate::new(rate.value())));
    }
    Ok(Capacity::Varying(Varying { rate, up: Timeline::constant(true), flush_when_down: false }))
}

/// Whether a rate is above 0 at any time between two times.
fn sends(rate: &mut Timeline<u64>, mut from: u64, to: u64) -> bool {
    while from < to {
        if rate.at(from) > 0 {
            return true;
        }
        from = rate.until();
    }
    false
}
