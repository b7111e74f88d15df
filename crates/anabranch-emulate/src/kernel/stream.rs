//! Flows of TCP and Multipath TCP on the kernel's sockets.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};

use anabranch::outside::Counters;
use anabranch_transport::endpoint::{CloseReason, Command, Event, Received};
use anabranch_transport::flow::{Ecn, PathId, Payload, Side};
use anabranch_transport::observed::PathSample;
use rustix::event::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::buffers::set_buffers;
use super::counts::Counts;
use super::datagrams::Tell;
use super::info::{Known, TcpInfo, tcp};
use super::pattern::{PIECE, Pattern};
use super::place::{Home, bind_or_any, release};
use super::settings::StreamOptions;
use crate::system::{self, TCP};

/// How many times a socket is read before the other sockets have their turn.
const BATCH: usize = 16;

/// The port of the flow's end `to` if the scenario names none: that of iperf.
const PORT: u16 = 5001;

/// The memory for a byte that is written. A packet of one or two segments takes 832 B more than its data
/// (`tcp_stream_alloc_skb`), so that this is enough for segments of 300 B and more.
const SEND_MEMORY: u64 = 4;

/// The most connections that wait to be accepted; one at a time is opened.
const BACKLOG: i32 = 16;

/// A flow of bytes: one connection at a time, opened by side A.
#[derive(Debug)]
pub(crate) struct Stream {
    homes: [Home; 2],
    options: [StreamOptions; 2],
    is_multipath: bool,
    /// The addresses of both sides on each path of the flow.
    paths: Vec<[IpAddr; 2]>,
    /// The path, among these, on which it is opened.
    first: usize,
    listener: Socket,
    /// The address that listens, as side A reaches it.
    target: SocketAddr,
    known: Known,
    ends: [End; 2],
}

/// One end.
#[expect(clippy::struct_excessive_bools, reason = "each holds or not, whatever the others do")]
#[derive(Debug, Default)]
struct End {
    socket: Option<Socket>,
    is_connecting: bool,
    /// Whether the application waits for the kernel to take more...
    is_blocked: bool,
    /// ...or until more of what it has written is acknowledged.
    is_ahead: bool,
    is_paused: bool,
    /// Whether the application has nothing more to send.
    is_finished: bool,
    /// Whether the peer has nothing more to send.
    has_read_all: bool,
    /// How many bytes of the present connection have been read.
    read: u64,
    connections: u64,
    delivered: u64,
    /// The counters of the connection of TCP, or of each path's subflow.
    counts: Vec<Counts>,
}

/// The sockets of a flow, in the order in which they are watched.
const LISTENER: usize = 2;

impl Stream {
    /// Begins to listen.
    ///
    /// # Errors
    /// A sentence about what this kernel does not have.
    pub(crate) fn open(
        homes: [Home; 2],
        options: [StreamOptions; 2],
        is_multipath: bool,
        paths: Vec<[IpAddr; 2]>,
    ) -> Result<Self, String> {
        let first = usize::from(options[0].path);
        let [from, to] = paths[first];
        let protocol = if is_multipath { Protocol::MPTCP } else { Protocol::TCP };
        // If side A lacks something, that is found before the first connection.
        homes[0].enter()?;
        make(&options[0], from, protocol)?;
        homes[1].enter()?;
        let listener = make(&options[1], to, protocol)?;
        let failed = |error: io::Error| format!("{}: {error}", options[1].key);
        // Further subflows come to other addresses.
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let place = if is_multipath { any } else { to };
        match options[1].ports[1] {
            Some(port) => listener.bind(&SocketAddr::new(place, port).into()).map_err(|error| {
                format!("{}.destination_port = {port}: the port cannot be used: {error}", options[1].key)
            })?,
            None => bind_or_any(&listener, SocketAddr::new(place, PORT)).map_err(failed)?,
        }
        listener.listen(BACKLOG).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?.as_socket().map_or(PORT, |bound| bound.port());
        let plain = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
        let known = Known::of(plain.as_fd()).map_err(failed)?;
        let subflows = if is_multipath { paths.len() } else { 1 };
        let end = || End { counts: (0..subflows).map(|_| Counts::default()).collect(), ..End::default() };
        let ends = [end(), end()];
        let target = SocketAddr::new(to, bound);
        Ok(Self { homes, options, is_multipath, paths, first, listener, target, known, ends })
    }

