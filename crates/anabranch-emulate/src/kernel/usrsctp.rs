//! Flows of SCTP on usrsctp, `FreeBSD`'s SCTP in user space: at each end a program of ours in the network of
//! its node, which the library is linked to (`python/anabranch/emulate/usrsctp_end.c`).
//!
//! A program is given orders as packets on a socket and answers each of them; what happens it tells there at
//! any time. Numbers in packets are as this machine has them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};

use anabranch::outside::Counters;
use anabranch_transport::endpoint::{CloseReason, Command, Event, Message, Received, Reliability};
use anabranch_transport::flow::{PathId, Payload, Side};
use anabranch_transport::observed::{Marks, PathSample, Repairs};
use anabranch_transport::path::PathState;
use anabranch_transport::report::{Declared, declare};
use anabranch_transport::time::Duration;
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::counts::{CONNECTIONS, sctp};
use super::datagrams::Tell;
use super::pattern::Pattern;
use super::place::Home;

/// The first UDP port that carries packets (RFC 6951); each flow has its own port.
const UDP_PORT: usize = 9899;

/// The most paths that a program accepts.
const MOST_PATHS: usize = 16;

/// Longer than anything that a program sends: 64 KiB of a message and what describes it.
const LONGEST: usize = 1 << 17;

declare! {
    /// What only usrsctp counts of an association.
    USRSCTP:
    /// Expiries of the data timer, those at which nothing had been outstanding for its whole length included.
    SEND_TIMER_EXPIRIES = "usrsctp.send_timer_expiries": One;
    /// SACKs that waited for a second packet.
    DELAYED_SACKS = "usrsctp.delayed_sacks": One;
    /// Times that Max.Burst held packets back.
    BURSTS_CUT = "usrsctp.bursts_cut": One;
    /// Packets with a wrong checksum.
    CHECKSUM_ERRORS = "usrsctp.checksum_errors": One;
    /// Packets that could not be sent.
    SEND_ERRORS = "usrsctp.send_errors": One;
    /// Messages that are none of those sent.
    MALFORMED_MESSAGES = "usrsctp.malformed_messages": One;
    /// 1 if the program ended before the run did.
    ENDED_EARLY = "usrsctp.ended_early": One;
}

/// The library's counters since the program's start, in the order of its answer. Counters that a simulated
/// endpoint has have the same name. The library's data timer also expires where nothing has been outstanding
/// for its whole length, and then does nothing, so its count is not a number of retransmission timeouts.
const COUNTERS: [Declared; 16] = [
    sctp("data_chunks_sent"),
    sctp("data_chunks_retransmitted"),
    sctp("data_chunks_received"),
    sctp("duplicates_received"),
    SEND_TIMER_EXPIRIES,
    sctp("fast_retransmits"),
    sctp("heartbeats_sent"),
    sctp("heartbeats_acked"),
    sctp("sacks_sent"),
    sctp("sacks_received"),
    sctp("packets_sent"),
    sctp("packets_received"),
    DELAYED_SACKS,
    BURSTS_CUT,
    CHECKSUM_ERRORS,
    SEND_ERRORS,
];

/// Bytes of a path in the answer: whether it is active, window, round-trip time and timeout in ms, whether it
/// is primary.
const PATH_BYTES: usize = 20;

/// The options of an end on usrsctp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramOptions {
    /// The name of the settings in messages: `flows.call.transport`.
    pub(crate) key: String,
    /// Settings as `name=value`, for the program.
    pub(crate) words: Vec<String>,
}

/// A flow on usrsctp.
#[derive(Debug)]
pub(crate) struct Usrsctp {
    ends: [End; 2],
}

/// One end.
#[derive(Debug)]
struct End {
    side: Side,
    program: Program,
    /// The part of the message that has been read so far.
    partial: Vec<u8>,
    /// The place in the stream of what arrived last.
    near: u64,
    connections: u64,
    delivered: u64,
    malformed: u64,
    path_failures: u64,
    counters: [u64; COUNTERS.len()],
}

