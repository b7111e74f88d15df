//! Media: servers that act at events of their own, each for one link or for several.
//!
//! Most links say at once when a packet arrives. A link that cannot, since what comes later has a say in it
//! (frames that stations share, a discipline that drops at departure), belongs to a medium. Such a link holds
//! a packet: its first stages are [`DuplexLink::hold`](super::DuplexLink::hold), the medium's queue takes the
//! packet or not, and at an event of the medium the packet is released with its fate, for the link's last
//! stages ([`DuplexLink::release`](super::DuplexLink::release)). A medium names the time of its next event
//! after each call, and has none while it has nothing to do.

use anabranch_transport::report::Report;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use indexmap::IndexMap;
use indexmap::map::Entry;

use super::config::LinkConfig;
use super::packets::{Direction, Held, Port, QueueSample, Release};
use super::queued::QueuedServer;
use super::radio::{BaseStation, Bearer, Cell, NrBearer, RadioConfig, RadioSample, ServedLink};

/// A server of some links.
#[derive(Debug)]
pub(crate) enum Medium {
    Lte(Box<Bearer>),
    Nr(Box<NrBearer>),
    Queue(Box<QueuedServer>),
    Wifi(Box<Cell>),
    Wimax(Box<BaseStation>),
}

impl Medium {
    /// The medium of a link's radio, which is the first one of it; stations that can be several are added
    /// later.
    fn of_radio(radio: &RadioConfig, link: &ServedLink<'_>) -> Result<Self, String> {
        Ok(match radio {
            RadioConfig::Leo(_) => unreachable!("such a link follows timetables"),
            RadioConfig::Lte(config) => Self::Lte(Box::new(Bearer::build(link, config)?)),
            RadioConfig::Nr(config) => Self::Nr(Box::new(NrBearer::build(link, config)?)),
            RadioConfig::Wifi(config) => Self::Wifi(Box::new(Cell::new(config, link.name, link.streams)?)),
            RadioConfig::Wimax(config) => Self::Wimax(Box::new(BaseStation::new(&config.cell, link.name)?)),
        })
    }

    /// Takes a packet that comes to this port now. Packets that leave for that, perhaps this one, are
    /// appended to `releases`.
    pub(crate) fn accept(&mut self, port: Port, packet: Held, releases: &mut Vec<Release>) {
        match self {
            Self::Lte(bearer) => bearer.accept(port, packet, releases),
            Self::Nr(bearer) => bearer.accept(port, packet, releases),
            Self::Queue(server) => server.accept(packet, releases),
            Self::Wifi(cell) => cell.accept(port, packet, releases),
            Self::Wimax(station) => station.accept(port, packet, releases),
        }
    }

    /// Serves a queue at the rate of `other`, the same medium built anew, from `now` on. A radio stays as it
    /// is.
    pub(crate) fn take_rate(&mut self, now: Time, other: Self, releases: &mut Vec<Release>) {
        if let (Self::Queue(server), Self::Queue(other)) = (self, other) {
            server.take_rate(now.as_nanos(), *other, releases);
        }
    }

    /// The rate in bit/s at which a queue is served now; [`None`] for a radio.
    pub(crate) fn present_rate(&self) -> Option<u64> {
        if let Self::Queue(server) = self { Some(server.present_rate()) } else { None }
    }

    /// The time of its next action; [`Time::NEVER`] while it has nothing to do.
    pub(crate) fn next_event(&self) -> Time {
        match self {
            Self::Lte(bearer) => bearer.next_event(),
            Self::Nr(bearer) => bearer.next_event(),
            Self::Queue(server) => server.next_event(),
            Self::Wifi(cell) => cell.next_event(),
            Self::Wimax(station) => station.next_event(),
        }
    }

    /// Acts at `now`, the time that it named; the packets that leave are appended to `releases`.
    pub(crate) fn handle_event(&mut self, now: Time, releases: &mut Vec<Release>) {
        match self {
            Self::Lte(bearer) => bearer.handle_event(now.as_nanos(), releases),
            Self::Nr(bearer) => bearer.handle_event(now.as_nanos(), releases),
            Self::Queue(server) => server.advance(now.as_nanos(), releases),
            Self::Wifi(cell) => cell.handle_event(now.as_nanos(), releases),
            Self::Wimax(station) => station.handle_event(now.as_nanos(), releases),
        }
    }

