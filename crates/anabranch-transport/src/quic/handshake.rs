//! The handshake: messages of stated sizes in CRYPTO frames, keys that come and go with them, and the
//! transport parameters (RFC 9000 section 7, RFC 9001 section 4).

use super::config::Handshake as Sizes;
use super::connection::{Connection, State};
use super::errors::{Violation, code, violation};
use super::ranges::Ranges;
use super::send_stream::SendStream;
use super::space::SpaceId;
use crate::endpoint::{Event, Output};
use crate::flow::Side;
use crate::time::{Duration, Time};
use crate::wire::quic::{ConnectionId, EarlyData, Level, Parameters, varint};

/// How far beyond what has been read CRYPTO frames may reach (RFC 9000 section 7.5: at least 4096 bytes).
const CRYPTO_BUFFER: u64 = 1 << 18;
/// Packets that wait for their keys (RFC 9001 section 5.7).
pub(super) const MOST_WAITING: usize = 10;
/// The exponent of acknowledgement delays (RFC 9000 section 18.2).
pub(super) const ACK_DELAY_EXPONENT: u64 = 3;

/// The CRYPTO stream of a level, in both directions.
#[derive(Debug)]
pub(super) struct CryptoStream {
    pub(super) send: SendStream,
    /// Everything before this has been read, and these runs have arrived.
    pub(super) read: u64,
    waiting: Ranges,
}

/// The state of the handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Of Initial and of Handshake packets.
    pub(super) crypto: [CryptoStream; 2],
    /// Whether this end has the keys of Handshake packets, and of 1-RTT packets.
    pub(super) has_handshake_keys: bool,
    pub(super) early: Early,
    pub(super) is_complete: bool,
    pub(super) is_confirmed: bool,
    /// Whether the keys of Initial and of Handshake packets are gone.
    pub(super) is_discarded: [bool; 2],
    /// The first ID that the client sent to (section 7.3).
    pub(super) original: ConnectionId,
    /// The source of the Retry packet, if there was one, and the token that it brought.
    pub(super) retry: Option<ConnectionId>,
    pub(super) token: Box<[u8]>,
    /// What the peer's messages say.
    pub(super) peer: Option<Box<Parameters>>,
    pub(super) began: Time,
    pub(super) took: Option<Duration>,
}

/// Early data (RFC 9001 section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Early {
    /// There is none, or the server has rejected it.
    None,
    /// A server waits for the `ClientHello`, with which it knows.
    Awaited,
    /// A client sends some, and does not know yet what becomes of it.
    Offered,
    /// The server takes it, until then.
    Accepted(Time),
}

impl CryptoStream {
    fn new() -> Self {
        Self { send: SendStream::new(varint::MAX), read: 0, waiting: Ranges::default() }
    }

    /// Takes the data of a frame (section 19.6).
    fn on_data(&mut self, position: u64, length: u64) -> Result<(), Violation> {
        let end = position + length;
        if end > self.read + CRYPTO_BUFFER {
            return Err(violation(code::CRYPTO_BUFFER_EXCEEDED, "the handshake has too large a gap"));
        }
        if end > self.read {
            self.waiting.insert(position.max(self.read), end);
        }
        if let Some((start, end)) = self.waiting.first().filter(|run| run.0 == self.read) {
            self.read = end.max(start);
            self.waiting.pop_first();
        }
        Ok(())
    }
}

impl Handshake {
    pub(super) fn new(now: Time) -> Self {
        Self {
            crypto: [CryptoStream::new(), CryptoStream::new()],
            has_handshake_keys: false,
            early: Early::None,
            is_complete: false,
            is_confirmed: false,
            is_discarded: [false; 2],
            original: ConnectionId::default(),
            retry: None,
            token: Box::default(),
            peer: None,
            began: now,
            took: None,
        }
    }

    /// Whether this end has the keys of a level now.
    pub(super) const fn has_keys(&self, level: Level) -> bool {
        match level {
            Level::Initial => !self.is_discarded[0],
            Level::Handshake => self.has_handshake_keys && !self.is_discarded[1],
            // A server reads nothing before the handshake is complete (RFC 9001 section 5.7).
            Level::OneRtt => self.is_complete,
            Level::ZeroRtt => matches!(self.early, Early::Accepted(_)),
        }
    }

