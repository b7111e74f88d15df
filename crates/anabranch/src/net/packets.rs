//! What the files of links share: directions, packets that are held and released, and fates of packets.

use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::Ecn;
use anabranch_transport::time::Time;

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

    /// The index in a pair: 0 for forward.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// The queue discipline dropped it before the queue was full.
    Aqm,
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
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Aqm, Self::Corrupted, Self::Down, Self::Lost, Self::QueueFull];

    /// In lower case, for traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aqm => "aqm",
            Self::Corrupted => "corrupted",
            Self::Down => "down",
            Self::Lost => "lost",
            Self::QueueFull => "queue_full",
        }
    }
}

/// The result of offering a packet to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It leaves the server at this time: call [`resume`] then. Crossings of one direction come in the order
    /// of their calls to [`accept`], and so have the calls to `resume` to.
    ///
    /// [`accept`]: super::DuplexLink::accept
    /// [`resume`]: super::DuplexLink::resume
    Cross {
        /// When the packet crosses.
        at: Time,
        /// The ECN field after the queue, which `resume` needs.
        ecn: Ecn,
    },
    /// The packet arrives at the other end.
    Deliver {
        /// When it arrives.
        at: Time,
        /// The ECN field with which it arrives.
        ecn: Ecn,
        /// When a copy of it arrives, if there is one: right after it.
        copy: Option<Time>,
    },
    /// The packet goes no further.
    Drop(DropCause),
    /// The packet stays in the link to the end of the run, because the link is down and never comes up again.
    Stays,
}

/// What a link can decide about a packet at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The packet arrives at the other end at this time.
    Arrives(Time),
    /// A process of loss that both directions share loses the packet before the queue.
    Lost,
    /// The packet has to be offered to the queue to decide.
    Undecided,
}

/// The fate of a packet in a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is a copy that the link made, and is delivered.
    Copied,
    #[default]
    Delivered,
    Dropped(DropCause),
}

/// A packet in a medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The number by which the caller knows it.
    pub(crate) slot: u32,
    /// When it arrived, in nanoseconds.
    pub(crate) arrived: u64,
    pub(crate) size: u32,
    pub(crate) ecn: Ecn,
    /// The flow, side and path that sent it, as a number; disciplines tell flows apart by it.
    pub(crate) flow: u32,
    /// The nodes that send and receive it, as numbers.
    pub(crate) hosts: [u8; 2],
    pub(crate) treatment: Treatment,
    /// The unfinished work that it found when it arrived, in units of `UNITS_PER_BYTE`.
    pub(crate) found_units: u64,
}

/// The treatment that a packet asks for, and whether the queue marks it, if its transport understands marks:
/// in one octet, as a packet that is held has 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment(u8);

const _: () = assert!(size_of::<Held>() == 32);

impl Treatment {
    const MARKED: u8 = 0x80;

    /// A packet that no queue has marked.
    pub(crate) const fn new(dscp: Dscp) -> Self {
        Self(dscp.number())
    }
}

impl Held {
    /// The treatment that it asks for.
    pub(crate) const fn dscp(&self) -> Dscp {
        Dscp::new(self.treatment.0)
    }

    /// Whether a queue has marked it.
    pub(crate) const fn is_marked(&self) -> bool {
        self.treatment.0 & Treatment::MARKED != 0
    }

    /// Marks it.
    pub(crate) const fn mark(&mut self) {
        self.treatment.0 |= Treatment::MARKED;
    }
}

/// A packet leaves a medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub(crate) link: u32,
    pub(crate) direction: Direction,
    pub(crate) packet: Held,
    /// When the server began with it, in nanoseconds; [`None`] if a radio serves the link, or if it was not
    /// served.
    pub(crate) begun: Option<u64>,
    /// When it leaves, in nanoseconds. The time may lie ahead, and never decreases within a direction of a
    /// link.
    pub(crate) at: u64,
    /// Whether it goes on to the link's last stages.
    pub(crate) fate: Fate,
}

/// The place where a direction of a link enters its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// The link's number among those of the medium.
    pub(crate) station: usize,
    pub(crate) direction: Direction,
}

/// What waits in a queue from a given time on, without the packet in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// The time from which this is so.
    pub time: Time,
    /// Number of packets that wait.
    pub packets: u64,
    /// Number of bytes that wait.
    pub bytes: u64,
}

/// The queue's decision about a packet of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The packet leaves the server.
    Departs {
        /// When it leaves, in nanoseconds.
        at: u64,
        /// The unfinished work that it found.
        found_units: u64,
        /// Whether the packet is marked, if it is ECN-capable.
        marked: bool,
    },
    /// The link is down and takes no packets.
    Down,
    /// It is accepted, and lost when the link goes down at this time.
    Flushed(u64),
    /// The discipline drops the packet.
    Full,
    /// It is accepted and never leaves, since the server stands still from some time on.
    Stays,
}

/// What waits for service, without the packet in service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Waiting {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}