    /// Lets everything happen up to this time, if that is put off.
    pub(crate) fn catch_up(&mut self, until: Time, releases: &mut Vec<Release>) {
        if let Self::Queue(server) = self {
            server.catch_up(until.as_nanos(), releases);
        }
    }

    /// The run has come to this time, at which it reports.
    fn finish(&mut self, now: u64) {
        match self {
            Self::Lte(bearer) => bearer.finish(now),
            Self::Nr(bearer) => bearer.finish(now),
            Self::Queue(server) => server.finish(now),
            Self::Wifi(cell) => cell.finish(now),
            Self::Wimax(_) => {}
        }
    }

    fn holds(&self, port: Port) -> u64 {
        match self {
            Self::Lte(bearer) => bearer.holds(port),
            Self::Nr(bearer) => bearer.holds(port),
            Self::Queue(server) => server.holds(),
            Self::Wifi(cell) => cell.holds(port),
            Self::Wimax(station) => station.holds(port),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Lte(bearer) => bearer.memory(),
            Self::Nr(bearer) => bearer.memory(),
            Self::Queue(server) => server.memory(),
            Self::Wifi(cell) => cell.memory(),
            Self::Wimax(station) => station.memory(),
        }
    }

    fn report(&self, port: Port, report: &mut Report<'_>) {
        match self {
            Self::Lte(bearer) => bearer.report(port, report),
            Self::Nr(bearer) => bearer.report(port, report),
            Self::Queue(server) => server.report(report),
            Self::Wifi(cell) => cell.report(port, report),
            Self::Wimax(station) => station.report(port, report),
        }
    }

    fn take_queue_samples(&mut self, port: Port) -> Vec<QueueSample> {
        match self {
            Self::Lte(bearer) => bearer.take_queue_samples(port),
            Self::Nr(bearer) => bearer.take_queue_samples(port),
            Self::Queue(server) => server.take_samples(),
            Self::Wifi(cell) => cell.take_queue_samples(port),
            Self::Wimax(station) => station.take_queue_samples(port),
        }
    }

    fn take_radio_samples(&mut self, port: Port) -> Vec<RadioSample> {
        match self {
            Self::Lte(_) | Self::Nr(_) | Self::Queue(_) | Self::Wifi(_) => Vec::new(),
            Self::Wimax(station) => station.take_radio_samples(port),
        }
    }
}

/// All media of a network, and which link belongs to which.
#[derive(Debug, Default)]
pub(crate) struct Media {
    pub(crate) list: Vec<Medium>,
    /// For each link and direction, its medium and its number there; empty if no link has one.
    of_links: Vec<[Option<(u32, u32)>; 2]>,
}

impl Media {
    /// The media of these links.
    ///
    /// # Errors
    /// One sentence that names the key, what was found and what is allowed.
    pub(crate) fn build(
        links: &IndexMap<String, LinkConfig>,
        streams: Streams,
        is_traced: bool,
    ) -> Result<Self, String> {
        let has_any = |link: &LinkConfig| Direction::BOTH.iter().any(|&direction| link.has_medium(direction));
        if !links.values().any(has_any) {
            return Ok(Self::default());
        }
        let mut of_links = vec![[None; 2]; links.len()];
        let mut list = Self::radios(links, streams, is_traced, &mut of_links)?;
        for (index, (name, link)) in links.iter().enumerate() {
            for direction in Direction::BOTH {
                let Some(server) =
                    QueuedServer::build(index as u32, name, link, direction, streams, is_traced)?
                else {
                    continue;
                };
                of_links[index][direction.index()] = Some((list.len() as u32, 0));
                list.push(Medium::Queue(Box::new(server)));
            }
        }
        Ok(Self { list, of_links })
    }

