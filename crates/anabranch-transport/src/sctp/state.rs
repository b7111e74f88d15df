//! The states of an association (RFC 9260 section 4), each with what only it has.

use super::receiver::Receiver;
use crate::flow::PathId;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::Cookie;

/// The state of one end.
#[derive(Debug)]
pub(super) enum State {
    Closed(Intent),
    CookieWait(Opening),
    CookieEchoed(Opening, Box<Cookie>, Box<Tcb>),
    Established(Box<Tcb>),
    ShutdownPending(Box<Tcb>),
    ShutdownReceived(Box<Tcb>),
    ShutdownSent(Box<Tcb>, Closing),
    ShutdownAckSent(Box<Tcb>, Closing),
    /// The association has ended. What it had then is kept for accounts, and to recognise its peer.
    Ended(Option<Box<Tcb>>),
}

/// What an end that is not open is to do once it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intent {
    /// Whether the opening follows a restart of the peer.
    pub(super) is_restart: bool,
    /// Whether the application has asked to close.
    pub(super) shuts_down: bool,
}

/// The opening end's side of the handshake.
#[derive(Debug)]
pub(super) struct Opening {
    /// T1-init or T1-cookie, whichever belongs to the state.
    pub(super) t1: Time,
    pub(super) attempts: u32,
    pub(super) path: PathId,
    /// The longer life of cookies that this end asks for.
    pub(super) cookie_preservative: Option<Duration>,
    pub(super) intent: Intent,
}

/// The end of closing, once everything has been acknowledged.
#[derive(Debug)]
pub(super) struct Closing {
    /// T2-shutdown: when it expires, SHUTDOWN or SHUTDOWN ACK is sent again.
    pub(super) t2: Time,
    /// T5-shutdown-guard, which limits the time from the first SHUTDOWN to the end.
    pub(super) t5: Time,
    /// The path on which SHUTDOWN or SHUTDOWN ACK was last sent.
    pub(super) path: PathId,
}

/// The transmission control block (RFC 9260 section 14): what an association has that has a peer.
#[derive(Debug)]
pub(super) struct Tcb {
    pub(super) peer_tag: u32,
    /// Whether NR-SACKs take the place of SACKs.
    pub(super) uses_nr_sacks: bool,
    /// Whether the peer takes FORWARD TSNs (RFC 3758).
    pub(super) takes_forward_tsn: bool,
    pub(super) receiver: Receiver,
}

/// The states of an association that has a peer, or had one when it ended: a pattern.
macro_rules! with_peer {
    ($tcb:ident) => {
        Self::CookieEchoed(_, _, $tcb)
            | Self::Established($tcb)
            | Self::ShutdownPending($tcb)
            | Self::ShutdownReceived($tcb)
            | Self::ShutdownSent($tcb, _)
            | Self::ShutdownAckSent($tcb, _)
            | Self::Ended(Some($tcb))
    };
}

impl State {
    /// What the association has with its peer, or had when it ended.
    #[inline(always)]
    pub(super) const fn tcb(&self) -> Option<&Tcb> {
        match self {
            with_peer!(tcb) => Some(tcb),
            Self::Closed(_) | Self::CookieWait(_) | Self::Ended(None) => None,
        }
    }

    #[inline(always)]
    pub(super) const fn tcb_mut(&mut self) -> Option<&mut Tcb> {
        match self {
            with_peer!(tcb) => Some(tcb),
            Self::Closed(_) | Self::CookieWait(_) | Self::Ended(None) => None,
        }
    }

    #[inline(always)]
    pub(super) fn receiver(&self) -> Option<&Receiver> {
        self.tcb().map(|tcb| &tcb.receiver)
    }

    #[inline(always)]
    pub(super) fn receiver_mut(&mut self) -> Option<&mut Receiver> {
        self.tcb_mut().map(|tcb| &mut tcb.receiver)
    }

    /// The receiving half of an association that still takes data (section 9.2).
    #[inline(always)]
    pub(super) const fn taking_receiver(&mut self) -> Option<&mut Receiver> {
        match self {
            Self::Established(tcb) | Self::ShutdownPending(tcb) | Self::ShutdownSent(tcb, _) => {
                Some(&mut tcb.receiver)
            }
            _ => None,
        }
    }

    /// The tag of packets to the peer; 0 before that is known.
    #[inline(always)]
    pub(super) fn peer_tag(&self) -> u32 {
        self.tcb().map_or(0, |tcb| tcb.peer_tag)
    }

