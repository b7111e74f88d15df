//! Opening a connection and joining further subflows to it (RFC 8684 sections 3.1 and 3.2).

use super::connection::{Connection, State};
use super::damage::Damage;
use crate::cc::coupled::Group;
use crate::endpoint::{CloseReason, Command, Endpoint as _, Event, Input, Output};
use crate::flow::{PathId, Payload};
use crate::path::PathState;
use crate::tcp::subflow::Phase;
use crate::time::Time;
use crate::wire::mptcp::keys::{join_code, short_join_code, token_of};
use crate::wire::mptcp::{Handshake, Join, Options};
use crate::wire::tcp::{Flags, MAX_OPTION_BYTES, Segment};
use crate::wire::{self, Body, Packet};

impl Connection {
    /// The token by which the peer identifies the connection (RFC 8684 section 3.2).
    pub(super) fn token(&self) -> Option<u32> {
        self.keys[0].map(token_of)
    }

    /// Our key and the peer's, 0 for an unknown one.
    fn own_keys(&self) -> [u64; 2] {
        self.keys.map(|key| key.unwrap_or(0))
    }

    /// The peer's key and ours, 0 for an unknown one.
    fn peers_keys(&self) -> [u64; 2] {
        let [own, peers] = self.own_keys();
        [peers, own]
    }

    /// Whether the third segment of a subflow that joins proves that the peer has the keys.
    pub(super) fn is_proven(&self, path: usize, code: &[u8; 20]) -> bool {
        let [own, peers] = self.subflows[path].nonces;
        *code == join_code(self.peers_keys(), [peers, own])
    }

    /// Opens actively, over the first path that exists; if there is none, the connection is lost at once.
    /// Ignored while a connection is open or being opened.
    pub(super) fn connect(&mut self, now: Time) {
        if !self.has_closed {
            return;
        }
        self.reset();
        self.has_closed = false;
        let Some(path) = self.subflows.iter().position(|subflow| subflow.is_present) else {
            self.state = State::Closed;
            return self.report_closed(CloseReason::Lost);
        };
        self.is_opener = true;
        self.state = State::Opening;
        self.stats.connections += 1;
        let subflow = &mut self.subflows[path];
        subflow.begin(false, true);
        subflow.tcp.handle_input(now, Input::Command(Command::Connect));
    }

    /// Resets everything to the beginning of a connection.
    #[cold]
    fn reset(&mut self) {
        self.hand_over_unread();
        self.keys = [Some(self.draw()), None];
        self.announcements.clear();
        self.has_checksums = self.parameters.checksums;
        self.has_been_single = true;
        self.sender = self.sender.renewed(self.last_now);
        let is_paused = std::mem::take(&mut self.receiver).is_paused;
        self.receiver.is_paused = is_paused;
        self.is_fully_established = false;
        self.removed.clear();
        self.answers_at_length = false;
        self.close_at = Time::NEVER;
        self.scheduler = self.parameters.scheduler.build(self.site.scheduler_seed());
        for subflow in &mut self.subflows {
            // The last connection is over, and nothing is reported about it any more.
            subflow.tcp.vanish();
            while !matches!(subflow.tcp.poll_output(self.last_now), Output::Timeout(_)) {}
            subflow.tcp.leave_group();
            subflow.forget();
            (subflow.announce_at, subflow.announcements) = (Time::NEVER, 0);
            (subflow.phase, subflow.is_up) = (Phase::Closed, false);
            subflow.is_dirty = true;
        }
        self.group = Group::new(self.parameters.coupling.build());
        for subflow in &mut self.subflows {
            let queue = self.parameters.send_queue;
            subflow.tcp.become_subflow(self.group.clone(), self.parameters.space, queue);
        }
    }

