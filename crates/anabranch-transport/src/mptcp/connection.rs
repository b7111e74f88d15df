//! One end of a connection: its state, and the dispatch of inputs to the procedures.

use std::collections::VecDeque;

use super::addresses::Announcement;
use super::config::Config;
use super::parameters::Parameters;
use super::receive::Receiver;
use super::send::Sender;
use super::stats::{BLOCKED_BY_RECEIVE_WINDOW_S, Stats};
use super::subflow::{Mapping, Subflow};
use super::subflows::Subflows;
use crate::cc::Controller;
use crate::cc::coupled::Group;
use crate::endpoint::{
    CloseReason, Command, Endpoint, Event, HalfClose, Input, Keeper, Multipath, Output, Service, Site,
    Transport,
};
use crate::flow::{IpVersion, PathId, Payload, Side};
use crate::observed::{HeadOfLine, Missing, Observed, PathLimit, PathSample, Transmission};
use crate::path::scheduler::AnyScheduler;
use crate::report::Report;
use crate::rng::{Draw as _, Rng, Streams};
use crate::secret::SecretNumbers;
use crate::tcp;
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::timer::Clock;
use crate::wire::mptcp::{Handshake, Join, Options, Reset, Signal};
use crate::wire::tcp::{Flags, Segment};
use crate::wire::{Body, Packet};

/// The states of a connection (RFC 8684 sections 3.1 and 3.3.3). A closed end accepts a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is no connection.
    Closed,
    /// The `DATA_FIN` of both ends have been acknowledged, and subflows are being closed.
    Closing,
    /// Data may flow.
    Established,
    /// The peer does not know MPTCP: everything goes over this subflow as over plain TCP.
    Fallback(usize),
    /// The first subflow is being opened.
    Opening,
}

/// One end of an MPTCP connection. See the [module](super) for sources and deviations.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Debug)]
pub struct Connection {
    pub(super) parameters: Parameters,
    pub(super) side: Side,
    pub(super) ip: IpVersion,
    pub(super) rng: Rng,
    /// The source of keys and nonces, if it is not `rng`.
    pub(super) secret_numbers: Option<SecretNumbers>,
    pub(super) state: State,
    /// Whether this end has opened the connection, and so opens further subflows.
    pub(super) is_opener: bool,
    /// Whether the peer is known to have our key, so that it accepts further subflows (RFC 8684 section 3.1).
    pub(super) is_fully_established: bool,
    /// Whether [`Event::Closed`] has been reported for this connection, or nothing is to be reported.
    pub(super) has_closed: bool,
    /// Whether this end may go on sending after the peer's `DATA_FIN`.
    pub(super) half_close: bool,
    /// Our key and the peer's (RFC 8684 section 3.1).
    pub(super) keys: [Option<u64>; 2],
    pub(super) subflows: Subflows,
    pub(super) site: SubflowSite,
    /// Whether the addresses of this end come and go.
    pub(super) addresses_change: bool,
    pub(super) group: Group,
    pub(super) scheduler: AnyScheduler,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Addresses of this end that belong to no path and that the peer is being told of.
    pub(super) announcements: Vec<Announcement>,
    /// Whether there was never a further subflow, and nothing was sent again on the connection level.
    pub(super) has_been_single: bool,
    /// Whether mappings have checksums, as one of the ends wants them (RFC 8684 section 3.1).
    pub(super) has_checksums: bool,
    /// Paths whose addresses have gone while no subflow could tell the peer.
    pub(super) removed: Vec<u8>,
    /// When the connection is given up, if it has no subflow or waits only for the acknowledgement of our
    /// `DATA_FIN`.
    pub(super) close_at: Time,
    /// Whether data acknowledgements have 8 bytes, as those of the peer's last mapping had (Linux:
    /// `use_64bit_ack`).
    pub(super) answers_at_length: bool,
    /// The clock of the connection's own timer.
    pub(super) clock: Clock,
    pub(super) outputs: VecDeque<Output>,
    pub(super) stats: Stats,
    pub(super) last_now: Time,
}

