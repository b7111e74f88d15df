//! Stations that contend for the channel: binary exponential backoff and collisions (IEEE 802.11-2020 section
//! 10.3.4).
//!
//! A station's counter goes down by one in each idle slot after the idle time, and stands while the channel
//! is busy. So what is kept is the number of idle slots so far and, for each station, the number at which its
//! counter is 0: nothing happens between transmissions. Stations whose counters reach 0 in the same slot
//! collide. A station
//! that has sent waits for a new backoff in any case (post-backoff); one whose counter is 0 when a packet
//! comes to an idle channel sends at once, at the next slot. After a collision all wait as long as after a
//! frame without acknowledgement.

use anabranch_transport::rng::{Draw as _, Rng, Streams};

use super::super::served_link::check_range;
use super::config::{BackgroundConfig, WifiConfig};
use super::lane::Lane;
use super::phy::{CW_MAX, CW_MIN, Phy};
use crate::net::packets::{Direction, DropCause, Fate, Held, Release};

/// The stations of a channel, and the channel.
#[derive(Clone, Debug)]
pub(super) struct Contention {
    /// Names the random streams.
    medium: String,
    stations: Vec<Station>,
    /// Number of idle slots so far, up to `idle_from`.
    slots: u64,
    /// The time from which idle slots are counted, in nanoseconds: the end of the idle time after the last
    /// transmission.
    idle_from: u64,
    transmissions: Vec<Transmission>,
}

#[derive(Clone, Debug)]
struct Station {
    traffic: Traffic,
    /// The number of idle slots at which the station's counter is 0.
    expires: u64,
    window: u32,
    /// Number of transmissions of the station's frame so far.
    tries: u32,
    draws: Rng,
}

#[derive(Clone, Debug)]
enum Traffic {
    /// A node of the scenario: directions of links, served in turn.
    Node { name: String, lanes: Vec<usize>, turn: usize, frame: Option<(usize, Held)> },
    /// A background station.
    Background(Background),
}

#[derive(Clone, Debug)]
struct Background {
    bytes: u32,
    /// The rate in bit/s.
    rate: u64,
    /// Mean time between packets in nanoseconds; [`None`] for a station that always has one.
    mean_gap: Option<f64>,
    next_arrival: u64,
    waiting: u32,
}

/// A frame in the air.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    station: usize,
    duration: u64,
    acknowledgement: u64,
    /// The direction of a link and its packet; [`None`] for a background station.
    frame: Option<(usize, Held)>,
}

/// The most packets that wait at a background station.
const MOST_WAITING: u32 = 50;
/// Number of transmissions after which a background station's frame is lost (dot11ShortRetryLimit).
const BACKGROUND_RETRY_LIMIT: u32 = 7;

impl Contention {
    /// A channel with its background stations.
    pub(super) fn new(config: &WifiConfig, phy: Phy, link: &str, streams: Streams) -> Result<Self, String> {
        let key = format!("links.{link}.radio.background");
        let BackgroundConfig { stations, packet, rate, load } = config.background;
        check_range(&key, "stations", stations.into(), 0.0, 100.0)?;
        check_range(&key, "packet", packet.0 as f64, 20.0, super::MOST_PACKET_BYTES as f64)?;
        let rate = rate.unwrap_or_else(|| phy.highest());
        phy.check(rate, &format!("{key}.rate"))?;
        if let Some(load) = load.filter(|load| *load > rate) {
            return Err(format!("{key}.load is {load}, allowed is at most their rate, {rate}"));
        }
        let medium = config.medium.as_deref().unwrap_or(link).to_owned();
        let mut contention =
            Self { medium, stations: Vec::new(), slots: 0, idle_from: 0, transmissions: Vec::new() };
        for number in 0..stations {
            let mean_gap = load.map(|load| packet.0 as f64 * 8e9 / load.bits_per_sec() as f64);
            let mut background = Background {
                bytes: packet.0 as u32,
                rate: rate.bits_per_sec(),
                mean_gap,
                next_arrival: 0,
                waiting: 0,
            };
            let mut draws = streams.stream(&format!("medium/{}/background_{number}", contention.medium));
            background.draw_arrival(&mut draws);
            contention.add_station(Traffic::Background(background), draws);
        }
        Ok(contention)
    }

    /// Adds a direction of a link, sent by this node.
    pub(super) fn add_lane(&mut self, node: &str, lane: usize, streams: Streams) {
        for station in &mut self.stations {
            if let Traffic::Node { name, lanes, .. } = &mut station.traffic
                && name == node
            {
                return lanes.push(lane);
            }
        }
        let draws = streams.stream(&format!("medium/{}/node/{node}", self.medium));
        let (name, lanes) = (node.to_owned(), vec![lane]);
        self.add_station(Traffic::Node { name, lanes, turn: 0, frame: None }, draws);
    }

