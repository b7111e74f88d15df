//! A channel and the stations that share it.

use std::collections::VecDeque;

use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::Time;

use super::super::buffer::Buffer;
use super::super::served_link::{AIR_LOST_PACKETS, MEAN_HELD_MS, ServedLink, check_range};
use super::config::WifiConfig;
use super::contention::{Contention, sender};
use super::lane::{Counters, Lane};
use super::phy::Phy;
use crate::net::packets::{Direction, Held, Port, QueueSample, Release};
use crate::net::qdisc::QueueConfig;
use crate::schedule::Schedule;

declare! {
    /// The scalars of Wi-Fi, beside those of every radio.
    SCALARS:
    /// Frames sent, retransmissions included.
    FRAMES = "frames": One;
    /// Frames that were damaged, though not by a collision.
    FRAME_ERRORS = "frame_errors": One;
    /// Frames sent at the same time as another one.
    COLLISIONS = "collisions": One;
}

/// A channel and the links on it.
#[derive(Debug)]
pub(crate) struct Cell {
    phy: Phy,
    /// The first link, whose settings of the channel the others repeat.
    first_link: String,
    first: WifiConfig,
    /// The directions of its links: link after link, forward first.
    lanes: Vec<Lane>,
    access: Access,
}

/// The rule that decides who sends next.
#[derive(Clone, Debug)]
enum Access {
    Contention(Contention),
    /// Frames are sent in the order in which their packets came, to whichever end, each after the idle time
    /// and a backoff.
    Turns {
        /// For each packet that has come, in order, its lane; the first entries of a lane are used up by
        /// packets that a discipline has dropped.
        turns: VecDeque<u32>,
        /// When the channel is free, in nanoseconds.
        free_at: u64,
    },
}

