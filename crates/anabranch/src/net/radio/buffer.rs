//! The queue of one direction of a radio link, with any discipline, and its measurements.

use anabranch_transport::report::Report;
use anabranch_transport::time::Time;

use super::served_link::ServedLink;
use crate::net::capacity::{MAX_BACKLOG_UNITS, UNITS_PER_BYTE};
use crate::net::packets::{Direction, DropCause, Fate, Held, QueueSample, Release};
use crate::net::qdisc::{Discipline, DropTailConfig, Drops, Place, QueueConfig, QueueDisc as _};
use crate::net::sojourns::{MEAN_QUEUE_PACKETS, Sojourns};
use crate::schedule::Schedule;

/// The buffer that an operator's base station or a phone has for a user.
const BEARER_PACKETS: u32 = 1_500;

/// What waits at one end of a link.
#[derive(Debug)]
pub(super) struct Buffer {
    link: u32,
    direction: Direction,
    discipline: Discipline,
    drops: Drops,
    sojourns: Sojourns,
    /// Number of waiting packets times nanoseconds, up to `now`.
    area: u128,
    now: u64,
    /// The queue's changes, for a link that is traced.
    samples: Option<Vec<QueueSample>>,
}

impl Buffer {
    /// The queue of a direction of a link; `default` takes the place of the default one.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn build(
        link: &ServedLink<'_>,
        direction: Direction,
        default: &QueueConfig,
    ) -> Result<Self, String> {
        let (queue, key) = &link.queues[direction.index()];
        let queue = *queue;
        let queue = if *queue == QueueConfig::default() { default } else { queue };
        if let Some(shaper) = queue.shaper() {
            return Err(format!(
                "{key}.{shaper}, which shapes; a link with a `radio` sends at the radio's rate, so shape on a link before \
                 it, or leave that out"
            ));
        }
        let component = format!("link/{}/{}/queue", link.name, direction.name());
        Ok(Self {
            link: link.index,
            direction,
            discipline: queue.build(Place { key, streams: link.streams, component: &component })?,
            drops: Drops::default(),
            sojourns: Sojourns::default(),
            area: 0,
            now: 0,
            samples: link.is_traced.then(Vec::new),
        })
    }

    /// The queue of a user's bearer in LTE and in NR.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn of_bearer(link: &ServedLink<'_>, direction: Direction) -> Result<Self, String> {
        let packets = Some(Schedule::Constant(BEARER_PACKETS));
        Self::build(
            link,
            direction,
            &QueueConfig::DropTail(DropTailConfig { packets, ..DropTailConfig::default() }),
        )
    }

    /// Takes a packet that comes while `serving` bytes are being sent, or releases it with its fate. Gives
    /// whether there are more packets now.
    pub(super) fn accept(&mut self, mut packet: Held, serving: u64, releases: &mut Vec<Release>) -> bool {
        let now = packet.arrived;
        let before = self.go_to(now);
        packet.found_units = (serving + self.discipline.waiting().bytes) * UNITS_PER_BYTE;
        if packet.found_units + u64::from(packet.size) * UNITS_PER_BYTE < MAX_BACKLOG_UNITS {
            self.discipline.enqueue(now, packet, &mut self.drops);
        } else {
            self.drops.overflow(packet);
        }
        self.release_drops(releases);
        self.len() > before
    }

    /// Takes out the packet that is sent next; [`None`] if no packet waits any more.
    pub(super) fn next(&mut self, now: u64, releases: &mut Vec<Release>) -> Option<Held> {
        self.go_to(now);
        let packet = self.discipline.dequeue(now, &mut self.drops);
        if let Some(packet) = packet {
            self.sojourns.record(now - packet.arrived);
        }
        self.release_drops(releases);
        packet
    }

    /// A packet is lost because its station is between two cells.
    pub(super) fn lose(&self, packet: Held, now: u64) -> Release {
        self.release(packet, now, Fate::Dropped(DropCause::Down))
    }

    /// Everything that waits is lost for that reason.
    pub(super) fn lose_all(&mut self, now: u64, releases: &mut Vec<Release>) {
        while let Some(packet) = self.next(now, releases) {
            releases.push(self.lose(packet, now));
        }
    }

    /// A packet leaves the link at this time, in nanoseconds.
    pub(super) fn release(&self, packet: Held, at: u64, fate: Fate) -> Release {
        Release { link: self.link, direction: self.direction, packet, begun: None, at, fate }
    }

    /// Number of bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.discipline.waiting().bytes
    }

    /// Number of packets that wait.
    pub(super) fn len(&self) -> u64 {
        self.discipline.waiting().packets
    }

    pub(super) fn memory(&self) -> usize {
        let samples = self.samples.as_ref().map_or(0, Vec::capacity) * size_of::<QueueSample>();
        samples + self.discipline.memory() + self.sojourns.memory()
    }

    pub(super) fn take_samples(&mut self) -> Vec<QueueSample> {
        self.samples.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Advances to this time, at which the run reports.
    pub(super) fn finish(&mut self, now: u64) {
        self.go_to(now.max(self.now));
    }

    /// Writes waiting times of packets that were sent, and the mean length.
    pub(super) fn report(&self, report: &mut Report<'_>) {
        self.sojourns.report(report);
        self.discipline.report(report);
        report.mean(MEAN_QUEUE_PACKETS, self.area as f64, self.now);
    }

    /// Advances to this time, and returns how many packets wait.
    fn go_to(&mut self, now: u64) -> u64 {
        let waiting = self.len();
        self.area += u128::from(now - self.now) * u128::from(waiting);
        self.now = now;
        waiting
    }

    /// Releases what the discipline has dropped.
    fn release_drops(&mut self, releases: &mut Vec<Release>) {
        let mut drops = std::mem::take(&mut self.drops);
        releases.extend(
            drops.0.drain(..).map(|(packet, cause)| self.release(packet, self.now, Fate::Dropped(cause))),
        );
        self.drops = drops;
        if let Some(samples) = &mut self.samples {
            let waiting = self.discipline.waiting();
            let time = Time::from_nanos(self.now);
            samples.push(QueueSample { time, packets: waiting.packets, bytes: waiting.bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::net::packets::Treatment;
    use anabranch_transport::flow::Ecn;
    use anabranch_transport::rng::Streams;

    use super::*;
    use crate::net::qdisc::CodelConfig;

    /// A packet with which more than 1.15 GB would wait is dropped, as on links without a radio.
    #[test]
    fn work_is_counted_in_63_bits() {
        let queue = QueueConfig::Codel(CodelConfig::default());
        let (default, streams) = (QueueConfig::default(), Streams { seed: 1, replication: 0 });
        let queues = [(&queue, "queue".to_owned()), (&queue, "queue".to_owned())];
        let ends = Default::default();
        let link = ServedLink { index: 0, name: "air", ends: &ends, queues, streams, is_traced: false };
        let mut buffer = Buffer::build(&link, Direction::Forward, &default).unwrap();
        let mut releases = Vec::new();
        for slot in 0..4 {
            let packet = Held {
                slot,
                arrived: 0,
                size: 500_000_000,
                ecn: Ecn::NotEct,
                flow: 0,
                hosts: [0; 2],
                treatment: Treatment::default(),
                found_units: 0,
            };
            assert_eq!(buffer.accept(packet, 1500, &mut releases), slot < 2);
        }
        let fates: Vec<_> = releases.iter().map(|release| (release.packet.slot, release.fate)).collect();
        assert_eq!(fates, [2, 3].map(|slot| (slot, Fate::Dropped(DropCause::QueueFull))));
    }
}