    fn add_station(&mut self, traffic: Traffic, mut draws: Rng) {
        // The channel has been idle for long, so only stations that always have something to send are in a
        // backoff.
        let expires = match &traffic {
            Traffic::Background(Background { mean_gap: None, .. }) => draws.below(u64::from(CW_MIN) + 1),
            Traffic::Background(_) | Traffic::Node { .. } => 0,
        };
        self.stations.push(Station { traffic, expires, window: CW_MIN, tries: 0, draws });
    }

    /// Bytes of the frame that a lane is sending, perhaps not for the first time.
    pub(super) fn serving(&self, lane: usize) -> u64 {
        let sizes =
            self.stations.iter().filter_map(|station| station.frame_of(lane)).map(|packet| packet.size);
        sizes.map(u64::from).sum()
    }

    /// Number of packets of a lane that it has begun to send, 0 or 1.
    pub(super) fn holds(&self, lane: usize) -> u64 {
        self.stations.iter().filter_map(|station| station.frame_of(lane)).count() as u64
    }

    /// Begins with a packet that has come to a lane in which none waited.
    pub(super) fn start(&mut self, lane: usize, now: u64, phy: Phy, lanes: &[Lane]) {
        let Self { stations, slots, idle_from, .. } = self;
        for station in stations {
            if let Traffic::Node { lanes: own, frame: None, .. } = &station.traffic
                && own.contains(&lane)
                && own.iter().map(|&lane| lanes[lane].buffer.len()).sum::<u64>() == 1
            {
                station.begin(now, *slots, *idle_from, phy);
            }
        }
    }

    /// The time of the next transmission or background packet, if packets of a scenario wait.
    pub(super) fn next_event(&self, phy: Phy, lanes: &[Lane]) -> u64 {
        let is_of_interest =
            |station: &Station| matches!(station.traffic, Traffic::Node { .. }) && station.has_frame(lanes);
        if !self.stations.iter().any(is_of_interest) {
            return u64::MAX;
        }
        self.next_access(phy, lanes).1.min(self.next_arrival().0)
    }

    /// Lets everything happen up to this time, in nanoseconds.
    pub(super) fn advance(&mut self, to: u64, phy: Phy, lanes: &mut [Lane], releases: &mut Vec<Release>) {
        loop {
            let (slot, access) = self.next_access(phy, lanes);
            let (arrival, station) = self.next_arrival();
            if access.min(arrival) > to {
                return;
            }
            if access <= arrival {
                self.transmit(slot, access, phy, lanes, releases);
            } else {
                let Self { stations, slots, idle_from, .. } = self;
                stations[station].arrive(*slots, *idle_from, phy);
            }
        }
    }

    /// The slot in which the next station sends, and its time, which is never if no station has anything to
    /// send.
    fn next_access(&self, phy: Phy, lanes: &[Lane]) -> (u64, u64) {
        let with_frame = self.stations.iter().filter(|station| station.has_frame(lanes));
        let Some(slot) = with_frame.map(|station| station.expires).min() else { return (0, u64::MAX) };
        (slot, self.idle_from + (slot - self.slots) * phy.slot)
    }

    /// The next background packet and its station.
    fn next_arrival(&self) -> (u64, usize) {
        let arrival = |(index, station): (usize, &Station)| match &station.traffic {
            Traffic::Background(background) => Some((background.next_arrival, index)),
            Traffic::Node { .. } => None,
        };
        self.stations.iter().enumerate().filter_map(arrival).min().unwrap_or((u64::MAX, 0))
    }