/// A program that is running. It ends when this is dropped or this process ends.
#[derive(Debug)]
struct Program {
    child: Child,
    socket: OwnedFd,
    /// What the program has reported while an answer was waited for.
    told: VecDeque<Vec<u8>>,
    /// Whether the program has ended by itself.
    is_gone: bool,
    buffer: Vec<u8>,
}

impl Usrsctp {
    /// Starts the programs of the flow with this number.
    ///
    /// # Errors
    /// A sentence about what usrsctp does not take.
    pub(crate) fn open(
        file: &Path,
        number: usize,
        homes: &[Home; 2],
        options: &[ProgramOptions; 2],
        paths: &[[IpAddr; 2]],
        mtu: u32,
    ) -> Result<Self, String> {
        if paths.len() > MOST_PATHS {
            let [ProgramOptions { key, .. }, _] = options;
            return Err(format!("{key}: {} paths are too many for usrsctp here: at most 16", paths.len()));
        }
        let open = |side: Side| {
            homes[side.index()].enter()?;
            let ProgramOptions { key, words } = &options[side.index()];
            let addresses = |side: Side| {
                let all: Vec<String> = paths.iter().map(|path| path[side.index()].to_string()).collect();
                all.join(",")
            };
            let mut process = Process::new(file);
            process
                .arg(["connect", "listen"][side.index()])
                .arg((UDP_PORT + number).to_string())
                .args([addresses(side), addresses(side.peer())])
                .arg(format!("mtu={mtu}"))
                .args(words);
            let program = Program::start(process).map_err(|what| format!("{key}.{what}"))?;
            Ok::<_, String>(End {
                side,
                program,
                partial: Vec::new(),
                near: 0,
                connections: 0,
                delivered: 0,
                malformed: 0,
                path_failures: 0,
                counters: [0; COUNTERS.len()],
            })
        };
        // The listening end is started first.
        let other = open(Side::B)?;
        Ok(Self { ends: [open(Side::A)?, other] })
    }

    /// Calls `each` with the sockets to the programs and the events to wait for.
    pub(crate) fn watch<'a>(&'a self, each: &mut impl FnMut(BorrowedFd<'a>, PollFlags)) {
        for End { program, .. } in &self.ends {
            let interest = if program.is_gone { PollFlags::empty() } else { PollFlags::IN };
            each(program.socket.as_fd(), interest);
        }
    }

    /// Carries out a command of an application.
    pub(crate) fn execute(&mut self, side: Side, command: Command, pattern: &Pattern, tell: &mut Tell<'_>) {
        let end = &mut self.ends[side.index()];
        match command {
            Command::Abort => {
                let _ = end.program.order(b"A");
                tell(side, Event::Closed(CloseReason::Aborted));
            }
            Command::Connect => {
                if end.program.order(b"C") != Outcome::Done {
                    tell(side, Event::Closed(CloseReason::Lost));
                }
            }
            Command::Send(message) => {
                // The program reports by itself when there is room again.
                let order = packed(message, pattern);
                if order.is_none_or(|order| end.program.order(&order) != Outcome::Done) {
                    tell(side, Event::Refused(message.payload));
                }
            }
            Command::Shutdown => {
                let _ = end.program.order(b"F");
            }
            other => tell(side, Event::Unsupported(other.name())),
        }
        end.hear(pattern, tell);
    }

    /// Handles what the programs that are marked have sent by now.
    pub(crate) fn handle(&mut self, ready: &[PollFlags], pattern: &Pattern, tell: &mut Tell<'_>) {
        for (end, found) in self.ends.iter_mut().zip(ready) {
            while !found.is_empty()
                && !end.program.is_gone
                && let Some(packet) = end.program.receive(RecvFlags::DONTWAIT)
            {
                end.program.told.push_back(packet);
            }
        }
        self.hear(pattern, tell);
    }

