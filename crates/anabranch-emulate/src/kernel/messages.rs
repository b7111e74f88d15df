//! Flows of SCTP on the kernel's sockets: one association, multi-homed, over one-to-one sockets (RFC 6458
//! section 4). Structures are those of linux/sctp.h, as bytes.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};

use anabranch::outside::Counters;
use anabranch_transport::endpoint::{CloseReason, Command, Event, Message, Received, Reliability};
use anabranch_transport::flow::{Ecn, PathId, Payload, Side};
use anabranch_transport::observed::{Marks, PathSample, Repairs};
use anabranch_transport::path::PathState;
use anabranch_transport::report::{Declared, declare};
use anabranch_transport::time::Duration;
use rustix::event::PollFlags;
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};
use socket2::{Domain, Protocol, Socket, Type};

use super::buffers::set_buffers;
use super::counts::{CONNECTIONS, Counts, sctp};
use super::datagrams::Tell;
use super::info::address;
use super::pattern::Pattern;
use super::place::{Home, bind_or_any, release};
use super::settings::MessageOptions;
use crate::system::{self, SCTP};

/// How many times a socket is read before the other sockets have their turn.
const BATCH: usize = 16;

/// The port of the flow's end `to`.
const PORT: u16 = 5001;

const INITMSG: i32 = 2;
const NODELAY: i32 = 3;
const EVENTS: i32 = 11;
const STATUS: i32 = 14;
const GET_PEER_ADDR_INFO: i32 = 15;
const DELAYED_SACK: i32 = 16;
const DEFAULT_SNDINFO: i32 = 34;
const BINDX_ADD: i32 = 100;
const CONNECTX: i32 = 110;
const GET_ASSOC_STATS: i32 = 112;
const DEFAULT_PRINFO: i32 = 114;

/// `MSG_NOTIFICATION`.
const NOTIFICATION: u32 = 0x8000;
/// `SCTP_PEER_ADDR_CHANGE` and `SCTP_SEND_FAILED`.
const PEER_ADDR_CHANGE: u16 = 0x8002;
const SEND_FAILED: u16 = 0x8003;
/// Bytes of `struct sctp_send_failed` before the message.
const SEND_FAILED_HEADER: usize = 48;

/// The size of `struct sockaddr_storage`.
const STORAGE: usize = 128;

declare! {
    /// What only the kernel counts of an association (`struct sctp_assoc_stats`).
    KERNEL:
    /// DATA chunks that arrived above a gap.
    CHUNKS_OUT_OF_SEQUENCE = "kernel.chunks_out_of_sequence": One;
    /// Gap Ack Blocks that arrived.
    GAP_REPORTS_RECEIVED = "kernel.gap_reports_received": One;
    /// DATA chunks of unordered messages sent.
    UNORDERED_CHUNKS_SENT = "kernel.unordered_chunks_sent": One;
    /// DATA chunks of unordered messages that arrived.
    UNORDERED_CHUNKS_RECEIVED = "kernel.unordered_chunks_received": One;
    /// DATA chunks of ordered messages sent.
    ORDERED_CHUNKS_SENT = "kernel.ordered_chunks_sent": One;
    /// DATA chunks of ordered messages that arrived.
    ORDERED_CHUNKS_RECEIVED = "kernel.ordered_chunks_received": One;
    /// Control chunks sent.
    CONTROL_CHUNKS_SENT = "kernel.control_chunks_sent": One;
    /// Control chunks that arrived.
    CONTROL_CHUNKS_RECEIVED = "kernel.control_chunks_received": One;
    /// Messages that are none of those sent.
    MALFORMED_MESSAGES = "kernel.malformed_messages": One;
}

/// The counters of `struct sctp_assoc_stats`: its numbers of 64 bits from this byte on.
const FIRST_COUNTER: usize = 8 + STORAGE;
const COUNTERS: [Declared; 14] = [
    sctp("sacks_received"),
    sctp("sacks_sent"),
    sctp("packets_sent"),
    sctp("packets_received"),
    sctp("data_chunks_retransmitted"),
    CHUNKS_OUT_OF_SEQUENCE,
    sctp("duplicates_received"),
    GAP_REPORTS_RECEIVED,
    UNORDERED_CHUNKS_SENT,
    UNORDERED_CHUNKS_RECEIVED,
    ORDERED_CHUNKS_SENT,
    ORDERED_CHUNKS_RECEIVED,
    CONTROL_CHUNKS_SENT,
    CONTROL_CHUNKS_RECEIVED,
];