    /// Lets the stations send, at `now`, whose counters are 0 in this slot.
    fn transmit(&mut self, slot: u64, now: u64, phy: Phy, lanes: &mut [Lane], releases: &mut Vec<Release>) {
        let mut transmissions = std::mem::take(&mut self.transmissions);
        for (index, station) in self.stations.iter_mut().enumerate() {
            if station.expires == slot && station.has_frame(lanes) {
                transmissions.extend(station.send(index, now, phy, lanes, releases));
            }
        }
        self.slots = slot;
        let is_collision = transmissions.len() > 1;
        let longest = transmissions.iter().map(|sent| sent.duration).max();
        self.idle_from = now;
        for Transmission { station, duration, acknowledgement, frame } in transmissions.drain(..) {
            let station = &mut self.stations[station];
            let is_damaged = is_collision || frame.is_some_and(|(lane, _)| lanes[lane].is_damaged(now));
            if let Some((lane, _)) = frame {
                let counters = &mut lanes[lane].counters;
                counters.frames += 1;
                counters.frame_errors += u64::from(is_damaged && !is_collision);
                counters.collisions += u64::from(is_collision);
            }
            station.tries += 1;
            let limit = frame.map_or(BACKGROUND_RETRY_LIMIT, |(lane, _)| lanes[lane].retry_limit);
            if is_damaged && station.tries < limit {
                // Section 10.3.3: the window doubles with every failure.
                station.window = (2 * station.window + 1).min(CW_MAX);
            } else {
                let fate = if is_damaged { Fate::Dropped(DropCause::Lost) } else { Fate::Delivered };
                if let Some((lane, packet)) = frame {
                    releases.push(lanes[lane].release(packet, now + duration, fate));
                }
                (station.window, station.tries) = (CW_MIN, 0);
                station.end();
            }
            station.expires = slot + station.draws.below(u64::from(station.window) + 1);
            let busy =
                if is_damaged { longest.unwrap_or(0) + phy.failure() } else { duration + acknowledgement };
            self.idle_from = now + busy + phy.ifs;
        }
        self.transmissions = transmissions;
    }
}

impl Station {
    fn has_frame(&self, lanes: &[Lane]) -> bool {
        match &self.traffic {
            Traffic::Node { lanes: own, frame, .. } => {
                frame.is_some() || own.iter().any(|&lane| lanes[lane].buffer.len() > 0)
            }
            Traffic::Background(background) => background.mean_gap.is_none() || background.waiting > 0,
        }
    }

    /// The station's frame, if it belongs to this lane.
    fn frame_of(&self, lane: usize) -> Option<&Held> {
        match &self.traffic {
            Traffic::Node { frame: Some((of, packet)), .. } if *of == lane => Some(packet),
            _ => None,
        }
    }

    /// Takes a packet while the station has no other, and returns when it may be sent. `slots` idle slots
    /// were counted up to `idle_from`.
    fn begin(&mut self, now: u64, slots: u64, idle_from: u64, phy: Phy) {
        if now < idle_from {
            // Section 10.3.4.2: the channel is busy or not idle long enough, so there is a backoff.
            if self.expires <= slots {
                self.expires = slots + self.draws.below(u64::from(CW_MIN) + 1);
            }
        } else {
            self.expires = self.expires.max(slots + (now - idle_from).div_ceil(phy.slot));
        }
    }

    /// Adds a background packet that arrives.
    fn arrive(&mut self, slots: u64, idle_from: u64, phy: Phy) {
        let Traffic::Background(background) = &mut self.traffic else { return };
        let now = background.next_arrival;
        background.draw_arrival(&mut self.draws);
        background.waiting = (background.waiting + 1).min(MOST_WAITING);
        if background.waiting == 1 {
            self.begin(now, slots, idle_from, phy);
        }
    }

    /// The station's frame, or the next one if it has none; `None` if a discipline has dropped all that
    /// waited.
    fn send(
        &mut self,
        station: usize,
        now: u64,
        phy: Phy,
        lanes: &mut [Lane],
        releases: &mut Vec<Release>,
    ) -> Option<Transmission> {
        let (bytes, rate, frame) = match &mut self.traffic {
            Traffic::Background(background) => (background.bytes, background.rate, None),
            Traffic::Node { lanes: own, turn, frame, .. } => {
                for _ in 0..own.len() {
                    if frame.is_some() {
                        break;
                    }
                    let lane = own[*turn];
                    *turn = (*turn + 1) % own.len();
                    *frame = lanes[lane].buffer.next(now, releases).map(|packet| (lane, packet));
                }
                let (lane, packet) = (*frame)?;
                (packet.size, lanes[lane].rate.at(now), *frame)
            }
        };
        let (duration, acknowledgement) = (phy.data(bytes, rate), phy.acknowledgement(rate));
        Some(Transmission { station, duration, acknowledgement, frame })
    }

    /// Ends the station's work on its frame.
    fn end(&mut self) {
        match &mut self.traffic {
            Traffic::Background(background) => background.waiting = background.waiting.saturating_sub(1),
            Traffic::Node { frame, .. } => *frame = None,
        }
    }
}

impl Background {
    fn draw_arrival(&mut self, draws: &mut Rng) {
        self.next_arrival = match self.mean_gap {
            Some(mean) => self.next_arrival.saturating_add((draws.exponential() * mean) as u64 + 1),
            None => u64::MAX,
        };
    }
}

/// The node that sends in a direction of a link.
pub(super) fn sender(ends: &[String; 2], direction: Direction) -> &str {
    &ends[direction.index()]
}
