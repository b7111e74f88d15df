//! One end of an association: its state, and the dispatch of inputs to the procedures.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::answers::Answers;
use super::asconf::Reconfiguration;
use super::config::Config;
use super::delayed_sack::DelayedSack;
use super::handshake::Handshake;
use super::heartbeat::HeartbeatScheduler;
use super::interleaving::Interleaved;
use super::load_sharing::LoadSharing;
use super::outstanding::{Outstanding, Sent, SentState};
use super::parameters::Parameters;
use super::path::Path;
use super::probing::Probing;
use super::reassembly::Reassembly;
use super::received_tsns::ReceivedTsns;
use super::send_queue::SendQueue;
use super::shutdown::ShutdownTimers;
use super::stats::{FIRST_INACTIVE_S, FIRST_PF_S, Stats};
use super::stream_reconfiguration::StreamReconfiguration;
use crate::cc::{CongestionControl as _, Controller};
use crate::endpoint::{
    CloseReason, Command, Endpoint, Event, HeadOfLine, Input, Message, Output, PathLimit, PathSample,
    Reliability, Response, Service, Site, Transmission, Transport,
};
use crate::ground::{Ecn, IpVersion, PathId, Payload, Side};
use crate::path::{PathEvent, PathSelector as _, PathStatus, Selection, Selector};
use crate::report::Report;
use crate::rng::{Draw as _, Streams};
use crate::secret::{NumberSource, SecretNumbers};
use crate::spare::{Boxes, Spare};
use crate::time::Time;
use crate::wire::sctp::chunk::{
    Abort, Chunk, Cookie, DATA_HEADER_BYTES, ErrorCause, SACK_HEADER_BYTES, StateCookie,
};
use crate::wire::sctp::{COMMON_HEADER_BYTES, SctpPacket};
use crate::wire::{Body, Packet};

/// Ports of simulated associations. Any two would do.
const PORTS: [u16; 2] = [5000, 5001];
/// Stands in for the first chunk of a packet that is to be filled in. Like DATA, which may stand there too,
/// it owns no memory.
const BLANK: Chunk = Chunk::CookieAck;

thread_local! {
    /// Boxes of packets whose first chunk owns no memory, and is the only one.
    static SPARE_PACKETS: RefCell<Boxes> = const { RefCell::new(Vec::new()) };
}

/// A packet to be filled in.
#[cold]
pub(super) fn blank_packet() -> Box<Packet> {
    let (first, rest) = (BLANK, Vec::new());
    let sctp = SctpPacket { source_port: 0, destination_port: 0, verification_tag: 0, first, rest };
    Box::new(Packet { path: PathId::default(), ecn: Ecn::default(), size: 0, body: Body::Sctp(sctp) })
}

/// The random numbers with which an end of an association begins: its verification tag and its first TSN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) tag: u32,
    pub(super) initial_tsn: u32,
}

impl Numbers {
    /// RFC 9260 section 5.3.1: a tag is never zero.
    pub(super) fn draw(source: &mut NumberSource) -> Self {
        let tag = (source.bits() as u32).max(1);
        Self { tag, initial_tsn: source.bits() as u32 }
    }
}

/// The states of an association (RFC 9260 section 4), and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    CookieEchoed,
    CookieWait,
    Ended,
    Established,
    ShutdownAckSent,
    ShutdownPending,
    ShutdownReceived,
    ShutdownSent,
}

/// One end of an SCTP association. See the [module](super) for sources and deviations.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else of the association")]
pub struct Association {
    pub(super) parameters: Parameters,
    pub(super) ip: IpVersion,
    /// Our port and the peer's.
    pub(super) ports: [u16; 2],
    /// IP header and common header, in bytes.
    pub(super) headers_bytes: u32,
    pub(super) state: State,
    pub(super) local_tag: u32,
    pub(super) local_initial_tsn: u32,
    pub(super) peer_tag: u32,
    /// The number of addresses that this end lists; `None` if these are the addresses of its paths.
    pub(super) listed_addresses: Option<u8>,
    pub(super) handshake: Handshake,
    pub(super) shutdown: ShutdownTimers,