    /// Begins a connection or a subflow for a SYN, unless it asks for a connection that does not exist.
    #[cold]
    pub(super) fn accept(&mut self, path: usize, options: &Options, segment: &Segment) -> bool {
        match options.handshake {
            Some(Handshake::Join(join)) => {
                let Join::Syn { token, nonce, address, is_backup } = join else { return false };
                if self.state != State::Established || Some(token) != self.token() || self.awaits_answer() {
                    return false;
                }
                // The peer has given up the last subflow on this path, if there was one.
                self.lose(path);
                self.subflows[path].begin(true, false);
                self.subflows[path].nonces = [self.draw() as u32, nonce];
                self.subflows[path].peer_address = address;
                self.subflows[path].is_asked_backup = is_backup;
            }
            handshake => {
                // The peer has closed or given up the last connection, and so does this end.
                let reason = if self.is_through() { CloseReason::Shutdown } else { CloseReason::Aborted };
                self.report_closed(reason);
                self.reset();
                self.is_opener = false;
                self.stats.connections += 1;
                self.subflows[path].begin(false, false);
                if handshake.is_some() {
                    self.has_checksums |= options.has_checksum;
                    self.state = State::Opening;
                    let window = self.offered(u64::from(segment.window));
                    self.sender.open(0, window);
                } else {
                    self.fall_back(path);
                }
            }
        }
        true
    }

    /// Handles the answer to our SYN; gives whether the peer agrees.
    #[cold]
    pub(super) fn take_answer(
        &mut self,
        now: Time,
        path: usize,
        options: &Options,
        segment: &Segment,
    ) -> bool {
        let subflow = &self.subflows[path];
        if subflow.phase != Phase::Opening || !subflow.initiates {
            return true;
        }
        match (options.handshake, subflow.joins) {
            (Some(Handshake::Capable { sender_key, .. }), false) => {
                self.keys[1] = sender_key;
                self.has_checksums |= options.has_checksum;
                let window = self.offered(u64::from(segment.window));
                self.sender.open(0, window);
            }
            (Some(Handshake::Join(Join::Answer { code, nonce, address, is_backup })), true) => {
                let subflow = &mut self.subflows[path];
                subflow.peer_address = address;
                subflow.nonces[1] = nonce;
                subflow.is_asked_backup = is_backup;
                let [own, peers] = subflow.nonces;
                // RFC 8684 section 3.2: an end that does not have the keys is reset.
                return code == short_join_code(self.peers_keys(), [peers, own]);
            }
            // RFC 8684 section 3.7: without the option, this is a connection of TCP.
            (_, false) => {
                self.fall_back(path);
                self.hand_over(now, path);
            }
            // RFC 8684 section 3.2: such a further subflow is reset.
            (_, true) => return false,
        }
        true
    }

    /// Notes what a segment after the SYN shows of the handshake's progress.
    pub(super) fn record_progress(&mut self, now: Time, path: usize, options: &Options) {
        let subflow = &mut self.subflows[path];
        if let Some(Handshake::Capable { sender_key, .. }) = options.handshake {
            // RFC 8684 section 3.1: a key is for the whole connection.
            self.keys[1] = self.keys[1].or(sender_key);
        }
        if !subflow.is_confirmed && subflow.phase == Phase::Open && options.data_ack.is_some() {
            subflow.is_confirmed = true;
            if subflow.damage.is_none() {
                subflow.confirm_at = Time::NEVER;
            }
            if !std::mem::replace(&mut self.is_fully_established, true) {
                self.open_further(now);
            }
            self.report_priority(now, path);
            self.announce_waiting(now);
            self.report_removed(now);
        }
    }

    /// Notes that a subflow has been opened or is over.
    pub(super) fn record_phase(&mut self, now: Time, path: usize) {
        let phase = self.subflows[path].tcp.phase();
        if phase == self.subflows[path].phase {
            return;
        }
        self.subflows[path].phase = phase;
        match phase {
            Phase::Open => self.on_subflow_open(now, path),
            Phase::Closed => self.on_subflow_closed(now, path),
            Phase::Closing | Phase::Opening => {}
        }
    }