/// What is needed to build subflows, now and when paths are added later.
#[derive(Debug)]
pub(super) struct SubflowSite {
    side: Side,
    pub(super) mtus: Vec<u32>,
    ip: IpVersion,
    streams: Streams,
    name: String,
}

impl SubflowSite {
    /// The subflow of this path, in the closed state.
    pub(super) fn subflow(&self, parameters: &Parameters, path: usize) -> Subflow {
        let settings = parameters.tcp.of_subflow(path as u8);
        let name = format!("{}/subflow_{path}", self.name);
        let tcp = tcp::Connection::new(&settings, self.side, &self.mtus, self.ip, self.streams, &name);
        Subflow::new(tcp, path as u8, parameters.is_backup(PathId(path as u8)))
    }

    /// What the scheduler's random choices follow from.
    pub(super) fn scheduler_seed(&self) -> u64 {
        self.streams.key(&format!("{}/scheduler", self.name))
    }
}

impl Connection {
    /// One end of a connection whose paths have these MTUs (bytes, IP header included). Everything random in
    /// it comes from streams whose names start with `name`, such as `flow/call/mptcp/a`.
    ///
    /// # Panics
    /// When [`Parameters::check_paths`] would refuse these paths.
    pub fn new(
        parameters: &Parameters,
        side: Side,
        mtus: &[u32],
        ip: IpVersion,
        streams: Streams,
        name: &str,
    ) -> Self {
        if let Err(error) = parameters.check_paths(mtus, ip) {
            panic!("{error}");
        }
        let site = SubflowSite { side, mtus: mtus.to_vec(), ip, streams, name: name.into() };
        let scheduler = parameters.scheduler.build(site.scheduler_seed());
        Self {
            side,
            ip,
            rng: streams.stream(&format!("{name}/keys")),
            secret_numbers: None,
            state: State::Closed,
            is_opener: false,
            is_fully_established: false,
            has_closed: true,
            half_close: false,
            keys: [None; 2],
            subflows: Subflows::new((0..mtus.len()).map(|path| site.subflow(parameters, path))),
            site,
            addresses_change: false,
            group: Group::new(parameters.coupling.build()),
            scheduler,
            sender: Sender::new(),
            receiver: Receiver::default(),
            announcements: Vec::new(),
            has_been_single: true,
            has_checksums: false,
            removed: Vec::new(),
            close_at: Time::NEVER,
            answers_at_length: false,
            clock: parameters.tcp.clock().started(streams, name),
            outputs: VecDeque::new(),
            stats: Stats::default(),
            last_now: Time::ZERO,
            parameters: parameters.clone(),
        }
    }

    /// The counters so far, over all connections.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The subflow of a path, if there is such a path.
    pub fn subflow(&self, path: PathId) -> Option<&tcp::Connection> {
        self.subflows.get(path.index()).map(|subflow| &subflow.tcp)
    }

    /// Whether the connection is over completely.
    pub fn is_closed(&self) -> bool {
        self.has_closed && self.subflows.iter().all(|subflow| subflow.tcp.is_closed())
    }

    /// Whether the application has been told that it is over, or there was no connection.
    pub const fn is_over(&self) -> bool {
        self.has_closed
    }

    /// Whether this end has opened it.
    pub const fn is_opener(&self) -> bool {
        self.is_opener
    }

    /// Whether it continues as a connection of TCP.
    pub const fn has_fallen_back(&self) -> bool {
        matches!(self.state, State::Fallback(_))
    }

    /// The largest window that this end offers, in bytes.
    pub const fn receive_buffer(&self) -> u64 {
        self.parameters.tcp.receive_buffer()
    }

    /// Its own key and the peer's; `None` for an unknown key.
    pub const fn keys(&self) -> [Option<u64>; 2] {
        self.keys
    }

