//! A path, in two layers. The path ID owns packet numbers, round trips, congestion control and connection
//! IDs; inside of it are the addresses, which are validated and may change (RFC 9000 sections 8 and 9).

use arrayvec::ArrayVec;

use super::congestion::Congestion;
use super::connection_ids::{OwnIds, PeerIds};
use super::ecn::EcnValidation;
use super::parameters::Parameters;
use super::space::Space;
use crate::cc::Controller;
use crate::flow::{Ecn, PathId};
use crate::observed::{Marks, Repairs};
use crate::recovery::rtt::Rtt;
use crate::time::Time;

/// Where a path ID is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// IDs have been issued for it.
    #[default]
    Unused,
    /// Packets go there.
    Open,
    /// Nothing is sent there any more, and its ID is never used again (section 3.4).
    Abandoned,
}

/// What is to be told of a path, and has been.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// The code with which it is given up, until that is sent.
    pub(super) abandon: Option<u64>,
    /// Whether the peer is to hear the latest wish of this end.
    pub(super) status: bool,
    /// How many wishes this end has had, and whether by the latest one the path is a backup.
    pub(super) own_wish: (u64, bool),
    /// The latest wish of the peer that has come: its number, and whether the path is a backup.
    pub(super) wish: Option<(u64, bool)>,
}

/// What a path ID owns. There is one, number 0, without multipath.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) standing: Standing,
    /// Whether the path is known to work in both directions: the handshake has passed, or it was validated.
    pub(super) is_ready: bool,
    pub(super) news: News,
    pub(super) repairs: Repairs,
    pub(super) marks: Marks,
    /// When a packet came last.
    pub(super) heard_at: Time,
    /// Bytes of UDP payload that were sent and that came.
    pub(super) traffic: [u64; 2],
    /// The place of the path on which its packets were acknowledged last.
    pub(super) acknowledged_on: usize,
    pub(super) space: Space,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    pub(super) ecn: EcnValidation,
    pub(super) own_ids: OwnIds,
    pub(super) peer_ids: PeerIds,
    pub(super) route: Route,
    /// The addresses before these, if they were validated: the way back (RFC 9000 section 9.3.2).
    pub(super) previous: Option<Route>,
    /// The answer to a challenge that came on another pair of addresses, and how long a datagram it may have.
    pub(super) answer: Option<(Address, [u8; 8], u32)>,
}

impl Path {
    /// A path ID without packets, whose addresses are not known yet.
    pub(super) fn new(
        parameters: &Parameters,
        control: Controller,
        datagram: u32,
        standing: Standing,
    ) -> Self {
        let mark = match (parameters.ecn, parameters.is_l4s) {
            (false, _) => Ecn::NotEct,
            (true, false) => Ecn::Ect0,
            (true, true) => Ecn::Ect1,
        };
        Self {
            standing,
            is_ready: standing == Standing::Open,
            news: News::default(),
            repairs: Repairs::default(),
            marks: Marks::default(),
            heard_at: Time::ZERO,
            traffic: [0; 2],
            acknowledged_on: 0,
            space: Space::default(),
            rtt: parameters.rtt(),
            congestion: Congestion::new(control, datagram, parameters.pace, parameters.burst),
            ecn: EcnValidation::new(mark),
            own_ids: OwnIds::default(),
            peer_ids: PeerIds::default(),
            route: Route::new(Address { network: PathId(0), port: 0, host: 0 }, false),
            previous: None,
            answer: None,
        }
    }

    /// This end wants the path to be a backup, or not, and the peer is to hear so (RFC 10069 section 3.3).
    pub(super) fn wish(&mut self, is_backup: bool) {
        self.news.own_wish = (self.news.own_wish.0 + 1, is_backup);
        self.news.status = true;
    }

    /// When a challenge is due, or a validation fails.
    pub(super) fn next_challenge(&self) -> Time {
        let routes = [Some(&self.route), self.previous.as_ref()];
        let times = routes.into_iter().flatten().filter_map(|route| Some(route.challenge.as_ref()?.next));
        times.min().unwrap_or(Time::NEVER)
    }