    /// Handles what the programs have sent while they were asked something.
    pub(crate) fn hear(&mut self, pattern: &Pattern, tell: &mut Tell<'_>) {
        for end in &mut self.ends {
            end.hear(pattern, tell);
        }
    }

    /// The state of an end's paths, and its counters. The library tells neither the thresholds nor the
    /// outstanding bytes of a path, nor whether it is potentially failed.
    pub(crate) fn observe(&mut self, side: Side) -> (Vec<PathSample>, Counters) {
        let end = &mut self.ends[side.index()];
        let mut samples = Vec::new();
        if let Some(state) = end.program.ask(b"Q") {
            let number = |index: usize| {
                let bytes = state.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u32::from_ne_bytes)
            };
            let first_counter = 2 + MOST_PATHS * PATH_BYTES / 4;
            for (index, counter) in end.counters.iter_mut().enumerate() {
                *counter = number(first_counter + index).into();
            }
            if number(1) != 0 {
                let paths = (0..MOST_PATHS).map(|path| 2 + path * PATH_BYTES / 4);
                let known = paths.enumerate().filter(|&(_, at)| number(at + 1) > 0);
                samples.extend(known.map(|(path, at)| PathSample {
                    path: PathId(path as u8),
                    cwnd: number(at + 1),
                    ssthresh: 0,
                    outstanding: 0,
                    srtt: Some(number(at + 2)).filter(|&srtt| srtt > 0).map(millis),
                    rto: millis(number(at + 3)),
                    delivery_rate: None,
                    error_count: 0,
                    state: if number(at) == 1 { PathState::Active } else { PathState::Inactive },
                    is_primary: number(at + 4) == 1,
                    // usrsctp does not say either what it has done path by path.
                    repairs: Repairs::default(),
                    marks: Marks::default(),
                }));
            }
        }
        let mut counters: Counters = vec![
            (Cow::Borrowed(""), CONNECTIONS, end.connections),
            (Cow::Borrowed(""), sctp("messages_delivered"), end.delivered),
            (Cow::Borrowed(""), sctp("path_failures"), end.path_failures),
            (Cow::Borrowed(""), MALFORMED_MESSAGES, end.malformed),
            (Cow::Borrowed(""), ENDED_EARLY, u64::from(end.program.is_gone)),
        ];
        counters
            .extend(COUNTERS.into_iter().zip(end.counters).map(|(it, count)| (Cow::Borrowed(""), it, count)));
        (samples, counters)
    }
}

fn millis(value: u32) -> Duration {
    Duration::from_millis(value.into())
}

/// A message with how it is to be sent: `struct order` of the program, then the bytes; [`None`] if there is
/// no such stream.
fn packed(message: Message, pattern: &Pattern) -> Option<Vec<u8>> {
    let Message { stream, ppid, unordered, reliability, payload, .. } = message;
    let stream = u16::try_from(stream).ok()?;
    // RFC 7496 section 4.1, by the numbers of usrsctp.h.
    let (policy, value) = match reliability {
        Reliability::Reliable => (0_u32, 0),
        Reliability::Timed(lifetime) => (1, (lifetime.as_nanos() / 1_000_000) as u32),
        Reliability::Priority(priority) => (2, priority),
        Reliability::LimitedRetransmissions(times) => (3, times),
    };
    let numbers = [ppid, policy, value].map(u32::to_ne_bytes).concat();
    let mut bytes = [&[b'S', u8::from(unordered)][..], &stream.to_ne_bytes(), &numbers].concat();
    pattern.write_message(payload.offset, payload.length as usize, &mut bytes);
    Some(bytes)
}

impl End {
    /// Handles everything that the program has sent and that has been received.
    fn hear(&mut self, pattern: &Pattern, tell: &mut Tell<'_>) {
        while let Some(packet) = self.program.told.pop_front() {
            if let Some(event) = self.event(&packet, pattern) {
                tell(self.side, event);
            }
        }
    }