    pub(super) paths: Vec<Path>,
    /// When the first timer of a path expires, if that is known and no timer may have changed since.
    pub(super) next_of_paths: Option<Time>,
    /// The policies' view of the paths.
    pub(super) status: Vec<PathStatus>,
    pub(super) selector: Selector,
    pub(super) selection: Selection,
    /// Only for policies that measure.
    pub(super) probing: Option<Box<Probing>>,
    /// Whether it has a part that few associations have: changing addresses, stream resets, a policy that
    /// measures, bundled FORWARD TSNs, a message that is delivered in parts. Without them, none of these
    /// parts is asked for work.
    pub(super) has_rare_parts: bool,
    pub(super) errors_in_a_row: u32,
    pub(super) heartbeat: HeartbeatScheduler,
    /// Only with changing addresses (RFC 5061).
    pub(super) reconfiguration: Option<Box<Reconfiguration>>,
    /// Only with stream resets (RFC 6525).
    pub(super) stream_reconfiguration: Option<Box<StreamReconfiguration>>,

    /// Only if data is sent on several paths at the same time.
    pub(super) load_sharing: Option<Box<LoadSharing>>,
    pub(super) queue: SendQueue,
    pub(super) outstanding: Outstanding,
    pub(super) advanced_peer_ack_point: u32,
    pub(super) peer_rwnd: u32,
    /// The next Message Identifier of every outbound stream; the Stream Sequence Number is its lower half.
    pub(super) next_mid: Vec<u32>,
    /// With interleaving, the identifiers of unordered messages.
    pub(super) next_unordered_mid: Vec<u32>,
    /// Whether user data travels in I-DATA chunks (RFC 8260).
    pub(super) interleaves: bool,
    /// Whether NR-SACKs take the place of SACKs.
    pub(super) uses_nr_sacks: bool,
    /// Header of a chunk with user data in bytes.
    pub(super) data_header: u32,
    /// Largest payload of one DATA chunk in bytes.
    pub(super) fragment_limit: u32,
    /// The most Gap Ack Blocks and duplicates in a packet with only a SACK.
    pub(super) sack_entries: usize,
    pub(super) peer_takes_forward_tsn: bool,
    /// Whether Nagle's algorithm is not applied, since it is not a write that lets data leave.
    pub(super) is_past_nagle: bool,
    /// The room in the send buffer that the application waits for since a message was refused, in bytes.
    pub(super) awaited_room: Option<u64>,
    /// The message that was refused last.
    pub(super) last_refused: Option<Payload>,

    /// Bytes that the application has been given and has not read yet, if it reports what it reads.
    pub(super) unread: u64,
    /// The receive window that the last SACK advertised, in bytes.
    pub(super) advertised: u32,
    pub(super) received: ReceivedTsns,
    /// Streams that the peer may send on.
    pub(super) inbound_streams: u16,
    pub(super) reassembly: Reassembly,
    /// Reassembly with interleaving; what waits there is counted above.
    pub(super) interleaved: Interleaved,
    pub(super) delayed_sack: DelayedSack,

    pub(super) answers: Answers,
    pub(super) outputs: VecDeque<Output>,
    pub(super) spare: Spare,
    pub(super) stats: Stats,
    pub(super) last_now: Time,
}