    /// The level of the packets of a space that leave now; [`None`] without keys.
    pub(super) const fn sending_level(&self, id: SpaceId) -> Option<Level> {
        let level = id.level();
        match (level, &self.early) {
            (Level::OneRtt, Early::Offered) if !self.is_complete => Some(Level::ZeroRtt),
            // RFC 9001 section 4.1.1: a server can write before the client has finished. It does so where it
            // has something to answer.
            (Level::OneRtt, Early::Accepted(_)) => Some(level),
            _ if self.has_keys(level) => Some(level),
            _ => None,
        }
    }

    /// Whether the keys of a level are yet to come.
    pub(super) const fn awaits_keys(&self, level: Level) -> bool {
        match level {
            Level::Initial => false,
            Level::ZeroRtt => matches!(self.early, Early::Awaited),
            Level::Handshake => !self.has_handshake_keys,
            Level::OneRtt => !self.is_complete,
        }
    }

    /// The ID to which the client's Initial packets go until the server has named its own; their keys are
    /// made from it (RFC 9001 section 5.2).
    pub(super) fn first(&self) -> ConnectionId {
        self.retry.unwrap_or(self.original)
    }

    /// The place of a space's CRYPTO stream.
    pub(super) const fn place(id: SpaceId) -> Option<usize> {
        match id {
            SpaceId::Initial => Some(0),
            SpaceId::Handshake => Some(1),
            SpaceId::Data(_) => None,
        }
    }
}

impl Connection {
    /// What this end says of itself (RFC 9000 section 18.2).
    pub(super) fn own_parameters(&self) -> Parameters {
        let settings = &self.parameters;
        let is_server = self.side == Side::B;
        let first = self.paths[0].own_ids.first();
        Parameters {
            original_destination: is_server.then_some(self.handshake.original),
            stateless_reset_token: is_server.then(|| self.door.reset_token(first)),
            retry_source: self.handshake.retry.filter(|_| is_server),
            max_idle_timeout: settings.idle_timeout.as_nanos() / 1_000_000,
            ack_delay_exponent: ACK_DELAY_EXPONENT,
            max_ack_delay: settings.ack_rule.delay.as_nanos() / 1_000_000,
            initial_source: Some(first),
            min_ack_delay: settings.min_ack_delay.map(|delay| delay.as_nanos() / 1_000),
            initial_max_path_id: self.greatest_path_id(),
            early_data: self.early_data_said(),
            ..self.limits()
        }
    }

    /// The client begins (RFC 9000 section 7).
    pub(super) fn begin_handshake(&mut self) {
        let Sizes { client_hello, .. } = self.parameters.handshake;
        if self.is_live {
            return;
        }
        self.handshake.crypto[0].send.written += client_hello.0;
    }

    /// A part of the peer's messages has come.
    pub(super) fn on_crypto(
        &mut self,
        now: Time,
        id: SpaceId,
        position: u64,
        length: u32,
    ) -> Result<(), Violation> {
        // After the handshake there are session tickets, from the server, which say nothing here.
        let Some(place) = Handshake::place(id) else { return Ok(()) };
        self.handshake.crypto[place].on_data(position, length.into())?;
        if self.is_live {
            return Ok(());
        }
        let [initial, later] = [0, 1].map(|place: usize| self.handshake.crypto[place].read);
        let Sizes { client_hello, server_hello, client_finished, .. } = self.parameters.handshake;
        if !self.handshake.has_handshake_keys {
            let hello = if self.side == Side::A { server_hello } else { client_hello };
            if initial < hello.0 {
                return Ok(());
            }
            self.handshake.has_handshake_keys = true;
            if self.side == Side::B {
                self.handshake.crypto[0].send.written += server_hello.0;
                self.take_parameters()?;
                let is_accepted = self.accept_early_data();
                let flight = self.flight(is_accepted);
                self.handshake.crypto[1].send.written += flight;
            }
        }
        if self.handshake.is_complete {
            return Ok(());
        }
        let is_accepted =
            self.handshake.peer.as_ref().is_some_and(|peer| peer.early_data == EarlyData::Accepted);
        let last = if self.side == Side::A { self.flight(is_accepted) } else { client_finished.0 };
        if later >= last {
            if self.side == Side::A {
                self.take_parameters()?;
                self.handshake.crypto[1].send.written += client_finished.0;
            }
            self.complete(now);
        }
        Ok(())
    }

