//! When packets are in a first-in-first-out server: the trace of its queue.

use anabranch_transport::time::Time;

use super::backlog::Backlog;
use super::capacity::{Departure, UNITS_PER_BYTE};
use super::packets::QueueSample;

/// The packets that a server of a traced link has taken, cross traffic too, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stays {
    list: Vec<Stay>,
    /// When the service of the packet of interest that came last begins, and when it leaves, in nanoseconds;
    /// kept until it is taken.
    service: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Stay {
    /// In nanoseconds.
    arrived: u64,
    end: Departure,
    bytes: u64,
}

impl Stay {
    /// In nanoseconds; `u64::MAX` if it never ends.
    fn ended(self) -> u64 {
        match self.end {
            Departure::At(time) | Departure::Flushed(time) => time,
            Departure::Never => u64::MAX,
        }
    }
}

impl Stays {
    /// Adds a packet to the backlog at `now`, up to which the backlog is accounted for. A packet of interest
    /// is one whose [`Stays::take_service`] is going to be asked for.
    pub(crate) fn push(&mut self, backlog: &mut Backlog, now: u64, units: u64, is_of_interest: bool) {
        // An idle server begins at once, even while it stands still.
        let begun = if backlog.units() == 0 { Departure::At(now) } else { backlog.departure() };
        backlog.push(units);
        let end = backlog.departure();
        self.list.push(Stay { arrived: now, end, bytes: units / UNITS_PER_BYTE });
        if is_of_interest && let (Departure::At(begun), Departure::At(left)) = (begun, end) {
            self.service = Some((begun, left));
        }
    }

    /// When the service of the packet of interest that came last begins, and when it leaves, in nanoseconds.
    /// [`None`] if it is not served, or if this was asked before.
    pub(crate) fn take_service(&mut self) -> Option<(u64, u64)> {
        self.service.take()
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Stay>()
    }

    /// What waited after each change of the queue. At equal times packets leave, then the queue is flushed,
    /// then packets arrive one by one.
    pub(crate) fn take_samples(&mut self) -> Vec<QueueSample> {
        let stays = std::mem::take(&mut self.list);
        let mut samples = Vec::new();
        let (mut first, mut next, mut bytes) = (0, 0, 0);
        loop {
            let inside = &stays[first..next];
            let end = inside.first().map_or(u64::MAX, |stay| stay.ended());
            let time = stays.get(next).map_or(u64::MAX, |stay| stay.arrived).min(end);
            if time == u64::MAX {
                return samples;
            }
            if end == time {
                let leaving = inside.iter().take_while(|stay| stay.end == inside[0].end);
                let (count, left) =
                    leaving.fold((0, 0), |(count, left), stay| (count + 1, left + stay.bytes));
                first += count;
                bytes -= left;
            } else {
                bytes += stays[next].bytes;
                next += 1;
            }
            let in_service = stays[first..next].first().map_or(0, |stay| stay.bytes);
            samples.push(QueueSample {
                time: Time::from_nanos(time),
                packets: (next - first).saturating_sub(1) as u64,
                bytes: bytes - in_service,
            });
        }
    }
}