/// A flow of messages.
#[derive(Debug)]
pub(crate) struct Messages {
    homes: [Home; 2],
    options: [MessageOptions; 2],
    /// The addresses of both sides on each path of the flow.
    paths: Vec<[IpAddr; 2]>,
    listener: Socket,
    port: u16,
    ends: [End; 2],
}

/// One end.
#[derive(Debug, Default)]
struct End {
    socket: Option<Socket>,
    is_connecting: bool,
    is_blocked: bool,
    has_read_all: bool,
    /// The part of the message that has been read so far.
    partial: Vec<u8>,
    /// The place in the stream of what arrived last.
    near: u64,
    /// What was last set for sending: stream, flags, and how hard the kernel tries to deliver.
    sending: Option<(u16, u32, bool, Reliability)>,
    connections: u64,
    delivered: u64,
    malformed: u64,
    counts: Counts,
}

/// The sockets of a flow, in the order in which they are watched.
const LISTENER: usize = 2;

impl Messages {
    /// Begins to listen.
    ///
    /// # Errors
    /// A sentence about what this kernel does not have.
    pub(crate) fn open(
        homes: [Home; 2],
        options: [MessageOptions; 2],
        paths: Vec<[IpAddr; 2]>,
    ) -> Result<Self, String> {
        homes[0].enter()?;
        make(&options[0], paths[0][0])?;
        homes[1].enter()?;
        let own: Vec<IpAddr> = paths.iter().map(|path| path[1]).collect();
        let listener = make(&options[1], own[0])?;
        let failed = |error: io::Error| format!("{}: {error}", options[1].key);
        let port = bind(&listener, &own, PORT).map_err(failed)?;
        listener.listen(1).map_err(failed)?;
        Ok(Self { homes, options, paths, listener, port, ends: [End::default(), End::default()] })
    }

    /// Calls `each` with the sockets and the events to wait for.
    pub(crate) fn watch<'a>(&'a self, each: &mut impl FnMut(BorrowedFd<'a>, PollFlags)) {
        for end in &self.ends {
            let mut interest = PollFlags::empty();
            interest.set(PollFlags::IN, !end.has_read_all && !end.is_connecting);
            interest.set(PollFlags::OUT, end.is_connecting || end.is_blocked);
            match &end.socket {
                Some(socket) => each(socket.as_fd(), interest),
                None => each(self.listener.as_fd(), PollFlags::empty()),
            }
        }
        each(self.listener.as_fd(), PollFlags::IN);
    }

    /// Carries out a command of an application.
    pub(crate) fn execute(&mut self, side: Side, command: Command, pattern: &Pattern, tell: &mut Tell<'_>) {
        let end = &mut self.ends[side.index()];
        match command {
            Command::Abort => {
                if let Some(socket) = &end.socket {
                    let _ = socket.set_linger(Some(std::time::Duration::ZERO));
                }
                self.close(side, CloseReason::Aborted, tell);
            }
            Command::Connect => {
                if self.connect().is_err() {
                    self.close(side, CloseReason::Lost, tell);
                }
            }
            Command::Send(message) => {
                if let Err(is_full) = end.send(message, pattern) {
                    end.is_blocked = is_full;
                    tell(side, Event::Refused(message.payload));
                }
            }
            Command::Shutdown => {
                if let Some(socket) = &end.socket {
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                }
            }
            other => tell(side, Event::Unsupported(other.name())),
        }
    }

    fn connect(&mut self) -> io::Result<()> {
        let own: Vec<IpAddr> = self.paths.iter().map(|path| path[0]).collect();
        self.homes[0].enter().map_err(io::Error::other)?;
        let socket = make(&self.options[0], own[0]).map_err(io::Error::other)?;
        bind(&socket, &own, 0)?;
        let remote: Vec<u8> = self.paths.iter().flat_map(|path| packed(path[1], self.port)).collect();
        match system::set_option(socket.as_fd(), SCTP, CONNECTX, &remote) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let end = &mut self.ends[Side::A.index()];
        end.begin(socket);
        end.is_connecting = true;
        Ok(())
    }