    /// Calls `each` with the sockets and the events to wait for.
    pub(crate) fn watch<'a>(&'a self, each: &mut impl FnMut(BorrowedFd<'a>, PollFlags)) {
        for end in &self.ends {
            match end.interest() {
                Some((socket, interest)) => each(socket.as_fd(), interest),
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
                    // Closing with this option resets the connection (tcp(7), SO_LINGER).
                    let _ = socket.set_linger(Some(std::time::Duration::ZERO));
                }
                self.close(side, CloseReason::Aborted, tell);
            }
            Command::Connect => {
                if let Err(error) = self.connect() {
                    self.close(side, reason(&error), tell);
                }
            }
            Command::PauseReading => end.is_paused = true,
            Command::ResumeReading => end.is_paused = false,
            Command::Send(message) => self.write(side, message.payload, pattern, tell),
            Command::Shutdown => {
                end.is_finished = true;
                end.shut();
            }
            other => tell(side, Event::Unsupported(other.name())),
        }
    }

    fn connect(&mut self) -> io::Result<()> {
        let StreamOptions { ports, .. } = &self.options[0];
        let protocol = if self.is_multipath { Protocol::MPTCP } else { Protocol::TCP };
        let from = self.paths[self.first][0];
        let end = &mut self.ends[Side::A.index()];
        // Each further connection takes the next port.
        let port = ports[0].map_or(0, |port| port.wrapping_add(end.connections as u16));
        self.homes[0].enter().map_err(io::Error::other)?;
        let socket = make(&self.options[0], from, protocol).map_err(io::Error::other)?;
        socket.bind(&SocketAddr::new(from, port).into())?;
        match socket.connect(&self.target.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        end.begin(socket);
        end.is_connecting = true;
        Ok(())
    }

    /// Writes as much as there is room for.
    fn write(&mut self, side: Side, payload: Payload, pattern: &Pattern, tell: &mut Tell<'_>) {
        let limit = self.limit_of_data(side);
        let end = &mut self.ends[side.index()];
        let Payload { mut offset, mut length } = payload;
        let accepts = !end.is_finished && end.socket.is_some();
        if let Some(socket) = end.socket.as_ref().filter(|_| accepts && !end.is_connecting) {
            let mut room = limit.map_or(u64::MAX, |limit| room_of(socket, limit));
            while length > 0 && room > 0 {
                let piece = u64::from(length).min(room) as usize;
                // Errors are noticed where the socket is read.
                let Ok(taken) = socket.send(pattern.at(offset, piece)) else { break };
                offset += taken as u64;
                length -= taken as u32;
                room -= taken as u64;
            }
            end.is_ahead = length > 0 && room == 0;
        }
        if length > 0 {
            end.is_blocked = accepts && !end.is_ahead;
            tell(side, Event::Refused(Payload { offset, length }));
        }
    }

    /// How many bytes the application of TCP may write ahead of what is acknowledged, if the scenario says
    /// so.
    fn limit_of_data(&self, side: Side) -> Option<u64> {
        self.options[side.index()].send_buffer.filter(|_| !self.is_multipath)
    }

    /// Tells applications that were too far ahead that a third of their send buffer is free, as a simulated
    /// connection does.
    pub(crate) fn report_writable(&mut self, tell: &mut Tell<'_>) {
        for side in [Side::A, Side::B] {
            let Some(limit) = self.limit_of_data(side) else { continue };
            let end = &mut self.ends[side.index()];
            if let Some(socket) = end.socket.as_ref().filter(|_| end.is_ahead)
                && room_of(socket, limit) >= limit.div_ceil(3)
            {
                end.is_ahead = false;
                tell(side, Event::Writable);
            }
        }
    }

    /// Handles these sockets, in the order in which they are watched, since something is to be done at them.
    pub(crate) fn handle(
        &mut self,
        ready: &[PollFlags],
        pattern: &Pattern,
        buffer: &mut [u8],
        corrupted: &mut u64,
        tell: &mut Tell<'_>,
    ) {
        if !ready[LISTENER].is_empty() {
            self.accept(tell);
        }
        for side in [Side::A, Side::B] {
            let found = ready[side.index()];
            if found.is_empty() {
                continue;
            }
            let end = &mut self.ends[side.index()];
            let Some(socket) = &end.socket else { continue };
            if end.is_connecting {
                match socket.take_error() {
                    Ok(None) => {
                        end.is_connecting = false;
                        end.connections += 1;
                        end.shut();
                        tell(side, Event::Connected);
                    }
                    Ok(Some(error)) | Err(error) => {
                        self.close(side, reason(&error), tell);
                        continue;
                    }
                }
            }
            let end = &mut self.ends[side.index()];
            if found.contains(PollFlags::OUT) && std::mem::take(&mut end.is_blocked) {
                tell(side, Event::Writable);
            }
            if found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read(side, pattern, buffer, corrupted, tell);
            }
        }
    }

    fn accept(&mut self, tell: &mut Tell<'_>) {
        let Ok((socket, _)) = self.listener.accept() else { return };
        if socket.set_nonblocking(true).is_err() {
            return;
        }
        // The only thing that can be missing of the last connection is the acknowledgement of its end.
        if self.ends[Side::B.index()].socket.is_some() {
            self.close(Side::B, CloseReason::Shutdown, tell);
        }
        let end = &mut self.ends[Side::B.index()];
        end.begin(socket);
        end.connections += 1;
        tell(Side::B, Event::Connected);
    }

    fn read(
        &mut self,
        side: Side,
        pattern: &Pattern,
        buffer: &mut [u8],
        corrupted: &mut u64,
        tell: &mut Tell<'_>,
    ) {
        let end = &mut self.ends[side.index()];
        let Some(socket) = &end.socket else { return };
        for _ in 0..BATCH {
            match rustix::io::read(socket, &mut buffer[..PIECE]) {
                Ok(0) => {
                    end.has_read_all = true;
                    // Without half-close this end closes as well, after the data that the kernel already has.
                    end.is_finished = true;
                    end.shut();
                    return tell(side, Event::PeerFinished);
                }
                Ok(length) => {
                    *corrupted += u64::from(!pattern.is_at(end.read, &buffer[..length]));
                    let payload = Payload { offset: end.read, length: length as u32 };
                    end.read += length as u64;
                    end.delivered += length as u64;
                    tell(side, Event::Received(Received::new(payload)));
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
                Err(error) => return self.close(side, reason(&error.into()), tell),
            }
        }
    }

    /// Ends the connections whose last acknowledgement has arrived.
    pub(crate) fn close_finished(&mut self, tell: &mut Tell<'_>) {
        for side in [Side::A, Side::B] {
            let end = &self.ends[side.index()];
            let is_over =
                |socket: &Socket| system::unacknowledged(socket.as_fd()).is_ok_and(|left| left == 0);
            if end.has_read_all && end.is_finished && end.socket.as_ref().is_some_and(is_over) {
                self.close(side, CloseReason::Shutdown, tell);
            }
        }
    }

    /// Ends the connection of this end.
    fn close(&mut self, side: Side, reason: CloseReason, tell: &mut Tell<'_>) {
        self.count(side);
        let end = &mut self.ends[side.index()];
        end.socket = None;
        end.counts.iter_mut().for_each(Counts::end);
        tell(side, Event::Closed(reason));
    }

    /// Brings the counters of an end up to date, and returns the state of its paths.
    fn count(&mut self, side: Side) -> Vec<PathSample> {
        let Self { paths, known, is_multipath, ends, first, .. } = self;
        let end = &mut ends[side.index()];
        let Some(socket) = &end.socket else { return Vec::new() };
        if !*is_multipath {
            let Ok(info) = TcpInfo::of(socket.as_fd()) else { return Vec::new() };
            end.counts[0].update(info.counters(*known));
            return vec![info.sample(PathId(*first as u8), true)];
        }
        let pair = |addresses: [IpAddr; 2]| [addresses[side.index()], addresses[side.peer().index()]];
        let mut samples = Vec::new();
        for (addresses, info) in TcpInfo::of_subflows(socket.as_fd()).unwrap_or_default() {
            let Some(path) = paths.iter().position(|&path| pair(path) == addresses) else { continue };
            end.counts[path].update(info.counters(*known));
            samples.push(info.sample(PathId(path as u8), true));
        }
        samples.sort_by_key(|sample| sample.path.0);
        samples
    }

    /// The state of an end's paths, and its counters.
    pub(crate) fn observe(&mut self, side: Side) -> (Vec<PathSample>, Counters) {
        let samples = self.count(side);
        let end = &self.ends[side.index()];
        let mut counters: Counters = vec![
            (Cow::Borrowed(""), tcp("connections"), end.connections),
            (Cow::Borrowed(""), tcp("bytes_delivered"), end.delivered),
        ];
        for (path, counts) in end.counts.iter().enumerate() {
            let part =
                if self.is_multipath { Cow::Owned(format!("subflow_{path}")) } else { Cow::Borrowed("") };
            counts.report(part, self.known.declared(), &mut counters);
        }
        (samples, counters)
    }
}