    /// The position that it expects next, and the one that its peer expects.
    pub const fn data_near(&self) -> [u64; 2] {
        [self.receiver.next, self.sender.unacknowledged]
    }

    /// A number that a stranger must not guess.
    pub(super) fn draw(&mut self) -> u64 {
        match &mut self.secret_numbers {
            Some(numbers) => numbers.bits(),
            None => self.rng.bits(),
        }
    }

    fn on_command(&mut self, now: Time, command: Command) {
        let is_known = command.path().is_none_or(|path| path.index() < self.subflows.len());
        if !is_known || matches!(command, Command::Rebind { .. } | Command::RequestKeyFrame) {
            return self.outputs.push_back(Output::Event(Event::Unsupported(command.name())));
        }
        match command {
            Command::Abort => self.abort(now),
            Command::AddAddress(path) => self.add_address(now, path.index()),
            Command::Connect => self.connect(now),
            Command::DeleteAddress(path) => self.delete_address(now, path.index()),
            Command::PauseReading => self.receiver.is_paused = true,
            // Answered above.
            Command::Rebind { .. } | Command::RequestKeyFrame => {}
            Command::ResumeReading => self.resume_reading(now),
            Command::Send(message) => self.write(message),
            Command::SetPeerPrimary(path) => self.ask_for_primary(now, path.index()),
            Command::SetPrimary(path) => self.set_primary(path.index()),
            Command::Shutdown => self.sender.is_finished = true,
        }
    }