    /// Handles these sockets, in the order in which they are watched, since something is to be done at them.
    pub(crate) fn handle(
        &mut self,
        ready: &[PollFlags],
        pattern: &Pattern,
        buffer: &mut [u8],
        tell: &mut Tell<'_>,
    ) {
        if !ready[LISTENER].is_empty()
            && let Ok((socket, _)) = self.listener.accept()
            && socket.set_nonblocking(true).is_ok()
        {
            let end = &mut self.ends[Side::B.index()];
            end.begin(socket);
            end.connections += 1;
            tell(Side::B, Event::Connected);
        }
        for side in [Side::A, Side::B] {
            let found = ready[side.index()];
            let end = &mut self.ends[side.index()];
            let Some(socket) = end.socket.as_ref().filter(|_| !found.is_empty()) else { continue };
            if end.is_connecting {
                if let Ok(None) = socket.take_error() {
                    end.is_connecting = false;
                    end.connections += 1;
                    tell(side, Event::Connected);
                } else {
                    self.close(side, CloseReason::Lost, tell);
                    continue;
                }
            }
            let end = &mut self.ends[side.index()];
            if found.contains(PollFlags::OUT) && std::mem::take(&mut end.is_blocked) {
                tell(side, Event::Writable);
            }
            if found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read(side, pattern, buffer, tell);
            }
        }
    }

    fn read(&mut self, side: Side, pattern: &Pattern, buffer: &mut [u8], tell: &mut Tell<'_>) {
        for _ in 0..BATCH {
            let end = &mut self.ends[side.index()];
            let Some(socket) = &end.socket else { return };
            let mut none = RecvAncillaryBuffer::default();
            match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut none, RecvFlags::empty()) {
                Ok(got) if got.bytes == 0 => {
                    end.has_read_all = true;
                    return tell(side, Event::PeerFinished);
                }
                Ok(got) if got.flags.bits() & NOTIFICATION != 0 => {
                    if let Some(event) = self.notice(side, &buffer[..got.bytes], pattern) {
                        tell(side, event);
                    }
                }
                Ok(got) => {
                    end.partial.extend_from_slice(&buffer[..got.bytes]);
                    if !got.flags.contains(ReturnFlags::EOR) {
                        continue;
                    }
                    let message = std::mem::take(&mut end.partial);
                    let Some(offset) = pattern.read_message(end.near, &message) else {
                        end.malformed += 1;
                        continue;
                    };
                    let payload = Payload { offset, length: message.len() as u32 };
                    end.near = offset.saturating_add(message.len() as u64);
                    end.delivered += 1;
                    // The kernel has decided on the order of delivery.
                    tell(side, Event::Received(Received::unordered(payload)));
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(Errno::CONNRESET) => return self.close(side, CloseReason::Aborted, tell),
                Err(_) => return self.close(side, CloseReason::Lost, tell),
            }
        }
    }

    /// The event in a notification (RFC 6458 section 6.1).
    fn notice(&self, side: Side, bytes: &[u8], pattern: &Pattern) -> Option<Event> {
        match u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) {
            PEER_ADDR_CHANGE => {
                let address = address(bytes.get(8..8 + STORAGE)?)?;
                let peer = side.peer().index();
                let path = self.paths.iter().position(|path| path[peer] == address)?;
                let state = match u32_at(bytes, 8 + STORAGE)? {
                    0 | 5 => PathState::Active,
                    1 => PathState::Inactive,
                    6 => PathState::PotentiallyFailed,
                    _ => return None,
                };
                Some(Event::PathChanged { path: PathId(path as u8), state })
            }
            SEND_FAILED => {
                let chunk = bytes.get(SEND_FAILED_HEADER..)?;
                let offset = pattern.read_message(self.ends[side.index()].near, chunk)?;
                Some(Event::Abandoned(Payload { offset, length: chunk.len() as u32 }))
            }
            _ => None,
        }
    }

    /// Ends the associations whose last packet has arrived.
    pub(crate) fn close_finished(&mut self, tell: &mut Tell<'_>) {
        for side in [Side::A, Side::B] {
            let end = &self.ends[side.index()];
            let is_over =
                |socket: &Socket| system::option(socket.as_fd(), SCTP, STATUS, &mut [0; 256]).is_err();
            if end.has_read_all && end.socket.as_ref().is_some_and(is_over) {
                self.close(side, CloseReason::Shutdown, tell);
            }
        }
    }

    fn close(&mut self, side: Side, reason: CloseReason, tell: &mut Tell<'_>) {
        self.observe(side);
        let end = &mut self.ends[side.index()];
        end.socket = None;
        end.counts.end();
        tell(side, Event::Closed(reason));
    }

    /// The state of an end's paths, and its counters. The kernel tells neither thresholds nor the outstanding
    /// bytes of each path.
    pub(crate) fn observe(&mut self, side: Side) -> (Vec<PathSample>, Counters) {
        let Self { ends, paths, port, .. } = self;
        let end = &mut ends[side.index()];
        let mut samples = Vec::new();
        if let Some(socket) = end.socket.as_ref().filter(|_| !end.is_connecting) {
            let mut stats = [0; FIRST_COUNTER + 8 * (COUNTERS.len() + 1)];
            if system::option(socket.as_fd(), SCTP, GET_ASSOC_STATS, &mut stats).is_ok() {
                // The first one is the largest recent timeout, which is not a counter.
                let numbers = stats[FIRST_COUNTER + 8..].chunks_exact(8);
                let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                end.counts.update(numbers.map(number));
            }
            let mut status = [0; 256];
            let has_status = system::option(socket.as_fd(), SCTP, STATUS, &mut status).is_ok();
            let primary = has_status.then(|| address(&status[28..28 + STORAGE])).flatten();
            // The port of side A at its peer differs from the one at which it was called.
            let peer_port = match side {
                Side::A => *port,
                Side::B => {
                    socket.peer_addr().ok().and_then(|peer| peer.as_socket()).map_or(0, |peer| peer.port())
                }
            };
            for (index, path) in paths.iter().enumerate() {
                let remote = path[side.peer().index()];
                samples.extend(sample(socket, index, remote, peer_port, primary == Some(remote)));
            }
        }
        let mut counters: Counters = vec![
            (Cow::Borrowed(""), CONNECTIONS, end.connections),
            (Cow::Borrowed(""), sctp("messages_delivered"), end.delivered),
            (Cow::Borrowed(""), MALFORMED_MESSAGES, end.malformed),
        ];
        end.counts.report("", COUNTERS.into_iter(), &mut counters);
        (samples, counters)
    }
}

