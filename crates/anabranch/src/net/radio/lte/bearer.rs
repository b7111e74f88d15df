//! The two directions of a bearer.

use std::collections::VecDeque;

use anabranch_transport::report::Report;
use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Probability;

use super::super::buffer::Buffer;
use super::super::delivery::Delivery;
use super::super::drx::Drx;
use super::super::handovers::{Handovers, Losses};
use super::super::retransmissions::{Again, Retransmissions, error_rate};
use super::super::served_link::ServedLink;
use super::config::{HarqConfig, LteConfig};
use crate::net::capacity::{Capacity, ConstantRate, Departure, RateConfig, UNITS_PER_BYTE, Varying};
use crate::net::packets::{Direction, Held, Port, QueueSample, Release};
use crate::schedule::Timeline;

/// A user's link to its base station.
#[derive(Debug)]
pub(crate) struct Bearer {
    drx: Option<Drx>,
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
    losses: Losses,
    /// Whether it is the downlink, which waits until the station listens.
    is_downlink: bool,
    /// When the lane has something to do.
    due: u64,
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
        let drx = config.drx.as_ref().map(|drx| Drx::build(drx, &format!("{key}.drx"))).transpose()?;
        let handovers = Handovers::build(config.handovers.as_ref(), &format!("{key}.handovers"))?;
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
                capacity: capacity(rate, &rate_key, &handovers)?,
                request_wait: of_uplink(config.request_wait),
                grant_delay: of_uplink(config.grant_delay),
                requests: streams.stream(&format!("{component}/requests")),
                grants: VecDeque::new(),
                last_grant: 0,
                free_at: 0,
                serving: 0,
                harq: Harq::build(config, &key, streams.stream(&format!("{component}/blocks")))?,
                delivery: Delivery::build(
                    config.t_reordering,
                    if is_uplink { Duration::ZERO } else { config.downlink_delay },
                    &key,
                )?,
                losses: Losses::new(&handovers, direction),
                is_downlink: !is_uplink,
                due: u64::MAX,
            })
        };
        Ok(Self { lanes: [lane(Direction::Forward)?, lane(Direction::Reverse)?], drx })
    }

    pub(crate) fn accept(&mut self, port: Port, packet: Held, releases: &mut Vec<Release>) {
        let now = packet.arrived;
        self.lanes[port.direction.index()].accept(packet, self.drx.as_mut(), releases);
        self.schedule(now);
    }

    pub(crate) fn next_event(&self) -> Time {
        Time::from_nanos(self.lanes.iter().map(|lane| lane.due).min().unwrap_or(u64::MAX))
    }

    /// Lets a direction's server take its next packet.
    pub(crate) fn handle_event(&mut self, now: u64, releases: &mut Vec<Release>) {
        for lane in &mut self.lanes {
            lane.advance(self.drx.as_mut(), now, releases);
        }
        self.schedule(now);
    }

    /// Finds what the lanes have to do next. A packet of one direction can wake the other.
    fn schedule(&mut self, now: u64) {
        for lane in &mut self.lanes {
            lane.due = lane.next_event(self.drx.as_ref(), now);
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
    fn accept(&mut self, packet: Held, drx: Option<&mut Drx>, releases: &mut Vec<Release>) {
        let now = packet.arrived;
        if self.losses.take(now) {
            releases.push(self.buffer.lose(packet, now));
            return;
        }
        let serving = if now < self.free_at { self.serving } else { 0 };
        if self.buffer.accept(packet, serving, releases) {
            let reported =
                Time::from_nanos(now) + self.requests.duration_between(Duration::ZERO, self.request_wait);
            // Reports and grants keep their order.
            self.last_grant = self.last_grant.max((reported + self.grant_delay).as_nanos());
            self.grants.push_back(self.last_grant);
            self.advance(drx, now, releases);
        }
    }

    /// When the lane has something to do from `now` on, in nanoseconds.
    fn next_event(&self, drx: Option<&Drx>, now: u64) -> u64 {
        let Some(&grant) = self.grants.front() else { return u64::MAX };
        let start = grant.max(self.free_at).max(now);
        let listens = drx.filter(|_| self.is_downlink && start != u64::MAX);
        listens.map_or(start, |drx| drx.listens_from(start)).min(self.losses.next())
    }

    fn advance(&mut self, mut drx: Option<&mut Drx>, now: u64, releases: &mut Vec<Release>) {
        if self.losses.begin(now) {
            self.buffer.lose_all(now, releases);
            self.grants.clear();
        }
        while self.next_event(drx.as_deref(), now) <= now {
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
            if let Some(drx) = &mut drx
                && end != u64::MAX
            {
                drx.block_begins(now.max((end - 1) / SUBFRAME * SUBFRAME));
            }
            let mut varying = match &self.capacity {
                Capacity::Constant(_) => None,
                Capacity::Varying(varying) => Some(varying.clone()),
            };
            let sends = |from, to| varying.as_mut().is_none_or(|varying| sends(varying, from, to));
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

/// The capacity of a link that stands still in the gaps of handovers; other states are not allowed with a
/// radio.
fn capacity(rate: &RateConfig, key: &str, handovers: &Handovers) -> Result<Capacity, String> {
    let rate = rate.timeline(key)?;
    let up = handovers.sends();
    if rate.is_constant() && up.is_constant() {
        return Ok(Capacity::Constant(ConstantRate::new(rate.value())));
    }
    Ok(Capacity::Varying(Varying { rate, up, flush_when_down: false }))
}

/// Whether something is sent at any time between two times.
fn sends(capacity: &mut Varying, mut from: u64, to: u64) -> bool {
    while from < to {
        if capacity.rate.at(from) > 0 && capacity.up.at(from) {
            return true;
        }
        from = capacity.until();
    }
    false
}
