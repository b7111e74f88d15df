//! The choice of the stream that sends next: the stream schedulers of RFC 8260 section 3.
//!
//! Without interleaving a message leaves whole before the next is chosen; with it the choice is made for
//! every chunk (section 2). Strict priority serves equals in turn. Fair capacity and weighted fair queueing
//! are start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996), in bytes of user data.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queued_message::QueuedMessage;

/// Which stream sends next (RFC 8260 section 3).
///
/// Kinds without keys are written with braces since serde lets unknown keys of unit variants pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "StreamSchedulerConfig")]
pub enum Config {
    /// The stream that has sent the fewest bytes sends next (section 3.5).
    FairCapacity {},
    /// Messages leave in the order in which they were handed over (section 3.1).
    Fcfs {},
    /// The stream of the highest priority sends next (section 3.4).
    Priority {
        /// Priority of each stream, from stream 0 on. 0 is the highest, and streams that are not listed have
        /// it.
        priorities: Vec<u16>,
    },
    /// Every stream sends in turn: one message each or, with interleaving, one chunk each (section 3.2).
    RoundRobin {},
    /// Every stream sends in turn: one packet each, which holds messages of that stream only (section 3.3).
    RoundRobinPacket {},
    /// Streams share the capacity in proportion to weights (section 3.6).
    WeightedFairQueueing {
        /// Weight of each stream, from stream 0 on, at least 1; that of streams not listed is 1.
        weights: Vec<u16>,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self::Fcfs {}
    }
}

impl Config {
    /// Checks that an association with this many streams can have this scheduler.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub(super) fn check(&self, streams: u16) -> Result<(), String> {
        let (key, values) = match self {
            Self::Priority { priorities } => ("priorities", priorities),
            Self::WeightedFairQueueing { weights } => ("weights", weights),
            Self::FairCapacity {} | Self::Fcfs {} | Self::RoundRobin {} | Self::RoundRobinPacket {} => {
                return Ok(());
            }
        };
        if values.len() > usize::from(streams) {
            return Err(format!("{key} = {} values are too many; there are {streams} streams", values.len()));
        }
        if key == "weights" && values.contains(&0) {
            return Err("weights = 0 is too small; each must be at least 1".into());
        }
        Ok(())
    }

    /// The scheduler; [`None`] where messages leave in the order in which they came.
    pub(super) fn build(&self) -> Option<Box<StreamScheduler>> {
        let (rule, values) = match self {
            Self::Fcfs {} => return None,
            Self::FairCapacity {} => (Rule::Capacity, &[][..]),
            Self::Priority { priorities } => (Rule::Priority, &priorities[..]),
            Self::RoundRobin {} => (Rule::Turn, &[][..]),
            Self::RoundRobinPacket {} => (Rule::TurnPerPacket, &[][..]),
            Self::WeightedFairQueueing { weights } => (Rule::Capacity, &weights[..]),
        };
        Some(Box::new(StreamScheduler {
            rule,
            values: values.to_vec(),
            interleaves: false,
            streams: Vec::new(),
            last: None,
            of_packet: None,
            virtual_time: 0,
        }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Capacity,
    Priority,
    Turn,
    TurnPerPacket,
}

/// The cost of a byte with weight 1, in virtual time.
const UNIT: u64 = 1 << 16;

/// The streams and what waits on them.
#[derive(Debug)]
pub(super) struct StreamScheduler {
    rule: Rule,
    /// Priorities or weights.
    values: Vec<u16>,
    /// Whether chunks of different messages may alternate.
    pub(super) interleaves: bool,
    streams: Vec<OutboundStream>,
    /// The stream that sent last.
    last: Option<u16>,
    /// With a turn for each packet: the stream of the packet that is being filled.
    of_packet: Option<u16>,
    /// The virtual time of the chunk that left last.
    virtual_time: u64,
}

#[derive(Clone, Debug, Default)]
struct OutboundStream {
    waiting: VecDeque<QueuedMessage>,
    /// The virtual time at which its next chunk may leave.
    start: u64,
}

impl StreamScheduler {
    /// Adds a message behind those of its stream.
    pub(super) fn push(&mut self, message: QueuedMessage) {
        let virtual_time = self.virtual_time;
        let stream = self.stream(message.message.stream);
        // A stream loses the share that it did not use while it had nothing to send.
        stream.start = stream.start.max(virtual_time);
        stream.waiting.push_back(message);
    }

    /// Puts a message that was chosen back at the head of its stream.
    pub(super) fn put_back(&mut self, message: QueuedMessage) {
        self.stream(message.message.stream).waiting.push_front(message);
    }

    /// Takes the next message; the choice depends only on what has been sent.
    pub(super) fn choose(&mut self) -> Option<QueuedMessage> {
        let count = self.streams.len();
        let after = self.last.map_or(0, |last| usize::from(last) + 1);
        let mut candidates = (0..count).map(|step| (after + step) % count);
        let waits = |&stream: &usize| !self.streams[stream].waiting.is_empty();
        let value = |stream: usize, default: u16| self.values.get(stream).copied().unwrap_or(default);
        let chosen = match (self.rule, self.of_packet) {
            (Rule::Capacity, _) => {
                candidates.filter(waits).min_by_key(|&stream| (self.streams[stream].start, stream))
            }
            (Rule::Priority, _) => candidates.filter(waits).min_by_key(|&stream| value(stream, 0)),
            (Rule::TurnPerPacket, Some(stream)) => Some(usize::from(stream)).filter(waits),
            (Rule::Turn | Rule::TurnPerPacket, _) => candidates.find(waits),
        };
        self.streams[chosen?].waiting.pop_front()
    }

    /// Records that this many bytes of this stream have left.
    pub(super) fn charge(&mut self, stream: u16, bytes: u32) {
        self.last = Some(stream);
        match self.rule {
            Rule::Capacity => {
                let weight = self.values.get(usize::from(stream)).copied().unwrap_or(1);
                let cost = u64::from(bytes) * UNIT / u64::from(weight);
                let stream = self.stream(stream);
                let start = stream.start;
                stream.start += cost;
                self.virtual_time = start;
            }
            Rule::TurnPerPacket => self.of_packet = Some(stream),
            Rule::Priority | Rule::Turn => {}
        }
    }

    /// Records that a packet is full.
    pub(super) fn finish_packet(&mut self) {
        self.of_packet = None;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.streams.iter().flat_map(|stream| &stream.waiting)
    }

    /// Removes the message at this position of [`StreamScheduler::iter`].
    pub(super) fn remove(&mut self, mut index: usize) -> Option<QueuedMessage> {
        for stream in &mut self.streams {
            if index < stream.waiting.len() {
                return stream.waiting.remove(index);
            }
            index -= stream.waiting.len();
        }
        None
    }

    fn stream(&mut self, stream: u16) -> &mut OutboundStream {
        let index = usize::from(stream);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, OutboundStream::default);
        }
        &mut self.streams[index]
    }
}
