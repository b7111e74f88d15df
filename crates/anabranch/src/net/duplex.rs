//! A duplex link: two directions, and what they share.

use super::config::LinkConfig;
use super::direction::{OneWay, is_shared_by_packets};
use super::evented::QueueSample;
use super::loss::{Loss, LossModel as _, LossPlace, LossSharing};
use crate::packet::Ecn;
use crate::report::Report;
use crate::rng::Streams;
use crate::time::Time;

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first of the link's ends to the second.
    Forward,
    /// From the second of the link's ends to the first.
    Reverse,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// As an index into a pair: forward is 0.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// `forward` or `reverse`, as names of streams and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// It arrived damaged.
    Corrupted,
    /// The link was down.
    Down,
    /// The link's loss model lost it.
    Lost,
    /// The queue was full.
    QueueFull,
}

impl DropCause {
    /// In lower case, for traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Corrupted => "corrupted",
            Self::Down => "down",
            Self::Lost => "lost",
            Self::QueueFull => "queue_full",
        }
    }
}

/// What a link does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It leaves the server at this time: call [`DuplexLink::resume`] then. Crossings of one direction
    /// come in the order of their calls to [`DuplexLink::accept`], and so have the calls to `resume` to.
    Cross {
        /// When.
        at: Time,
        /// Its ECN field after the queue, for `resume`.
        ecn: Ecn,
    },
    /// It arrives at the other end.
    Deliver {
        /// When.
        at: Time,
        /// Its ECN field then.
        ecn: Ecn,
        /// When a copy of it arrives, right after it.
        copy: Option<Time>,
    },
    /// It goes no further.
    Drop(DropCause),
    /// It stays in the link to the end of the run: the link is down and never comes up again.
    Held,
}

/// A duplex link.
///
/// Calls in one direction have times that never decrease. Where [`DuplexLink::can_run_ahead`] says so, a
/// direction may be called ahead of simulated time, without regard to the other direction.
#[derive(Clone, Debug)]
pub struct DuplexLink {
    directions: [OneWay; 2],
    /// A process of loss that packets of both directions move.
    shared_loss: Option<(LossPlace, Loss)>,
}

impl DuplexLink {
    /// The link of this name, with lazily evaluated queues.
    ///
    /// # Errors
    /// One sentence that names the key, what was found and what is allowed.
    pub fn build(config: &LinkConfig, name: &str, streams: Streams) -> Result<Self, String> {
        Self::build_either(config, name, streams, false)
    }

    /// The same link event by event, which gathers [`DuplexLink::take_queue_samples`]. Its results are the
    /// same.
    ///
    /// # Errors
    /// As [`DuplexLink::build`].
    pub fn build_traced(config: &LinkConfig, name: &str, streams: Streams) -> Result<Self, String> {
        Self::build_either(config, name, streams, true)
    }

    fn build_either(
        config: &LinkConfig,
        name: &str,
        streams: Streams,
        is_traced: bool,
    ) -> Result<Self, String> {
        let is_shared = config.loss.sharing() == LossSharing::Shared;
        if is_shared && config.reverse.as_ref().is_some_and(|reverse| reverse.loss.is_some()) {
            return Err(format!(
                "links.{name}.reverse.loss is given although links.{name}.loss.sharing is \"shared\"; leave out one of \
                 the two"
            ));
        }
        if let Some(loss) = config.reverse.as_ref().and_then(|reverse| reverse.loss.as_ref())
            && loss.sharing() == LossSharing::Shared
        {
            return Err(format!(
                "links.{name}.reverse.loss.sharing is \"shared\", allowed there is only \"per_direction\""
            ));
        }
        let shared_loss = if is_shared_by_packets(&config.loss) {
            let component = format!("link/{name}/loss");
            let key = format!("links.{name}.loss");
            let loss = config.loss.build(streams, &component, &format!("{component}/packet"), &key)?;
            Some((config.loss.place(), loss))
        } else {
            None
        };
        let key = format!("links.{name}");
        let forward = OneWay::build(config, name, &key, Direction::Forward, streams, is_traced)?;
        let reversed = config.reversed();
        // What forward has accepted can only be wrong in what `reverse` puts in its place.
        let key = format!("links.{name}.reverse");
        let reverse = OneWay::build(&reversed, name, &key, Direction::Reverse, streams, is_traced)?;
        Ok(Self { directions: [forward, reverse], shared_loss })
    }

    /// Whether a direction may be called ahead of simulated time. Otherwise calls for both directions
    /// have to come in global time order.
    pub fn can_run_ahead(&self, _direction: Direction) -> bool {
        self.shared_loss.is_none()
    }

    /// Whether packets leave a direction in the order in which they entered it.
    pub fn keeps_order(&self, direction: Direction) -> bool {
        self.directions[direction.index()].keeps_order()
    }

    /// Takes a packet of `size` bytes that arrives at `now`, which never decreases within a direction.
    #[inline]
    pub fn accept(&mut self, now: Time, direction: Direction, size: u32, ecn: Ecn) -> Step {
        let one_way = &mut self.directions[direction.index()];
        if let Some((place, loss)) = &mut self.shared_loss {
            if *place == LossPlace::Wire {
                return one_way.accept_shared(now, size, ecn, loss);
            }
            if loss.is_lost(now, size) {
                return one_way.lose_on_arrival(now, size);
            }
        }
        one_way.accept(now, size, ecn)
    }

    /// Takes a packet for the second half of the link, at the time that [`Step::Cross`] named.
    pub fn resume(&mut self, now: Time, direction: Direction, size: u32, ecn: Ecn) -> Step {
        let is_lost = match &mut self.shared_loss {
            Some((_, loss)) => loss.is_lost(now, size),
            None => false,
        };
        let one_way = &mut self.directions[direction.index()];
        one_way.resume(now, size, ecn, is_lost)
    }

    /// Brings every lazy state to the end of the run, and asserts that every packet is accounted for.
    ///
    /// Packets that the link was asked for ahead of time and that had not arrived by then are not counted,
    /// up to a second ahead. Cross traffic is counted up to the later of `end` and the last call.
    pub fn finish(&mut self, end: Time) {
        for one_way in &mut self.directions {
            one_way.finish(end);
        }
    }

    /// Writes the counters of both directions, after [`DuplexLink::finish`].
    pub fn report(&self, report: &mut Report<'_>) {
        for direction in Direction::BOTH {
            self.directions[direction.index()].report(&mut report.section(direction.name()));
        }
    }

    /// Takes the samples of a direction's queue gathered so far; none unless the link is traced.
    pub fn take_queue_samples(&mut self, direction: Direction) -> Vec<QueueSample> {
        self.directions[direction.index()].take_samples()
    }
}