    /// A packet of a subflow arrives.
    fn on_packet(&mut self, now: Time, packet: Box<Packet>) {
        let path = packet.path.index();
        if path >= self.subflows.len() {
            return;
        }
        let (options, segment) = match &packet.body {
            Body::Mptcp(segment) => (segment.options, &segment.tcp),
            Body::Tcp(segment) => (Options::default(), segment),
            _ => return,
        };
        if !self.subflows[path].is_present {
            // This host no longer has the address that the packet was sent to.
            return;
        }
        let flags = segment.flags;
        let begins = flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        if begins && self.subflows[path].tcp.opens_anew(segment) && !self.accept(path, &options, segment) {
            // RFC 8684 section 3.2: an unknown token is answered by a reset.
            let subflow = &mut self.subflows[path];
            subflow.reset = Some(Reset::MPTCP_ERROR);
            subflow.tcp.out_of_the_blue(segment);
            subflow.is_dirty = true;
            return;
        }
        // A segment that is not near the window may be a stranger's: the subflow alone deals with it.
        let is_near = flags.has(Flags::SYN) || self.subflows[path].tcp.is_near(segment);
        // A late acknowledgement of the last connection may come over another path.
        let opens = self.subflows[path].phase == Phase::Opening && !self.subflows[path].initiates;
        let is_third = opens && flags.has(Flags::ACK) && !flags.has(Flags::RST) && !flags.has(Flags::SYN);
        let is_plain_third = is_third && is_near && options == Options::default();
        if is_plain_third && !self.on_plain_third(now, path) {
            return;
        }
        let is_tcps =
            matches!(self.state, State::Fallback(_)) || !self.subflows[path].tcp.owns_segment(segment);
        if is_tcps || (!is_near && segment.payload.length == 0) {
            let asks = is_near && is_failure(&options, flags);
            return self.give_to_tcp(now, path, packet, asks);
        }
        if !is_near {
            // Its mapping is ignored, and data without a mapping must not get into the subflow's stream.
            return;
        }
        if flags.has(Flags::SYN) {
            let answers = !begins && self.subflows[path].tcp.is_answer_to_syn(segment);
            let fits = !answers || self.take_answer(now, path, &options, segment);
            self.hand_down(now, path, packet);
            if !fits {
                self.subflows[path].abort(now, Reset::MPTCP_ERROR);
            }
            return;
        }
        if !self.stands(now, path, &options, segment) {
            return;
        }
        if self.has_fallen_back() {
            return self.hand_down(now, path, packet);
        }
        if let Some(acknowledged) = options.data_ack {
            let window = u64::from(segment.window) << self.subflows[path].tcp.peer_scale();
            self.on_data_ack(now, acknowledged, self.offered(window));
        }
        if flags.has(Flags::FIN) {
            // While this end has more to say on the connection level, the subflow stays open for it (Linux:
            // __mptcp_close_subflow).
            let has_more = self.receiver.has_ended() && !self.sender.has_sent_fin;
            self.subflows[path].tcp.set_half_close(has_more);
        }
        let Payload { offset: position, length } = segment.payload;
        if let Some(data) = options.data_position {
            self.answers_at_length = !options.has_short_number;
            if self.is_trusted(path, data + u64::from(length)) {
                self.subflows[path].record_mapping(Mapping { position, data, length });
            }
        }
        let subflow = &self.subflows[path];
        if let Some(Handshake::Join(Join::Third { code })) = options.handshake {
            if subflow.joins && !subflow.initiates && !self.is_proven(path, &code) {
                // RFC 8684 section 3.2: a peer that does not have the keys is reset.
                return self.subflows[path].abort(now, Reset::MPTCP_ERROR);
            }
            if subflow.phase == Phase::Open {
                // The peer has not received our answer to its third segment.
                self.acknowledge_on(now, path);
            }
        }
        // This comes first: what follows may send an acknowledgement, for which the peer's key has to be
        // known.
        self.record_progress(now, path, &options);
        // RFC 9293 section 3.10.7.4: nothing in a segment counts if the segment lies before what was
        // acknowledged.
        let signal = options.signal.filter(|_| !self.subflows[path].tcp.lies_before(segment));
        // RFC 8684 section 3: a duplicate acknowledgement with a signal is no sign of congestion.
        let is_for_us =
            signal.is_some() && !flags.has(Flags::RST) && self.subflows[path].tcp.is_duplicate_ack(segment);
        let fills_gap = self.prepare_receiver(path, &options);
        if !is_for_us {
            self.hand_down(now, path, packet);
        }
        self.renew_interval_after(now, path, &options);
        if fills_gap {
            self.skip_stored(now);
        }
        // A reset that has not ended its subflow may come from a stranger (RFC 5961 section 3).
        let is_believed = !flags.has(Flags::RST) || self.subflows[path].phase == Phase::Closed;
        if let Some(signal) = signal.filter(|_| is_believed) {
            self.on_signal(now, path, signal);
        }
        if let Some(position) = options.data_fin.filter(|fin| self.is_trusted(path, fin + 1)) {
            self.record_data_fin(now, path, position, length == 0);
        }
        if matches!(self.subflows[path].signal, Some(Signal::Fail { .. })) {
            self.acknowledge_on(now, path);
        }
    }

    /// Gives a packet to its subflow alone. A peer that asks with `MP_FAIL` has not heard yet that this end
    /// has fallen back.
    fn give_to_tcp(&mut self, now: Time, path: usize, packet: Box<Packet>, asks: bool) {
        self.hand_down(now, path, packet);
        if asks && self.state == State::Fallback(path) {
            self.acknowledge_on(now, path);
        }
    }

    /// Handles a third segment without the option. Returns whether it is looked at further.
    #[cold]
    fn on_plain_third(&mut self, now: Time, path: usize) -> bool {
        match self.state {
            // RFC 8684 section 3.1: a peer that stops using the option is handled as one that has only TCP.
            State::Opening => {
                self.fall_back(path);
                self.hand_over(now, path);
                true
            }
            // RFC 8684 section 3.2: the peer has not shown that it has the keys (Linux:
            // `subflow_syn_recv_sock`).
            State::Established => {
                let reason = if self.counts_intervals() { Reset::MPTCP_ERROR } else { Reset::MIDDLEBOX };
                self.subflows[path].abort(now, reason);
                false
            }
            State::Closed | State::Closing | State::Fallback(_) => true,
        }
    }