impl End {
    fn begin(&mut self, socket: Socket) {
        self.socket = Some(socket);
        self.is_connecting = false;
        self.is_blocked = false;
        self.is_ahead = false;
        self.is_finished = false;
        self.has_read_all = false;
        self.read = 0;
    }

    /// Sends FIN after what the kernel has, if the application has nothing more to send.
    fn shut(&self) {
        if let Some(socket) = self.socket.as_ref().filter(|_| self.is_finished && !self.is_connecting) {
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
    }

    /// The events to wait for at its socket; `None` once both directions are closed, as the events would then
    /// be reported without end.
    fn interest(&self) -> Option<(&Socket, PollFlags)> {
        let socket = self.socket.as_ref()?;
        let reads = !self.is_paused && !self.has_read_all && !self.is_connecting;
        let writes = self.is_connecting || self.is_blocked;
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, reads);
        interest.set(PollFlags::OUT, writes);
        (!interest.is_empty()).then_some((socket, interest))
    }
}

/// A socket with these options.
fn make(options: &StreamOptions, address: IpAddr, protocol: Protocol) -> Result<Socket, String> {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::STREAM, Some(protocol)).map_err(|error| {
        let kernel = release();
        if protocol == Protocol::MPTCP {
            format!("{}.kind = \"mptcp\": this kernel ({kernel}) has none: {error}", options.key)
        } else {
            format!("{}: a socket cannot be opened: {error}", options.key)
        }
    })?;
    let key = &options.key;
    let failed = |name: &str, value: String| {
        let key = format!("{key}.{name} = {value}");
        move |error: io::Error| format!("{key}: this kernel ({}) does not take it: {error}", release())
    };
    let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_reuse_address(true));
    prepared.map_err(|error| format!("{key}: a socket cannot be prepared: {error}"))?;
    let set = |level: i32, name: i32, value: i32| {
        system::set_option(socket.as_fd(), level, name, &value.to_ne_bytes())
    };
    let (control, is_named) = &options.congestion;
    let control_set = socket.set_tcp_congestion(control.as_bytes());
    if control_set.is_err() && *is_named {
        let there = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let there = there.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(", ");
        return Err(format!("{key}.cc.kind = \"{control}\": this kernel ({}) has {there}", release()));
    }
    if !options.dscp.is_default() {
        let marked = system::set_traffic_class(socket.as_fd(), address, options.dscp, Ecn::NotEct);
        marked.map_err(|error| format!("{key}: a codepoint cannot be set: {error}"))?;
    }
    if let Some(mss) = options.mss {
        set(TCP, libc::TCP_MAXSEG, mss as i32).map_err(failed("mss", format!("\"{mss} B\"")))?;
    }
    if options.is_nodelay {
        socket.set_tcp_nodelay(true).map_err(failed("nagle", "\"off\"".into()))?;
    }
    if let Some(retries) = options.syn_retries {
        set(TCP, libc::TCP_SYNCNT, retries as i32).map_err(failed("syn_retries", retries.to_string()))?;
    }
    if options.is_paced {
        // The rate has no limit, but setting one makes the kernel pace.
        let most = (u64::MAX - 1).to_ne_bytes();
        system::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &most)
            .map_err(failed("pacing", "true".into()))?;
    }
    // TCP's limit of what is written ahead is kept here (`Stream::write`): the kernel's is one of memory,
    // which fills by how data is cut, and which it exceeds by 64 kB. So it has more than enough. Multipath
    // TCP's memory is its data, and how much of that its subflows hold follows from it.
    let of_byte = if protocol == Protocol::MPTCP { 1 } else { SEND_MEMORY };
    let memory = options.send_buffer.map(|limit| of_byte * limit);
    set_buffers(&socket, key, memory, options.receive_buffer)?;
    Ok(socket)
}

/// How many bytes more may be written by whoever may write `limit` bytes ahead of what is acknowledged.
fn room_of(socket: &Socket, limit: u64) -> u64 {
    // That a connection has failed is noticed where it is read.
    let held = system::unacknowledged(socket.as_fd()).unwrap_or_default();
    limit.saturating_sub(u64::from(held))
}

/// Why a connection ended.
fn reason(error: &io::Error) -> CloseReason {
    match error.raw_os_error() {
        Some(libc::ECONNRESET | libc::ECONNREFUSED | libc::EPIPE) => CloseReason::Aborted,
        _ => CloseReason::Lost,
    }
}