    pub(super) fn uses_nr_sacks(&self) -> bool {
        self.tcb().is_some_and(|tcb| tcb.uses_nr_sacks)
    }

    #[inline]
    pub(super) fn takes_forward_tsn(&self) -> bool {
        self.tcb().is_some_and(|tcb| tcb.takes_forward_tsn)
    }

    pub(super) const fn opening_mut(&mut self) -> Option<&mut Opening> {
        match self {
            Self::CookieWait(opening) | Self::CookieEchoed(opening, ..) => Some(opening),
            _ => None,
        }
    }

    pub(super) const fn closing(&self) -> Option<&Closing> {
        match self {
            Self::ShutdownSent(_, closing) | Self::ShutdownAckSent(_, closing) => Some(closing),
            _ => None,
        }
    }

    pub(super) const fn closing_mut(&mut self) -> Option<&mut Closing> {
        match self {
            Self::ShutdownSent(_, closing) | Self::ShutdownAckSent(_, closing) => Some(closing),
            _ => None,
        }
    }

    /// When the first timer expires that belongs to the state: T1, T2, T5, or that of the SACK.
    #[inline]
    pub(super) fn next_timeout(&self) -> Time {
        let sack = |tcb: &Tcb| tcb.receiver.delayed_sack.timer;
        match self {
            Self::Established(tcb) | Self::ShutdownPending(tcb) | Self::ShutdownReceived(tcb) => sack(tcb),
            Self::CookieWait(opening) | Self::CookieEchoed(opening, ..) => opening.t1,
            Self::ShutdownSent(tcb, closing) | Self::ShutdownAckSent(tcb, closing) => {
                sack(tcb).min(closing.t2).min(closing.t5)
            }
            Self::Closed(_) | Self::Ended(_) => Time::NEVER,
        }
    }

    /// Whether the association is being opened by this end.
    pub(super) const fn is_opening(&self) -> bool {
        matches!(self, Self::CookieEchoed(..) | Self::CookieWait(_))
    }

    #[inline(always)]
    pub(super) const fn is_established(&self) -> bool {
        matches!(self, Self::Established(_))
    }

    pub(super) const fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Whether there is an association, be it one that is being opened or closed.
    pub(super) const fn is_alive(&self) -> bool {
        !matches!(self, Self::Closed(_) | Self::Ended(_))
    }

    /// Whether the application may send messages.
    pub(super) const fn takes_messages(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::CookieEchoed(..) | Self::CookieWait(_) | Self::Established(_))
    }

    /// Whether data is sent, for the first time or again (section 9.2).
    #[inline(always)]
    pub(super) const fn sends_data(&self) -> bool {
        matches!(self, Self::Established(_) | Self::ShutdownPending(_) | Self::ShutdownReceived(_))
    }

    /// Whether ASCONF and RE-CONFIG are exchanged (RFC 5061 section 5.1.1 C4, RFC 6525 section 5.2.1).
    pub(super) const fn takes_requests(&self) -> bool {
        self.sends_data() || matches!(self, Self::ShutdownSent(..))
    }

    /// Goes to a state with the same peer; one without a peer stays as it is.
    pub(super) fn step(&mut self, to: impl FnOnce(Box<Tcb>) -> Self) {
        *self = match std::mem::replace(self, Self::Ended(None)) {
            with_peer!(tcb) => to(tcb),
            without_peer => without_peer,
        }
    }

    /// Opens an association with this peer, and says what was intended.
    pub(super) fn establish(&mut self, tcb: Box<Tcb>) -> Intent {
        match std::mem::replace(self, Self::Established(tcb)) {
            Self::Closed(intent) => intent,
            Self::CookieWait(opening) | Self::CookieEchoed(opening, ..) => opening.intent,
            _ => Intent::default(),
        }
    }

    /// Ends the association.
    pub(super) fn end(&mut self) {
        self.step(|tcb| Self::Ended(Some(tcb)));
        match self {
            Self::Ended(Some(tcb)) => tcb.receiver.delayed_sack.sent(),
            other => *other = Self::Ended(None),
        }
    }
}

impl Opening {
    pub(super) const fn new(path: PathId, intent: Intent) -> Self {
        Self { t1: Time::NEVER, attempts: 0, path, cookie_preservative: None, intent }
    }
}

impl Closing {
    /// No timer runs yet.
    pub(super) const fn new(path: PathId) -> Self {
        Self { t2: Time::NEVER, t5: Time::NEVER, path }
    }
}