    #[cold]
    fn on_subflow_open(&mut self, now: Time, path: usize) {
        self.stats.subflows += 1;
        self.subflows[path].is_up = true;
        self.close_at = Time::NEVER;
        if self.state == State::Opening {
            self.state = State::Established;
            self.has_closed = false;
            self.outputs.push_back(Output::Event(Event::Connected));
            return;
        }
        let subflow = &mut self.subflows[path];
        self.has_been_single &= !subflow.joins;
        if subflow.joins && subflow.initiates {
            subflow.confirm_at = now + subflow.tcp.rto();
        } else if subflow.joins {
            // RFC 8684 section 3.2: the fourth segment, which may announce an address.
            if !self.announce_waiting(now) {
                self.acknowledge_on(now, path);
            }
            self.report_priority(now, path);
        }
        self.report_path(path, PathState::Active);
        self.report_removed(now);
    }

    /// A subflow's TCP connection has ended.
    #[cold]
    fn on_subflow_closed(&mut self, now: Time, path: usize) {
        match self.state {
            State::Established => {
                self.lose(path);
                self.plan_rejoin(now, path);
            }
            State::Opening => {
                let reason = self.subflows[path].ended;
                self.state = State::Closed;
                self.report_closed(reason);
            }
            State::Closed | State::Closing | State::Fallback(_) => self.subflows[path].tcp.leave_group(),
        }
    }

    /// Handles the end of a subflow before the connection's: others take over its data.
    pub(super) fn lose(&mut self, path: usize) {
        self.subflows[path].tcp.leave_group();
        self.subflows[path].forget();
        self.take_from(path);
        if std::mem::take(&mut self.subflows[path].is_up) {
            self.stats.subflows_lost += 1;
            self.report_path(path, PathState::Inactive);
        }
    }

    /// Tells the application about a path's state.
    pub(super) fn report_path(&mut self, path: usize, state: PathState) {
        let path = PathId(path as u8);
        self.outputs.push_back(Output::Event(Event::PathChanged { path, state }));
    }

    /// Adds the MPTCP option to what a subflow sends.
    pub(super) fn add_options(&mut self, path: usize, packet: &mut Packet) {
        let Body::Tcp(segment) = &mut packet.body else { return };
        let mut tcp = std::mem::replace(segment, Segment::blank());
        let (options, mut option_bytes) = if tcp.flags.has(Flags::SYN) {
            self.syn_options(path, &tcp)
        } else if tcp.flags.has(Flags::RST) {
            self.reset_options(path)
        } else if self.subflows[path].is_bare {
            (Options::default(), 0)
        } else {
            self.data_options(path, &mut tcp)
        };
        if !self.parameters.has_options() {
            option_bytes = 0;
        }
        if tcp.option_bytes() + option_bytes > MAX_OPTION_BYTES {
            self.subflows[path].tcp.fit_options(&mut tcp, option_bytes);
        }
        packet.size = self.ip.header_bytes() + tcp.wire_size() + option_bytes;
        packet.body = Body::Mptcp(wire::mptcp::Segment { tcp, options, option_bytes });
    }

    #[cold]
    fn syn_options(&self, path: usize, tcp: &Segment) -> (Options, u32) {
        let subflow = &self.subflows[path];
        let answers = tcp.flags.has(Flags::ACK);
        let (handshake, bytes) = if subflow.joins {
            let [_, peers_key] = self.own_keys();
            let (address, is_backup, [nonce, _]) = (subflow.own_address, subflow.told_backup, subflow.nonces);
            // RFC 8684 section 3.2: SYN has token and nonce; SYN-ACK has a truncated HMAC of 8 bytes and the
            // nonce.
            let (join, bytes) = if answers {
                let code = short_join_code(self.own_keys(), subflow.nonces);
                (Join::Answer { code, nonce, address, is_backup }, 16)
            } else {
                (Join::Syn { token: token_of(peers_key), nonce, address, is_backup }, 12)
            };
            (Handshake::Join(join), bytes)
        } else {
            let sender_key = self.keys[0].filter(|_| answers);
            // RFC 8684 section 3.1.
            (Handshake::Capable { sender_key, receiver_key: None }, if answers { 12 } else { 4 })
        };
        let has_checksum = self.has_checksums && !subflow.joins;
        (Options { handshake: Some(handshake), has_checksum, ..Options::default() }, bytes)
    }