    /// The event for the application in a packet of the program.
    fn event(&mut self, packet: &[u8], pattern: &Pattern) -> Option<Event> {
        let (kind, rest) = packet.split_first()?;
        match (kind, rest) {
            (b'u', _) => {
                self.connections += 1;
                self.partial.clear();
                Some(Event::Connected)
            }
            (b'd', [why, ..]) => Some(Event::Closed(match why {
                0 => CloseReason::Shutdown,
                1 => CloseReason::Aborted,
                _ => CloseReason::Lost,
            })),
            (b'w', _) => Some(Event::Writable),
            (b'f', _) => Some(Event::PeerFinished),
            (b'n', [path, is_failed, ..]) => {
                self.path_failures += u64::from(*is_failed);
                let state = if *is_failed == 1 { PathState::Inactive } else { PathState::Active };
                Some(Event::PathChanged { path: PathId(*path), state })
            }
            (b'g', chunk) => {
                let offset = pattern.read_message(self.near, chunk)?;
                Some(Event::Abandoned(Payload { offset, length: chunk.len() as u32 }))
            }
            (b'p', part) => {
                self.partial.extend_from_slice(part);
                None
            }
            (b'm', part) => {
                self.partial.extend_from_slice(part);
                let message = std::mem::take(&mut self.partial);
                let Some(offset) = pattern.read_message(self.near, &message) else {
                    self.malformed += 1;
                    return None;
                };
                let payload = Payload { offset, length: message.len() as u32 };
                self.near = offset.saturating_add(message.len() as u64);
                self.delivered += 1;
                // The library has decided on the order of delivery.
                Some(Event::Received(Received::unordered(payload)))
            }
            // The program has ended.
            (b'x', _) => Some(Event::Closed(CloseReason::Lost)),
            _ => None,
        }
    }
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The order was impossible, or came too early.
    Refused,
}

impl Program {
    /// Starts the program, and waits until it is ready.
    fn start(mut process: Process) -> Result<Self, String> {
        let failed = |error: io::Error| format!("kind = \"sctp\": the program on usrsctp failed: {error}");
        let (own, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
        let child = process.stdin(Stdio::from(its)).stdout(Stdio::null()).spawn().map_err(failed)?;
        // The command holds the other end of the socket as well.
        drop(process);
        let buffer = vec![0; LONGEST];
        let mut program = Self { child, socket: own, told: VecDeque::new(), is_gone: false, buffer };
        match program.receive(RecvFlags::empty()) {
            Some(packet) if packet[0] == b'L' => Ok(program),
            Some(packet) => Err(String::from_utf8_lossy(&packet[1..]).into_owned()),
            None => Err("kind = \"sctp\": the program on usrsctp has ended".into()),
        }
    }

    /// Gives the program an order, and waits for the outcome.
    fn order(&mut self, packet: &[u8]) -> Outcome {
        match self.ask(packet).as_deref() {
            Some([b'a', 0, ..]) => Outcome::Done,
            _ => Outcome::Refused,
        }
    }

    /// Asks the program something, and waits for the answer.
    fn ask(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        if self.is_gone {
            return None;
        }
        if let Err(error) = send(&self.socket, packet, SendFlags::NOSIGNAL) {
            // The message is too long for the socket.
            self.is_gone = error != rustix::io::Errno::MSGSIZE;
            return None;
        }
        loop {
            let packet = self.receive(RecvFlags::empty())?;
            if matches!(packet[0], b'a' | b'q') {
                return Some(packet);
            }
            self.told.push_back(packet);
        }
    }

    /// A packet; [`None`] if there is none yet. If the program has ended, `x`, once.
    fn receive(&mut self, flags: RecvFlags) -> Option<Vec<u8>> {
        loop {
            match recv(&self.socket, &mut self.buffer[..], flags) {
                Ok((length, _)) if length > 0 => return Some(self.buffer[..length].to_vec()),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return None,
                _ => {
                    self.is_gone = true;
                    self.told.push_back(b"x".to_vec());
                    return None;
                }
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
