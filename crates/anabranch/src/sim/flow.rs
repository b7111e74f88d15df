//! One flow of a run: its two endpoints, its application, and when each wants to be woken.

use std::collections::VecDeque;

use anabranch_transport::endpoint::{
    Endpoint, HeadOfLine, Input, Output, PathLimit, PathSample, Service, Transmission,
};
use anabranch_transport::ground::PathId;
use anabranch_transport::mptcp;
use anabranch_transport::report::Report;
use anabranch_transport::sctp::Association;
use anabranch_transport::tcp::Connection;
use anabranch_transport::time::Time;
use anabranch_transport::udp::UdpEndpoint;

use super::address_changes::AddressChange;
use crate::app::AnyApp;

/// The transports that there are.
#[derive(Debug)]
pub(super) enum AnyEndpoint {
    Mptcp(Box<mptcp::Connection>),
    Sctp(Box<Association>),
    Tcp(Box<Connection>),
    Udp(UdpEndpoint),
}

impl Endpoint for AnyEndpoint {
    #[inline]
    fn handle_input(&mut self, now: Time, input: Input) {
        match self {
            Self::Mptcp(connection) => connection.handle_input(now, input),
            Self::Sctp(association) => association.handle_input(now, input),
            Self::Tcp(connection) => connection.handle_input(now, input),
            Self::Udp(udp) => udp.handle_input(now, input),
        }
    }

    #[inline]
    fn poll_output(&mut self, now: Time) -> Output {
        match self {
            Self::Mptcp(connection) => connection.poll_output(now),
            Self::Sctp(association) => association.poll_output(now),
            Self::Tcp(connection) => connection.poll_output(now),
            Self::Udp(udp) => udp.poll_output(now),
        }
    }

    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        match self {
            Self::Mptcp(connection) => connection.sample_paths(samples),
            Self::Sctp(association) => association.sample_paths(samples),
            Self::Tcp(connection) => connection.sample_paths(samples),
            Self::Udp(udp) => udp.sample_paths(samples),
        }
    }

    fn sample_limits(&self, now: Time, limits: &mut Vec<PathLimit>) {
        match self {
            Self::Mptcp(connection) => connection.sample_limits(now, limits),
            Self::Sctp(association) => association.sample_limits(now, limits),
            Self::Tcp(connection) => connection.sample_limits(now, limits),
            Self::Udp(udp) => udp.sample_limits(now, limits),
        }
    }

    fn head_of_line(&self) -> Option<HeadOfLine> {
        match self {
            Self::Mptcp(connection) => connection.head_of_line(),
            Self::Sctp(association) => association.head_of_line(),
            Self::Tcp(connection) => connection.head_of_line(),
            Self::Udp(udp) => udp.head_of_line(),
        }
    }

    fn transmission(&self, missing: u64) -> Option<Transmission> {
        match self {
            Self::Mptcp(connection) => connection.transmission(missing),
            Self::Sctp(association) => association.transmission(missing),
            Self::Tcp(connection) => connection.transmission(missing),
            Self::Udp(udp) => udp.transmission(missing),
        }
    }

    fn report(&self, report: &mut Report<'_>) {
        match self {
            Self::Mptcp(connection) => connection.report(report),
            Self::Sctp(association) => association.report(report),
            Self::Tcp(connection) => connection.report(report),
            Self::Udp(udp) => udp.report(report),
        }
    }
}

impl AnyEndpoint {
    /// What it offers its application.
    pub(super) fn service(&self) -> Service {
        match self {
            Self::Mptcp(_) | Self::Tcp(_) => Service::Stream,
            Self::Sctp(association) => association.service(),
            Self::Udp(_) => Service::Datagrams,
        }
    }

    /// Lets the addresses of side A come and go; these paths are not there at first.
    ///
    /// # Errors
    /// When the transport cannot do that, or its primary path is not there: one sentence.
    pub(super) fn enable_reconfiguration(&mut self, absent: &[PathId]) -> Result<(), String> {
        match self {
            Self::Mptcp(connection) => connection.enable_reconfiguration(absent),
            Self::Sctp(association) => association.enable_reconfiguration(absent),
            Self::Tcp(_) | Self::Udp(_) => Err(format!(
                "addresses: over \"{}\" they cannot change; use \"mptcp\" or \"sctp\"",
                self.protocol()
            )),
        }
    }

    /// Whether it can talk to this one: MPTCP falls back to TCP (RFC 8684 section 3.1).
    pub(super) fn understands(&self, peer: &Self) -> bool {
        match (self, peer) {
            (Self::Mptcp(_), Self::Tcp(_)) | (Self::Tcp(_), Self::Mptcp(_)) => true,
            _ => self.protocol() == peer.protocol(),
        }
    }

    pub(super) fn protocol(&self) -> &'static str {
        match self {
            Self::Mptcp(_) => "mptcp",
            Self::Sctp(_) => "sctp",
            Self::Tcp(_) => "tcp",
            Self::Udp(_) => "udp",
        }
    }
}

/// A wake-up in the event queue that is moved lazily: a timer that is put off leaves its event where it is,
/// and the event arms the timer again when it comes up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    /// When the owner wants to be woken.
    wanted: Time,
    /// The time of the earliest event in the queue for it.
    armed: Time,
}

impl Alarm {
    pub(super) const OFF: Self = Self { wanted: Time::NEVER, armed: Time::NEVER };

    /// The owner wants to be woken at `wanted` and at no other time. Returns the time for which an
    /// event must be scheduled, if one must.
    pub(super) fn set(&mut self, wanted: Time) -> Option<Time> {
        self.wanted = wanted;
        if wanted < self.armed {
            self.armed = wanted;
            Some(wanted)
        } else {
            None
        }
    }

    /// An event of this alarm has come up.
    pub(super) fn ring(&mut self, now: Time) -> Ring {
        if now != self.armed {
            return Ring::Stale;
        }
        self.armed = Time::NEVER;
        if self.wanted <= now {
            self.wanted = Time::NEVER;
            return Ring::Due;
        }
        self.armed = self.wanted;
        if self.wanted.is_never() { Ring::Stale } else { Ring::Later(self.wanted) }
    }
}

/// What an alarm's event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    /// Wake the owner.
    Due,
    /// Schedule an event for this time instead.
    Later(Time),
    /// Nothing: an earlier event has taken this one's place.
    Stale,
}

/// One flow of a run.
pub(super) struct Flow {
    pub(super) endpoints: [AnyEndpoint; 2],
    pub(super) timers: [Alarm; 2],
    pub(super) app: AnyApp,
    pub(super) app_alarm: Alarm,
    /// What becomes of the addresses of side A, the next one first.
    pub(super) address_changes: VecDeque<AddressChange>,
    /// Whether the application was done when it was last called.
    pub(super) is_done: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_is_put_off_needs_no_new_event() {
        let at = Time::from_secs;
        let mut alarm = Alarm::OFF;
        assert_eq!(alarm.set(at(5)), Some(at(5)));
        assert_eq!(alarm.set(at(7)), None);
        assert_eq!(alarm.ring(at(5)), Ring::Later(at(7)));
        assert_eq!(alarm.set(at(6)), Some(at(6)));
        assert_eq!(alarm.ring(at(6)), Ring::Due);
        assert_eq!(alarm.ring(at(7)), Ring::Stale);
        assert_eq!(alarm.set(at(8)), Some(at(8)));
        assert_eq!(alarm.set(Time::NEVER), None);
        assert_eq!(alarm.ring(at(8)), Ring::Stale);
        assert_eq!(alarm.set(at(9)), Some(at(9)));
    }
}