impl End {
    fn begin(&mut self, socket: Socket) {
        self.socket = Some(socket);
        self.is_connecting = false;
        self.is_blocked = false;
        self.has_read_all = false;
        self.partial.clear();
        self.sending = None;
    }

    /// Hands a message to the kernel. The error says whether there may be room later.
    fn send(&mut self, message: Message, pattern: &Pattern) -> Result<(), bool> {
        let Some(socket) = &self.socket else { return Err(false) };
        if self.is_connecting {
            return Err(true);
        }
        let Message { stream, ppid, unordered, reliability, payload, .. } = message;
        let Ok(stream) = u16::try_from(stream) else { return Err(false) };
        if self.sending != Some((stream, ppid, unordered, reliability)) {
            let info = [
                &stream.to_ne_bytes()[..],
                &u16::from(unordered).to_ne_bytes(),
                &ppid.to_be_bytes(),
                &[0; 8],
            ];
            // RFC 7496 section 4.1, as policies 0x10 to 0x30 of linux/sctp.h.
            let (policy, value) = match reliability {
                Reliability::Reliable => (0_u16, 0),
                Reliability::Timed(lifetime) => (0x10, (lifetime.as_nanos() / 1_000_000) as u32),
                Reliability::LimitedRetransmissions(times) => (0x20, times),
                Reliability::Priority(priority) => (0x30, priority),
            };
            let hard = [&[0; 4][..], &value.to_ne_bytes(), &policy.to_ne_bytes(), &[0; 2]];
            let set = |name: i32, value: &[u8]| system::set_option(socket.as_fd(), SCTP, name, value);
            let done =
                set(DEFAULT_SNDINFO, &info.concat()).and_then(|()| set(DEFAULT_PRINFO, &hard.concat()));
            if done.is_err() {
                return Err(false);
            }
            self.sending = Some((stream, ppid, unordered, reliability));
        }
        let mut bytes = Vec::with_capacity(payload.length as usize);
        pattern.write_message(payload.offset, payload.length as usize, &mut bytes);
        match socket.send(&bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.kind() == io::ErrorKind::WouldBlock),
        }
    }
}