    /// Handles what a segment says of damage and of going on as TCP. Returns whether its subflow takes it.
    fn stands(&mut self, now: Time, path: usize, options: &Options, segment: &Segment) -> bool {
        if self.is_parting(path, options, segment) {
            return self.on_parting(now, path, options);
        }
        let is_plain = options.data_ack.is_none()
            && *options == Options::default()
            && self.state == State::Established
            && !segment.flags.has(Flags::RST);
        if is_plain {
            return self.on_plain(now, path, segment);
        }
        !options.is_damaged || self.on_damaged(now, path, options)
    }

    /// Whether data of this subflow that ends here on the connection level may be taken.
    fn is_trusted(&self, path: usize, end: u64) -> bool {
        self.subflows[path].damage.is_none_or(|damage| damage.allows(end))
    }

    /// Gives a packet to its subflow and handles what follows from it.
    fn hand_down(&mut self, now: Time, path: usize, packet: Box<Packet>) {
        let waits = self.sender.unsent() > 0 && self.sender.has_window();
        let subflow = &mut self.subflows[path];
        subflow.tcp.note_unsent_above(waits);
        subflow.is_bare |= self.state == State::Closing && subflow.tcp.has_sent_all();
        subflow.tcp.handle_input(now, Input::Packet(packet));
        subflow.release();
        self.drain(now, path);
    }

    /// Sends an acknowledgement on this subflow.
    pub(super) fn acknowledge_on(&mut self, now: Time, path: usize) {
        let subflow = &mut self.subflows[path];
        subflow.tcp.acknowledge_now(now);
        subflow.is_dirty = true;
    }

    /// Sends an acknowledgement on every subflow, since it is not known which ones work.
    pub(super) fn acknowledge_on_all(&mut self, now: Time) {
        for path in 0..self.subflows.len() {
            if self.subflows[path].is_established() || self.subflows[path].tcp.is_half_closed() {
                self.acknowledge_on(now, path);
            }
        }
    }

    /// Carries out everything that a subflow wants done, and notes how far it has come.
    pub(super) fn drain(&mut self, now: Time, path: usize) {
        self.subflows.unseen(path).is_dirty = false;
        loop {
            match self.subflows.unseen(path).tcp.poll_output(now) {
                Output::Event(event) if self.state == State::Fallback(path) => {
                    match event {
                        Event::Closed(_) => self.has_closed = true,
                        Event::Connected => self.has_closed = false,
                        // `DATA_FIN` has said so.
                        Event::PeerFinished if self.receiver.has_ended() => continue,
                        // What the application reads late comes after the end, which stays the end.
                        _ => {}
                    }
                    self.outputs.push_back(Output::Event(event));
                }
                Output::Event(Event::Closed(reason)) => self.subflows[path].ended = reason,
                // The connection has to know of this before it gets the data that comes with it.
                Output::Event(Event::Connected) => self.record_phase(now, path),
                Output::Event(Event::Received(received)) => {
                    self.on_subflow_data(path, received.payload.length);
                }
                Output::Event(_) => {}
                Output::Timeout(at) => {
                    self.subflows.unseen(path).timeout = at;
                    break;
                }
                Output::Transmit(mut packet) => {
                    if self.state == State::Fallback(path) {
                        self.add_parting_options(path, &mut packet);
                    } else {
                        self.add_options(path, &mut packet);
                    }
                    self.outputs.push_back(Output::Transmit(packet));
                }
            }
        }
        self.record_phase(now, path);
        self.record_failure(path);
    }

    fn drain_all(&mut self, now: Time) {
        while let Some(path) = self.subflows.first_dirty() {
            self.drain(now, path);
        }
    }

    /// After an input: sends what may be sent, and ends subflows and connections that are over.
    pub(super) fn follow_up(&mut self, now: Time) {
        self.drain_all(now);
        self.push(now);
        self.drain_all(now);
        self.send_data_fin(now);
        self.end_when_done(now);
        self.drain_all(now);
    }