    /// Builds the media of all radio links and enters them in `of_links`.
    fn radios(
        links: &IndexMap<String, LinkConfig>,
        streams: Streams,
        is_traced: bool,
        of_links: &mut [[Option<(u32, u32)>; 2]],
    ) -> Result<Vec<Medium>, String> {
        let mut media: IndexMap<(&str, &str), Medium> = IndexMap::new();
        for (index, (name, link)) in links.iter().enumerate() {
            let Some(radio) = &link.radio else { continue };
            let served = ServedLink {
                index: index as u32,
                name,
                ends: &link.ends,
                queues: Direction::BOTH.map(|direction| link.queue(direction, name)),
                streams,
                is_traced,
            };
            let entry = media.entry((radio.kind(), radio.shared_name().unwrap_or(name)));
            let number = entry.index() as u32;
            let medium = match entry {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Medium::of_radio(radio, &served)?),
            };
            let station = match (medium, radio) {
                (Medium::Lte(_) | Medium::Nr(_), _) => 1,
                (Medium::Wifi(cell), RadioConfig::Wifi(config)) => {
                    cell.add(&served, config)?;
                    cell.len()
                }
                (Medium::Wimax(base), RadioConfig::Wimax(config)) => {
                    base.add(&served, config)?;
                    base.len()
                }
                _ => unreachable!("media are told apart by their kind"),
            };
            of_links[index] = [Some((number, station as u32 - 1)); 2];
        }
        Ok(media.into_values().collect())
    }

    /// Lets queues serve their packets late: what leaves one need not be known before it can have come to the
    /// other end of its link, `latest` after that.
    pub(crate) fn put_off_departures(&mut self, latest: impl Fn(u32, Direction) -> Duration) {
        for medium in &mut self.list {
            if let Medium::Queue(server) = medium {
                server.put_off_departures(&latest);
            }
        }
    }

    /// Whether one of them has bursts for the radio trace.
    pub(crate) fn has_radio(&self) -> bool {
        self.list.iter().any(|medium| matches!(medium, Medium::Wimax(_)))
    }

    /// Advances all media to this time, at which the run reports.
    pub(crate) fn finish(&mut self, now: Time) {
        for medium in &mut self.list {
            medium.finish(now.as_nanos());
        }
    }

    /// The medium of a link that has one, and where its direction enters.
    pub(crate) fn port(&self, link: u32, direction: Direction) -> Option<(u32, Port)> {
        let (medium, station) = self.of_links.get(link as usize)?[direction.index()]?;
        Some((medium, Port { station: station as usize, direction }))
    }

    /// Packets of this direction in the medium.
    pub(crate) fn holds(&self, link: u32, direction: Direction) -> u64 {
        self.port(link, direction).map_or(0, |(medium, port)| self.list[medium as usize].holds(port))
    }

    /// The rate in bit/s at which a direction's queue is served now; [`None`] if it has no medium or a radio.
    pub(crate) fn present_rate(&self, link: u32, direction: Direction) -> Option<u64> {
        let (medium, _) = self.port(link, direction)?;
        self.list[medium as usize].present_rate()
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.list.iter().map(Medium::memory).sum()
    }

    /// Writes what is counted for a link, direction by direction.
    pub(crate) fn report(&self, link: usize, report: &mut Report<'_>) {
        for direction in Direction::BOTH {
            if let Some((medium, port)) = self.port(link as u32, direction) {
                self.list[medium as usize].report(port, &mut report.section(direction.name()));
            }
        }
    }

    /// The samples of a direction's queue. There are none if the link has no medium or is not traced.
    pub(crate) fn take_queue_samples(&mut self, link: u32, direction: Direction) -> Vec<QueueSample> {
        self.port(link, direction)
            .map(|(medium, port)| self.list[medium as usize].take_queue_samples(port))
            .unwrap_or_default()
    }

    /// The samples of a direction's radio; none if the link has none or is not traced.
    pub(crate) fn take_radio_samples(&mut self, link: u32, direction: Direction) -> Vec<RadioSample> {
        self.port(link, direction)
            .map(|(medium, port)| self.list[medium as usize].take_radio_samples(port))
            .unwrap_or_default()
    }
}