    /// The peer's parameters hold from now on (RFC 9000 sections 7.3 and 7.4).
    pub(super) fn take_parameters(&mut self) -> Result<(), Violation> {
        const WRONG: Violation = violation(
            code::TRANSPORT_PARAMETER_ERROR,
            "an ID in the transport parameters is not that of packets",
        );
        let peer = self.handshake.peer.as_deref().cloned().unwrap_or_default();
        if peer.min_ack_delay.is_some_and(|delay| delay > peer.max_ack_delay * 1_000) {
            const REASON: &str = "the least delay of acknowledgements is longer than the longest one";
            return Err(violation(code::TRANSPORT_PARAMETER_ERROR, REASON));
        }
        if peer.initial_max_path_id.is_some() && self.peer_source.len() == 0 {
            // RFC 10069 section 2.1.
            return Err(violation(code::PROTOCOL_VIOLATION, "several paths need connection IDs"));
        }
        if peer.initial_source != Some(self.peer_source) {
            return Err(WRONG);
        }
        if self.side == Side::A {
            let Handshake { original, retry, .. } = self.handshake;
            if peer.original_destination != Some(original) || peer.retry_source != retry {
                return Err(WRONG);
            }
            self.paths[0].peer_ids.set_first_token(peer.stateless_reset_token);
        }
        self.streams.set_limits(&peer);
        self.flow.limit = peer.initial_max_data;
        self.datagram_bytes = u64::from(self.datagram_bytes).min(peer.max_udp_payload_size) as u32;
        self.peer = peer;
        Ok(())
    }

    /// The application may write from now on.
    pub(super) fn open(&mut self) {
        if self.state == State::Opening {
            self.state = State::Open;
            self.outputs.push_back(Output::Event(Event::Connected));
        }
        self.open_main_stream();
    }

    /// Both ends have said everything (RFC 9001 section 4.1.1).
    pub(super) fn complete(&mut self, now: Time) {
        self.handshake.is_complete = true;
        self.handshake.took = Some(now.saturating_since(self.handshake.began));
        self.end_early_data(now);
        self.open();
        self.wants.ack_frequency = self.asks_for_acknowledgements();
        let (limit, length) = (self.peer.active_connection_id_limit, self.parameters.connection_id_bytes);
        let numbers = &mut self.numbers;
        self.paths[0].own_ids.fill(limit, length, numbers);
        self.begin_multipath();
        if self.side == Side::B {
            // Section 4.1.2: for a server it is confirmed at once.
            self.wants.handshake_done = true;
            self.confirm(now);
        }
    }

    /// Both ends know that it is complete (RFC 9001 sections 4.1.2 and 4.9.2).
    pub(super) fn confirm(&mut self, now: Time) {
        if !std::mem::replace(&mut self.handshake.is_confirmed, true) {
            self.discard(now, SpaceId::Initial);
            self.discard(now, SpaceId::Handshake);
        }
    }

    /// The keys of a space are gone, and everything in it is forgotten (RFC 9002 sections 6.2.2 and 6.4).
    pub(super) fn discard(&mut self, _now: Time, id: SpaceId) {
        let Some(place) = Handshake::place(id) else { return };
        if std::mem::replace(&mut self.handshake.is_discarded[place], true) {
            return;
        }
        let congestion = &mut self.paths[0].congestion;
        let space = &mut self.early[place];
        space.forget_sent(congestion);
        space.arrived.on_acknowledged();
        self.paths[0].rtt.end_back_off();
    }
}