    #[inline(never)]
    fn on_timers(&mut self, now: Time) {
        for path in 0..self.subflows.len() {
            if !self.subflows.is_due(now, path) {
                continue;
            }
            if self.subflows[path].timeout <= now {
                self.subflows[path].tcp.handle_input(now, Input::Timeout);
                self.drain(now, path);
            }
            self.on_path_timers(now, path);
        }
        self.repeat_announcements(now);
        if self.sender.timer <= now {
            self.on_data_timer(now);
        }
        if self.close_at <= now {
            self.on_close_timeout(now);
        }
    }

    fn next_timeout(&mut self) -> Time {
        let announcements = self.announcements.iter().map(|announcement| announcement.at);
        let next = announcements.min().unwrap_or(Time::NEVER).min(self.subflows.next_timeout());
        next.min(self.sender.timer).min(self.close_at)
    }

    /// The subflow for signals of the connection: the fastest one that works, or else one that is open.
    pub(super) fn best_subflow(&self) -> Option<usize> {
        let paths = 0..self.subflows.len();
        paths.filter(|&path| self.subflows[path].is_established()).min_by_key(|&path| {
            let subflow = &self.subflows[path];
            (!subflow.is_usable(), subflow.tcp.srtt(), path)
        })
    }

    pub(super) fn report_closed(&mut self, reason: CloseReason) {
        if !std::mem::replace(&mut self.has_closed, true) {
            self.outputs.push_back(Output::Event(Event::Closed(reason)));
        }
    }
}

/// Whether a segment that is no reset says `MP_FAIL`.
pub(super) fn is_failure(options: &Options, flags: Flags) -> bool {
    matches!(options.signal, Some(Signal::Fail { .. })) && !flags.has(Flags::RST)
}

impl Transport for Config {
    type Endpoint = Connection;

    fn build(&self, site: &Site<'_>) -> Result<Connection, String> {
        let &Site { side, mtus, ip, streams, .. } = site;
        let parameters = self.resolve()?;
        parameters.check_paths(mtus, ip)?;
        Ok(Connection::new(&parameters, side, mtus, ip, streams, &site.name("mptcp")))
    }
}

impl Endpoint for Connection {
    fn protocol(&self) -> &'static str {
        "mptcp"
    }

    /// Such an end falls back to TCP (RFC 8684 section 3.1).
    fn understands(&self, protocol: &str) -> bool {
        matches!(protocol, "mptcp" | "tcp")
    }

    fn service(&self) -> Service {
        Service::Stream
    }

    /// Whether the packet is for this connection: a subflow has its ports, or its token is the connection's
    /// (RFC 8684 section 3.2).
    fn owns(&self, packet: &Packet) -> bool {
        let Some(segment) = packet.body.tcp() else { return false };
        let token = match &packet.body {
            Body::Mptcp(segment) => match segment.options.handshake {
                Some(Handshake::Join(Join::Syn { token, .. })) => Some(token),
                _ => None,
            },
            _ => None,
        };
        let joins = self.state == State::Established && token.is_some() && token == self.token();
        joins || self.subflows.iter().any(|subflow| subflow.tcp.owns_segment(segment))
    }

    #[inline(never)]
    fn handle_input(&mut self, now: Time, input: Input) {
        debug_assert!(now >= self.last_now, "time runs backwards");
        self.last_now = now;
        match (input, self.state) {
            (Input::Packet(packet), _) => {
                let path = packet.path.index();
                self.on_packet(now, packet);
                self.follow_up(now);
                if path < self.subflows.len() {
                    self.grow_send_buffer(path);
                }
                return;
            }
            // A connection that is over still has what the application has not read (RFC 9293 section
            // 3.10.4); the next connection and its paths are no matter of it.
            (Input::Command(command), State::Fallback(path))
                if !self.has_closed || !(command == Command::Connect || command.path().is_some()) =>
            {
                // A pause in reading also holds for the next connection.
                match command {
                    Command::PauseReading => self.receiver.is_paused = true,
                    Command::ResumeReading => self.receiver.is_paused = false,
                    _ => {}
                }
                self.subflows[path].tcp.handle_input(now, Input::Command(command));
                self.subflows[path].is_dirty = true;
            }
            (Input::Command(command), _) => self.on_command(now, command),
            // Room that the last acknowledgement gave a subflow's queue is used with the next one, not
            // earlier.
            (Input::Timeout, _) if self.next_timeout() > now => return,
            (Input::Timeout, _) => self.on_timers(now),
        }
        self.follow_up(now);
    }

    fn poll_output(&mut self, _now: Time) -> Output {
        match self.outputs.pop_front() {
            Some(output) => output,
            None => Output::Timeout(self.next_timeout()),
        }
    }
}