    /// The options of a segment after the SYN.
    fn data_options(&mut self, path: usize, tcp: &mut Segment) -> (Options, u32) {
        tcp.window = self.window_field(path);
        let Payload { offset, length } = tcp.payload;
        let mut options = Options { has_checksum: self.has_checksums, ..Options::default() };
        let space = self.parameters.space;
        // Segments cut before the acknowledgement became longer keep the shorter one when sent again.
        let room = self.site.mtus[path].saturating_sub(self.ip.header_bytes() + tcp.wire_size() + space.data);
        let longer = self.extra_option_bytes().min(room / 4 * 4);
        let mut bytes = match (length, self.answers_at_length) {
            (1.., _) => space.data + longer,
            (0, true) => space.ack,
            (0, false) => self.parameters.short_ack,
        };
        let sender = &mut self.sender;
        let subflow = &mut self.subflows[path];
        if length > 0 {
            let place = subflow.place(offset);
            debug_assert!(place.is_some(), "data without a mapping");
            options.data_position = place;
            let end = place.map(|place| place + u64::from(length));
            if end == Some(sender.written) {
                if sender.has_sent_fin {
                    options.data_fin = end;
                    sender.fin_has_left = true;
                }
            } else {
                // PSH means that the sender has no more for now (RFC 9293 section 3.9.1.2).
                tcp.flags = tcp.flags.without(Flags::PSH);
            }
        } else if sender.has_sent_fin && !sender.is_done() {
            // RFC 8684 section 3.3.3: a `DATA_FIN` without data has a mapping of one byte.
            options.data_fin = Some(sender.written);
            sender.fin_has_left = true;
            bytes = space.data + longer;
        }
        let is_mapped = options.data_position.is_some() || options.data_fin.is_some();
        options.has_short_number = is_mapped && self.parameters.has_short_numbers;
        let opens = subflow.initiates && !subflow.is_confirmed;
        let has_room = if length > 0 { options.data_position == Some(0) } else { options.data_fin.is_none() };
        if opens && !subflow.joins && has_room {
            let [sender_key, receiver_key] = self.keys;
            options.handshake = Some(Handshake::Capable { sender_key, receiver_key });
            options.has_short_number = false;
            // RFC 8684 section 3.1: both keys, and the length if there is data.
            bytes = if length > 0 { 24 } else { 20 };
        } else if opens && subflow.joins {
            let code = join_code(self.keys.map(|key| key.unwrap_or(0)), subflow.nonces);
            options.handshake = Some(Handshake::Join(Join::Third { code }));
            // RFC 8684 section 3.2: with an HMAC of 20 bytes.
            bytes = 24;
        } else {
            options.data_ack = Some(self.receiver.next);
        }
        if length == 0
            && let Some(signal) =
                subflow.signal.take().or_else(|| subflow.damage.and_then(Damage::said_again))
        {
            options.signal = Some(signal);
            bytes += signal.wire_bytes(self.ip);
            if tcp.option_bytes() + bytes > MAX_OPTION_BYTES {
                // Linux, mptcp_pm_add_addr_signal: other options give way to it.
                sender.fin_has_left &= options.data_fin.is_none();
                options = Options { signal: Some(signal), ..Options::default() };
                bytes = signal.wire_bytes(self.ip);
            }
        }
        (options, bytes)
    }
}
