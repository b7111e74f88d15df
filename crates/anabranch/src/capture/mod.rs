//! Captures: the packets of a run as bytes, in a file of pcapng that Wireshark reads.
//!
//! QUIC is protected with secrets that are made up and stand in the file, if the feature `quic` is on.
//! Otherwise its packets are as they would be without protection.
//!
//! Each end of each link is an interface, on which a packet is seen when it enters the link and when it has
//! crossed it. One that the link drops has a comment that says why; where a link cuts a packet, its fragments
//! are seen. Cross traffic that only loads a queue consists of no packets and is not seen.
//!
//! What is seen first is written first. Whether a packet that has entered a link is dropped there is known
//! later, so what has been seen since waits for that: never more than is in flight.

mod addresses;
mod file;
mod flow;
#[cfg(feature = "quic")]
mod quic;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use anabranch_transport::flow::{Ecn, Side};
use anabranch_transport::time::Time;
use anabranch_transport::wire::{Packet, ip};

use crate::net::{Direction, DropCause};
use crate::scenario::Scenario;
use file::File;
use flow::Flow;

/// The destination of a capture.
pub type Sink = Box<dyn Write + Send>;

/// A capture of a run.
pub(crate) struct Capture {
    file: File,
    flows: Vec<Flow>,
    /// The packets in flight, by slot.
    followed: Vec<Option<Followed>>,
    /// Packets that were seen and are not written yet.
    seen: VecDeque<Frame>,
    /// The number of frames written.
    written: u64,
    /// Bytes of packets in `seen`.
    bytes: usize,
    /// The first error.
    error: Option<io::Error>,
}

/// A packet in flight.
#[derive(Clone, Debug)]
struct Followed {
    bytes: Arc<Vec<u8>>,
    /// The link that it is on, and in which direction it crosses it.
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
    known: Known,
}

