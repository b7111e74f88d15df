//! Early data, 0-RTT (RFC 9001 section 4.6, RFC 9000 section 7.4.1): what a client sends with its first
//! packets, and what becomes of it. There are no tickets: the client remembers the server to be as it is
//! itself.

use super::application::Pending;
use super::config::Handshake as Sizes;
use super::connection::Connection;
use super::connection_ids::MOST as MOST_IDS;
use super::handshake::Early;
use super::sent_packets::Content;
use super::space::SpaceId;
use crate::flow::Side;
use crate::time::Time;
use crate::wire::quic::{EarlyData, Parameters};

/// RFC 9221 section 3: any frame that fits into a packet.
const DATAGRAM_FRAME_BYTES: u64 = 65_535;

/// The limits as numbers that must not become less.
const fn numbers(limits: &Parameters) -> [u64; 8] {
    [
        limits.initial_max_data,
        limits.initial_max_stream_data_bidi_local,
        limits.initial_max_stream_data_bidi_remote,
        limits.initial_max_stream_data_uni,
        limits.initial_max_streams_bidi,
        limits.initial_max_streams_uni,
        limits.active_connection_id_limit,
        limits.max_datagram_frame_size,
    ]
}

impl Connection {
    /// What an end permits its peer at first, and what a client remembers of it: nothing that is of one
    /// connection (RFC 9000 section 7.4.1).
    pub(super) fn limits(&self) -> Parameters {
        let settings = &self.parameters;
        Parameters {
            initial_max_data: settings.max_data,
            initial_max_stream_data_bidi_local: settings.max_stream_data,
            initial_max_stream_data_bidi_remote: settings.max_stream_data,
            initial_max_stream_data_uni: settings.max_stream_data,
            initial_max_streams_bidi: settings.max_streams,
            initial_max_streams_uni: settings.max_streams,
            active_connection_id_limit: MOST_IDS,
            max_datagram_frame_size: if settings.datagrams { DATAGRAM_FRAME_BYTES } else { 0 },
            ..Parameters::default()
        }
    }

    /// A client begins to send, if it has what it takes.
    pub(super) fn offer_early_data(&mut self) {
        if self.is_live || self.parameters.early_data.is_none() {
            return;
        }
        self.handshake.early = Early::Offered;
        let remembered = self.limits();
        self.streams.set_limits(&remembered);
        self.flow.limit = remembered.initial_max_data;
        self.peer = remembered;
        self.open();
    }

    /// What this end's message says about early data.
    pub(super) fn early_data_said(&self) -> EarlyData {
        match self.handshake.early {
            Early::Offered => EarlyData::Offered(Box::new(self.limits())),
            Early::Accepted(_) if self.side == Side::B => EarlyData::Accepted,
            _ => EarlyData::None,
        }
    }

    /// The `ClientHello` has come: whether the server takes early data. It does not if one of its limits is
    /// lower than the client remembers (RFC 9000 section 7.4.1).
    pub(super) fn accept_early_data(&mut self) -> bool {
        let own = numbers(&self.limits());
        let is_accepted = match &self.peer.early_data {
            EarlyData::Offered(remembered) if self.handshake.early == Early::Awaited => {
                numbers(remembered).iter().zip(own).all(|(remembered, own)| *remembered <= own)
            }
            _ => false,
        };
        self.handshake.early = Early::None;
        if is_accepted {
            self.handshake.early = Early::Accepted(Time::NEVER);
            self.open();
        }
        is_accepted
    }

    /// How much the server says in Handshake packets: who knows a ticket is shown no certificate (RFC 8446
    /// section 2.2).
    pub(super) fn flight(&self, is_accepted: bool) -> u64 {
        let Sizes { certificate, server_rest, .. } = self.parameters.handshake;
        if is_accepted { server_rest.0 } else { certificate.0 + server_rest.0 }
    }

    /// The handshake is complete. A client hears what has become of its early data; a server reads it for
    /// three probe timeouts more, since packets may be late (RFC 9001 section 4.9.3).
    pub(super) fn end_early_data(&mut self, now: Time) {
        match self.handshake.early {
            Early::Offered if self.peer.early_data == EarlyData::Accepted => {
                self.handshake.early = Early::None;
                self.streams.raise_limits();
            }
            Early::Offered => {
                self.handshake.early = Early::None;
                self.reject_early_data();
            }
            Early::Accepted(_) => {
                self.handshake.early = Early::Accepted(now + self.probe_timeout(0) * 3);
            }
            Early::Awaited | Early::None => {}
        }
    }

    /// Whether early data may still be read.
    pub(super) fn reads_early_data(&self, now: Time) -> bool {
        matches!(self.handshake.early, Early::Accepted(until) if now < until)
    }

    /// Everything that was sent is forgotten, and all streams begin anew, under the limits of now (RFC 9001
    /// section 4.6.2). Messages are lost.
    fn reject_early_data(&mut self) {
        let path = &mut self.paths[0];
        let contents = path.space.forget_sent(&mut path.congestion);
        for message in contents.into_iter().filter(|content| matches!(content, Content::Datagram(_))) {
            self.on_content_lost(SpaceId::Data(0), message, false);
        }
        let rejected = self.flow.sent;
        self.flow.sent = 0;
        self.flow.blocked_at = None;
        self.stats.early_bytes_rejected += rejected;
        self.stats.bytes_sent -= rejected;
        for (id, written, is_finished) in self.streams.begin_anew() {
            self.pending.insert(id, Pending { written, is_finished });
        }
    }

    /// What was sent is sent again, as after a Retry packet.
    pub(super) fn send_early_data_again(&mut self) {
        let path = &mut self.paths[0];
        for content in path.space.forget_sent(&mut path.congestion) {
            self.on_content_lost(SpaceId::Data(0), content, false);
        }
    }
}
