//! A channel and the stations that share it.

use std::collections::VecDeque;

use super::super::buffer::Buffer;
use super::config::WifiConfig;
use super::phy::{CW_MAX, CW_MIN, Phy};
use crate::net::config::LinkConfig;
use crate::net::duplex::Direction;
use crate::net::evented::QueueSample;
use crate::net::ledger::Fate;
use crate::net::medium::{Held, Port, Release};
use crate::net::qdisc::QueueConfig;
use crate::net::schedule::{Schedule, Timeline};
use crate::report::Report;
use crate::rng::{Draw as _, Rng, Streams};
use crate::time::Time;
use crate::units::Probability;

/// A channel without collisions: frames are sent in the order in which their packets came, whichever end they came
/// to, each after the idle time and a backoff.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    phy: Phy,
    /// The link that came first, whose standard the others repeat.
    first_link: String,
    first: WifiConfig,
    /// The directions of its links: link after link, forward first.
    lanes: Vec<Lane>,
    /// For each waiting packet its lane, in order.
    turns: VecDeque<u32>,
    /// When the channel is free, in nanoseconds.
    free_at: u64,
}

/// One direction of a link.
#[derive(Clone, Debug)]
struct Lane {
    buffer: Buffer,
    /// In bit/s.
    rate: Timeline<u64>,
    frame_error_rate: Timeline<Probability>,
    retry_limit: u32,
    backoff: Rng,
    errors: Rng,
    /// The packet that was sent last, and the end of its acknowledgement.
    serving: u64,
    serving_until: u64,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames: u64,
    frame_errors: u64,
    air_lost: u64,
    released: u64,
    held_ns: u128,
    /// With idle times, backoffs and acknowledgements.
    airtime_ns: u128,
}

impl Cell {
    /// A channel without stations; `link` is the first one's name.
    pub(crate) fn new(config: &WifiConfig, link: &str) -> Self {
        Self {
            phy: Phy::new(config.standard),
            first_link: link.to_owned(),
            first: config.clone(),
            lanes: Vec::new(),
            turns: VecDeque::new(),
            free_at: 0,
        }
    }

