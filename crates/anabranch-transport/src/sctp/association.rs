//! One end of an association: its state, what owns it, and its commands.

use super::load_sharing::LoadSharing;
use super::local::{Local, Numbers};
use super::outbox::Outbox;
use super::parameters::Parameters;
use super::parts::Parts;
use super::path::HeartbeatScheduler;
use super::routing::Routing;
use super::sender::Sender;
use super::state::{Intent, State};
use super::stats::Stats;
use crate::endpoint::{CloseReason, Command, Event};
use crate::flow::{IpVersion, PathId, Side};
use crate::path::PathEvent;
use crate::rng::Streams;
use crate::secret::NumberSource;
use crate::time::Time;
use crate::wire::sctp::chunk::{Abort, Chunk, ErrorCause, StateCookie};

/// Ports of simulated associations. Any two would do.
const PORTS: [u16; 2] = [5000, 5001];

/// One end of an SCTP association. See the [module](super) for sources and deviations.
#[derive(Debug)]
pub struct Association {
    pub(super) parameters: Parameters,
    pub(super) local: Local,
    pub(super) state: State,
    pub(super) routing: Routing,
    pub(super) sender: Sender,
    pub(super) parts: Parts,
    /// Bytes that the application has been given and has not read yet, if it reports what it reads.
    pub(super) unread: u64,
    pub(super) outbox: Outbox,
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
        let mut routing = Routing::new(&parameters, mtus, ip, &mut numbers, heartbeat);
        let sharing = parameters
            .load_sharing
            .as_ref()
            .map(|config| Box::new(LoadSharing::new(config, &parameters, ip, &mut routing.paths)));
        let local = Local::new(ports, ip, numbers);
        let mut association = Self {
            state: State::Closed(Intent::default()),
            routing,
            sender: Sender::new(local.numbers.initial_tsn, &parameters, mtus.len()),
            local,
            parts: Parts { sharing, ..Parts::default() },
            unread: 0,
            outbox: Outbox::default(),
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
        self.local.ports = ports;
        self.begin_with(Numbers { tag: cookie.local_tag, initial_tsn: cookie.local_initial_tsn });
    }

    pub(super) fn begin_with(&mut self, numbers: Numbers) {
        self.local.numbers = numbers;
        self.sender.begin(numbers.initial_tsn);
    }

    /// Sets the port of this end and that of its peer; for an end that is closed.
    pub const fn set_ports(&mut self, ports: [u16; 2]) {
        self.local.ports = ports;
    }

    /// The tag that packets to this end carry.
    pub const fn verification_tag(&self) -> u32 {
        self.local.numbers.tag
    }

    /// The primary path.
    pub const fn primary_path(&self) -> PathId {
        self.routing.selection.primary
    }

    /// Bytes that this end keeps for its application, at most.
    pub const fn receive_buffer(&self) -> u32 {
        self.parameters.receive_buffer
    }

    /// Streams that this end sends on.
    pub fn outbound_streams(&self) -> u16 {
        self.sender.next_mid.len() as u16
    }

    /// Streams that the peer sends on.
    pub fn inbound_streams(&self) -> u16 {
        let own = self.parameters.max_inbound_streams;
        self.state.receiver().map_or(own, |receiver| receiver.inbound_streams)
    }

    /// Whether the association ends or has ended, so that it takes no more messages.
    pub const fn is_closing(&self) -> bool {
        !self.state.takes_messages()
    }

    /// Whether an INIT of this end has not been answered: only then is an INIT ACK expected (RFC 9260 section
    /// 5.2.3).
    pub fn awaits_init_ack(&self) -> bool {
        matches!(self.state, State::CookieWait(_))
    }

    /// Whether the association is being opened by this end.
    pub fn is_opening(&self) -> bool {
        self.state.is_opening()
    }

    /// Makes this end list `count` addresses in its INIT or INIT ACK, those included that have no path yet,
    /// and keep the addresses that a peer's INIT lists in the State Cookie. Without that, its addresses are
    /// those of its paths, and it is taken for granted that the peer's are.
    pub const fn list_addresses(&mut self, count: u8) {
        self.local.listed_addresses = Some(count);
    }

    /// The counters so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    #[inline(never)]
    pub(super) fn on_command(&mut self, now: Time, command: Command) {
        let has = |path: PathId| path.index() < self.routing.paths.len();
        let changes = |path| self.parts.changes_addresses() && has(path);
        if !matches!(command, Command::Send(_)) {
            self.routing.next_of_paths = None;
        }
        match command {
            Command::Abort => self.abort(now, ErrorCause::UserInitiatedAbort),
            Command::AddAddress(path) if changes(path) => self.add_address(now, path),
            Command::Connect => self.connect(now),
            Command::DeleteAddress(path) if changes(path) => self.delete_address(now, path),
            Command::Send(message) => self.enqueue(now, message),
            Command::SetPeerPrimary(path) if changes(path) => self.set_peer_primary(now, path),
            Command::SetPrimary(path) if has(path) => {
                self.on_path_event(now, PathEvent::PrimaryRequested(path));
            }
            Command::Shutdown => self.begin_shutdown(now),
            // PauseReading and ResumeReading are among them: what arrives is delivered at once.
            _ => self.outbox.emit(Event::Unsupported(command.name())),
        }
        self.finish_input(now);
    }

    #[cold]
    pub(super) fn abort(&mut self, now: Time, cause: ErrorCause) {
        if self.state.is_alive() && !self.awaits_init_ack() {
            let abort = Abort { tag_reflected: false, cause: Some(cause) };
            self.transmit_one(self.routing.selection.current, Chunk::Abort(abort));
        }
        self.end(now, CloseReason::Aborted);
    }

    /// Ends the association and stops all timers.
    #[cold]
    pub(super) fn end(&mut self, now: Time, reason: CloseReason) {
        if self.state.is_ended() {
            return;
        }
        self.state.end();
        self.routing.stop_heartbeats();
        self.parts.end();
        self.routing.next_of_paths = None;
        for path in &mut self.routing.paths {
            path.t3 = Time::NEVER;
        }
        self.stats.record_dormant(now, false);
        self.outbox.emit(Event::Closed(reason));
    }
}
