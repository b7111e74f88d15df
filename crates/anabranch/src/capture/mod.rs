//! Captures: the packets of a run as bytes, in a file of pcapng that Wireshark reads.
//!
//! Each end of each link is an interface, on which a packet is seen when it enters the link and when it has crossed it.
//! One that the link drops has a comment that says why; where a link cuts a packet, its fragments are seen. Cross traffic
//! that only loads a queue consists of no packets and is not seen.
//!
//! What is seen first is written first. Whether a packet that has entered a link is dropped there is known later, so what
//! has been seen since waits for that: never more than is in flight.

mod addresses;
mod file;
mod flow;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use anabranch_transport::ground::{Ecn, Side};
use anabranch_transport::time::Time;
use anabranch_transport::wire::{Packet, ip};

use crate::net::{Direction, DropCause};
use crate::scenario::Scenario;
use file::File;
use flow::Flow;

/// Where a capture is written.
pub type Sink = Box<dyn Write + Send>;

/// What is seen of a run.
pub(crate) struct Capture {
    file: File,
    flows: Vec<Flow>,
    /// By the slots of packets in flight.
    travellers: Vec<Option<Traveller>>,
    /// What has been seen and is not written yet.
    seen: VecDeque<Frame>,
    /// How many frames have been written.
    written: u64,
    /// Bytes of packets in `seen`.
    bytes: usize,
    /// What went wrong.
    error: Option<io::Error>,
}

/// A packet in flight.
#[derive(Clone, Debug)]
struct Traveller {
    bytes: Arc<Vec<u8>>,
    /// The link that it is on, and which way it crosses it.
    on: Option<(u32, Direction)>,
    /// The number of the frame that shows it entering that link.
    frame: Option<u64>,
}

/// A packet that was seen.
#[derive(Debug)]
struct Frame {
    at: Time,
    interface: u32,
    is_outbound: bool,
    bytes: Arc<Vec<u8>>,
    fate: Fate,
}

/// What is known of a packet that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It has crossed the link, or it has been seen at its far end.
    Crossed,
    /// It was cut, and its fragments are seen instead.
    Cut,
    /// The link dropped it.
    Dropped(DropCause),
    /// It has entered the link.
    Open,
}

/// The interface where a packet enters a link, and the one where it leaves it.
const fn interfaces(link: u32, direction: Direction) -> [u32; 2] {
    match direction {
        Direction::Forward => [2 * link, 2 * link + 1],
        Direction::Reverse => [2 * link + 1, 2 * link],
    }
}

impl Capture {
    pub(crate) fn new(scenario: &Scenario, sink: Sink) -> Self {
        let flows = addresses::of_flows(scenario)
            .into_iter()
            .zip(&scenario.flows)
            .map(|(addresses, (name, flow))| {
                let is_cut = |path: &String| scenario.paths[path].fragmenting_link(&scenario.links).is_some();
                Flow::new(name, scenario.seed, addresses, flow.paths.iter().map(is_cut).collect())
            })
            .collect();
        let (file, error) = File::new(scenario, sink);
        Self { file, flows, travellers: Vec::new(), seen: VecDeque::new(), written: 0, bytes: 0, error }
    }

    /// An endpoint sends a packet, which gets this slot.
    pub(crate) fn sent(&mut self, slot: u32, flow: u32, side: Side, packet: &Packet) {
        let bytes = Arc::new(self.flows[flow as usize].emit(side, packet));
        self.set(slot, Traveller { bytes, on: None, frame: None });
    }

    /// A packet comes to a link, from its host or from the link before.
    pub(crate) fn enters(&mut self, now: Time, slot: u32, link: u32, direction: Direction, ecn: Ecn) {
        let Some(mut traveller) = self.leaves(now, slot, ecn) else { return };
        traveller.on = Some((link, direction));
        traveller.frame = Some(self.next());
        let [interface, _] = interfaces(link, direction);
        let bytes = Arc::clone(&traveller.bytes);
        self.see(Frame { at: now, interface, is_outbound: true, bytes, fate: Fate::Open });
        self.set(slot, traveller);
    }

    /// A packet has come to its host.
    pub(crate) fn arrives(&mut self, now: Time, slot: u32, ecn: Ecn) {
        self.leaves(now, slot, ecn);
        self.write();
    }