impl Cell {
    /// A channel without links; `link` is the first one's name.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn new(config: &WifiConfig, link: &str, streams: Streams) -> Result<Self, String> {
        let phy = Phy::new(config.standard);
        let access = if config.collisions {
            Access::Contention(Contention::new(config, phy, link, streams)?)
        } else if config.background.stations == 0 {
            Access::Turns { turns: VecDeque::new(), free_at: 0 }
        } else {
            return Err(format!(
                "links.{link}.radio.background.stations is {}, allowed is 0 unless `collisions` is true",
                config.background.stations
            ));
        };
        Ok(Self { phy, first_link: link.to_owned(), first: config.clone(), lanes: Vec::new(), access })
    }

    /// Adds the two stations of a link.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn add(&mut self, link: &ServedLink<'_>, config: &WifiConfig) -> Result<(), String> {
        let ServedLink { name, streams, .. } = *link;
        let key = format!("links.{name}.radio");
        let first = &self.first;
        for (what, is_alike) in [
            ("standard", config.standard == first.standard),
            ("collisions", config.collisions == first.collisions),
            ("background", config.background == first.background),
        ] {
            if !is_alike {
                return Err(format!(
                    "{key}.{what} differs from links.{}.radio.{what}, although both have one medium; make the two \
                     alike, or use another medium",
                    self.first_link
                ));
            }
        }
        let rate = config.rate.clone().unwrap_or(Schedule::Constant(self.phy.highest()));
        rate.values().try_for_each(|rate| self.phy.check(rate, &format!("{key}.rate")))?;
        let rate =
            rate.map(anabranch_transport::units::Rate::bits_per_sec).timeline(&format!("{key}.rate"))?;
        let frame_error_rate = config.frame_error_rate.timeline(&format!("{key}.frame_error_rate"))?;
        check_range(&key, "retry_limit", config.retry_limit.into(), 1.0, 255.0)?;
        for direction in Direction::BOTH {
            let default = QueueConfig::default();
            let buffer = Buffer::build(link, direction, &default)?;
            let component = format!("link/{name}/{}/radio", direction.name());
            if let Access::Contention(contention) = &mut self.access {
                contention.add_lane(sender(link.ends, direction), self.lanes.len(), streams);
            }
            self.lanes.push(Lane {
                buffer,
                rate: rate.clone(),
                frame_error_rate: frame_error_rate.clone(),
                retry_limit: config.retry_limit,
                turns: 0,
                backoff: streams.stream(&format!("{component}/backoff")),
                errors: streams.stream(&format!("{component}/errors")),
                serving: 0,
                serving_until: 0,
                counters: Counters::default(),
            });
        }
        Ok(())
    }

    /// The number of its links.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len() / 2
    }

    pub(crate) fn accept(&mut self, port: Port, packet: Held, releases: &mut Vec<Release>) {
        let (now, number) = (packet.arrived, lane_of(port));
        let Self { phy, lanes, access, .. } = self;
        match access {
            Access::Contention(contention) => {
                contention.advance(now, *phy, lanes, releases);
                let serving = contention.serving(number);
                if lanes[number].buffer.accept(packet, serving, releases) {
                    contention.start(number, now, *phy, lanes);
                }
            }
            Access::Turns { turns, free_at } => {
                let lane = &mut lanes[number];
                let serving = if now < lane.serving_until { lane.serving } else { 0 };
                if lane.buffer.accept(packet, serving, releases) {
                    turns.push_back(number as u32);
                    lane.turns += 1;
                }
                if now >= *free_at {
                    self.send_next(now, releases);
                }
            }
        }
    }

    pub(crate) fn next_event(&self) -> Time {
        Time::from_nanos(match &self.access {
            Access::Contention(contention) => contention.next_event(self.phy, &self.lanes),
            Access::Turns { turns, .. } if turns.is_empty() => u64::MAX,
            Access::Turns { free_at, .. } => *free_at,
        })
    }

    /// Handles the channel becoming free, or a counter reaching 0.
    pub(crate) fn handle_event(&mut self, now: u64, releases: &mut Vec<Release>) {
        match &mut self.access {
            Access::Contention(contention) => contention.advance(now, self.phy, &mut self.lanes, releases),
            Access::Turns { .. } => self.send_next(now, releases),
        }
    }

    /// Sends the packet whose turn it is.
    fn send_next(&mut self, now: u64, releases: &mut Vec<Release>) {
        let Access::Turns { turns, free_at } = &mut self.access else { return };
        while let Some(number) = turns.pop_front() {
            let lane = &mut self.lanes[number as usize];
            lane.turns -= 1;
            if lane.turns >= lane.buffer.len() {
                continue;
            }
            let Some(packet) = lane.buffer.next(now, releases) else { continue };
            let (release, free) = lane.send(self.phy, packet, now);
            releases.push(release);
            *free_at = free;
            return;
        }
    }

    /// Number of packets at this port.
    pub(crate) fn holds(&self, port: Port) -> u64 {
        let number = lane_of(port);
        let begun = match &self.access {
            Access::Contention(contention) => contention.holds(number),
            Access::Turns { .. } => 0,
        };
        self.lanes[number].buffer.len() + begun
    }

    pub(crate) fn memory(&self) -> usize {
        self.lanes.iter().map(|lane| lane.buffer.memory()).sum()
    }

    pub(crate) fn take_queue_samples(&mut self, port: Port) -> Vec<QueueSample> {
        self.lanes[lane_of(port)].buffer.take_samples()
    }

    /// Advances to this time, at which the run reports.
    pub(crate) fn finish(&mut self, now: u64) {
        self.lanes.iter_mut().for_each(|lane| lane.buffer.finish(now));
    }

    pub(crate) fn report(&self, port: Port, report: &mut Report<'_>) {
        let lane = &self.lanes[lane_of(port)];
        let Counters { frames, frame_errors, collisions, air_lost, released, held_ns } = lane.counters;
        lane.buffer.report(report);
        report.count(FRAMES, frames);
        report.count(FRAME_ERRORS, frame_errors);
        report.count(COLLISIONS, collisions);
        report.count(AIR_LOST_PACKETS, air_lost);
        report.mean(MEAN_HELD_MS, held_ns as f64 / 1e6, released);
    }
}

/// The number of a port's lane.
fn lane_of(port: Port) -> usize {
    2 * port.station + port.direction.index()
}