impl Multipath for Connection {
    fn set_congestion_control(&mut self, path: PathId, control: Controller) -> bool {
        self.subflows[path.index()].tcp.set_congestion_control(path, control)
    }

    fn enable_reconfiguration(&mut self, absent: &[PathId]) -> Result<(), String> {
        self.let_addresses_change(absent)
    }

    fn add_path(&mut self, now: Time, mtu: u32) -> Result<PathId, String> {
        let id = self.append_path(now, mtu)?;
        self.follow_up(now);
        Ok(id)
    }
}

impl HalfClose for Connection {
    fn set_half_close(&mut self, on: bool) {
        self.half_close = on;
        if let State::Fallback(path) = self.state {
            self.subflows[path].tcp.set_half_close(on);
        }
    }
}

impl Keeper for Connection {
    /// Draws keys and nonces from these numbers, and gives each subflow a sequence of its own.
    fn draw_from(&mut self, mut numbers: SecretNumbers) {
        for subflow in &mut self.subflows {
            subflow.tcp.draw_from(numbers.split_off());
        }
        self.secret_numbers = Some(numbers);
    }

    fn payloads_to_send(&self, each: &mut dyn FnMut(Payload)) {
        if let State::Fallback(path) = self.state {
            return self.subflows[path].tcp.payloads_to_send(each);
        }
        let first = self.sender.unacknowledged;
        each(Payload { offset: first, length: self.sender.written.saturating_sub(first) as u32 });
        // A subflow sends its data again even if it has arrived on another one.
        self.subflows.iter().flat_map(Subflow::unacknowledged).for_each(each);
    }

    fn payloads_that_wait(&self, each: &mut dyn FnMut(Payload)) {
        if let State::Fallback(path) = self.state {
            return self.subflows[path].tcp.payloads_that_wait(each);
        }
        self.receiver.waiting_runs().for_each(|(start, end)| {
            each(Payload { offset: start, length: (end - start) as u32 });
        });
    }
}

impl Observed for Connection {
    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        let backups_wait = self.subflows.iter().any(|it| it.is_usable() && !it.sends_as_backup());
        for subflow in &self.subflows {
            subflow.tcp.sample_paths(samples);
            if let Some(sample) = samples.last_mut() {
                sample.state = subflow.state();
                sample.is_primary = subflow.is_usable() && !(backups_wait && subflow.sends_as_backup());
            }
        }
    }

    fn sample_limits(&self, now: Time, limits: &mut Vec<PathLimit>) {
        self.limits_of_paths(now, limits);
    }

    fn head_of_line(&self) -> Option<HeadOfLine> {
        self.gap()
    }

    fn transmission(&self, missing: Missing) -> Option<Transmission> {
        self.sent(missing.number)
    }

    fn report(&self, report: &mut Report<'_>) {
        self.stats.report(report);
        let blocked = self.sender.blocked_until(self.last_now);
        report.scalar(BLOCKED_BY_RECEIVE_WINDOW_S, blocked.as_secs_f64());
        for (path, subflow) in self.subflows.iter().enumerate() {
            subflow.tcp.report(&mut report.section(&format!("subflow_{path}")));
        }
    }
}