    /// The link that a packet is on drops it.
    pub(crate) fn dropped(&mut self, slot: u32, cause: DropCause) {
        if let Some(traveller) = self.take(slot) {
            self.decide(&traveller, Fate::Dropped(cause));
            self.write();
        }
    }

    /// The link that a packet is on makes a copy of it, which gets this slot.
    pub(crate) fn duplicated(&mut self, slot: u32, copy: u32) {
        if let Some(traveller) = self.travellers[slot as usize].clone() {
            self.set(copy, Traveller { frame: None, ..traveller });
        }
    }

    /// The link that a packet comes to cuts it: [`Capture::cut_off`] says what into.
    pub(crate) fn cut(&mut self, slot: u32) -> Option<Whole> {
        let traveller = self.take(slot)?;
        self.decide(&traveller, Fate::Cut);
        Some(Whole(traveller))
    }

    /// A part of a packet that is cut, of this many bytes of payload from `start` on, gets this slot.
    pub(crate) fn cut_off(&mut self, now: Time, whole: &Whole, slot: u32, start: u32, end: u32) {
        let Whole(Traveller { bytes, on, .. }) = whole;
        let bytes = Arc::new(ip::fragment(bytes, start as usize, end as usize));
        let mut traveller = Traveller { bytes: Arc::clone(&bytes), on: *on, frame: None };
        if let Some((link, direction)) = *on {
            let [interface, _] = interfaces(link, direction);
            traveller.frame = Some(self.next());
            self.see(Frame { at: now, interface, is_outbound: true, bytes, fate: Fate::Open });
        }
        self.set(slot, traveller);
    }

    /// Bytes of memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.seen.len() * size_of::<Frame>() + self.travellers.len() * size_of::<Traveller>()
    }

    /// What has gone wrong so far, if anything: writing has stopped then.
    pub(crate) fn problem(&self) -> Option<String> {
        self.error.as_ref().map(|error| format!("the capture cannot be written: {error}"))
    }

    /// Writes what is left at the end of the run.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.seen
            .iter_mut()
            .filter(|frame| frame.fate == Fate::Open)
            .for_each(|frame| frame.fate = Fate::Crossed);
        self.write();
        if self.error.is_none() {
            self.error = self.file.flush().err();
        }
        self.problem().map_or(Ok(()), Err)
    }

    /// A packet has crossed the link that it was on, if it was on one.
    fn leaves(&mut self, now: Time, slot: u32, ecn: Ecn) -> Option<Traveller> {
        let mut traveller = self.take(slot)?;
        if let Some((link, direction)) = traveller.on {
            self.decide(&traveller, Fate::Crossed);
            if ip::ecn(&traveller.bytes) != ecn {
                let bytes: &mut Vec<u8> = Arc::make_mut(&mut traveller.bytes);
                ip::set_ecn(bytes, ecn);
            }
            let [_, interface] = interfaces(link, direction);
            let bytes = Arc::clone(&traveller.bytes);
            self.see(Frame { at: now, interface, is_outbound: false, bytes, fate: Fate::Crossed });
        }
        Some(traveller)
    }

    /// The number of the next frame.
    fn next(&self) -> u64 {
        self.written + self.seen.len() as u64
    }

    fn see(&mut self, frame: Frame) {
        self.bytes += frame.bytes.len();
        self.seen.push_back(frame);
    }

    fn decide(&mut self, traveller: &Traveller, fate: Fate) {
        if let Some(frame) = traveller.frame {
            self.seen[(frame - self.written) as usize].fate = fate;
        }
    }

    /// Writes what nothing has to be waited for.
    fn write(&mut self) {
        while self.seen.front().is_some_and(|frame| frame.fate != Fate::Open) {
            let Some(frame) = self.seen.pop_front() else { return };
            self.bytes -= frame.bytes.len();
            self.written += 1;
            if self.error.is_none() && frame.fate != Fate::Cut {
                self.error = self.file.write(&frame).err();
            }
        }
    }

    fn set(&mut self, slot: u32, traveller: Traveller) {
        let slot = slot as usize;
        if slot >= self.travellers.len() {
            self.travellers.resize(slot + 1, None);
        }
        self.travellers[slot] = Some(traveller);
    }

    fn take(&mut self, slot: u32) -> Option<Traveller> {
        self.travellers.get_mut(slot as usize)?.take()
    }
}

/// A packet that is being cut.
pub(crate) struct Whole(Traveller);