/// What is known about the fate of a packet that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The packet has crossed the link, or has been seen at its far end.
    Crossed,
    /// The packet was fragmented, and its fragments are seen instead.
    Cut,
    /// The link dropped it.
    Dropped(DropCause),
    /// The packet has entered the link.
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
    pub(crate) fn new(scenario: &Scenario, sink: Sink, at: Option<&str>) -> Self {
        let flows = addresses::of_flows(scenario)
            .into_iter()
            .zip(&scenario.flows)
            .map(|(addresses, (name, flow))| {
                let is_cut = |path: &String| scenario.paths[path].fragmenting_link(&scenario.links).is_some();
                let is_cut = flow.paths.iter().map(is_cut).collect();
                Flow::new(name, scenario.seed, addresses, is_cut, flow)
            })
            .collect::<Vec<_>>();
        #[cfg(feature = "quic")]
        let key_log: String = flows.iter().map(Flow::key_log).collect();
        #[cfg(not(feature = "quic"))]
        let key_log = String::new();
        let (file, error) = File::new(scenario, sink, at, &key_log);
        Self { file, flows, followed: Vec::new(), seen: VecDeque::new(), written: 0, bytes: 0, error }
    }

    /// Notes that an endpoint sends a packet, which gets this slot.
    pub(crate) fn sent(&mut self, now: Time, slot: u32, flow: u32, side: Side, packet: &Packet) {
        let bytes = Arc::new(self.flows[flow as usize].emit(now, side, packet));
        self.set(slot, Followed { bytes, on: None, frame: None });
    }

    /// Notes that a packet comes to a link, from its host or from the link before.
    pub(crate) fn enters(&mut self, now: Time, slot: u32, link: u32, direction: Direction, ecn: Ecn) {
        let Some(mut packet) = self.leaves(now, slot, ecn) else { return };
        packet.on = Some((link, direction));
        packet.frame = Some(self.next());
        let [interface, _] = interfaces(link, direction);
        let bytes = Arc::clone(&packet.bytes);
        self.see(Frame { at: now, interface, is_outbound: true, bytes, known: Known::Open });
        self.set(slot, packet);
    }

    /// Notes that a packet has come to its host.
    pub(crate) fn arrives(&mut self, now: Time, slot: u32, ecn: Ecn) {
        self.leaves(now, slot, ecn);
        self.write();
    }

    /// Notes that the link that a packet is on drops it.
    pub(crate) fn dropped(&mut self, slot: u32, cause: DropCause) {
        if let Some(packet) = self.take(slot) {
            self.decide(&packet, Known::Dropped(cause));
            self.write();
        }
    }

    /// Notes that the link that a packet is on makes a copy of it, which gets this slot.
    pub(crate) fn duplicated(&mut self, slot: u32, copy: u32) {
        if let Some(packet) = self.followed[slot as usize].clone() {
            self.set(copy, Followed { frame: None, ..packet });
        }
    }

    /// Takes a packet that the link that it comes to fragments. [`Capture::cut_off`] names the fragments.
    pub(crate) fn cut(&mut self, slot: u32) -> Option<Whole> {
        let packet = self.take(slot)?;
        self.decide(&packet, Known::Cut);
        Some(Whole(packet))
    }

    /// Notes that a fragment of this packet, with the bytes of its payload from `start` to `end`, gets this
    /// slot.
    pub(crate) fn cut_off(&mut self, now: Time, whole: &Whole, slot: u32, start: u32, end: u32) {
        let Whole(Followed { bytes, on, .. }) = whole;
        let bytes = Arc::new(ip::fragment(bytes, start as usize, end as usize));
        let mut packet = Followed { bytes: Arc::clone(&bytes), on: *on, frame: None };
        if let Some((link, direction)) = *on {
            let [interface, _] = interfaces(link, direction);
            packet.frame = Some(self.next());
            self.see(Frame { at: now, interface, is_outbound: true, bytes, known: Known::Open });
        }
        self.set(slot, packet);
    }

    /// Bytes of memory in use, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.seen.len() * size_of::<Frame>() + self.followed.len() * size_of::<Followed>()
    }

    /// The error that has stopped writing, if there was one.
    pub(crate) fn problem(&self) -> Option<String> {
        self.error.as_ref().map(|error| format!("the capture cannot be written: {error}"))
    }

    /// Writes what is left at the end of the run.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.seen
            .iter_mut()
            .filter(|frame| frame.known == Known::Open)
            .for_each(|frame| frame.known = Known::Crossed);
        self.write();
        if self.error.is_none() {
            self.error = self.file.flush().err();
        }
        self.problem().map_or(Ok(()), Err)
    }

    /// Notes that a packet has crossed the link that it was on, if it was on one.
    fn leaves(&mut self, now: Time, slot: u32, ecn: Ecn) -> Option<Followed> {
        let mut packet = self.take(slot)?;
        if let Some((link, direction)) = packet.on {
            self.decide(&packet, Known::Crossed);
            if ip::ecn(&packet.bytes) != ecn {
                let bytes: &mut Vec<u8> = Arc::make_mut(&mut packet.bytes);
                ip::set_ecn(bytes, ecn);
            }
            let [_, interface] = interfaces(link, direction);
            let bytes = Arc::clone(&packet.bytes);
            self.see(Frame { at: now, interface, is_outbound: false, bytes, known: Known::Crossed });
        }
        Some(packet)
    }

    /// The number of the next frame.
    fn next(&self) -> u64 {
        self.written + self.seen.len() as u64
    }

    fn see(&mut self, frame: Frame) {
        self.bytes += frame.bytes.len();
        self.seen.push_back(frame);
    }

    fn decide(&mut self, packet: &Followed, known: Known) {
        if let Some(frame) = packet.frame {
            self.seen[(frame - self.written) as usize].known = known;
        }
    }

    /// Writes the frames in front of which nothing is open.
    fn write(&mut self) {
        while self.seen.front().is_some_and(|frame| frame.known != Known::Open) {
            let Some(frame) = self.seen.pop_front() else { return };
            self.bytes -= frame.bytes.len();
            self.written += 1;
            if self.error.is_none() && frame.known != Known::Cut {
                self.error = self.file.write(&frame).err();
            }
        }
    }

    fn set(&mut self, slot: u32, packet: Followed) {
        let slot = slot as usize;
        if slot >= self.followed.len() {
            self.followed.resize(slot + 1, None);
        }
        self.followed[slot] = Some(packet);
    }

    fn take(&mut self, slot: u32) -> Option<Followed> {
        self.followed.get_mut(slot as usize)?.take()
    }
}

/// A packet that is being fragmented.
pub(crate) struct Whole(Followed);