impl Association {
    /// One end with a path per MTU (bytes, IP header included). Everything random in it comes from
    /// streams whose names start with `name`, such as `flow/call/sctp/a`.
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
        if let Err(error) = parameters.check_paths(mtus) {
            panic!("{error}");
        }
        let numbers = NumberSource::Stream(streams.stream(&format!("{name}/handshake")));
        let mut parameters = parameters.clone();
        parameters.rto.clock = parameters.rto.clock.started(streams, name);
        let heartbeat = HeartbeatScheduler::new(streams.stream(&format!("{name}/heartbeat")));
        let ports = [PORTS[side.index()], PORTS[side.peer().index()]];
        Self::closed(parameters, ports, mtus, ip, numbers, heartbeat)
    }

    /// A closed end with these ports, which draws its numbers from these sources.
    pub(super) fn closed(
        parameters: Parameters,
        ports: [u16; 2],
        mtus: &[u32],
        ip: IpVersion,
        mut numbers: NumberSource,
        heartbeat: HeartbeatScheduler,
    ) -> Self {
        let primary = PathId(parameters.primary_path);
        let headers = ip.header_bytes() + COMMON_HEADER_BYTES;
        let mut paths: Vec<Path> =
            mtus.iter().map(|&mtu| Path::new(&parameters, mtu, ip, numbers.bits() as u32)).collect();
        let load_sharing = parameters
            .load_sharing
            .as_ref()
            .map(|config| Box::new(LoadSharing::new(config, &parameters, ip, &mut paths)));
        let Numbers { tag: local_tag, initial_tsn: local_initial_tsn } = Numbers::draw(&mut numbers);
        // Above all nonces, which are the seeds of the paths' controls.
        let policy_seed = u64::from(paths[0].heartbeat.nonce) | 1 << 32;
        let mut association = Self {
            ip,
            ports,
            headers_bytes: headers,
            state: State::Closed,
            local_tag,
            local_initial_tsn,
            peer_tag: 0,
            listed_addresses: None,
            handshake: Handshake::new(primary, numbers),
            shutdown: ShutdownTimers::default(),
            paths,
            next_of_paths: None,
            status: vec![PathStatus::default(); mtus.len()],
            selector: parameters.policy.build(parameters.failover, policy_seed),
            selection: Selection::new(primary),
            probing: None,
            has_rare_parts: false,
            errors_in_a_row: 0,
            heartbeat,
            reconfiguration: None,
            stream_reconfiguration: None,
            load_sharing,
            queue: SendQueue::new(parameters.stream_scheduler.build()),
            outstanding: Outstanding::new(local_initial_tsn, &parameters, mtus.len()),
            advanced_peer_ack_point: local_initial_tsn.wrapping_sub(1),
            peer_rwnd: 0,
            next_mid: vec![0; usize::from(parameters.streams)],
            next_unordered_mid: Vec::new(),
            interleaves: false,
            uses_nr_sacks: false,
            data_header: DATA_HEADER_BYTES,
            fragment_limit: 0,
            sack_entries: 0,
            peer_takes_forward_tsn: false,
            is_past_nagle: false,
            awaited_room: None,
            last_refused: None,
            unread: 0,
            advertised: 0,
            received: ReceivedTsns::new(0),
            inbound_streams: parameters.max_inbound_streams,
            reassembly: Reassembly::default(),
            interleaved: Interleaved::default(),
            delayed_sack: DelayedSack::new(parameters.procedures.first_sack_at_once),
            answers: Answers::default(),
            outputs: VecDeque::new(),
            spare: Spare::new(&SPARE_PACKETS),
            stats: Stats::default(),
            last_now: Time::ZERO,
            parameters,
        };
        association.fit_chunks();
        association.prepare_probing();
        association
    }

    /// Makes this closed end the one that a [`Listener`](super::Listener) promised with this cookie; it must
    /// then be given the packet that brought the cookie back. `ports` are ours and the peer's.
    pub(super) fn adopt_promise(&mut self, cookie: &StateCookie, ports: [u16; 2]) {
        self.ports = ports;
        self.begin_with(Numbers { tag: cookie.local_tag, initial_tsn: cookie.local_initial_tsn });
    }

    fn begin_with(&mut self, numbers: Numbers) {
        let Numbers { tag, initial_tsn } = numbers;
        self.local_tag = tag;
        self.local_initial_tsn = initial_tsn;
        self.outstanding.begin(initial_tsn);
        self.advanced_peer_ack_point = initial_tsn.wrapping_sub(1);
    }

    /// Sets the port of this end and that of its peer; for an end that is closed.
    pub const fn set_ports(&mut self, ports: [u16; 2]) {
        self.ports = ports;
    }

    /// The tag that packets to this end carry.
    pub const fn verification_tag(&self) -> u32 {
        self.local_tag
    }

    /// The primary path.
    pub const fn primary_path(&self) -> PathId {
        self.selection.primary
    }

    /// Takes off a packet what this association does not read: a chunk of a type that it does not know, and
    /// what is behind it (RFC 9260 section 3.2). That is an NR-SACK that was not agreed on, whose type begins
    /// with 00. It is for packets of strangers: those of a simulation keep to what was agreed on, and nobody
    /// looks.
    pub fn cut_unread(&self, packet: &mut SctpPacket) {
        let is_unknown = |chunk: &Chunk| matches!(chunk, Chunk::NrSack(..)) && !self.uses_nr_sacks;
        if is_unknown(&packet.first) {
            packet.rest.clear();
        } else if let Some(place) = packet.rest.iter().position(is_unknown) {
            packet.rest.truncate(place);
        }
    }

    /// Whether to believe what this packet says about its sender: it is an expected INIT ACK, or a cookie
    /// that opens this association.
    pub fn begins_with(&self, packet: &Packet) -> bool {
        let Body::Sctp(sctp) = &packet.body else { return false };
        match &sctp.first {
            Chunk::InitAck(_) => self.state == State::CookieWait,
            Chunk::CookieEcho(cookie) => match &**cookie {
                Cookie::Own(cookie) => {
                    let is_open =
                        !matches!(self.state, State::Closed | State::CookieEchoed | State::CookieWait);
                    cookie.local_tag == self.local_tag
                        && (!is_open || cookie.peer.initiate_tag != self.peer_tag)
                }
                Cookie::Foreign(_) => false,
            },
            _ => false,
        }
    }

    /// Bytes that this end keeps for its application, at most.
    pub const fn receive_buffer(&self) -> u32 {
        self.parameters.receive_buffer
    }

    /// Streams that this end sends on.
    pub fn outbound_streams(&self) -> u16 {
        self.next_mid.len() as u16
    }

    /// Streams that the peer sends on.
    pub const fn inbound_streams(&self) -> u16 {
        self.inbound_streams
    }

    /// Whether the association ends or has ended, so that it takes no more messages.
    pub const fn is_closing(&self) -> bool {
        !self.accepts_messages()
    }

    /// Whether an INIT of this end has not been answered: only then is an INIT ACK expected (RFC 9260 section
    /// 5.2.3).
    pub fn awaits_init_ack(&self) -> bool {
        self.state == State::CookieWait
    }

    /// Whether the association is being opened by this end.
    pub fn is_opening(&self) -> bool {
        matches!(self.state, State::CookieEchoed | State::CookieWait)
    }

    /// Whether this end may have sent a packet with this verification tag which an ICMP message quotes, and
    /// with this Initiate Tag if it begins with INIT (RFC 9260 section 10, ICMP6).
    pub fn may_have_sent(&self, verification_tag: u32, initiate_tag: Option<u32>) -> bool {
        match initiate_tag {
            Some(initiate_tag) => {
                verification_tag == 0 && self.awaits_init_ack() && initiate_tag == self.local_tag
            }
            None => verification_tag != 0 && verification_tag == self.peer_tag,
        }
    }

    /// Takes an ICMP message of such a packet, by which the peer's host has no SCTP, as an ABORT (RFC 9260
    /// section 10, ICMP8).
    pub fn end_unreachable(&mut self, now: Time) {
        self.end(now, CloseReason::Aborted);
    }

    const fn accepts_messages(&self) -> bool {
        matches!(self.state, State::Closed | State::CookieEchoed | State::CookieWait | State::Established)
    }

    /// Whether a message of `length` bytes can be sent on this stream, now or later: it is not empty, it is
    /// no larger than the send buffer, and the stream exists.
    pub fn can_take(&self, stream: u16, length: u64) -> bool {
        (1..=self.parameters.send_buffer).contains(&length) && usize::from(stream) < self.next_mid.len()
    }

    /// Makes this end list `count` addresses in its INIT or INIT ACK, those included that have no path yet,
    /// and keep the addresses that a peer's INIT lists in the State Cookie. Without that, its addresses are
    /// those of its paths, and it is taken for granted that the peer's are.
    pub const fn list_addresses(&mut self, count: u8) {
        self.listed_addresses = Some(count);
    }

    /// Finds the longest chunks that fit into a packet on every path.
    pub(super) fn fit_chunks(&mut self) {
        let smallest_mtu = self.paths.iter().map(|path| path.mtu).min().unwrap_or_default();
        let room = smallest_mtu - self.headers_bytes;
        self.fragment_limit = (room - self.data_header) & !3;
        self.sack_entries = ((room - SACK_HEADER_BYTES) / 4) as usize;
    }

    /// The counters so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    #[inline(never)]
    fn on_command(&mut self, now: Time, command: Command) {
        let has = |path: PathId| path.index() < self.paths.len();
        let changes = |path| self.reconfiguration.is_some() && has(path);
        if !matches!(command, Command::Send(_)) {
            self.next_of_paths = None;
        }
        match command {
            Command::Abort => self.abort(now, ErrorCause::UserInitiatedAbort),
            Command::AddAddress(path) if changes(path) => self.add_address(now, path),
            Command::Connect => self.connect(now),
            Command::DeleteAddress(path) if changes(path) => self.delete_address(now, path),
            Command::Send(message) => self.enqueue(now, message),
            Command::SetPeerPrimary(path) if changes(path) => self.set_peer_primary(now, path),
            Command::SetPrimary(path) if has(path) => {
                self.tell_selector(now, PathEvent::PrimaryRequested(path));
            }
            Command::Shutdown => self.begin_shutdown(now),
            // PauseReading and ResumeReading are among them: what arrives is delivered at once.
            _ => self.outputs.push_back(Output::Event(Event::Unsupported(command.name()))),
        }
        self.finish_input(now);
    }

    #[inline(never)]
    fn enqueue(&mut self, now: Time, message: Message) {
        let length = message.payload.length;
        if let Some(reset) = &self.stream_reconfiguration
            && reset.is_paused(message.stream)
        {
            self.refuse(message, 1);
            return;
        }
        if !self.accepts_messages() || !self.can_take(message.stream, u64::from(length)) {
            self.outputs.push_back(Output::Event(Event::Refused(message.payload)));
            return;
        }
        if self.buffered() + u64::from(length) > self.parameters.send_buffer {
            let may_make_room = matches!(message.reliability, Reliability::Priority(_));
            if let Reliability::Priority(priority) = message.reliability {
                self.make_room(u64::from(length), priority);
            }
            // Linux takes the message that fills the buffer (`sctp_wspace` in `sctp_sendmsg_to_asoc`).
            let needed = if self.outstanding.memory.is_charged() { 1 } else { u64::from(length) };
            if self.buffered() + needed > self.parameters.send_buffer {
                self.refuse(message, if may_make_room { 1 } else { needed });
                self.note_blocking(now);
                return;
            }
        }
        self.queue.push(now, message);
        self.outstanding.memory.charge_message(length, self.fragment_limit);
        self.is_past_nagle = false;
        self.send(now);
    }

    /// Refuses a message that needs this much room in the send buffer, in bytes. An application that tries
    /// the same message again waits for that room. Of another one it is not known whether it waits, so that
    /// any room ends what counts as waiting; with load sharing, times are accounted for by that.
    fn refuse(&mut self, message: Message, room: u64) {
        let is_tried_again = self.last_refused.replace(message.payload) == Some(message.payload);
        let room = if is_tried_again && self.load_sharing.is_none() { room } else { 1 };
        self.awaited_room = Some(self.awaited_room.map_or(room, |awaited| awaited.min(room)));
        self.outputs.push_back(Output::Event(Event::Refused(message.payload)));
    }

    /// Bytes in the send buffer.
    pub(super) fn buffered(&self) -> u64 {
        self.queue.bytes + self.outstanding.held_bytes + self.outstanding.memory.overhead
    }

    /// The send buffer's memory for waiting messages, besides their bytes.
    #[cold]
    pub(super) fn memory_of_queue(&self) -> u64 {
        let (memory, limit) = (&self.outstanding.memory, self.fragment_limit);
        self.queue.iter().map(|waiting| memory.of_message(waiting.remaining(), limit)).sum()
    }

    /// Most inputs come this way, so that it has the stack frame of [`Endpoint::handle_input`].
    #[inline]
    fn on_packet(&mut self, now: Time, mut packet: Box<Packet>) {
        let path = packet.path;
        let Body::Sctp(sctp) = &mut packet.body else { return };
        if path.index() >= self.paths.len() {
            return;
        }
        self.stats.packets_received += 1;
        self.on_chunks(now, path, packet.size, sctp);
        // The box is used again for a packet of our own. DATA owns no memory either, and half of all packets
        // begin with it.
        if !matches!(sctp.first, Chunk::Data(_)) {
            sctp.first = BLANK;
        }
        sctp.rest.clear();
        self.spare.keep(packet);
        if self.has_rare_parts && self.is_past_nagle {
            self.send(now);
        }
        self.finish_input(now);
    }

    #[inline(never)]
    fn on_chunks(&mut self, now: Time, path: PathId, size: u32, sctp: &SctpPacket) {
        let is_known =
            self.reconfiguration.as_ref().is_none_or(|addresses| addresses.is_known_to_us(path, sctp));
        if is_known && self.is_for_us(sctp) {
            self.hear(now, path, size);
            self.on_chunk(now, path, sctp.verification_tag, &sctp.first);
            for chunk in &sctp.rest {
                self.on_chunk(now, path, sctp.verification_tag, chunk);
            }
            if self.delayed_sack.packet_has_data {
                self.finish_packet(now);
            }
            if self.answers.is_any() {
                self.send_answers(path);
            }
        } else {
            self.out_of_the_blue(path, sctp);
        }
    }

    /// Notes that a packet of this size has arrived for this association.
    #[inline]
    pub(super) fn hear(&mut self, now: Time, path: PathId, size: u32) {
        self.answers.begin(size);
        self.status[path.index()].last_heard = now;
    }

    /// Whether the verification tag is right (RFC 9260 section 8.5).
    fn is_for_us(&self, packet: &SctpPacket) -> bool {
        let tag = packet.verification_tag;
        match &packet.first {
            // Section 8.5.1 A: INIT carries tag 0.
            Chunk::Init(..) => tag == 0 && self.state != State::Ended,
            Chunk::Illegal(illegal) if illegal.is_init() => tag == 0 && self.state != State::Ended,
            Chunk::Abort(Abort { tag_reflected, .. }) | Chunk::ShutdownComplete { tag_reflected } => {
                // Section 8.5.1 B and C. In COOKIE-WAIT the peer's tag is not known: it is no tag that a
                // stranger could reflect.
                let knows_peer = !matches!(self.state, State::CookieWait);
                let expected = if *tag_reflected { self.peer_tag } else { self.local_tag };
                let is_expected = tag == expected && (knows_peer || !tag_reflected);
                is_expected && !matches!(self.state, State::Closed | State::Ended)
            }
            Chunk::CookieEcho(cookie) => {
                (tag == self.local_tag || self.is_new_beginning(tag, cookie)) && self.state != State::Ended
            }
            _ => tag == self.local_tag && !matches!(self.state, State::Closed | State::Ended),
        }
    }

    fn on_chunk(&mut self, now: Time, path: PathId, tag: u32, chunk: &Chunk) {
        if !matches!(chunk, Chunk::Data(_)) {
            self.next_of_paths = None;
        }
        match chunk {
            Chunk::Data(data) => self.on_data(path, data),
            Chunk::Sack(packets, sack) => self.on_sack(now, path, *packets, sack),
            Chunk::Heartbeat(info) => self.on_heartbeat(now, path, *info),
            Chunk::HeartbeatAck(info) => self.on_heartbeat_ack(now, *info),
            Chunk::ForwardTsn(forward) => self.on_forward_tsn(now, path, forward),
            Chunk::IData(data) => self.on_i_data(path, data),
            // RFC 8260 section 2.3.1: without interleaving it is a chunk that was not agreed on.
            Chunk::IForwardTsn(forward) if !self.interleaves => {
                self.answer(path, Chunk::Opaque(Box::new(forward.report())));
            }
            Chunk::IForwardTsn(forward) => self.on_i_forward_tsn(now, path, forward),
            Chunk::NrSack(packets, nr_sack) => self.on_nr_sack(now, path, *packets, nr_sack),
            Chunk::Illegal(illegal) => self.on_illegal(now, path, tag, illegal),
            Chunk::Init(init, unrecognized) => self.on_init(now, path, init, unrecognized),
            Chunk::InitAck(ack) => self.on_init_ack(now, path, ack),
            Chunk::CookieEcho(cookie) => self.on_cookie_echo(now, path, tag, cookie),
            Chunk::CookieAck => self.on_cookie_ack(now, path),
            Chunk::Error(cause) => self.on_error(now, path, cause),
            Chunk::Abort(_) => self.end(now, CloseReason::Aborted),
            Chunk::Asconf(asconf) => self.on_asconf(now, path, asconf),
            Chunk::AsconfAck(ack) => self.on_asconf_ack(now, ack),
            // The chunks behind it are genuine: that was checked when the packet was made of bytes.
            Chunk::Auth(_) => {}
            Chunk::Reconfig(reconfig) => self.on_reconfig(now, path, reconfig),
            Chunk::Shutdown { cumulative_tsn } => self.on_shutdown(now, path, *cumulative_tsn),
            Chunk::ShutdownAck => self.on_shutdown_ack(now, path),
            Chunk::ShutdownComplete { .. } => self.on_shutdown_complete(now),
            Chunk::Opaque(opaque) => self.on_opaque(path, opaque),
        }
    }

    #[cold]
    pub(super) fn abort(&mut self, now: Time, cause: ErrorCause) {
        if !matches!(self.state, State::Closed | State::CookieWait | State::Ended) {
            let abort = Abort { tag_reflected: false, cause: Some(cause) };
            self.transmit_one(self.selection.current, Chunk::Abort(abort));
        }
        self.end(now, CloseReason::Aborted);
    }

    /// Ends the association and stops all timers.
    #[cold]
    pub(super) fn end(&mut self, now: Time, reason: CloseReason) {
        if self.state == State::Ended {
            return;
        }
        self.state = State::Ended;
        self.handshake.timer = Time::NEVER;
        self.shutdown = ShutdownTimers::default();
        self.stop_heartbeats();
        self.stop_t4();
        self.stop_reconfiguration_timer();
        self.delayed_sack.sent();
        self.probing = None;
        self.next_of_paths = None;
        for path in &mut self.paths {
            path.t3 = Time::NEVER;
        }
        self.stats.note_dormant(now, false);
        self.outputs.push_back(Output::Event(Event::Closed(reason)));
    }

    /// Lets the rare parts do what follows from the input that has just been handled.
    #[inline]
    pub(super) fn finish_input(&mut self, now: Time) {
        if self.has_rare_parts {
            self.finish_rare_parts(now);
        }
    }

    #[cold]
    fn finish_rare_parts(&mut self, now: Time) {
        if self.stream_reconfiguration.is_some() {
            self.next_of_paths = None;
            self.continue_stream_reconfiguration(now);
        }
        self.is_past_nagle = self.parameters.procedures.holds_back_writes;
        if self.parameters.procedures.bundles_forward_tsn {
            self.bundle_forward_tsn();
        }
    }

    /// A packet with one chunk, in memory that was used before if possible.
    #[inline(always)]
    pub(super) fn packet_with(&mut self, tag: u32, first: Chunk) -> Box<Packet> {
        let mut packet = self.spare.take().unwrap_or_else(blank_packet);
        if let Body::Sctp(sctp) = &mut packet.body {
            [sctp.source_port, sctp.destination_port] = self.ports;
            sctp.verification_tag = tag;
            // The chunk that is there owns no memory. Without its destructor the compiler writes the new one
            // directly into its place.
            std::mem::forget(std::mem::replace(&mut sctp.first, first));
        }
        packet
    }

    /// Adds a chunk to a packet that is being filled.
    #[inline(always)]
    pub(super) fn add_chunk(&mut self, packet: &mut Option<Box<Packet>>, chunk: Chunk) {
        match packet.as_deref_mut() {
            None => *packet = Some(self.packet_with(self.peer_tag, chunk)),
            Some(Packet { body: Body::Sctp(sctp), .. }) => sctp.rest.push(chunk),
            Some(_) => {}
        }
    }

    #[inline(always)]
    pub(super) fn transmit_one(&mut self, path: PathId, chunk: Chunk) {
        self.transmit_with_tag(path, self.peer_tag, chunk);
    }

    #[inline(always)]
    pub(super) fn transmit_with_tag(&mut self, path: PathId, tag: u32, chunk: Chunk) {
        let size = self.headers_bytes + chunk.wire_size();
        let packet = self.packet_with(tag, chunk);
        self.transmit(path, packet, size);
    }

    /// Sends a packet; `size` in bytes, all headers included.
    #[inline(always)]
    pub(super) fn transmit(&mut self, path: PathId, mut packet: Box<Packet>, size: u32) {
        (packet.path, packet.ecn, packet.size) = (path, Ecn::NotEct, size);
        debug_assert!(
            matches!(&packet.body, Body::Sctp(sctp) if size == self.ip.header_bytes() + sctp.wire_size())
        );
        debug_assert!(size <= self.paths[path.index()].mtu, "{size} bytes do not fit into the path MTU");
        if self.reconfiguration.is_some() && !self.may_leave(&packet) {
            return;
        }
        self.stats.packets_sent += 1;
        self.outputs.push_back(Output::Transmit(packet));
    }

    /// Tells the policy what happened, and reports its decision.
    pub(super) fn tell_selector(&mut self, now: Time, event: PathEvent) {
        if self.probing.is_some() {
            self.tell_measuring_selector(now, event);
        } else {
            self.select(now, event);
        }
    }

    #[inline]
    pub(super) fn select(&mut self, now: Time, event: PathEvent) {
        let from = self.selection.primary;
        if self.reconfiguration.is_some() {
            self.select_among_addresses(now, event);
        } else {
            self.selector.select(now, event, &self.status, &mut self.selection);
        }
        let Selection { primary: to, reason, .. } = self.selection;
        if to != from {
            self.stats.note_primary_change(now, from, to);
            self.outputs.push_back(Output::Event(Event::PrimaryChanged { from, to, reason }));
        }
    }

    /// The policy does not know about changing addresses: it continues from its own choice.
    #[cold]
    fn select_among_addresses(&mut self, now: Time, event: PathEvent) {
        if let Some(addresses) = &self.reconfiguration {
            self.selection = addresses.chosen;
        }
        self.selector.select(now, event, &self.status, &mut self.selection);
        self.keep_to_present_addresses();
    }
}