    /// Adds the two stations of a link.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn add(
        &mut self,
        index: u32,
        name: &str,
        link: &LinkConfig,
        config: &WifiConfig,
        streams: Streams,
        is_traced: bool,
    ) -> Result<(), String> {
        let key = format!("links.{name}.radio");
        if config.standard != self.first.standard {
            return Err(format!(
                "{key}.standard differs from links.{}.radio.standard, although both have one medium; make the two \
                 alike, or use another medium",
                self.first_link
            ));
        }
        let rate = config.rate.clone().unwrap_or(Schedule::Constant(self.phy.highest()));
        rate.values().try_for_each(|rate| self.phy.check(rate, &format!("{key}.rate")))?;
        let rate = rate.map(crate::units::Rate::bits_per_sec).timeline(&format!("{key}.rate"))?;
        let frame_error_rate = config.frame_error_rate.timeline(&format!("{key}.frame_error_rate"))?;
        super::super::check_range(&key, "retry_limit", config.retry_limit.into(), 1.0, 255.0)?;
        for direction in Direction::BOTH {
            let default = QueueConfig::default();
            let buffer = Buffer::build(index, name, link, direction, &default, streams, is_traced)?;
            let component = format!("link/{name}/{}/radio", direction.name());
            self.lanes.push(Lane {
                buffer,
                rate: rate.clone(),
                frame_error_rate: frame_error_rate.clone(),
                retry_limit: config.retry_limit,
                backoff: streams.stream(&format!("{component}/backoff")),
                errors: streams.stream(&format!("{component}/errors")),
                serving: 0,
                serving_until: 0,
                counters: Counters::default(),
            });
        }
        Ok(())
    }

    /// Its links.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len() / 2
    }

    pub(crate) fn accept(&mut self, port: Port, packet: Held, releases: &mut Vec<Release>) {
        let now = packet.arrived;
        let number = lane_of(port);
        let lane = &mut self.lanes[number];
        let serving = if now < lane.serving_until { lane.serving } else { 0 };
        if lane.buffer.accept(packet, serving, releases) {
            self.turns.push_back(number as u32);
        }
        if now >= self.free_at {
            self.send_next(now, releases);
        }
    }

    pub(crate) fn next_event(&self) -> Time {
        if self.turns.is_empty() { Time::NEVER } else { Time::from_nanos(self.free_at) }
    }

    /// The channel is free.
    pub(crate) fn handle_event(&mut self, now: u64, releases: &mut Vec<Release>) {
        self.send_next(now, releases);
    }

    /// Sends the packet whose turn it is.
    fn send_next(&mut self, now: u64, releases: &mut Vec<Release>) {
        while let Some(number) = self.turns.pop_front() {
            let lane = &mut self.lanes[number as usize];
            // A discipline may have dropped it meanwhile.
            let Some(packet) = lane.buffer.next(now, releases) else { continue };
            let (release, free_at) = lane.send(self.phy, packet, now);
            releases.push(release);
            self.free_at = free_at;
            return;
        }
    }

    /// Packets at this port.
    pub(crate) fn holds(&self, port: Port) -> u64 {
        self.lanes[lane_of(port)].buffer.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.lanes.iter().map(|lane| lane.buffer.memory()).sum()
    }

    pub(crate) fn take_queue_samples(&mut self, port: Port) -> Vec<QueueSample> {
        self.lanes[lane_of(port)].buffer.take_samples()
    }

    /// The run is at this time, and reports.
    pub(crate) fn finish(&mut self, now: u64) {
        self.lanes.iter_mut().for_each(|lane| lane.buffer.finish(now));
    }

    pub(crate) fn report(&self, port: Port, report: &mut Report<'_>) {
        let lane = &self.lanes[lane_of(port)];
        let Counters { frames, frame_errors, air_lost, released, held_ns, airtime_ns } = lane.counters;
        lane.buffer.report(report);
        report.count("frames", frames);
        report.count("frame_errors", frame_errors);
        report.count("air_lost_packets", air_lost);
        report.mean("mean_held_ms", held_ns as f64 / 1e6, released);
        report.mean("mean_airtime_ms", airtime_ns as f64 / 1e6, released);
    }
}

impl Lane {
    /// Sends a packet from now on until it is acknowledged or given up. Returns its release, and when the channel is
    /// free again.
    fn send(&mut self, phy: Phy, packet: Held, now: u64) -> (Release, u64) {
        let rate = self.rate.at(now);
        let error_rate = self.frame_error_rate.at(now).get();
        let (mut free_at, mut window) = (now, CW_MIN);
        let mut tries = 0;
        let (at, fate) = loop {
            // Section 10.3.4.3: after the idle time, a backoff of whole slots.
            let backoff = self.backoff.below(u64::from(window) + 1);
            let end = free_at + phy.ifs + backoff * phy.slot + phy.data(packet.size, rate);
            tries += 1;
            self.counters.frames += 1;
            if !self.errors.bernoulli(error_rate) {
                free_at = end + phy.acknowledgement(rate);
                break (end, Fate::Delivered);
            }
            self.counters.frame_errors += 1;
            free_at = end + phy.failure();
            if tries == self.retry_limit {
                self.counters.air_lost += 1;
                break (end, Fate::Lost);
            }
            // Section 10.3.3: the window doubles with every failure.
            window = (2 * window + 1).min(CW_MAX);
        };
        self.serving = u64::from(packet.size);
        self.serving_until = free_at;
        self.counters.released += 1;
        self.counters.held_ns += u128::from(at - packet.arrived);
        self.counters.airtime_ns += u128::from(free_at - now);
        (self.buffer.release(packet, at, fate), free_at)
    }
}

/// The number of a port's lane.
fn lane_of(port: Port) -> usize {
    2 * port.station + port.direction.index()
}
