//! The pattern that every peer sends and checks, and its report at the end, as in `payload.h`; README.md has
//! the rules.

use std::collections::BTreeMap;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const HEADER: usize = 8;

/// Octets of a message: from the first to the second.
pub(crate) type Sizes = (usize, usize);

fn mixed(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}

fn key(stream: u32, index: u32) -> u64 {
    mixed((u64::from(stream) << 32 | u64::from(index)).wrapping_add(GOLDEN))
}

/// Octets of a message, header included.
fn size(stream: u32, index: u32, (least, most): Sizes) -> usize {
    let range = (most - least + 1) as u64;
    least + (mixed(key(stream, index) ^ 0x5851_F42D_4C95_7F2D) % range) as usize
}

/// Reads `8-1000`, or `1000` for messages of one size.
pub(crate) fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let number = |word: &str| word.parse::<usize>().map_err(|error| error.to_string());
    let sizes = (number(least)?, number(most)?);
    if sizes.0 < HEADER || sizes.1 < sizes.0 {
        return Err(format!("must be at least {HEADER}, and rise"));
    }
    Ok(sizes)
}

/// Writes a message into `to`.
pub(crate) fn fill(to: &mut Vec<u8>, stream: u32, index: u32, sizes: Sizes) {
    let size = size(stream, index, sizes);
    to.clear();
    to.extend(stream.to_be_bytes());
    to.extend(index.to_be_bytes());
    let mut state = key(stream, index);
    while to.len() < size {
        state = state.wrapping_add(GOLDEN);
        to.extend(mixed(state).to_le_bytes());
    }
    to.truncate(size);
}

fn hash(message: &[u8]) -> u64 {
    let (words, rest) = message.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let sum = words.iter().chain([&last]).fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    mixed(sum.wrapping_add((message.len() as u64).wrapping_mul(GOLDEN)))
}

/// One direction of an association.
#[derive(Default)]
pub(crate) struct Flow {
    /// Messages that were sent, or received.
    pub(crate) messages: u64,
    bytes: u64,
    corrupt: u64,
    misplaced: u64,
    duplicates: u64,
    out_of_order: u64,
    streams: BTreeMap<u32, Stream>,
    expected: Vec<u8>,
}

#[derive(Default)]
struct Stream {
    digest: u64,
    /// The messages seen so far, by index.
    seen: Vec<bool>,
}

impl Flow {
    /// Counts a message.
    pub(crate) fn count(&mut self, stream: u32, message: &[u8]) {
        self.messages += 1;
        self.bytes += message.len() as u64;
        let one = self.streams.entry(stream).or_default();
        one.digest = one.digest.wrapping_add(hash(message));
    }

    /// Counts a message that was received, and compares every octet with what it must be.
    pub(crate) fn check(&mut self, on: u32, message: &[u8], sizes: Sizes) {
        self.count(on, message);
        let Some((header, _)) = message.split_first_chunk::<HEADER>() else {
            self.corrupt += 1;
            return;
        };
        let [a, b, c, d, e, f, g, h] = *header;
        let (stream, index) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        self.misplaced += u64::from(stream != on);
        fill(&mut self.expected, stream, index, sizes);
        if message != self.expected || index >= 1 << 26 {
            self.corrupt += 1;
            return;
        }
        let (seen, index) = (&mut self.streams.entry(on).or_default().seen, index as usize);
        if index < seen.len() {
            let before = if seen[index] { &mut self.duplicates } else { &mut self.out_of_order };
            *before += 1;
        } else {
            seen.resize(index + 1, false);
        }
        seen[index] = true;
    }

    /// Writes its fields of a report: those of `name`, and the errors if it was received.
    pub(crate) fn report(&self, name: &str, into: &mut Map<String, Value>) {
        into.insert(format!("{name}_messages"), self.messages.into());
        into.insert(format!("{name}_bytes"), self.bytes.into());
        let digests =
            self.streams.iter().map(|(id, one)| (id.to_string(), json!(format!("{:016x}", one.digest))));
        into.insert(format!("{name}_digests"), Value::Object(digests.collect()));
        if name == "received" {
            into.insert("corrupt".into(), self.corrupt.into());
            into.insert("misplaced".into(), self.misplaced.into());
            into.insert("duplicates".into(), self.duplicates.into());
            into.insert("out_of_order".into(), self.out_of_order.into());
        }
    }
}

/// The history of an end.
pub(crate) struct Course {
    pub(crate) established: Option<Instant>,
    pub(crate) last_data: Option<Instant>,
    pub(crate) ended: Option<Instant>,
    pub(crate) sent: Flow,
    pub(crate) received: Flow,
}

impl Course {
    /// The history of an end that does not exist yet.
    pub(crate) fn new() -> Self {
        let (sent, received) = (Flow::default(), Flow::default());
        Self { established: None, last_data: None, ended: None, sent, received }
    }

    /// The fields of a report that a stack need not know of: times in seconds from the beginning on.
    pub(crate) fn report(&self, into: &mut Map<String, Value>) {
        let since = |at: Option<Instant>| match (self.established, at) {
            (Some(from), Some(at)) => (at - from).as_secs_f64(),
            _ => 0.0,
        };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        into.insert("established".into(), self.established.is_some().into());
        self.sent.report("sent", into);
        self.received.report("received", into);
        into.insert("wall_s".into(), since(Some(self.ended.unwrap_or_else(Instant::now))).into());
        into.insert("data_s".into(), since(self.last_data).into());
        into.insert("cpu_s".into(), (cpu.tv_sec as f64 + cpu.tv_nsec as f64 * 1e-9).into());
    }
}