/// A path of an association (`SCTP_GET_PEER_ADDR_INFO`).
fn sample(socket: &Socket, path: usize, remote: IpAddr, port: u16, is_primary: bool) -> Option<PathSample> {
    let mut info = [0; 4 + STORAGE + 20];
    let address = packed(remote, port);
    info[4..4 + address.len()].copy_from_slice(&address);
    system::option(socket.as_fd(), SCTP, GET_PEER_ADDR_INFO, &mut info).ok()?;
    let number = |index: usize| u32_at(&info, 4 + STORAGE + 4 * index).unwrap_or_default();
    let millis = |index: usize| Duration::from_millis(number(index).into());
    let state = match number(0) {
        2 => PathState::Active,
        1 => PathState::PotentiallyFailed,
        _ => PathState::Inactive,
    };
    Some(PathSample {
        path: PathId(path as u8),
        cwnd: number(1),
        ssthresh: 0,
        outstanding: 0,
        srtt: (number(2) > 0).then(|| millis(2)),
        rto: millis(3),
        delivery_rate: None,
        error_count: 0,
        state,
        is_primary,
        // The kernel does not say path by path what it has done.
        repairs: Repairs::default(),
        marks: Marks::default(),
    })
}

/// A socket with these options.
fn make(options: &MessageOptions, address: IpAddr) -> Result<Socket, String> {
    let MessageOptions { key, .. } = options;
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket =
        Socket::new(domain, Type::STREAM, Some(Protocol::SCTP)).map_err(|error| absent(key, &error))?;
    let failed = |name: &str| {
        let name = name.to_owned();
        move |error: io::Error| format!("{key}.{name}: this kernel ({}) does not take it: {error}", release())
    };
    let set = |name: i32, value: &[u8]| system::set_option(socket.as_fd(), SCTP, name, value);
    let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_reuse_address(true));
    // Events of two kinds: changes of addresses, and messages that were given up.
    let prepared = prepared.and_then(|()| set(EVENTS, &[0, 0, 1, 1]));
    prepared.map_err(|error| format!("{key}: a socket cannot be prepared: {error}"))?;
    if !options.dscp.is_default() {
        let marked = system::set_traffic_class(socket.as_fd(), address, options.dscp, Ecn::NotEct);
        marked.map_err(|error| format!("{key}: a codepoint cannot be set: {error}"))?;
    }
    if options.is_nodelay {
        set(NODELAY, &1_i32.to_ne_bytes()).map_err(failed("nagle"))?;
    }
    if let Some([out, inbound]) = options.streams {
        let init = [out, inbound, 0, 0].map(u16::to_ne_bytes).concat();
        set(INITMSG, &init).map_err(failed("streams"))?;
    }
    if let Some(frequency) = options.sack_frequency {
        let info = [0, 0, frequency].map(u32::to_ne_bytes).concat();
        set(DELAYED_SACK, &info).map_err(failed("sack_frequency"))?;
    }
    // A kernel advertises half of the memory for what it receives (`sctp_association_init`).
    set_buffers(&socket, key, options.send_buffer, options.receive_buffer.map(|window| 2 * window))?;
    Ok(socket)
}

/// The sentence about a kernel without SCTP.
pub(crate) fn absent(key: &str, error: &io::Error) -> String {
    format!("{key}.kind = \"sctp\": this kernel ({}) has none: {error}", release())
}

/// Gives a socket these addresses; the port.
fn bind(socket: &Socket, addresses: &[IpAddr], port: u16) -> io::Result<u16> {
    bind_or_any(socket, SocketAddr::new(addresses[0], port))?;
    let bound = socket.local_addr()?.as_socket().map_or(port, |bound| bound.port());
    let others: Vec<u8> = addresses[1..].iter().flat_map(|&address| packed(address, bound)).collect();
    if !others.is_empty() {
        system::set_option(socket.as_fd(), SCTP, BINDX_ADD, &others)?;
    }
    Ok(bound)
}

/// A `struct sockaddr_in` or `sockaddr_in6`.
fn packed(address: IpAddr, port: u16) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => {
            let family = (libc::AF_INET as u16).to_ne_bytes();
            [&family[..], &port.to_be_bytes(), &address.octets(), &[0; 8]].concat()
        }
        IpAddr::V6(address) => {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            [&family[..], &port.to_be_bytes(), &[0; 4], &address.octets(), &[0; 4]].concat()
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