impl Transport for Config {
    type Endpoint = Association;

    fn build(&self, site: &Site<'_>) -> Result<Association, String> {
        let &Site { side, mtus, ip, streams, .. } = site;
        let parameters = self.resolve()?;
        parameters.check_paths(mtus)?;
        Ok(Association::new(&parameters, side, mtus, ip, streams, &site.name("sctp")))
    }
}

impl Endpoint for Association {
    fn protocol(&self) -> &'static str {
        "sctp"
    }

    /// Which messages this end can take: those that fit into the send buffer.
    fn service(&self) -> Service {
        let Parameters { send_buffer, receive_buffer, .. } = self.parameters;
        Service::Messages {
            longest: send_buffer,
            whole: u64::from(receive_buffer),
            is_limited: send_buffer < u64::MAX,
        }
    }

    fn set_congestion_control(&mut self, path: PathId, control: Controller) -> bool {
        self.paths[path.index()].cc = control;
        if let Some(sharing) = &mut self.load_sharing {
            sharing.note_foreign_control();
        }
        true
    }

    fn set_path_selector(&mut self, selector: Selector) -> bool {
        self.selector = selector;
        self.prepare_probing();
        true
    }

    fn enable_reconfiguration(&mut self, absent: &[PathId]) -> Result<(), String> {
        self.let_addresses_change(absent)
    }

    fn add_path(&mut self, now: Time, mtu: u32) -> Result<PathId, String> {
        self.append_path(now, mtu, self.reconfiguration.is_none())
    }

    /// Whether its verification tag and ports are the association's (section 8.5; an ASCONF from a new
    /// address is found by its tag).
    fn owns(&self, packet: &Packet) -> bool {
        let Body::Sctp(sctp) = &packet.body else { return false };
        [sctp.destination_port, sctp.source_port] == self.ports && self.is_for_us(sctp)
    }

    fn draw_from(&mut self, numbers: SecretNumbers) {
        if self.state != State::Closed {
            return;
        }
        let mut source = NumberSource::Secret(numbers);
        self.begin_with(Numbers::draw(&mut source));
        for path in &mut self.paths {
            path.heartbeat.nonce = source.bits() as u32;
        }
        self.handshake.numbers = source;
    }

    fn payloads_to_send(&self, each: &mut dyn FnMut(Payload)) {
        for waiting in self.queue.iter() {
            let Payload { offset, .. } = waiting.message.payload;
            each(Payload { offset: offset + u64::from(waiting.sent), length: waiting.remaining() });
        }
        let kept = |chunk: &&Sent| !matches!(chunk.state, SentState::Abandoned | SentState::Final);
        for chunk in self.outstanding.chunks.iter().filter(kept) {
            let Payload { offset, .. } = chunk.message.payload;
            each(Payload { offset: offset + u64::from(chunk.start), length: chunk.length });
        }
    }

    fn payloads_that_wait(&self, each: &mut dyn FnMut(Payload)) {
        let held = self.stream_reconfiguration.iter().flat_map(|reset| reset.waiting());
        self.reassembly.waiting().chain(self.interleaved.waiting()).chain(held).for_each(each);
    }

    #[inline]
    fn may_respond(&self, packet: &Packet) -> bool {
        self.may_be_prompt(packet)
    }

    #[inline]
    fn respond(&mut self, now: Time, packet: Box<Packet>) -> Result<Response, Box<Packet>> {
        self.answer_promptly(now, packet)
    }

    #[inline(never)]
    fn handle_input(&mut self, now: Time, input: Input) {
        debug_assert!(now >= self.last_now, "time runs backwards");
        self.last_now = now;
        match input {
            Input::Command(command) => self.on_command(now, command),
            Input::Packet(packet) => self.on_packet(now, packet),
            Input::Timeout => self.on_timers(now),
        }
    }

    #[inline]
    fn poll_output(&mut self, _now: Time) -> Output {
        match self.outputs.pop_front() {
            Some(output) => output,
            None => Output::Timeout(self.next_timeout()),
        }
    }

    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        for (index, (path, status)) in self.paths.iter().zip(&self.status).enumerate() {
            let control = path.cc.state();
            let id = PathId(index as u8);
            samples.push(PathSample {
                path: id,
                cwnd: control.cwnd,
                ssthresh: control.ssthresh,
                outstanding: self.outstanding.on(id),
                srtt: path.rto.srtt,
                rto: path.rto.rto,
                delivery_rate: None,
                error_count: status.error_count,
                state: status.state,
                is_primary: id == self.selection.primary,
                repairs: path.repairs,
            });
        }
    }

    fn sample_limits(&self, _now: Time, limits: &mut Vec<PathLimit>) {
        self.limits_of_paths(limits);
    }

    fn head_of_line(&self) -> Option<HeadOfLine> {
        self.gap()
    }

    fn transmission(&self, missing: u64) -> Option<Transmission> {
        self.sent(missing)
    }

    fn report(&self, report: &mut Report<'_>) {
        self.stats.report(self.last_now, report);
        for (index, path) in self.paths.iter().enumerate() {
            let seconds = |time: Option<Time>| time.map_or(f64::NAN, Time::as_secs_f64);
            let mut section = report.section(&format!("path{index}"));
            section.scalar(FIRST_INACTIVE_S, seconds(path.first_inactive));
            section.scalar(FIRST_PF_S, seconds(path.first_potentially_failed));
            if let Some(sharing) = &self.load_sharing {
                sharing.report_path(index, &mut section);
            }
        }
        if let Some(sharing) = &self.load_sharing {
            sharing.report(self.last_now, report);
        }
    }
}