    /// Whether frames wait that go on its own addresses.
    pub(super) fn has_validation_to_send(&self) -> bool {
        self.route.response.is_some()
            || self.route.challenge.as_ref().is_some_and(|challenge| challenge.due.is_some())
    }

    /// Whether frames about it wait, which may go on any path.
    pub(super) fn has_news_to_send(&self) -> bool {
        !self.own_ids.to_announce.is_empty()
            || !self.peer_ids.to_retire.is_empty()
            || self.news.abandon.is_some()
            || self.has_status_to_send()
    }

    /// Whether the peer is to hear a wish: who does not know the path yet may ignore it, as noq does.
    pub(super) fn has_status_to_send(&self) -> bool {
        self.news.status && self.is_ready
    }
}

/// Where the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The pair of addresses between which packets go.
    pub(super) network: PathId,
    /// The peer's port.
    pub(super) port: u16,
    /// Which of its addresses there the client has, behind NATs ([`Datagram::client_host`]).
    ///
    /// [`Datagram::client_host`]: crate::wire::quic::Datagram::client_host
    pub(super) host: u8,
}

/// An end on a path as its peer sees it, through a NAT if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside {
    pub(super) port: u16,
    /// See [`Address::host`].
    pub(super) host: u8,
}

impl Outside {
    /// Addresses that a NAT has: enough that none comes back soon.
    const MOST_HOSTS: u8 = 100;
    /// The first dynamic port (RFC 6335 section 6).
    const FIRST_PORT: u16 = 49_152;

    /// The NAT has forgotten the end, and gives it the next port, or the next address.
    pub(super) fn rebind(&mut self, takes_address: bool) {
        if takes_address {
            self.host = self.host % Self::MOST_HOSTS + 1;
        } else {
            self.port = self.port.checked_add(1).unwrap_or(Self::FIRST_PORT);
        }
    }
}

/// The addresses that a path uses at present.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) address: Address,
    /// Whether the peer is known to receive there (RFC 9000 section 8).
    pub(super) is_validated: bool,
    /// Bytes of UDP payload that came before the address was validated, and that went (section 8.1).
    received: u64,
    sent: u64,
    /// What a `PATH_RESPONSE` has to carry that waits to be sent; of several challenges the last one is
    /// answered (CVE-2023-49295).
    pub(super) response: Option<[u8; 8]>,
    /// The validation in progress.
    pub(super) challenge: Option<Challenge>,
}

/// Challenges of one validation, a probe timeout apart: it is given up after three (section 8.2.4).
const MOST_CHALLENGES: usize = 3;
/// A validation in progress.
#[derive(Debug)]
pub(super) struct Challenge {
    /// What was sent; a response to any of them counts (section 8.2.3).
    pub(super) sent: ArrayVec<[u8; 8], MOST_CHALLENGES>,
    /// When the next one is due, or the validation is given up.
    pub(super) next: Time,
    /// What is to be sent.
    pub(super) due: Option<[u8; 8]>,
}

/// How much more may be sent than came, before an address is validated (section 8.1).
pub(super) const AMPLIFICATION: u64 = 3;

impl Route {
    pub(super) const fn new(address: Address, is_validated: bool) -> Self {
        Self { address, is_validated, received: 0, sent: 0, response: None, challenge: None }
    }

    /// The same with nothing to send.
    pub(super) fn at_rest(self) -> Self {
        Self { challenge: None, response: None, ..self }
    }

    pub(super) fn on_received(&mut self, bytes: u32) {
        self.received += u64::from(bytes);
    }

    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.sent += u64::from(bytes);
    }

    /// How many bytes may be sent now.
    pub(super) fn allowance(&self) -> u64 {
        if self.is_validated { u64::MAX } else { (AMPLIFICATION * self.received).saturating_sub(self.sent) }
    }
}
